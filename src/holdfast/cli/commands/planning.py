"""`holdfast plan`: look at plans and run them."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli import access, options
from holdfast.cli.app import Family
from holdfast.cli.commands.plan_drafting import analyze_command, new_command
from holdfast.cli.commands.plan_following import follow_plan
from holdfast.cli.commands.running import Beginning, plan_inputs, run_plan_file
from holdfast.cli.drawing import plan_faults, plan_graph
from holdfast.cli.drawing.plan_progress import WIDEST, PlanStatuses
from holdfast.cli.drawing.terminal import clean, complain, out, say
from holdfast.cli.target import PLAN_SUFFIXES
from holdfast.counts import counted
from holdfast.errors import BadInput, NotFound


@click.group("plan", cls=Family)
def plan_command() -> None:
    """Check, show and run plans: workflows written as data, in YAML or as a Markdown checklist."""


plan_command.add_command(analyze_command)
plan_command.add_command(new_command)


@plan_command.command("check")
@click.argument("plan", metavar="FILE")
@plan_inputs
@options.json_object
def check_command(plan: str, inputs: tuple[str, ...], input_file: str | None, as_json: bool) -> int:
    """Report every fault of the plan in FILE, with line and column; run nothing.

    Exits with 2 if there is a fault. A remark is none: the plan can run.
    """
    checked = plan_faults.check(plan, inputs, input_file, inputs_too=False)
    faults = [one for one in checked.faults if not one.remark]
    if as_json:
        out.json({"plan": plan, "ok": not faults, "faults": [one.to_json() for one in checked.faults]})
    else:
        for line in plan_faults.lines(plan, checked.faults):
            out.line(line)
        if faults:
            complain(f"{clean(plan)} has {counted(len(faults), 'fault')}")
        elif checked.plan is not None:
            say(
                [("ok", "green"), f"  {clean(checked.plan.name)}: {counted(len(checked.plan.steps), 'step')}"]
            )
    return BadInput.exit_code if faults else 0


@plan_command.command("show")
@click.argument("plan", metavar="FILE|RUN")
@click.option("-f", "--follow", is_flag=True, help="Draw it again as RUN works, until it ends or waits.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON object; with --follow one for each change."
)
def show_command(plan: str, follow: bool, as_json: bool) -> int:
    """Draw the graph of the plan in FILE, or of the plan that RUN executes, with the status of each step.

    With --follow, in a pipe: a line for each step whose status changes. The exit code is then the one that
    `holdfast watch` would end with.
    """
    status: dict[str, str] | None = None
    if plan.endswith(PLAN_SUFFIXES) or Path(plan).is_file():
        if follow:
            raise BadInput(f"{plan} is a file; --follow is for a run: `holdfast list` has their ids")
        found = plan_faults.check(plan, (), None, inputs_too=False)
        if not found.is_sound:
            for line in plan_faults.lines(plan, [one for one in found.faults if not one.remark]):
                say(line)
            complain(f"{clean(plan)} has faults, so there is no graph of it")
            return BadInput.exit_code
        shown = found.plan
    else:
        with access.open_to_read() as hf:
            run_id = hf.find(plan)
            shown = hf.plan(run_id)
            if shown is None:
                raise NotFound(f"run {run_id} is no run of a plan")
            if follow:
                return follow_plan(hf, run_id, shown, as_json=as_json)
            detail = hf.get(run_id)
            status = PlanStatuses(detail.steps).all_of(shown, completed=detail.status == "completed")
    assert shown is not None
    if as_json:
        out.json({"plan": shown.to_json(), "status": status})
    else:
        out.lines(plan_graph.lines(shown, min(out.width, WIDEST), status, unicode=out.has_unicode))
    return 0


@plan_command.command("run")
@click.argument("plan", metavar="FILE")
@plan_inputs
@click.option("--id", "run_id", metavar="ID", help="The run's id; one that exists continues that run.")
@click.option("--task", metavar="TASK", help="Claim this task for the run; the end of the run moves it.")
@click.option("--budget", metavar="NAME", help="The budget that pays for the steps of the run.")
@options.quiet_option
@click.option("--json", "as_json", is_flag=True, help="At the end print the run as `show --json` does.")
def run_command(
    plan: str,
    inputs: tuple[str, ...],
    input_file: str | None,
    run_id: str | None,
    task: str | None,
    budget: str | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run the plan in FILE, as `holdfast run FILE` does."""
    return run_plan_file(plan, inputs, input_file, Beginning(run_id, task, budget), quiet, as_json)
