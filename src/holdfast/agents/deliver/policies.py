"""Policies: decisions that a person has made beforehand, by stage, path and size.

There are none unless the settings or the call name some. Each decision of a policy is a decision of its gate
by `policy:NAME`, in the log as those of people are. A gate that is asked again, because files changed while
it was open, is never decided by a policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import pathspec

from holdfast.counts import counted
from holdfast.deliver_settings import GateStage, Policy
from holdfast.engine.primitives.gates import Automatic

__all__ = ["YES", "GateStage", "Policy", "decide"]

YES: Final = Policy(name="yes")
"""Approves both gates: what `deliver --yes` asks for."""


def decide(
    policies: Sequence[Policy], stage: GateStage, paths: Sequence[str], lines: int | None
) -> Automatic | None:
    """How the policies decide the gate: a policy that rejects comes before those that approve, else the first
    that applies. None if none applies. `lines` is None if it is not known."""
    found = [one for one in policies if not one.stages or stage in one.stages]
    for policy in sorted(found, key=lambda one: one.decide == "approve"):
        approves = policy.decide == "approve"
        why = _approves(policy, stage, paths, lines) if approves else _rejects(policy, paths, lines)
        if why is not None:
            outcome: Literal["approved", "rejected"] = "approved" if approves else "rejected"
            return Automatic(outcome, f"policy:{policy.name}", why)
    return None


def _approves(policy: Policy, stage: GateStage, paths: Sequence[str], lines: int | None) -> str | None:
    """Why it approves; None if a condition does not hold, or what it asks about is not known."""
    if policy.lines is not None and not _lines_hold(policy, policy.lines, stage, lines):
        return None
    if policy.paths and (not paths or list(_matching(policy, paths)) != list(paths)):
        return None
    if policy.files is not None and not 0 < len(paths) <= policy.files:
        return None
    many = counted(len(paths), "file")
    return f"{many} named" if lines is None else f"{many}, {counted(lines, 'line')}"


def _lines_hold(policy: Policy, most: int, stage: GateStage, lines: int | None) -> bool:
    """A plan has no lines yet. The bound does not keep a policy from it that names the plan among its stages
    and has another condition: one that had no other would approve any plan."""
    if stage == "plan":
        return "plan" in policy.stages and bool(policy.paths or policy.files is not None)
    return lines is not None and lines <= most


def _rejects(policy: Policy, paths: Sequence[str], lines: int | None) -> str | None:
    """Why it rejects; None if no condition holds. One without conditions rejects everything."""
    matching = list(_matching(policy, paths)) if policy.paths else []
    if matching:
        return f"{', '.join(matching[:3])} must not be changed"
    if policy.files is not None and len(paths) > policy.files:
        return f"{counted(len(paths), 'file')}, at most {policy.files}"
    if policy.lines is not None and lines is not None and lines > policy.lines:
        return f"{counted(lines, 'line')}, at most {policy.lines}"
    bare = not policy.paths and policy.files is None and policy.lines is None
    return "no such change is wanted" if bare else None


def _matching(policy: Policy, paths: Iterable[str]) -> Iterable[str]:
    spec = pathspec.GitIgnoreSpec.from_lines(policy.paths)
    return (path for path in paths if spec.match_file(path))
