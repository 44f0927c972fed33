"""The scope of one run of an agent: the keys of its model requests and tool calls.

A run of the agent `coder` is the branch `coder[1]/`. A model request in it is `model#k`: requests are made
one after the other. A tool call is `NAME@k-CALLID`; its id stands in the recorded response of request k. So
a key depends neither on timing nor on the tasks that pydantic-ai creates, and another version of it finds
the same keys.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from holdfast.engine.execution.call import Call
from holdfast.engine.execution.scope import Scope, current, live_runs
from holdfast.errors import BadInput, DetachedStep, WrongColour
from holdfast.kernel.measures import Measured, added

_BAD = re.compile(r"[\s/@#\[\]\x00-\x1f\x7f]+")
_LONGEST = 80


def clean(text: str) -> str:
    """The text as a part of a key. One that is too long keeps its beginning and gets a digest."""
    cleaned = _BAD.sub("-", text) or "-"
    if len(cleaned) <= _LONGEST:
        return cleaned
    return f"{cleaned[: _LONGEST - 13]}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


class AgentScope:
    """Where the steps of one agent's run are, and which request was the last."""

    def __init__(self, outer: Scope, name: str) -> None:
        self.outer = outer
        self.name = name
        self.scope = outer.child(clean(name))
        self.request = 0
        """The number of the last model request."""
        self.answered = 0
        """The place of the model that answered last: 0 is the agent's own, then come the fallbacks."""
        self.begun = False

    @property
    def path(self) -> str:
        return self.scope.counters.path.rstrip("/")

    def measured(self) -> tuple[Measured, ...]:
        """The usage of its steps, as it is recorded."""
        path, steps = self.scope.counters.path, self.scope.execution.state.steps
        total: tuple[Measured, ...] = ()
        for key, step in steps.items():
            if key.startswith(path):
                total = added(total, step.measured)
        return total

    def tool_key(self, call_id: str | None) -> str:
        """The part of a tool call's key that tells it apart from others of that tool."""
        return f"{self.request}-{clean(call_id or '')}"

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Inside, calls belong to the agent's scope, and not to a task that pydantic-ai has created."""
        token = current.set(self.scope)
        try:
            yield
        finally:
            current.reset(token)

    @contextmanager
    def tool(self, name: str, call_id: str | None) -> Iterator[None]:
        """Inside, calls belong to a branch of this tool call: `coder[1]/run[2-CALLID]/`."""
        inner = self.scope.keyed_child(clean(name), self.tool_key(call_id))
        token, opened = current.set(inner), _opened.set(None)
        try:
            yield
        finally:
            _opened.reset(opened)
            current.reset(token)
        inner.execution.check_all_visited(inner.counters)


_opened: ContextVar[AgentScope | None] = ContextVar("holdfast_opened_agent", default=None)
"""Opened by the caller of `agent.run`, in whose context it is; `wrap_run` is called in a task of
pydantic-ai."""
_running: ContextVar[AgentScope | None] = ContextVar("holdfast_running_agent", default=None)


def in_run() -> bool:
    """Whether the code here is code of a run, and not the body of a step."""
    return type(current.get()) is Scope


def check_metered(name: str) -> None:
    """Outside the code of a run: raise where the requests of the agent would escape every budget.

    In the body of a step with a reservation they are paid by that. Elsewhere in a run that is executed here
    they are refused, as a step that costs is: `BadInput` in the body of another step, `DetachedStep` on a
    thread or task without the context of the run."""
    inside = current.get()
    if isinstance(inside, Call):
        if inside.spec.reserve is None:
            raise BadInput(
                f"agent {name} was called in the body of step {inside.spec.name}, where its requests are "
                "neither recorded nor paid by a budget: call it from the workflow, or from a tool with "
                'metadata={"holdfast": False}, or reserve for the step what it may use: '
                '@step(reserve=Amounts(usd="0.50"))'
            )
    elif live_runs:
        raise DetachedStep(
            f"agent {name} was called outside every run while this process executes one: its requests would "
            "be neither recorded nor paid by a budget; call it from the workflow, in its task or in one that "
            "gather() starts"
        )


def check_not_blocking(name: str, call: str) -> None:
    """Raise `WrongColour` in the code of an async workflow, whose event loop the call would block."""
    scope = current.get()
    if type(scope) is Scope and scope.execution.is_async:
        raise WrongColour(
            f"{name}.{call}() blocks the event loop that its `async def` workflow runs in: write "
            f"`await {name}.run(...)` instead"
        )


def opened(name: str) -> AgentScope:
    """The scope of the agent's run that begins here."""
    scope = current.get()
    assert type(scope) is Scope
    if not scope.execution.is_async:
        raise WrongColour(
            f"agent {name} works in an event loop: run it in an `async def` workflow, and call that one "
            "from a `def` workflow as a child run"
        )
    here = _opened.get()
    if here is None or here.begun or here.outer is not scope or here.name != name:
        here = AgentScope(scope, name)
        _opened.set(here)
    return here


def running() -> AgentScope:
    """The agent's run that the code here belongs to. One that has been opened and begins now comes before the
    one around it: the tools of an agent may run other agents."""
    opened, around = _opened.get(), _running.get()
    here = around if opened is None or opened.begun else opened
    assert here is not None, "an operation of an agent outside of its run"
    return here


@contextmanager
def entered(here: AgentScope) -> Iterator[None]:
    """The run of the agent: from here on it is the one that `running` finds."""
    here.begun = True
    mine = _running.set(here)
    try:
        with here.entered():
            yield
    finally:
        _running.reset(mine)
    here.scope.execution.check_all_visited(here.scope.counters)
