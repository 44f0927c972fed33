"""`deliver`: the built-in workflow for a coding goal.

    plan ─▶ approval ─▶ implement ─▶ approval ─▶ review ─▶ verify
      ▲         │            ▲           │          │         │
      └─────────┘            └───────────┴──────────┴─────────┘

A rejection goes back with its reason; so do objections of the reviewer and the output of commands that
failed. Each way back is bounded. Both approvals are bound to the files (`bound_approval`). What a role that
only reads changes in the files is rolled back (`read_only`). The record of a delivery is in its
checkpoints, whose data `DeliverRecord` reads.

The workflow is here because runs record it as `holdfast.agents.deliver:deliver`; `delivery` is its body.
"""

from __future__ import annotations

from typing import Any

from holdfast.agents.deliver.delivery import Delivery, title_of
from holdfast.agents.deliver.options import DeliverOptions
from holdfast.agents.deliver.policies import YES
from holdfast.engine.runs.workflow import workflow
from holdfast.errors import BadInput

__all__ = ["YES", "DeliverOptions", "deliver"]


@workflow
async def deliver(goal: str, options: DeliverOptions = DeliverOptions()) -> dict[str, Any]:  # noqa: B008
    """Plan the goal, let a person approve the plan, implement it, let a person approve the difference, review
    it, and verify it.

    Returns the changed files, whether commands verified them, and how often each stage was repeated. Raises
    `NotDelivered` when a bound is reached, `BadInput` for an empty goal.
    """
    if not goal.strip():
        raise BadInput("the goal is empty: describe in a sentence what is to be done")
    return await Delivery(goal, options.check()).run()


deliver.title = title_of
