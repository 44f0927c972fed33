"""The project's Python files that this process has loaded: are they still what is on the disk?"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import NamedTuple

from holdfast.engine.runs.code_directory import module_paths, project_files

_COARSE_NS = 20_000_000
"""How far the clock of a file system may be behind."""


class _Stamp(NamedTuple):
    inode: int
    size: int
    written: int
    changed: int

    @classmethod
    def of(cls, path: Path) -> _Stamp | None:
        try:
            status = os.stat(path)
        except OSError:
            return None
        return cls(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class LoadedFiles:
    """Made before the first file of `directory` is loaded. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._lock = threading.Lock()
        self._files: dict[Path, _Stamp | None] = {}
        self._names = {directory: _names(directory)}
        self._looked = time.time_ns()
        self._changed: Path | None = None

    def changed(self) -> Path | None:
        """A file that is not what was loaded, or a directory that has other modules now; None if all is the
        same. Once something has changed, that stays so."""
        with self._lock:
            if self._changed is None:
                self._changed = self._look()
            return self._changed

    def _look(self) -> Path | None:
        """A file that was written after the last look, and loaded since, may have been read before that."""
        looked, self._looked = self._looked - _COARSE_NS, time.time_ns()
        for path, known in self._files.items():
            if _Stamp.of(path) != known:
                return path
        for directory, names in self._names.items():
            if _names(directory) != names:
                return directory
        for path in set(project_files()) - self._files.keys():
            stamp = self._files[path] = _Stamp.of(path)
            if stamp is None or max(stamp.written, stamp.changed) >= looked:
                return path
            if path.parent not in self._names:
                self._names[path.parent] = _names(path.parent)
        return None


def _names(directory: Path) -> frozenset[str]:
    return frozenset(path.name for path in module_paths(directory))
