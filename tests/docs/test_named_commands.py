"""Commands that the program names in hints, errors and help: each is one, with all of its options."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.docs.console import ROOT

from holdfast.cli import app

SOURCES = sorted((ROOT / "src" / "holdfast").rglob("*.py"))
VALUE = "VALUE"
"""Stands for what is put into a text when it is printed."""
_NAMED = re.compile(r"(?:^|(?<=`)|(?<=\$ ))holdfast [^`]*")
_IN_TEXT = re.compile(r"`holdfast [^`]*`")


def texts(tree: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """(line, text, whether it is a docstring) of each string of a module."""
    inner: set[int] = set()
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in node.values}
            yield node.lineno, "".join(_part(part) for part in node.values), False
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.lineno, node.value, id(node) in docs


def _part(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    nested = getattr(node, "value", None)
    if isinstance(nested, ast.IfExp) and isinstance(nested.body, ast.Constant):
        return str(nested.body.value)
    return VALUE


def named(text: str, is_doc: bool) -> Iterator[str]:
    """The command lines in a text: in backticks, and in what is printed also as all of it."""
    for found in (_IN_TEXT if is_doc else _NAMED).finditer(text):
        yield found[0].strip("`").split("\n")[0]


def problem(line: str) -> str:
    """What is wrong with a command line; empty if it can be typed."""
    try:
        words = shlex.split(line.replace("...", ""))[1:]
    except ValueError:
        words = line.split()[1:]
    command: click.Command = app.program
    while words and isinstance(command, click.Group):
        word = words[0]
        if word.startswith("-"):
            return "" if word in ("--help", "--version", "--home") else f"no option {word}"
        if word.isupper():
            return ""
        inner = command.get_command(click.Context(command), word)
        if inner is None:
            if command.invoke_without_command:
                break
            return f"no command {word!r}"
        command, words = inner, words[1:]
    own = words[: words.index("--")] if "--" in words else words
    known = {text for one in command.params for text in (*one.opts, *one.secondary_opts)}
    unknown = [word for word in own if word.startswith("--") and word.partition("=")[0] not in known]
    return f"{command.name} has no option {unknown[0]}" if unknown else ""


PROSE = re.compile(r"holdfast (?:needs|is|of|has)\b")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_every_command_that_is_named_exists(path: Path) -> None:
    """In each string of the source: the command is in the tree, and so are its options."""
    wrong = [
        f"{path.name}:{number}: {line}: {problem(line)}"
        for number, text, is_doc in texts(ast.parse(path.read_text()))
        for line in named(text, is_doc)
        if problem(line) and not PROSE.match(line)
    ]
    assert wrong == []


def test_a_missing_command_is_found() -> None:
    """The test sees a hint for a command, a command below another, and an option that is not there."""
    source = (
        'def f(x):\n    """See `holdfast gone`."""\n    return f"did you mean `holdfast departed {x}`?"\n'
    )
    found = [line for _, text, is_doc in texts(ast.parse(source)) for line in named(text, is_doc)]
    assert sorted(found) == ["holdfast departed VALUE", "holdfast gone"]
    assert sorted(map(problem, found)) == ["no command 'departed'", "no command 'gone'"]
    assert problem("holdfast op undo") == "no command 'undo'"
    assert problem("holdfast list --gone") == "list has no option --gone"
    assert problem("holdfast run -- make --gone") == ""
