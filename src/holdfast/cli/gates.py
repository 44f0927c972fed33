"""A run's gates as people and programs see them: what is asked, what is shown, how it was decided."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from holdfast.cli import moments
from holdfast.cli.rows import cut_lines
from holdfast.cli.terminal import Line, clean
from holdfast.cli.values import shown_text as shown_text

_DIGEST_CHARS = 6


class GateView(msgspec.Struct, frozen=True):
    """One gate. Without an outcome it is open. `shown` is JSON data, redacted."""

    run_id: str
    key: str
    kind: str
    title: str
    digest: str
    shown: Any
    opened: datetime
    until: datetime | None = None
    outcome: str = ""
    by: str = ""
    comment: str = ""
    decided: datetime | None = None

    @property
    def is_open(self) -> bool:
        return not self.outcome

    @property
    def place(self) -> str:
        """Its identity, with the beginning of the digest of what an approval shows."""
        return f"{self.key}@{self.digest[:_DIGEST_CHARS]}" if self.digest else self.key

    @property
    def wants(self) -> str:
        """What it waits for, in words."""
        return f"a decision: {self.title}" if self.kind == "approval" else f"the signal {self.title}"

    def ways(self) -> Iterator[tuple[str, str]]:
        """(command, what it does) for each answer."""
        if self.kind == "approval":
            yield f"holdfast approve {self.run_id} {shlex.quote(self.place)}", "approves what it shows"
            yield f"holdfast reject {self.run_id} {shlex.quote(self.place)}", "rejects it"
        else:
            yield f"holdfast signal {self.run_id} {shlex.quote(self.title)} VALUE", "gives it the value"

    def decision(self) -> str:
        return decision_text(self.outcome, self.by, self.comment)


def decision_text(outcome: str, by: str, comment: str) -> str:
    """Such as `rejected by ann: too long`."""
    return outcome + (f" by {by}" if by else "") + (f": {comment}" if comment else "")


def gate_fields(gate: GateView) -> dict[str, Any]:
    """The stable fields of a gate in JSON."""
    return {
        "key": gate.key,
        "kind": gate.kind,
        "title": gate.title,
        "digest": gate.digest or None,
        "status": "open" if gate.is_open else "decided",
        "outcome": gate.outcome or None,
        "by": gate.by or None,
        "comment": gate.comment or None,
        "shown": gate.shown,
        "opened_at": gate.opened.isoformat(),
        "until": gate.until.isoformat() if gate.until else None,
        "decided_at": gate.decided.isoformat() if gate.decided else None,
    }


def heading(gate: GateView) -> str:
    """Title, identity and, if there is one, the end of its time, or how it was decided."""
    title = clean(gate.title) if gate.kind == "approval" else f"signal {clean(gate.title)}"
    place = f"  {clean(gate.place)}" if gate.place != gate.title else ""
    if not gate.is_open:
        when = f" {moments.ago(gate.decided)}" if gate.decided else ""
        return f"{title}{place}  {clean(gate.decision())}{when}"
    return f"{title}{place}" + (f"  until {moments.stamp(gate.until)}" if gate.until else "")


def shown_lines(gate: GateView, width: int, most: int | None, hint: str) -> Iterator[Line]:
    """What an approval shows, at most so many lines of it; `hint` says how to see the rest."""
    return cut_lines(shown_text(gate.shown), width, most, hint)
