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

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from holdfast import typed_values

GateStage = Literal["plan", "implementation"]
Count = Annotated[int, msgspec.Meta(ge=0)]
PlaceOf = Callable[[tuple[str, ...]], str]
"""Where a key stands, such as `holdfast.toml:3`; it is named by its tables and itself."""


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
    files: Count | None = None
    lines: Count | None = None
    decide: Literal["approve", "reject"] = "approve"


_TYPES: Final[dict[str, tuple[Any, str]]] = {
    "checks": (list[str], 'a list of command lines: ["pytest -q"]'),
    "plan": (str, "the path of a plan file"),
    "rounds": (Count, "a whole number, not less than 0"),
    "retries": (Count, "a whole number, not less than 0"),
    "check_timeout_s": (Annotated[float, msgspec.Meta(gt=0)], "a number of seconds, more than 0"),
}


_POLICY_WORDS: Final = {
    "stages": 'a list of "plan" and "implementation"',
    "paths": 'a list of patterns: ["docs/**"]',
    "files": "a whole number, not less than 0",
    "lines": "a whole number, not less than 0",
    "decide": '"approve" or "reject"',
}


def read_deliver(
    table: Mapping[str, Any], root: Path, place_of: PlaceOf, faults: list[str]
) -> dict[str, Any]:
    """The keys of `[deliver]` that are there, as plain data; each fault is a line of `faults`."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        place = place_of(("deliver", key))
        if key == "policy":
            found[key] = _read_policies(value, place_of, faults)
            continue
        if key not in _TYPES:
            faults.append(f"{place}: deliver.{key} is unknown; {_known(key, [*_TYPES, 'policy'])}")
            continue
        kind, words = _TYPES[key]
        try:
            given = typed_values.convert(value, kind)
        except msgspec.ValidationError:
            faults.append(f"{place}: deliver.{key} must be {words}")
            continue
        found[key] = str(root / given) if key == "plan" and not given.startswith("~") else given
    return found


def _read_policies(value: Any, place_of: PlaceOf, faults: list[str]) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        place = place_of(("deliver", "policy"))
        faults.append(f"{place}: deliver.policy has a table for each policy: [deliver.policy.NAME]")
        return {}
    types = {field.name: field.type for field in msgspec.structs.fields(Policy)}
    for name, table in value.items():
        for key, given in table.items():
            fault = _fault(key, given, types)
            if fault:
                place = place_of(("deliver", "policy", name, key))
                faults.append(f"{place}: deliver.policy.{name}.{key} {fault}")
    return value


def _fault(key: str, given: Any, types: Mapping[str, Any]) -> str:
    """The fault of one key of a policy in words; empty if there is none."""
    words = _POLICY_WORDS.get(key)
    if words is None:
        return f"is unknown; {_known(key, list(_POLICY_WORDS))}"
    try:
        typed_values.convert(given, types[key])
    except msgspec.ValidationError:
        is_ = f"is {given!r:.80}; it " if type(given) in (str, int, float) else ""
        return f"{is_}must be {words}"
    return ""


def _known(key: str, keys: Sequence[str]) -> str:
    from holdfast.spelling import did_you_mean

    return did_you_mean(key, keys, f"there are {', '.join(keys[:-1])} and {keys[-1]}")


def policy(name: str, table: Mapping[str, Any]) -> Policy:
    """A policy of the settings, which have been read without a fault."""
    return typed_values.convert({**table, "name": name}, Policy)
