"""Stand-ins for objects that cannot be stored: the name of the class, its text, and plain attributes.

Errors of SDKs carry the response that they came from, and workflows ask that for its status or a header.
Such an object is not made again: its class may hold sockets and locks, and no class is trusted to be built
from data. In its place there is one of these, live and in every replay alike.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from holdfast.errors import NotStorable
from holdfast.kernel import classes

_TEXT_LIMIT: Final = 16_000
_DEPTH: Final = 6
_HEADERS: Final = 100

_ATTRIBUTES: Final = ("status_code", "status", "reason_phrase", "reason", "code", "method", "url")
"""Names that HTTP clients use. Reading them does no I/O in any of these clients."""
_PRIVATE_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie"})

Encode = Callable[[object], object]


@dataclasses.dataclass
class KeptObject:
    """In place of an object that cannot be stored, with those of its attributes that are known to be data.
    Every other attribute is missing."""

    kept_type: str
    kept_text: str
    kept_attributes: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "kept_attributes" not in self.__dict__:
            raise AttributeError(name)
        kept = self.kept_attributes
        if name in kept:
            return kept[name]
        if name == "content" and "text" in kept:
            return kept["text"].encode()
        raise AttributeError(
            f"this is what is left of an object of {self.kept_type}, which cannot be stored: it has "
            f"{', '.join(kept) or 'no attributes'}, and no {name}"
        )

    def json(self) -> Any:
        """The body of a response."""
        return json.loads(self.text)

    def __str__(self) -> str:
        return self.kept_text

    def __repr__(self) -> str:
        return f"<left of {self.kept_type}: {self.kept_text}>"


@dataclasses.dataclass
class KeptHeaders(Mapping[str, str]):
    """The headers of a response. Names are case-insensitive."""

    kept: dict[str, str]

    def __getitem__(self, name: str) -> str:
        return self.kept[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kept)

    def __len__(self) -> int:
        return len(self.kept)


def reduce(value: Any, encode: Encode, depth: int = _DEPTH) -> Any:
    """The value with a stand-in for each part of it that `encode` refuses."""
    try:
        encode(value)
        return value
    except Exception:
        pass
    if depth and type(value) in (list, tuple):
        return type(value)(reduce(one, encode, depth - 1) for one in value)
    if depth and type(value) is dict and all(type(key) is str for key in value):
        return {key: reduce(one, encode, depth - 1) for key, one in value.items()}
    if depth and isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple.__new__(type(value), [reduce(one, encode, depth - 1) for one in value])
    return _headers_of(value) or _object_of(value, encode)


def _object_of(value: Any, encode: Encode) -> KeptObject:
    kept: dict[str, Any] = {}
    for name in _ATTRIBUTES:
        part = _read(value, name)
        if part is None or callable(part):
            continue
        try:
            encode(part)
        except NotStorable:
            part = _text(part) if name == "url" else None
        except Exception:
            part = None
        if part is not None:
            kept[name] = part
    if "status_code" in kept or "status" in kept:  # of a response; a request's hold keys
        headers = _headers_of(_read(value, "headers"))
        if headers is not None:
            kept["headers"] = headers
        body = _read(value, "_content")  # `text` and `content` may wait for the network
        if isinstance(body, bytes) and len(body) <= _TEXT_LIMIT:
            kept["text"] = body.decode("utf-8", "replace")
    return KeptObject(classes.name_of(type(value)), _text(value), kept)


def _headers_of(value: Any) -> KeptHeaders | None:
    items = _read(value, "items")
    if type(value) is dict or not callable(items) or not callable(_read(value, "get")):
        return None
    try:
        found: Iterable[tuple[Any, Any]] = list(items())
        headers = {name.lower(): text for name, text in found if isinstance(text, str)}
    except Exception:
        return None
    kept = [item for item in headers.items() if item[0] not in _PRIVATE_HEADERS]
    return KeptHeaders(dict(kept[:_HEADERS]))


def _read(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def _text(value: Any) -> str:
    try:
        return str(value)[:_TEXT_LIMIT].encode("utf-8", "backslashreplace").decode()
    except Exception as error:
        return f"<its text cannot be had: {type(error).__name__}>"
