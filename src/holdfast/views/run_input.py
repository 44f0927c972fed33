"""The input of a run: its arguments as data, and a title of one line made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.kernel.encoded import preview

if TYPE_CHECKING:
    from holdfast.kernel.events import RunCreated
    from holdfast.redaction import Redactor

_TITLE_CHARS = 120
_VALUE_CHARS = 60


class RunInput(msgspec.Struct, frozen=True):
    """`args` are a function's arguments by position, or the words of a command; `kwargs` those by name.
    JSON data, tagged where plain JSON lacks a type."""

    args: list[Any] = []
    kwargs: dict[str, Any] = {}


def input_of(
    created: RunCreated, redactor: Callable[[], Redactor], blob: Callable[[str], bytes] | None = None
) -> RunInput | None:
    """The input of a run, redacted; `redactor` is called only if there is something to redact. None for an
    input that is stored beside the log, unless `blob` reads it from there."""
    argv = created.code.argv
    if len(argv) == 1 and argv[0].isidentifier():  # the name of a program holds no secret
        return RunInput([*argv])
    if argv:
        return RunInput([redactor().redact(word) for word in argv])
    data = bytes(created.args)
    if created.blob:
        if blob is None:
            return None
        data = blob(created.blob)
    if not data:
        return RunInput()
    args, kwargs = _pair(msgspec.json.decode(data))
    if not kwargs and all(isinstance(value, int | float | None) for value in args):
        return RunInput(args)
    shown = redactor().redact_value([args, kwargs])
    return RunInput(*shown)


def title_of(name: str, argv: bool, given: RunInput | None) -> str:
    """A command line as it is; a function as a call, with the beginning of each of its values."""
    if argv or given == RunInput():
        return name
    if given is None:
        return f"{name}(…)"
    values = [_value(value) for value in given.args]
    values += [f"{key}={_value(value)}" for key, value in given.kwargs.items()]
    text = f"{name}({', '.join(values)})"
    return text if len(text) <= _TITLE_CHARS else f"{text[: _TITLE_CHARS - 2]}…)"


def _pair(value: Any) -> tuple[list[Any], dict[str, Any]]:
    """The positional and the named arguments; the log keeps them as a tuple of a tuple and a dict."""
    pair = value["$tuple"]
    return pair[0]["$tuple"], pair[1]


def _value(value: Any) -> str:
    return preview(msgspec.json.encode(value), _VALUE_CHARS)
