"""`holdfast settle`: a person says what became of a step in doubt."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli import access, options, parameters
from holdfast.cli.commands import steering
from holdfast.cli.drawing.terminal import clean


@click.command("settle")
@click.argument("run")
@click.argument("step")
@click.option(
    "--done", metavar="VALUE", help="It happened; VALUE (JSON if it parses, else text) is its result."
)
@click.option("--retry", is_flag=True, help="It did not happen; run it.")
@click.option("--fail", metavar="[WHY]", is_flag=False, flag_value="", help="It failed.")
@steering.resume_option
@options.json_object
def settle_command(
    run: str, step: str, done: str | None, retry: bool, fail: str | None, then_resume: bool, as_json: bool
) -> int:
    """Record the outcome of STEP of RUN, which was cut off: it may or may not have happened.

    The step's name is enough where only one step in doubt has it. The run continues with `resume`. The VALUE
    of a command is an object: '{"exit_code": 0, "stdout": "", "stderr": ""}'.
    """
    if (done is not None) + retry + (fail is not None) != 1:
        raise click.UsageError("say exactly one of --done VALUE, --retry, --fail [WHY]")
    outcome = "retry" if retry else "fail" if fail is not None else "done"
    given: dict[str, Any] = {"done": parameters.value(done)} if done is not None else {}
    with access.open_to_execute() as hf:
        run_id = hf.find(run)
        key = hf.settle(run_id, step, retry=retry, fail=fail, **given)
        meaning = {"done": "done", "retry": "not done, to be run again", "fail": "failed"}[outcome]
        following = steering.report(
            hf,
            run_id,
            f"step {clean(key)} of run {run_id} is settled as {meaning}",
            lambda: {"step": key, "outcome": outcome},
            then_resume=then_resume,
            as_json=as_json,
        )
    return steering.resume_and_follow(following, as_json=as_json)
