"""A crash harness: run a script in a real process, kill it with SIGKILL at a chosen moment, run it again.

    lab = CrashLab(script, tmp_path / "store")
    assert lab.run(kill=at_body("send#1")).killed      # dies when the body of that step begins
    assert lab.run().exit_code == 0                    # the same script again: it continues
    assert lab.bodies()["ask#1"] == 1                  # how often each step's body has begun

The script is a user's: it opens `Holdfast()` and runs a workflow under a fixed id. The harness sets
`HOLDFAST_HOME`, and counts bodies by itself. `mark("...")` in the script writes a line of its own,
which can be a moment too. A moment in the code or in the log kills the process from inside, so no
luck is needed to hit it; `after_ms` kills from outside, wherever it is by then.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from holdfast import typed_values

_LINES = "CRASH_LAB_LINES"
_CHILD = "import sys; from holdfast.testing.crash import _main; _main(*sys.argv[1:])"
_MOMENT = "CRASH_LAB_MOMENT"


class Kill(msgspec.Struct, frozen=True):
    """A moment to die at; made by the functions below."""

    at: Literal["body", "mark", "before_append", "after_append", "ms"]
    text: str = ""
    nth: int = 1


def at_body(step: str, nth: int = 1) -> Kill:
    """When the body of a step (`ask#2`) begins for the `nth` time in that process."""
    return Kill("body", step, nth)


def at_mark(text: str, nth: int = 1) -> Kill:
    """When the script calls `mark(text)` for the `nth` time in that process."""
    return Kill("mark", text, nth)


def before_append(nth: int) -> Kill:
    """When the process hands its `nth` append to the store: nothing of it is written."""
    return Kill("before_append", nth=nth)


def after_append(nth: int) -> Kill:
    """When the store has acknowledged the process's `nth` append."""
    return Kill("after_append", nth=nth)


def after_ms(milliseconds: float) -> Kill:
    """That long after the process was started; the start of Python counts."""
    return Kill("ms", nth=round(milliseconds))


def mark(text: str) -> None:
    """Leave a line in the lab's side file; nothing outside a lab."""
    _note("mark", text)


class Ended(msgspec.Struct, frozen=True):
    """How a process of the lab ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def killed(self) -> bool:
        return self.exit_code == -signal.SIGKILL


class CrashLab:
    """A script, a store and a side file; every `run` is a new process."""

    def __init__(
        self,
        script: str | os.PathLike[str],
        home: str | os.PathLike[str],
        *args: str,
        env: Mapping[str, str] | None = None,
        python: str = sys.executable,
    ) -> None:
        self.script = Path(script)
        self.home = Path(home)
        self.lines = self.home.parent / f"{self.home.name}.lines"
        self._argv = [python, "-c", _CHILD, str(self.script), *args]
        self._env = dict(env or {})

    def start(self, kill: Kill | None = None) -> subprocess.Popen[str]:
        """The script in a process of its own, still running. `after_ms` is for `run`."""
        env = {**os.environ, **self._env, "HOLDFAST_HOME": str(self.home), _LINES: str(self.lines)}
        env[_MOMENT] = msgspec.json.encode(kill).decode() if kill else ""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self._argv, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
        )

    def run(self, kill: Kill | None = None, timeout: float = 60.0) -> Ended:
        """Run the script to its end, or to the moment. Raises TimeoutExpired, the process killed."""
        process = self.start(kill)
        try:
            if kill is not None and kill.at == "ms":
                _end_after(process, kill.nth / 1000)
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()
            process.communicate()
        return Ended(process.returncode, out, err)

    def bodies(self) -> Counter[str]:
        """How often the body of each step has begun, in all processes so far."""
        return Counter(text for kind, text in self._read() if kind == "body")

    def marks(self) -> list[str]:
        """The marks of the script, in order."""
        return [text for kind, text in self._read() if kind == "mark"]

    def wait_for(self, text: str, timeout: float = 30.0) -> None:
        """Block until a line, a body's or a mark's, is there: for processes made with `start`."""
        deadline = time.monotonic() + timeout
        while all(text != line for _, line in self._read()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no line {text!r} within {timeout:g} s")
            time.sleep(0.005)

    def _read(self) -> list[tuple[str, str]]:
        if not self.lines.exists():
            return []
        whole = self.lines.read_text().splitlines()
        return [(kind, text) for kind, _, text in (line.partition(" ") for line in whole)]


def _end_after(process: subprocess.Popen[str], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()


# In the child process


def _note(kind: str, text: str) -> None:
    path = os.environ.get(_LINES)
    if not path:
        return
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, f"{kind} {text}\n".encode())
    finally:
        os.close(fd)
    _moment.reached(kind, text)


class _Moment:
    """Counts what happens in this process, and kills it when the moment has come."""

    def __init__(self, kill: Kill | None) -> None:
        self._kill = kill
        self._seen = 0

    def reached(self, at: str, text: str = "") -> None:
        kill = self._kill
        if kill is not None and (kill.at, kill.text) == (at, text):
            self._seen += 1
            if self._seen == kill.nth:
                os.kill(os.getpid(), signal.SIGKILL)


def _kill_of_environment() -> Kill | None:
    text = os.environ.get(_MOMENT)
    return typed_values.decode(text, Kill) if text else None


_moment = _Moment(_kill_of_environment())


def _watch_bodies() -> None:
    from holdfast.engine.execution.call import Call
    from holdfast.engine.execution.flusher import Flusher

    watch = Flusher.watch

    def watched(self: Flusher, one: Any) -> None:
        if isinstance(one, Call):
            _note("body", one.key)
        watch(self, one)

    Flusher.watch = watched  # type: ignore[method-assign]


def _watch_appends() -> None:
    from holdfast.store.sqlite.store import SqliteStore

    append, append_soon = SqliteStore.append, SqliteStore.append_soon

    def watched(self: SqliteStore, item: Any) -> None:
        _moment.reached("before_append")
        append(self, item)
        _moment.reached("after_append")

    def watched_soon(self: SqliteStore, item: Any, done: Any) -> None:
        def acknowledged(item: Any) -> None:
            _moment.reached("after_append")
            done(item)

        _moment.reached("before_append")
        append_soon(self, item, acknowledged)

    SqliteStore.append = watched  # type: ignore[method-assign, assignment]
    SqliteStore.append_soon = watched_soon  # type: ignore[method-assign, assignment]


def _main(script: str, *args: str) -> None:
    """Run the script as `python SCRIPT ARGS` would, watched."""
    _watch_bodies()
    _watch_appends()
    sys.argv = [script, *args]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")
