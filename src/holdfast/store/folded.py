"""The state of a long stream, kept in memory: a decision on it loads only the events that are new.

Without it every command on a budget or on the memory would load and fold the whole stream inside the write
transaction. `Folded` keeps the state at a version, names that version in the source of the next command, and
folds what came since.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from holdfast.kernel import events as e
from holdfast.store.port import Companion, Decision, Recorded, Source, Store

S = TypeVar("S")


class Folded(Generic[S]):
    """The state of one stream at a version, advanced only by events whose commit was acknowledged.

    `evolve(state, recorded)` returns the state after an event and must leave the state before it unchanged:
    threads decide from the same state at once, and a decision whose commit fails leaves no trace. Events that
    others wrote are folded by the next command, companion or `refresh`. Thread-safe.
    """

    def __init__(
        self, store: Store, stream: str, initial: S, evolve: Callable[[S, Recorded], S], version: int = 0
    ) -> None:
        """`initial` is the state at `version`: 0, or one that a table of the store has the state of."""
        self.stream = stream
        self._store = store
        self._evolve = evolve
        self._lock = threading.Lock()
        self._known = (initial, version)

    @property
    def state(self) -> S:
        """The state that is known here; others may have written since."""
        return self._known[0]

    @property
    def version(self) -> int:
        """The version of the last event in `state`."""
        return self._known[1]

    def refresh(self) -> S:
        """Fold what the log has by now, and return the state."""
        state, version = self._known
        for recorded in self._store.load(self.stream, after=version, output=True):
            state, version = self._evolve(state, recorded), recorded.version
        self._advance(state, version)
        return self.state

    def command(self, decide: Callable[[S], Decision], *, durable: bool = True) -> S:
        """Append what `decide(state)` returns, on the state as it is inside the transaction, and return the
        state after that. What `decide` raises is raised here, and nothing is written. `decide` keeps the
        rules of `port.Decide`."""
        attempt = _Attempt(self, decide)
        self._store.command(self.stream, attempt.decide, after=attempt.after, durable=durable)
        attempt.acknowledge()
        return attempt.state

    def companion(self, decide: Callable[[S], Decision]) -> tuple[Companion, Callable[[], None]]:
        """A companion for an append of an owner, and what to call once that append is acknowledged. If it is
        never called, the state is not advanced, and the next decision reads these events again."""
        attempt = _Attempt(self, decide)
        return Companion(Source(self.stream, attempt.after), attempt.decide), attempt.acknowledge

    def _advance(self, state: S, version: int) -> None:
        """Keep the state with the higher version: every acknowledged state is a prefix of the same log."""
        with self._lock:
            if version > self._known[1]:
                self._known = (state, version)


class _Attempt(Generic[S]):
    """One decision, from the state at version `after`; what it reaches counts once it is acknowledged."""

    def __init__(self, folded: Folded[S], decide: Callable[[S], Decision]) -> None:
        self._folded = folded
        self._decide = decide
        self.state, self.after = folded._known
        self._version = self.after

    def decide(self, recorded: Sequence[Recorded]) -> Decision:
        for one in recorded:
            self._fold(one)
        decision = self._decide(self.state)
        for new in decision.events:
            self._fold(Recorded(e.decode(new.type, new.payload), self._version + 1, new.at))
        return decision

    def _fold(self, recorded: Recorded) -> None:
        self.state = self._folded._evolve(self.state, recorded)
        self._version = recorded.version

    def acknowledge(self) -> None:
        self._folded._advance(self.state, self._version)
