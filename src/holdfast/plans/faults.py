"""Faults of a plan: where each is, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from holdfast.json_view import View
from holdfast.spelling import did_you_mean


class Fault(View, frozen=True, order=True):
    """One fault, or a remark: a plan with remarks can run.

    line, column  from 1; 0 for an input that was given outside the file
    file          the file that it is in, if it is that of a sub-plan
    """

    file: str
    line: int
    column: int
    text: str
    remark: bool = False

    JSON: ClassVar = {
        "file": "the file of a sub-plan; empty for the plan's own",
        "line": "the line, from 1; 0 for an input that was given outside the file",
        "column": "the column, from 1",
        "text": "what is wrong, and what to write instead",
        "remark": "true if the plan can run all the same",
    }

    def __str__(self) -> str:
        place = f"{self.file}:" if self.file else ""
        return (
            f"{place}{self.line}:{self.column}: {self.text}" if self.line else f"{place} {self.text}".strip()
        )


def nearest(name: str, there_are: Iterable[str]) -> str:
    """`; did you mean X?`, or what there is instead, or nothing."""
    names = list(there_are)
    known = f"there is {', '.join(map(_quoted, names))}" if 0 < len(names) <= 8 else ""
    hint = did_you_mean(name, names, known, written=_quoted)
    return f"; {hint}" if hint else ""


def _quoted(name: str) -> str:
    return f"`{name}`"
