"""The differences between two plans, in lines for people, and which results of one count in the other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.plans.model import Plan, PlanStep

_PLAN_KEYS = ("name", "description", "input", "parallel", "budget", "checkpoint_every")


def differences(old: Plan, new: Plan) -> list[str]:
    """One line for each step or key that differs."""
    lines = [f"`{key}` changed" for key in _PLAN_KEYS if getattr(old, key) != getattr(new, key)]
    before, after = _by_id(old), _by_id(new)
    lines += [f"step `{id}` was removed" for id in before if id not in after]
    for id, step in after.items():
        if id not in before:
            lines.append(f"step `{id}` was added")
        elif step != before[id]:
            fields = [
                field
                for field in step.__struct_fields__
                if getattr(step, field) != getattr(before[id], field)
            ]
            lines.append(f"step `{id}` changed: {', '.join(map(_key_of, fields))}")
    if not lines and [step.id for step in old.steps] != [step.id for step in new.steps]:
        lines.append("the order of the steps changed")
    return lines


def unchanged(old: Plan, new: Plan, given: Mapping[str, Any] | None = None) -> frozenset[str]:
    """The steps whose results count in the new plan: they and all that they need say the same, and name no
    input that has another value now. `given` is the input of the run."""
    inputs = {**old.input, **(given or {})}, {**new.input, **(given or {})}
    others = [name for name in inputs[1] if inputs[0].get(name) != inputs[1][name]]
    before, after = _by_id(old), _by_id(new)
    same: dict[str, bool] = {}

    def is_same(id: str) -> bool:
        if id not in same:
            same[id] = False  # a plan has no cycles
            one, other = before.get(id), after.get(id)
            same[id] = (
                one is not None
                and other is not None
                and _alike(one, other)
                and not any(_names_input(other, name) for name in others)
                and all(map(is_same, other.needs))
            )
        return same[id]

    return frozenset(id for id in after if is_same(id))


def _alike(one: PlanStep, other: PlanStep) -> bool:
    """The order in which needs stand means nothing; nor do words for people."""
    return set(one.needs) == set(other.needs) and _bare(one) == _bare(other)


def _names_input(step: PlanStep, name: str) -> bool:
    """Whether it may use the input: by its name, or all of them at once."""
    text = msgspec.json.encode(step).decode()
    part = rf"\binput(?:\.|\[\\?[\"']){re.escape(name)}\b|\binput\b(?![.\[])"
    return re.search(part, text) is not None


def _bare(step: PlanStep) -> PlanStep:
    return msgspec.structs.replace(step, needs=(), description="")


def _by_id(plan: Plan) -> dict[str, PlanStep]:
    return {step.id: step for step in plan.steps}


def _key_of(field: str) -> str:
    """The key of the file that a field is read from."""
    return {"argv": "run", "text": "what it does", "given": "with", "seconds": "sleep"}.get(field, field)
