"""The prompts of `deliver` for each role.

A reviewer and a verifier end their answer with a line that says how they decide: `VERDICT: APPROVED` or
`VERDICT: CHANGES`. An answer without one decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from holdfast.agents.deliver.verifying import CheckResult

_VERDICT = re.compile(
    r"^[\s*_#>`]*verdict[\s*_`]*:[\s*_`]*(approved|changes)\b", re.IGNORECASE | re.MULTILINE
)
_END_WITH = "End with one line: VERDICT: APPROVED, or VERDICT: CHANGES if something must change."


def to_plan(goal: str, files: Sequence[str], before: str, reason: str) -> str:
    """For the planner; `before` is the plan that was rejected for `reason`."""
    likely = "\n".join(f"- {one}" for one in files) or "- none were found"
    again = f"\n\nYour last plan was rejected: {reason}\n\n{before}\n\nMake another." if before else ""
    return (
        f"Plan how to reach this goal. Change no files now.\n\nGoal: {goal}\n\n"
        f"Files that are likely to matter:\n{likely}{again}\n\n"
        "Answer with the plan: numbered steps, and each file to create or change by its path."
    )


def to_implement(goal: str, plan: str, reason: str) -> str:
    """For the developer; `reason` says why what is there was sent back."""
    again = f"\n\nWhat is there now was sent back: {reason}\n\nCorrect it." if reason else ""
    return f"Carry out this plan in the workspace.\n\nGoal: {goal}\n\nApproved plan:\n{plan}{again}"


def to_review(goal: str, plan: str, diff: str) -> str:
    """For the reviewer."""
    return (
        f"Review this change. Change no files.\n\nGoal: {goal}\n\nApproved plan:\n{plan}\n\n"
        f"Change:\n{diff}\n\nName each fault with its file and line. {_END_WITH}"
    )


def to_verify(goal: str, diff: str, results: Sequence[CheckResult]) -> str:
    """For the verifier, after the commands have passed."""
    ran = "\n".join(f"- {one.sentence}\n{one.output}" for one in results) or "- no command was run"
    return (
        f"Verify that this change reaches the goal. Change no files.\n\nGoal: {goal}\n\nChange:\n{diff}\n\n"
        f"Commands that were run:\n{ran}\n\n{_END_WITH}"
    )


NO_VERDICT = f"Your last answer had no verdict. {_END_WITH}"


def verdict(text: str) -> Literal["approved", "changes"] | None:
    """How an answer decides; its last verdict counts. None if it has none."""
    found = _VERDICT.findall(text)
    if not found:
        return None
    return "approved" if found[-1].lower() == "approved" else "changes"
