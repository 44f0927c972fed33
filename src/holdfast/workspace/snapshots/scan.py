"""One look at a tree: what has changed since the last one is read, everything else only looked at.

Most directories are as they were. Their names are known from the index, so one `lstat` per entry and one
comparison of two lists is all they cost. A directory with any difference is listed and gone through entry by
entry. The listings are put last, from the innermost directory out, and only where something changed.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from holdfast.workspace.contents import refs
from holdfast.workspace.contents.batch import LARGE, Batch
from holdfast.workspace.contents.refs import Ref
from holdfast.workspace.fs import beneath
from holdfast.workspace.fs.lock_safe_open import close_unlocked, opened
from holdfast.workspace.snapshots import coverage, listing, scan_index
from holdfast.workspace.snapshots.coverage import Coverage
from holdfast.workspace.snapshots.ignore_files import IGNORE_FILE
from holdfast.workspace.snapshots.scan_index import SIGNATURE, Index, Record, Signature, signature

Progress = Callable[[int, int], None]
"""(entries looked at, bytes read)"""

_NONE = Ref(bytes(refs.SIZE))
_ATTEMPTS = 5
_REPORT_EVERY = 1000


class _Gone(Exception):
    """An entry is not there any more, or is of another kind now."""


class _Visit(NamedTuple):
    """A directory to look at: whether it is the same as before itself, and whether rules for what is in it
    have changed."""

    path: bytes
    same: bool
    by_new_rules: bool


@dataclass(slots=True)
class Seen:
    """The result of a scan: all directories, each before those inside it, the root first."""

    root: Signature
    records: list[Record]
    fresh: bool
    """Whether any directory had to be gone through."""
    unsettled: list[bytes] = field(default_factory=list)
    """Files that changed each time they were read."""


class Scan:
    """Uses `old` where it can be trusted. `known`, if given, must confirm every content that `old` names."""

    def __init__(
        self,
        root: bytes,
        rules: Coverage,
        batch: Batch,
        old: Index | None,
        known: Callable[[Ref], bool] | None,
        progress: Progress | None,
    ) -> None:
        self._root = root
        self._rules = rules
        self._batch = batch
        self._old = {record.path: record for record in old.records} if old else {}
        self._old_root = old.root if old else None
        self._known = known
        self._is_trusted = old is not None and known is None and old.rules == rules.digest
        self._doubt_suspects = old is not None and old.git_state != self.git_state(old.records)
        self._progress = progress
        self._started_ns = time.time_ns()  # compared with the times of files, so never a test's clock
        self._entries = self._bytes = 0
        self._reported = 0
        self._stack: list[_Visit] = []
        self._vanished: dict[bytes, str | None] = {}
        self._unsettled: list[bytes] = []

    def git_state(self, records: list[Record]) -> str:
        """Changes when git's answers about what is in these directories may have changed."""
        return self._rules.git_state([record.path for record in records if record.suspects])

    def run(self) -> Seen:
        close_unlocked()
        root_fd = os.open(self._root, beneath.FLAGS)
        try:
            root = signature(os.fstat(root_fd))
            records, fresh = self._look_around(root_fd, root)
        finally:
            os.close(root_fd)
        self._put_listings(records, fresh)
        if self._progress is not None:
            self._progress(self._entries, self._bytes)
        return Seen(scan_index.trusted(root, self._started_ns), records, bool(fresh), self._unsettled)

    def _look_around(self, root_fd: int, root: Signature) -> tuple[list[Record], set[bytes]]:
        """All directories from the root down → their records, and the paths of those gone through."""
        records: list[Record] = []
        fresh: set[bytes] = set()
        stack = self._stack = [_Visit(b"", root == self._old_root, False)]
        while stack:
            path, same, by_new_rules = visit = stack.pop()
            record = self._old.get(path)
            if record is not None and same and not by_new_rules and self._is_unchanged(record):
                self._entries += len(record.signatures) // SIGNATURE.size
                if IGNORE_FILE in record.names:
                    self._rules.has_ignore_file(path)
                stack.extend(
                    [_Visit(beneath.join(path, name), True, False) for name in record.subdirectories]
                )
            else:
                record = self._go_through(root_fd, visit, record)
                if record is None:
                    continue
                fresh.add(path)
            records.append(record)
            if self._progress is not None and self._entries - self._reported >= _REPORT_EVERY:
                self._reported = self._entries
                self._progress(self._entries, self._bytes)
        return records, fresh

    def _is_unchanged(self, record: Record) -> bool:
        """Whether all entries are as they were; the names are the same if the directory itself is."""
        if not self._is_trusted or record.look_again or (record.suspects and self._doubt_suspects):
            return False
        if not record.signatures:
            return True
        base = os.path.join(self._root, record.path, b"")
        try:
            now = list(map(signature, map(os.lstat, [base + name for name in record.names.split(b"\0")])))
        except OSError:
            return False
        return now == list(SIGNATURE.iter_unpack(record.signatures))

    def _go_through(self, root_fd: int, visit: _Visit, old: Record | None) -> Record | None:
        """List a directory and read what is new in it; None if it is not there or cannot be read."""
        path = visit.path
        try:
            with beneath.directory(root_fd, path) as fd:
                rows, unread = _rows(fd)
                return self._read_directory(fd, visit, rows, unread, self._remembered(old))
        except OSError as exc:
            if not path:
                raise
            self._vanished[path] = None if exc.errno in beneath.NOT_THERE else coverage.why_unread(exc)
            return None

    def _remembered(self, old: Record | None) -> dict[bytes, tuple[Signature, Ref]]:
        if old is None:
            return {}
        entries = zip(old.name_list(), old.signature_list(), listing.split_refs(old.refs), strict=True)
        return {name: (seen, ref) for name, seen, ref in entries if self._known is None or self._known(ref)}

    def _read_directory(
        self,
        fd: int,
        visit: _Visit,
        rows: list[tuple[bytes, os.stat_result]],
        unread: dict[bytes, str],
        remembered: dict[bytes, tuple[Signature, Ref]],
    ) -> Record:
        """`unread` has the entries that cannot be looked at, with the reason; others join them here."""
        path = visit.path
        by_new_rules = self._has_new_rules(path, rows, remembered) or visit.by_new_rules
        names: list[bytes] = []
        signatures: list[bytes] = []
        found: list[Ref] = []
        uncovered: dict[bytes, str] = {}
        subdirectories: list[bytes] = []
        files = links = size = 0
        suspects = False
        for name, status in rows:
            inner = beneath.join(path, name)
            self._entries += 1
            suspects = suspects or self._rules.is_suspect(name, status)
            reason = self._rules.reason_against(inner, name, status)
            if reason is not None:
                uncovered[name] = reason
                continue
            seen: Signature = signature(status)
            before = remembered.get(name)
            try:
                if stat.S_ISDIR(status.st_mode):
                    self._stack.append(_Visit(inner, before is not None and before[0] == seen, by_new_rules))
                    subdirectories.append(name)
                    ref = before[1] if before else _NONE
                elif before is not None and before[0] == seen:
                    ref = before[1]
                elif stat.S_ISLNK(status.st_mode):
                    ref = self._batch.put(os.readlink(name, dir_fd=fd))
                else:
                    seen, ref = self._read_file(fd, name, inner)
            except (_Gone, FileNotFoundError):
                continue
            except OSError as exc:
                unread[name] = coverage.why_unread(exc)
                continue
            if stat.S_ISREG(status.st_mode):
                files += 1
                size += seen[1]
            elif stat.S_ISLNK(status.st_mode):
                links += 1
            names.append(name)
            signatures.append(SIGNATURE.pack(*scan_index.trusted(seen, self._started_ns)))
            found.append(ref)
        return Record(
            path=path,
            names=b"\0".join(names),
            signatures=b"".join(signatures),
            refs=b"".join(found),
            uncovered=uncovered | unread,
            subdirectories=subdirectories,
            files=files,
            links=links,
            size=size,
            look_again=bool(unread) or coverage.TOO_LARGE in uncovered.values() or IGNORE_FILE in uncovered,
            suspects=suspects,
            listing=b"",
        )

    def _has_new_rules(
        self,
        path: bytes,
        rows: list[tuple[bytes, os.stat_result]],
        remembered: dict[bytes, tuple[Signature, Ref]],
    ) -> bool:
        """Whether the ignore file of a directory is another than it was, so that all beneath it is looked at
        anew; if there is one, it is read."""
        before = remembered.get(IGNORE_FILE)
        for name, status in rows:
            if name == IGNORE_FILE:
                self._rules.has_ignore_file(path)
                return before is None or before[0] != signature(status)
        return before is not None

    def _read_file(self, directory: int, name: bytes, path: bytes) -> tuple[Signature, Ref]:
        """Put a file's content. If it changes while it is read, it is read again."""
        for _ in range(_ATTEMPTS):
            try:
                with opened(directory, name) as fd:
                    status = os.fstat(fd)
                    if not stat.S_ISREG(status.st_mode):
                        raise _Gone
                    before: Signature = signature(status)
                    data = None
                    if status.st_size < LARGE:
                        data = os.pread(fd, status.st_size + 1, 0)
                        whole = len(data) == status.st_size
                    else:
                        ref = self._batch.put_file(fd)
                        whole = True
                    settled = whole and signature(os.fstat(fd)) == before
            except OSError as exc:
                if exc.errno in beneath.NOT_THERE:
                    raise _Gone from exc
                raise
            if settled:
                break
        if data is not None:
            ref = self._batch.put(data)
        self._bytes += status.st_size
        if not settled:
            self._unsettled.append(path)
            before = scan_index.untrusted(before)
        return before, ref

    def _put_listings(self, records: list[Record], fresh: set[bytes]) -> None:
        """From the innermost out: the listing of every directory in which something changed."""
        outdated = set(fresh) | {beneath.split(path)[0] for path in self._vanished}
        renewed: dict[bytes, Ref] = {}
        for record in reversed(records):
            if record.path not in outdated:
                continue
            old_listing = record.listing
            self._renew(record, renewed)
            if record.path and record.listing != old_listing:
                renewed[record.path] = Ref(record.listing)
                outdated.add(beneath.split(record.path)[0])

    def _renew(self, record: Record, renewed: dict[bytes, Ref]) -> None:
        """Bring a record up to date with the directories inside it, and put its listing."""
        names, signatures = record.name_list(), record.signature_list()
        found = listing.split_refs(record.refs)
        for at in range(len(names) - 1, -1, -1):
            if not scan_index.is_directory(signatures[at]):
                continue
            inner = beneath.join(record.path, names[at])
            if inner in renewed:
                found[at] = renewed[inner]
            elif inner in self._vanished:
                self._leave_out(record, names.pop(at), self._vanished[inner])
                del signatures[at], found[at]
        record.names = b"\0".join(names)
        record.signatures = b"".join(SIGNATURE.pack(*one) for one in signatures)
        record.refs = b"".join(found)
        modes = [one[0] for one in signatures]
        record.listing = listing.write(self._batch.put, names, modes, record.refs, record.uncovered)

    @staticmethod
    def _leave_out(record: Record, name: bytes, reason: str | None) -> None:
        record.subdirectories.remove(name)
        if reason is not None:
            record.uncovered[name] = reason
            record.look_again = True


def _rows(fd: int) -> tuple[list[tuple[bytes, os.stat_result]], dict[bytes, str]]:
    """The entries of a directory by name, and those that cannot be looked at, with the reason. What vanishes
    meanwhile is not one."""
    rows, unread = [], {}
    with os.scandir(fd) as entries:
        for entry in entries:
            name = os.fsencode(entry.name)
            try:
                rows.append((name, entry.stat(follow_symlinks=False)))
            except FileNotFoundError:
                continue
            except OSError as exc:
                unread[name] = coverage.why_unread(exc)
    rows.sort(key=itemgetter(0))
    return rows, unread
