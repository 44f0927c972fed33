"""A process to be killed in a step: `victim.py HOME MARK [last]`; `last` lets the step end."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from holdfast import Holdfast, step, workflow


@step
def wait(mark: str) -> None:
    with Path(mark).open("a") as file:
        file.write(f"{time.time()}\n")
    if sys.argv[-1] != "last":
        time.sleep(60)


@workflow
def killed(mark: str) -> None:
    wait(mark)


if __name__ == "__main__":
    with Holdfast(sys.argv[1]) as hf:
        hf.with_id("victim").run(killed, sys.argv[2])
