"""`work`: let an agent do a job, as a part of the run that calls it.

    outcome = await work.aio("claude", Job(goal=goal, prompt="Add a test for the parser", kind="implement"))

The job gets a scope of its own (`implement[1]/`), so its steps have stable keys. The prompt says what the
run has done, decided and rejected so far; that text is recorded, so every replay has the same. After the
work a snapshot of the files is taken. In a `def` workflow, `work(...)` does the same in a child run.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import nullcontext
from typing import Any

import msgspec

from holdfast.agents.backends.history import DONE, history_of, job_line
from holdfast.agents.backends.job_round import in_round, next_round
from holdfast.agents.backends.retries import Retries
from holdfast.agents.config import in_one_line
from holdfast.agents.protocol import Agent, Job, Outcome, check_agent, outcome_of
from holdfast.engine.execution.scope import Scope, current, refuse_in_async
from holdfast.engine.execution.step_options import Retry, Seconds, seconds
from holdfast.engine.primitives.branch import branch
from holdfast.engine.primitives.snapshot import snapshot
from holdfast.engine.primitives.timeout import timeout as deadline
from holdfast.engine.primitives.values import recorded
from holdfast.engine.runs.workflow import AsyncWorkflow, workflow
from holdfast.errors import AgentNotFound, BadInput, NotStorable, WrongColour
from holdfast.kernel import codec
from holdfast.kernel.events import Isolate
from holdfast.kernel.identity import check_step_name

__all__ = ["work"]


class _How(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a job is done, as the child run of a `def` workflow records it."""

    role: str = ""
    timeout_s: float | None = None
    isolate: Isolate | None = None
    retry: Retries | None = None
    round: int = 0


class Work:
    """Call it in a `def` workflow; in an async one, `await work.aio(...)`."""

    def __call__(
        self,
        agent: Agent | str,
        job: Job,
        *,
        role: str = "",
        timeout: Seconds | None = None,
        retry: Retry | None = None,
        isolate: Isolate | None = None,
    ) -> Outcome:
        """Let the agent do the job and wait for its outcome.

        agent    the name of an agent in the settings, empty for that of the role; or an agent. In a `def`
                 workflow it must be data, as `CommandAgent` and `ScriptAgent` are: the child run records it
        role     `planner`, `developer`, `reviewer`, `verifier`, or one of your own: see `[roles]`
        timeout  seconds for the whole job; then what it does is ended, and the job fails with `StepTimeout`
        retry    of a command agent: how often a failed attempt is tried again
        isolate  of a command agent, "copy": it works in a copy of the workspace, beside others

        Raises `AgentNotFound`, and what the agent raises. A resumed run tries a job again that failed or was
        cut off, and repeats no step of it that is recorded.
        """
        scope = _scope("work")
        refuse_in_async(scope.execution, "work")
        if not isinstance(agent, str):
            _check_is_data(check_agent(agent))
        how = _how(job, role, timeout, isolate, retry)
        how = msgspec.structs.replace(how, round=next_round(scope.execution, job.kind))
        job = _with_history(scope, job)
        child: AsyncWorkflow[[Any, Job, _How], Outcome] = AsyncWorkflow(do_job.fn, name=job.kind)
        return child.sync(agent, job, how)

    def aio(
        self,
        agent: Agent | str,
        job: Job,
        *,
        role: str = "",
        timeout: Seconds | None = None,
        retry: Retry | None = None,
        isolate: Isolate | None = None,
    ) -> Coroutine[Any, Any, Outcome]:
        """The same for async workflows."""
        scope = _scope("work.aio")
        if not scope.execution.is_async:
            raise WrongColour("work.aio() was called in a `def` workflow: write `work(...)`")
        if not isinstance(agent, str):
            check_agent(agent)
        return _work(agent, job, _how(job, role, timeout, isolate, retry))


def _how(job: Job, role: str, timeout: Seconds | None, isolate: Isolate | None, retry: Retry | None) -> _How:
    check_step_name(job.kind)
    return _How(role, None if timeout is None else seconds(timeout), isolate, Retries.of(retry))


def _check_is_data(agent: Agent) -> None:
    try:
        codec.canonical(agent)
    except NotStorable as error:
        kind = type(agent).__name__
        raise BadInput(
            f"{kind} cannot work in a `def` workflow, whose child run records the agent: {error.why}; or "
            "make the workflow async and write `await work.aio(...)`"
        ) from None


def _scope(name: str) -> Scope:
    scope = current.get()
    if type(scope) is not Scope:
        raise BadInput(f"{name}() is a part of a run: call it from a workflow that a run executes")
    return scope


async def _work(agent: Agent | str, job: Job, how: _How) -> Outcome:
    scope = _scope("work.aio")
    how = msgspec.structs.replace(how, round=next_round(scope.execution, job.kind))
    with branch(job.kind):
        return await _do(agent, _with_history(_scope("work.aio"), job), how)


_work.__qualname__ = "work"  # a task of it is the scope `work[1]/`


def _with_history(scope: Scope, job: Job) -> Job:
    """The job with the history of its run in front of what the caller put there."""
    known = recorded("history", lambda: history_of(scope.execution))
    return msgspec.structs.replace(job, history=(*known, *job.history))


@workflow
async def do_job(agent: Any, job: Job, how: _How) -> Outcome:
    """The workflow of a job in a `def` workflow; `agent` is a name, or an agent that is data."""
    return await _do(agent, job, how)


async def _do(agent: Agent | str, job: Job, how: _How) -> Outcome:
    run = _scope("work").execution
    chosen = _found(run.engine.handler("agents"), agent, how.role) if isinstance(agent, str) else agent
    chosen = _adjusted(chosen, how)
    with in_round(how.round), deadline(how.timeout_s) if how.timeout_s else nullcontext():
        outcome = await outcome_of(chosen, job)
    if job.changes_files and not outcome.changes and _has_files(run):
        outcome = msgspec.structs.replace(outcome, changes=await snapshot.aio())
    recorded(DONE, lambda: job_line(job.kind, chosen.name, outcome))
    return outcome


def _found(agents: Any, name: str, role: str) -> Agent:
    """The agent by its name or role. The choice is recorded: other settings do not change who does a job that
    was begun. Raises `AgentNotFound` with one line, which is how a run that failed is reported."""
    try:
        chosen = recorded("agent", lambda: check_agent(agents.find(name, role)).name)
        return check_agent(agents.find(chosen))
    except AgentNotFound as error:
        raise AgentNotFound(in_one_line(str(error))) from None


def _adjusted(agent: Agent, how: _How) -> Agent:
    if how.retry is None and how.isolate is None:
        return agent
    adjust = getattr(agent, "with_options", None)
    if adjust is None:
        raise BadInput(f"agent {agent.name} takes neither retry nor isolate; they are for command agents")
    adjusted: Agent = adjust(how.retry, how.isolate)
    return adjusted


def _has_files(run: Any) -> bool:
    return run.engine.files.root is not None or bool(run.state.files)


work = Work()
