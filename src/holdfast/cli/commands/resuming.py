"""`holdfast resume`: resume a run where it stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from holdfast.cli import access, app
from holdfast.cli.code_options import code_options, print_note
from holdfast.cli.commands.listing import print_runs
from holdfast.cli.drawing.moments import ago
from holdfast.cli.drawing.progress import make_progress
from holdfast.cli.drawing.terminal import clean, complain, out, say
from holdfast.cli.ending import done
from holdfast.cli.foreground import execute
from holdfast.cli.options import quiet_option
from holdfast.counts import counted
from holdfast.errors import NotFound
from holdfast.views.records import UNDONE
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from holdfast import RunDetail
    from holdfast.handle import Holdfast

USAGE = 2
_CHANGES = 12
_PASSED_ON = "_HOLDFAST_PASSED_ON"
"""Set for the interpreter that a resume was passed on to, which does not pass it on again."""
_STATES = {
    "failed": "failed",
    "waiting": "waited",
    "sleeping": "slept",
    "needs_attention": "needed attention",
}


@click.command("resume")
@click.argument("run", required=False)
@click.option(
    "--all", "everything", is_flag=True, help="Resume every run that can continue and has no live process."
)
@click.option(
    "--follow", is_flag=True, help="With --all: until stopped, also runs that can continue only later."
)
@click.option("--take-over", is_flag=True, help="Take the run from a live process that hangs.")
@code_options
@click.option(
    "--keep-files",
    is_flag=True,
    help="Keep what a failed or cut-off attempt did to the files and to git.",
)
@quiet_option
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
    """Resume RUN where it stopped; a failed one tries its failed step again.

    Without RUN: the only run that can be resumed. If there are several, they are listed.

    A command or `workspace` step that failed or was cut off begins from the files and the git repository as
    it first found them: what it did is rolled back before it runs again. With --keep-files it begins from
    what is there now.

    --all leaves alone runs that wait for a person, and failed runs. It exits as `resume` of the worst of them
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
        from holdfast.cli.commands.serving import resume_all

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
    with access.open_to_read() as hf:
        chosen = hf.find(run) if run is not None else _only_one(hf)
        if chosen is None:
            return USAGE
        detail = hf.get(chosen)
        if detail.status == "completed":
            return _say_done(detail, options.as_json)
        return _resume(hf, detail, options, python)


def _only_one(hf: Holdfast) -> str | None:
    """The id of the only resumable run; otherwise None, and they are listed."""
    runs = [run for run in hf.runs(resumable=True) if not run.parent]
    if not runs:
        raise NotFound(f"there is nothing to resume; {quoted(Way('list'))} shows all runs")
    if len(runs) == 1:
        return runs[0].id
    print_runs(runs, hf)
    complain(f"{len(runs)} runs can be resumed; name one of them: {quoted(Way('resume', 'ID'))}")
    return None


def _say_done(detail: RunDetail, as_json: bool) -> int:
    """A completed run: nothing is written, not even that it was asked for."""
    if as_json:
        out.json(detail.to_json())
    else:
        out.line(f"{done(detail)}, there is nothing to resume")
    return 0


def _resume(hf: Holdfast, detail: RunDetail, options: Options, python: str | None) -> int:
    """Execute it where it was started, on the store that it was found in: that directory may be of another
    project, or of none, as a fork's own is. The store stays open. The title is made before the run's state is
    handed to the engine."""
    from holdfast.serving.resumption import enter

    home = hf.home.resolve()
    passed_on = bool(os.environ.pop(_PASSED_ON, ""))
    how = hf.resumption(detail.id, python=python, root=options.root, passed_on=passed_on, on_note=print_note)
    if how.interpreter:
        _pass_on(how.interpreter, detail.id, options)
    _say_plan_changes(hf, detail)
    enter(how)
    progress = make_progress(whole=how.is_command, keep_stdout=options.as_json, quiet=options.quiet)
    first = title(detail), detail.steps
    with access.open_to_execute(
        home=home, reading=hf, on_event=progress.on_event, on_output=progress.on_output
    ) as executing:
        return execute(
            executing,
            progress,
            lambda: executing.resume(
                detail.id, options.take_over, options.keep_files, options.root, known=detail
            ),
            lambda _: first,
            as_json=options.as_json,
        )


def _say_plan_changes(hf: Holdfast, detail: RunDetail) -> None:
    """Where the file of its plan has changed since: the run continues with the plan that is stored."""
    if not detail.is_plan:
        return
    changes = hf.plan_changes(detail.id)
    if changes:
        say(f"the file of its plan has changed; run {detail.id} continues with the plan it was started with:")
        for one in changes[:_CHANGES]:
            say(f"  {clean(one)}")
        say(f"{quoted(Way('fork', detail.id, {'plan-file': 'FILE'}))} makes a run with the changed plan")


def _pass_on(interpreter: str, run_id: str, options: Options) -> None:
    """Replace this process by `holdfast resume RUN` of that interpreter. The command line of this process is
    not passed on: it may be that of `approve --resume`, which is done."""
    os.environ[_PASSED_ON] = "1"
    home = app.home()
    store = [] if home is None else ["--home", home]
    words = [*store, "resume", *options.words(), "--", run_id]
    os.execv(interpreter, [interpreter, "-P", "-m", "holdfast", *words])


def title(detail: RunDetail) -> str:
    """How the run stood before, how far it is, and where it continues."""
    completed = sum(step.status == "completed" for step in detail.steps)
    are = "is" if completed == 1 else "are"
    is_done = f"{counted(completed, 'step')} {are} done, " if completed else ""
    taken = _last_checkpoint(detail)
    name = clean(detail.name) if detail.is_plan or detail.is_delivery else detail.workflow
    at = f" in stage {clean(detail.stage)}" if detail.stage else ""
    return f"run {detail.id} ({name}) {_state(detail)}{at}: {is_done}{taken}{_where(detail)}"


def _last_checkpoint(detail: RunDetail) -> str:
    """The checkpoint that was taken last, by its name, if there is one."""
    taken = [step for step in detail.steps if step.kind == "checkpoint" and step.ended_at]
    if not taken:
        return ""
    last = max(taken, key=lambda step: step.ended_us)
    assert last.ended_at is not None
    return f"the last checkpoint is {clean(last.key)} ({ago(last.ended_at)}), "


def _state(detail: RunDetail) -> str:
    settled = detail.just_settled()
    if settled:
        return f"had {', '.join(settled[:3])} settled"
    if detail.shown_status == "pending":  # its gate is decided, or nothing of it was done yet
        return "was ready to continue" if detail.steps else "had not begun"
    if detail.status == "paused" and detail.moved is not None:
        return clean(detail.moved)
    return _STATES.get(detail.shown_status, f"was {detail.shown_status}")


def _where(detail: RunDetail) -> str:
    if detail.status in UNDONE:
        failed = detail.state.failed_steps
        if failed:
            return f"{', '.join(failed[:3])} {'is' if len(failed) == 1 else 'are'} tried again"
        return "what follows runs again" if detail.steps else "it begins again"
    begun = [step.key for step in detail.steps if step.status not in ("completed", "failed")]
    if begun:
        return f"it continues at {', '.join(begun[:3])}" + (", ..." if len(begun) > 3 else "")
    if len(detail.steps) == 1:
        return "it continues after it"
    return "it continues after them" if detail.steps else "it begins"
