"""`[deliver]` of the settings files: checks, bounds, policies, and a plan in place of the stages.

[deliver]
checks = ["pytest -q"]
rounds = 5
retries = 3
check_timeout_s = 1800
plan = "deliver.yaml"

[deliver.policy.docs]
stages = ["plan", "implementation"]
paths = ["docs/**", "*.md"]
lines = 200
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

GateStage = Literal["plan", "implementation"]


class Policy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """When a gate of `deliver` is decided without a person.

    stages  the gates that it decides; empty for both
    paths   patterns, as in .gitignore. It approves if every path matches one, and rejects if any does
    files   it approves up to so many files, and rejects more
    lines   the same for lines that were added and removed. A plan has none: the bound does not count there if
            `stages` names the plan and `paths` or `files` is given; else it approves no plan
    decide  `approve` or `reject`

    Conditions that are left out do not count. It approves if all of them hold, and rejects if one does.
    """

    name: str
    stages: tuple[GateStage, ...] = ()
    paths: tuple[str, ...] = ()
    files: int | None = None
    lines: int | None = None
    decide: Literal["approve", "reject"] = "approve"


_TYPES: Final[dict[str, tuple[Any, str]]] = {
    "checks": (list[str], 'a list of command lines: ["pytest -q"]'),
    "plan": (str, "the path of a plan file"),
    "rounds": (int, "a whole number, not less than 0"),
    "retries": (int, "a whole number, not less than 0"),
    "check_timeout_s": (Annotated[float, msgspec.Meta(gt=0)], "a number of seconds, more than 0"),
}


def read_deliver(
    table: Mapping[str, Any], root: Path, place_of: Callable[[tuple[str, ...]], str], faults: list[str]
) -> dict[str, Any]:
    """The keys of `[deliver]` that are there, as plain data; each fault is a line of `faults`."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        place = place_of(("deliver", key))
        if key == "policy":
            found[key] = _policies(value, place, faults)
            continue
        if key not in _TYPES:
            from holdfast.spelling import did_you_mean

            hint = did_you_mean(key, [*_TYPES, "policy"], f"there are {', '.join(_TYPES)} and policy")
            faults.append(f"{place}: deliver.{key} is unknown; {hint}")
            continue
        kind, words = _TYPES[key]
        try:
            given = msgspec.convert(value, kind)
        except msgspec.ValidationError:
            given = None
        if given is None or (kind is int and given < 0):
            faults.append(f"{place}: deliver.{key} must be {words}")
            continue
        found[key] = str(root / given) if key == "plan" and not given.startswith("~") else given
    return found


def _policies(value: Any, place: str, faults: list[str]) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        faults.append(f"{place}: deliver.policy has a table for each policy: [deliver.policy.NAME]")
        return {}
    for name, table in value.items():
        try:
            policy(name, table)
        except msgspec.ValidationError as error:
            faults.append(f"{place}: deliver.policy.{name}: {error}")
    return value


def policy(name: str, table: Mapping[str, Any]) -> Policy:
    """A policy of the settings. Raises `msgspec.ValidationError`."""
    return msgspec.convert({**table, "name": name}, Policy)
