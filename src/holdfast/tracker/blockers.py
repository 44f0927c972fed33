"""The tasks that a task needs, read so that a decision in the same transaction can rely on them.

`blockers` has the ids and the version of the links at which they count. A command that names
`sources(version, ids)` gets the links that came after that version, and the streams of those tasks: if there
are newer links, it decides nothing, and asks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.kernel import links
from holdfast.kernel import task as tasks
from holdfast.store.port import Recorded, Source
from holdfast.tracker.tracker import Tracker


class OpenTask(NamedTuple):
    """A task that is neither completed nor archived."""

    id: str
    name: str
    status: str

    def __str__(self) -> str:
        return f"{self.id[:8]} ({self.name}), which is {self.status}"


def blockers(tracker: Tracker, task: str) -> tuple[int, list[str]]:
    """The tasks that a task needs, and the version of the links at which it does."""
    version, found = tracker.store.links_of(task)
    return version, [link.on for link in found if link.kind == "blocks"]


def sources(version: int, needed: Sequence[str]) -> list[Source]:
    """The links after that version, and the tasks."""
    return [Source(links.STREAM, version), *(Source(tasks.stream_of(one)) for one in needed)]


def open_of(needed: Sequence[str], recorded: Sequence[Sequence[Recorded]]) -> list[OpenTask]:
    """The tasks among them that are open, by what their streams have."""
    found = ((one, tasks.fold(events)) for one, events in zip(needed, recorded, strict=True))
    return [
        OpenTask(one, state.fields.name, state.fields.status)
        for one, state in found
        if state is not None and not state.settled
    ]
