"""Looking at a mirror without writing to it: whether its files are as the log and holdfast have them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import Resync
from holdfast.mirror import card as cards
from holdfast.mirror import memory_file, run_file, sealed_text, session_file, tracker_files
from holdfast.mirror.line_file import Mark
from holdfast.mirror.mirror_directory import PREVIOUS, MirrorDirectory, is_aside
from holdfast.tracker import journal
from holdfast.views.mirror import MirrorFault, MirrorStatus

if TYPE_CHECKING:
    from holdfast.mirror.card import Card
    from holdfast.store.port import Store

_PAGE = 1000


def status(store: Store, directory: Path, *, named: bool = False) -> MirrorStatus:
    """The state of the mirror in a directory, which may be a link if the user `named` it. Raises OSError if
    it cannot be read."""
    if not os.path.lexists(directory):
        return MirrorStatus(str(directory), behind=_behind(store, ""))
    with MirrorDirectory.opened(directory, "", follow=named) as top:
        card = cards.read(top)
        names = sorted(_names(top))
        faults = list(_faults(top, card, [name for name in names if not is_aside(name)]))
        behind = _behind(store, "" if card is None else card.cursor)
        return MirrorStatus(
            str(directory),
            "",
            card is not None and not behind and not faults,
            behind,
            None if card is None else datetime.fromisoformat(card.written_at),
            "" if card is None else card.cursor,
            sum(not is_aside(name) for name in names),
            tuple(faults),
            tuple(name for name in names if is_aside(name)),
        )


def _behind(store: Store, cursor: str) -> int:
    """How many events are in the feed after the cursor."""
    count = 0
    try:
        while True:
            page = store.feed(cursor, limit=_PAGE)
            count, cursor = count + len(page.entries), page.cursor
            if len(page.entries) < _PAGE:
                return count
    except Resync:
        return _behind(store, "")


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


def _faults(top: MirrorDirectory, card: Card | None, names: list[str]) -> Iterator[MirrorFault]:
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
