"""`holdfast resume`: go on with a run where it stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from holdfast import wiring
from holdfast.cli import access, app
from holdfast.cli.code_options import code_options
from holdfast.cli.counts import counted
from holdfast.cli.detail import Detail
from holdfast.cli.ending import done
from holdfast.cli.foreground import execute
from holdfast.cli.listing import print_runs
from holdfast.cli.moments import ago
from holdfast.cli.progress import make_progress
from holdfast.cli.terminal import clean, complain, out
from holdfast.clock import instant
from holdfast.errors import NotFound
from holdfast.kernel import events as e

if TYPE_CHECKING:
    from holdfast.cli.access import Opened
    from holdfast.cli.interpreter import Interpreters
    from holdfast.engine.location import Location
    from holdfast.kernel.events import Code

USAGE = 2
_PASSED_ON = "_HOLDFAST_PASSED_ON"
"""Set for the interpreter that a resume was passed on to, which then does not pass it on again."""
_STATES = {
    "failed": "failed",
    "waiting": "waited",
    "sleeping": "slept",
    "needs_attention": "needed attention",
}


@click.command("resume")
@click.argument("run", required=False)
@click.option("--all", "everything", is_flag=True, help="Go on with every run that can, and nobody executes.")
@click.option(
    "--follow", is_flag=True, help="With --all: until stopped, also with runs that can go on only later."
)
@click.option("--take-over", is_flag=True, help="Take the run from a live process that hangs.")
@code_options
@click.option(
    "--keep-files",
    is_flag=True,
    help="Keep what a failed or cut-off attempt did to the files and to git.",
)
@click.option("-q", "--quiet", is_flag=True, help="No line for each step; the end is told, and the result.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="At the end print the run as `show --json` does; with --all each on a line.",
)
def resume_command(
    run: str | None,
    everything: bool,
    follow: bool,
    take_over: bool,
    python: str | None,
    root: Path | None,
    keep_files: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Go on with RUN where it stopped; a failed one tries its failed step again.

    Without RUN: the only run that can be resumed. If there are several, they are listed.

    A command or `workspace` step that failed or was cut off begins from the files and the git repository as
    it first found them: what it did is rolled back before it runs again. With --keep-files it begins from
    what is there now.

    --all leaves alone what waits for a person, and failed runs. It exits as `resume` of the worst of them
    does: with 6 if one needs attention, with 3 if the code of one is not found, with 1 if one failed, was
    cancelled or ended its process, else with 0. With --follow it serves the store until Ctrl-C or SIGTERM:
    runs whose gate is decided, whose sleep is over, whose process dies; any number of processes can. The code
    of each directory is executed in a process of its own, which is replaced when its files have changed. It
    may be started before the first run, and prints a line with the time for each run that it takes (and who
    held it before), that waits, or that ends.
    """
    if follow and not everything:
        raise click.UsageError("--follow goes with --all; for one run, `holdfast watch RUN`")
    if everything:
        if run is not None or take_over or keep_files:
            raise click.UsageError("--all takes no RUN, no --take-over and no --keep-files")
        from holdfast.cli.serving import resume_all

        return resume_all(follow=follow, as_json=as_json, python=python, root=root)
    return resume_one(run, Options(take_over, keep_files, quiet, as_json, root), python)


class Options(NamedTuple):
    """How one run is resumed."""

    take_over: bool = False
    keep_files: bool = False
    quiet: bool = False
    as_json: bool = False
    root: Path | None = None

    def words(self) -> list[str]:
        """The same options on a command line."""
        flags = {
            "--take-over": self.take_over,
            "--keep-files": self.keep_files,
            "--quiet": self.quiet,
            "--json": self.as_json,
        }
        root = [] if self.root is None else ["--root", str(self.root)]
        return [*(flag for flag, is_set in flags.items() if is_set), *root]


def resume_one(run: str | None, options: Options, python: str | None = None) -> int:
    """Resume the run, or the only one that can be resumed, and follow it; the exit code."""
    with access.open_to_read() as opened:
        chosen = opened.run(run).id if run is not None else _only_one(opened)
        if chosen is None:
            return USAGE
        detail = Detail(opened, chosen)
        if detail.info.status == "completed":
            return _say_done(detail, options.as_json)
        place = opened.place
    from holdfast.cli.interpreter import Interpreters

    location = wiring.find_location(place)
    location.given = options.root
    return _resume(detail, location, Interpreters(python), options)


def _only_one(opened: Opened) -> str | None:
    """The id of the only resumable run; otherwise None, and the person has been told."""
    runs = [run for run in opened.reading.runs(resumable=True) if not run.parent]
    if not runs:
        raise NotFound("there is nothing to resume; `holdfast list` shows all runs")
    if len(runs) == 1:
        return runs[0].id
    print_runs(runs, opened.reading)
    complain(f"{len(runs)} runs can be resumed; name one of them: `holdfast resume ID`")
    return None


def _say_done(detail: Detail, as_json: bool) -> int:
    """A completed run: nothing is written, not even that somebody asked."""
    if as_json:
        from holdfast.cli.showing import fields

        out.json(fields(detail))
    else:
        out.line(f"{done(detail)}, there is nothing to resume")
    return 0


def _pass_on(run_id: str, code: Code, interpreters: Interpreters, options: Options) -> None:
    """Replace this process by `holdfast resume RUN` of the interpreter that is to execute the run's code, if
    that is another one. The command line of this process is not passed on: it may be that of `approve
    --resume`, which is done."""
    from holdfast.cli.interpreter import is_this

    if os.environ.pop(_PASSED_ON, "") or code.argv:
        return
    path = interpreters.choose(run_id, code.interpreter)
    if not is_this(path):
        os.environ[_PASSED_ON] = "1"
        home = app.home()
        store = [] if home is None else ["--home", home]
        words = [*store, "resume", *options.words(), "--", run_id]
        os.execv(path, [path, "-P", "-m", "holdfast", *words])


def _resume(detail: Detail, location: Location, interpreters: Interpreters, options: Options) -> int:
    """Execute it where it was started, on the store that it was found in: that directory may be of another
    project, or of none, as a fork's own is."""
    from holdfast.engine.code import own_process
    from holdfast.engine.recovery import check_directory

    code = location.now(detail.state.code)
    _pass_on(detail.info.id, code, interpreters, options)
    own_process()
    if code.cwd:
        check_directory(detail.info.id, detail.state.code, code)
        os.chdir(code.cwd)  # where it was started: its relative paths mean what they meant then
    progress = make_progress(whole=bool(code.argv), keep_stdout=options.as_json, quiet=options.quiet)
    with access.open_to_execute(
        home=location.home, on_event=progress.on_event, on_output=progress.on_output
    ) as (opened, engine):
        engine.location.given = location.given
        return execute(
            opened,
            engine,
            progress,
            lambda: engine.resume(detail.info.id, take_over=options.take_over, keep_files=options.keep_files),
            lambda _: (title(detail, opened), detail.steps),
            as_json=options.as_json,
        )


def title(detail: Detail, opened: Opened) -> str:
    """What became of it before, how far it is, and where it goes on."""
    completed = sum(step.status == "completed" for step in detail.steps)
    are = "is" if completed == 1 else "are"
    is_done = f"{counted(completed, 'step')} {are} done, " if completed else ""
    taken = _last_checkpoint(detail)
    run = f"run {detail.info.id} ({detail.info.workflow})"
    return f"{run} {_state(detail, opened)}: {is_done}{taken}{_where(detail)}"


def _last_checkpoint(detail: Detail) -> str:
    """The checkpoint that was taken last, by its name, if there is one."""
    taken = [step for step in detail.steps if step.kind == "checkpoint" and step.ended_at]
    if not taken:
        return ""
    last = max(taken, key=lambda step: step.ended_at)
    return f"the last checkpoint is {clean(last.key)} ({ago(instant(last.ended_at))}), "


def _state(detail: Detail, opened: Opened) -> str:
    settled = detail.just_settled()
    if settled:
        return f"had {', '.join(settled[:3])} settled"
    if detail.status == "pending":  # its gate is decided, or nothing of it was done yet
        return "was ready to go on" if detail.steps else "had not begun"
    if detail.status == "paused" and detail.state.paused is None:
        return _moved(detail, opened)
    return _STATES.get(detail.status, f"was {detail.status}")


def _moved(detail: Detail, opened: Opened) -> str:
    """Of a run that is paused because it was rewound or forked: to where, or from which run."""
    for event, _, _ in reversed(detail.recorded):
        if type(event) is e.RunForked:
            return f"was forked from {event.origin}"
        if type(event) is e.Rewound:
            moved = (
                row.to for row in opened.store.operations(run=detail.info.id) if row.id == event.operation
            )
            return f"was rewound to {clean(next(moved, ''))}"
    return "was paused"


def _where(detail: Detail) -> str:
    if detail.info.status in ("failed", "cancelled"):
        failed = detail.state.failed_steps
        if failed:
            return f"{', '.join(failed[:3])} {'is' if len(failed) == 1 else 'are'} tried again"
        return "what follows runs again" if detail.steps else "it begins again"
    begun = [step.key for step in detail.steps if step.status not in ("completed", "failed")]
    if begun:
        return f"it goes on at {', '.join(begun[:3])}" + (", ..." if len(begun) > 3 else "")
    if len(detail.steps) == 1:
        return "it goes on after it"
    return "it goes on after them" if detail.steps else "it begins"
