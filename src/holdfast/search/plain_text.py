"""The text in a value: what a person would look for in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.kernel import events as e

if TYPE_CHECKING:
    from holdfast.redaction import Redactor


def text_in(value: Any) -> str:
    """All texts, numbers and names of fields of JSON-like data, in order. The codec's tags are left out."""
    return " ".join(_parts(value))


def _parts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            if not str(key).startswith("$"):
                yield str(key)
            yield from _parts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _parts(one)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def text_of(data: bytes, redactor: Redactor) -> str:
    """The same of a value as the log has it, redacted; empty for none."""
    return text_in(redactor.redact_value(msgspec.json.decode(data))) if data else ""


def error_text(failure: e.Failure | None) -> str:
    """An error and those that it consists of, as Python writes the last line of a traceback."""
    if failure is None:
        return ""
    own = f"{failure.type_name}: {failure.message}" if failure.message else failure.type_name
    return "\n".join([own, *map(error_text, failure.members)])
