"""From the actions of a plan to what is moved: a directory that comes or goes is moved as one."""

from __future__ import annotations

import stat
from collections.abc import Sequence

from holdfast.workspace.contents.refs import Ref
from holdfast.workspace.fs import beneath
from holdfast.workspace.restoring.restore_journal import Item, Journal, Move, Phase
from holdfast.workspace.snapshots.changes import Change
from holdfast.workspace.snapshots.listing import Entry
from holdfast.workspace.snapshots.scan_index import Sightings, Signature

_WIDE = 0o700
_ABSENT = Entry(0, Ref(b""))


def journal_of(actions: Sequence[Change], seen: Sightings, token: str) -> Journal:
    """The journal of a restore that has not begun. Actions are sorted, a directory before what is in it."""
    moves: dict[bytes, Move] = {}
    carriers: dict[bytes, Move] = {}
    """Directories, by path, that are moved, or are inside one that is."""
    chmods: list[Item] = []
    modes: dict[bytes, tuple[bytes, int, int]] = {}
    for action in actions:
        before, after = action.before, action.after
        if before and after and before.is_directory and after.is_directory:
            modes[action.path] = (action.path, before.mode, after.mode)
            continue
        item = _item(action, seen.of(action.path) if before else None)
        if before and after and before.ref == after.ref and _same_type(before, after):
            chmods.append(item)
            continue
        move = carriers.get(beneath.split(action.path)[0])
        if move is not None:
            move.inner.append(item)
        else:
            move = moves[action.path] = Move(len(moves), item, [])
        carriers[action.path] = move
    for parent in {beneath.split(path)[0] for path in moves}:
        sight = seen.of(parent)
        if sight is not None and sight[0] & _WIDE != _WIDE:
            modes.setdefault(parent, (parent, sight[0], sight[0]))
    ordered = [modes[path] for path in sorted(modes)]
    return Journal(token, Phase.STAGING, list(moves.values()), chmods, ordered)


def _item(action: Change, seen: Signature | None) -> Item:
    before, after = action.before or _ABSENT, action.after or _ABSENT
    sight = (seen[1], seen[2], seen[4]) if seen else None
    return Item(action.path, before.mode, before.ref, after.mode, after.ref, sight)


def _same_type(one: Entry, other: Entry) -> bool:
    return stat.S_IFMT(one.mode) == stat.S_IFMT(other.mode)
