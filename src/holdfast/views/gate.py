"""A gate of a run: what is asked, what is shown, how it was decided."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import msgspec

from holdfast.views.records import iso
from holdfast.ways import VALUE, Way

_DIGEST_CHARS = 6


class Gate(msgspec.Struct, frozen=True):
    """An approval or a signal that a run waits for, or waited for. Without an outcome it is open.

    title   of an approval; the name of a signal
    digest  of what an approval shows
    shown   what it shows, as JSON data
    since   when it was opened
    until   when it is left unanswered, if ever
    """

    run_id: str
    key: str
    kind: str
    title: str
    digest: str
    shown: Any
    since: datetime
    until: datetime | None = None
    outcome: str = ""
    by: str = ""
    comment: str = ""
    decided_at: datetime | None = None

    JSON: ClassVar = {
        "key": "its identity in the run",
        "kind": "`approval` or `signal`",
        "title": "the approval's title, or the signal's name",
        "digest": "of what an approval shows, for `approve RUN KEY@DIGEST`; null for a signal",
        "status": "`open` or `decided`",
        "outcome": "null while it is open; then `approved`, `rejected`, `received`, `unanswered`, or "
        "`abandoned` "
        "if the code gave it up",
        "by": "who decided, or null",
        "comment": "why, or null",
        "shown": "what an approval shows, also after its decision; tagged as a result is",
        "opened_at": "when it was opened",
        "until": "when it is left unanswered; null if never",
        "decided_at": "when it was decided, or null",
    }

    @property
    def is_open(self) -> bool:
        return not self.outcome

    @property
    def place(self) -> str:
        """Its identity, with the beginning of the digest of what an approval shows."""
        return f"{self.key}@{self.digest[:_DIGEST_CHARS]}" if self.digest else self.key

    @property
    def wants(self) -> str:
        """The decision or signal that it waits for, in words."""
        return f"a decision: {self.title}" if self.kind == "approval" else f"the signal {self.title}"

    @property
    def decision(self) -> str:
        """Such as `rejected by ann: too long`."""
        return decision_text(self.outcome, self.by, self.comment)

    def ways(self) -> list[Way]:
        """One for each answer."""
        if self.kind == "approval":
            return [
                Way("approve", self.run_id, self._seen(), "approves what it shows"),
                Way("reject", self.run_id, self._seen(), "rejects it"),
            ]
        return [Way("signal", self.run_id, {"name": self.title, "value": VALUE}, "gives it the value")]

    def _seen(self) -> dict[str, Any]:
        return {"gate": self.key, **({"digest": self.digest[:_DIGEST_CHARS]} if self.digest else {})}

    def to_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "kind": self.kind,
            "title": self.title,
            "digest": self.digest or None,
            "status": "open" if self.is_open else "decided",
            "outcome": self.outcome or None,
            "by": self.by or None,
            "comment": self.comment or None,
            "shown": self.shown,
            "opened_at": self.since.isoformat(),
            "until": iso(self.until),
            "decided_at": iso(self.decided_at),
        }


def decision_text(outcome: str, by: str, comment: str) -> str:
    """Such as `rejected by ann: too long`."""
    return outcome + (f" by {by}" if by else "") + (f": {comment}" if comment else "")
