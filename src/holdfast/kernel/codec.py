"""Values as JSON, and back: equal and of the same type, or refused.

What JSON has stands for itself: exact `str`, `int` up to 64 bits, finite `float`, `bool`, `None`, `list`,
and `dict` with text keys, in its order. Everything else is an object with one key that starts with `$`:
`{"$tuple": [1, 2]}`. A dict with such a key of its own is written as `{"$dict": pairs}`, so no value can
pass for a tag. Never pickle: a class is found by its name and used only if it is of a known shape
(`holdfast.kernel.classes`).
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from types import NoneType
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.errors import CodeNotFound, NotStorable
from holdfast.kernel import classes, scalars
from holdfast.kernel.classes import alias_module
from holdfast.kernel.encoded import preview

__all__ = [
    "MAX_DEPTH",
    "alias_module",
    "canonical",
    "canonical_forms",
    "decode",
    "digest",
    "encode",
    "older_encodings",
    "preview",
]

MAX_DEPTH: Final = 200
"""A value nested deeper is refused; what was stored can then be read on any ordinary stack."""

_PATH_LIMIT: Final = 160
_MIN_INT: Final = -(2**63)
_MAX_INT: Final = 2**64 - 1
_INFINITY: Final = float("inf")


class _Form(NamedTuple):
    """The purpose for which a value is lowered.

    digesting  a digest; otherwise the log
    unset      names the fields that an instance lacks
    filled     each field that a dataclass lacks has its default
    """

    digesting: bool
    unset: bool = False
    filled: bool = False


_STORED: Final = _Form(digesting=False, unset=True)
_DIGESTED: Final = _Form(digesting=True)

_write: Final = msgspec.json.Encoder().encode
_write_sorted: Final = msgspec.json.Encoder(order="deterministic").encode
_read: Final = msgspec.json.Decoder().decode


def encode(value: object, where: str = "") -> bytes:
    """The value as compact JSON; raises NotStorable, naming the path inside it, if it cannot come back."""
    try:
        if _is_plain(value, MAX_DEPTH):
            data = _write(value)
            if b'"$' not in data:
                return data
    except (RecursionError, UnicodeEncodeError):
        pass
    return _write(_lowered(value, where, _STORED))


def decode(data: bytes | msgspec.Raw | memoryview | str) -> Any:
    """The value that was encoded; raises CodeNotFound if a class it needs is gone or of another shape."""
    if isinstance(data, str):
        data = data.encode()
    elif type(data) is not bytes:
        data = bytes(data)
    node = _read(data)
    return _lift(node) if b'"$' in data else node


def canonical(value: object, where: str = "") -> bytes:
    """JSON that is equal for equal values of equal types, whatever the order of their dicts and sets.

    An object with a method `__holdfast_digest__` counts as the text it returns: a secret by its name. A
    decoded value has the same canonical form as the one that was encoded.
    """
    try:
        if _is_plain(value, MAX_DEPTH):
            data = _write_sorted(value)
            if b'"$' not in data:
                return data
    except (RecursionError, UnicodeEncodeError):
        pass
    return _write_sorted(_lowered(value, where, _DIGESTED))


def canonical_forms(value: object, where: str = "") -> Iterator[bytes]:
    """The canonical form, and the one that an older holdfast had of the same value in a resumed run."""
    data = canonical(value, where)
    yield data
    if b'"$dataclass"' in data:
        yield _write_sorted(_lowered(value, where, _DIGESTED._replace(filled=True)))


def older_encodings(value: object) -> Iterator[bytes]:
    """The value as an older holdfast decoded it, in its first execution and in a resumed run."""
    if b'"$' in encode(value):
        older = _STORED._replace(unset=False)
        yield _write(_lowered(value, "", older))
        yield _write(_lowered(value, "", older._replace(filled=True)))


def digest(value: object, where: str = "") -> bytes:
    """16 bytes of SHA-256 over the canonical form."""
    return hashlib.sha256(canonical(value, where)).digest()[:16]


# Out


def _is_plain(value: Any, depth: int) -> bool:
    """Whether the value is what JSON has, tag-like keys aside, which show in the bytes."""
    kind = type(value)
    if kind is dict:
        for key in value:
            if type(key) is not str:
                return False
        items: Iterable[Any] = value.values()
    elif kind is list:
        items = value
    else:
        items = (value,)
        if kind not in _ATOMS:
            return False
    if not depth:
        return False
    for item in items:
        kind = type(item)
        if kind is str or kind is bool or kind is NoneType:
            continue
        if kind is int:
            if not _MIN_INT <= item <= _MAX_INT:
                return False
        elif kind is float:
            if not -_INFINITY < item < _INFINITY:
                return False
        elif (kind is not dict and kind is not list) or not _is_plain(item, depth - 1):
            return False
    return True


_ATOMS: Final = frozenset({str, int, float, bool, NoneType})


def _lowered(value: object, where: str, form: _Form) -> object:
    try:
        return _lower(value, MAX_DEPTH, form)
    except NotStorable as error:
        path = f"${error.path}"
        if len(path) > _PATH_LIMIT:
            path = f"{path[: _PATH_LIMIT // 2]}…{path[-_PATH_LIMIT // 2 :]}"
        raise NotStorable(path, error.why, where) from None
    except RecursionError:
        raise NotStorable("$", "it is nested deeper than the stack allows", where) from None


def _lower(value: Any, depth: int, form: _Form) -> object:
    """The value in what JSON has. A NotStorable collects its path on the way up, so success pays nothing."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() or _is_utf8(value) else scalars.str_out(value)
    if kind is bool or value is None:
        return value
    if kind is int:
        return value if _MIN_INT <= value <= _MAX_INT else scalars.int_out(value)
    if kind is float:
        return value if -_INFINITY < value < _INFINITY else scalars.float_out(value)
    scalar = scalars.TO_JSON.get(kind)
    if scalar is not None:
        return scalar(value)
    if not depth:
        raise NotStorable("", f"it is nested deeper than {MAX_DEPTH} levels, or contains itself")
    if kind is dict:
        return _lower_dict(value, depth - 1, form)
    if kind is list:
        return _lower_items(value, depth - 1, form)
    container = _CONTAINERS.get(kind)
    if container is not None:
        return container(value, depth - 1, form)
    return _lower_instance(value, depth - 1, form)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _lower_items(values: Iterable[Any], depth: int, form: _Form) -> list[object]:
    items: list[object] = []
    try:
        for value in values:
            items.append(_lower(value, depth, form))
    except NotStorable as error:
        error.path = f"[{len(items)}]{error.path}"
        raise
    return items


def _lower_dict(value: dict[Any, Any], depth: int, form: _Form) -> object:
    for key in value:
        if type(key) is not str or key[:1] == "$" or not (key.isascii() or _is_utf8(key)):
            return {"$dict": _lower_pairs(value, depth, form, ordered=not form.digesting)}
    return _lower_fields(value, depth, form)


def _lower_fields(value: dict[str, Any], depth: int, form: _Form) -> dict[str, object]:
    fields: dict[str, object] = {}
    key = ""
    try:
        for key, item in value.items():
            fields[key] = _lower(item, depth, form)
    except NotStorable as error:
        error.path = (f".{key}" if key.isidentifier() else f"[{_short(key)}]") + error.path
        raise
    return fields


def _lower_pairs(value: dict[Any, Any], depth: int, form: _Form, *, ordered: bool) -> list[object]:
    pairs: list[object] = []
    key = None
    try:
        for key, item in value.items():
            pairs.append([_lower(key, depth, form), _lower(item, depth, form)])
    except NotStorable as error:
        error.path = f"[{_short(key)}]{error.path}"
        raise
    return pairs if ordered else sorted(pairs, key=_write_sorted)


def _lower_set(value: Iterable[Any], depth: int, form: _Form) -> list[object]:
    try:
        return sorted((_lower(item, depth, form) for item in value), key=_write_sorted)
    except NotStorable as error:
        error.path = f"{{}}{error.path}"
        raise


def _lower_defaultdict(value: defaultdict[Any, Any], depth: int, form: _Form) -> object:
    factory = value.default_factory
    name = getattr(factory, "__name__", "")
    if factory is not None and _FACTORIES.get(name) is not factory:
        raise NotStorable("", f"it is a defaultdict whose factory {factory!r} cannot be written down")
    return {"$defaultdict": [name, _lower_pairs(value, depth, form, ordered=not form.digesting)]}


def _lower_instance(value: Any, depth: int, form: _Form) -> object:
    kind: type = type(value)
    if hasattr(kind, "__holdfast_digest__"):
        if not form.digesting:
            name = value.__holdfast_digest__()
            raise NotStorable(
                "", f"a secret is never stored ({name}); pass its name, and make it where it is used"
            )
        return {"$secret": value.__holdfast_digest__()}
    late = scalars.late(kind)
    if late is not None:
        return late(value)
    shape = classes.shape_of(kind)
    if shape is None:
        raise NotStorable("", _reason(kind))
    name = classes.findable_name(kind)
    parts = shape.apart(value)
    if shape.tag == "$model":
        return {shape.tag: [name, _lower_model(parts, depth, form)]}
    if shape.tag == "$dataclass":
        return {shape.tag: [name, *_lower_dataclass(kind, parts, depth, form)]}
    if type(parts) is dict:
        return {shape.tag: [name, _lower_fields(parts, depth, form)]}
    return {shape.tag: [name, _lower(parts, depth, form)]}


def _lower_dataclass(kind: type, parts: Any, depth: int, form: _Form) -> list[object]:
    """The fields, and the names of those that must stay unset. The digest sees from the fields alone which
    ones are unset."""
    if form.filled:
        parts = classes.with_defaults(kind, parts)
    fields = _lower_fields(parts, depth, form)
    unset = classes.unset_fields(kind, parts) if form.unset else []
    return [fields, unset] if unset else [fields]


def _lower_model(parts: Any, depth: int, form: _Form) -> object:
    """The parts of a model by group. Which fields were set explicitly makes no difference to equality, and
    which ones are unset shows in the fields."""
    return {
        group: _lower(part, depth, form)
        for group, part in parts.items()
        if not (group == "set" and form.digesting) and not (group == "unset" and not form.unset)
    }


def _reason(kind: type) -> str:
    name = f"{kind.__module__}.{kind.__qualname__}"
    bases: tuple[type, ...] = (*_CONTAINERS, list, dict, str, int, float, *scalars.TO_JSON)
    for base in bases:
        if issubclass(kind, base):
            return f"{name} extends {base.__qualname__} and would come back as another type; convert it first"
    return f"{name} is not data; use plain values, a dataclass, a named tuple, an enum, a Struct or a model"


def _short(key: object) -> str:
    try:
        text = repr(key)
    except Exception:
        text = type(key).__qualname__
    return text if len(text) <= 40 else f"{text[:39]}…"


_Lower = Callable[[Any, int, _Form], object]
_CONTAINERS: Final[dict[type, _Lower]] = {
    tuple: lambda value, depth, form: {"$tuple": _lower_items(value, depth, form)},
    set: lambda value, depth, form: {"$set": _lower_set(value, depth, form)},
    frozenset: lambda value, depth, form: {"$frozenset": _lower_set(value, depth, form)},
    range: lambda value, depth, form: {
        "$range": _lower_items((value.start, value.stop, value.step), depth, form)
    },
    deque: lambda value, depth, form: {"$deque": [value.maxlen, _lower_items(value, depth, form)]},
    OrderedDict: lambda value, depth, form: {"$ordered": _lower_pairs(value, depth, form, ordered=True)},
    Counter: lambda value, depth, form: {
        "$counter": _lower_pairs(value, depth, form, ordered=not form.digesting)
    },
    defaultdict: _lower_defaultdict,
}

# In


def _lift(node: Any) -> Any:
    """Puts values in the place of their tags, in the tree that was just read and has no other user."""
    kind = type(node)
    if kind is list:
        for index, item in enumerate(node):
            if type(item) is dict or type(item) is list:
                node[index] = _lift(item)
    elif kind is dict:
        if len(node) == 1:
            ((tag, payload),) = node.items()
            if tag[:1] == "$":
                return _untag(tag, payload)
        for key, item in node.items():
            if type(item) is dict or type(item) is list:
                node[key] = _lift(item)
    return node


def _untag(tag: str, payload: Any) -> object:
    scalar = scalars.FROM_JSON.get(tag)
    if scalar is not None:
        return scalar(payload)
    container = _LIFTS.get(tag)
    if container is not None:
        return container(_lift(payload))
    if tag in _INSTANCES:
        name, parts, *unset = payload
        if tag == "$model":
            return classes.put_together(tag, name, {group: _lift(part) for group, part in parts.items()})
        if type(parts) is dict and tag != "$enum":
            parts = {key: _lift(part) for key, part in parts.items()}
        else:
            parts = _lift(parts)
        return classes.put_together(tag, name, parts, *unset)
    raise CodeNotFound(tag, "this holdfast does not know that kind of value; a newer one may have written it")


def _lift_defaultdict(parts: list[Any]) -> object:
    name, pairs = parts
    return defaultdict(_FACTORIES[name] if name else None, pairs)


_FACTORIES: Final[dict[str, Callable[[], Any]]] = {
    factory.__name__: factory for factory in (list, dict, set, int, str, float, bool, tuple)
}
_LIFTS: Final[dict[str, Callable[[Any], object]]] = {
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$dict": dict,
    "$range": lambda parts: range(*parts),
    "$deque": lambda parts: deque(parts[1], parts[0]),
    "$ordered": OrderedDict,
    "$counter": lambda pairs: Counter(dict(pairs)),
    "$defaultdict": _lift_defaultdict,
}
_INSTANCES: Final = frozenset(shape.tag for shape in classes.SHAPES)
