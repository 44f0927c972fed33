"""The settings in force, out of all sources, and where each value came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.agent_settings import role_faults
from holdfast.errors import SettingsError
from holdfast.settings.definition import Settings
from holdfast.settings.sources import (
    OTHER_VARIABLES,
    PREFIX,
    PROJECT_FILES,
    SETTINGS_FILE,
    Entry,
    Origin,
    Source,
    digest_of,
    digest_of_file,
    entries,
)
from holdfast.settings.values import converted, default_of, fields, meta_of, nearest, words_for


class Resolved(msgspec.Struct, frozen=True):
    """The settings in force, and for every key where its value came from."""

    settings: Settings
    origins: dict[str, Origin]
    sources: tuple[Source, ...] = ()

    @property
    def moved(self) -> list[str]:
        """Keys that need trust, set by a file of the project: paths of the store, the workspace, the backups;
        handlers."""
        given = [key for key, origin in self.origins.items() if origin.kind in PROJECT_FILES]
        named = [(key, fields()[key]) for key in given]  # most projects give none: no type is read
        return [key for key, field in named if meta_of(field, "path") or meta_of(field, "code")]

    @property
    def digest(self) -> str:
        """The contents of all settings files of the project, and of the scripts and the plan that they name,
        to which trust is bound."""
        said = [f"{source.name} {source.digest}" for source in self.sources]
        said += [f"{path} {digest_of_file(path)}" for path in self._named_files()]
        return digest_of("\n".join(said).encode())

    def _named_files(self) -> list[Path]:
        found = [one.file for one in self.settings.agent.values()] if self._is_of_project("agent") else []
        if self._is_of_project("deliver"):
            found.append(self.settings.deliver.get("plan", ""))
        return [Path(one).expanduser() for one in sorted(set(found)) if one]

    def _is_of_project(self, key: str) -> bool:
        return self.origins[key].kind in PROJECT_FILES


class Setting(msgspec.Struct, frozen=True):
    """One setting as `config show` and the reference list it."""

    key: str
    variable: str
    type: str
    default: Any
    description: str


def reference() -> tuple[Setting, ...]:
    """Every setting, in the order of their definition."""
    return tuple(
        Setting(
            key=name,
            variable="" if meta_of(field, "table") else variable(name),
            type=words_for(field.type),
            default=default_of(field),
            description=meta_of(field, "description") or "",
        )
        for name, field in fields().items()
    )


def variable(key: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + key.upper()


def load(*, root: Path, environ: Mapping[str, str], flags: Mapping[str, object] | None = None) -> Resolved:
    """Gather the settings of the project at `root`.

    A flag that is None was not given; an empty variable counts as not set. A relative path in a file
    counts from `root`; in a variable or flag it is left as it is, for the working directory.
    Raises SettingsError, with one line for each fault.
    """
    faults: list[str] = []
    sources: list[Source] = []
    values: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.__struct_fields__, Origin("default", ""))
    for entry in entries(root, environ, flags or {}, faults, sources):
        field = fields().get(entry.key)
        if field is None:
            faults.append(_unknown(entry, Settings.__struct_fields__))
            continue
        read = meta_of(field, "table")
        if read is not None:
            values[entry.key] = {**values.get(entry.key, {}), **_table(entry, read, root, faults)}
            origins[entry.key] = entry.origin
            continue
        try:
            value = converted(entry, field)
        except ValueError as exc:
            faults.append(f"{_where(entry)}{exc}")
            continue
        if meta_of(field, "path") and entry.origin.kind in PROJECT_FILES and not value.startswith("~"):
            value = str(root / value)
        values[entry.key], origins[entry.key] = value, entry.origin
    faults += role_faults(values.get("agent", {}), values.get("roles", {})) if not faults else []
    if faults:
        several = f"{len(faults)} settings are wrong:\n  " if faults[1:] else ""
        raise SettingsError(several + "\n  ".join(faults))
    return Resolved(Settings(**values), origins, tuple(sources))


def _table(
    entry: Entry, read: Callable[..., dict[str, Any]], root: Path, faults: list[str]
) -> dict[str, Any]:
    if entry.place_of is None or not isinstance(entry.value, dict):
        faults.append(f"{_where(entry)}{entry.key} is a table of {SETTINGS_FILE}, and nothing else sets it")
        return {}
    return read(entry.value, root, entry.place_of, faults)


def _where(entry: Entry) -> str:
    # A flag needs no place: the same way serves the arguments of `Holdfast`, and the key names both.
    return "" if entry.origin.kind == "flag" else f"{entry.origin.place}: "


def _unknown(entry: Entry, keys: Sequence[str]) -> str:
    if entry.text:
        name = entry.key if entry.key.startswith(PREFIX) else variable(entry.key)
        keys = [*map(variable, keys), *OTHER_VARIABLES]
    else:
        name = entry.key
    near = nearest(name, keys)
    place = "" if entry.origin.place == name else _where(entry)
    advice = f"did you mean {near}?" if near else "`holdfast config show` lists all"
    return f"{place}unknown setting {name!r}; {advice}"
