"""A row of the table of memories, as the port gives it."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast import typed_values
from holdfast.kernel.author import Author
from holdfast.kernel.memory import Memory, MemoryKind

BEGINNING = "(SELECT * FROM memories WHERE id >= ?1 AND id < ?1 || char(1114111))"
"""The memories whose ids begin with ?1, by their index."""
_cites = msgspec.json.Decoder(tuple[str, ...]).decode
_author = typed_values.decoder(Author)


def memory_of(
    id: str,
    kind: MemoryKind,
    text: str,
    scope: str,
    source: str,
    cites: str,
    supersedes: str,
    author: str,
    version: int,
    at: int,
    withdrawn: int,
    *changed: Any,
) -> Memory:
    """The memory in a row of the query `memories`."""
    return Memory(
        id, kind, text, scope, source, _cites(cites), supersedes, _author(author), version, at,
        bool(withdrawn), *changed,
    )  # fmt: skip
