"""`holdfast plan analyze` and `holdfast plan new`: what a task is about, and a first plan for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, app, options
from holdfast.cli.drawing.rows import rows
from holdfast.cli.drawing.terminal import Line, clean, out, say, typed
from holdfast.cli.foreground import Foreground
from holdfast.counts import counted
from holdfast.durable_file import create_file, replace_file
from holdfast.errors import BadInput
from holdfast.facade import storeless

if TYPE_CHECKING:
    from holdfast.plans.analyzer import Analysis, Candidate

_DEFINITIONS = 3


@click.command("analyze")
@click.argument("text")
@click.option(
    "--limit", type=options.WholeNumber(1), default=10, show_default=True, metavar="N", help="How many files."
)
@options.json_object
def analyze_command(text: str, limit: int, as_json: bool) -> None:
    """Analyze the task TEXT, without a model: keywords, the files that it names, patterns to search
    for, and the files that are most likely to matter, each with the reasons.

    Files that `.gitignore` names are left out. What is read is kept in the store's directory, so that the
    next analysis reads only what changed.
    """
    found = storeless.analyze(text, app.home(), limit=limit)
    if as_json:
        out.json(found.to_json())
    else:
        out.lines(_describe(found))


@click.command("new")
@click.argument("text")
@click.option("--agent", metavar="NAME", help="Let this agent write the plan; `plan check` is applied to it.")
@click.option("-o", "--output", metavar="FILE", help="Write the plan to FILE; without it, it is printed.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@options.json_object
def new_command(text: str, agent: str | None, output: str | None, force: bool, as_json: bool) -> None:
    """Make a first plan for the task TEXT, without a model: what to look at, the work, a test, and decisions
    of a person. It has comments that say what to edit, and `plan check` accepts it as it is.

    With --agent, an agent writes the plan, as a run: what `plan check` finds wrong goes back to the agent
    once.
    """
    from holdfast.plans.draft import draft, name_of

    found = storeless.analyze(text, app.home())
    file = output or f"{name_of(text)}.yaml"
    plan = draft(found, file)
    if agent is not None:
        plan = _written(text, agent, plan)
    if output is not None:
        _write(Path(output), plan, force)
    if as_json:
        out.json({"file": output, "plan": plan, "analysis": found.to_json()})
    elif output is None:
        out.line(clean(plan.rstrip("\n")))
    else:
        say([("written", "green"), f"  {typed(output)}; edit it, then `holdfast run {typed(output)}`"])


def _written(text: str, agent: str, draft: str) -> str:
    """The plan that the agent writes. Ctrl-C stops its run, and `resume` continues it."""
    from holdfast.plans import write_plan

    with access.open_to_execute(create=True) as hf, Foreground() as foreground:
        run = hf.start(write_plan, text, agent, draft)
        say([(f"run {run.id}: {clean(agent)} writes the plan", "dim")])
        outcome = foreground.follow(hf, run)
        if outcome.error is not None:
            raise outcome.error
        plan: str = outcome.value
        return plan


def _write(path: Path, text: str, force: bool) -> None:
    try:
        if force:
            replace_file(path, text.encode(), mode=0o644)
        elif not create_file(path, text.encode(), mode=0o644):
            raise BadInput(f"{path} is there already; name another file, or pass --force to replace it")
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror}); name another file with -o") from error


def _describe(found: Analysis) -> Iterator[Line]:
    yield from rows("keywords", clean(", ".join(found.keywords) or "none"))
    if found.names:
        yield from rows("names", clean(", ".join(found.names)))
    for n, one in enumerate(found.named):
        there = f" → {one.path}" if one.path != one.text else ""
        state = there if one.path else "  no file is like it"
        yield from rows("named" if n == 0 else "", clean(f"{one.text}{state}"))
    for n, pattern in enumerate(found.patterns):
        yield from rows("search" if n == 0 else "", clean(pattern))
    yield from rows("test", clean(" ".join(found.test) or "no command recognised"))
    more = f", {counted(found.left_out, 'file')} left out" if found.left_out else ""
    yield from rows("looked at", f"{counted(found.scanned, 'file')}{more}")
    yield ""
    if not found.files:
        yield "No file has any of these words."
    for number, file in enumerate(found.files, 1):
        yield from _candidate(number, file)


def _candidate(number: int, file: Candidate) -> Iterator[Line]:
    yield [(f"{number:>2}  ", "dim"), (clean(file.path), "bold")]
    yield [(f"    {clean('; '.join(file.why))}", "dim")]
    if file.definitions:
        names = ", ".join(f"{one.name}:{one.line}" for one in file.definitions[:_DEFINITIONS])
        yield [(f"    {clean(names)}", "cyan")]
