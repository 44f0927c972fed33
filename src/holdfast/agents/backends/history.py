"""The history of a run as an agent reads it: what was done, decided and rejected, one line each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from holdfast.agents.protocol import Job, Outcome
from holdfast.kernel import codec
from holdfast.kernel.state import GATES, UNSEEN

if TYPE_CHECKING:
    from holdfast.engine.execution.execution import Execution
    from holdfast.kernel.state import StepState

DONE: Final = "done"
"""The value that `work` records at the end of each job: its line of the history."""
MOST_LINES: Final = 50
_LONGEST: Final = 300
_REASON: Final = re.compile(r"(?im)^(?:.*\bwas )?(?:rejected|sent back):[ \t]*(\S.*?)\s*$")


def history_of(run: Execution) -> tuple[str, ...]:
    """The lines for the history so far, the oldest first, redacted. Of a long one the end, with a line that
    says how many are left out."""
    lines = [one[:_LONGEST] for one in _lines(run.state.steps)]
    left_out = len(lines) - MOST_LINES
    if left_out > 0:
        lines = [f"({left_out} earlier lines are left out)", *lines[-MOST_LINES:]]
    return tuple(run.engine.redactor.redact(line) for line in lines)


def _lines(steps: dict[str, StepState]) -> Iterator[str]:
    """Steps inside a job that is done are summed up by its own line. Equal lines in a row become one."""
    jobs = tuple(
        key.rpartition("/")[0] + "/" for key, step in steps.items() if _is_end(key, step) and "/" in key
    )
    last, times = "", 0
    for key, step in steps.items():
        if key.startswith(jobs) and not _is_end(key, step):
            continue
        line = _line(key, step)
        if not line:
            continue
        if line == last:
            times += 1
            continue
        if last:
            yield _times(last, times)
        last, times = line, 1
    if last:
        yield _times(last, times)


def _times(line: str, times: int) -> str:
    return line if times == 1 else f"{line} ({times} times)"


def _is_end(key: str, step: StepState) -> bool:
    return step.kind == "value" and key.rpartition("/")[2].partition("#")[0] == DONE


def _line(key: str, step: StepState) -> str:
    if _is_end(key, step):
        return str(codec.decode(step.result))
    if step.kind in GATES:
        return _decision(step)
    if step.kind in UNSEEN:
        return ""
    if step.status == "failed":
        why = step.error.message.strip().splitlines()[:1] if step.error is not None else []
        return f"failed: {step.name}" + (f": {why[0]}" if why else "")
    if step.status != "completed":
        return ""
    return _of_child(step) if step.kind == "child" else f"done: {step.name}"


def _decision(step: StepState) -> str:
    if not step.outcome:
        return ""
    by = f" (by {step.by})" if step.by else ""
    return f"{step.outcome}: {step.name}" + (f": {_first(step.comment)}" if step.comment else "") + by


def _of_child(step: StepState) -> str:
    """The job of an agent in a `def` workflow is a child run with an `Outcome`."""
    if step.blob or not step.result:
        return f"done: {step.name}"
    found = codec.decode(step.result)
    return job_line(step.name, "", found) if isinstance(found, Outcome) else f"done: {step.name}"


def job_line(kind: str, agent: str, outcome: Outcome) -> str:
    """The line of a job that was done."""
    by = f" by {agent}" if agent else ""
    return f"done: {kind}{by}" + (f": {_first(outcome.text)}" if outcome.text.strip() else "")


def _first(text: str) -> str:
    """The first line."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:_LONGEST]


def reason_of(job: Job) -> str:
    """Why the work was rejected before: what follows `rejected:` or `... was sent back:` in the last such
    line of the prompt; without one, the last decision in the history, if that is a rejection. Empty if there
    is none."""
    said = _REASON.findall(job.prompt)
    if said:
        return str(said[-1])
    decisions = [line for line in job.history if line.startswith(("approved:", "rejected:"))]
    if not decisions or not decisions[-1].startswith("rejected:"):
        return ""
    return decisions[-1].partition(":")[2].strip()
