"""The parameters of a workflow, as far as the command line must know them."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from holdfast.errors import BadInput

_LISTS = (list, tuple, set, frozenset, Sequence, Iterable)
_PLAIN = (*_LISTS, dict, Mapping, int, float, bool, str, NoneType, None, Any, ...)


class Parameters:
    """Which values the parameters of a function take: those annotated `str`, also with `None`, take the text
    as it is; all others take JSON, or else text."""

    def __init__(self, function: Any) -> None:
        signature = inspect.signature(function)
        try:
            self._hints = get_type_hints(function)
        except Exception:  # a name that only the type checker knows: the annotation's own text decides
            self._hints = {name: one.annotation for name, one in signature.parameters.items()}
        self._positional: list[str] = []
        self._rest = ""
        self._keywords = ""
        for name, one in signature.parameters.items():
            if one.kind is inspect.Parameter.VAR_POSITIONAL:
                self._rest = name
            elif one.kind is inspect.Parameter.VAR_KEYWORD:
                self._keywords = name
            elif one.kind is not inspect.Parameter.KEYWORD_ONLY:
                self._positional.append(name)
        self._known = frozenset(signature.parameters)

    def value_at(self, place: int, text: str) -> Any:
        """The positional argument that a word means. Raises BadInput if it does not fit the annotation."""
        return self._value(self._positional[place] if place < len(self._positional) else self._rest, text)

    def value_as(self, name: str, text: str) -> Any:
        """The same for a named argument."""
        return self._value(name if name in self._known else self._keywords, text)

    def _value(self, name: str, text: str) -> Any:
        hint = self._hints.get(name, Any)
        if _is_text(hint):
            return text
        found = value(text)
        if _is_plain(hint) and not _fits(found, hint):
            raise BadInput(f"{name} takes {_named(hint)}, and {text!r} is none{_advice(hint, found)}")
        return found


def value(text: str) -> Any:
    """The value of a word: JSON if it parses, else the text itself."""
    try:
        return msgspec.json.decode(text.encode("utf-8", "surrogateescape"))
    except msgspec.DecodeError:
        return text


def _is_text(annotation: Any) -> bool:
    """Whether it is `str`, or `str` and None, as a type or as the text of one."""
    if isinstance(annotation, str):
        return annotation.replace(" ", "").strip("'\"") in ("str", "str|None", "None|str", "Optional[str]")
    if get_origin(annotation) in (Union, UnionType):
        return set(get_args(annotation)) == {str, NoneType}
    return annotation is str


def _is_plain(annotation: Any) -> bool:
    """Whether only values that JSON has fit it. Code may take text for any other type, such as a path."""
    origin = get_origin(annotation)
    if origin is Literal:
        return True
    if origin is None:
        return annotation in _PLAIN if _is_hashable(annotation) else False
    return origin in (*_PLAIN, Union, UnionType) and all(map(_is_plain, get_args(annotation)))


def _is_hashable(annotation: Any) -> bool:
    try:
        hash(annotation)
    except TypeError:
        return False
    return True


def _fits(found: Any, annotation: Any) -> bool:
    try:
        msgspec.convert(found, annotation)
    except msgspec.ValidationError:
        return False
    except TypeError:  # a type that msgspec does not know
        return True
    return True


def _named(annotation: Any) -> str:
    is_class = isinstance(annotation, type) and not get_args(annotation)
    name: str = annotation.__name__ if is_class else str(annotation)
    return name.replace("typing.", "").replace("collections.abc.", "")


def _advice(annotation: Any, found: Any) -> str:
    if (get_origin(annotation) or annotation) in _LISTS and _fits([found], annotation):
        return f"; write {shlex.quote(msgspec.json.encode([found]).decode())}"
    return "; write it as JSON"
