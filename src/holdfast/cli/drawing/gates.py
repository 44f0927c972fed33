"""How gates are drawn: a heading, and what an approval shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.cli.drawing import moments
from holdfast.cli.drawing.rows import cut_lines
from holdfast.cli.drawing.terminal import Line, clean
from holdfast.cli.drawing.values import shown_text

if TYPE_CHECKING:
    from holdfast.views.gate import Gate


def heading(gate: Gate) -> str:
    """Title, identity and, if there is one, the end of its time, or how it was decided."""
    title = clean(gate.title) if gate.kind == "approval" else f"signal {clean(gate.title)}"
    place = f"  {clean(gate.place)}" if gate.place != gate.title else ""
    if not gate.is_open:
        when = f" {moments.ago(gate.decided_at)}" if gate.decided_at else ""
        return f"{title}{place}  {clean(gate.decision)}{when}"
    return f"{title}{place}" + (f"  until {moments.stamp(gate.until)}" if gate.until else "")


def shown_lines(gate: Gate, width: int, most: int | None, hint: str) -> Iterator[Line]:
    """The content of an approval, at most so many lines of it; `hint` says how to see the rest."""
    return cut_lines(shown_text(gate.shown), width, most, hint)
