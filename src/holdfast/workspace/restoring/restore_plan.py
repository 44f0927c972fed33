"""The plan of a restore, path by path, before anything is done.

Three snapshots decide about a path: `to`, the one to go back to; `left`, as the run left the files; `now`.
What is now as the run left it goes back. What others changed since stays: as their own if the run had
not touched it, as a conflict if it had. Nothing is deleted without proof that it was absent at `to` and that
the run made it, and nothing that one of the snapshots does not know for certain is touched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import pathspec

from holdfast.errors import BadWorkspace
from holdfast.workspace.contents.content_store import Contents
from holdfast.workspace.contents.refs import Ref
from holdfast.workspace.fs import beneath
from holdfast.workspace.snapshots.changes import Change
from holdfast.workspace.snapshots.listing import Entry
from holdfast.workspace.snapshots.snapshot import DAMAGED, Hidden, State, Tree

_NO_REF = Ref(b"")
_Visit: TypeAlias = Generator["_Visit", bool, bool]
"""A look at a path: asks for looks at paths beneath it, gets the result of each, and ends with its own."""


class Why(Enum):
    """Why a path that differs from `to` is kept as it is."""

    YOURS = "changed by others, not by the run"
    CONFLICT = "changed by the run and by others since"
    UNKNOWN = "not covered by a snapshot"
    DAMAGED = "its content is missing or damaged"
    OCCUPIED = "files that are kept are in the way"
    CASE = "another name differs from it only in case"
    ASKED = "kept as you asked"


@dataclass(frozen=True, slots=True)
class Kept:
    """A path that stays as it is, though it differs from `to`."""

    path: bytes
    why: Why
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The actions of `apply`. `before` of an action is what is there now, `after` what will be."""

    to: str
    left: str
    now: str
    only: tuple[str, ...]
    theirs: bool
    actions: tuple[Change, ...]
    kept: tuple[Kept, ...]
    yours: frozenset[bytes] = frozenset()
    """Paths that `to` has as others left them, though it is to be what the run began with."""
    keep: tuple[str, ...] = ()
    """Patterns of paths that stay as they are."""

    @property
    def doing(self) -> list[tuple[bytes, tuple[Entry | None, Entry | None]]]:
        """Each path that changes, with what is there now and what will be: of directories only the mode,
        since what is in them is named by itself."""
        return [(one.path, (_bare_entry(one.before), _bare_entry(one.after))) for one in self.actions]

    @property
    def damaged(self) -> tuple[bytes, ...]:
        return tuple(one.path for one in self.kept if one.why is Why.DAMAGED)


class Planner:
    """Goes through three snapshots at once."""

    def __init__(
        self,
        contents: Contents,
        to: Tree,
        left: Tree,
        now: Tree,
        *,
        only: Sequence[str] = (),
        keep: Sequence[str] = (),
        theirs: bool = False,
        folds_case: bool = False,
    ) -> None:
        self._contents = contents
        self._to, self._left, self._now = to, left, now
        self._only, self._stays = _selection(only), _selection(keep)
        self._theirs = theirs
        self._folds_case = folds_case
        self._actions: dict[bytes, Change] = {}
        self._kept: list[Kept] = []

    def run(self) -> tuple[tuple[Change, ...], tuple[Kept, ...]]:
        _walk(self._visit(b"", self._to.root, self._left.root, self._now.root, False))
        if self._folds_case:
            self._keep_case_collisions()
        self._add_ancestors()
        actions = sorted(self._actions.values(), key=lambda change: change.path)
        return tuple(actions), tuple(self._kept)

    def is_back(self, path: bytes) -> bool:
        """Whether a path that was asked for is as it is to be."""
        if not self._selected_with_parents(path):
            return False
        to = self._to.find(path)
        return not isinstance(to, Hidden) and _same(to, self._now.find(path))

    def _selected_with_parents(self, path: bytes) -> bool:
        while path and not self._is_selected(path):
            path, _ = beneath.split(path)
        return bool(path)

    def _visit(self, path: bytes, to: State, left: State, now: State, selected: bool) -> _Visit:
        """Decide about a path and all beneath → whether nothing that is kept remains there."""
        if to == now:
            return now is None
        selected = selected or self._is_selected(path)
        if path and self._stays is not None and self._stays.match_file(os.fsdecode(path)):
            self._keep(path, Why.ASKED, selected)
            return now is None
        if isinstance(to, Hidden) or isinstance(now, Hidden):
            return self._keep_hidden(path, to, now, selected)
        if isinstance(to, Entry) and not to.is_directory and to.ref not in self._contents:
            self._keep(path, Why.DAMAGED, selected)
            return now is None
        if is_directory(to) and is_directory(now):
            self._decide(path, to, left, now, selected, mode_only=True)
            yield self._visit_inner(path, to, left, now, selected)
            return False
        if is_directory(now):
            return (yield self._replace_directory(path, to, left, now, selected))
        goes = self._decide(path, to, left, now, selected)
        if is_directory(to) and (goes or now is None):
            yield self._visit_inner(path, to, left, None, selected)
        return goes

    def _visit_inner(self, path: bytes, to: State, left: State, now: State, selected: bool) -> _Visit:
        """All entries of a directory → whether nothing that is kept remains in it."""
        empty = True
        for tree, state in ((self._to, to), (self._now, now)):
            if isinstance(state, Entry) and isinstance(tree.inner(state, path), Hidden):
                self._keep(path, Why.DAMAGED, selected)
                empty = False
        for name in sorted(self._names(path, to, now)):
            empty &= yield self._visit(
                beneath.join(path, name),
                self._to.inside(to, path, name),
                self._left.inside(left, path, name),
                self._now.inside(now, path, name),
                selected,
            )
        return empty

    def _names(self, path: bytes, to: State, now: State) -> set[bytes]:
        names: set[bytes] = set()
        for tree, state in ((self._to, to), (self._now, now)):
            if isinstance(state, Entry) and state.is_directory:
                inner = tree.inner(state, path)
                if not isinstance(inner, Hidden):
                    names |= inner.entries.keys() | inner.uncovered.keys()
        return names

    def _replace_directory(self, path: bytes, to: State, left: State, now: State, selected: bool) -> _Visit:
        """A directory that is to go, or to make room for a file: only if all that is in it goes."""
        kept, actions = len(self._kept), len(self._actions)
        empty = yield self._visit_inner(path, None, left, now, selected)
        if empty and selected and is_directory(left):
            self._act(path, now, to)
            return to is None
        if to is not None:
            while len(self._actions) > actions:
                self._actions.popitem()
            del self._kept[kept:]
        if to is not None or empty:
            self._keep(path, Why.YOURS if _same(left, to) else Why.OCCUPIED, selected)
        return False

    def _decide(
        self, path: bytes, to: State, left: State, now: State, selected: bool, *, mode_only: bool = False
    ) -> bool:
        """Whether a path goes back, by who changed it. Of two directories only the modes count."""
        if mode_only:
            to, left, now = _bare(to), _bare(left), _bare(now)
        if to == now:
            return False
        if isinstance(left, Hidden):
            return self._keep(path, Why.UNKNOWN, selected, left.reason)
        as_left = _same(left, now)
        if not as_left and _same(left, to):
            return self._keep(path, Why.YOURS, selected)
        if not as_left and not self._theirs:
            return self._keep(path, Why.CONFLICT, selected)
        if not selected:
            return False
        self._act(path, now, to)
        return to is None or now is not None

    def _act(self, path: bytes, now: State, to: State) -> None:
        assert not isinstance(now, Hidden) and not isinstance(to, Hidden), "what is hidden is kept"
        self._actions[path] = Change(path, now, to)

    def _keep_hidden(self, path: bytes, to: State, now: State, selected: bool) -> bool:
        """An unknown path stays. A path hidden on both sides does not differ as far as is known."""
        if isinstance(to, Hidden) != isinstance(now, Hidden):
            reason = to.reason if isinstance(to, Hidden) else now.reason if isinstance(now, Hidden) else ""
            self._keep(path, Why.DAMAGED if reason == DAMAGED else Why.UNKNOWN, selected, reason)
        return now is None

    def _keep(self, path: bytes, why: Why, selected: bool, detail: str = "") -> bool:
        if selected:
            self._kept.append(Kept(path, why, detail))
        return False

    def _is_selected(self, path: bytes) -> bool:
        return self._only is None or (path != b"" and self._only.match_file(os.fsdecode(path)))

    def _add_ancestors(self) -> None:
        """A path that comes back needs its directories, also those that were not asked for."""
        for path in list(self._actions):
            if self._actions[path].after is None:
                continue
            parent = path
            while parent:
                parent, _ = beneath.split(parent)
                if parent in self._actions or is_directory(self._now.find(parent)):
                    break
                to, now = self._to.find(parent), self._now.find(parent)
                if now is not None:
                    break
                self._act(parent, now, to)

    def _keep_case_collisions(self) -> None:
        """Where names that differ only in case are one file, none of them may overwrite another."""
        names: dict[bytes, list[bytes]] = {}
        wanted = [path for path, change in self._actions.items() if change.after is not None]
        for path in {*wanted, *(path for path, _ in self._now.walk())}:
            change = self._actions.get(path)
            if change is None or change.after is not None:
                names.setdefault(_folded(path), []).append(path)
        for path in wanted:
            if len(names[_folded(path)]) > 1:
                del self._actions[path]
                self._kept.append(Kept(path, Why.CASE))


def _walk(visit: _Visit) -> None:
    """Carry out a visit and those that it asks for, by a list: a tree can be deeper than a stack."""
    visits = [visit]
    answered, answer = False, False
    while visits:
        try:
            visits.append(visits[-1].send(answer) if answered else next(visits[-1]))
            answered = False
        except StopIteration as end:
            visits.pop()
            answered, answer = True, end.value


def is_directory(state: State) -> bool:
    return isinstance(state, Entry) and state.is_directory


def _bare_entry(entry: Entry | None) -> Entry | None:
    """A directory without what is in it."""
    return Entry(entry.mode, _NO_REF) if entry is not None and entry.is_directory else entry


def _bare(state: State) -> State:
    return state if isinstance(state, Hidden) else _bare_entry(state)


def _same(one: State, other: State) -> bool:
    return _bare(one) == _bare(other)


def _folded(path: bytes) -> bytes:
    return os.fsencode(os.fsdecode(path).casefold())


def selects(patterns: Sequence[str]) -> Callable[[bytes], bool]:
    """Whether a path, or a directory that it is in, matches one of the patterns. Raises BadWorkspace."""
    spec = _selection(patterns)

    def matches(path: bytes) -> bool:
        return spec is None or spec.match_file(os.fsdecode(path))

    return matches


def _selection(only: Iterable[str]) -> pathspec.GitIgnoreSpec | None:
    patterns = list(only)
    for pattern in patterns:
        if ".." in pattern.split("/"):
            raise BadWorkspace(f"{pattern!r} leads out of the workspace; name paths as seen from its root")
    return pathspec.GitIgnoreSpec.from_lines(patterns) if patterns else None
