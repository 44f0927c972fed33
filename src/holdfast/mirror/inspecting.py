"""Examines a mirror without writing to it: whether its files match the log and their digests."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Set
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from holdfast.clock import microseconds
from holdfast.errors import BadInput, Resync
from holdfast.mirror import card as cards
from holdfast.mirror import memory_file, run_file, sealed_text, session_file, tracker_files
from holdfast.mirror.draining import pages
from holdfast.mirror.importing import Importing, TaskWords, task_words
from holdfast.mirror.line_file import Mark
from holdfast.mirror.mirror_directory import PREVIOUS, MirrorDirectory, is_aside
from holdfast.tracker import journal
from holdfast.views.mirror import MirrorFault, MirrorStatus

if TYPE_CHECKING:
    from holdfast.mirror.card import Card
    from holdfast.store.port import Entry, Store
    from holdfast.views.reader import Reader

_PAGE = 1000
_IMPORTABLE = re.compile(r"tasks/(current|memory|sessions/[^/]+)\.json(\.(edited|replaced)-[^/]*)?$")
"""The files that `mirror import` reads."""


def status(store: Store, reader: Reader, directory: Path, *, named: bool = False) -> MirrorStatus:
    """The state of the mirror in a directory, which may be a link if the user `named` it. Raises OSError if
    it cannot be read."""
    if not os.path.lexists(directory):
        return MirrorStatus(str(directory), behind=_count(store, ""))
    with MirrorDirectory.opened(directory, "", follow=named) as top:
        card = cards.read(top)
        names = sorted(_names(top))
        shows, behind = ("", _count(store, "")) if card is None else _shown(store, card)
        logged = _Logged(store, reader, card)
        faults = list(_faults(top, card, [name for name in names if not is_aside(name)], logged))
        known = cache(partial(task_words, store, reader.redactor))
        changed = [name for name in names if is_aside(name)]
        changed += [fault.path for fault in faults if fault.fault == "edited"]
        return MirrorStatus(
            str(directory),
            "",
            shows == "own" and not behind and not faults,
            behind,
            None if card is None else datetime.fromisoformat(card.written_at),
            "" if card is None else card.cursor,
            sum(not is_aside(name) for name in names),
            tuple(faults),
            tuple(name for name in names if is_aside(name)),
            shows,
            tuple(name for name in names if _is_ahead(name, store.incarnation)),
            tuple(name for name in changed if _says_more(top, name, store, reader, known)),
        )


def count_files(directory: Path, *, named: bool = False) -> int:
    """How many files the mirror in a directory has, without those that were kept aside."""
    with MirrorDirectory.opened(directory, "", follow=named) as top:
        return sum(not is_aside(name) for name in _names(top))


def _says_more(
    top: MirrorDirectory, path: str, store: Store, reader: Reader, known: Callable[[], Set[TaskWords]]
) -> bool:
    """Whether `mirror import` reads the file, and finds something in it that the store does not have."""
    if not _IMPORTABLE.match(path):
        return False
    try:
        return bool(Importing(store, reader.redactor, _read(top, path), path, known).changes())
    except BadInput:
        return False


def _is_ahead(name: str, incarnation: str) -> bool:
    """Whether it is a journal that was kept because the log lost events that it has, and no repair since has
    given the store another incarnation."""
    return name.startswith(f"{tracker_files.DIRECTORY}/{journal.AHEAD}{incarnation}")


def _shown(store: Store, card: Card) -> tuple[str, int]:
    """The origin of the events in the files (`cards.whose`), and how many events of this log they lack."""
    shows = cards.whose(card, store)
    if shows == "ahead":
        return shows, 0
    try:
        return shows, _count(store, card.cursor if shows == "own" else "")
    except Resync:  # the event of the cursor was archived or deleted: all files are made again
        return shows, _count(store, "")


def _count(store: Store, cursor: str) -> int:
    """How many events are in the feed after the cursor. Raises `Resync`."""
    return sum(len(entries) for _, entries in pages(store, cursor, limit=_PAGE))


class _Logged:
    """The files of lines, made from the log when the first of them is compared: a file whose time differs may
    have been checked out again, with the same content."""

    def __init__(self, store: Store, reader: Reader, card: Card | None) -> None:
        self._store = store
        self._reader = reader
        self._card = card
        self._files: dict[str, bytes] | None = None

    def has(self, path: str, data: bytes) -> bool:
        """Whether a file with this content is the beginning of what the log has."""
        if self._files is None:
            with TemporaryDirectory() as directory:
                self._files = dict(self._made(Path(directory)))
        return self._files.get(path, b"").startswith(data)

    def _made(self, directory: Path) -> Iterator[tuple[str, bytes]]:
        assert self._card is not None
        written = microseconds(datetime.fromisoformat(self._card.written_at))
        with MirrorDirectory.opened(directory, "") as top:
            files = tracker_files.TrackerFiles(
                top, self._store, self._reader, None, written, str, lambda _: []
            )
            files.write_anew(self._entries(), forget=False)
        for path in directory.rglob("*.jsonl*"):
            yield f"{tracker_files.DIRECTORY}/{path.relative_to(directory)}", path.read_bytes()

    def _entries(self) -> Iterator[Entry]:
        for _, entries in pages(self._store, "", tracker_files.TYPES, _PAGE):
            yield from (entry for entry in entries if journal.belongs(entry.stream))


def _names(top: MirrorDirectory) -> Iterator[str]:
    """The files of the mirror and those that were kept aside, as paths in it."""
    for name in top.names():
        if name == cards.NAME or is_aside(name):
            yield name
    for directory in (tracker_files.DIRECTORY, run_file.DIRECTORY):
        if top.has_directory(directory):
            with top.within(directory) as inside:
                yield from (f"{directory}/{name}" for name in _names_in(inside))


def _names_in(directory: MirrorDirectory) -> Iterator[str]:
    for name in directory.names():
        if directory.status(name) is not None or is_aside(name):
            yield name
        elif name != PREVIOUS and directory.has_directory(name):
            with directory.within(name) as inside:
                yield from (f"{name}/{one}" for one in _names_in(inside))


def _faults(
    top: MirrorDirectory, card: Card | None, names: list[str], logged: _Logged
) -> Iterator[MirrorFault]:
    here = set(names)
    for name in names:
        if name.endswith((".json", sealed_text.SUFFIX)):
            state = sealed_text.state_of(name, _read(top, name))
            if state != "own":
                yield MirrorFault(name, state)
    if card is None:
        if not top.has(cards.NAME):
            yield MirrorFault(cards.NAME, "missing")
        return
    expected = {_path(name): mark for name, mark in card.lines.items()}
    for path, mark in expected.items():
        if path not in here:
            yield MirrorFault(path, "missing")
        elif _mark(top, path) != mark:
            data = _read(top, path)
            if len(data) < mark.size or not logged.has(path, data):
                yield MirrorFault(path, "edited")
    if expected:
        for name in (session_file.CURRENT, memory_file.NAME):
            if f"{tracker_files.DIRECTORY}/{name}" not in here:
                yield MirrorFault(f"{tracker_files.DIRECTORY}/{name}", "missing")


def _path(name: str) -> str:
    inside = name if name == journal.NAME else f"history/{name}"
    return f"{tracker_files.DIRECTORY}/{inside}"


def _read(top: MirrorDirectory, path: str) -> bytes:
    directory, _, name = path.rpartition("/")
    if not directory:
        return top.read(name) or b""
    first, _, rest = path.partition("/")
    with top.within(first) as inside:
        return _read(inside, rest)


def _mark(top: MirrorDirectory, path: str) -> Mark | None:
    first, _, rest = path.partition("/")
    if rest:
        with top.within(first) as inside:
            return _mark(inside, rest)
    status = top.status(first)
    return None if status is None else Mark.of(status)
