"""Faults of a plan: where each is, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from holdfast.json_view import View
from holdfast.kernel.naming import nearest as most_like


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


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or what there is instead, or nothing."""
    names = list(known)
    near = most_like(name, names, most=1, cutoff=0.6)
    if near:
        return f"; did you mean `{near[0]}`?"
    return f"; there is {', '.join(f'`{one}`' for one in names)}" if 0 < len(names) <= 8 else ""
