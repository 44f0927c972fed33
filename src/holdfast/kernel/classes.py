"""Classes by name, and their instances as parts.

A value of a class is stored as the class's name (`module:qualname`) and its parts, and put together
again without its constructor where the language allows it. Only five shapes are known: enum, Struct,
pydantic model, named tuple and dataclass. A name that leads to anything else is refused, so stored data
can never call into arbitrary code.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from contextvars import ContextVar, Token
from types import MemberDescriptorType, ModuleType
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.errors import CodeNotFound, NotStorable

_recorded: dict[str, str] = {
    "holdfast.agents.tools.tool_results": "holdfast.agents.tool_results",
    "holdfast.engine.outside.records": "holdfast.engine.records",
    "holdfast.views.records": "holdfast.engine.records",
    "holdfast.engine.primitives.command": "holdfast.engine.command",
    "holdfast.engine.primitives.gates": "holdfast.engine.gates",
    "holdfast.operations.operation_files": "holdfast.operations.files",
    "holdfast.operations.operation_log": "holdfast.operations.journal",
    "holdfast.workspace.snapshots.file_diff": "holdfast.operations.diffing",
}
"""Module → the name under which its classes are recorded. Classes of ours keep the one that they had first:
another one would change the digests of arguments in old histories."""
_aliases: dict[str, list[str]] = {}
"""Recorded name → the modules that have its classes now: one that was divided since has several."""
for _actual, _name in _recorded.items():
    _aliases.setdefault(_name, []).append(_actual)
_recorded["__mp_main__"] = "__main__"  # the same module, in a process that `multiprocessing` has spawned

Alias = tuple[str, str]
_here: ContextVar[Alias | None] = ContextVar("holdfast_alias", default=None)


def alias_module(recorded: str, actual: str) -> None:
    """Classes of the module `actual` are recorded under `recorded`; where no run says otherwise
    (`enter_alias`), classes recorded so are looked for in the module that was named last.

    A script is `__main__` when it is started and has another name when a run is resumed; both ways its
    classes are written as `__main__:Name`, so that values and digests stay equal.
    """
    _aliases[recorded] = [actual]
    _recorded[actual] = recorded


def enter_alias(recorded: str, actual: str) -> Token[Alias | None]:
    """In this context, classes recorded under `recorded` are those of `actual`, and those of `actual` are
    recorded so: one process may continue with the runs of several scripts, and each was `__main__`."""
    return _here.set((recorded, actual))


def leave_alias(token: Token[Alias | None]) -> None:
    _here.reset(token)


def _modules_of(recorded: str) -> Sequence[str]:
    """The modules where classes recorded under that one are to be found, here and now."""
    alias = _here.get()
    if alias is not None and alias[0] == recorded:
        return alias[1:]
    return _aliases.get(recorded) or (recorded,)


def name_of(cls: type) -> str:
    """The name a class is recorded under; it is not checked that the name leads back to it."""
    module, alias = cls.__module__, _here.get()
    if alias is not None and alias[1] == module:
        return f"{alias[0]}:{cls.__qualname__}"
    return f"{_recorded.get(module, module)}:{cls.__qualname__}"


def find(name: str) -> type:
    """The class of that name; raises CodeNotFound where there is none."""
    module_name, _, qualname = name.partition(":")
    modules = _modules_of(module_name)
    for actual in modules:
        loaded = sys.modules.get(actual)
        found = None if loaded is None else _look(loaded, qualname)
        if found is None:
            try:
                module = importlib.import_module(actual)  # waits if another thread is loading it
            except Exception as error:
                why = f"importing {actual} failed with {type(error).__name__}: {error}"
                raise CodeNotFound(name, why) from error
            found = _look(module, qualname)
        if isinstance(found, type):
            return found
    raise CodeNotFound(name, f"the module {' or '.join(modules)} has no class {qualname}")


def _look(module: ModuleType, qualname: str) -> object:
    # The whole name first: pydantic calls a parametrised model `Box[a.b.C]`, and keeps it under that name.
    found: Any = vars(module).get(qualname)
    if found is None:
        found = module
        for part in qualname.split("."):
            found = getattr(found, part, None)
    return found


def findable_name(cls: type) -> str:
    """The name of a class that can be found again under it; raises NotStorable for any other class.

    It is looked up each time: a notebook cell that runs again replaces its classes.
    """
    own = f"{cls.__module__}:{cls.__qualname__}"
    if "<locals>" in own:
        raise NotStorable("", f"the class {own} is defined inside a function, so it cannot be found again")
    if _here.get() is None:
        # No run says which script is meant: it is the class's own, whose run will record it.
        module = sys.modules.get(cls.__module__)
        if module is not None and _look(module, cls.__qualname__) is cls:
            return name_of(cls)
    for name in (name_of(cls), own):
        try:
            if find(name) is cls:
                return name
        except CodeNotFound:
            continue
    raise NotStorable("", f"the class {own} cannot be found under its own name")


class Shape(NamedTuple):
    """How instances of one kind of class are taken apart and put together."""

    tag: str
    fits: Callable[[type], bool]
    apart: Callable[[Any], object]
    together: Callable[[type, Any], object]


# Enum members


def _is_enum(cls: type) -> bool:
    return issubclass(cls, enum.Enum)


def _enum_apart(member: enum.Enum) -> object:
    if isinstance(member, enum.Flag):
        return member._value_
    if type(member).__members__.get(member._name_) is not member:
        raise NotStorable("", f"{member!r} is no member of its enum")
    return member._name_


def _enum_together(cls: type[enum.Enum], part: Any) -> object:
    if issubclass(cls, enum.Flag):
        return cls(part)
    if part not in cls.__members__:
        raise CodeNotFound(name_of(cls), f"it has no member {part}")
    return cls.__members__[part]


# msgspec Structs


def _is_struct(cls: type) -> bool:
    return issubclass(cls, msgspec.Struct)


def _struct_apart(value: msgspec.Struct) -> object:
    parts = {}
    for name in value.__struct_fields__:
        try:
            parts[name] = getattr(value, name)
        except AttributeError:
            raise NotStorable("", f"its field {name} has no value") from None
    return parts | _state(value)


def _struct_together(cls: type[msgspec.Struct], parts: dict[str, Any]) -> object:
    fields = {name: parts.pop(name) for name in cls.__struct_fields__ if name in parts}
    try:
        value = cls(**fields)
    except TypeError as error:
        raise CodeNotFound(name_of(cls), f"its fields are not the stored ones: {error}") from error
    if hasattr(cls, "__post_init__"):
        # A Struct cannot be made without its hook; what the hook changed is restored as it was stored.
        for name, part in fields.items():
            msgspec.structs.force_setattr(value, name, part)
        getattr(value, "__dict__", {}).clear()
    _restore(value, parts)
    return value


# pydantic models; pydantic is never imported here: who has a model has imported it


def _is_model(cls: type) -> bool:
    pydantic = sys.modules.get("pydantic")
    base = getattr(pydantic, "BaseModel", None)
    return base is not None and issubclass(cls, base)


def _model_apart(value: Any) -> object:
    cls: type = type(value)
    parts: dict[str, Any] = {
        "fields": _without_cached(cls, value.__dict__),
        "set": sorted(value.__pydantic_fields_set__),
    }
    if value.__pydantic_extra__:
        parts["extra"] = dict(value.__pydantic_extra__)
    undefined = sys.modules["pydantic_core"].PydanticUndefined
    private = {
        name: part for name, part in (value.__pydantic_private__ or {}).items() if part is not undefined
    }
    if private:
        parts["private"] = private
    unset = [name for name in _model_defaults(cls) if name not in parts["fields"] and name not in private]
    if unset:
        parts["unset"] = unset
    return parts


@functools.lru_cache(maxsize=512)
def _model_defaults(cls: Any) -> tuple[str, ...]:
    """The fields and private attributes that a new instance has even if they are not given."""
    fields = [name for name, field in cls.model_fields.items() if not field.is_required()]
    undefined = sys.modules["pydantic_core"].PydanticUndefined
    private = [
        name
        for name, attribute in cls.__private_attributes__.items()
        if attribute.default is not undefined or attribute.default_factory is not None
    ]
    return (*fields, *private)


def _model_together(cls: Any, parts: dict[str, Any]) -> object:
    fields, private = parts["fields"], parts.get("private", {})
    added = set(_model_defaults(cls)).difference(fields, private, parts.get("unset", ()))
    if added:
        try:
            made = cls.model_construct(**fields)
        except Exception as error:
            raise CodeNotFound(name_of(cls), f"its fields are not the stored ones: {error}") from error
        fields = {name: part for name, part in vars(made).items() if name in added or name in fields} | fields
        new = made.__pydantic_private__ or {}
        private = {name: part for name, part in new.items() if name in added} | private
    value = cls.__new__(cls)
    object.__setattr__(value, "__dict__", fields)
    object.__setattr__(value, "__pydantic_fields_set__", set(parts["set"]))
    if not cls.__pydantic_root_model__:
        no_extra: object = {} if cls.model_config.get("extra") == "allow" else None
        no_private: object = {} if cls.__private_attributes__ else None
        object.__setattr__(value, "__pydantic_extra__", parts.get("extra", no_extra))
        object.__setattr__(value, "__pydantic_private__", private or no_private)
    return value


# Named tuples


def _is_namedtuple(cls: type) -> bool:
    fields = getattr(cls, "_fields", None)
    return (
        issubclass(cls, tuple)
        and isinstance(fields, tuple)
        and isinstance(getattr(cls, "_field_defaults", None), dict)
    )


def _namedtuple_apart(value: Any) -> object:
    if getattr(value, "__dict__", None):
        raise NotStorable("", "it is a named tuple with attributes beside its fields")
    if len(value) != len(value._fields):
        raise NotStorable("", "it is a named tuple whose length is not that of its fields")
    return dict(zip(value._fields, value, strict=True))


def _namedtuple_together(cls: Any, parts: dict[str, Any]) -> object:
    whole = cls._field_defaults | parts
    if whole.keys() != set(cls._fields):
        raise CodeNotFound(name_of(cls), f"its fields are {cls._fields}, the stored ones {tuple(parts)}")
    return tuple.__new__(cls, [whole[name] for name in cls._fields])


# Dataclasses

_HEAP_TYPE: Final = 1 << 9


def _is_dataclass(cls: type) -> bool:
    if not dataclasses.is_dataclass(cls):
        return False
    # One that extends a built-in (dict, Exception) has content that its attributes do not show.
    return all(base is object or base.__flags__ & _HEAP_TYPE for base in cls.__mro__)


def _dataclass_apart(value: object) -> object:
    return _state(value)


def unset_fields(cls: Any, parts: Mapping[str, Any]) -> list[str]:
    """The fields that an instance of a dataclass lacks and that decoding would otherwise fill in or ask for.

    A field whose default is an attribute of the class needs no mention: an instance without it has the
    default, also if the class got the field after the instance was stored.
    """
    return [
        field.name
        for field in dataclasses.fields(cls)
        if field.name not in parts and not _has_class_default(cls, field) and _is_expected(cls, field)
    ]


def _dataclass_together(cls: Any, parts: dict[str, Any], unset: Container[str] = ()) -> object:
    value = object.__new__(cls)
    for field in dataclasses.fields(cls):
        if field.name in parts or field.name in unset or _has_class_default(cls, field):
            continue
        if _has_default(field):
            parts[field.name] = _default(field)
        elif _is_expected(cls, field):
            raise CodeNotFound(name_of(cls), f"the stored value has no field {field.name}")
    _restore(value, parts)
    return value


def with_defaults(cls: Any, parts: dict[str, Any]) -> dict[str, Any]:
    """The parts of a dataclass with the default of each field that it lacks: an older holdfast
    decoded every dataclass so, and digested that in a resumed run."""
    return parts | {
        field.name: _default(field)
        for field in dataclasses.fields(cls)
        if field.name not in parts and _has_default(field)
    }


def _has_class_default(cls: type, field: dataclasses.Field[Any]) -> bool:
    """Whether an instance that lacks the field reads its default from the class; slots cannot."""
    return field.default is not dataclasses.MISSING and field.name not in slots_of(cls)


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _is_expected(cls: Any, field: dataclasses.Field[Any]) -> bool:
    """Whether every instance that the generated constructor makes has the field."""
    return _has_default(field) or (field.init and cls.__dataclass_params__.init)


# State that lives in slots and in __dict__


@functools.lru_cache(maxsize=512)
def slots_of(cls: type) -> Mapping[str, MemberDescriptorType]:
    """The slots that Python code declared; those of C types are reached through their fields. A slot that a
    derived class hides behind an attribute of that name is none."""
    seen: dict[str, object] = {}
    for base in cls.__mro__:
        for name, member in vars(base).items():
            own = "__slots__" in vars(base) and not issubclass(base, msgspec.Struct)
            seen.setdefault(name, member if own else None)
    return {name: member for name, member in seen.items() if isinstance(member, MemberDescriptorType)}


def _without_cached(cls: type, state: Mapping[str, Any]) -> dict[str, Any]:
    """A cached property is made again when it is asked for; what it holds need not be storable."""
    if not all(type(name) is str and name.isprintable() for name in state):
        raise NotStorable("", "it has an attribute whose name is not text")
    return {
        name: part
        for name, part in state.items()
        if not isinstance(getattr(cls, name, None), functools.cached_property)
    }


def _state(value: object) -> dict[str, Any]:
    kind: type = type(value)
    state = _without_cached(kind, getattr(value, "__dict__", {}))
    for name, slot in slots_of(kind).items():
        try:
            # Not getattr: for a slot that is not set, `__getattr__` of the class would run.
            state[name] = slot.__get__(value, kind)
        except AttributeError:
            continue
    return state


def _restore(value: object, state: dict[str, Any]) -> None:
    kind: type = type(value)
    slots = slots_of(kind)
    own = getattr(value, "__dict__", None)
    for name, part in state.items():
        if name in slots:
            slots[name].__set__(value, part)
        elif own is not None:
            # Not setattr: a property of that name would run code.
            own[name] = part
        else:
            raise CodeNotFound(name_of(type(value)), f"it has no field {name} any more")


SHAPES: Final = (
    Shape("$enum", _is_enum, _enum_apart, _enum_together),
    Shape("$struct", _is_struct, _struct_apart, _struct_together),
    Shape("$model", _is_model, _model_apart, _model_together),
    Shape("$namedtuple", _is_namedtuple, _namedtuple_apart, _namedtuple_together),
    Shape("$dataclass", _is_dataclass, _dataclass_apart, _dataclass_together),
)
_BY_TAG: Final = {shape.tag: shape for shape in SHAPES}


@functools.lru_cache(maxsize=512)
def shape_of(cls: type) -> Shape | None:
    """How instances of a class are stored; None where they are not."""
    return next((shape for shape in SHAPES if shape.fits(cls)), None)


def put_together(tag: str, name: str, parts: Any, unset: Container[str] = ()) -> object:
    """The instance that was taken apart into `parts`; CodeNotFound if its class is another kind now.

    unset  fields that the instance of a dataclass lacked
    """
    cls = find(name)
    if shape_of(cls) is not _BY_TAG[tag]:
        raise CodeNotFound(name, f"it is not a {tag[1:]} any more")
    if tag == "$dataclass":
        return _dataclass_together(cls, parts, unset)
    return _BY_TAG[tag].together(cls, parts)
