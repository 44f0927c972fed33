"""The parameters of a workflow, as far as the command line must know them."""

from __future__ import annotations

import inspect
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


class Parameters:
    """Which parameters of a function take text: those annotated `str`, also with `None`."""

    def __init__(self, function: Any) -> None:
        signature = inspect.signature(function)
        try:
            hints = get_type_hints(function)
        except Exception:  # a name that only the type checker knows: the annotation's own text decides
            hints = {name: one.annotation for name, one in signature.parameters.items()}
        self._texts = {name for name in signature.parameters if _is_text(hints.get(name))}
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

    def text_at(self, place: int) -> bool:
        name = self._positional[place] if place < len(self._positional) else self._rest
        return name in self._texts

    def text_as(self, name: str) -> bool:
        return (name if name in self._known else self._keywords) in self._texts


def _is_text(annotation: Any) -> bool:
    """Whether it is `str`, or `str` and None, as a type or as the text of one."""
    if isinstance(annotation, str):
        return annotation.replace(" ", "").strip("'\"") in ("str", "str|None", "None|str", "Optional[str]")
    if get_origin(annotation) in (Union, UnionType):
        return set(get_args(annotation)) == {str, type(None)}
    return annotation is str
