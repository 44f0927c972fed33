"""An item that can be found, and what a family of items does with the store's events."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec

from holdfast.store.port import Entry

MOST_CHARS = 200_000
"""Of one text of an item. What comes after it is not found."""


class Item(NamedTuple):
    """An item of the index; all texts are redacted.

    id       the position in the log of the event that it began with
    key      the id of a run, a task or a memory; of an event, its run's
    version  of an event: its place in the run
    hidden   found only on request: a memory that was withdrawn or superseded
    at       when it last changed, in microseconds
    step     of an event: the step that it is about
    names    what else it is called by, besides `key` and `title`
    body     its own text; `rest` is what counts least in the ranking
    """

    id: int
    family: str
    key: str
    version: int = 0
    kind: str = ""
    status: str = ""
    hidden: bool = False
    at: int = 0
    step: str = ""
    title: str = ""
    body: str = ""
    rest: str = ""
    names: str = ""


class Changes(Protocol):
    """The index inside a transaction."""

    def put(self, item: Item) -> None:
        """Add the item, or put it in the place of the one with its id."""
        ...

    def drop(self, family: str, key: str) -> None:
        """Remove the items of that family with that key."""
        ...

    def id_of(self, family: str, key: str) -> int | None:
        """The id of the item; None if there is none."""
        ...


class Family(Protocol):
    """Makes items of one family from the store's events.

    It is given each event of its `types` once, in the order of the log, in batches: `take` for each event,
    then `finish` in the transaction that also records how far the log was read. Nothing else is remembered
    from one batch to the next.
    """

    name: str
    types: frozenset[str]

    def take(self, entry: Entry, changes: Changes) -> None: ...

    def finish(self, changes: Changes) -> None: ...


def named_stream(entry: Entry) -> str:
    """The stream that an event of the store's own stream is about: archived, deleted or restored."""
    found: str = msgspec.json.decode(entry.payload)["stream"]
    return found
