"""`holdfast plan show RUN --follow`: the graph of a plan while a run executes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.commands.watching import left, title
from holdfast.cli.drawing.plan_progress import REPLACES, PlanLines, PlanProgress
from holdfast.cli.drawing.terminal import err, out
from holdfast.cli.ending import report_end

if TYPE_CHECKING:
    from holdfast.handle import Holdfast
    from holdfast.plans import Plan


def follow_plan(hf: Holdfast, run_id: str, plan: Plan, *, as_json: bool) -> int:
    """Show the plan until the run ends or waits for a person; the exit code is that of `watch`."""
    is_live = out.is_live and err.is_live and not as_json
    detail = hf.get(run_id)
    shown = PlanProgress(plan) if is_live else PlanLines(plan, as_json=as_json)
    shown.show(detail, title(detail))
    interrupted = False
    try:
        for event in hf.follow(run_id, after=detail.version):
            if event.type in REPLACES and event.run_id == run_id:
                shown.show(hf.get(run_id))
            else:
                shown.on_event(event)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        shown.end(hf.get(run_id))
    return left(hf, run_id) if interrupted else report_end(hf, run_id, None, as_json=False, result=False)
