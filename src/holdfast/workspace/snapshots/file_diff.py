"""A path that differs between two snapshots, as data for people and programs."""

from __future__ import annotations

from typing import ClassVar

from holdfast.json_view import View
from holdfast.workspace.snapshots.changes import NO_TEXT


class FileDiff(View, frozen=True):
    """One path that differs: `added`, `removed`, `modified`, `mode` or `type`; `text` is a unified diff."""

    path: str
    change: str
    text: str

    JSON: ClassVar = {
        "path": "from the root of the workspace",
        "change": "`added`, `removed`, `modified`, `mode` or `type`",
        "diff": "a unified diff",
    }
    JSON_FROM: ClassVar = {"diff": "text"}

    def lines(self) -> tuple[int, int] | None:
        """How many lines were added and removed; None for what is compared as a whole."""
        _, *body = self.text.split("\n")
        if body and body[0] == NO_TEXT:
            return None
        hunks = body[2:]  # below the two names
        return sum(line[:1] == "+" for line in hunks), sum(line[:1] == "-" for line in hunks)
