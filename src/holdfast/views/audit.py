"""The result of checking a log against its hashes, and of making its tables again."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from holdfast.store.port import Fault


class Audit(msgspec.Struct, frozen=True):
    """How much a log holds, and every place in it that does not verify."""

    streams: int
    events: int
    faults: tuple[Fault, ...] = ()

    JSON: ClassVar = {
        "ok": "whether all of it verifies",
        "streams": "how many streams there are",
        "events": "how many events",
        "faults": "each place that does not verify: `stream` (empty: the database), `version` (0: all of "
        "it), `what`",
    }

    @property
    def ok(self) -> bool:
        return not self.faults

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "streams": self.streams,
            "events": self.events,
            "faults": [
                {"stream": one.stream, "version": one.version, "what": one.what} for one in self.faults
            ],
        }


class Repaired(msgspec.Struct, frozen=True):
    """The tables were made again; `audit` is how the log was then."""

    audit: Audit

    JSON: ClassVar = {
        "ok": "whether log and tables verify now",
        "events": "from how many events the tables were made",
        "faults": "how many faults the log itself has",
    }

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.audit.ok, "events": self.audit.events, "faults": len(self.audit.faults)}
