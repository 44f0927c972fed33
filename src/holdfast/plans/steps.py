"""The kinds of plan steps, as the steps, gates and child runs of an async workflow."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

from holdfast.engine.execution.arguments import Signature
from holdfast.engine.execution.scope import Scope, current
from holdfast.engine.execution.step_options import Retry
from holdfast.engine.primitives.command import command
from holdfast.engine.primitives.gates import approval, wait_for
from holdfast.engine.primitives.sleep import sleep
from holdfast.engine.primitives.step import AsyncStep, Step, StepBase
from holdfast.engine.primitives.timeout import timeout
from holdfast.engine.runs import code as codes
from holdfast.engine.runs import code_directory
from holdfast.engine.runs.workflow import AsyncWorkflow, WorkflowBase
from holdfast.errors import BadInput, CodeNotFound, NotApproved
from holdfast.kernel.amounts import Amounts
from holdfast.plans import templates
from holdfast.plans.expressions import Values, evaluate
from holdfast.plans.model import Plan, PlanStep, Retries
from holdfast.plans.paying import is_paid

UNLIMITED = frozenset({"approve", "wait", "sleep", "plan"})
"""Kinds that take no slot of `parallel`: they wait, or have a limit of their own."""
Perform = Callable[[PlanStep, Values, Plan], Awaitable[Any]]


def perform(step: PlanStep, values: Values, plan: Plan) -> Awaitable[Any]:
    """Do what the step says, with these values; `plan` is the one that it is of."""
    return _KINDS[step.kind](step, values, plan)


async def _run(step: PlanStep, values: Values, plan: Plan) -> dict[str, Any]:
    argv = tuple(templates.render(word, values) for word in step.argv)
    is_value = tuple(not templates.is_plain(word) for word in step.argv)
    if templates.reads_as_code(argv, is_value) is not None:
        raise BadInput(f"step {step.id}: {argv[0]} would read a value as a program; pass it in `env`")
    env = {name: templates.render(value, values) for name, value in step.env.items()}
    result = await command.aio(
        argv,
        name=step.id,
        cwd=_directory(step, values),
        env=env or None,
        stdin=None if step.stdin is None else templates.render(step.stdin, values),
        timeout=step.timeout,
        retry=_retry(step.retry),
        effect=step.effect,
        writes=step.writes,
        isolate=step.isolate,
        reserve=Amounts() if is_paid() else None,
    )
    return {"exit_code": result.exit_code, "stdout": result.stdout, "stderr": result.stderr}


def _directory(step: PlanStep, values: Values) -> str | None:
    """Relative to where the run works, as the paths of its commands are."""
    if not step.cwd:
        return None
    return str(working_directory() / templates.render(step.cwd, values))


def _cwd() -> str:
    scope = current.get()
    return scope.execution.state.code.cwd if type(scope) is Scope else ""


def working_directory() -> Path:
    """The directory that the run was started in, where it is now."""
    return Path(_cwd() or ".").absolute()


async def _python(step: PlanStep, values: Values, plan: Plan) -> Any:
    given = templates.fill(step.given, values)
    found = _functions.get((step.text, _cwd(), plan.directory)) or function(step.text, plan.directory)
    if isinstance(found, WorkflowBase):
        return await found.aio(**given)  # type: ignore[attr-defined]
    return await _as_step(found, step.id, _Options.of(step), is_paid()).aio(**given)


class _Options(tuple[Any, ...]):
    """The options of a step, as a key of the cache."""

    __slots__ = ()

    @classmethod
    def of(cls, step: PlanStep) -> _Options:
        return cls((step.retry, step.timeout, step.effect, step.writes, step.isolate))

    def filled(self) -> dict[str, Any]:
        retry, limit, effect, writes, isolate = self
        given = {"retry": _retry(retry), "timeout": limit, "effect": effect, "isolate": isolate}
        found = {name: value for name, value in given.items() if value is not None}
        if (writes or isolate) and effect is None:
            found["effect"] = "workspace"
        return {**found, "writes": writes} if writes else found


@lru_cache(maxsize=1024)
def _as_step(found: Any, name: str, options: _Options, paid: bool) -> Step[..., Any] | AsyncStep[..., Any]:
    """A step of that name; one that the function is already keeps its options where the plan has none. In a
    run with a budget it counts as a step there, whatever else it reserves."""
    known: dict[str, Any] = {}
    fn = found
    if isinstance(found, StepBase):
        fn, known = found.fn, {key: value for key, value in found._options.items() if key != "key"}
    if paid and known.get("reserve") is None and not known.get("secret"):
        known["reserve"] = Amounts()
    given = {**known, **options.filled(), "name": name}
    made: Step[..., Any] | AsyncStep[..., Any] = (AsyncStep if iscoroutinefunction(fn) else Step)(fn, **given)
    if not known.get("ignore"):
        made._signature = made.spec.signature = _signature(fn)
    return made


@lru_cache(maxsize=1024)
def _signature(fn: Any) -> Signature:
    """Many steps of a plan may call one function."""
    return Signature(fn, f"step {getattr(fn, '__name__', 'python')}")


def function(target: str, beside: str) -> Any:
    """The function that `module:name` or `file.py:name` names; modules of the directory `beside`, from where
    the run works, come first. Raises `CodeNotFound`."""
    place, _, name = target.rpartition(":")
    directory = working_directory() / beside
    try:
        if place.endswith(".py"):
            found: Any = codes.load_script(str((directory / place).resolve()), target)
        else:
            found = _module(place, directory.resolve(), target)
    except ImportError as error:
        raise CodeNotFound(target, f"importing it failed: {error}") from error
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise CodeNotFound(target, f"there is no {name} in it; was it renamed or removed?")
    if not callable(found):
        raise CodeNotFound(target, f"{name} is there, but it is no function")
    _functions[target, _cwd(), beside] = found
    return found


def _module(name: str, directory: Path, where: str) -> Any:
    loaded = sys.modules.get(name)
    is_here = loaded is not None and code_directory.import_root(loaded) == directory
    with code_directory.one_at_a_time:
        if not is_here and name.partition(".")[0] in code_directory.modules_in(directory):
            code_directory.enter(directory, where)
        return importlib.import_module(name)


_functions: dict[tuple[str, str, str], Any] = {}
"""Target, working directory and the plan's directory → the function."""


async def _approve(step: PlanStep, values: Values, plan: Plan) -> dict[str, Any]:
    title = templates.render(step.text, values)
    shown = evaluate(step.show, values) if step.show else None
    scope = current.get()
    decision = await approval.aio(title, show=shown, timeout=step.timeout, name=step.id)
    if decision.outcome != "approved":
        assert type(scope) is Scope
        key = next(
            key for key in reversed(scope.execution.state.steps) if key.startswith(scope.counters.path)
        )
        said = f": {decision.comment}" if decision.comment else ""
        by = f" by {decision.by}" if decision.by else ""
        why = f"rejected{by}{said}" if decision.outcome == "rejected" else "not answered in time"
        raise NotApproved(scope.execution.id, key, f"{title!r} was {why}")
    return {"outcome": decision.outcome, "by": decision.by, "comment": decision.comment}


async def _wait(step: PlanStep, values: Values, plan: Plan) -> Any:
    return await wait_for.aio(step.text, timeout=step.timeout)


async def _sleep(step: PlanStep, values: Values, plan: Plan) -> None:
    await sleep.aio(step.seconds)


async def _tool(step: PlanStep, values: Values, plan: Plan) -> Any:
    tool = tools().get(step.text)
    if tool is None:
        raise BadInput(f"step {step.id}: there is no tool {step.text!r}")
    given = templates.fill(step.given, values)
    if step.timeout is None:
        return await tool.aio(given)
    with timeout(step.timeout):
        return await tool.aio(given)


def tools() -> Mapping[str, Any]:
    """The tools that there are, by name."""
    from holdfast.agents.tools import TOOLS

    return TOOLS


async def _plan(step: PlanStep, values: Values, plan: Plan) -> Any:
    from holdfast.plans.interpreter import run_plan, title_of

    assert step.plan is not None
    given = templates.fill(step.given, values)
    child: AsyncWorkflow[[Plan, dict[str, Any]], dict[str, Any]] = AsyncWorkflow(run_plan.fn, name=step.id)
    child.title = title_of
    if step.timeout is None:
        return await child(step.plan, given)
    with timeout(step.timeout):
        return await child(step.plan, given)


async def _agent(step: PlanStep, values: Values, plan: Plan) -> dict[str, str]:
    from holdfast.agents.protocol import Job
    from holdfast.agents.working import work

    job = Job(
        goal=plan.description or plan.name, prompt=templates.render(step.text, values), writes=step.writes
    )
    outcome = await work.aio(
        step.by, job, role="developer", timeout=step.timeout, retry=_retry(step.retry), isolate=step.isolate
    )
    return {"text": outcome.text, "session": outcome.session, "changes": outcome.changes}


def _retry(retries: Retries | None) -> Retry | None:
    if retries is None:
        return None
    return Retry(
        attempts=retries.attempts,
        initial=retries.initial,
        factor=retries.factor,
        cap=retries.cap,
        total=retries.total,
    )


_KINDS: dict[str, Perform] = {
    "run": _run, "python": _python, "agent": _agent, "approve": _approve, "wait": _wait, "sleep": _sleep,
    "tool": _tool, "plan": _plan,
}  # fmt: skip
