"""The interface of an agent: it works on a job and returns how that ended.

    class Echo:
        name = "echo"

        async def work(self, job: Job) -> Outcome:
            return Outcome(text=job.prompt)

`work` is code of a workflow: whatever it does to the world must be a step (`command.aio`, `tools`, a step of
your own), so that a resumed run repeats nothing that is recorded. An agent holds no state of its own.
"""

from __future__ import annotations

import inspect
from decimal import Decimal
from typing import Final, Protocol, runtime_checkable

import msgspec

from holdfast.errors import BadInput
from holdfast.kernel.measures import Measured

__all__ = ["Agent", "Job", "Outcome"]


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task for an agent. It is recorded as the argument of the step that performs it.

    goal      the goal of the whole run, in the words of the person who asked
    prompt    what is asked of the agent now
    kind      the kind of work (`plan`, `implement`, `review`, ...): the router learns for each
    history   what was done, decided and rejected before, one line each, the oldest first
    paths     files that matter, relative to the workspace
    writes    patterns, as in .gitignore, of what it may write; empty for everything
    changes_files  False for work that only reads
    budget    the budget that pays; empty for that of the run
    max_usd   the most that this job may cost; None for what the budget allows
    """

    goal: str
    prompt: str
    kind: str = "work"
    history: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    changes_files: bool = True
    budget: str = ""
    max_usd: Decimal | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a job ended. `session` is the agent's own name for the conversation, `changes` the snapshot of
    the files after it, empty if none was taken."""

    text: str
    measured: tuple[Measured, ...] = ()
    session: str = ""
    changes: str = ""


@runtime_checkable
class Agent(Protocol):
    """Anything with a name that can work on a job."""

    @property
    def name(self) -> str: ...

    async def work(self, job: Job) -> Outcome: ...


_MUST: Final = "an agent has a `name` and `async def work(self, job: Job) -> Outcome`"


def check_agent(agent: object) -> Agent:
    """The agent itself. Raises `BadInput` for an object that is none, with its class and what it lacks."""
    if isinstance(agent, type):
        raise BadInput(f"{agent.__name__} is a class and no agent: pass {agent.__name__}(...); {_MUST}")
    name = getattr(agent, "name", None)
    if not (isinstance(name, str) and name):
        raise BadInput(f"{type(agent).__name__} is no agent: it has no `name` that is text; {_MUST}")
    if not callable(getattr(agent, "work", None)):
        raise BadInput(f"{type(agent).__name__} is no agent: it has no method `work`; {_MUST}")
    return agent  # type: ignore[return-value]


async def outcome_of(agent: Agent, job: Job) -> Outcome:
    """Let the agent work on the job. Raises `BadInput` if `work` is not async, or returns no `Outcome`."""
    working = agent.work(job)
    kind = type(agent).__name__
    if not inspect.isawaitable(working):
        raise BadInput(f"{kind} cannot work as an agent: its `work` is not async; {_MUST}")
    outcome: object = await working
    if not isinstance(outcome, Outcome):
        raise BadInput(
            f"{kind} cannot work as an agent: its `work` returned {type(outcome).__name__}, and must return "
            "an Outcome, such as Outcome(text=...)"
        )
    return outcome
