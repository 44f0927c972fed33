"""The result of a search: hits in pages, each with the place where the words stand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from holdfast.json_view import View
from holdfast.ways import Way

Marks = tuple[tuple[int, int], ...]
"""Where hits are in a text: [start, end) in characters, in order, none over another."""


FAMILIES = ("tasks", "runs", "memory", "events")


class SearchHit(View, frozen=True):
    """One item that fits, redacted. `JSON` says what each field is."""

    family: str
    id: str
    kind: str
    status: str
    at: datetime
    title: str
    title_marks: Marks = ()
    snippet: str = ""
    snippet_marks: Marks = ()
    version: int = 0
    step: str = ""
    number: int = 0

    JSON: ClassVar = {
        "family": "`tasks`, `runs`, `memory` or `events`",
        "id": "of the task, the run or the memory; of an event, that of its run",
        "kind": "`task`, `run`; of a memory its kind; of an event `step`, `error`, `doubt`, `settled`, "
        "`gate`, `decision`, `emitted`, `signal`, `stage`, `checkpoint`, `attention`, `paused` or "
        "`cancelled`",
        "status": "of a task or a run; of a memory `current`, `superseded` or `withdrawn`; of an event, that "
        "of its run; a run may be `interrupted`",
        "at": "when it last changed",
        "title": "its name, on one line",
        "title_marks": "where hits are in the title: a list of [start, end), in characters",
        "snippet": "the part of its text with the first hit, on one line",
        "snippet_marks": "the same for the snippet",
        "version": "of an event: its place in the run; else null",
        "step": "of an event: the step that it is about; else null",
        "number": "the short number of the task or the run; of a memory null",
    }
    JSON_NULL: ClassVar = ("version", "step", "number")

    @property
    def way(self) -> Way | None:
        """The command that shows it; None for a memory, whose text is the hit."""
        if self.family == "memory":
            return None
        if self.family == "tasks":
            return Way("task show", self.id)
        return Way("show", self.id, {"step": self.step} if self.step else {})


class SearchPage(View, frozen=True):
    """Hits, the best first, and the cursor of the next page; it is empty at the end."""

    hits: Sequence[SearchHit]
    after: str = ""

    JSON: ClassVar = {
        "hits": "the best first; without a query, the newest first",
        "after": "the cursor of the next page, for `--after`; empty if there is none",
    }
