"""A worker of `tests.crash.budgets`: `python budget_worker.py HOME RUN BUDGET SEED ROUNDS`.

It prints a line when a body begins, with the name that its reservation has, so that the other side can kill
it in the middle. Ends with 7 when its budget is reached.
"""

from __future__ import annotations

import os
import random
import sys
from decimal import Decimal

from holdfast import Amounts, BudgetReached, Holdfast, Retry, measure, parallel, step, workflow
from holdfast.engine.execution.scope import current, later_attempt

CENT = Decimal("0.01")


@step(reserve=lambda item: Amounts(usd=item[0] * CENT, tokens=100), retry=Retry(attempts=2, initial=0.0))
def ask(item: list[int]) -> int:
    """Uses as much as it reserved, or less, or fails at first; sometimes it does not measure."""
    cents, kind = item
    call = current.get()
    later = later_attempt.get()
    attempt = 1 if later is None else later[1]
    run = call.execution  # type: ignore[union-attr]
    os.write(1, f"{run.id}:{run.state.generation}:{call.key}:{attempt}\n".encode())  # type: ignore[union-attr]
    if kind != 0:
        measure(model="small", input_tokens=60, usd=(cents - kind % 2) * CENT)
    if kind == 3 and attempt == 1:
        raise OSError("at first")
    return cents


@workflow
def job(seed: int, rounds: int) -> int:
    chance = random.Random(seed)
    done = 0
    for _ in range(rounds):
        items = [[chance.randint(1, 5), chance.randrange(4)] for _ in range(chance.randint(1, 4))]
        done += len(parallel(ask, items, limit=3))
    return done


def main() -> int:
    home, run_id, budget, seed, rounds = sys.argv[1:]
    with Holdfast(home, durability="process") as hf:
        try:
            if hf.has(run_id) and hf.get(run_id).status == "paused":
                hf.resume(run_id).result()
            else:
                hf.with_budget(budget).with_id(run_id).run(job, int(seed), int(rounds))
        except BudgetReached as reached:
            return reached.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
