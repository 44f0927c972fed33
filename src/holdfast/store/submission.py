"""Submissions to a store: appends of owners, commands of others, and the decisions in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.errors import StoreError
from holdfast.kernel import events as e

if TYPE_CHECKING:
    pass


class Recorded(NamedTuple):
    """An event as the log has it."""

    event: e.Event
    version: int
    at: int


class NewEvent(NamedTuple):
    """An event on its way into the log, encoded by its submitter, outside every lock."""

    type: str
    at: int
    payload: str


def new_event(event: e.Event, at: int) -> NewEvent:
    # On the path of every step: a NamedTuple's own constructor is a Python function.
    return tuple.__new__(NewEvent, (e.type_of(event), at, e.encode(event)))


class Fate:
    """The fate that the submissions of one execution share: once one was refused or lost, no later one is
    written. A value recorded with the lost one would be missing, and the replay would see another value than
    the steps that were recorded after it."""

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: BaseException | None = None


class Companion(NamedTuple):
    """A decision on another stream that is committed with an owner's append, or not at all.

    `decide` gets the events of `source` as they are inside the transaction: also those of earlier companions
    and of earlier submissions in the same batch. It runs once, under the write lock, in whichever thread
    commits; it must not call the store.

    A companion must not refuse. If `decide` raises, the append fails with a `StoreError` that names the
    companion's stream, nothing is written, and the run is lost as by any failed append. Whatever can be
    refused (a reservation) belongs in a command of its own before the append.

    If its stream is archived, the companion is skipped and `decide` is not called: the owner's result must
    not be lost because a stream beside it was archived. Its stream must not be the owner's own."""

    source: Source
    decide: Decide


class Append:
    """The owner's submission. `durable=False` commits without waiting for the disk: it survives a
    kill, and the next durable commit of anybody makes it survive a power cut too."""

    __slots__ = (
        "also",
        "begins",
        "blobs",
        "durable",
        "epoch",
        "error",
        "events",
        "fate",
        "seal",
        "stream",
        "version",
        "wake",
    )

    def __init__(
        self,
        stream: str,
        epoch: int,
        events: Sequence[NewEvent],
        *,
        durable: bool = True,
        blobs: Sequence[tuple[str, bytes]] = (),
        seal: Callable[[Append], None] | None = None,
        fate: Fate | None = None,
        begins: str = "",
        also: Sequence[Companion] = (),
    ) -> None:
        self.stream = stream
        self.epoch = epoch
        self.begins = begins
        """The kind of the stream, if this append makes it, with its epoch; refused if it is there."""
        self.events = events
        self.durable = durable
        self.blobs = blobs
        self.fate = fate
        self.also = also
        """Companions, decided in this order after the append's own events are written. A stale owner's
        append is refused together with them."""
        self.seal = seal
        """Called once with this append as it takes its place in the queue, under the queue's lock, to
        add or drop what rides along: whatever two appends of a run contend for is decided there. If it
        leaves no events and no companions, the append is acknowledged and writes nothing, whichever owner has
        the run. Companions without events are committed if the epoch is still the owner's."""
        self.version = 0
        """After the acknowledgement: the version of the last event."""
        self.error: BaseException | None = None
        self.wake: Any = None


Decide = Callable[[Sequence[Recorded]], "Decision"]
"""Decides on the events of one stream what is appended to it. Every `decide` runs at most once for each
command or companion, inside the write transaction, in whichever thread commits. It changes nothing that must
outlive a refusal, and does not call the store, which raises `StoreError` if it does. A caller that must look
at something else (is the owner alive?) looks before the command; if `decide` finds that the stream has
changed since, it writes nothing, and the caller looks again and submits a new command."""
DecideAll = Callable[[Sequence[Sequence[Recorded]]], "Sequence[Decision]"]


class Decision(NamedTuple):
    """The events that a foreign command appends. `kind` is the kind of the stream if they create it; `epoch`
    raises the stream's fence (a claim does). Without events nothing is written."""

    kind: str
    events: Sequence[NewEvent] = ()
    epoch: int | None = None
    blobs: Sequence[tuple[str, bytes]] = ()


NO_EVENTS: Final = Decision("")
"""The decision to write nothing."""
END: Final = 1 << 62
"""A version behind every event: of a command that need not read what is there."""


class Source(NamedTuple):
    """The input of a command: a stream's events after a version, of these types if any are named."""

    stream: str
    after: int = 0
    types: Sequence[str] = ()


def companion_failed(append: Append, companion: Companion, error: Exception) -> StoreError:
    """The error of an append whose companion raised."""
    return StoreError(
        f"nothing was written to {append.stream}: its companion on {companion.source.stream} raised "
        f"{type(error).__name__}: {error}; fix the code of the companion, then resume"
    )
