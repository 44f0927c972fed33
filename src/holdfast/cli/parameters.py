"""The parameters of a workflow, as far as the command line must know them."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from holdfast.errors import BadInput
from holdfast.json_input import read_json

_NOTHING: Any = object()
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

    def positional(self, words: Sequence[str]) -> list[Any]:
        """The positional arguments that words mean. Raises BadInput for one that does not fit its
        annotation."""
        last = len(self._positional) - 1
        found = []
        for place, word in enumerate(words):
            name = self._positional[place] if place <= last else self._rest
            # Words for which there is no parameter may be meant as items of the last one.
            more = words[place + 1 :] if place == last and not self._rest else ()
            found.append(self._value(name, word, more))
        return found

    def value_as(self, name: str, text: str) -> Any:
        """The same for a named argument."""
        return self._value(name if name in self._known else self._keywords, text)

    def _value(self, name: str, text: str, more: Sequence[str] = ()) -> Any:
        hint = self._hints.get(name, Any)
        if _is_text(hint):
            return text
        found = value(text)
        if _is_plain(hint) and not _fits(found, hint):
            raise BadInput(f"{name} takes {_named(hint)}, and {self._misfit(hint, text, found, more)}")
        return found

    def _misfit(self, hint: Any, text: str, found: Any, more: Sequence[str]) -> str:
        """Name the fault of the value, and the text to write instead."""
        named = text.partition("=")[0]
        if "=" in text and named.isidentifier() and (named in self._known or self._keywords):
            return f"{text!r} is text; an argument by name is `--arg {shlex.quote(text)}`"
        if isinstance(found, str) and found == text:
            return _misfit_text(hint, text, more)
        if (part := _wrong_item(hint, found)) is not None:
            place, item = part
            return f"item [{place}] of {text!r} is {_kind(item)}{_written(hint, _with_text(found))}"
        if get_origin(hint) is Literal:
            return f"{text!r} is not one of them"
        return f"{text!r} is {_kind(found)}{_as_list(hint, found, text, more)}"


def value(text: str) -> Any:
    """The value of a word: JSON if it parses, else the text itself. Raises `BadInput` for JSON that is nested
    too deeply."""
    try:
        return read_json(text.encode("utf-8", "surrogateescape"))
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


def _kind(found: Any) -> str:
    """The kind of a JSON value, in words."""
    kinds = {str: "text", bool: "a boolean", int: "an integer", float: "a decimal number", list: "a list"}
    return "null" if found is None else kinds.get(type(found), "an object")


def _misfit_text(hint: Any, text: str, more: Sequence[str]) -> str:
    """The same for text that is no JSON."""
    if get_origin(hint) is Literal:
        return f"{text!r} is not one of them"
    for meant in (_python_value(text), _unquoted_items(text)):
        if meant is not _NOTHING and _fits(meant, hint):
            why = ", which needs double quotes" if "'" in text else ""
            return f"{text!r} is not JSON{why}{_written(hint, meant)}"
    if text[:1] in tuple("[{"):
        return f"{text!r} is not JSON; write it with double quotes inside and single quotes around it"
    if hint is bool:
        return f"{text!r} is text; write true or false"
    return f"{text!r} is text{_as_list(hint, text, text, more) or _json_advice(hint)}"


def _python_value(text: str) -> Any:
    """The value that the text is in Python, `_NOTHING` if it is none."""
    import ast

    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return _NOTHING


def _unquoted_items(text: str) -> Any:
    """The items of a JSON list whose quotes a shell has removed, `_NOTHING` if it is none."""
    if len(text) < 3 or (text[0], text[-1]) != ("[", "]"):
        return _NOTHING
    return [value(item.strip()) for item in text[1:-1].split(",")]


def _wrong_item(hint: Any, found: Any) -> tuple[str, Any] | None:
    """(place, value) of the first item of a list or an object that does not fit."""
    kinds = get_args(hint)
    if isinstance(found, list) and get_origin(hint) in _LISTS and kinds:
        if get_origin(hint) is tuple and kinds[-1] is not ... and len(kinds) != len(found):
            return None
        for n, item in enumerate(found):
            if not _fits(item, kinds[n] if n < len(kinds) and kinds[-1] is not ... else kinds[0]):
                return str(n), item
    if isinstance(found, dict) and get_origin(hint) in (dict, Mapping) and kinds:
        return next(((repr(key), item) for key, item in found.items() if not _fits(item, kinds[1])), None)
    return None


def _with_text(found: Any) -> Any:
    """A list whose items are text; any other value as it is."""
    if not isinstance(found, list):
        return found
    return [item if isinstance(item, str) else msgspec.json.encode(item).decode() for item in found]


def _as_list(hint: Any, found: Any, text: str, more: Sequence[str]) -> str:
    """The advice to write the words as one list, if that fits."""
    if (get_origin(hint) or hint) not in _LISTS:
        return ""
    if isinstance(found, list | dict):
        return ""
    for items in ([found, *map(value, more)], [text, *more], [found]):
        if _fits(items, hint):
            return _written(hint, items)
    return ""


def _written(hint: Any, meant: Any) -> str:
    """The advice to write a value, if it fits."""
    if not _fits(meant, hint):
        return ""
    import json  # takes 3 ms to load

    text = json.dumps(meant if not isinstance(meant, set | frozenset) else list(meant), ensure_ascii=False)
    return f"; write {shlex.quote(text)}"


def _json_advice(hint: Any) -> str:
    return "" if hint in (int, float) else "; write it as JSON"
