"""The digest of a model request: of what is said in it, whatever version of pydantic-ai wrote it down.

It has the parts of messages that a model reads. Times, ids of runs and everything that a later version may
add are left out, so that a run that began under one version continues under another. Settings and the name
of the model are left out as well: a person may change them while a run is paused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from pydantic_ai.messages import ModelMessage
from pydantic_core import to_jsonable_python

from holdfast.engine.execution.arguments import INLINE_BYTES, PREVIEW_CHARS, Digested
from holdfast.kernel import codec
from holdfast.kernel.events import NOTHING

_PART = ("part_kind", "tool_name", "tool_call_id")


def digest_messages(model: str, messages: Sequence[ModelMessage]) -> Digested:
    """Of a model request. What is shown of it is the model and how many messages there are."""
    said = [_message(message) for message in messages]
    shown = codec.canonical({"model": model, "messages": len(said)}, "a model request")
    return Digested(_hash(said), msgspec.Raw(shown), "", 0)


def digest_tool(arguments: Mapping[str, Any]) -> Digested:
    """Of a tool call: its arguments, as JSON."""
    data = codec.canonical(plain(arguments), "a tool call")
    digest = hashlib.sha256(data).hexdigest()[:32]
    if len(data) <= INLINE_BYTES:
        return Digested(digest, msgspec.Raw(data), "", 0)
    return Digested(digest, NOTHING, codec.preview(data, PREVIEW_CHARS), len(data))


def digest_other(name: str) -> Digested:
    """Of an operation that is known by its name and place alone."""
    return Digested(_hash(name), NOTHING, "", 0)


def plain(value: Any) -> Any:
    """The value as JSON has it; of what JSON cannot carry, the name of its class."""
    return to_jsonable_python(value, fallback=lambda one: type(one).__qualname__)


def characters(messages: Sequence[ModelMessage]) -> int:
    """The size of a conversation as text."""
    return sum(len(json.dumps(_message(message), default=str)) for message in messages)


def _message(message: ModelMessage) -> dict[str, Any]:
    said: dict[str, Any] = {"kind": message.kind, "parts": list(map(_part, message.parts))}
    instructions = getattr(message, "instructions", None)
    if instructions:
        said["instructions"] = instructions
    return said


def _part(part: Any) -> dict[str, Any]:
    said = {name: value for name in _PART if (value := getattr(part, name, None)) is not None}
    content = getattr(part, "content", None)
    if content is not None:
        said["content"] = _without_links(plain(content))
    if getattr(part, "args", None) is not None:
        said["args"] = _arguments(part.args)
    return said


def _arguments(arguments: Any) -> Any:
    """A provider may give them as text or as an object: both are the same."""
    if isinstance(arguments, str):
        try:
            return json.loads(arguments)
        except ValueError:
            return arguments
    return plain(arguments)


def _without_links(content: Any) -> Any:
    """Errors of pydantic link to the page of its version."""
    if isinstance(content, list):
        return [_without_links(one) for one in content]
    if isinstance(content, dict):
        return {name: _without_links(one) for name, one in _counted(content)}
    return content


def _counted(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, one in content.items():
        link = name == "url" and isinstance(one, str) and one.startswith("https://errors.pydantic.dev/")
        if not link and name != "timestamp":
            yield name, one


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:32]
