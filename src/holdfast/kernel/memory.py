"""The memory: decisions, patterns and facts that outlive a session, as the stream `@memory` records them.

A memory is current, superseded or withdrawn. Nothing is ever removed: what is superseded or withdrawn is kept
and shown on request. A memory is superseded while a later one that names it counts, or is itself superseded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, Protocol, get_args

import msgspec

from holdfast.errors import BadInput, NotFound, Refused
from holdfast.kernel.author import NOBODY, Author
from holdfast.kernel.events import Event
from holdfast.kernel.identity import check_text
from holdfast.kernel.naming import listed

STREAM: Final = "@memory"
KIND: Final = "memory"
"""The kind of its stream."""
MAX_TEXT: Final = 64 << 10
"""The most characters of a memory: an agent reads it whole."""

PROJECT: Final = "project"
_SCOPES: Final = ("session", "task")
_MAX_NAME: Final = 1000
"""The most characters of a source, a reason and each citation."""

MemoryKind = Literal["decision", "pattern", "fact"]
MemoryStatus = Literal["current", "superseded", "withdrawn"]
KINDS: Final[tuple[str, ...]] = get_args(MemoryKind)


class Remembered(Event, frozen=True, gc=False):
    """A decision, a pattern or a fact was kept for later sessions. `text` is redacted.

    scope       `project`, `session:ID` or `task:ID`: what it belongs to
    source      where it is from, in words
    cites       what it rests on: files, addresses, ids
    supersedes  the memory that it replaces; empty if none
    """

    id: str
    kind: MemoryKind
    text: str
    scope: str = "project"
    source: str = ""
    cites: tuple[str, ...] = ()
    supersedes: str = ""
    author: Author = NOBODY


class MemoryWithdrawn(Event, frozen=True, gc=False):
    """The memory `id` no longer counts: someone withdrew it, or `operation` undid what had written it."""

    id: str
    reason: str = ""
    operation: str = ""
    author: Author = NOBODY


class MemoryRestored(Event, frozen=True, gc=False):
    """The memory `id` counts again: `operation` undid its withdrawal."""

    id: str
    operation: str = ""
    author: Author = NOBODY


EVENTS: Final = (Remembered, MemoryWithdrawn, MemoryRestored)


class Memory(msgspec.Struct, frozen=True):
    """One memory as it is now.

    version        of the event that recorded it; `at` is when that was
    withdrawn      it no longer counts; `reason` says why, `changed_at` when
    operation      the operation that last withdrew or restored it; empty if none did
    superseded_by  the first memory that replaces it and still counts; empty if none does
    """

    id: str
    kind: MemoryKind
    text: str
    scope: str
    source: str
    cites: tuple[str, ...]
    supersedes: str
    author: Author
    version: int
    at: int
    withdrawn: bool = False
    reason: str = ""
    operation: str = ""
    changed_at: int = 0
    superseded_by: str = ""

    @property
    def status(self) -> MemoryStatus:
        if self.withdrawn:
            return "withdrawn"
        return "superseded" if self.superseded_by else "current"


class AtVersion(Protocol):
    """An event with its version and its time, as a store returns it."""

    @property
    def event(self) -> Event: ...
    @property
    def version(self) -> int: ...
    @property
    def at(self) -> int: ...


class MemoryState:
    """All memories at a version of the stream. Immutable: `evolve` copies one of its parts.

    Memories are kept in parts by the beginning of their id, so that a copy stays small."""

    __slots__ = ("_parts",)

    def __init__(self, parts: dict[str, dict[str, _Kept]] | None = None) -> None:
        self._parts = {} if parts is None else parts

    def get(self, id: str) -> Memory | None:
        kept = self._kept(id)
        if kept is None:
            return None
        return msgspec.structs.replace(kept.memory, superseded_by=self._superseded_by(kept))

    def __iter__(self) -> Iterator[Memory]:
        """In the order in which they were recorded."""
        every = [kept for part in self._parts.values() for kept in part.values()]
        for kept in sorted(every, key=lambda kept: kept.memory.version):
            yield msgspec.structs.replace(kept.memory, superseded_by=self._superseded_by(kept))

    def ids(self) -> list[str]:
        return [id for part in self._parts.values() for id in part]

    def _kept(self, id: str) -> _Kept | None:
        return self._parts.get(id[:2], {}).get(id)

    def _superseded_by(self, kept: _Kept) -> str:
        for id in kept.successors:
            later = self._kept(id)
            if later is not None and (not later.memory.withdrawn or self._superseded_by(later)):
                return id
        return ""

    def _with(self, *changed: _Kept) -> MemoryState:
        parts = dict(self._parts)
        for kept in changed:
            id = kept.memory.id
            parts[id[:2]] = {**parts.get(id[:2], {}), id: kept}
        return MemoryState(parts)


class _Kept(msgspec.Struct, frozen=True):
    memory: Memory
    successors: tuple[str, ...] = ()
    """The memories that name it as superseded, the oldest first."""


EMPTY: Final = MemoryState()


# What is decided


def remember(
    state: MemoryState,
    id: str,
    text: str,
    *,
    kind: str,
    scope: str,
    source: str = "",
    cites: tuple[str, ...] = (),
    supersedes: str = "",
    author: Author,
) -> Remembered:
    """Raises `BadInput` for a text or a kind that cannot be kept, `NotFound` for a `supersedes` that is not
    there, `Refused` for one that is withdrawn or superseded already."""
    if kind not in KINDS:
        raise BadInput(f"{kind!r} is no kind of memory; use {', '.join(KINDS)}")
    check_memory_text(text)
    check_scope(scope)
    for name, given in (("source", source), *(("cites", one) for one in cites)):
        _check_name(name, given)
    if supersedes:
        _refuse_gone(known(state, supersedes), "superseded")
    return Remembered(id, kind, text, scope, source, cites, supersedes, author)  # type: ignore[arg-type]


def withdraw(
    state: MemoryState, id: str, reason: str = "", *, operation: str = "", author: Author
) -> MemoryWithdrawn:
    """Raises `NotFound`; `Refused` if it is withdrawn or superseded already."""
    _check_name("reason", reason)
    _refuse_gone(known(state, id), "withdrawn")
    return MemoryWithdrawn(id, reason, operation, author)


def known(state: MemoryState, id: str) -> Memory:
    found = state.get(id)
    if found is None:
        raise NotFound(f"there is no memory {id!r}; `holdfast recall --all` lists them")
    return found


def _refuse_gone(memory: Memory, wanted: str) -> None:
    if memory.withdrawn:
        why = f": {memory.reason}" if memory.reason else ""
        by = f" by {memory.operation}" if memory.operation and not memory.reason else ""
        raise Refused(f"memory {memory.id} is withdrawn already{by}{why}; it cannot be {wanted} again")
    if memory.superseded_by:
        raise Refused(
            f"memory {memory.id} is superseded by {memory.superseded_by}; name that one to have it {wanted}"
        )


def check_memory_text(text: object) -> None:
    """Raise `BadInput` for a text that cannot be kept."""
    checked = check_text(text, "the text of a memory")
    if not checked.strip():
        raise BadInput("a memory has a text: give one sentence or more")
    if len(checked) > MAX_TEXT:
        raise BadInput(
            f"the text has {len(checked):,} characters, and a memory has at most {MAX_TEXT:,}: keep the long "
            "text in a file, and name the file with cites"
        )


def check_scope(scope: object) -> str:
    """`project`, `session:ID` or `task:ID`. Raises `BadInput`."""
    checked = check_text(scope, "the scope of a memory")
    family, _, id = checked.partition(":")
    if checked != PROJECT and (family not in _SCOPES or not id.strip() or len(checked) > _MAX_NAME):
        raise BadInput(f"{checked[:200]!r} is no scope; use project, session:ID or task:ID")
    return checked


def _check_name(what: str, text: object) -> None:
    if len(check_text(text, f"the {what} of a memory")) > _MAX_NAME:
        raise BadInput(f"the {what} of a memory has at most {_MAX_NAME:,} characters")


def unknown(text: str, near: list[str]) -> NotFound:
    """The error for an id that no memory has, with those that are nearest."""
    hint = f"; did you mean {listed(near)}?" if near else ""
    return NotFound(f"there is no memory {text!r}{hint}; `holdfast recall --all` lists them")


# What follows from it


def fold(recorded: Iterable[AtVersion]) -> MemoryState:
    """The memory after these events."""
    state = EMPTY
    for one in recorded:
        state = evolve(state, one)
    return state


def evolve(state: MemoryState, recorded: AtVersion) -> MemoryState:
    """The state after an event; the one before it is left as it is."""
    event, at = recorded.event, recorded.at
    if isinstance(event, Remembered):
        if state._kept(event.id) is not None:
            return state
        memory = Memory(
            event.id,
            event.kind,
            event.text,
            event.scope,
            event.source,
            event.cites,
            event.supersedes,
            event.author,
            recorded.version,
            at,
        )
        before = state._kept(event.supersedes) if event.supersedes else None
        if before is None:
            return state._with(_Kept(memory))
        return state._with(
            _Kept(memory), msgspec.structs.replace(before, successors=(*before.successors, event.id))
        )
    if isinstance(event, (MemoryWithdrawn, MemoryRestored)):
        kept = state._kept(event.id)
        if kept is not None:
            changed = msgspec.structs.replace(
                kept.memory,
                withdrawn=isinstance(event, MemoryWithdrawn),
                reason=event.reason if isinstance(event, MemoryWithdrawn) else "",
                operation=event.operation,
                changed_at=at,
            )
            return state._with(msgspec.structs.replace(kept, memory=changed))
    return state
