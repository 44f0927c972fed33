"""The worker's side of the protocol: a command a line on stdin, an answer in JSON a line on stdout.

Imported by the workers, which run in the environments of the peers: the standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

RESULT = {"text": "x" * 180, "n": 1}


class Worker(Protocol):
    """What a product does for the benchmark; rates are per second, by the worker's own clock."""

    version: str
    setting: str
    durability: str

    def sequential(self, steps: int) -> float: ...
    def many(self, runs: int, steps: int) -> float: ...
    def one_step_runs(self, runs: int) -> float: ...
    def kill_to_rerun(self) -> float: ...
    def close(self) -> None: ...


def serve(open_worker: Callable[[], Worker]) -> None:
    """Answer commands until stdin ends. What libraries print goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**what: object) -> None:
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    worker = open_worker()
    try:
        answer(version=worker.version, setting=worker.setting, durability=worker.durability)
        for line in sys.stdin:
            name, *numbers = line.split()
            try:
                answer(value=getattr(worker, name)(*map(int, numbers)))
            except Exception as error:
                traceback.print_exc()
                answer(error=f"{name}: {type(error).__name__}: {error}")
    finally:
        worker.close()


def rate(count: int, work: Callable[[], object]) -> float:
    """`count` by the seconds that `work` takes."""
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def wait_for_lines(file: Path, count: int, timeout_s: float = 60) -> list[str]:
    """The lines of `file` as soon as there are `count` of them."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if file.exists() and (text := file.read_text()).count("\n") >= count:
            return text.splitlines()
        time.sleep(0.001)
    raise TimeoutError(f"{file.name} has not got {count} lines after {timeout_s} s")


def mark(file: str) -> int:
    """Note in `file` that a body begins now; the number of beginnings so far."""
    with Path(file).open("a") as marks:
        marks.write(f"{time.time()}\n")
    return len(Path(file).read_text().splitlines())


def kill_and_restart(command: list[str], marks: Path) -> float:
    """Start `command`, kill it in its step, start it again: milliseconds from the kill to the step's second beginning."""
    victim = subprocess.Popen(command)
    try:
        wait_for_lines(marks, 1)
    finally:
        os.kill(victim.pid, signal.SIGKILL)
        killed = time.time()
        victim.wait()
    subprocess.run(command, check=True, timeout=60)
    return (float(wait_for_lines(marks, 2)[1]) - killed) * 1000
