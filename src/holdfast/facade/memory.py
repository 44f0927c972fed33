"""`hf.memory`: decisions, patterns and facts that later sessions recall."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from holdfast.errors import BadInput
from holdfast.facade.namespace import Namespace
from holdfast.facade.open_store import blocking, texts

if TYPE_CHECKING:
    from holdfast.facade.tracking import Tracking
    from holdfast.tracker.memories import Memories
    from holdfast.views.memory import Memory


class MemoryNamespace(Namespace):
    """In workflow code each call is a recorded step: a replay does not repeat it, and gives what it gave. In
    the body of a step it is a plain call."""

    NAMESPACE: ClassVar = "memory"
    _holdfast: Tracking

    @blocking
    def remember(
        self,
        text: str,
        *,
        kind: str = "fact",
        scope: str = "project",
        source: str = "",
        cites: Sequence[str] = (),
        supersedes: str | None = None,
    ) -> Memory:
        """Keep a decision, a pattern or a fact for later sessions. Its text is redacted when recorded.

        kind        `decision`, `pattern` or `fact`
        scope       `project`, `session:ID` or `task:ID`: what it belongs to; an id may be shortened
        source      where it is from, in words
        cites       what it rests on: files, addresses, ids
        supersedes  the memory that it replaces: its id, or the beginning of it

        A rewind withdraws what the run remembered after that point. Raises `NotFound` and `Refused` for a
        `supersedes` that is not there, or that is withdrawn or superseded already.
        """
        self._holdfast._open_tracker()
        id = self._memories.remember(
            text,
            kind=kind,
            scope=self._scope(scope),
            source=source,
            cites=texts(cites, "cites="),
            supersedes=supersedes,
        )
        return self._of(id)

    @blocking
    def withdraw(self, id: str, why: str = "") -> Memory:
        """A memory, named by its id or the beginning of it, no longer counts. It is kept, and `recall` shows
        it only with `every`. `undo` restores it."""
        self._holdfast._open_tracker()
        return self._of(self._memories.withdraw(id, why))

    @blocking
    def recall(
        self,
        query: str = "",
        *,
        kind: str | None = None,
        scope: str | None = None,
        at: str | datetime | None = None,
        every: bool = False,
        limit: int | None = 20,
    ) -> builtins.list[Memory]:
        """The memories in which every word of `query` occurs, also inside a longer word, the newest first.

        kind, scope  only these
        at           as the memory was then: a time, or `RUN:POINT`, a checkpoint or step of a run
        every        also those that are superseded or withdrawn
        """
        from holdfast.kernel.memory import KINDS
        from holdfast.store.port import MemoryFilter
        from holdfast.views.memory import Memory
        from holdfast.views.moments import by_moment
        from holdfast.views.recalling import recall

        if kind is not None and kind not in KINDS:
            raise BadInput(f"{kind!r} is no kind of memory; use {', '.join(KINDS)}")
        which = MemoryFilter(kind=kind, scope=None if scope is None else self._scope(scope), every=every)
        store, reader = self._holdfast._store, self._holdfast._reader
        happened = None if at is None else by_moment(reader, store, at)
        found = recall(store, query, which, happened=happened, limit=limit)
        return [Memory.of(one, reader.redactor) for one in found]

    @blocking
    def list(
        self, *, kind: str | None = None, scope: str | None = None, every: bool = False
    ) -> builtins.list[Memory]:
        """All memories of that kind and scope, the newest first; `every` one, also those that are superseded
        or withdrawn."""
        return self.recall(kind=kind, scope=scope, every=every, limit=None)

    @blocking
    def get(self, id: str) -> Memory:
        """One memory, by its id or the beginning of it. Raises `NotFound` with the nearest ids."""
        from holdfast.tracker.memories import find

        return self._of(find(self._holdfast._store, id))

    def _scope(self, scope: str) -> str:
        """The scope with the whole id of its task or session. Raises `TaskNotFound`, `SessionNotFound`."""
        from holdfast.kernel.memory import check_scope

        family, _, id = check_scope(scope).partition(":")
        if not id:
            return family
        known = self._holdfast.tasks if family == "task" else self._holdfast.sessions
        return f"{family}:{known.find(id)}"

    @cached_property
    def _memories(self) -> Memories:
        from holdfast.tracker.memories import Memories

        return Memories(self._holdfast._tracker)

    def _of(self, id: str) -> Memory:
        from holdfast.store.port import MemoryFilter
        from holdfast.views.memory import Memory

        (found,) = self._holdfast._store.memories(MemoryFilter(id, every=True))
        return Memory.of(found, self._holdfast._reader.redactor)
