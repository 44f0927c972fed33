"""From the actions of a plan to what is moved: a directory that comes or goes is moved as one."""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence

from holdfast.workspace import beneath
from holdfast.workspace.changes import Change
from holdfast.workspace.journal import Item, Journal, Move, Phase
from holdfast.workspace.listing import Entry
from holdfast.workspace.refs import Ref
from holdfast.workspace.snapshot import Tree

_WIDE = 0o700
_ABSENT = Entry(0, Ref(b""))


def journal_of(
    actions: Sequence[Change],
    now: Tree,
    seen: Callable[[bytes], tuple[int, int, int] | None],
    token: str,
    root: tuple[int, int],
) -> Journal:
    """The journal of a restore that has not begun. Actions are sorted, a directory before what is in it."""
    moves: dict[bytes, Move] = {}
    chmods: list[Item] = []
    modes: dict[bytes, tuple[bytes, int, int]] = {}
    for action in actions:
        before, after = action.before, action.after
        if before and after and before.is_directory and after.is_directory:
            modes[action.path] = (action.path, before.mode, after.mode)
            continue
        item = _item(action, seen(action.path) if before else None)
        if before and after and before.ref == after.ref and _same_type(before, after):
            chmods.append(item)
        elif top := _top(action.path, moves):
            moves[top].inner.append(item)
        else:
            moves[action.path] = Move(len(moves), item, [])
    for parent in {beneath.split(path)[0] for path in moves}:
        entry = now.find(parent)
        if isinstance(entry, Entry) and entry.mode & _WIDE != _WIDE:
            modes.setdefault(parent, (parent, entry.mode, entry.mode))
    ordered = [modes[path] for path in sorted(modes)]
    return Journal(token, root, Phase.STAGING, list(moves.values()), chmods, ordered)


def _item(action: Change, seen: tuple[int, int, int] | None) -> Item:
    before, after = action.before or _ABSENT, action.after or _ABSENT
    return Item(action.path, before.mode, before.ref, after.mode, after.ref, seen)


def _top(path: bytes, moves: dict[bytes, Move]) -> bytes | None:
    """The path that is moved with all that is beneath it, if `path` is."""
    while path:
        path, _ = beneath.split(path)
        if path in moves:
            return path
    return None


def _same_type(one: Entry, other: Entry) -> bool:
    return stat.S_IFMT(one.mode) == stat.S_IFMT(other.mode)
