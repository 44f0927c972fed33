"""The display of a run while it is executed: lines in a pipe, a live tree on a terminal.

Everything goes to standard error, except what a command that is itself the run prints.
"""

from __future__ import annotations

import copy
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast import inert
from holdfast.cli.drawing.moments import between, duration, stamp
from holdfast.cli.drawing.picture import Picture, put_back
from holdfast.cli.drawing.steps import Look, tree
from holdfast.cli.drawing.terminal import (
    Line,
    Piece,
    clean,
    err,
    fit,
    folded,
    out,
    say,
    split,
    text_of,
    typed,
    wrap,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast import LogEvent
    from holdfast.views.records import StepInfo

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FINAL_STEPS = 40  # so many steps a finished tree may have before completed ones are only counted
_STREAMS = 4  # so many streams are drawn below the tree, those that changed last
_STREAM_LINES = 3  # so many lines of a stream of text


class Progress:
    """In a pipe: one line for each transition. `whole` says that the run is one command, whose
    output is then the output of this program."""

    def __init__(self, *, whole: bool, keep_stdout: bool = False) -> None:
        self._whole = whole
        self._keep_stdout = keep_stdout
        self._picture = Picture()
        self._lock = threading.Lock()
        self._run_id = ""
        self._early: list[LogEvent] = []
        """Events before `begin`: a started run does not wait for its title."""
        self._failed_to_print = False
        self._emitting: set[tuple[str, str, int]] = set()
        """Attempts that emitted something before the log had their start: run, step, attempt."""
        self.on_release: Callable[[], None] | None = None
        """Called when a run was released, from any thread."""

    def begin(self, run_id: str, title: str, steps: list[StepInfo] | None = None) -> None:
        """The run, and what it had done before it continued here."""
        say(title)
        with self._lock:
            self._run_id = run_id
            self._picture.know(run_id, steps or [])
            for event in self._early:
                self._take(event)
        self._early.clear()

    def on_event(self, event: LogEvent) -> None:
        """Any thread calls this, with every event of the run and of its child runs."""
        with self._lock:
            if self._run_id:
                self._take(event)
            else:
                self._early.append(event)
        for text in put_back(event.data) if event.type == "FilesSaved" else ():
            self.note(clean(text))
        if event.type == "RunReleased" and self.on_release is not None:
            self.on_release()

    def note(self, text: str) -> None:
        """Print something that is worth a line of its own."""
        say(f"  {text}")

    def _take(self, event: LogEvent) -> None:
        step = self._picture.see(event)
        of = "" if event.run_id == self._run_id else f"{event.run_id} "
        if step is not None:
            attempt = event.run_id, step.key, step.attempt
            is_said = event.type == "StepStarted" and attempt in self._emitting
            if not is_said and not event.data.get("automatic"):  # the decision of a policy comes at once
                say(f"  {of}{_transition(step, event)}")
            self._emitting.discard(attempt)
        elif event.type == "Emitted":
            self._begin_emitting(event, of)
            say(f"  {of}{clean(event.data['name'])}: {_emitted(event.data['value'])}")

    def _begin_emitting(self, event: LogEvent, of: str) -> None:
        """Print that the step has started, if the log has what it emitted before it has its start."""
        key, number = event.data.get("step", ""), event.data.get("attempt", 1)
        attempt = event.run_id, key, number
        if key and attempt not in self._emitting and not self._picture.is_running(event.run_id, key, number):
            self._emitting.add(attempt)
            say(f"  {of}{_started(key, number)}")

    def on_output(self, run_id: str, step: str, source: str, text: str) -> None:
        """A piece of a command's output. If it cannot be shown, the command does not fail: the log has it."""
        try:
            self._print(source, text)
        except Exception as error:
            if not self._failed_to_print:
                self._failed_to_print = True
                say(f"  the output of {clean(step)} cannot be shown ({error!r}): `holdfast logs {run_id}`")

    def _print(self, source: str, text: str) -> None:
        if self._whole and source == "stdout" and not self._keep_stdout:
            out.printed(text, live=True)
        else:
            err.printed(text, live=True)

    def suspend(self) -> None:
        """Leave the terminal to a question."""

    def go_on(self) -> None:
        """The question is over."""

    def close(self, *, stopped: bool = True) -> None:
        """The run has ended or stopped here."""


class QuietProgress(Progress):
    """Nothing about steps and commands, except what a command prints that is the whole run: its result."""

    def _take(self, event: LogEvent) -> None:
        pass

    def _print(self, source: str, text: str) -> None:
        if self._whole:
            super()._print(source, text)


class LiveProgress(Progress):
    """On a terminal: the tree of steps, drawn again ten times a second below what steps print."""

    _console: Any = None
    """None before `begin`: a run may print before it has a title."""

    def begin(self, run_id: str, title: str, steps: list[StepInfo] | None = None) -> None:
        self._told: set[str] = set()
        self._told_streams: dict[str, Any] = {}
        """Steps and streams that are above a question as they will stay: not drawn again below it."""
        super().begin(run_id, title, steps)
        self._unicode = err.has_unicode  # asked now: while the tree is live, rich stands in for stderr
        self._console = _make_console()
        err.end_line()  # of what was printed before there was a console
        self.go_on()

    def go_on(self) -> None:
        from rich.live import Live

        from holdfast.facade.executing import wrap_streams

        self._live = Live(
            get_renderable=self._drawn,
            console=self._console,
            refresh_per_second=10,
            transient=True,
            redirect_stdout=out.is_terminal,
        )
        self._live.start()
        # rich now stands in for both streams. A step that is under way prints to those, and what rich draws
        # in its turn goes to the streams below: only above it is kept what the step prints.
        wrap_streams()

    def suspend(self) -> None:
        self._live.stop()
        for line in self._lines(_FINAL_STEPS):
            say(line)
        with self._lock:
            self._told = {step.key for step in self._picture.of(self._run_id) if step.status == "completed"}
            self._told_streams = dict(self._picture.emitted)

    def _take(self, event: LogEvent) -> None:
        self._picture.see(event)

    def _print(self, source: str, text: str) -> None:
        if self._console is None:
            super()._print(source, text)
            return
        from rich.text import Text

        shown = inert.printed(text.rstrip("\n"), colour=err.has_colour)
        self._console.print(Text.from_ansi(shown), soft_wrap=True)

    def note(self, text: str) -> None:
        if self._console is None:
            super().note(text)
            return
        for row in folded(f"  {typed(text)}", self._console.width):
            self._console.print(inert.lines(text_of(row)), soft_wrap=True)

    def close(self, *, stopped: bool = True) -> None:
        self._live.stop()
        for line in self._lines(_FINAL_STEPS, stopped=stopped):
            say(line)

    def _drawn(self) -> Any:
        from rich.text import Text

        if not self._run_id:
            return Text("")
        frame = _FRAMES[int(time.monotonic() * 10) % len(_FRAMES)]
        lines = self._lines(max(self._console.height - 4, 4), spinner=frame)
        texts = [Text.assemble(*map(_inert, line)) for line in lines]
        return Text("\n", no_wrap=True, overflow="ellipsis").join(texts)

    def _lines(self, most: int, *, stopped: bool = False, spinner: str = "") -> list[Line]:
        with self._lock:
            known = self._picture.of(self._run_id)
            steps = [copy.copy(step) for step in known if step.key not in self._told]
            children = self._picture.children(self._run_id)
            emitted = [
                (name, value)
                for name, value in self._picture.emitted.items()
                if self._told_streams.get(name) != value
            ][-_STREAMS:]
        left_out = _fewer(steps, most)
        # A terminal echoes `^C` behind the last line: where that wraps, the next drawing is off by a row.
        width = min(self._console.width - 4, 160)
        look = Look(width, self._unicode, stopped, datetime.now(UTC), spinner)
        lines = tree(steps, look, children)
        if left_out:
            lines.insert(0, [(f"  ... {left_out} more completed", "dim")])
        return [*lines, *_streams(emitted, width)]


def _make_console() -> Any:
    """A console that leaves the cursor visible: after `kill -9` nothing would show it again."""
    from rich.console import Console

    class VisibleCursor(Console):
        def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002
            return False

    return VisibleCursor(stderr=True, highlight=False, markup=False, emoji=False)


def _inert(piece: Piece) -> Piece:
    """Text drawn by rich passes the same function as all other text."""
    return clean(piece) if isinstance(piece, str) else (clean(piece[0]), piece[1])


def make_progress(*, whole: bool, keep_stdout: bool = False, quiet: bool = False) -> Progress:
    """The display that fits this terminal, or this pipe; a command on a terminal prints for itself."""
    kind = Progress
    if quiet or (err.is_live and whole):
        kind = QuietProgress
    elif err.is_live:
        kind = LiveProgress
    return kind(whole=whole, keep_stdout=keep_stdout)


def _fewer(steps: list[StepInfo], most: int) -> int:
    """Drop completed steps, the oldest first, until there are `most`; how many were dropped."""
    surplus = len(steps) - most
    if surplus <= 0:
        return 0
    dropped = 0
    kept = []
    for step in steps:
        if dropped < surplus and step.status == "completed":
            dropped += 1
        else:
            kept.append(step)
    steps[:] = kept
    return dropped


def _started(key: str, attempt: int) -> str:
    return f"{clean(key)} started" + (f" (attempt {attempt})" if attempt > 1 else "")


def _transition(step: StepInfo, event: LogEvent) -> str:
    """One event in words."""
    name = clean(step.key)
    if event.type == "StepStarted":
        return _started(step.key, step.attempt)
    if event.type in ("StepRan", "StepCompleted"):
        return f"{name} completed in {between(step.started_at, step.ended_at)}"
    if event.type == "StepAttemptFailed":
        wait = duration(max((step.due_at - event.at).total_seconds(), 0)) if step.due_at else ""
        return f"{name} failed (attempt {step.attempt}): {clean(step.note)}; again in {wait}"
    if event.type == "SleepStarted":
        return f"{name} until {stamp(step.due_at)}" if step.due_at else name
    if event.type == "GateOpened":
        what = f"a decision: {clean(step.name)}" if step.kind == "approval" else "the signal"
        return f"{name} waits for {what}" + (f" until {stamp(step.due_at)}" if step.due_at else "")
    if event.type == "GateDecided":
        return f"{name} {clean(step.note)}"
    if event.type == "CheckpointTaken":
        return f"{name} checkpoint"
    words = {"in_doubt": "is in doubt", "reopened": "will be tried again"}.get(step.status, step.status)
    return f"{name} {words}" + (f": {clean(step.note)}" if step.note else "")


def _emitted(value: Any) -> str:
    """One value on one line."""
    return clean(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def _streams(emitted: list[tuple[str, Any]], width: int) -> Iterator[Line]:
    """The emitted value: the end of a stream of text, the last value of any other."""
    for name, value in emitted:
        label = f"  {clean(name)}: "
        room = max(width - len(label), 20)
        if isinstance(value, str):
            texts = wrap("\n".join(map(clean, split(value))), room)[-_STREAM_LINES:]
        else:
            texts = [_emitted(value)]
        for n, text in enumerate(texts):
            yield [(label if n == 0 else " " * len(label), "dim"), fit(text, room)]
