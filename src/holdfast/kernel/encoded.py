"""Encoded values as text to read, and their text changed in place; no class of theirs is loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.kernel import scalars

_RENDER_LIMIT: Final = 64 * 1024

# Tags whose payload is [a head of ours, the values]: only the second is the user's.
_FIELDED: Final = frozenset({"$dataclass", "$struct", "$namedtuple", "$model"})
_HEADED: Final = frozenset({"$defaultdict", "$deque", "$path"})
_VALUES: Final = frozenset({"$tuple", "$set", "$frozenset", "$dict", "$ordered", "$counter"})
_BRACKETS: Final = {"$tuple": "({})", "$set": "{{{}}}", "$frozenset": "{{{}}}"}


def preview(data: bytes, limit: int) -> str:
    """The value as one line of at most `limit` characters, close to how Python writes it."""
    if b'"$' in data and len(data) <= _RENDER_LIMIT:
        text = _render(msgspec.json.decode(data))
    else:
        # Four bytes are the most that one character takes.
        text = data[: 4 * limit + 4].decode("utf-8", "ignore")
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + "…"[:limit]


def change_text(data: bytes, change: Callable[[str], str]) -> bytes:
    """The encoded value with `change` applied to each text in it; keys, class names and other tags stay."""
    return msgspec.json.encode(_changed(msgspec.json.decode(data), change))


def _changed(node: Any, change: Callable[[str], str]) -> object:
    if isinstance(node, str):
        return _text(change(node))
    if isinstance(node, list):
        return [_changed(item, change) for item in node]
    if not isinstance(node, dict):
        return node
    tag = _tag(node)
    if not tag:
        return {key: _changed(item, change) for key, item in node.items()}
    payload = node[tag]
    if tag == "$str":
        return _text(change(scalars.str_in(payload)))
    if tag in _VALUES:
        return {tag: _changed(payload, change)}
    if tag in _FIELDED:
        # In a model, `set` holds the names of fields.
        fixed = "set" if tag == "$model" else None
        fields = {key: item if key == fixed else _changed(item, change) for key, item in payload[1].items()}
        return {tag: [payload[0], fields]}
    if tag in _HEADED:
        return {tag: [payload[0], _changed(payload[1], change)]}
    return node


def _text(text: str) -> object:
    try:
        text.encode()
    except UnicodeEncodeError:
        return scalars.str_out(text)
    return text


def _tag(node: dict[str, Any]) -> str:
    tag = next(iter(node), "") if len(node) == 1 else ""
    return tag if tag[:1] == "$" else ""


def _render(node: Any) -> str:
    if isinstance(node, list):
        return f"[{', '.join(map(_render, node))}]"
    if not isinstance(node, dict):
        return msgspec.json.encode(node).decode()
    tag = _tag(node)
    if tag:
        return _render_tagged(tag, node[tag])
    return f"{{{', '.join(f'{_render(key)}: {_render(item)}' for key, item in node.items())}}}"


def _render_tagged(tag: str, payload: Any) -> str:
    if tag in _BRACKETS:
        return _BRACKETS[tag].format(", ".join(map(_render, payload)))
    if tag in ("$dict", "$ordered", "$counter"):
        return f"{{{', '.join(f'{_render(key)}: {_render(item)}' for key, item in payload)}}}"
    if tag == "$enum":
        return f"{_class(payload[0])}.{payload[1]}"
    if tag == "$model":
        return f"{_class(payload[0])}({_arguments(payload[1]['fields'] | payload[1].get('extra', {}))})"
    if tag in _FIELDED:
        return f"{_class(payload[0])}({_arguments(payload[1])})"
    if tag in _HEADED:
        return _render(payload[1])
    if tag in ("$datetime", "$time") and isinstance(payload, list):
        return str(payload[0])
    return payload if isinstance(payload, str) else f"{tag[1:]}{_render(payload)}"


def _class(name: str) -> str:
    return name.rpartition(":")[2].rpartition(".")[2]


def _arguments(fields: dict[str, Any]) -> str:
    return ", ".join(f"{key}={_render(item)}" for key, item in fields.items())
