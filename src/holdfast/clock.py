"""The only place where time, randomness and fresh ids come from.

Everything that needs one takes a `Clock`; tests hand in `holdfast.testing.FakeClock`. Instants in
the log are whole microseconds since 1970, UTC.
"""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    def now_us(self) -> int:
        """The wall time in microseconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards, for timeouts inside a process."""
        ...

    def wait(self, until_us: int) -> float:
        """How many real seconds to wait now until the wall time `until_us`."""
        ...

    def random(self) -> float: ...

    def uuid(self) -> uuid.UUID: ...


class SystemClock:
    """The machine's clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, until_us: int) -> float:
        return max(0.0, (until_us - self.now_us()) / 1e6)

    def random(self) -> float:
        from random import random  # not at the top: most processes need none

        return random()

    def uuid(self) -> uuid.UUID:
        return uuid.uuid4()


def instant(us: int) -> datetime:
    """The aware datetime of a time in the log."""
    return EPOCH + timedelta(microseconds=us)


def optional_instant(us: int) -> datetime | None:
    """The same; None for 0, which stands for never."""
    return instant(us) if us else None


def ago(then: datetime, now: datetime) -> str:
    """Such as `just now`, `40 s ago`, `3 min ago`, `5 h ago`, `2 d ago`, and the date after a month."""
    seconds = (now - then).total_seconds()
    if seconds < 2:
        return "just now"
    for size, unit in ((60, "s"), (3600, "min"), (86_400, "h"), (30 * 86_400, "d")):
        if seconds < size:
            per = {"s": 1, "min": 60, "h": 3600, "d": 86_400}[unit]
            return f"{int(seconds // per)} {unit} ago"
    return f"{then.astimezone():%Y-%m-%d}"


def microseconds(at: datetime) -> int:
    """The inverse of `instant`; a time without a zone is one of this machine's."""
    return (at.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)


def read_date(text: str) -> datetime:
    """The aware datetime of a date as people write it: `2026-01-31`, or with a time. Without a time zone it
    is local. Raises ValueError."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except OverflowError as error:  # the first or the last day that there is, in another time zone
        raise ValueError(str(error)) from None
