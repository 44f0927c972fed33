"""A session as the tracker shows it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import msgspec

from holdfast.clock import instant, optional_instant
from holdfast.store.tracker_port import SessionRow
from holdfast.views.records import iso


class WorkSession(msgspec.Struct, frozen=True):
    """The work of one person or agent from its start to its end; `ended_at` is None while it is open."""

    id: str
    actor: str
    started_at: datetime
    ended_at: datetime | None = None
    summary: str = ""

    JSON: ClassVar = {
        "id": "of the session",
        "actor": "who works in it",
        "started_at": "when it began",
        "ended_at": "when it ended; null while it is open",
        "duration_seconds": "from its start to its end; null while it is open",
        "summary": "what was done, or null",
    }

    @classmethod
    def of(cls, row: SessionRow) -> WorkSession:
        ended = optional_instant(row.ended_at)
        return cls(row.id, row.actor, instant(row.started_at), ended, row.summary)

    @property
    def is_open(self) -> bool:
        return self.ended_at is None

    def to_json(self) -> dict[str, Any]:
        took = None if self.ended_at is None else (self.ended_at - self.started_at).total_seconds()
        return {
            "id": self.id,
            "actor": self.actor,
            "started_at": self.started_at.isoformat(),
            "ended_at": iso(self.ended_at),
            "duration_seconds": took,
            "summary": self.summary or None,
        }
