"""The outcome of a run: the sentence for the person, the exit code for the calling program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.drawing.gates import heading, shown_lines
from holdfast.cli.drawing.moments import ago, between, duration, stamp
from holdfast.cli.drawing.terminal import cells, clean, complain, err, json_text, out, say, typed
from holdfast.cli.drawing.values import data_text
from holdfast.cli.stopping import INTERRUPTED
from holdfast.errors import (
    HoldfastError,
    NeedsAttention,
    RunCancelled,
    RunInterrupted,
    RunPaused,
    RunWaiting,
    StoreError,
)
from holdfast.views.records import PARKED
from holdfast.ways import quoted

if TYPE_CHECKING:
    from holdfast.handle import Holdfast
    from holdfast.views.run_detail import RunDetail

_IDLE_S = 1.0  # so long a run must have been left alone for that to be said
_GATES = 3  # so many approvals are shown
_SHOWN_LINES = 12  # of what each of them shows
_CODES = {"completed": 0, "failed": 1, "cancelled": 1, "needs_attention": 6, "waiting": 5, "paused": 7}


def report_end(
    hf: Holdfast,
    run_id: str,
    error: BaseException | None,
    *,
    interrupted: bool = False,
    asked: bool = False,
    as_json: bool,
    result: bool = True,
) -> int:
    """Print how the run stands now that no process follows it any more. `error` is what ended the following,
    `interrupted` that a signal did. `asked` says that the person has seen what the gates show. Without
    `result`, only the outcome is printed."""
    if isinstance(error, StoreError):
        raise error
    detail = hf.get(run_id)
    status = detail.status
    if as_json:
        out.json(detail.to_json())
    if status == "completed":
        say([("completed", "green"), f" {run_id} in {_took(detail)}"])
        if result and not as_json and not detail.is_command:
            print_result(detail)
        return 0
    if status in PARKED or status == "paused":  # as it was asked to: that is no error
        say([(typed(sentence(detail, error)), "yellow")])
    else:
        complain(sentence(detail, error))
    if status == "waiting":
        if not asked:
            _show_gates(detail)
        _name_ways(detail)
    return exit_code(status, error, interrupted=interrupted)


def _took(detail: RunDetail) -> str:
    """How long the run took; if it was not executed all the time, for how long it was."""
    took = between(detail.created_at, detail.ended_at)
    if detail.ended_at is None:
        return took
    executed = detail.executed_s()
    idle = (detail.ended_at - detail.created_at).total_seconds() - executed
    return took if idle < _IDLE_S else f"{took}, executed for {duration(executed)}"


def _show_gates(detail: RunDetail) -> None:
    """Print the content of the open approvals."""
    gates = [gate for gate in detail.open_gates() if gate.kind == "approval"]
    for gate in gates[:_GATES]:
        if len(gates) > 1:
            say(f"  {heading(gate)}")
        hint = typed(f"`holdfast show {gate.run_id} --all` shows all")
        for line in shown_lines(gate, max(min(err.width, 160) - 4, 20), _SHOWN_LINES, hint):
            say(["    ", *([line] if isinstance(line, str) else line)])


def report_end_again(hf: Holdfast, run_id: str, *, as_json: bool) -> int:
    """Report a run that had ended before it was asked for: nothing was executed."""
    detail = hf.get(run_id)
    if detail.status != "completed":
        return report_end(hf, run_id, None, as_json=as_json)
    say(f"{done(detail)}, nothing is executed again")
    if as_json:
        out.json(detail.to_json())
    elif not detail.is_command:
        print_result(detail)
    return 0


def done(detail: RunDetail) -> str:
    """That a run completed, and when."""
    when = ago(detail.ended_at or detail.updated_at)
    return f"run {detail.id} is done: it completed {when}"


def print_result(detail: RunDetail) -> None:
    """Programs get JSON, always; people get what there is to read, and nothing for None."""
    result = detail.result
    if not out.is_terminal:
        out.line(json_text(result))
    elif result is not None:
        out.line(data_text(result))


def exit_code(status: str, error: BaseException | None = None, *, interrupted: bool = False) -> int:
    """The exit code for the status of a run."""
    code = _CODES.get(status)
    stands = status == "failed" or isinstance(error, RunWaiting)  # whatever signal came, it had stopped
    if code is not None and (stands or not interrupted):
        return code
    if interrupted:
        return INTERRUPTED
    return error.exit_code if isinstance(error, HoldfastError) else INTERRUPTED


def _name_ways(detail: RunDetail) -> None:
    """The commands that move the run on, each on a line to be copied."""
    ways = [(typed(way.shell()), way.effect) for way in detail.ways()]
    widest = max(cells(command) for command, _ in ways)
    for command, what in ways:
        if widest + 4 + cells(what) <= err.width:
            say(["  ", (command.ljust(widest), "cyan"), (f"  {what}", "dim")])
        else:  # a narrow terminal: the command stays whole, to be copied
            say(["  ", (command, "cyan")])
            say([(f"    {what}", "dim")])


def sentence(detail: RunDetail, error: BaseException | None) -> str:
    """How a run that has not completed stands, and what to do next."""
    run_id, status = detail.id, detail.status
    if status == "failed" and detail.error is not None:
        ways = "; ".join(f"{quoted(way)} {way.effect}" for way in detail.ways())
        return f"run {run_id} failed: {clean(detail.error.sentence)}; {ways}"
    if status == "waiting":
        wants = " and for ".join(clean(gate.wants) for gate in detail.open_gates())
        return f"run {run_id} waits for {wants or 'a child run'}"
    if status == "sleeping" and (error is None or isinstance(error, RunWaiting)):
        dues = [step.due_at for step in detail.steps if step.status == "sleeping" and step.due_at]
        until = f" until {stamp(min(dues))}" if dues else ""
        return f"run {run_id} sleeps{until}; `holdfast resume {run_id}` continues then"
    if isinstance(error, HoldfastError):
        # The pause was asked for; why a step below it will run again was not.
        lost = error.__cause__
        if isinstance(error, RunPaused) and isinstance(lost, StoreError):
            return f"{error}; a run below it was stopped: {lost}"
        return str(error)
    if error is None:
        return str(_by_status(detail))
    return f"run {run_id} stopped ({type(error).__name__}); `holdfast resume {run_id}` continues"


def _by_status(detail: RunDetail) -> HoldfastError:
    """The message to the process that executed the run."""
    run_id, status, reason = detail.id, detail.status, detail.reason
    if status == "paused":
        return RunPaused(run_id, reason)
    if status == "cancelled":
        return RunCancelled(run_id, reason)
    if status == "needs_attention":
        return NeedsAttention(run_id, reason)
    return RunInterrupted(run_id, "no process executes it")
