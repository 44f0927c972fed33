"""Memories, and who wrote to a task, as the store in memory has them: plain folds, filtered in Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.kernel.author import NOBODY
from holdfast.kernel.memory import Memory, fold
from holdfast.store.port import MemoryFilter, Recorded


def memories(
    recorded: Iterable[Recorded], which: MemoryFilter, before: int, limit: int | None
) -> list[Memory]:
    """The answer of `Store.memories` for these events."""
    every = reversed(list(fold(recorded)))
    return [one for one in every if which.lets_through(one) and (not before or one.version < before)][:limit]


def is_written_by(recorded: Iterable[Recorded], run_ids: Sequence[str]) -> bool:
    """Whether one of these runs is the author of one of these events."""
    authors = (getattr(one.event, "author", NOBODY) for one in recorded)
    return any(author.run in run_ids for author in authors if author.run)
