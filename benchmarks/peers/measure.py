"""How a measurement is taken, the same for holdfast and every peer.

Imported by the workers, which run in the environments of the peers: the standard library only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

INTO_THE_STEP_S = 0.1


def seconds(work: Callable[[], object]) -> float:
    """How long `work` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def seconds_at_once(runs: int, work: Callable[[], object]) -> float:
    """How long `runs` threads take that all do `work` at once; they are there before the clock starts."""
    ready = threading.Barrier(runs + 1)

    def one() -> None:
        ready.wait()
        work()

    with ThreadPoolExecutor(runs) as pool:
        begun = [pool.submit(one) for _ in range(runs)]
        ready.wait()
        return seconds(lambda: [run.result() for run in begun])


def kill_to_rerun(command: list[str], marks: Path) -> float:
    """Milliseconds from SIGKILL of `command` in its step to the step's beginning in the same command, started at that moment.

    The command's step notes each beginning in `marks` (`workload.hang_once`). It is killed in the middle, so that
    what a product writes beside the body, be it a checkpoint or an intent, has been written.
    """
    victim = subprocess.Popen(command)
    try:
        lines_of(marks, 1)
        time.sleep(INTO_THE_STEP_S)
    finally:
        os.kill(victim.pid, signal.SIGKILL)
        killed = time.time()
        victim.wait()
    subprocess.run(command, check=True, timeout=60)
    return (float(lines_of(marks, 2)[1]) - killed) * 1000


def lines_of(file: Path, count: int, timeout_s: float = 60) -> list[str]:
    """The lines of `file` as soon as there are `count` of them."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if file.exists() and (text := file.read_text()).count("\n") >= count:
            return text.splitlines()
        time.sleep(0.001)
    raise TimeoutError(f"{file.name} has not got {count} lines after {timeout_s} s")


def bytes_under(directory: Path) -> int:
    """The size of all files in `directory`."""
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
