"""The worker's side of the protocol: a command a line on stdin, an answer in JSON a line on stdout.

Imported by the workers, which run in the environments of the peers: the standard library only.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Protocol


class Worker(Protocol):
    """What a product does for the benchmark. Rates are per second, by the worker's own clock; a step of `many` and `sequential`
    is a plain function, one of `many_async` a coroutine; `disk` says, per way to hold the results, how many bytes are
    on the disk for each byte that the steps returned."""

    version: str
    setting: str
    durability: str

    def sequential(self, steps: int) -> float: ...
    def many(self, runs: int, steps: int) -> float: ...
    def many_async(self, runs: int, steps: int) -> float: ...
    def one_step_runs(self, runs: int) -> float: ...
    def kill_to_rerun(self) -> float: ...
    def disk(self, steps: int, size: int) -> dict[str, float]: ...
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
