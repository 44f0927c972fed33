"""A command and its method take the same things: the options of one are parameters of the other."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

import click
import pytest

from holdfast.cli import app
from holdfast.facade.budgets import BudgetNamespace
from holdfast.facade.evidence import EvidenceNamespace
from holdfast.facade.memory import MemoryNamespace
from holdfast.facade.router import RouterNamespace
from holdfast.facade.sessions import Sessions
from holdfast.facade.skills import SkillsNamespace
from holdfast.facade.tasks import Tasks
from holdfast.handle import Holdfast

METHODS = {
    "audit verify": "verify",
    "backup create": "backup",
    "backup list": "backups",
    "backup restore": "restore_backup",
    "list": "page",
    "mirror import": "mirror_import",
    "mirror rebuild": "mirror_rebuild",
    "mirror status": "mirror_status",
    "plan analyze": "analyze",
    "op log": "operations",
    "repair": "repair_store",
    "workspace restore": "restore",
    "workspace status": "coverage",
    "workspace verify": "verify_files",
}
"""Commands whose method has another name."""
SPACES = {
    "task": Tasks,
    "session": Sessions,
    "budget": BudgetNamespace,
    "evidence": EvidenceNamespace,
    "router": RouterNamespace,
    "skills": SkillsNamespace,
    **dict.fromkeys(("remember", "recall", "forget"), MemoryNamespace),
}
"""Commands whose methods are in a namespace: `task create` is `hf.tasks.create`."""
WITHOUT = {
    "completion", "config show", "demo", "plan check", "plan new", "plan run", "plan show", "run", "show",
    "watch",
}  # fmt: skip
"""Commands that call several methods, or none; `run` starts commands too, with options of their own."""
RENAMED = {
    "search": {"in": "within"},
    "archive": {"to": "directory"},
    "deliver": {"id": "run_id", "check": "checks"},
    "backup create": {"without_files": "files"},
    "pause": {"timeout": "patience"},
    "repair": {"from": "backup"},
    "cancel": {"timeout": "patience"},
    "rewind": {"no_files": "files"},
    "redo": {"no_files": "files"},
    "undo": {"no_files": "files"},
    "logs": {"since_version": "after"},
    "recall": {"all": "every"},
    "remember": {"cite": "cites"},
    "task create": {"label": "labels", "check": "checks", "body_file": "body"},
    "task edit": {"label": "labels", "check": "checks", "body_file": "body"},
    "task export": {"file": "path"},
    "task import": {"file": "path"},
}
"""Command → option → the parameter that it is."""
CLI_ONLY = {
    "*": {"json", "home", "help"},
    "delete": {"yes"},
    "deliver": {"quiet"},
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
    "task list": {"all"},
    "task ready": {"claim"},
    "task show": {"events", "all"},
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


_NAMES = {
    "task import": "import_",
    "session show": "get",
    "forget": "withdraw",
    "budget show": "get",
    "budget raise": "raise_",
    "evidence show": "get",
    "router list": "stats",
    "router show": "stats",
}


def method_of(command: str) -> Callable[..., object] | None:
    """The method that the command calls, of `Holdfast` or of a namespace; None if there is none."""
    group, _, name = command.partition(" ")
    if group in SPACES:
        return getattr(SPACES[group], _NAMES.get(command, name or group), None)
    return getattr(Holdfast, METHODS.get(command, command.replace("-", "_")), None)


_ARGUMENTS = {"run": "run_id", "task": "id", "session": "id", "memory": "id"}


def options(command: str) -> set[str]:
    """The long names of its options, and the names of its arguments, as parameters."""
    found: set[str] = set()
    for param in COMMANDS[command].params:
        if isinstance(param, click.Option):
            found |= {one[2:].replace("-", "_") for one in param.opts if one.startswith("--")}
        else:
            found.add(_ARGUMENTS.get(param.name or "", param.name or ""))
    return found


def test_every_command_has_its_method() -> None:
    """Or is known to have none."""
    assert {name for name in COMMANDS if method_of(name) is None} <= WITHOUT
    assert set(COMMANDS) >= WITHOUT


@pytest.mark.parametrize("command", sorted(name for name in COMMANDS if name not in WITHOUT))
def test_options_are_parameters(command: str) -> None:
    """Each option is a parameter of the method, under the same name or one that is pinned here."""
    called = method_of(command)
    assert called is not None
    taken = set(inspect.signature(called).parameters)
    renamed = RENAMED.get(command, {})
    own = CLI_ONLY["*"] | CLI_ONLY.get(command, set())
    unknown = {one for one in options(command) - own if renamed.get(one, one) not in taken}
    assert unknown == set()


@pytest.mark.parametrize("command", sorted({*RENAMED, *CLI_ONLY} - {"*"}))
def test_the_tables_name_what_there_is(command: str) -> None:
    """No line of the tables is left over from an option that is gone."""
    assert {*RENAMED.get(command, {}), *CLI_ONLY.get(command, ())} <= options(command)
