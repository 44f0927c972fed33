"""The options of a step: retries, timeouts, and what it does with files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from holdfast.errors import BadInput
from holdfast.kernel.identity import check_text

Seconds = float | timedelta
On = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]


def seconds(value: Seconds) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    try:
        return float(value)
    except (TypeError, ValueError):
        raise BadInput(f"a time is a number of seconds or a timedelta, not {value!r}") from None


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again after a failure: `attempts` in all, waiting `initial` seconds, then `factor` times as
    long each time, at most `cap`, spread by `jitter` (0.1: ±10%). `on` says which errors deserve it:
    a class, several, or a function. `total` seconds after the first start no attempt begins.

    Attempts are events: how many there were and when the next is due survive a crash.
    """

    attempts: int = 3
    initial: Seconds = 1.0
    factor: float = 2.0
    cap: Seconds = 60.0
    jitter: float = 0.1
    on: On = Exception
    total: Seconds | None = None

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise BadInput(f"Retry(attempts={self.attempts}): at least 1, the first try counts")
        if seconds(self.initial) < 0 or seconds(self.cap) < 0 or self.factor < 1 or not 0 <= self.jitter <= 1:
            raise BadInput("Retry: initial and cap are not negative, factor is at least 1, jitter is 0 to 1")

    def wants(self, error: BaseException) -> bool:
        """Whether this error deserves another attempt."""
        if isinstance(self.on, (type, tuple)):
            return isinstance(error, self.on)
        return bool(self.on(error))

    def delay(self, failures: int, random: float) -> float:
        """Seconds to wait after the `failures`th failure; `random` is in [0, 1)."""
        try:
            wait = min(seconds(self.initial) * self.factor ** (failures - 1), seconds(self.cap))
        except OverflowError:
            wait = seconds(self.cap)
        return max(0.0, wait * (1 + self.jitter * (2 * random - 1)))


ONCE = Retry(attempts=1)


def check_files(what: str, effect: str, writes: Sequence[str], isolate: str | None) -> None:
    """Options that only a `workspace` step can keep."""
    if isolate not in (None, "copy"):
        raise BadInput(f"{what}: isolate={isolate!r} is not known; use 'copy'")
    if effect != "workspace" and (writes or isolate):
        raise BadInput(f"{what}: writes and isolate are for effect='workspace'")
    for pattern in writes:
        check_text(pattern, f"{what}: a pattern in writes")
    if isinstance(writes, str):
        raise BadInput(f"{what}: writes takes a list of patterns, ['src/**']")
