"""A run executed in the foreground: progress, Ctrl-C, gates, and at the end what to say and the exit code."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from holdfast.cli.drawing.terminal import say
from holdfast.cli.ending import report_end
from holdfast.cli.gatekeeper import Gatekeeper
from holdfast.cli.stopping import INTERRUPTED, SIGNALS

if TYPE_CHECKING:
    from typing import Self

    from holdfast import Run
    from holdfast.cli.drawing.progress import Progress
    from holdfast.handle import Holdfast

_ENDED = 0
_RELEASED = 255  # no signal has this number


class Outcome(NamedTuple):
    value: Any = None
    error: BaseException | None = None


class Foreground:
    """Stops at the first signal at the next step boundary, at the second at once.

    A Python handler runs only when the main thread gets to it, and one that goes to sleep just as the
    signal arrives does not: Ctrl-C would be lost. So signals come through a pipe (`set_wakeup_fd`), as
    their number, and so do the end of the run and that it was released; the main thread does nothing
    but read it.
    """

    def __init__(self) -> None:
        self._handled = 0
        self._read = 0
        self._run_id = ""
        self._outcome = Outcome()
        self._before: dict[int, Any] = {}
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def __enter__(self) -> Self:
        signal.set_wakeup_fd(self._writer)
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        os.close(self._writer)
        os.close(self._reader)

    @property
    def signalled(self) -> bool:
        # The same signals, counted on two ways of which either may be behind.
        return bool(self._handled or self._read)

    def notice(self) -> None:
        """A run was released, from any thread: it may be parked."""
        os.write(self._writer, bytes((_RELEASED,)))

    def follow(self, hf: Holdfast, run: Run[Any], keeper: Gatekeeper | None = None) -> Outcome:
        """Wait until the run has ended or stopped here."""
        self._run_id = run.id
        return self.wait(run.quiet_result, hf.stop, keeper)

    def wait(
        self, work: Callable[[], Any], stop: Callable[[str], object], keeper: Gatekeeper | None = None
    ) -> Outcome:
        """Wait until the work is done; the first signal calls `stop` with the reason."""
        waiter = threading.Thread(target=self._wait_for, args=(work,), name="holdfast-wait", daemon=True)
        waiter.start()
        while True:
            for byte in keeper.read(self._reader) if keeper else os.read(self._reader, 64):
                if byte == _ENDED:
                    waiter.join()
                    return self._outcome
                if byte == _RELEASED:
                    if keeper is not None and not self._read:
                        keeper.look()
                    continue
                self._read += 1
                if self._read > 1:
                    self._stop_at_once()
                name = "Ctrl-C" if byte == signal.SIGINT else signal.Signals(byte).name
                if keeper is None or not keeper.is_parked:
                    say(f"{name}: stopping at the next step boundary; a second one stops at once")
                stop(f"{name} stopped it")

    def _wait_for(self, work: Callable[[], Any]) -> None:
        try:
            self._outcome = Outcome(work())
        except BaseException as error:
            self._outcome = Outcome(None, error)
        os.write(self._writer, bytes((_ENDED,)))

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Where the main thread does not read: while the run is claimed, or the store is closed."""
        self._handled += 1
        if self._handled > 1:
            self._stop_at_once()

    def _stop_at_once(self) -> NoReturn:
        """Like a crash: the lock falls, commands die with their owner, `resume` sorts it out."""
        go_on = f"; `holdfast resume {self._run_id}` continues" if self._run_id else ""
        os.write(2, f"\nholdfast: stopped at once{go_on}\n".encode())
        os._exit(INTERRUPTED)


def execute(
    hf: Holdfast,
    progress: Progress,
    start: Callable[[], Run[Any]],
    describe: Callable[[str], tuple[str, list[Any] | None]],
    *,
    as_json: bool,
) -> int:
    """Start the run, follow it to its end or to a gate, report it; returns the exit code. `describe(run id)`
    gives the title and the steps so far."""
    with Foreground() as foreground:
        progress.on_release = foreground.notice
        run = start()
        progress.begin(run.id, *describe(run.id))
        outcome = Outcome()
        keeper = Gatekeeper(hf, progress, run.id)
        try:
            outcome = foreground.follow(hf, run, keeper)
        finally:
            keeper.close()
            progress.close(stopped=outcome.error is not None)
    return report_end(
        hf, run.id, outcome.error, interrupted=foreground.signalled, asked=keeper.asks, as_json=as_json
    )
