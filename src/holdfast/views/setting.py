"""A setting with the value that is in force, and where that came from."""

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.json_view import View


class SettingInForce(View, frozen=True):
    """`place` is the file and line, or the variable, that sets it; empty if nothing does."""

    key: str
    value: Any
    origin: str
    place: str
    trusted: bool
    variable: str
    type: str
    description: str

    JSON: ClassVar = {
        "key": "its name",
        "value": "what is in force; of `redact` only how many patterns",
        "origin": "`default`, or the kind of place that set it",
        "place": "the file and line, or the variable; null for a default",
        "trusted": "false: it is in a file that needs `holdfast trust`",
        "variable": "the environment variable that sets it",
        "type": "of its value",
        "description": "what it is for",
    }
    JSON_NULL: ClassVar = ("place",)
