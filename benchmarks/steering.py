"""How the figures of waiting and looking are measured: a follower in a process of its own, a cold CLI."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import workflows
from followed import approved, signalled
from holdfast import Holdfast
from holdfast.kernel import commands as c
from holdfast.kernel.decide import decide
from holdfast.kernel.events import Code
from holdfast.kernel.evolve import evolve
from holdfast.kernel.failure import capture
from holdfast.kernel.state import RunState
from holdfast.store.port import Append, RunFilter, new_event

HERE = Path(__file__).parent
PARKED = 10_000
LISTED = 100_000
SHOWN = 10_000
PATIENCE_S = 30.0
_WAITING = RunFilter(status=("waiting",))
_FAILURE = capture(ValueError("no"))


class Steering:
    """One store with many parked runs, one with many ended ones, made when they are first needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._asked = 0

    def approve_to_step(self) -> float:
        """Milliseconds from the call of `approve` here to the next step's body in the process that follows."""
        home = self._directory / "approved"
        self._asked += 1
        run_id = f"asked-{self._asked}"
        with _follower(home), Holdfast(home) as hf:
            _park(hf, run_id, approved)
            began = time.time()
            hf.approve(run_id)
            return (_result(hf, run_id, approved) - began) * 1000

    def signal_among_parked(self) -> float:
        """The same for a signal to one of 10,000 parked runs."""
        self._asked += 1
        with _follower(self._parked()), Holdfast(self._parked()) as hf:
            run_id = f"parked-{self._asked * 97 % PARKED}"
            began = time.time()
            hf.signal(run_id, "go")
            return (_result(hf, run_id, signalled) - began) * 1000

    def follower_memory(self) -> float:
        """Megabytes of a process that follows 10,000 parked runs."""
        with _follower(self._parked()) as follower:
            time.sleep(1.5)
            follower.stdin.write("how much\n")
            follower.stdin.flush()
            return float(follower.stdout.readline().split()[1])

    def show_command(self) -> float:
        """Milliseconds of `holdfast show` of a 10,000-step run, from exec to exit."""
        home = self._directory / "shown"
        if not home.exists():
            with Holdfast(home, durability="process") as hf:
                hf.with_id("long").run(workflows.sequential, SHOWN)
        return _cli(home, "show", "long")

    def list_resumable(self) -> float:
        """Milliseconds of `holdfast list --resumable` on 100,000 runs, of which 20 can be resumed."""
        home = self._directory / "listed-many"
        if not home.exists():
            _make_runs(home)
        return _cli(home, "list", "--resumable")

    def _parked(self) -> Path:
        home = self._directory / "parked"
        if not home.exists():
            with Holdfast(home, durability="process") as hf:
                for n in range(PARKED):
                    hf.with_id(f"parked-{n}").start(signalled)
                _wait(lambda: hf._store.count_runs(_WAITING) == PARKED and not hf._engine.live, 600)
        return home


def _park(hf: Holdfast, run_id: str, flow: Any) -> None:
    hf.with_id(run_id).start(flow)
    _wait(lambda: (row := hf._store.run(run_id)) is not None and row.status == "waiting" and not row.owner)


def _result(hf: Holdfast, run_id: str, flow: Any) -> float:
    _wait(lambda: (row := hf._store.run(run_id)) is not None and row.status == "completed")
    value: float = hf.with_id(run_id).run(flow)
    return value


def _wait(there: Any, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not there():
        if time.monotonic() > deadline:
            raise TimeoutError("what is measured did not happen")
        time.sleep(0.002)


class _Follower:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.stdin: IO[str] = process.stdin
        self.stdout: IO[str] = process.stdout


@contextmanager
def _follower(home: Path) -> Iterator[_Follower]:
    """A process that serves the store, until the end of the block."""
    command = [sys.executable, str(HERE / "followed.py"), str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        follower = _Follower(process)
        follower.stdout.readline()
        yield follower
        follower.stdin.close()


def _cli(home: Path, *words: str) -> float:
    command = [str(Path(sys.executable).with_name("holdfast")), *words]
    environ = {**os.environ, "HOLDFAST_HOME": str(home)}
    subprocess.run(command, env=environ, check=True, capture_output=True)
    began = time.perf_counter()
    subprocess.run(command, env=environ, check=True, capture_output=True)
    return (time.perf_counter() - began) * 1000


def _make_runs(home: Path) -> None:
    """Runs that completed, written as their owner would have, many to a commit; every so many one that failed."""
    with Holdfast(home, durability="process") as hf:
        for n in range(LISTED):
            hf._store.append_soon(_ended(f"run-{n:06}", failed=n % (LISTED // 20) == 0), lambda _: None)
        _wait(lambda: hf._store.run(f"run-{LISTED - 1:06}") is not None, 600)


def _ended(run_id: str, *, failed: bool) -> Append:
    """All events of a run with no steps, as one append."""
    state: RunState | None = None
    events = []
    end = c.FailRun(_FAILURE) if failed else c.CompleteRun()
    for command in (c.CreateRun(run_id, Code("sequential", "workflows"), ""), c.ClaimRun(run_id, "me"), end):
        for event in decide(state, command):
            state = evolve(state, event, len(events) + 1, 1)
            events.append(new_event(event, time.time_ns() // 1000))
    return Append(run_id, 1, events, begins="run")
