"""Encoded values as text to read, and their text redacted in place; no class of theirs is loaded."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from holdfast.kernel import scalars

_RENDER_LIMIT: Final = 64 * 1024

# Tags whose payload is [a head of ours, the values]: only the second is the user's.
_FIELDED: Final = frozenset({"$dataclass", "$struct", "$namedtuple", "$model"})
_HEADED: Final = frozenset({"$defaultdict", "$deque", "$path"})
_ITEMS: Final = frozenset({"$tuple", "$set", "$frozenset"})
_PAIRS: Final = frozenset({"$dict", "$ordered", "$counter"})
_BRACKETS: Final = {"$tuple": ("(", ")"), "$set": ("{", "}"), "$frozenset": ("{", "}")}


def preview(data: bytes, limit: int) -> str:
    """The value as one line of at most `limit` characters, close to how Python writes it."""
    if b'"$' in data and len(data) <= _RENDER_LIMIT:
        text = _render(msgspec.json.decode(data))
    else:
        # Four bytes are the most that one character takes.
        text = data[: 4 * limit + 4].decode("utf-8", "ignore")
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + "…"[:limit]


def layout(data: bytes, room: int) -> str:
    """The whole value, close to how Python writes it: on one line if it has at most `room` characters, else
    over several, indented. What is very large stays JSON."""
    if len(data) > _RENDER_LIMIT:
        return msgspec.json.format(data, indent=2).decode()
    return _lay_out(msgspec.json.decode(data), room)


class Redacting(Protocol):
    """Hides secrets in text."""

    def redact(self, text: str) -> str: ...

    def redact_under(self, name: str, text: str) -> str:
        """The text that stands under a name, such as `password`."""
        ...


def redacted(data: bytes, by: Redacting, name: str = "") -> bytes:
    """The encoded value with each text in it redacted, by the name of its key or field;
    `name` is that of the whole. Keys are redacted too. Names of fields and classes stay, and other tags."""
    return msgspec.json.encode(_Redaction(by).of(msgspec.json.decode(data), name))


class _Redaction:
    def __init__(self, by: Redacting) -> None:
        self._by = by

    def of(self, node: Any, name: str = "") -> object:
        if isinstance(node, str):
            return _text(self._changed(node, name))
        if isinstance(node, list):
            return [self.of(item, name) for item in node]
        if not isinstance(node, dict):
            return node
        tag = _tag(node)
        if not tag:
            return {self._by.redact(key): self.of(item, key) for key, item in node.items()}
        payload = node[tag]
        if tag in _ITEMS:
            return {tag: self.of(payload, name)}
        if tag in _PAIRS:
            return {tag: self._pairs(payload)}
        if tag == "$defaultdict":
            return {tag: [payload[0], self._pairs(payload[1])]}
        if tag in _HEADED:
            return {tag: [payload[0], self.of(payload[1], name)]}
        if tag == "$model":
            return {tag: [payload[0], self._model(payload[1])]}
        if tag in _FIELDED:
            return {tag: [payload[0], self._fields(payload[1]), *payload[2:]]}
        if tag in ("$bytes", "$bytearray"):
            return {tag: self._bytes(payload, name)}
        if tag == "$str":
            return _text(self._changed(scalars.str_in(payload), name))
        if isinstance(payload, str):  # such as a UUID
            changed = self._changed(payload, name)
            return node if changed == payload else changed
        return node

    def _changed(self, text: str, name: str) -> str:
        return self._by.redact_under(name, text) if name else self._by.redact(text)

    def _pairs(self, pairs: list[list[Any]]) -> object:
        return [[self.of(key), self.of(item, key if isinstance(key, str) else "")] for key, item in pairs]

    def _fields(self, fields: dict[str, Any]) -> dict[str, object]:
        return {key: self.of(item, key) for key, item in fields.items()}

    def _model(self, parts: dict[str, Any]) -> dict[str, object]:
        """`set` has names, of fields and of extra values; names of the latter are the user's data. `unset`
        has names of fields only."""
        fields = parts["fields"]
        return {
            group: self._fields(part)
            if group in ("fields", "private") and not _tag(part)
            else [one if one in fields else self.of(one) for one in part]
            if group == "set"
            else part
            if group == "unset"
            else self.of(part)
            for group, part in parts.items()
        }

    def _bytes(self, payload: str, name: str) -> str:
        text = a2b_base64(payload).decode("utf-8", "surrogateescape")
        changed = self._changed(text, name)
        if changed == text:
            return payload
        return b2a_base64(changed.encode("utf-8", "surrogateescape"), newline=False).decode()


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
    parts = _parts(node)
    if isinstance(parts, str):
        return parts
    begin, items, end = parts
    return begin + ", ".join(label + _render(item) for label, item in items) + end


def _lay_out(node: Any, room: int, indent: int = 0) -> str:
    text, parts = _render(node), _parts(node)
    if isinstance(parts, str) or indent + len(text) <= room or not parts.items:
        return text
    inner = " " * (indent + 2)
    lines = (f"{inner}{label}{_lay_out(item, room, indent + 2)}" for label, item in parts.items)
    return f"{parts.begin}\n" + ",\n".join(lines) + f"\n{' ' * indent}{parts.end}"


class _Parts(NamedTuple):
    """A value that holds others: brackets, and each inner value with the label before it."""

    begin: str
    items: list[tuple[str, Any]]
    end: str


def _parts(node: Any) -> _Parts | str:
    """The children of the node, or its text if it has none."""
    if isinstance(node, list):
        return _Parts("[", [("", item) for item in node], "]")
    if not isinstance(node, dict):
        return msgspec.json.encode(node).decode()
    tag = _tag(node)
    return _tagged_parts(tag, node[tag]) if tag else _pairs(node.items())


def _tagged_parts(tag: str, payload: Any) -> _Parts | str:
    if tag in _BRACKETS:
        begin, end = _BRACKETS[tag]
        return _Parts(begin, [("", item) for item in payload], end)
    if tag in _PAIRS:
        return _pairs(payload)
    if tag == "$enum":
        return f"{_class(payload[0])}.{payload[1]}"
    if tag == "$model":
        return _call(payload[0], payload[1]["fields"] | payload[1].get("extra", {}))
    if tag in _FIELDED:
        return _call(payload[0], payload[1])
    if tag in _HEADED:
        return _parts(payload[1])
    if tag in ("$datetime", "$time") and isinstance(payload, list):
        return str(payload[0])
    return payload if isinstance(payload, str) else f"{tag[1:]}{_render(payload)}"


def _pairs(pairs: Iterable[Any]) -> _Parts:
    return _Parts("{", [(f"{_render(key)}: ", item) for key, item in pairs], "}")


def _call(name: str, fields: dict[str, Any]) -> _Parts:
    return _Parts(f"{_class(name)}(", [(f"{key}=", item) for key, item in fields.items()], ")")


def _class(name: str) -> str:
    return name.rpartition(":")[2].rpartition(".")[2]
