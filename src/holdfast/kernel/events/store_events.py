"""Events of the store's own stream: which streams there are, and what a repair lost."""

from __future__ import annotations

import msgspec

from holdfast.kernel.events.event import Event


class StreamCreated(Event, frozen=True, gc=False):
    """A stream's first event was written in this same transaction."""

    stream: str
    kind: str


class StreamArchived(Event, frozen=True, gc=False):
    """A stream that had ended was removed in this same transaction. `version` and `hash` are its head: the
    number of its events, and what `file`, a copy of them, must add up to. Without a file it had been deleted,
    and no copy of it is kept."""

    stream: str
    version: int
    hash: str
    file: str = ""


class Lost(msgspec.Struct, frozen=True, array_like=True):
    """The versions `first` to `last` of a stream."""

    stream: str
    first: int
    last: int


class StoreRepaired(Event, frozen=True, gc=False):
    """The log was written anew from what its copies still held. `kept` is the directory, in the store's own,
    that has the files as they were; `lost` is what no copy had, and `values` are the large values (SHA-256)
    that are missing from here on. `before` is the incarnation that the store had: backups of that one are
    still copies of this log."""

    kept: str
    lost: tuple[Lost, ...] = ()
    values: tuple[str, ...] = ()
    before: str = ""


class StreamDeleted(Event, frozen=True, gc=False):
    """A stream was set aside in this same transaction, by `operation`: no reader sees it. `version` and
    `hash` are its head and `kind` is what it was. A `StreamRestored` brings it back, a `StreamArchived`
    without a file makes the deletion final."""

    stream: str
    kind: str
    version: int
    hash: str
    operation: str = ""


class StreamRestored(Event, frozen=True, gc=False):
    """A stream that was deleted is there again, as it was. `kind` is what it is."""

    stream: str
    kind: str
    operation: str = ""
