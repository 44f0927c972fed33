"""A run executed in the foreground: progress, Ctrl-C, and at the end what to say and the exit code."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from holdfast.cli.detail import Detail
from holdfast.cli.moments import between
from holdfast.cli.terminal import clean, complain, err, out, say
from holdfast.errors import HoldfastError, StoreError

if TYPE_CHECKING:
    from typing import Self

    from holdfast.cli.access import Opened
    from holdfast.cli.progress import Progress
    from holdfast.engine.engine import Engine
    from holdfast.engine.run import Run

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CODES = {"completed": 0, "failed": 1, "cancelled": 1, "needs_attention": 6, "waiting": 5, "paused": 7}
INTERRUPTED = 130


class Outcome(NamedTuple):
    value: Any = None
    error: BaseException | None = None


class Foreground:
    """Stops at the first signal at the next step boundary, at the second at once.

    A Python handler runs only when the main thread gets to it, and one that goes to sleep just as the
    signal arrives does not: Ctrl-C would be lost. So signals come through a pipe (`set_wakeup_fd`), as
    their number, and so does the end of the run, as 0; the main thread does nothing but read it.
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
        for number in _SIGNALS:
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

    def follow(self, engine: Engine, run: Run[Any]) -> Outcome:
        """Wait until the run has ended or stopped here."""
        self._run_id = run.id
        waiter = threading.Thread(target=self._wait_for, args=(run,), name="holdfast-wait", daemon=True)
        waiter.start()
        while True:
            for byte in os.read(self._reader, 64):
                if byte == 0:
                    waiter.join()
                    return self._outcome
                self._read += 1
                if self._read > 1:
                    self._stop_at_once()
                name = "Ctrl-C" if byte == signal.SIGINT else signal.Signals(byte).name
                say(f"{name}: stopping at the next step boundary; again stops at once")
                engine.stop(f"{name} stopped it")

    def _wait_for(self, run: Run[Any]) -> None:
        try:
            self._outcome = Outcome(run.result())
        except BaseException as error:
            self._outcome = Outcome(None, error)
        os.write(self._writer, b"\0")

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Where the main thread does not read: while the run is claimed, or the store is closed."""
        self._handled += 1
        if self._handled > 1:
            self._stop_at_once()

    def _stop_at_once(self) -> NoReturn:
        """Like a crash: the lock falls, commands die with their owner, `resume` sorts it out."""
        cursor_on = "\x1b[?25h" if err.is_live else ""
        go_on = f"; `holdfast resume {self._run_id}` goes on" if self._run_id else ""
        os.write(2, f"{cursor_on}\nholdfast: stopped at once{go_on}\n".encode())
        os._exit(INTERRUPTED)


def execute(
    opened: Opened,
    engine: Engine,
    progress: Progress,
    start: Callable[[], Run[Any]],
    describe: Callable[[str], tuple[str, list[Any] | None]],
    *,
    as_json: bool,
) -> int:
    """Start the run, follow it to its end, tell of it; the exit code. `describe(run id)` gives the
    title and the steps so far."""
    with Foreground() as foreground:
        run = start()
        progress.begin(run.id, *describe(run.id))
        outcome = Outcome()
        try:
            outcome = foreground.follow(engine, run)
        finally:
            progress.close(stopped=outcome.error is not None)
    return _tell(opened, run.id, outcome, interrupted=foreground.signalled, as_json=as_json)


def _tell(opened: Opened, run_id: str, outcome: Outcome, *, interrupted: bool, as_json: bool) -> int:
    """What became of the run, for the person and for the calling program."""
    if isinstance(outcome.error, StoreError):
        raise outcome.error
    detail = Detail(opened, run_id)
    status = detail.info.status
    if as_json:
        from holdfast.cli.showing import fields

        out.json(fields(detail))
    code = _CODES.get(status)
    if status == "completed":
        took = between(detail.info.created_at, detail.info.updated_at)
        say([("completed", "green"), f" {run_id} in {took}"])
        if not as_json and not detail.state.code.argv:
            _print_result(detail)
        return 0
    complain(_sentence(detail, outcome.error))
    if code is not None and not (interrupted and status != "failed"):
        return code
    if interrupted:
        return INTERRUPTED
    return outcome.error.exit_code if isinstance(outcome.error, HoldfastError) else INTERRUPTED


def _print_result(detail: Detail) -> None:
    from holdfast.cli.showing import as_text

    out.line(as_text(detail.result()))


def _sentence(detail: Detail, error: BaseException | None) -> str:
    run_id, status = detail.info.id, detail.info.status
    if status == "failed" and detail.state.error is not None:
        ways = "; ".join(f"`{command}` {what}" for command, what in detail.ways_on())
        return f"run {run_id} failed: {clean(detail.sentence(detail.state.error))}; {ways}"
    if isinstance(error, HoldfastError):
        return str(error)
    return f"run {run_id} stopped ({type(error).__name__}); `holdfast resume {run_id}` goes on"
