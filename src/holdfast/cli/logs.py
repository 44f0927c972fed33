"""`holdfast logs`: what a run's commands printed."""

from __future__ import annotations

from difflib import get_close_matches

import click

from holdfast.cli import access
from holdfast.cli.terminal import out, say
from holdfast.engine.reading import matches
from holdfast.errors import StepNotFound


@click.command("logs")
@click.argument("run")
@click.option("--step", metavar="STEP", help="Only this step: its whole name, or just `build`.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of pieces of output.")
def logs_command(run: str, step: str | None, as_json: bool) -> None:
    """Print what a run's commands printed, redacted."""
    with access.open_to_read() as opened:
        info = opened.run(run)
        if step is not None:
            known = [one.key for one in opened.reading.steps(info.id)]
            if not any(matches(key, step) for key in known):
                raise StepNotFound(info.id, step, get_close_matches(step, known, n=3, cutoff=0.4))
        lines = [line for _, line in opened.reading.logs(info.id, step)]
        if as_json:
            out.json(
                [
                    {
                        "step": line.step,
                        "attempt": line.attempt,
                        "source": line.source,
                        "text": line.text,
                        "at": line.at.isoformat(),
                    }
                    for line in lines
                ]
            )
            return
        for line in lines:
            out.text(line.text)
        if not lines:
            say(f"the commands of run {info.id} printed nothing")
