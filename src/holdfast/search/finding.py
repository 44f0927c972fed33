"""Answers a query from the index."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import msgspec

from holdfast.search import cursor as cursors
from holdfast.search.cursor import Cursor
from holdfast.search.index import Index, script
from holdfast.search.query import Query
from holdfast.search.relevance import weights

RANKED: Final = 200
"""How many of the newest items with the words are ranked; older ones come after them. A word that is
everywhere costs no more than one in so many items."""


class Filter(msgspec.Struct, frozen=True):
    """Which items: of these families, statuses and kinds (empty for any), changed since then.

    hidden       also those that are hidden
    interrupted  runs that count as `interrupted`, for which the index has another status
    """

    families: tuple[str, ...]
    statuses: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    since: int | None = None
    hidden: bool = False
    interrupted: tuple[str, ...] = ()

    def values(self) -> dict[str, Any]:
        """As the statements take them."""
        return {
            "families": _array(self.families),
            "statuses": _array(self.statuses) if self.statuses else None,
            "interrupted": _array(self.interrupted),
            "kinds": _array(self.kinds) if self.kinds else None,
            "since": self.since,
            "hidden": self.hidden,
        }

    @property
    def identity(self) -> tuple[Any, ...]:
        """The query and filter that a cursor belongs to, without which runs are interrupted at the moment."""
        return self.families, self.statuses, self.kinds, self.since, self.hidden


class Found(msgspec.Struct, frozen=True):
    """An item of the index, with the status that it has there."""

    id: int
    family: str
    key: str
    version: int
    kind: str
    at: int
    step: str
    title: str
    body: str
    rest: str
    status: str


class Finding(msgspec.Struct, frozen=True):
    """Items in order, and the cursor behind them; it is empty if there are no more."""

    items: list[Found]
    after: str


def find(index: Index, query: Query, which: Filter, *, store: str, limit: int, after: str) -> Finding:
    """The items that fit, `limit` at most, behind the cursor `after`: ranked by `relevance`, the newest first
    where that is equal; without words to look for, the newest first. `store` names the history that the
    cursor is of."""
    search = _digest((query, which.identity, store))
    newest = int(index.db.execute("SELECT coalesce(max(id), 0) FROM items").get)
    begin = cursors.read(after, search) if after else Cursor(search, newest)
    if query.is_hopeless:
        return Finding([], "")
    values = which.values() | {"newest": begin.newest, "limit": limit + 1}
    if query.has:
        values |= {"wanted": query.wanted, "shown": _array(begin.shown), "ranked": max(RANKED, limit + 1)}
        values |= {"weights": _array(weights(index.db, query.has)), "unwanted": None}
    else:
        values["unwanted"] = query.unwanted or None
    rows = index.rows(_statement("ranked" if query.has else "listed"), values)
    items = [Found(*row) for row in rows[:limit]]
    if len(rows) <= limit:
        return Finding(items, "")
    behind = begin.after([one.id for one in items], ranked=bool(query.has))
    return Finding(items, cursors.write(behind))


@cache
def _statement(name: str) -> str:
    return script(f"{name}.sql").replace("(fits)", f"({script('fits.sql')})")


def _array(values: Sequence[Any]) -> str:
    return msgspec.json.encode(values).decode()


def _digest(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()[:12]
