"""When refs were last changed: separates the moves of a run that died from those that others made after it.

A ref that is a file has a time of its own, as exact as that of other files. Of others (packed, or in a table)
the record that git keeps of each ref (its reflog) has it, to the second.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache, cached_property

from holdfast.errors import GitFailed
from holdfast.workspace.git.program import run
from holdfast.workspace.git.ref_list import STASH, GitRefs, Stashed

_STORAGES = ("packed-refs", "reftable/tables.list")
_RECORDS = "64"
"""How many entries of a reflog at most are read."""
_SECOND = 1_000_000_000


class GitTimes:
    """The changes until `until_ns`, and the later ones, in the repository that `top` is in."""

    def __init__(self, top: bytes, until_ns: int) -> None:
        self._top = top
        self.until_ns = until_ns
        self._path = cache(self._find)
        self._record = cache(self._read_record)

    def refs(self, base: GitRefs, now: GitRefs, own: GitRefs) -> dict[str, str]:
        """The refs of `own` as they were at that time, as far as can be known: what is there as it is `now`
        may have been changed since."""
        found = dict(own.refs)
        changed = [ref for ref, value in found.items() if base.refs.get(ref) != value == now.refs.get(ref)]
        for ref in self.is_later(changed):
            then = self.then(ref) or base.refs.get(ref, "")
            del found[ref]
            found |= {ref: then} if then else {}
        return found

    def stash(self, base: GitRefs, now: GitRefs) -> tuple[Stashed, ...]:
        """The same of the stash: entries on top that came later are left out."""
        if base.stash == now.stash or not now.stash or not self.is_later([STASH]):
            return now.stash
        times = [seconds for _, seconds in self._record(STASH)]
        later = sum(seconds * _SECOND > self.until_ns for seconds in times[: len(now.stash)])
        return now.stash[max(later, 1) :]

    def is_later(self, refs: Sequence[str]) -> list[str]:
        """Those of the refs that were last changed after that time."""
        return [ref for ref in refs if self._changed_ns(ref) > self.until_ns]

    def is_later_file(self, path: bytes) -> bool:
        return _ctime(path) > self.until_ns

    def is_later_object(self, objects: set[str]) -> bool:
        """Whether one of these objects may have been written after that time. One in a pack has no time."""
        directory = self._path("objects")
        paths = [os.path.join(directory, name[:2].encode(), name[2:].encode()) for name in objects]
        return any(not os.path.exists(path) or os.lstat(path).st_mtime_ns > self.until_ns for path in paths)

    def then(self, ref: str) -> str:
        """The value at that time of a ref that was changed since; "" if there is no record of it."""
        return next((value for value, at in self._record(ref)[1:] if at * _SECOND <= self.until_ns), "")

    def _changed_ns(self, ref: str) -> int:
        own = 0 if self._is_table else _ctime(self._path(ref))
        if own:
            return own
        record = self._record(ref)
        if record:
            return record[0][1] * _SECOND
        return max(_ctime(self._path(name)) for name in _STORAGES)

    @cached_property
    def _is_table(self) -> bool:
        """Whether refs are in a table. The file HEAD is there too, and never changes."""
        return os.path.exists(self._path("reftable"))

    def _find(self, name: str) -> bytes:
        return os.path.join(self._top, run(self._top, "rev-parse", "--git-path", name).removesuffix(b"\n"))

    def _read_record(self, ref: str) -> list[tuple[str, int]]:
        """(value, when it came about, in seconds), the newest first."""
        log = ("reflog", "show", "--no-show-signature", "--date=unix", "--format=%H %gd", "-n", _RECORDS)
        try:
            lines = run(self._top, *log, ref, "--").decode(errors="replace").splitlines()
        except GitFailed:
            return []
        found = []
        for line in lines:
            value, _, when = line.partition(" ")
            seconds = when.rpartition("{")[2].rstrip("}")
            found.append((value, int(seconds) if seconds.isdigit() else 0))
        return found


def _ctime(path: bytes) -> int:
    """0 if it is not a file that is there."""
    try:
        status = os.lstat(path)
    except OSError:
        return 0
    return 0 if os.path.isdir(path) else status.st_ctime_ns
