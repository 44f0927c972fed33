"""The program: its commands, its global options, and what errors become.

A command's module is imported only when the command is given; the names and short descriptions
below are all that `holdfast --help` needs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from holdfast.cli.drawing import terminal
from holdfast.errors import BadInput, HoldfastError, RunInterrupted, not_text
from holdfast.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

OUR_FAULT = 70
OUTPUT_LOST = 74


class _Entry(NamedTuple):
    module: str
    help: str
    name: str = ""
    only: str = ""
    """The only command below it, which is shown with it."""


SECTIONS = {
    "Runs": {
        "run": _Entry("running", "Run a workflow, a plan or a command as a durable run."),
        "deliver": _Entry("delivering", "Reach a coding goal: plan, approve, implement, review, verify."),
        "plan": _Entry("planning", "Check, show and run plans: workflows written as data."),
        "resume": _Entry("resuming", "Continue a run where it stopped."),
        "list": _Entry("listing", "List runs, the newest first."),
        "show": _Entry("showing", "Show one run: status, steps, result."),
        "watch": _Entry("watching", "Watch a run that any process executes."),
        "logs": _Entry("logs", "Print what a run printed."),
        "search": _Entry("searching", "Search runs, events, tasks and memory."),
        "stats": _Entry("stats", "Count runs, durations, steps and attempts."),
        "budget": _Entry("budget", "Set limits to what runs spend, and see what they spent."),
    },
    "Steering": {
        "gates": _Entry("gate_list", "List what runs wait for."),
        "approve": _Entry("steering", "Approve what a run shows, so that it continues."),
        "reject": _Entry("steering", "Reject what a run shows."),
        "signal": _Entry("steering", "Give a run the value it waits for."),
        "pause": _Entry("steering", "Stop a run at its next step boundary."),
        "cancel": _Entry("steering", "End a run and everything that runs in it."),
        "settle": _Entry("settling", "Say what became of a step in doubt."),
    },
    "Tasks": {
        "task": _Entry("task", "Track what is to be done: create, claim, complete."),
        "session": _Entry("session", "Start, end and list sessions of work."),
    },
    "Learning": {
        "router": _Entry("router", "Show how work ended with each model or agent."),
        "skills": _Entry("skills", "List, show and check the skills of the project."),
    },
    "Evidence": {
        "evidence": _Entry("evidence", "List, show and verify what runs proved at milestones."),
    },
    "Memory": {
        "remember": _Entry("remembering", "Keep a decision, a pattern or a fact for later sessions."),
        "recall": _Entry("remembering", "Find what was remembered."),
        "forget": _Entry("remembering", "Withdraw what was remembered."),
        "prime": _Entry("priming", "Print what a new session needs to know."),
    },
    "Going back": {
        "checkpoints": _Entry("checkpoints", "List the named points of a run."),
        "rewind": _Entry("rewinding", "Go back to a checkpoint or step of a run."),
        "diff": _Entry("diffing", "Show what changed in the files between two moments of a run."),
        "undo": _Entry("undoing", "Undo a rewind, an edit of a task or memory, or an undo."),
        "redo": _Entry("undoing", "Revert your last undo."),
        "delete": _Entry("deleting", "Delete runs and tasks with everything that belongs to them."),
        "op": _Entry("operations", "List what was done to runs, tasks and memory.", only="log"),
        "fork": _Entry("forking", "Make a new run from another one's past."),
        "replay": _Entry("replaying", "Check histories against today's code."),
    },
    "Store": {
        "doctor": _Entry("doctor", "Check the store and the machine under it."),
        "audit": _Entry("audit", "Check the log against its hashes.", only="verify"),
        "repair": _Entry("repairing", "Mend a damaged store from its copies."),
        "workspace": _Entry("workspace", "Show, check and restore what is saved of the files."),
        "mirror": _Entry("mirror", "Show, rebuild or import the readable files in .holdfast."),
        "du": _Entry("keeping", "Show what the store takes on the disk."),
        "gc": _Entry("keeping", "Remove saved files that nothing needs."),
        "backup": _Entry("backup", "Copy the store, list the copies, put one back."),
        "archive": _Entry("archiving", "Move runs that ended into a file."),
        "trust": _Entry("trusting", "Allow settings or a store from somewhere else."),
        "untrust": _Entry("trusting", "Revoke what `trust` allowed."),
        "config": _Entry("config", "Show the settings and where each came from.", only="show"),
    },
    "First steps": {
        "demo": _Entry("demo", "Kill a run in the middle, take an agent's edit back."),
        "completion": _Entry("completion", "Print the script that completes in your shell."),
    },
}
"""The commands under the headings of `holdfast --help`, in its order."""
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


ALIASES = {"ls": "list", "ps": "list", "status": "show", "stop": "pause"}
"""Names of commands in other programs. `status` without a run lists all runs."""


OTHER_WORDS = {
    "memory": "recall",
    "memories": "recall",
    "add": "create",
    "new": "create",
    "done": "complete",
    "close": "complete",
    "finish": "complete",
    "next": "ready",
    "delete": "archive",
    "rm": "archive",
}
"""Words for a command that look like none, or like another one: what is meant instead, where there is such a
command."""


class NoSuchCommand(click.UsageError):
    """With the one thing to do about it: no page of help is named beside a command that was meant."""

    def __init__(self, name: str, known: Iterable[str], ctx: click.Context) -> None:
        from holdfast.spelling import did_you_mean

        names, path = list(known), ctx.command_path
        meant = OTHER_WORDS.get(name)
        hint = did_you_mean(
            meant if meant in names else name,
            names,
            f"`{path} --help` lists all",
            written=lambda near: f"`{path} {near}`",
        )
        super().__init__(f"there is no command {name!r}; {hint}", ctx)


class Family(click.Group):
    """A command with commands of its own; its help has the first sentence of each, whole."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [
            (name, command.get_short_help_str(_LONGEST_HELP))
            for name in self.list_commands(ctx)
            if (command := self.get_command(ctx, name)) is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


_LONGEST_HELP = 400
"""Characters. Click would cut a sentence where the line ends."""


class Commands(click.Group):
    """A group that imports a command when it is given, and only that one."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        from importlib import import_module

        command = getattr(
            import_module(f"holdfast.cli.commands.{entry.module}"), entry.name or f"{cmd_name}_command"
        )
        assert isinstance(command, click.Command)
        _add_common_options(command)
        if "_HOLDFAST_COMPLETE" in os.environ:
            from holdfast.cli.commands.completion import teach

            teach(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """As click's own, which imports every command to describe it."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=entry.help)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args:
            args = [self._meant(ctx, args[0], args[1:]), *args[1:]]
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            raise NoSuchCommand(name, COMMANDS, ctx)
        return super().resolve_command(ctx, args)

    def _meant(self, ctx: click.Context, name: str, rest: Sequence[str]) -> str:
        """The command that a word means, by what follows it."""
        if name == "status" and self._is_list(ctx, rest):
            return "list"
        return ALIASES.get(name, name)

    def _is_list(self, ctx: click.Context, words: Sequence[str]) -> bool:
        """Whether all of the words are options of `list` and their values."""
        command = self.get_command(ctx, "list")
        assert command is not None
        inner = click.Context(command, ctx, "list")
        try:
            _, left, _ = command.make_parser(inner).parse_args(list(words))
        except click.UsageError:
            return False
        return not left

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        shown = {name: f"{name} {entry.only}".rstrip() for name, entry in COMMANDS.items()}
        width = max(map(len, shown.values()))  # one column for all sections
        for heading, section in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(shown[name].ljust(width), entry.help) for name, entry in section.items()]
                )
        others = ", ".join(f"{name} ({meaning})" for name, meaning in ALIASES.items())
        formatter.write_paragraph()
        formatter.write_text(f"Also known: {others}.")


def _add_common_options(command: click.Command) -> None:
    """`--home` is a global option, and people write it after the command too."""
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    for one in (command, *inner):
        if one.add_help_option:
            one.add_help_option = False
            one.params += [_home_option(hidden=True), _help_option()]


def _home_option(*, hidden: bool = False) -> click.Option:
    return click.Option(
        ["--home"],
        metavar="DIR",
        help="The store's directory (default: the project's own).",
        expose_value=False,
        hidden=hidden,
        callback=_remember_home,
    )


def _help_option() -> click.Option:
    """As click's own, which looks for a translation of its text: 2 ms at every start."""
    return click.Option(
        ["-h", "--help"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_help,
        help="Show this message and exit.",
    )


def _print_help(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        terminal.out.line(ctx.get_help())
        ctx.exit()


def _remember_home(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.find_root().meta["holdfast.home"] = terminal.typed.home = value


def home() -> str | None:
    """The `--home` of this command line."""
    value: str | None = click.get_current_context().find_root().meta.get("holdfast.home")
    return value


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        terminal.out.line(f"holdfast {__version__}")
        ctx.exit()


program = Commands(
    "holdfast",
    help="""Durable execution for AI agents: runs that survive kill -9, in one embedded store.

    `holdfast COMMAND --help` explains a command. All that print data take --json.
    """,
    context_settings={"max_content_width": 100},
    add_help_option=False,
    no_args_is_help=True,
    params=[
        _home_option(),
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Show the version and exit.",
        ),
        _help_option(),
    ],
)


def run_program(args: list[str] | None = None) -> int:
    """Execute one command line; the exit code. Every error is reported in one sentence."""
    terminal.prepare()
    try:
        result: Any = program.main(args, prog_name="holdfast", standalone_mode=False)
    except Exception as error:
        if os.environ.get("HOLDFAST_DEBUG"):
            import traceback

            terminal.err.offer(traceback.format_exc())
        return _explain(error)
    except KeyboardInterrupt:
        terminal.complain("stopped by Ctrl-C")
        return RunInterrupted.exit_code
    return result if isinstance(result, int) else 0


def _explain(error: Exception) -> int:
    """Tell what is wrong; the exit code that says it to programs."""
    if isinstance(error, HoldfastError):
        terminal.complain(str(error))
        return error.exit_code
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        terminal.say(error.format_message())
        return error.exit_code
    if isinstance(error, click.UsageError):
        if not isinstance(error, NoSuchCommand):
            error = _one_of_a_group(error)
        if isinstance(error, NoSuchCommand):
            terminal.complain(error.message)
            return error.exit_code
        if isinstance(error, click.NoSuchOption) and error.possibilities:
            del error.possibilities[1:]  # the nearest is the first
        path = error.ctx.command_path if error.ctx else "holdfast"
        sentence = error.format_message().rstrip(".")
        terminal.complain(f"{sentence[:1].lower()}{sentence[1:]}; see `{path} --help`")
        return error.exit_code
    if isinstance(error, click.ClickException):
        terminal.complain(error.format_message())
        return error.exit_code
    if isinstance(error, click.Abort):
        terminal.complain("stopped by Ctrl-C")
        return RunInterrupted.exit_code
    if isinstance(error, terminal.OutputLost):
        terminal.complain(str(error))
        return OUTPUT_LOST
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        terminal.complain(not_text(error.object))
        return BadInput.exit_code
    if isinstance(error, terminal.ReaderLeft):
        terminal.hush()
        return 0
    if isinstance(error, FileNotFoundError) and not _has_directory():
        terminal.complain("the working directory no longer exists; change to another one")
        return 3
    text = terminal.clean(f"{type(error).__name__}: {error}")
    terminal.complain(f"a fault of holdfast itself: {text}; HOLDFAST_DEBUG=1 shows the traceback")
    return OUR_FAULT


def _one_of_a_group(error: click.UsageError) -> click.UsageError:
    """The error of a group, such as `backup`, that has no command of that name, as that of the program is."""
    group = error.ctx.command if error.ctx else None
    unknown = re.match(r"No such command '([^']*)'", error.format_message())
    if error.ctx is None or unknown is None or not isinstance(group, click.Group):
        return error
    return NoSuchCommand(unknown[1], group.list_commands(error.ctx), error.ctx)


def _has_directory() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True
