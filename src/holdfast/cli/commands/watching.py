"""`holdfast watch`: the progress of a run that any process executes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from holdfast.cli import access
from holdfast.cli.drawing.progress import make_progress
from holdfast.cli.drawing.terminal import out, say
from holdfast.cli.ending import exit_code, report_end
from holdfast.cli.stopping import INTERRUPTED

if TYPE_CHECKING:
    from holdfast.handle import Holdfast
    from holdfast.views.run_detail import RunDetail


@click.command("watch")
@click.argument("run")
@click.option("--logs", "with_logs", is_flag=True, help="What its commands print, too.")
@click.option("--json", "as_json", is_flag=True, help="Print every event as a JSON object on a line.")
def watch_command(run: str, with_logs: bool, as_json: bool) -> int:
    """Watch RUN, in any process, until it ends or waits for a person.

    On a terminal: the tree of its steps, and below it what it emits. In a pipe: a line for each change.
    The exit code is the one that `holdfast resume` would end with.
    """
    with access.open_to_read() as hf:
        run_id = hf.find(run)
        if as_json:
            try:
                for event in hf.follow(run_id, after=0):
                    out.json_text(msgspec.json.encode(event.to_json()).decode() + "\n")
            except KeyboardInterrupt:
                return left(hf, run_id)
            return exit_code(hf.get(run_id).status)
        detail = hf.get(run_id)
        progress = make_progress(whole=False)
        progress.begin(run_id, title(detail), detail.steps)
        interrupted = False
        try:
            for event in hf.follow(run_id, after=detail.version):
                if event.type == "OutputCaptured" and with_logs:
                    data = event.data
                    progress.on_output(event.run_id, data["key"], data["source"], data["text"])
                else:
                    progress.on_event(event)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            progress.close(stopped=hf.get(run_id).owner_pid is None)
        if interrupted:
            return left(hf, run_id)
        return report_end(hf, run_id, None, as_json=False)


def left(hf: Holdfast, run_id: str) -> int:
    """Ctrl-C ends the watching, not the run."""
    goes_on = f"; run {run_id} continues" if hf.get(run_id).owner_pid else ""
    say(f"stopped watching{goes_on}")
    return INTERRUPTED


def title(detail: RunDetail) -> str:
    who = f" in process {detail.owner_pid}" if detail.owner_pid else ""
    return f"run {detail.id}: {detail.workflow} is {detail.shown_status.replace('_', ' ')}{who}"
