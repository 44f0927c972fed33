"""`holdfast run`: start a run and follow it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from holdfast.cli import access, options, target
from holdfast.cli.commands.listing import point_out_interrupted
from holdfast.cli.drawing.progress import make_progress
from holdfast.cli.drawing.terminal import clean, say
from holdfast.cli.ending import report_end_again
from holdfast.cli.foreground import execute
from holdfast.cli.options import quiet_option, together
from holdfast.errors import BadInput
from holdfast.facade.loading import names_workflow

if TYPE_CHECKING:
    from holdfast import Run
    from holdfast.cli.drawing.progress import Progress
    from holdfast.handle import Holdfast

_DASHES = "holdfast.dashes"
DEFAULT_BUDGET = "default"


class _RunCommand(click.Command):
    """Keeps what stands after `--` apart: it is a command, or arguments that begin with a dash."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_DASHES] = args[at + 1 :]
            args = args[:at]
        words = list(args)  # the parser takes them out one by one
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(_no_such_option(error, words), ctx) from None


def _no_such_option(error: click.NoSuchOption, words: list[str]) -> str:
    """The probable meaning of it: an option of ours, an argument of a workflow, or one of a command."""
    name = error.option_name
    text = f"no such option: {name}"
    if error.possibilities:
        return f"{text}; did you mean {error.possibilities[0]}?"
    at = next((n for n, word in enumerate(words) if word.partition("=")[0] == name), len(words))
    if not any(names_workflow(word) for word in words[:at]):
        return f"{text}; a command with options goes after `--`: `holdfast run -- CMD ARGS`"
    given = "".join(words[at : at + 1]).partition("=")[2] or "".join(words[at + 1 : at + 2]) or "VALUE"
    parameter = name.lstrip("-").replace("-", "_")
    return f"{text}; an argument of the workflow is `--arg {shlex.quote(f'{parameter}={given}')}`"


class Beginning(NamedTuple):
    """The options by which a run begins: its id, the task it is for, the budget that pays."""

    run_id: str | None = None
    task: str | None = None
    budget: str | None = None

    def found(self, hf: Holdfast) -> tuple[str | None, str | None]:
        """The whole id of the task, and the budget. Raises `NotFound` for what is not there."""
        if self.budget is not None and self.budget != DEFAULT_BUDGET:
            hf.budgets.get(self.budget)
        return None if self.task is None else hf.tasks.find(self.task), self.budget


plan_inputs = together(
    click.option(
        "--input",
        "inputs",
        multiple=True,
        metavar="NAME=VALUE",
        help="For a plan: an input; JSON where it parses, else text.",
    ),
    click.option(
        "--input-file", metavar="FILE", help="For a plan: its input as JSON or YAML; --input comes first."
    ),
)
"""The options that give a plan its input."""


def _read_size(_: click.Context, __: click.Parameter, given: str | None) -> int | None:
    from holdfast.sizes import parse

    return None if given is None else parse(given)


@click.command(
    "run",
    cls=_RunCommand,
    options_metavar="[OPTIONS]",
)
@click.argument("words", nargs=-1, metavar="TARGET [ARGS]...")
@click.option("--id", "run_id", metavar="ID", help="The run's id; one that exists continues that run.")
@click.option("--task", metavar="TASK", help="Claim this task for the run; the end of the run moves it.")
@click.option("--budget", metavar="NAME", help="The budget that pays for the steps of the run.")
@click.option("--arg", "named", multiple=True, metavar="NAME=VALUE", help="An argument by its name.")
@click.option(
    "--effect",
    type=click.Choice(["workspace", "once", "idempotent"]),
    help="For a command: what a crash in the middle means. workspace: its changes to the files are rolled "
    "back and it runs again (default, where there is a workspace); once: a person must look; idempotent: it "
    "runs again.",
)
@click.option("--isolate", is_flag=True, help="For a command: let it work in a copy of the workspace.")
@click.option(
    "--writes", multiple=True, metavar="GLOB", help="For a command: what it writes; other changes are yours."
)
@click.option(
    "--timeout",
    type=options.Number(0, min_open=True),
    metavar="SECONDS",
    help="For a command: end its whole tree after this time.",
)
@click.option(
    "--output-limit",
    callback=_read_size,
    metavar="SIZE",
    help="For a command: keep so much of its output in the log (default: 16MB).",
)
@plan_inputs
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="At the end print the run as `show --json` does.")
@click.pass_context
def run_command(
    ctx: click.Context,
    words: tuple[str, ...],
    run_id: str | None,
    task: str | None,
    budget: str | None,
    named: tuple[str, ...],
    effect: str | None,
    isolate: bool,
    writes: tuple[str, ...],
    timeout: float | None,
    output_limit: int | None,
    inputs: tuple[str, ...],
    input_file: str | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run TARGET so that it survives a crash.

    TARGET is `module:function` or `path.py:function`, a plan (`plan.yaml`, or a checklist `tasks.md`), or a
    command: `holdfast run "make test"`, `holdfast run -- make -j4 test`. A command is split into words as a
    shell does it, but no shell runs it.
    Shell syntax (`&&`, `|`, `>`, `$HOME`, `*.py`) is refused, with the `sh -c` form to copy.

    An argument for a parameter that is annotated `str` is the text as it is; any other is JSON if it parses,
    else text. One that does not fit its annotation (a text for `list[str]`) is refused.
    """
    found, rest = target.parse(words, ctx.meta.get(_DASHES, ()), _options_given(ctx))
    if isinstance(found, target.PlanFile):
        if (
            named
            or effect is not None
            or timeout is not None
            or writes
            or isolate
            or output_limit is not None
        ):
            raise BadInput("a plan takes --input; what --arg and --effect are for stands in its file")
        beginning = Beginning(run_id, task, budget)
        return run_plan_file(found.path, inputs, input_file, beginning, quiet, as_json)
    if inputs or input_file:
        raise BadInput("--input and --input-file are for plans; a function takes --arg, a command words")
    if isinstance(found, target.Command):
        if named:
            raise BadInput("--arg is for functions; a command takes its arguments as words")
        target.check_program(found)
        how = {
            "effect": effect,
            "timeout": timeout,
            "writes": writes,
            "isolate": "copy" if isolate else None,
            "output_limit": output_limit,
        }
        return _run_program(found, Beginning(run_id, task, budget), how, quiet, as_json)
    if effect is not None or timeout is not None or writes or isolate or output_limit is not None:
        raise BadInput(
            "--effect, --isolate, --writes, --timeout and --output-limit are for commands; a function says "
            "it in @step(...) or command(...)"
        )
    workflow = target.load(found)
    args, kwargs = target.arguments(workflow.fn, rest, named)
    return _run_function(workflow, args, kwargs, Beginning(run_id, task, budget), quiet, as_json)


def _options_given(ctx: click.Context) -> list[str]:
    """The options of this command line, as words; without `--home`, which every command to copy gets."""
    words: list[str] = []
    for option in ctx.command.params:
        given = ctx.params.get(option.name or "")
        if not isinstance(option, click.Option) or not given:
            continue
        name = option.opts[-1]
        if option.is_flag:
            words.append(name)
        for value in given if option.multiple else () if option.is_flag else (given,):
            words += [name, f"{value:.15g}" if isinstance(value, float) else str(value)]
    return words


def run_plan_file(
    path: str,
    inputs: tuple[str, ...],
    input_file: str | None,
    beginning: Beginning,
    quiet: bool,
    as_json: bool,
) -> int:
    """Read the plan, and run it unless it has faults, which are all printed."""
    from holdfast.cli.drawing.plan_faults import read_or_complain
    from holdfast.facade.loading import plan_runner

    workflow = plan_runner()
    found = read_or_complain(path, inputs, input_file)
    if found is None:
        return BadInput.exit_code
    return _run_function(workflow, [found.plan, found.inputs], {}, beginning, quiet, as_json, found.plan.name)


def _run_function(
    workflow: Any,
    args: list[Any],
    kwargs: dict[str, Any],
    beginning: Beginning,
    quiet: bool,
    as_json: bool,
    name: str = "",
) -> int:
    progress = make_progress(whole=False, quiet=quiet)

    def start(hf: Holdfast) -> Run[Any]:
        beginner: Any = hf
        task, budget = beginning.found(hf)
        if beginning.run_id is not None:
            beginner = beginner.with_id(beginning.run_id)
        if task is not None:
            beginner = beginner.with_task(task)
        if budget is not None:
            beginner = beginner.with_budget(budget)
        started: Run[Any] = beginner.start(workflow, *args, **kwargs)
        return started

    return start_and_follow(progress, start, beginning, clean(name or workflow.name), as_json)


def _run_program(
    command: target.Command,
    beginning: Beginning,
    how: dict[str, Any],
    quiet: bool,
    as_json: bool,
) -> int:
    progress = make_progress(whole=True, keep_stdout=as_json, quiet=quiet)

    def start(hf: Holdfast) -> Run[Any]:
        task, budget = beginning.found(hf)
        return hf.start_command(
            command.argv, run_id=beginning.run_id, task=task, budget=budget, title=command.line, **how
        )

    return start_and_follow(progress, start, beginning, clean(command.line), as_json)


def start_and_follow(
    progress: Progress,
    start: Callable[[Holdfast], Run[Any]],
    beginning: Beginning,
    name: str,
    as_json: bool,
) -> int:
    """Start the run and follow it; a task with checks is completed after it, if they succeed. A run that
    exists is shown as `resume` shows it, or how it ended."""
    run_id, task, _ = beginning
    with access.open_to_execute(create=True, on_event=progress.on_event, on_output=progress.on_output) as hf:
        point_out_interrupted(hf, but=run_id or "")
        known = run_id is not None and hf.has(run_id)
        if not known:
            code = execute(
                hf, progress, lambda: start(hf), lambda started: (f"run {started}: {name}", None),
                as_json=as_json,
            )  # fmt: skip
            if task is not None:
                _end_task(hf, hf.tasks.find(task), completed=code == 0)
            return code
        assert run_id is not None
        detail = hf.get(run_id)
        if detail.ended:
            start(hf)  # executes nothing, but refuses another workflow and other arguments
            return report_end_again(hf, run_id, as_json=as_json)
        from holdfast.cli.commands.resuming import title

        first = title(detail), detail.steps  # as it was before it was claimed here
        return execute(hf, progress, lambda: start(hf), lambda _: first, as_json=as_json)


def _end_task(hf: Holdfast, task: str, *, completed: bool) -> None:
    """A run that has completed releases a task that has checks: they are run now. What became of the
    task is reported, unless the run still has it."""
    found = hf.tasks.get(task)
    if completed and found.checks and found.status == "pending":
        found = hf.tasks.complete(task, summary="its run completed")
    if found.status != "in_progress":
        say([(f"task {task[:8]} is {found.status}: {clean(found.name)}", "dim")])
