"""Writing the mirror: one drain brings its files up to the end of the store's feed.

A drain reads the events after the cursor of the card, adds to the journal and the history, replaces the files
of the sessions and runs that changed, and writes the card last. If its process is killed, each file is old or
new; the next drain starts at the old cursor and writes the same files. If the card or a file of lines was
changed by others, or the cursor is of another history, all files are written again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.clock import instant
from holdfast.errors import Resync
from holdfast.file_lock import open_lock, try_lock
from holdfast.mirror import card as cards
from holdfast.mirror import checklist_file, run_file, sealed_json
from holdfast.mirror.card import Card
from holdfast.mirror.line_file import NotOurs
from holdfast.mirror.mirror_directory import MirrorDirectory
from holdfast.store.port import Entry
from holdfast.tracker.journal import belongs

if TYPE_CHECKING:
    from holdfast.clock import Clock
    from holdfast.mirror.tracker_files import TrackerFiles
    from holdfast.store.port import Store
    from holdfast.views.reader import Reader

LOCK: Final = "mirror.lock"
PAGE: Final = 200
MOST_RUNS: Final = 1000
"""A drain that rebuilds the mirror writes the files of at most this many runs, the newest."""
_PATIENCE_S: Final = 5.0
_AGAIN_S: Final = 0.02
_GONE: Final = ("StreamArchived", "StreamDeleted")
_BACK: Final = "StreamRestored"
_NEW: Final = "StreamCreated"
_WHY: Final = {
    "ahead": "the mirror has events that the log does not have",
    "earlier": "the mirror is of the time before a restore or a repair of the store",
    "other": "the mirror was not written by this store",
}
"""The reasons why the present files are not of this log."""
_RUN_TYPES: Final = frozenset(event.__name__ for event in run_file.CHANGES)


class Drained(msgspec.Struct, frozen=True):
    """The result of a drain.

    is_current  whether the files show all of the log; False if another process was writing them
    events      how many events were new
    replaced    how many files were replaced
    kept        a sentence for each file that was kept aside, or why nothing was written
    """

    is_current: bool
    events: int = 0
    replaced: int = 0
    kept: tuple[str, ...] = ()


def _no_files(_run: str) -> list[str]:
    return []


class Mirror:
    """The mirror of one store in one directory. Any number of processes may drain: a lock in the store's
    directory lets one at a time write."""

    def __init__(
        self,
        store: Store,
        reader: Reader,
        home: Path,
        directory: Path,
        clock: Clock,
        *,
        named: bool = False,
        project_type: Callable[[], str] = str,
        files_of: Callable[[str], list[str]] = _no_files,
    ) -> None:
        """`named`: the user chose the directory, and it may be a link. `files_of(run)` are the files that a
        run has changed."""
        self._store = store
        self._reader = reader
        self._home = home
        self.directory = directory
        self._clock = clock
        self._named = named
        self._project_type = project_type
        self._files_of = files_of

    def drain(self, *, patience_s: float = _PATIENCE_S) -> Drained:
        """Write what is missing. Raises OSError that names the file that could not be written."""
        with self._locked(patience_s) as top:
            if top is None:
                return Drained(is_current=False)
            try:
                return self._drain(top)
            except (Resync, NotOurs):
                refused = self._refused(top)
                return Drained(False, kept=(refused,)) if refused else self._rebuild(top, MOST_RUNS)

    def _refused(self, top: MirrorDirectory) -> str:
        """The reason not to write: the user gave the directory to two stores, and each would keep the files
        of the other aside in turn. Empty if the mirror may be written."""
        card = cards.read(top) if self._named else None
        if card is None or not card.log or cards.whose(card, self._store) != "other":
            return ""
        return (
            f"the mirror is not written: {self.directory} has that of another store; name another directory "
            "with HOLDFAST_MIRROR_DIR, or `holdfast mirror rebuild` takes this one and keeps its files aside"
        )

    def rebuild(self, *, patience_s: float = 60.0) -> Drained:
        """Make all files again from the log."""
        with self._locked(patience_s) as top:
            return Drained(is_current=False) if top is None else self._rebuild(top, None)

    @contextmanager
    def _locked(self, patience_s: float) -> Iterator[MirrorDirectory | None]:
        """The directory, while the lock is held; None if another process holds it for longer than
        `patience_s`: a process that was stopped in a drain must not block the others. A lock file that is not
        empty shows that a drain was cut off and may have left temporary files."""
        lock = open_lock(self._home / LOCK)
        try:
            deadline = time.monotonic() + patience_s
            while not (is_mine := try_lock(lock)) and time.monotonic() < deadline:
                time.sleep(_AGAIN_S)
            if not is_mine:
                yield None
                return
            stamp = f"{instant(self._clock.now_us()):%Y%m%dT%H%M%SZ}"
            with MirrorDirectory.opened(self.directory, stamp, follow=self._named) as top:
                if os.fstat(lock).st_size:
                    top.sweep()
                os.pwrite(lock, b"draining\n", 0)
                yield top
                os.ftruncate(lock, 0)
        finally:
            os.close(lock)

    # One drain

    def _drain(self, top: MirrorDirectory) -> Drained:
        card = cards.read(top)
        if card is None:
            return self._rebuild(top, MOST_RUNS)
        if not top.has_directory(run_file.DIRECTORY):
            raise NotOurs(run_file.DIRECTORY)
        done = None if card.lines else self._drain_runs(top, card)
        return self._drain_all(top, card) if done is None else done

    def _drain_runs(self, top: MirrorDirectory, card: Card) -> Drained | None:
        """Drain a store whose tracker was never used, without loading the tracker's modules. None if it is
        used by now."""
        changed = _Changed(card)
        events, cursor = 0, card.cursor
        types = (*changed.types, _NEW)
        for cursor, entries in pages(self._store, card.cursor, types):  # noqa: B007
            if any(entry.type == _NEW and belongs(_stream_in(entry)) for entry in entries):
                return None
            events += len(entries)
            changed.add(entries)
        if cursor == card.cursor:
            return Drained(is_current=True)
        self._write_runs(top, changed)
        return self._finish(top, msgspec.structs.replace(card, cursor=cursor), changed, events)

    def _drain_all(self, top: MirrorDirectory, card: Card) -> Drained:
        from holdfast.mirror import tracker_files

        changed = _Changed(card)
        events, cursor = 0, card.cursor
        with top.within(tracker_files.DIRECTORY) as directory:
            files = self._tracker_files(directory, card)
            types = (*changed.types, *tracker_files.TYPES)
            for cursor, entries in pages(self._store, card.cursor, types):  # noqa: B007
                events += len(entries)
                changed.add(entries)
                files.add([entry for entry in entries if belongs(entry.stream)])
            files.finish()
        if cursor == card.cursor and files.is_unchanged:
            return Drained(True, kept=tuple(top.kept))
        self._write_runs(top, changed)
        return self._finish(top, files.card(cursor), changed, events)

    def _tracker_files(self, directory: MirrorDirectory, card: Card | None) -> TrackerFiles:
        from holdfast.mirror.tracker_files import TrackerFiles

        return TrackerFiles(
            directory,
            self._store,
            self._reader,
            card,
            self._clock.now_us(),
            self._project_type,
            self._files_of,
        )

    def _rebuild(self, top: MirrorDirectory, most_runs: int | None) -> Drained:
        """Write all files again from the beginning of the log. A file of lines that is not a prefix of the
        log's lines is kept aside, unless it is unchanged and streams were removed from the log since. If the
        card does not show that the files are of this store (a clone of a repository that has a mirror, a copy
        of a project), or they are ahead of its log, all files that differ are kept aside."""
        from holdfast.mirror import tracker_files

        card = cards.read(top)
        whose = "other" if card is None else cards.whose(card, self._store)
        forget = whose == "own"
        if not forget:
            top.begin_anew(_WHY[whose], self._store.incarnation if whose == "ahead" else "")
        if card is not None:  # the session that was active last is found again
            card = msgspec.structs.replace(card, session="", active_at=0)
        events, cursor = 0, ""
        with top.within(tracker_files.DIRECTORY) as directory:
            files = self._tracker_files(directory, card)

            def entries() -> Iterator[Entry]:
                nonlocal events, cursor
                for cursor, page in pages(self._store, "", tracker_files.TYPES):  # noqa: B007
                    events += len(page)
                    yield from (entry for entry in page if belongs(entry.stream))

            files.write_anew(entries(), forget=forget)
        changed = _Changed(None)
        changed.runs = dict.fromkeys(row.id for row in reversed(self._store.runs(limit=most_runs)))
        self._write_runs(top, changed)
        if forget:
            self._remove_gone(top)
        else:
            self._keep_others_aside(top, files.card(cursor))
            top.end_anew()
        return self._finish(top, files.card(cursor), changed, events)

    def _keep_others_aside(self, top: MirrorDirectory, card: Card) -> None:
        """Keep aside the files that this rebuild did not write: the store may later write files of these
        names. `card` is the new one."""
        from holdfast.mirror import history, session_file, tracker_files

        def is_run(name: str) -> bool:
            return self._store.run(name.rpartition(".")[0]) is not None

        with top.within(tracker_files.DIRECTORY) as directory:
            directory.keep_others_aside(card.lines.__contains__)
            for name in (session_file.DIRECTORY, history.DIRECTORY):
                if directory.has(name):
                    with directory.within(name) as inside:
                        inside.keep_others_aside(card.lines.__contains__)
        with top.within(run_file.DIRECTORY) as directory:
            directory.keep_others_aside(is_run)

    def _finish(self, top: MirrorDirectory, card: Card, changed: _Changed, events: int) -> Drained:
        now = instant(self._clock.now_us()).isoformat()
        checklists = tuple(changed.checklists)
        log = card.log or cards.log_of(self._store)
        cards.write(top, msgspec.structs.replace(card, written_at=now, checklists=checklists, log=log))
        return Drained(True, events, top.replaced, tuple(top.kept))

    def _write_runs(self, top: MirrorDirectory, changed: _Changed) -> None:
        with top.within(run_file.DIRECTORY) as directory:
            for run_id in changed.runs:
                body = run_file.render(self._store, self._reader, run_id)
                if body is not None:
                    directory.replace_sealed(run_file.file_name(run_id), sealed_json.seal(body))
                else:
                    directory.remove(run_file.file_name(run_id))
            for run_id in (*changed.runs, *changed.ticked):
                checklist = checklist_file.render(self._store, self._reader, run_id)
                if checklist is not None:
                    directory.replace_sealed(checklist_file.file_name(run_id), checklist.data)
                elif self._store.run(run_id) is None:
                    directory.remove(checklist_file.file_name(run_id))
                changed.keep_open(run_id, checklist is not None and checklist.is_open)

    def _remove_gone(self, top: MirrorDirectory) -> None:
        """Remove the files of tasks, sessions and runs that were archived or deleted."""
        from holdfast.mirror import session_file, tracker_files

        with top.within(tracker_files.DIRECTORY) as directory:
            directory.forget()
            if directory.has_directory(session_file.DIRECTORY):
                with directory.within(session_file.DIRECTORY) as sessions:
                    sessions.forget()
        with top.within(run_file.DIRECTORY) as directory:
            here = {name for name in directory.names() if name.endswith(".json")}
            for _, page in pages(self._store, "", _GONE):
                for stream in map(_stream_in, page):
                    if run_file.file_name(stream) in here and self._store.run(stream) is None:
                        directory.remove(run_file.file_name(stream))
                        directory.remove(checklist_file.file_name(stream))


class _Changed:
    """The runs whose files a drain writes.

    runs        that changed their status, were removed from the log, or are back
    ticked      of the others, those of a checklist whose steps ended
    checklists  the runs of checklists that have not ended
    """

    def __init__(self, card: Card | None) -> None:
        self.runs: dict[str, None] = {}
        self.checklists = dict.fromkeys(() if card is None else card.checklists)
        self._ticked: dict[str, None] = {}

    @property
    def types(self) -> tuple[str, ...]:
        """The events to read: those of steps only if a checklist is under way."""
        return (*_RUN_TYPES, *_GONE, _BACK, *(checklist_file.TICKS if self.checklists else ()))

    @property
    def ticked(self) -> list[str]:
        return [run_id for run_id in self._ticked if run_id not in self.runs]

    def add(self, entries: list[Entry]) -> None:
        self.runs |= dict.fromkeys(_runs_in(entries))
        for entry in entries:
            if entry.type in checklist_file.TICKS and entry.stream in self.checklists:
                self._ticked[entry.stream] = None

    def keep_open(self, run_id: str, is_open: bool) -> None:
        if is_open:
            self.checklists[run_id] = None
        else:
            self.checklists.pop(run_id, None)


def pages(
    store: Store, cursor: str, types: Sequence[str] = (), limit: int = PAGE
) -> Iterator[tuple[str, list[Entry]]]:
    """(the cursor after them, events of these types), page by page to the end of the feed."""
    while True:
        page = store.feed(cursor, limit=limit, types=types)
        cursor = page.cursor
        yield cursor, list(page.entries)
        if len(page.entries) < limit:
            return


def _runs_in(entries: list[Entry]) -> Iterator[str]:
    """Runs that changed, were removed from the log, or are back. Raises `NotOurs` for a stream of the
    journal: that must be made again."""
    for entry in entries:
        if entry.type in _RUN_TYPES:
            yield entry.stream
        elif entry.type in _GONE or entry.type == _BACK:
            stream = _stream_in(entry)
            if belongs(stream):
                raise NotOurs(stream)
            yield stream


def _stream_in(entry: Entry) -> str:
    data: dict[str, str] = msgspec.json.decode(entry.payload)
    return data["stream"]
