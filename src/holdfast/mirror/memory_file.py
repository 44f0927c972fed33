"""`tasks/memory.json`: the decisions, patterns and facts that count now."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.clock import instant
from holdfast.kernel.memory import PROJECT
from holdfast.store.port import MemoryFilter

if TYPE_CHECKING:
    from holdfast.kernel.memory import Memory
    from holdfast.redaction import Redactor
    from holdfast.store.port import Store

NAME: Final = "memory.json"
MOST: Final = 1000
"""How many memories are listed, the newest; `holdfast recall` finds the others."""
_SHORT: Final = 100


class MemoryLine(msgspec.Struct, frozen=True):
    """One memory that counts."""

    id: str
    kind: str
    text: str
    scope: str
    source: str
    cites: tuple[str, ...]
    supersedes: str
    by: str
    run: str
    at: datetime


class MemoryFile(msgspec.Struct, frozen=True):
    """The memory file. `left_out` says whether older memories are not listed."""

    project_type: str
    memories: list[MemoryLine]
    left_out: bool
    sha256: str


class SessionMemory(msgspec.Struct, frozen=True):
    """The memory as a session's file shows it: the newest texts of each kind."""

    project_type: str
    key_decisions: list[str]
    learned_patterns: list[str]


def render(store: Store, redactor: Redactor, project_type: str) -> dict[str, Any]:
    found = store.memories(MemoryFilter(), limit=MOST + 1)
    file = MemoryFile(project_type, [_line(one, redactor) for one in found[:MOST]], len(found) > MOST, "")
    body: dict[str, Any] = msgspec.to_builtins(file)
    return body


def in_session(store: Store, session: str, project_type: str) -> SessionMemory:
    """The memory of the project and of that session."""
    scopes = (PROJECT, f"session:{session}")
    return SessionMemory(project_type, _texts(store, "decision", scopes), _texts(store, "pattern", scopes))


def _texts(store: Store, kind: str, scopes: tuple[str, ...]) -> list[str]:
    """The newest texts, in the order of their age."""
    found = [
        one for scope in scopes for one in store.memories(MemoryFilter(kind=kind, scope=scope), limit=_SHORT)
    ]
    return [one.text for one in sorted(found, key=lambda one: one.version)[-_SHORT:]]


def _line(memory: Memory, redactor: Redactor) -> MemoryLine:
    return MemoryLine(
        memory.id,
        memory.kind,
        redactor.redact(memory.text),
        redactor.redact(memory.scope),
        redactor.redact(memory.source),
        tuple(map(redactor.redact, memory.cites)),
        memory.supersedes,
        memory.author.by,
        memory.author.run,
        instant(memory.at),
    )
