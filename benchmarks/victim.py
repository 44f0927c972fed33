"""A process to be killed in a step: `victim.py HOME MARKS`; started again, it continues the run."""

from __future__ import annotations

import sys

from holdfast import Holdfast, step, workflow
from peers.workload import hang_once


@step
def wait(marks: str) -> None:
    hang_once(marks)


@workflow
def killed(marks: str) -> None:
    wait(marks)


if __name__ == "__main__":
    with Holdfast(sys.argv[1]) as hf:
        hf.with_id("victim").run(killed, sys.argv[2])
