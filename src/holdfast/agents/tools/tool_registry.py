"""A tool as data: what it takes and does, for those that get its name and arguments from a file or a
model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import cached_property
from typing import Any, NamedTuple, Protocol, get_type_hints

import msgspec

from holdfast import typed_values
from holdfast.errors import ToolFailed
from holdfast.spelling import did_you_mean


class Callee(Protocol):
    """The function for `def` workflows, with `aio` for async ones."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def aio(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]: ...


class Parameter(NamedTuple):
    """A parameter of a tool."""

    name: str
    type: Any
    required: bool
    default: Any
    description: str


class Tool:
    """One tool. `call` and `aio` take the arguments by name; a call is a step of the run."""

    def __init__(self, name: str, callee: Callee, fn: Callable[..., Any], *, changes_files: bool) -> None:
        self.name = name
        self.changes_files = changes_files
        self.does = inspect.cleandoc(fn.__doc__ or "")
        self._callee = callee
        self._fn = fn

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    @cached_property
    def takes(self) -> Mapping[str, Parameter]:
        """The parameters by name, in the order of the signature."""
        hints = get_type_hints(self._fn, include_extras=True)
        found = {}
        for name, parameter in inspect.signature(self._fn).parameters.items():
            if name == "self":
                continue
            required = parameter.default is inspect.Parameter.empty
            described = [
                one.description for one in getattr(hints[name], "__metadata__", ()) if one.description
            ]
            default = None if required else parameter.default
            found[name] = Parameter(name, hints[name], required, default, described[0] if described else "")
        return found

    @cached_property
    def _arguments(self) -> type[msgspec.Struct]:
        fields = [
            (one.name, one.type) if one.required else (one.name, one.type, one.default)
            for one in self.takes.values()
        ]
        return msgspec.defstruct(self.name, fields, kw_only=True, forbid_unknown_fields=True)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The arguments as a JSON schema, as models take it."""
        (schema,), named = msgspec.json.schema_components((self._arguments,), ref_template="{name}")
        found: dict[str, Any] = dict(named[schema["$ref"]])
        found.pop("title", None)
        return {**found, "additionalProperties": False}

    def faults(self, arguments: Mapping[str, Any], unknown: Collection[str] = ()) -> list[str]:
        """Sentences on what is wrong with arguments: each fault is one. The values of `unknown` are not known
        yet, and
        only their names are looked at."""
        found = []
        for name in arguments:
            if name not in self.takes:
                takes = f"it takes {', '.join(self.takes)}"
                hint = did_you_mean(str(name), self.takes, takes, written=repr)
                found.append(f"{self.name} takes no {str(name)!r}; {hint}")
        for one in self.takes.values():
            if one.name not in arguments:
                if one.required:
                    found.append(f"{self.name} needs {one.name!r}: {one.description}")
            elif one.name not in unknown:
                try:
                    typed_values.convert(arguments[one.name], one.type)
                except msgspec.ValidationError as error:
                    found.append(f"{self.name}: {one.name!r}: {error}")
        return found

    def call(self, arguments: Mapping[str, Any]) -> Any:
        """Call it in a `def` workflow. Raises `ToolFailed` for arguments that do not fit."""
        self._check(arguments)
        return self._callee(**arguments)

    def aio(self, arguments: Mapping[str, Any]) -> Coroutine[Any, Any, Any]:
        """The same for async workflows."""
        self._check(arguments)
        return self._callee.aio(**arguments)

    def _check(self, arguments: Mapping[str, Any]) -> None:
        faults = self.faults(arguments)
        if faults:
            raise ToolFailed("; ".join(faults))
