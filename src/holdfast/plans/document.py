"""A YAML document as located nodes: each value with its line and column.

YAML 1.2, plain data only. A document is bounded by its size, by its depth and by the number of its nodes; a
node that an alias repeats counts each time, so a small text cannot become a large value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

MAX_NODES = 10_000
MAX_BYTES = 1_000_000
MAX_DEPTH = 50


class Scalar(NamedTuple):
    """Text, a number, a truth value, or None."""

    value: Any
    line: int
    column: int


class Items(NamedTuple):
    """A list."""

    value: list[Node]
    line: int
    column: int


class Entry(NamedTuple):
    """One key of a mapping, with the place of the key."""

    node: Node
    line: int
    column: int


class Mapping(NamedTuple):
    value: dict[str, Entry]
    line: int
    column: int


Node = Scalar | Items | Mapping


class Unreadable(Exception):
    """The text is no YAML that a plan can be."""

    def __init__(self, text: str, line: int = 1, column: int = 1) -> None:
        super().__init__(text)
        self.text = text
        self.line = line
        self.column = column


def parse(text: str) -> tuple[Node, list[Unreadable]]:
    """The document, and the keys in it that stand twice. Raises `Unreadable` where nothing can be read."""
    if len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise Unreadable(f"the file is larger than {MAX_BYTES // 1_000_000} MB; that is no plan")
    composed = _composed(text)
    if composed is None:
        raise Unreadable("the plan is empty; it needs at least `name` and `steps`")
    converter = _Converter()
    return converter.convert(composed, MAX_DEPTH), converter.twice


def plain(node: Node) -> Any:
    """The value without places."""
    if isinstance(node, Items):
        return [plain(one) for one in node.value]
    if isinstance(node, Mapping):
        return {key: plain(entry.node) for key, entry in node.value.items()}
    return node.value


def texts(node: Node) -> Iterator[Scalar]:
    """Every text inside."""
    if isinstance(node, Items):
        for one in node.value:
            yield from texts(one)
    elif isinstance(node, Mapping):
        for entry in node.value.values():
            yield from texts(entry.node)
    elif isinstance(node.value, str):
        yield node


def _composed(text: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 2)
    try:
        return yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        raise Unreadable(_explained(error, text, line), line, column) from None
    except YAMLError as error:
        raise Unreadable(f"this is no YAML: {error}") from None
    except RecursionError:
        raise Unreadable(f"it is nested deeper than {MAX_DEPTH} levels") from None


def _explained(error: Any, text: str, line: int) -> str:
    lines = text.splitlines()
    here = lines[line - 1] if line <= len(lines) else ""
    if "\t" in here[: len(here) - len(here.lstrip())]:
        return "a tab cannot indent in YAML; use spaces"
    problem = " ".join(str(error.problem or error.context or "it cannot be read").split())
    return f"this is no YAML: {problem}"


class _Converter:
    def __init__(self) -> None:
        self.twice: list[Unreadable] = []
        self._nodes = 0
        self._open: set[int] = set()

    def convert(self, node: Any, depth: int) -> Node:
        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise Unreadable(f"more than {MAX_NODES:,} values, aliases counted each time", line, column)
        if depth == 0:
            raise Unreadable(f"it is nested deeper than {MAX_DEPTH} levels", line, column)
        if id(node) in self._open:
            raise Unreadable("an alias repeats what it is inside of", line, column)
        self._open.add(id(node))
        try:
            return self._converted(node, line, column, depth)
        finally:
            self._open.discard(id(node))

    def _converted(self, node: Any, line: int, column: int, depth: int) -> Node:
        kind = type(node).__name__
        if kind != "ScalarNode" and _tag(node) not in ("seq", "map"):
            raise _refused_tag(node, line, column)
        if kind == "SequenceNode":
            return Items([self.convert(one, depth - 1) for one in node.value], line, column)
        if kind != "MappingNode":
            return Scalar(_scalar(node, line, column), line, column)
        found: dict[str, Entry] = {}
        for key, value in node.value:
            at, by = key.start_mark.line + 1, key.start_mark.column + 1
            if type(key).__name__ != "ScalarNode":
                raise Unreadable("a key must be text", at, by)
            name = str(key.value)
            if name in found:
                self.twice.append(Unreadable(f"the key `{name}` stands twice here", at, by))
                continue
            found[name] = Entry(self.convert(value, depth - 1), at, by)
        return Mapping(found, line, column)


_TEXT = {"str", "timestamp", "merge", "value"}
_TRUE = {"true": True, "false": False}


def _scalar(node: Any, line: int, column: int) -> Any:
    tag, text = _tag(node), str(node.value)
    try:
        if tag == "null":
            return None
        if tag == "bool":
            return _TRUE[text.lower()]
        if tag == "int":
            return int(text.replace("_", ""), 0) if not text.lstrip("+-").isdigit() else int(text)
        if tag == "float":
            return float(text.replace("_", ""))
    except (KeyError, ValueError):
        return text
    if tag in _TEXT:
        return text
    raise _refused_tag(node, line, column)


def _tag(node: Any) -> str:
    return str(node.tag).removeprefix("tag:yaml.org,2002:")


def _refused_tag(node: Any, line: int, column: int) -> Unreadable:
    return Unreadable(f"the tag `{node.tag}` makes objects; only plain data is read", line, column)
