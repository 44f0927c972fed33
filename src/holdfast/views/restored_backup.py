"""A backup that was made the store."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from holdfast.json_view import View


class RestoredBackup(View, frozen=True):
    """The store is the backup now. `JSON` says what each field is."""

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
