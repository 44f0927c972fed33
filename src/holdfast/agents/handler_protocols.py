"""The protocols of handlers: what a governor, router, skill chooser, evidence writer or finder of agents of
your own must have.

    governor  `GovernorHandler`: `reserve` before an attempt, `settle` with its end
    router    `RouterHandler`: `rank`
    skills    `SkillsHandler`: `choose`
    evidence  `EvidenceHandler`: `write`
    agents    `AgentsHandler`: `find`

A handler is made by calling its class, or any function, with (engine, settings), once for each engine, when
it is first needed. It is called from the threads of runs, so it must be thread-safe. Whatever it decides is
recorded: a resumed run does not ask again. A handler should keep nothing that a new process could not read
again, from `engine.store` or from files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from holdfast.engine.execution.reserving import Governor as GovernorHandler
from holdfast.engine.primitives.milestone import Writer as EvidenceHandler

if TYPE_CHECKING:
    from holdfast.agents.protocol import Agent, Job

__all__ = ["AgentsHandler", "EvidenceHandler", "GovernorHandler", "RouterHandler", "Skilled", "SkillsHandler"]


class RouterHandler(Protocol):
    """The handler `router`."""

    def rank(self, kind: str, candidates: Sequence[str]) -> Sequence[str]:
        """The candidates for a piece of work of this kind, the one to try first first. Some may be left
        out, but not all. It is called in the code of a workflow, also in an event loop: it may read the
        store, and must not wait for anything else. `engine.store.outcomes("router", kind, candidate,
        limit)` has the last outcomes of a candidate, the newest first.
        """
        ...


class Skilled(Protocol):
    """A skill that a chooser returns; `holdfast.agents.skills.Skill` is one."""

    @property
    def name(self) -> str: ...
    @property
    def candidate(self) -> str:
        """The name under which outcomes are recorded."""
        ...

    @property
    def text(self) -> str:
        """The text for the prompt."""
        ...


class SkillsHandler(Protocol):
    """The handler `skills`."""

    def choose(self, job: Job, limit: int) -> Sequence[Skilled]:
        """At most `limit` skills for a job, the best first. It is called in the code of a workflow, also in
        an event loop: it may read the store and small files, and must not wait for anything else.
        `engine.store.outcomes("skills", job.kind, candidate, limit)` has the last outcomes of a skill.
        """
        ...


class AgentsHandler(Protocol):
    """The handler `agents`."""

    def find(self, name: str = "", role: str = "") -> Agent:
        """The agent of this name; without a name, that of the role. It is called again with the `name` of the
        agent that it returned, and must find the same. Raises `AgentNotFound`.
        """
        ...
