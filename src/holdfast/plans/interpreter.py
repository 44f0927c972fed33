"""`run_plan`: the workflow that executes a plan.

A plan step `build` is the scope `build[1]/`, the items of its `foreach` are `build[1]/build[1]/`,
`build[1]/build[2]/`, ...: keys depend on ids, and never on the order in which steps end. The scheduler
records nothing of its own: what it decides follows from the plan, the input and the results.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from holdfast.engine.primitives.checkpoint import checkpoint
from holdfast.engine.primitives.fanout import gather
from holdfast.engine.primitives.milestone import milestone
from holdfast.engine.primitives.slots import Slots, limited
from holdfast.engine.runs.workflow import workflow
from holdfast.errors import BadExpression
from holdfast.plans.expressions import Values, evaluate, parse
from holdfast.plans.inputs import filled
from holdfast.plans.model import Plan, PlanStep
from holdfast.plans.paying import plan_budget
from holdfast.plans.steps import UNLIMITED, perform
from holdfast.plans.templates import shown

MAX_ITEMS = 10_000


@workflow
async def run_plan(plan: Plan, inputs: dict[str, Any]) -> dict[str, Any]:
    """Execute the plan, and return the results of its steps by id; a skipped step has none.

    When a step fails, the steps that need it do not begin, the others run to their ends, and the run fails
    with that error; several are raised as one ExceptionGroup. A resume tries the failed steps again. Raises
    `BadInput` before anything runs if an input is missing or does not fit.
    """
    values = filled(plan, inputs)
    with limited(plan.parallel) as slots, plan_budget(plan):
        return await _Execution(plan, values, slots).run()


def title_of(plan: Plan, inputs: dict[str, Any]) -> str:
    """The title of the run: the plan's name and its input."""
    given = " ".join(f"{name}={_short(value)}" for name, value in inputs.items())
    return f"{plan.name} {given}".strip()[:200]


run_plan.title = title_of


def _short(value: Any) -> str:
    text = " ".join(shown(value).split())
    return text if len(text) <= 40 else f"{text[:39]}…"


class _Execution:
    """One plan while it runs."""

    def __init__(self, plan: Plan, inputs: dict[str, Any], slots: Slots) -> None:
        self._plan = plan
        self._slots = slots
        self._results: dict[str, Any] = {}
        self._skipped: set[str] = set()
        self._failed: set[str] = set()
        self._ended = {step.id: asyncio.Event() for step in plan.steps}
        self._names: dict[str, Any] = {"input": inputs}
        self._stopped: BaseException | None = None
        self._ends = asyncio.Event()
        """Set when another step has ended, for checkpoints between steps."""

    async def run(self) -> dict[str, Any]:
        steps = [_named(self._step(one), one.id) for one in self._plan.steps]
        if self._plan.checkpoint_every:
            steps.append(_named(self._take_checkpoints(), "checkpoint"))
        await gather(*steps)
        return {step.id: self._results[step.id] for step in self._plan.steps if step.id in self._results}

    async def _take_checkpoints(self) -> None:
        """After so many steps each, in a scope of their own: their keys count, and name no step."""
        every, taken = self._plan.checkpoint_every, 0
        while not all(ended.is_set() for ended in self._ended.values()):
            await self._ends.wait()
            self._ends.clear()
            if self._stopped is not None:
                raise self._stopped
            while len(self._results) >= (taken + 1) * every and not self._failed:
                taken += 1
                await checkpoint.aio(f"after-{taken * every}-steps")

    async def _step(self, step: PlanStep) -> None:
        try:
            if not await self._is_due(step):
                return
            values = self._values(step)
            if step.when and not evaluate(step.when, values):
                self._skipped.add(step.id)
                return
            result = await (self._each(step, values) if step.foreach else self._once(step, values))
            if step.milestone:
                await milestone.aio(step.milestone)
            self._results[step.id] = result
        except Exception:
            self._failed.add(step.id)
            raise
        except BaseException as error:
            self._stopped = error
            raise
        finally:
            self._ended[step.id].set()
            self._ends.set()

    async def _is_due(self, step: PlanStep) -> bool:
        """Wait for what the step needs. False if something failed that its `when` does not ask for, or was
        skipped: then it is skipped, too."""
        for need in step.needs:
            await self._ended[need].wait()
            if self._stopped is not None:
                raise self._stopped
        asked = set(parse(step.when).asked) if step.when else set()
        lost = [need for need in step.needs if need not in self._results and need not in self._skipped]
        if any(("failed", need) not in asked for need in lost):
            return False
        if any(need in self._skipped and ("skipped", need) not in asked for need in step.needs):
            self._skipped.add(step.id)
            return False
        return True

    def _values(self, step: PlanStep) -> Values:
        """The names that its expressions can use: the input and the steps that it needs."""
        steps = {need: self._results.get(need) for need in step.needs}
        return Values(
            {**self._names, **steps, "steps": steps}, self._skipped.__contains__, self._failed.__contains__
        )

    async def _each(self, step: PlanStep, values: Values) -> list[Any]:
        items = evaluate(step.foreach, values)
        if not isinstance(items, list | tuple):
            raise BadExpression(f"step {step.id}: foreach: `{step.foreach}` is no list")
        if len(items) > MAX_ITEMS:
            raise BadExpression(f"step {step.id}: foreach: {len(items):,} items, at most {MAX_ITEMS:,}")
        each = [
            values._replace(names={**values.names, "item": item, "index": index})
            for index, item in enumerate(items)
        ]
        return await gather(*(_named(self._once(step, one), step.id) for one in each))

    async def _once(self, step: PlanStep, values: Values) -> Any:
        if step.kind in UNLIMITED:
            return await perform(step, values, self._plan)
        async with self._slots:
            return await perform(step, values, self._plan)


def _named(coroutine: Coroutine[Any, Any, Any], name: str) -> Coroutine[Any, Any, Any]:
    """The task of it is the scope `name[n]/`."""
    coroutine.__qualname__ = name  # type: ignore[attr-defined]
    return coroutine
