"""Structs that are written as JSON by the description of their keys."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec


class View(msgspec.Struct, frozen=True):
    """A struct for readers outside: `to_json` has the keys of `JSON`, in that order.

    JSON       what each key means; the documentation prints it
    JSON_FROM  key → attribute, where the two have different names
    JSON_NULL  keys whose empty values are written as null
    """

    JSON: ClassVar[dict[str, str]]
    JSON_FROM: ClassVar[dict[str, str]] = {}
    JSON_NULL: ClassVar[tuple[str, ...]] = ()

    def to_json(self) -> dict[str, Any]:
        found = {key: _plain(getattr(self, self.JSON_FROM.get(key, key))) for key in self.JSON}
        return found | {key: None for key in self.JSON_NULL if not found[key]}


def _plain(value: Any) -> Any:
    """Views as objects, times and paths as text, tuples as lists; all else as it is."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if hasattr(value, "to_json"):
        return value.to_json()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "__fspath__"):
        return str(value)
    return value
