"""`FakeClock`: time that a test moves.

clock = FakeClock()                      # sleeping code continues at once, and time has passed
with Holdfast(home, clock=clock) as hf:
    hf.run(nightly)                      # a workflow that sleeps for eight hours: no wait
assert clock.now() == START + timedelta(hours=8)

clock = FakeClock(jump=False)            # sleeping code waits until the test moves the time
run = hf.start(nightly)
clock.until_asleep()                     # the run has reached its sleep
clock.advance(8 * 3600)
run.result()
"""

from __future__ import annotations

import threading
import time
import uuid
from datetime import UTC, datetime, timedelta
from random import Random

from holdfast.clock import EPOCH, instant

START = datetime(2030, 1, 1, tzinfo=UTC)

_POLL_S = 0.002
"""How often a sleeper of a clock that does not jump looks at it."""


class FakeClock:
    """A `holdfast.clock.Clock` whose wall time stands still until a test moves it. Thread-safe.

    jump    True: a wait for a moment ends at once, and the wall time is that moment from
            then on. False: a wait lasts until `advance` has passed that moment
    seed    of `random()`, which is the same in every run of a test

    `monotonic()` continues real time, and jumps along: it serves the housekeeping inside a
    process. `uuid()` is really random: owners and runs that share a store must not share ids.
    """

    def __init__(self, start: datetime = START, *, jump: bool = True, seed: int = 0) -> None:
        self._start_us = self._now_us = round((start - EPOCH) / timedelta(microseconds=1))
        self._jump = jump
        self._random = Random(seed)
        self._moved = threading.Condition()
        self._awaited_us = 0

    def now(self) -> datetime:
        """The wall time, as `holdfast.now()` gives it in a run."""
        return instant(self.now_us())

    def advance(self, seconds: float | timedelta) -> None:
        """Move the time; waits for moments that are now past end."""
        by = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
        with self._moved:
            self._now_us += round(by / timedelta(microseconds=1))

    def until_asleep(self, timeout: float = 10.0) -> datetime:
        """Block until a thread waits for a moment to come; returns the moment. Raises TimeoutError
        after `timeout` real seconds. For clocks that do not jump."""
        with self._moved:
            if not self._moved.wait_for(lambda: self._awaited_us > self._now_us, timeout):
                raise TimeoutError(f"no thread slept within {timeout:g} s")
            return instant(self._awaited_us)

    # holdfast.clock.Clock

    def now_us(self) -> int:
        with self._moved:
            return self._now_us

    def monotonic(self) -> float:
        with self._moved:
            return time.monotonic() + (self._now_us - self._start_us) / 1e6

    def wait(self, until_us: int) -> float:
        with self._moved:
            if self._now_us >= until_us:
                return 0.0
            if self._jump:
                self._now_us = until_us
                return 0.0
            self._awaited_us = until_us
            self._moved.notify_all()
        return _POLL_S

    def random(self) -> float:
        with self._moved:
            return self._random.random()

    def uuid(self) -> uuid.UUID:
        return uuid.uuid4()
