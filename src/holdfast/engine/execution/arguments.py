"""Arguments of steps and workflows: bound to the signature, digested, shown, copied.

The digest is what tells a step apart from another call of it. It counts every parameter, with the value that
the function gets: a default that changes is another argument. A parameter that was added after a call was
recorded is not in its digest; at its default value it is accepted (`older`).

A body gets copies of what it could change. Its changes would be there after a live call and missing after a
replayed one, because a replay does not run it.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import combinations
from types import NoneType
from typing import Any

import msgspec

from holdfast.errors import ArgumentChanged, BadArguments, NotStorable
from holdfast.kernel import codec
from holdfast.kernel.events import NOTHING

INLINE_BYTES = 2048
PREVIEW_CHARS = 200

UNCHANGEABLE = frozenset({str, int, float, bool, NoneType, bytes, complex, frozenset, date, datetime})
_FREE = 6
"""At most this many parameters at their defaults are tried in every combination."""
_EMPTY = inspect.Parameter.empty
_PLAIN = inspect.Parameter.POSITIONAL_OR_KEYWORD


class Digested(msgspec.Struct, frozen=True, gc=False):
    digest: str
    args: msgspec.Raw
    preview: str
    size: int


class Signature:
    """The parameters of a function, with a short way for the plain ones."""

    def __init__(self, fn: Callable[..., Any], what: str, ignore: Sequence[str] | None = None) -> None:
        """`ignore` is None for a function whose parameters all count."""
        self._what = what
        self._may_ignore = ignore is not None
        ignore = ignore or ()
        self._signature = inspect.signature(fn)
        parameters = self._signature.parameters
        unknown = [name for name in ignore if name not in parameters]
        if unknown:
            raise BadArguments(f"{what} has no parameter {unknown[0]!r} to ignore")
        self._names = tuple(parameters)
        self._ignored = frozenset(ignore)
        defaults = {
            name: p.default
            for name, p in parameters.items()
            if p.default is not _EMPTY and name not in self._ignored
        }
        self._defaults = {name: value for name, value in defaults.items() if _is_storable(value)}
        self._uncounted = {name: value for name, value in defaults.items() if name not in self._defaults}
        """Defaults that cannot be stored, a sentinel or a client: they do not count."""
        self._plain = all(p.kind is _PLAIN for p in parameters.values())
        self._required = sum(1 for p in parameters.values() if p.default is _EMPTY)
        self._all_count = self._plain and not self._ignored and not self._uncounted
        self._length = len(self._names)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Name → value of what was passed. Raises BadArguments if it does not fit."""
        try:
            return dict(self._signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise BadArguments(f"{self._what}{self._signature}: {error}") from None

    def digest(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Digested:
        """The arguments as the log keeps them: a digest always, the values if they are small."""
        if self._all_count and not kwargs and len(args) == self._length:  # nearly every step
            counted = dict(zip(self._names, args, strict=True))
        else:
            counted = self._counted(args, kwargs)
        try:
            data = codec.canonical(counted, self._what)
        except NotStorable as error:
            raise self._blame(error, counted) from None
        digest = hashlib.sha256(data).hexdigest()[:32]
        if len(data) <= INLINE_BYTES:
            return Digested(digest, msgspec.Raw(data), "", 0)
        return Digested(digest, NOTHING, codec.preview(data, PREVIEW_CHARS), len(data))

    def older(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[str]:
        """The digests that this call had before some of its parameters were there: those at their defaults.
        An older holdfast counted no parameter at its default, and in a resumed run it counted the defaults of
        fields that were not set."""
        counted = self._counted(args, kwargs)
        for form in codec.canonical_forms(counted, self._what):
            yield _hash(form)
        free = [name for name, value in self._defaults.items() if _same(counted.get(name), value)]
        for count in range(len(free), 0, -1):
            for names in combinations(free, count) if len(free) <= _FREE else (free[-count:],):
                left = {name: value for name, value in counted.items() if name not in names}
                for form in codec.canonical_forms(left, self._what):
                    yield _hash(form)

    def _counted(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if kwargs or not self._plain or not self._required <= len(args) <= len(self._names):
            counted = self.bind(args, kwargs)
        else:
            counted = dict(zip(self._names, args, strict=False))
        if self._defaults:
            counted = self._defaults | counted
        for name in self._ignored:
            counted.pop(name, None)
        for name, default in self._uncounted.items():
            if name in counted and _same(counted[name], default):
                del counted[name]
        return counted

    def own(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> OwnArguments:
        """Copies of what a body could change, but for what is ignored."""
        names = self._names[: len(args)] + self._names[-1:] * (len(args) - len(self._names))
        own = OwnArguments(self._what)
        own.args = [own.copy(name, arg, name in self._ignored) for name, arg in zip(names, args, strict=True)]
        own.kwargs = {name: own.copy(name, arg, name in self._ignored) for name, arg in kwargs.items()}
        return own

    def _blame(self, error: NotStorable, counted: Mapping[str, Any]) -> NotStorable:
        name = next((name for name in counted if error.path.startswith(f"$.{name}")), "")
        hint = f'; if it does not matter, @step(ignore=("{name}",))' if name and self._may_ignore else ""
        return NotStorable(error.path, f"{error.why}{hint}", f"the argument of {self._what}")


class OwnArguments:
    """The arguments of one attempt."""

    __slots__ = ("_copies", "_what", "args", "kwargs")

    def __init__(self, what: str) -> None:
        self._what = what
        self._copies: list[tuple[str, Any, bytes]] = []
        self.args: Sequence[Any] = ()
        self.kwargs: dict[str, Any] = {}

    def copy(self, name: str, value: Any, ignored: bool = False) -> Any:
        if ignored or is_unchangeable(value):
            return value
        try:
            data = codec.canonical(value)
        except NotStorable:
            return value  # a default that does not count
        copied = _copy(value)
        self._copies.append((name, copied, data))
        return copied

    def warn_of_changes(self) -> None:
        """Warn of each copy that the body has changed: its changes are lost."""
        for name, copied, data in self._copies:
            if _is_changed(copied, data):
                warnings.warn(
                    ArgumentChanged(
                        f"{self._what} changed its argument {name}, which is a copy: the change is lost. "
                        "Return the new value instead"
                    ),
                    stacklevel=2,
                )


def own_copies(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """Copies of the arguments of a run, so that neither it nor its caller sees changes of the other."""
    own = [arg if is_unchangeable(arg) else _copy(arg) for arg in args]
    return own, {name: arg if is_unchangeable(arg) else _copy(arg) for name, arg in kwargs.items()}


def is_unchangeable(value: Any) -> bool:
    kind = type(value)
    return kind in UNCHANGEABLE or (kind is tuple and all(map(is_unchangeable, value)))


def _copy(value: Any) -> Any:
    """Copy plain data through its JSON, which is several times as fast; objects keep their class."""
    try:
        data = codec.encode(value)
    except NotStorable:  # a Secret in it counts by its name, and is never stored
        if type(value) is dict:
            return {key: _copy(one) for key, one in value.items()}
        return type(value)(map(_copy, value)) if type(value) in (list, tuple) else value
    if b'"$' not in data:
        return codec.decode(data)
    try:
        return copy.deepcopy(value)
    except Exception:  # a class with its own idea of copies
        return codec.decode(data)


def _is_changed(copied: Any, data: bytes) -> bool:
    try:
        return codec.canonical(copied) != data
    except NotStorable:
        return True


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _is_storable(value: Any) -> bool:
    try:
        codec.canonical(value)
    except NotStorable:
        return False
    return True


def _same(value: Any, default: Any) -> bool:
    if value is default:
        return True
    try:
        return type(value) is type(default) and bool(value == default)
    except Exception:
        return False
