"""Arguments of steps and workflows: bound to the signature, digested, shown.

The digest is what tells a step apart from another call of it; parameters left at their defaults do
not count, so that a new parameter with a default does not break runs in flight.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.errors import BadArguments, NotStorable
from holdfast.kernel import codec
from holdfast.kernel.events import NOTHING

INLINE_BYTES = 2048
PREVIEW_CHARS = 200

_IGNORED: Any = object()
_EMPTY = inspect.Parameter.empty
_PLAIN = inspect.Parameter.POSITIONAL_OR_KEYWORD


class Digested(msgspec.Struct, frozen=True, gc=False):
    digest: str
    args: msgspec.Raw
    preview: str
    size: int


class Signature:
    """The parameters of a function, with a short way for the plain ones."""

    def __init__(self, fn: Callable[..., Any], what: str, ignore: Sequence[str] = ()) -> None:
        self._what = what
        self._signature = inspect.signature(fn)
        parameters = self._signature.parameters
        unknown = [name for name in ignore if name not in parameters]
        if unknown:
            raise BadArguments(f"{what} has no parameter {unknown[0]!r} to ignore")
        self._names = tuple(parameters)
        self._special = tuple(
            (name, _IGNORED if name in ignore else p.default)
            for name, p in parameters.items()
            if name in ignore or p.default is not _EMPTY
        )
        """Parameters that may not count: (name, its default, or that it is ignored)."""
        self._plain = all(p.kind is _PLAIN for p in parameters.values())
        self._required = sum(1 for p in parameters.values() if p.default is _EMPTY)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Name → value of what was passed. Raises BadArguments if it does not fit."""
        try:
            return dict(self._signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise BadArguments(f"{self._what}{self._signature}: {error}") from None

    def digest(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Digested:
        """What the log keeps of a call: a digest always, the values if they are small."""
        if kwargs or not self._plain or not self._required <= len(args) <= len(self._names):
            counted = self.bind(args, kwargs)
        else:
            counted = dict(zip(self._names, args, strict=False))
        for name, default in self._special:
            if name in counted and (default is _IGNORED or _same(counted[name], default)):
                del counted[name]
        try:
            data = codec.canonical(counted, self._what)
        except NotStorable as error:
            raise self._blame(error, counted) from None
        digest = hashlib.sha256(data).hexdigest()[:32]
        if len(data) <= INLINE_BYTES:
            return Digested(digest, msgspec.Raw(data), "", 0)
        return Digested(digest, NOTHING, codec.preview(data, PREVIEW_CHARS), len(data))

    def _blame(self, error: NotStorable, counted: Mapping[str, Any]) -> NotStorable:
        name = next((name for name in counted if error.path.startswith(f"$.{name}")), "")
        hint = f'; if it does not matter, @step(ignore=("{name}",))' if name else ""
        return NotStorable(error.path, f"{error.why}{hint}", f"the argument of {self._what}")


def _same(value: Any, default: Any) -> bool:
    if value is default:
        return True
    try:
        return type(value) is type(default) and bool(value == default)
    except Exception:
        return False
