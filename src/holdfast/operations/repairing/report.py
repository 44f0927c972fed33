"""The report of a repair: findings, actions, losses."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final

import msgspec

from holdfast.json_view import View
from holdfast.project import DATABASE
from holdfast.ways import Way

FILE: Final = "report.json"
"""The name of the report in the directory that keeps the files."""


class Finding(View, frozen=True):
    """One thing that is not as it should be, and what `repair` does about it."""

    place: str
    what: str
    action: str = ""

    JSON: ClassVar = {
        "place": "the file or the stream",
        "what": "what is wrong with it, in words",
        "action": "what is done about it, or with `--dry-run` would be; empty if nothing is",
    }


MISSING: Final = Finding(DATABASE, "it is missing or empty", "the log is written anew from its other copies")
"""The finding for a store without a database."""


class LostPart(View, frozen=True):
    """Versions `first` to `last` of a stream that no copy had. `once` are steps with that effect which may
    have happened there."""

    stream: str
    first: int
    last: int
    what: str
    once: tuple[str, ...] = ()

    JSON: ClassVar = {
        "stream": "the stream, such as the id of a run; `the log` for an end of it that no copy has",
        "first": "the first version that is lost",
        "last": "the last version that is known to be lost",
        "what": "what the stream is, in words",
        "once": "`once` steps that may have happened in that part",
    }


class RepairReport(View, frozen=True):
    """The result of `repair_store`. `JSON` says what each field is."""

    home: Path
    dry_run: bool = False
    findings: tuple[Finding, ...] = ()
    kept: Path | None = None
    events: int = 0
    taken: dict[str, int] = msgspec.field(default_factory=dict)
    journaled: int = 0
    lost: tuple[LostPart, ...] = ()
    values: tuple[str, ...] = ()
    snapshots: tuple[str, ...] = ()
    attention: dict[str, str] = msgspec.field(default_factory=dict)
    ways: tuple[Way, ...] = ()

    JSON: ClassVar = {
        "ok": "whether nothing was found, or what was found is mended and nothing is lost",
        "home": "the store's directory; with `--dry-run` where there is no project yet, the one that stores "
        "are made in",
        "dry_run": "whether nothing was changed because of `--dry-run`",
        "findings": "each thing that was found: `place`, `what`, `action`",
        "kept": "the directory that keeps the files as they were; null if nothing was changed",
        "events": "how many events the store has now; 0 with `--dry-run`",
        "taken": "copy → how many events came from it, if the log was written anew",
        "journaled": "how many of them came from journals",
        "lost": "what no copy had: `stream`, `first`, `last`, `what`, `once`",
        "values": "large values (SHA-256) that no copy had",
        "snapshots": "snapshots of files whose contents are missing",
        "attention": "run → why it needs attention now",
        "ways": "what to do next: `action`, `run`, `arguments`, `effect`",
    }

    @property
    def ok(self) -> bool:
        if self.dry_run:
            return not self.findings
        return not (self.lost or self.values or self.snapshots)

    @property
    def keeps_files(self) -> bool:
        """Whether something is in `kept` besides this report: of a store that was gone nothing is left."""
        return self.kept is not None and any(path.name != FILE for path in self.kept.iterdir())
