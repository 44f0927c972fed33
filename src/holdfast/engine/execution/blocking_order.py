"""What the replays of a `def` run have learned about branches that block each other.

Two branches wait for a lock, and the system gives it to one of them. If that is another one in the replay,
it comes to its next call too early, and the one whose call is recorded still waits for the lock. The next
replay keeps the early one back: what it received last is delivered after that recorded call.

    history   before[1], before[2], before[3], ask[3]      3 had the lock, then the process died
    replay    before[1], before[2], before[3], and 2 gets the lock: it calls ask[2], 3 waits
    again     before[1], before[3], ask[3], before[2]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

_TRIES = 10
"""How often a replay begins again without having learned anything new."""
_LESSONS = 100
"""How often it begins again at all."""


class BlockingOrder:
    """Of one run, in this process. Empty for nearly all: then it changes nothing."""

    __slots__ = ("_after", "_known", "_new", "_tries", "_vain")

    def __init__(self) -> None:
        self._after: dict[str, str] = {}
        """What a branch received last → the recorded call that comes before it."""
        self._known: set[tuple[str, str]] = set()
        """All that was ever learned: the last lesson counts, and none is new twice."""
        self._new = False
        self._tries = self._vain = 0

    def __bool__(self) -> bool:
        return bool(self._after)

    @property
    def has_learned(self) -> bool:
        """Whether this replay has learned anything that it did not know when it began."""
        return self._new

    def learn(self, received: str, call: str) -> None:
        """The branch that received this is to be kept back until the recorded call is made."""
        if received and call and received != call and (received, call) not in self._known:
            self._known.add((received, call))
            self._after[received] = call
            self._new = True

    def tries_again(self) -> bool:
        """Whether the replay is to begin again; counts it."""
        self._tries += 1
        self._vain = 0 if self._new else self._vain + 1
        self._new = False
        return self._vain <= _TRIES and self._tries <= _LESSONS

    def before(self, received: str) -> str:
        """The recorded call that comes before it; empty if there is none."""
        return self._after.get(received, "")

    def arranged(self, expected: Iterable[str]) -> deque[str]:
        """The recorded outcomes with those that are kept back behind what they wait for. One that waits for a
        call without an outcome comes last."""
        left = list(expected)
        for received, call in self._after.items():
            if received not in left:
                continue
            last = left.index(call) if call in left else len(left) - 1
            place = left.index(received)
            if place < last:
                left.insert(last, left.pop(place))
        return deque(left)
