"""Expressions of a plan: Python's syntax, a few of its forms, and an evaluator of their own.

Comparisons, `and`, `or`, `not`, `in`, attributes, subscripts, literals, `len(x)`, `skipped(step)` and
`failed(step)`. An attribute is a key of a mapping or a declared field of a record; text has `lines` and
`json`. No function of Python is reached, nothing is computed that can grow: an expression ends at once.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from holdfast.errors import BadExpression

MAX_CHARS = 1000
FUNCTIONS = ("len", "skipped", "failed")
LITERALS = {"true": True, "false": False, "null": None}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_FORMS = (
    ast.BoolOp, ast.Compare, ast.Attribute, ast.Subscript, ast.Name, ast.List, ast.Tuple, ast.Dict, ast.Call,
)  # fmt: skip


class Expression(NamedTuple):
    """A parsed expression: its text, its tree, and the names in it."""

    text: str
    tree: ast.expr
    names: tuple[str, ...]
    """Of values: `input`, `item`, steps. The arguments of `skipped` and `failed` are in `asked`."""
    asked: tuple[tuple[str, str], ...]
    """`skipped` or `failed`, and the step."""
    inputs: tuple[str, ...]
    """The X of each `input.X` and `input["X"]`."""


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """Raises `BadExpression` for what no expression of a plan is."""
    if len(text) > MAX_CHARS:
        raise BadExpression(f"an expression has at most {MAX_CHARS} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise BadExpression(f"`{text}` is no expression: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise BadExpression("this is no expression that can be read") from None
    found = _Names(text)
    found.look(tree)
    return Expression(text, tree, tuple(found.names), tuple(found.asked), tuple(found.inputs))


class _Names:
    """The names in an expression. Raises for each form that is not allowed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.names: dict[str, None] = {}
        self.asked: dict[tuple[str, str], None] = {}
        self.inputs: dict[str, None] = {}

    def look(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant):
            if not isinstance(node.value, str | int | float | bool | None):
                raise self._refused(f"{node.value!r} is no value of JSON")
        elif isinstance(node, ast.UnaryOp):
            number = isinstance(node.operand, ast.Constant) and type(node.operand.value) in (int, float)
            if not isinstance(node.op, ast.Not) and not (isinstance(node.op, ast.USub) and number):
                raise self._refused("only `not` and negative numbers are known here")
            self.look(node.operand)
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, ast.Name):
            if node.id in FUNCTIONS:
                raise self._refused(f"`{node.id}` is a function: `{node.id}(...)`")
            if node.id not in LITERALS:
                self.names[node.id] = None
        elif isinstance(node, _FORMS):
            self._look_inside(node)
        else:
            raise self._refused(f"{_form(node)} is not known in plans; compute it in a `python` step")

    def _look_inside(self, node: ast.expr) -> None:
        if isinstance(node, ast.Attribute):
            if node.attr.startswith("_"):
                raise self._refused(f"the name `{node.attr}` begins with an underscore")
            self._note_input(node.value, node.attr)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            self._note_input(node.value, node.slice.value)
        if isinstance(node, ast.Dict) and None in node.keys:
            raise self._refused("`**` is not known in plans")
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.expr):
                self.look(inner)

    def _note_input(self, node: ast.expr, name: Any) -> None:
        if isinstance(node, ast.Name) and node.id == "input" and isinstance(name, str):
            self.inputs[name] = None
        if isinstance(node, ast.Name) and node.id == "steps" and isinstance(name, str):
            self.names[name] = None

    def _call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in FUNCTIONS:
            raise self._refused(f"only {', '.join(f'`{one}(x)`' for one in FUNCTIONS)} can be called")
        if len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
            raise self._refused(f"`{name}` takes one argument")
        if name == "len":
            self.look(node.args[0])
            return
        step = step_name(node.args[0])
        if step is None:
            raise self._refused(f"`{name}(step)` takes the id of a step")
        self.asked[name, step] = None

    def _refused(self, why: str) -> BadExpression:
        return BadExpression(f"`{self._text}`: {why}")


def _form(node: ast.AST) -> str:
    if isinstance(node, ast.BinOp):
        return "arithmetic"
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return "a comprehension"
    return {"JoinedStr": "an f-string", "Lambda": "lambda", "IfExp": "`if ... else`", "Slice": "a slice"}.get(
        type(node).__name__, f"`{type(node).__name__}`"
    )


def step_name(node: ast.expr) -> str | None:
    """The id in `skipped(x)`, `skipped("x")`, `skipped(steps.x)`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "steps":
        return node.attr
    return None


class Values(NamedTuple):
    """The values of an evaluation: values by name, and how steps ended."""

    names: Mapping[str, Any]
    skipped: Callable[[str], bool]
    failed: Callable[[str], bool]


def evaluate(text: str, values: Values) -> Any:
    """Raises `BadExpression` if the expression has no value here."""
    expression = parse(text)
    try:
        return _value(expression.tree, values)
    except BadExpression as error:
        raise BadExpression(f"`{text}`: {error}") from None
    except RecursionError:
        raise BadExpression(f"`{text}` is nested too deeply") from None


def _value(node: ast.expr, values: Values) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return _named(node.id, values)
        case ast.Attribute():
            return attribute(_value(node.value, values), node.attr)
        case ast.Subscript():
            return _subscript(_value(node.value, values), _value(node.slice, values))
        case ast.List() | ast.Tuple():
            return [_value(one, values) for one in node.elts]
        case ast.Dict():
            pairs = zip(node.keys, node.values, strict=True)
            return {_key(key, values): _value(value, values) for key, value in pairs if key is not None}
        case ast.UnaryOp():
            value = _value(node.operand, values)
            return not value if isinstance(node.op, ast.Not) else -value
        case ast.BoolOp():
            return _junction(node, values)
        case ast.Compare():
            return _comparison(node, values)
        case ast.Call():
            return _call(node, values)
    raise BadExpression(f"{type(node).__name__} is not known in plans")


def _named(name: str, values: Values) -> Any:
    if name in values.names:
        return values.names[name]
    if name in LITERALS:
        return LITERALS[name]
    raise BadExpression(f"`{name}` has no value here")


def _key(node: ast.expr, values: Values) -> Any:
    key = _value(node, values)
    if not isinstance(key, str | int | float | bool | None):
        raise BadExpression("a key must be text or a number")
    return key


def _junction(node: ast.BoolOp, values: Values) -> Any:
    wanted = isinstance(node.op, ast.Or)
    value: Any = None
    for one in node.values:
        value = _value(one, values)
        if bool(value) == wanted:
            break
    return value


def _comparison(node: ast.Compare, values: Values) -> bool:
    left = _value(node.left, values)
    for comparison, right_node in zip(node.ops, node.comparators, strict=True):
        right = _value(right_node, values)
        try:
            if not _COMPARISONS[type(comparison)](left, right):
                return False
        except TypeError:
            raise BadExpression(f"{_kind(left)} and {_kind(right)} cannot be compared like this") from None
        left = right
    return True


def _call(node: ast.Call, values: Values) -> Any:
    assert isinstance(node.func, ast.Name)
    if node.func.id == "len":
        value = _value(node.args[0], values)
        if not isinstance(value, str | list | tuple | dict | set | frozenset):
            raise BadExpression(f"{_kind(value)} has no length")
        return len(value)
    step = step_name(node.args[0])
    assert step is not None
    return (values.skipped if node.func.id == "skipped" else values.failed)(step)


def attribute(value: Any, name: str) -> Any:
    """A key of a mapping, a field of a record; `lines` and `json` of text."""
    if isinstance(value, Mapping):
        if name in value:
            return value[name]
        raise BadExpression(f"there is no `{name}` in it, only {_listed(value)}")
    if isinstance(value, str):
        if name == "lines":
            return value.splitlines()
        if name == "json":
            return _json(value)
        raise BadExpression(f"text has no `{name}`, only `lines` and `json`")
    if name in _fields(value):
        return getattr(value, name)
    raise BadExpression(f"{_kind(value)} has no `{name}`")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadExpression("the text is no JSON") from None


def _fields(value: Any) -> tuple[str, ...]:
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(field.name for field in dataclasses.fields(value))
    fields = getattr(type(value), "_fields", ()) if isinstance(value, tuple) else ()
    return tuple(fields)


def _subscript(value: Any, key: Any) -> Any:
    if isinstance(value, Mapping):
        try:
            return value[key]
        except (KeyError, TypeError):
            raise BadExpression(f"there is no {key!r} in it, only {_listed(value)}") from None
    if isinstance(value, str | list | tuple):
        if type(key) is not int:
            raise BadExpression(f"a place in {_kind(value)} is a number, not {key!r}")
        try:
            return value[key]
        except IndexError:
            raise BadExpression(f"there is no place {key} among {len(value)}") from None
    raise BadExpression(f"{_kind(value)} has no parts")


def _listed(value: Mapping[Any, Any]) -> str:
    names = [f"`{one}`" for one in list(value)[:8]]
    return ", ".join(names) + (", ..." if len(value) > 8 else "") if names else "nothing"


def _kind(value: Any) -> str:
    if value is None:
        return "nothing (None)"
    return {str: "text", int: "a number", float: "a number", bool: "a truth value", list: "a list"}.get(
        type(value), f"a {type(value).__name__}"
    )
