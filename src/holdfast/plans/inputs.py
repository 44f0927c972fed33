"""The input of a plan: what is given, against what the plan takes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import BadInput, NotFound
from holdfast.json_input import read_json
from holdfast.plans.faults import Fault, nearest
from holdfast.plans.model import Plan


def input_faults(
    plan: Plan,
    given: Mapping[str, Any],
    *,
    templated: bool = False,
    places: Mapping[str, tuple[int, int]] | None = None,
) -> list[Fault]:
    """The faults of an input: missing, unknown, or of another type than its default. With `templated`, a text
    may be an
    expression, whose type is not known yet. `places` are the line and column of each input in the file."""
    found: list[tuple[str, str]] = []
    for name, default in plan.input.items():
        if default is None and name not in given:
            where = "of the sub-plan is missing in `with`" if templated else "is missing"
            way = "" if templated else f": give it with `--input {name}=VALUE`"
            found.append((name, f"the input `{name}` {where}{way}"))
    for name, value in given.items():
        default = plan.input.get(name)
        if name not in plan.input:
            found.append((name, f"plan {plan.name} takes no input `{name}`{nearest(name, plan.input)}"))
        elif templated and isinstance(value, str) and "${" in value:
            continue
        elif default is not None and not _fits(value, default):
            found.append((name, f"the input `{name}` is {_shown(value)}, and must be {_kind(default)}"))
    return [Fault("", *(places or {}).get(name, (0, 0)), text) for name, text in found]


def filled(plan: Plan, given: Mapping[str, Any]) -> dict[str, Any]:
    """Every input with its value. Raises `BadInput` for what does not fit."""
    faults = input_faults(plan, given)
    if faults:
        raise BadInput("; ".join(fault.text for fault in faults))
    return {**plan.input, **given}


def _fits(value: Any, default: Any) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return type(value) is type(default)
    if isinstance(default, float):
        return isinstance(value, int | float)
    return isinstance(value, type(default))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _kind(default: Any) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text", list: "a list"}
    return names.get(type(default), "a mapping")


def parse_inputs(plan: Plan | None, pairs: Iterable[str], file: str | Path | None = None) -> dict[str, Any]:
    """The inputs of a command line: those of a JSON or YAML file, then NAME=VALUE. A value is JSON if it
    parses, else text; for an input whose default is text, it is text as it is. A number that JSON would
    write in another way (`1.10`) stays text. Raises `BadInput`."""
    found: dict[str, Any] = {} if file is None else _from_file(Path(file))
    named: set[str] = set()
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise BadInput(f"--input {pair!r} must be NAME=VALUE")
        if name in named:
            raise BadInput(f"--input {name} was given twice")
        named.add(name)
        is_text = plan is not None and isinstance(plan.input.get(name), str)
        found[name] = text if is_text else _value(text)
    return found


def _value(text: str) -> Any:
    try:
        value = read_json(text)
    except (ValueError, msgspec.DecodeError):
        return text
    return text if type(value) in (int, float) and json.dumps(value) != text.strip() else value


def _from_file(path: Path) -> dict[str, Any]:
    from holdfast.plans import document

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NotFound(f"--input-file {path} cannot be read: {error}") from None
    try:
        node, twice = document.parse(text)
    except document.Unreadable as error:
        raise BadInput(f"--input-file {path}:{error.line}:{error.column}: {error.text}") from None
    if twice:
        raise BadInput(f"--input-file {path}:{twice[0].line}:{twice[0].column}: {twice[0].text}")
    value = document.plain(node)
    if not isinstance(value, dict):
        raise BadInput(f"--input-file {path} must have inputs by name, as JSON or YAML")
    return value
