"""The user's trust: settings of projects, and stores, that came from somewhere else."""

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.json_view import View


class GrantedSetting(View, frozen=True):
    """A path that the settings of a project may set now; `place` is the file and line that sets it."""

    key: str
    value: Any
    place: str

    JSON: ClassVar = {
        "key": "the setting",
        "value": "what it is set to",
        "place": "the file and line that sets it",
    }


class Granted(View, frozen=True):
    """One permission given by `trust`. `store` is the store whose code may be executed; empty for none."""

    directory: str
    settings: tuple[GrantedSetting, ...] = ()
    store: str = ""

    JSON: ClassVar = {
        "directory": "what is trusted now",
        "settings": "`key`, `value` and `place` of each path that its files may set",
        "store": "the store whose code may be executed, or null",
    }
    JSON_NULL: ClassVar = ("store",)


class TrustRecord(View, frozen=True):
    """A project or a store that was trusted. `holds`: it is still what was trusted then."""

    directory: str
    kind: str
    at: str
    holds: bool

    JSON: ClassVar = {
        "directory": "what is trusted",
        "kind": "`project` or `store`",
        "at": "since when",
        "holds": "false: its settings or its database are others since, cannot be read, or are gone",
    }
