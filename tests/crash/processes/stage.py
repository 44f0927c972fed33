"""A store and the processes around it: started, stopped, killed, waited for, each within its time."""

from __future__ import annotations

import atexit
import fcntl
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import TracebackType

from tests.crash.checker import check_rebuilt, check_store
from tests.crash.history import History, Violation
from tests.crash.processes.ledger import Line, Lost, check_ledger, last, read_lines
from tests.crash.score import Budget, Score

from holdfast.lock_holder import find_holder

HERE = Path(__file__).parent
PATIENCE_S = 30.0
LINUX = sys.platform == "linux"
NEEDS_LINUX = "it is watched through /proc and prctl, which only Linux has"


class Late(AssertionError):
    """Something did not happen within its time."""


def until(there: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not there():
        if time.monotonic() > deadline:
            raise Late(f"within {patience_s:g} s: not {what}")
        time.sleep(0.002)


class Actor:
    """A process of the story."""

    def __init__(self, stage: Stage, words: list[str], argv: list[str], env: dict[str, str]) -> None:
        number = len(stage.actors)
        self.words = " ".join(words)
        self.out = stage.directory / f"{number}.out"
        self.err = stage.directory / f"{number}.err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self._process = subprocess.Popen(
                argv,
                cwd=stage.directory,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        self.pid = self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait(self, patience_s: float = PATIENCE_S) -> int:
        """Its exit code."""
        try:
            return self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            raise Late(f"within {patience_s:g} s: {self} did not end") from None

    def stop(self) -> bool:
        """SIGSTOP; False if it had ended before."""
        self._signal(signal.SIGSTOP)
        return self.stopped()

    def stopped(self) -> bool:
        """Wait until it is stopped; False if it ended instead."""
        found: list[int] = []

        def seen() -> bool:
            if self._process.returncode is not None:
                found.append(os.CLD_EXITED)
                return True
            how = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT
            state = os.waitid(os.P_PID, self.pid, how)
            if state is not None:
                found.append(state.si_code)
            return state is not None

        until(seen, f"{self} stopped")
        return found[0] == os.CLD_STOPPED

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self.wait()

    def _signal(self, number: int) -> None:
        if self.alive:
            self._process.send_signal(number)

    def autopsy(self) -> str:
        """End it, and tell where each of its threads was."""
        self._signal(signal.SIGABRT)
        self.wait()
        return f"{self}: {self.err.read_text()[-4000:]}"

    def __str__(self) -> str:
        return f"process {self.pid} ({self.words}; stderr: {self.err.read_text()[-500:]!r})"


class Stage:
    """A directory with a store, a side file and processes; whatever still lives at its end is killed."""

    def __init__(self, home: Path | None = None) -> None:
        fast = Path("/dev/shm")
        self.directory = Path(
            tempfile.mkdtemp(prefix="crash-processes-", dir=fast if fast.is_dir() else None)
        )
        self.home = home or self.directory / "home"
        self.side = self.directory / "side"
        self.actors: list[Actor] = []
        self.excused: list[Line] = []
        """Beginnings of bodies that may come too late."""
        self._env = {name: text for name, text in os.environ.items() if not name.startswith("HOLDFAST_")}
        self._env.pop("PYTHONDONTWRITEBYTECODE", None)
        path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
        self._env |= {
            "HOLDFAST_HOME": str(self.home),
            "CRASH_SIDE": str(self.side),
            "PYTHONPATH": path,
            "PYTHONFAULTHANDLER": "1",
            "PYTHONPYCACHEPREFIX": _pycache(),
        }

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for actor in self.actors:
            if actor.alive:
                actor.kill()
        for pid in {line.pid for line in self.lines() if line.verb in ("beat", "child")}:
            if is_alive(pid) and self._is_ours(pid):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)

    # Processes

    def start(self, *words: object, first: str = "", **env: str) -> Actor:
        """`program.py WORDS`; `hold="work#2"` and `stop="enter:3"` are its CRASH_HOLD and CRASH_STOP. What
        `first` says is done in the process before the program begins."""
        return self._start([str(HERE / "program.py"), *map(str, words)], env, first)

    def start_forker(self, *words: object, **env: str) -> Actor:
        return self._start([str(HERE / "forker.py"), *map(str, words)], env)

    def start_cli(self, *words: object, first: str = "", **env: str) -> Actor:
        """`holdfast WORDS`."""
        return self._start(["-m", "holdfast", *map(str, words)], env, first)

    def cli(self, *words: object, patience_s: float = PATIENCE_S) -> tuple[int, str]:
        """Run it to its end: its exit code, and all that it wrote."""
        actor = self.start_cli(*words)
        code = actor.wait(patience_s)
        written = actor.out.read_text() + actor.err.read_text()
        if "Traceback" in written or code == 70:
            raise Violation(f"a fault of holdfast itself: {actor}")
        return code, written

    def _start(self, argv: list[str], env: dict[str, str], first: str = "") -> Actor:
        story = {f"CRASH_{name.upper()}": text for name, text in env.items()}
        words = [sys.executable, *argv]
        then = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"
        before = [sys.executable, "-I", "-S", "-c", f"{first}; {then}"] if first else []
        actor = Actor(self, words, before + words, self._env | story)
        self.actors.append(actor)
        return actor

    def _is_ours(self, pid: int) -> bool:
        """Whether this story started it, directly or not: the pid may be somebody else's by now."""
        try:
            return f"CRASH_SIDE={self.side}\0".encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False

    # The side file

    def lines(self) -> list[Line]:
        return read_lines(self.side)

    def line(self, verb: str, *words: str) -> Line | None:
        return last(self.lines(), verb, *words)

    def wait_for(self, verb: str, *words: str, patience_s: float = PATIENCE_S) -> Line:
        """The line, once it is said."""
        until(
            lambda: self.line(verb, *words) is not None,
            f"the line {' '.join((verb, *words))} ({self._living()})",
            patience_s,
        )
        found = self.line(verb, *words)
        assert found is not None
        return found

    def has_spoken(self, actor: Actor) -> bool:
        return f" {actor.pid} ".encode() in self.side.read_bytes()

    def _living(self) -> str:
        return "; ".join(map(str, self.actors)) or "nobody lives"

    def let_go(self) -> None:
        """Whoever is held continues."""
        Path(f"{self.side}.go").touch()

    def turn(self) -> None:
        """The second half of the story begins."""
        Path(f"{self.side}.turn").touch()

    def set_clock(self, seconds: float) -> None:
        """From now on the wall time of `program.py` is so far from the machine's."""
        new = Path(f"{self.side}.new")
        new.write_text(str(seconds))
        new.replace(f"{self.side}.clock")

    # The store

    @contextmanager
    def gate_shut(self) -> Iterator[None]:
        """Nobody can write meanwhile."""
        fd = os.open(self.home / "write.lock", os.O_RDWR)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def gate_is_shut(self) -> bool:
        """Whether a process has the write lock, or SQLite's lock on the whole file, which it takes where it
        opens the store first or closes it last."""
        database = self.home / "holdfast.db"
        if database.exists() and find_holder(database.stat(), "POSIX") is not None:
            return True
        fd = os.open(self.home / "write.lock", os.O_RDWR)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def check(self, home: Path | None = None) -> History:
        """Everything that must hold while nobody writes."""
        history = check_store(home or self.home)
        check_ledger(self.lines(), history, self.excused)
        return history

    def check_rebuilt(self) -> None:
        check_rebuilt(self.home)


def is_alive(pid: int) -> bool:
    """Whether that process does anything: a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@functools.cache
def _pycache() -> str:
    """Cached bytecode makes a process start in half the time; beside the sources it has no place."""
    directory = tempfile.mkdtemp(prefix="crash-processes-pycache-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


@contextmanager
def point(score: Score, text: str) -> Iterator[None]:
    """One more point; what goes wrong in it is a violation that says which point it was."""
    score.points += 1
    try:
        yield
    except Exception as error:
        score.lost += isinstance(error, Lost)
        what = str(error) if isinstance(error, Violation | Late) else f"{error!r}, {traceback.format_exc()}"
        score.violations.append(f"{score.kind}, {text}: {what}")


def chance_of(budget: Budget, kind: str, number: int) -> Random:
    """The luck of one point, whatever the others do."""
    return Random(f"{budget.seed} {kind} {number}")


def note(score: Score, name: str, count: int = 1) -> None:
    score.notes[name] = score.notes.get(name, 0) + count
