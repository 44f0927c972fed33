"""A mirror's view of the store that it was written from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from holdfast.tracker import journal


class MirroredRun(NamedTuple):
    """A run as its file has it: `version` is how many events it had, `created_at` is in microseconds."""

    id: str
    title: str
    version: int
    created_at: int


def _no_runs() -> Iterable[MirroredRun]:
    return ()


class Mirrored(NamedTuple):
    """The mirror in a directory. It is of the store of that incarnation, and was written up to the event at
    `position`, whose hash begins with `piece` (hexadecimal); all are empty if the card cannot be read.
    `is_own`: this user wrote it for the project that it is in, so that it counts as a copy even if nothing of
    the store is left."""

    directory: Path
    incarnation: str = ""
    position: int = 0
    piece: str = ""
    runs: Callable[[], Iterable[MirroredRun]] = _no_runs
    is_own: bool = False

    @property
    def is_copy(self) -> bool:
        """Whether it counts as a copy of a store of which nothing else is left."""
        return self.is_own and bool(self.incarnation)

    @property
    def has_journal(self) -> bool:
        return is_plain(self.journal)

    @property
    def journal(self) -> Path:
        return self.directory / "tasks" / journal.NAME

    @property
    def importable(self) -> Path | None:
        """A file that `mirror import` reads; None if there is none."""
        files = (self.journal.with_name(name) for name in ("memory.json", "current.json"))
        return next((path for path in files if is_plain(path)), None)

    @property
    def kept_journals(self) -> list[Path]:
        """The journals that were kept aside, because they were torn or edited, or are of the time before a
        restore, or have events that their log has lost."""
        return [path for path in sorted(self.journal.parent.glob(f"{journal.NAME}.*")) if is_plain(path)]

    def ahead_of(self, incarnation: str) -> list[Path]:
        """Of those, the ones with events that the log of this incarnation has lost."""
        return [path for path in self.kept_journals if is_ahead_of(path, incarnation)]


def is_ahead_of(path: Path, incarnation: str) -> bool:
    """Whether a journal was kept because the log of this incarnation had lost events that it has."""
    return bool(incarnation) and path.name.startswith(f"{journal.AHEAD}{incarnation}")


def is_plain(path: Path) -> bool:
    """Whether it is a file, and no link."""
    return path.is_file() and not path.is_symlink()
