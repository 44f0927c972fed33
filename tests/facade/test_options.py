"""A command and its method take the same things: the options of one are parameters of the other."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click
import pytest

from holdfast.cli import app
from holdfast.handle import Holdfast

METHODS = {
    "audit verify": "verify",
    "backup create": "backup",
    "backup list": "backups",
    "backup restore": "restore_backup",
    "list": "page",
    "op log": "operations",
    "workspace restore": "restore",
    "workspace status": "coverage",
    "workspace verify": "verify_files",
}
"""Commands whose method has another name."""
WITHOUT = {"completion", "config show", "demo", "run", "show", "watch"}
"""Commands that call several methods, or none; `run` starts commands too, with options of their own."""
RENAMED = {
    "archive": {"to": "directory"},
    "backup create": {"without_files": "files"},
    "pause": {"timeout": "patience"},
    "cancel": {"timeout": "patience"},
    "rewind": {"no_files": "files"},
    "redo": {"no_files": "files"},
    "undo": {"no_files": "files"},
    "logs": {"since_version": "after"},
}
"""Command → option → the parameter that it is."""
CLI_ONLY = {
    "*": {"json", "home", "help"},
    "approve": {"resume"},
    "diff": {"stat"},
    "gates": {"all"},
    "list": {"all", "children"},
    "logs": {"follow"},
    "reject": {"resume"},
    "repair": {"rebuild"},
    "replay": {"all"},
    "resume": {"all", "follow", "python", "quiet"},
    "signal": {"resume"},
    "settle": {"resume"},
    "trust": {"list"},
    "workspace status": {"all"},
}
"""Command → options that say how something is drawn, or what is done besides."""


def leaves(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield context.command_path.removeprefix("holdfast "), command
        return
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from leaves(inner, click.Context(inner, parent=context, info_name=name))


COMMANDS = dict(leaves(app.program, click.Context(app.program, info_name="holdfast")))


def method_of(command: str) -> str:
    return METHODS.get(command, command.replace("-", "_"))


def options(command: str) -> set[str]:
    """The long names of its options, and the names of its arguments, as parameters."""
    found: set[str] = set()
    for param in COMMANDS[command].params:
        if isinstance(param, click.Option):
            found |= {one[2:].replace("-", "_") for one in param.opts if one.startswith("--")}
        else:
            found.add({"run": "run_id"}.get(param.name or "", param.name or ""))
    return found


def test_every_command_has_its_method() -> None:
    """Or is known to have none."""
    assert {name for name in COMMANDS if not hasattr(Holdfast, method_of(name))} <= WITHOUT
    assert set(COMMANDS) >= WITHOUT


@pytest.mark.parametrize("command", sorted(name for name in COMMANDS if name not in WITHOUT))
def test_options_are_parameters(command: str) -> None:
    """Each option is a parameter of the method, under the same name or one that is pinned here."""
    taken = set(inspect.signature(getattr(Holdfast, method_of(command))).parameters)
    renamed = RENAMED.get(command, {})
    own = CLI_ONLY["*"] | CLI_ONLY.get(command, set())
    unknown = {one for one in options(command) - own if renamed.get(one, one) not in taken}
    assert unknown == set()


@pytest.mark.parametrize("command", sorted({*RENAMED, *CLI_ONLY} - {"*"}))
def test_the_tables_name_what_there_is(command: str) -> None:
    """No line of the tables is left over from an option that is gone."""
    assert {*RENAMED.get(command, {}), *CLI_ONLY.get(command, ())} <= options(command)
