"""A backup that was made the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import msgspec


class RestoredBackup(msgspec.Struct, frozen=True):
    """The store is the backup now.

    path     the file of the backup
    home     the store's directory
    events   how many events the store has now
    kept     the directory that keeps the store that was there; None if there was none
    files    whether it has its files: they came with it, or are still there
    damaged  what of the files that came with it is damaged
    """

    path: Path
    home: Path
    events: int
    kept: Path | None
    files: bool
    damaged: tuple[str, ...] = ()

    JSON: ClassVar = {
        "path": "the file of the backup",
        "home": "the store's directory",
        "events": "how many events the store has now",
        "kept": "the directory that keeps the store that was there; null if there was none",
        "files": "whether the store has the files that its runs have saved",
        "damaged": "saved contents that were damaged when the backup was made",
    }

    def to_json(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "home": str(self.home),
            "events": self.events,
            "kept": str(self.kept) if self.kept else None,
            "files": self.files,
            "damaged": list(self.damaged),
        }
