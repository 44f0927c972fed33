"""`holdfast deliver`: a coding goal, from a plan to verified files."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import options
from holdfast.cli.commands.running import Beginning, start_and_follow
from holdfast.cli.drawing.progress import make_progress
from holdfast.cli.drawing.terminal import clean
from holdfast.cli.options import quiet_option

if TYPE_CHECKING:
    from holdfast import Run
    from holdfast.handle import Holdfast


@click.command("deliver")
@click.argument("goal")
@click.option("--agent", default="", metavar="NAME", help="The agent of every role that names no other.")
@click.option("--planner", default="", metavar="NAME", help="The agent that plans.")
@click.option("--developer", default="", metavar="NAME", help="The agent that implements.")
@click.option("--reviewer", default="", metavar="NAME", help="The agent that reviews.")
@click.option("--verifier", default="", metavar="NAME", help="An agent that judges after the checks.")
@click.option(
    "--check", "checks", multiple=True, metavar="CMD",
    help="A command that must succeed; without one, the project's own tests.",
)  # fmt: skip
@click.option(
    "--rounds", type=options.WholeNumber(0), metavar="N",
    help="How often a rejected plan, or a rejected implementation, is made again (default: 5).",
)  # fmt: skip
@click.option(
    "--retries", type=options.WholeNumber(0), metavar="N",
    help="How often objections and failed checks go back to the developer (default: 3).",
)  # fmt: skip
@click.option(
    "--check-timeout", type=options.Number(0, min_open=True), metavar="SECONDS",
    help="How long one check may take (default: 1800).",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Approve the plan and the implementation beforehand.")
@click.option("--plan", metavar="FILE", help="A plan file that replaces the stages; its input has `goal`.")
@click.option("--id", "run_id", metavar="ID", help="The run's id; one that exists continues that run.")
@click.option("--task", metavar="TASK", help="Claim this task for the run, instead of a new one.")
@click.option("--budget", default="", metavar="NAME", help="The budget that pays the agents.")
@click.option("--max-usd", metavar="USD", help="The most that the run may cost.")
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="At the end print the run as `show --json` does.")
def deliver_command(
    goal: str, run_id: str | None, task: str | None, max_usd: str | None, quiet: bool, as_json: bool,
    **options: Any,
) -> int:  # fmt: skip
    """Reach GOAL: plan, ask, implement, ask, review, verify.

    GOAL is a sentence: `holdfast deliver "Add a --verbose option to the parser"`. The planner makes a plan,
    and a person approves it; the developer changes the files, and a person approves the difference; then the
    reviewer reviews it and the checks run. What is rejected goes back with the reason, what a check prints
    goes back to the developer, each a bounded number of times.

    At a terminal both approvals are asked there. Without one the run waits: the exit code is 5, and the
    commands that approve and reject are printed. If files change while an approval waits, it is asked again.
    """
    options["max_usd"] = None if max_usd is None else _usd(max_usd)

    def start(hf: Holdfast) -> Run[Any]:
        found = None if task is None else hf.tasks.find(task)
        return hf.deliver(goal, run_id=run_id, task=found, **options)

    progress = make_progress(whole=False, quiet=quiet)
    return start_and_follow(progress, start, Beginning(run_id, task), clean(" ".join(goal.split())), as_json)


def _usd(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except ArithmeticError:
        raise click.BadParameter(
            f"{text!r} is no amount of money; write 2.50", param_hint="--max-usd"
        ) from None
    if not amount.is_finite() or amount <= 0:
        raise click.BadParameter(f"{text} is no limit; write an amount above 0", param_hint="--max-usd")
    return amount
