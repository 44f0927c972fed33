"""A step of a plan beside the same step in code: what the interpreter costs.

python benchmarks/plan_steps.py [--python 1000] [--commands 40] [--rounds 5]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from holdfast import Holdfast, command, gather, parallel, step, workflow
from holdfast.plans import Plan, PlanStep, run_plan

LIMIT = 8


def add(x: int) -> int:
    return x + 1


one_step = step(add)


async def one(x: int) -> int:
    return await one_step.aio(x)


@workflow
async def gathered(count: int) -> list[int]:
    return await gather(*(one(n) for n in range(count)), limit=LIMIT)


def print_number(x: int) -> str:
    return command(["echo", str(x)], effect="idempotent").stdout


@workflow
def commands(count: int) -> list[str]:
    return parallel(print_number, list(range(count)), limit=LIMIT)


class PlanSteps:
    """Each figure is a quotient, both sides in turns on one store."""

    def __init__(self, directory: Path, python: int = 1000, commands: int = 40) -> None:
        self._hf = Holdfast(directory / "plans", durability="process")
        self._python = python
        self._commands = commands

    def close(self) -> None:
        self._hf.close()

    def python_step(self) -> float:
        """The time of a Python step of a plan, as a multiple of one of `gather`."""
        steps = [
            PlanStep(id=f"s{n}", kind="python", text="plan_steps:add", given={"x": n})
            for n in range(self._python)
        ]
        return self._quotient(steps, gathered, self._python)

    def command_step(self) -> float:
        """The time of a command of a plan, as a multiple of one of `parallel`."""
        steps = [
            PlanStep(id=f"s{n}", kind="run", argv=("echo", str(n)), effect="idempotent")
            for n in range(self._commands)
        ]
        return self._quotient(steps, commands, self._commands)

    def _quotient(self, steps: list[PlanStep], code: Any, count: int) -> float:
        plan = Plan(name="bench", steps=tuple(steps), parallel=LIMIT, directory=str(Path(__file__).parent))
        self._seconds(code, count)
        return self._seconds(run_plan, plan, {}) / self._seconds(code, count)

    def _seconds(self, code: Any, *arguments: Any) -> float:
        begin = time.perf_counter()
        self._hf.run(code, *arguments)
        return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", type=int, default=1000)
    parser.add_argument("--commands", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        figures = PlanSteps(Path(directory), options.python, options.commands)
        for name in ("python_step", "command_step"):
            found = sorted(getattr(figures, name)() for _ in range(options.rounds))
            print(name, " ".join(f"{one:.2f}" for one in found), "× median", f"{found[len(found) // 2]:.2f}")
        figures.close()


if __name__ == "__main__":
    main()
