"""The stages of `deliver`, as data: what each is, and which may follow it.

A stage is what a run is busy with, beside its status: `list` and `show` have it. The table is what the
workflow is held to: entering a stage that may not follow the one before it is a fault of the workflow.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.engine.primitives.checkpoint import stage


class Stage(NamedTuple):
    """`then` are the stages that may follow; `waits` says that a person is asked."""

    name: str
    then: tuple[str, ...]
    waits: bool = False


STAGES: Final = {
    one.name: one
    for one in (
        Stage("pending", ("planning",)),
        Stage("planning", ("plan_awaiting_approval",)),
        Stage("plan_awaiting_approval", ("plan_approved", "planning"), waits=True),
        Stage("plan_approved", ("implementing", "plan_awaiting_approval")),
        Stage("implementing", ("implementation_awaiting_approval",)),
        Stage("implementation_awaiting_approval", ("reviewing", "implementing", "completed"), waits=True),
        Stage("reviewing", ("verifying", "implementing")),
        Stage("verifying", ("completed", "implementing", "implementation_awaiting_approval")),
        Stage("completed", ()),
    )
}
"""Name → stage, in the order of a delivery in which nothing is sent back."""


class Progress:
    """The stage that a run is in."""

    def __init__(self) -> None:
        self.stage = ""

    def enter(self, name: str) -> None:
        """Enter a stage; it is recorded with the next commit of the run."""
        allowed = STAGES[self.stage].then if self.stage else ("pending",)
        assert name in allowed, f"{self.stage or 'the beginning'} is not followed by {name}"
        stage(name)
        self.stage = name
