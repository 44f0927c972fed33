"""The installed program in real processes: how acceptance tests start, watch and kill it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

PATIENCE_S = 30.0


class Result(NamedTuple):
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


SESSION = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes the pseudo-terminal the one that controls the program, so that Ctrl-C there reaches it."""


class Terminal:
    """A program under a pseudo-terminal: what it has written, and somebody who types."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int) -> None:
        self.process = process
        self._fd = fd
        self._written = b""
        self._seen = 0

    @property
    def text(self) -> str:
        return self._written.decode(errors="replace")

    def expect(self, what: str) -> str:
        """Wait until it has written this, after what was expected before; all of its text."""
        deadline = time.monotonic() + PATIENCE_S
        while (at := self._written.find(what.encode(), self._seen)) < 0:
            assert self._read(deadline), f"{what!r} did not come:\n{self.text}"
        self._seen = at + len(what.encode())
        return self.text

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def mode(self) -> list[Any]:
        """How the terminal treats what is typed."""
        return termios.tcgetattr(self._fd)

    def end(self) -> tuple[int, str]:
        """Wait until it has ended: its exit code, and all of its text."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read(deadline):
            pass
        return self.process.wait(PATIENCE_S), self.text

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _read(self, deadline: float) -> bool:
        """False at its end."""
        ready, _, _ = select.select([self._fd], [], [], max(deadline - time.monotonic(), 0))
        assert ready, f"nothing more came:\n{self.text}"
        try:
            piece = os.read(self._fd, 65536)
        except OSError:  # the other side is closed
            return False
        self._written += piece
        return bool(piece)


class Cli:
    """`python -m holdfast` in a project directory and with a store of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "project"
        self.directory.mkdir()
        self.home = directory / "home"
        self.env = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith("HOLDFAST_") and name != "NO_COLOR"
        }
        self.env |= {"HOLDFAST_HOME": str(self.home), "HOME": str(directory)}
        self.python = sys.executable
        self._scripts = 0
        self._started: list[subprocess.Popen[str]] = []
        self._terminals: list[Terminal] = []

    def __call__(self, *words: object, code: int | None = 0, **env: str) -> Result:
        """Run to the end; no traceback ever, and the exit code that is expected (None: any)."""
        done = subprocess.run(
            self.argv(*words),
            cwd=self.directory,
            env=self.env | env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        result = Result(done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        assert code is None or done.returncode == code, result
        return result

    def start(self, *words: object) -> subprocess.Popen[str]:
        """Start and let continue; whatever still lives at the end of the test is killed."""
        process = subprocess.Popen(
            self.argv(*words),
            cwd=self.directory,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def on_a_terminal(self, *words: object, columns: int = 100, **env: str) -> tuple[int, str]:
        """Run under a pseudo-terminal: the exit code and all that was written to it."""
        return self.at_a_terminal(*words, columns=columns, **env).end()

    def at_a_terminal(self, *words: object, columns: int = 100, **env: str) -> Terminal:
        """Start under a pseudo-terminal, in a session of its own: somebody sits there and types."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-c", SESSION, *self.argv(*words)],
            cwd=self.directory,
            env=self.env | {"TERM": "xterm-256color"} | env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        terminal = Terminal(process, ours)
        self._terminals.append(terminal)
        return terminal

    def script(self, text: str, name: str = "flow.py") -> Path:
        path = self.directory / name
        self._scripts += 1
        path.write_text(
            "from holdfast import *\nimport os, time\nfrom pathlib import Path\n\n"
            + NOTE
            + textwrap.dedent(text)
        )
        # Python takes cached bytecode for that of a source of the same size and second.
        os.utime(path, (self._scripts, self._scripts))
        return path

    def notes(self) -> Counter[str]:
        """How often each body ran, as the bodies themselves say."""
        side = self.directory / "side.txt"
        return Counter(side.read_text().split("\n")[:-1]) if side.exists() else Counter()

    def wait_for_note(self, what: str, times: int = 1) -> None:
        wait_until(lambda: self.notes()[what] >= times, f"note {what!r}")

    def status(self, run_id: str) -> str:
        status: str = self("show", run_id, "--json").json()["status"]
        return status

    def stop_all(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()
        for terminal in self._terminals:
            terminal.close()
        self._started.clear()
        self._terminals.clear()

    def argv(self, *words: object) -> list[str]:
        return [self.python, "-m", "holdfast", *map(str, words)]


NOTE = """
def note(what):
    fd = os.open("side.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, f"{what}\\n".encode())
    os.close(fd)

"""


def wait_until(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


def send_signal(pid: int, number: int) -> None:
    """Send a signal and wait until it is delivered: what the process does next, it does knowing of it."""
    os.kill(pid, number)
    wait_until(lambda: not _is_pending(pid, number), "the delivery of the signal")


def _is_pending(pid: int, number: int) -> bool:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    waiting = int(fields.get("SigPnd", "0"), 16) | int(fields.get("ShdPnd", "0"), 16)
    return bool(waiting >> (number - 1) & 1)


@pytest.fixture(scope="session")
def make_cli() -> Iterator[Callable[[Path], Cli]]:
    made: list[Cli] = []

    def make(directory: Path) -> Cli:
        made.append(Cli(directory))
        return made[-1]

    yield make
    for one in made:
        one.stop_all()


@pytest.fixture
def cli(tmp_path: Path, make_cli: Callable[[Path], Cli]) -> Iterator[Cli]:
    one = make_cli(tmp_path)
    yield one
    one.stop_all()


@pytest.fixture(name="wait_until")
def wait_until_fixture() -> Callable[..., None]:
    return wait_until
