"""How each figure is measured. Every method returns one measurement of one round."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import workflows
from holdfast import Holdfast
from workflows import sequential, sequential_async

HERE = Path(__file__).parent
STEPS = 300
RUNS = 50
RUN_STEPS = 20


class Figures:
    """Keeps one open Holdfast for the rates; everything else has a store of its own."""

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

    def sequential(self) -> float:
        began = time.perf_counter()
        self._hf.run(sequential, STEPS)
        return STEPS / (time.perf_counter() - began)

    def sequential_async(self) -> float:
        async def main() -> float:
            began = time.perf_counter()
            await self._hf.start(sequential_async, STEPS)
            return STEPS / (time.perf_counter() - began)

        return asyncio.run(main())

    def many(self) -> float:
        with ThreadPoolExecutor(RUNS) as pool:
            ready = threading.Barrier(RUNS + 1)

            def work() -> None:
                ready.wait()
                self._hf.run(sequential, RUN_STEPS)

            runs = [pool.submit(work) for _ in range(RUNS)]
            ready.wait()
            began = time.perf_counter()
            for run in runs:
                run.result()
            return RUNS * RUN_STEPS / (time.perf_counter() - began)

    def many_started(self) -> float:
        began = time.perf_counter()
        runs = [self._hf.start(sequential, RUN_STEPS) for _ in range(RUNS)]
        for run in runs:
            run.result()
        return RUNS * RUN_STEPS / (time.perf_counter() - began)

    def many_async(self) -> float:
        async def main() -> float:
            began = time.perf_counter()
            for run in [self._hf.start(sequential_async, RUN_STEPS) for _ in range(RUNS)]:
                await run
            return RUNS * RUN_STEPS / (time.perf_counter() - began)

        return asyncio.run(main())

    def one_step_runs(self) -> float:
        began = time.perf_counter()
        for _ in range(100):
            self._hf.run(sequential, 1)
        return 100 / (time.perf_counter() - began)

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

    def growth(self) -> float:
        """Median time of the steps around step 50,000 over that of the steps around step 100, in one run."""
        times: list[float] = []
        workflows.clock = times
        with Holdfast(self._fresh("growth")) as hf:
            hf.run(workflows.timed, 50_500)
        early = sorted(b - a for a, b in pairwise(times[100:601]))
        late = sorted(b - a for a, b in pairwise(times[50_000:50_499]))
        return late[len(late) // 2] / early[len(early) // 2]

    def disk_per_step(self) -> float:
        """KB of database file per step, after a run of 5,000 steps and a checkpoint of the WAL."""
        home = self._fresh("disk")
        with Holdfast(home, durability="process") as hf:
            hf.run(sequential, 5_000)
        return (home / "holdfast.db").stat().st_size / 5_000 / 1024

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
        home = self._fresh("kill")
        mark = self._fresh("mark")
        command = [sys.executable, str(HERE / "victim.py"), str(home), str(mark)]
        victim = subprocess.Popen(command)
        _wait_for_lines(mark, 1)
        os.kill(victim.pid, signal.SIGKILL)
        killed = time.time()
        victim.wait()
        subprocess.run([*command, "last"], check=True)
        return (float(mark.read_text().split()[1]) - killed) * 1000

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


def _wait_for_lines(file: Path, count: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if file.exists() and file.read_text().count("\n") >= count:
            return
        time.sleep(0.001)
    raise TimeoutError(f"{file} has not got {count} lines")
