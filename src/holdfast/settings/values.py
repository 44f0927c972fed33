"""A value in the type of its setting, and types in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, get_args, get_origin

import msgspec

from holdfast import typed_values
from holdfast.settings.definition import Settings
from holdfast.settings.sources import Entry


@cache
def fields() -> dict[str, msgspec.structs.FieldInfo]:
    return {field.name: field for field in msgspec.structs.fields(Settings)}


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def meta_of(field: msgspec.structs.FieldInfo, name: str) -> Any:
    """An entry of the field's Meta: its description, or a key of its `extra`."""
    for meta in getattr(field.type, "__metadata__", ()):
        if name == "description":
            return meta.description
        if meta.extra and name in meta.extra:
            return meta.extra[name]
    return None


def converted(entry: Entry, field: msgspec.structs.FieldInfo) -> Any:
    """The value in the field's type. Raises ValueError with what is expected."""
    value = entry.value
    if entry.text and _is_list(field.type):
        value = _listed(entry.key, str(value).strip())
    elif entry.text and _is_table(field.type):
        value = _paired(entry.key, str(value))
    try:
        found = typed_values.convert(value, field.type, strict=not entry.text)
    except msgspec.ValidationError:
        raise ValueError(_misfit(entry.key, value, field.type)) from None
    check: Callable[[Any], None] | None = meta_of(field, "check")
    if check is not None:
        try:
            check(found)
        except ValueError as exc:
            raise ValueError(f"{entry.key}: {exc}") from None
    return found


def _misfit(key: str, value: object, kind: Any) -> str:
    # Lists are not shown: what stands in `redact` may be the secret itself.
    is_ = f"is {value!r:.80}, but " if isinstance(value, str | int | float) and not _is_list(kind) else ""
    near = nearest(str(value), _choices(kind))
    return f"{key} {is_}must be {words_for(kind)}" + (f"; did you mean {near!r}?" if near else "")


def _listed(key: str, text: str) -> list[Any]:
    """A list out of a variable: a JSON array, or items between commas."""
    if not (text.startswith("[") and text.endswith("]")):
        return [item.strip() for item in text.split(",") if item.strip()]
    try:
        return msgspec.json.decode(text, type=list[Any])
    except msgspec.DecodeError:
        raise ValueError(f'{key}: what stands in [ ] must be a JSON array, such as ["a", "b"]') from None


def _paired(key: str, text: str) -> dict[str, str]:
    """A table out of a variable: `name=value` between commas."""
    pairs = [item.partition("=") for item in text.split(",") if item.strip()]
    if not all(sign for _, sign, _ in pairs):
        raise ValueError(f"{key}: write name=value, with commas between several")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _is_list(kind: Any) -> bool:
    return get_origin(getattr(kind, "__origin__", kind)) is list


def _is_table(kind: Any) -> bool:
    return get_origin(getattr(kind, "__origin__", kind)) is dict


def _choices(kind: Any) -> tuple[str, ...]:
    plain = getattr(kind, "__origin__", kind)
    return tuple(map(str, get_args(plain))) if get_origin(plain) is Literal else ()


def words_for(kind: Any) -> str:
    """A type in words, such as `an integer >= 1` or `"full" or "process"`."""
    from msgspec import inspect

    info: Any = kind if isinstance(kind, inspect.Type) else inspect.type_info(kind)
    name = type(info).__name__.removesuffix("Type")
    if name == "Metadata":
        return words_for(info.type)
    if name == "Union":
        return " or ".join(words for part in info.types if (words := words_for(part)) != "None")
    if name == "Dict":
        return "a table"
    if name == "Literal":
        return " or ".join(f'"{value}"' for value in info.values)
    if name == "List":
        return f"a list, each {words_for(info.item_type)}"
    plain = {"Int": "an integer", "Float": "a number", "Bool": "true or false", "Str": "text"}
    limits = ((">=", getattr(info, "ge", None)), ("<=", getattr(info, "le", None)))
    bounds = " and ".join(f"{sign} {limit:g}" for sign, limit in limits if limit is not None)
    return f"{plain.get(name, name)} {bounds}".strip()


def nearest(name: str, candidates: Sequence[str]) -> str | None:
    from holdfast.spelling import nearest as most_like

    plain = {candidate.lower(): candidate for candidate in candidates}
    close = most_like(name.lower().replace("-", "_"), plain, most=1, cutoff=0.7)
    return plain[close[0]] if close else None
