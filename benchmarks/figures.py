"""How each figure is measured. Every method returns one measurement of one round."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw

import holdfast
import workflows
from holdfast import Holdfast
from holdfast.operations.replaying import replay
from peers import measure
from peers.workload import ONE_STEP_RUNS, RUN_STEPS, RUNS, STEPS, TEXT_BYTES, TEXTS
from turns import Clock, Turn, in_turns, nobody
from workflows import sequential, sequential_async

HERE = Path(__file__).parent
SLICE_STEPS = 30
SLICE_RUNS = 10
SLICES_OF_MANY = 3


class Figures:
    """holdfast's figures. One open Holdfast for the rates; everything else has a store of its own.

    A rate gives `others` their turns between its slices, and does not count them (`turns`).
    """

    name = "holdfast"
    version = holdfast.__version__
    setting = f"SQLite {apsw.sqlite_lib_version()}, WAL, synchronous=FULL"
    durability = "as it ships: a step is on the disk before the next one begins"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._hf = Holdfast(directory / "rates")
        self._made = 0

    def close(self) -> None:
        self._hf.close()

    def _fresh(self, name: str) -> Path:
        self._made += 1
        return self._directory / f"{name}-{self._made}"

    # Rates: steps or runs per second

    def sequential(self, others: Turn = nobody) -> float:
        """One run, cut into slices inside: its start is in the first and its end in the last."""
        with Clock(others) as workflows.clock:
            self._hf.run(sequential, STEPS, SLICE_STEPS)
        return STEPS / workflows.clock.seconds

    def sequential_async(self, others: Turn = nobody) -> float:
        async def main() -> float:
            with Clock(others) as workflows.clock:
                await self._hf.start(sequential_async, STEPS, SLICE_STEPS)
            return STEPS / workflows.clock.seconds

        return asyncio.run(main())

    def many(self, others: Turn = nobody) -> float:
        """Every run in a thread of its own."""
        return self._many(self._seconds_in_threads, others)

    def _seconds_in_threads(self) -> float:
        return measure.seconds_at_once(RUNS, lambda: self._hf.run(sequential, RUN_STEPS))

    def many_started(self, others: Turn = nobody) -> float:
        """Every run started from this thread."""
        return self._many(lambda: measure.seconds(self._start_many), others)

    def _start_many(self) -> None:
        for run in [self._hf.start(sequential, RUN_STEPS) for _ in range(RUNS)]:
            run.result()

    def many_async(self, others: Turn = nobody) -> float:
        """Every run in this thread's loop."""

        async def main() -> float:
            began = time.perf_counter()
            for run in [self._hf.start(sequential_async, RUN_STEPS) for _ in range(RUNS)]:
                await run
            return time.perf_counter() - began

        return self._many(lambda: asyncio.run(main()), others)

    def _many(self, seconds: Callable[[], float], others: Turn) -> float:
        """A slice is all runs at once, because what is at once cannot be cut."""
        return SLICES_OF_MANY * RUNS * RUN_STEPS / in_turns(SLICES_OF_MANY, seconds, others)

    def one_step_runs(self, others: Turn = nobody) -> float:
        def some() -> None:
            for _ in range(SLICE_RUNS):
                self._hf.run(sequential, 1)

        slices = ONE_STEP_RUNS // SLICE_RUNS
        return ONE_STEP_RUNS / in_turns(slices, lambda: measure.seconds(some), others)

    # Replay and growth

    def replay(self) -> float:
        """A run that died after its 10,000 steps: a new process's Holdfast loads and replays it all."""
        home = self._directory / "replay"
        if not home.exists():
            with Holdfast(home, durability="process") as hf:
                _interrupt_after(hf, "long", 10_000)
        with Holdfast(home, durability="process") as hf:
            began = time.perf_counter()
            replayed = _interrupt_after(hf, "long", 10_000)
            assert replayed == 10_000
            return 10_000 / (time.perf_counter() - began)

    def replay_async(self) -> float:
        return self._replay(workflows.sequential_async, 10_000)

    def replay_growth(self) -> float:
        """Time per branch of a fan-out of 10,000 over that of one of 1,000."""
        return self._replay(workflows.branches, 1_000) / self._replay(workflows.branches, 10_000)

    def _replay(self, workflow: Any, steps: int) -> float:
        """Steps per second of `holdfast replay`, without the start of the process."""
        home, run_id = self._directory / "replayed", f"{workflow.name}-{steps}"
        with Holdfast(home, durability="process") as hf:
            hf.with_id(run_id).run(workflow, steps)
        with Holdfast(home, durability="process") as hf:
            began = time.perf_counter()
            assert replay(hf._engine, run_id).verdict == "matches"
            return steps / (time.perf_counter() - began)

    def growth(self) -> float:
        """Median time of the steps around step 50,000 over that of the steps around step 100, in one run."""
        times: list[float] = []
        workflows.times = times
        with Holdfast(self._fresh("growth")) as hf:
            hf.run(workflows.timed, 50_500)
        early = statistics.median(b - a for a, b in pairwise(times[100:601]))
        late = statistics.median(b - a for a, b in pairwise(times[50_000:50_499]))
        return late / early

    def disk_per_step(self) -> float:
        """KB of database file per step, after a run of 5,000 steps and a checkpoint of the WAL."""
        home = self._fresh("disk")
        with Holdfast(home, durability="process") as hf:
            hf.run(sequential, 5_000)
        return (home / "holdfast.db").stat().st_size / 5_000 / 1024

    def disk(self) -> dict[str, float]:
        """Bytes on the disk for each byte that the steps returned; there is one way to hold the results."""
        home = self._fresh("texts")
        with Holdfast(home) as hf:
            hf.run(workflows.texts, TEXTS, TEXT_BYTES)
        return {"": measure.bytes_under(home) / (TEXTS * TEXT_BYTES)}

    # Four processes

    def worst_wait(self) -> float:
        return max(worst for _, worst in self._four()) * 1000

    def share(self) -> float:
        counts = [count for count, _ in self._four()]
        return max(counts) / min(counts)

    def _four(self) -> list[tuple[int, float]]:
        """(steps, longest step) of four processes that work on one store for three seconds."""
        home = self._fresh("four")
        Holdfast(home).close()
        start_at = time.time() + 1.5
        children = [
            subprocess.Popen(
                [sys.executable, str(HERE / "worker.py"), str(home), str(start_at), "3"],
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(4)
        ]
        found = []
        for child in children:
            out, _ = child.communicate(timeout=60)
            count, worst = json.loads(out)
            found.append((count, worst))
        return found

    # Whole processes

    def list_command(self) -> float:
        """Milliseconds of `holdfast list` from exec to exit."""
        home = self._directory / "listed"
        if not home.exists():
            with Holdfast(home, durability="process") as hf:
                for _ in range(10_000):
                    hf.run(sequential, 0)
        command = [str(Path(sys.executable).with_name("holdfast")), "list"]
        environ = {**os.environ, "HOLDFAST_HOME": str(home)}
        subprocess.run(command, env=environ, check=True, capture_output=True)
        began = time.perf_counter()
        subprocess.run(command, env=environ, check=True, capture_output=True)
        return (time.perf_counter() - began) * 1000

    def kill_to_rerun(self) -> float:
        """Milliseconds from SIGKILL of the owner to the step's body running again in a process that
        was started at that moment."""
        home, marks = self._fresh("kill"), self._fresh("marks")
        command = [sys.executable, str(HERE / "victim.py"), str(home), str(marks)]
        return measure.kill_to_rerun(command, marks)

    # The event loop

    def loop_lag(self) -> float:
        """The longest that a ticking task was late, in ms, while every fsync takes 50 ms more."""
        done = subprocess.run(
            [sys.executable, str(HERE / "slow_disk.py"), str(self._fresh("lag"))],
            check=True,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return float(done.stdout)


def _interrupt_after(hf: Holdfast, run_id: str, steps: int) -> int:
    """Make the run go through `steps` steps and stop there as if the process had died."""
    seen = 0
    try:
        hf.with_id(run_id).run(workflows.stops_after, steps)
    except KeyboardInterrupt as stop:
        seen = int(str(stop))
    return seen
