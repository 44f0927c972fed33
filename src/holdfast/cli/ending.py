"""What became of a run: the sentence for the person, the exit code for the calling program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.detail import Detail
from holdfast.cli.gates import heading, shown_lines
from holdfast.cli.moments import ago, between, duration, stamp
from holdfast.cli.stopping import INTERRUPTED
from holdfast.cli.terminal import cells, clean, complain, err, json_text, out, say, typed
from holdfast.cli.values import data_text
from holdfast.errors import (
    HoldfastError,
    NeedsAttention,
    RunCancelled,
    RunInterrupted,
    RunPaused,
    RunWaiting,
    StoreError,
)

if TYPE_CHECKING:
    from holdfast.cli.access import Opened

_PARKED = ("waiting", "sleeping", "paused")
_IDLE_S = 1.0  # so long a run must have been left alone for that to be said
_GATES = 3  # so many approvals are shown
_SHOWN_LINES = 12  # of what each of them shows
_CODES = {"completed": 0, "failed": 1, "cancelled": 1, "needs_attention": 6, "waiting": 5, "paused": 7}


def tell(
    opened: Opened,
    run_id: str,
    error: BaseException | None,
    *,
    interrupted: bool = False,
    asked: bool = False,
    as_json: bool,
) -> int:
    """Say how the run stands now that nobody follows it any more. `error` is what ended the following,
    `interrupted` that a signal did. `asked` says that the person has seen what the gates show."""
    if isinstance(error, StoreError):
        raise error
    detail = Detail(opened, run_id)
    status = detail.info.status
    if as_json:
        from holdfast.cli.showing import fields

        out.json(fields(detail))
    if status == "completed":
        say([("completed", "green"), f" {run_id} in {_took(detail)}"])
        if not as_json and not detail.state.code.argv:
            print_result(detail)
        return 0
    if status in _PARKED:  # as it was asked to: that is no error
        say([(typed(sentence(detail, error)), "yellow")])
    else:
        complain(sentence(detail, error))
    if status == "waiting":
        if not asked:
            _show_gates(detail)
        _name_ways(detail)
    return exit_code(status, error, interrupted=interrupted)


def _took(detail: Detail) -> str:
    """How long the run took; if it was not executed all the time, for how long it was."""
    info = detail.info
    took = between(info.created_at, info.completed_at)
    if info.completed_at is None:
        return took
    executed = detail.executed_s()
    idle = (info.completed_at - info.created_at).total_seconds() - executed
    return took if idle < _IDLE_S else f"{took}, executed for {duration(executed)}"


def _show_gates(detail: Detail) -> None:
    """Print the content of the open approvals."""
    gates = [gate for gate in detail.open_gates() if gate.kind == "approval"]
    for gate in gates[:_GATES]:
        if len(gates) > 1:
            say(f"  {heading(gate)}")
        hint = typed(f"`holdfast show {gate.run_id} --all` shows all")
        for line in shown_lines(gate, max(min(err.width, 160) - 4, 20), _SHOWN_LINES, hint):
            say(["    ", *([line] if isinstance(line, str) else line)])


def tell_again(opened: Opened, run_id: str, *, as_json: bool) -> int:
    """Report a run that had ended before it was asked for: nothing was executed."""
    detail = Detail(opened, run_id)
    if detail.info.status != "completed":
        return tell(opened, run_id, None, as_json=as_json)
    say(f"{done(detail)}, nothing is executed again")
    if as_json:
        from holdfast.cli.showing import fields

        out.json(fields(detail))
    elif not detail.state.code.argv:
        print_result(detail)
    return 0


def done(detail: Detail) -> str:
    """That a run completed, and when."""
    when = ago(detail.info.completed_at or detail.info.updated_at)
    return f"run {detail.info.id} is done: it completed {when}"


def print_result(detail: Detail) -> None:
    """Programs get JSON, always; people get what there is to read, and nothing for None."""
    result = detail.result()
    if not out.is_terminal:
        out.line(json_text(result))
    elif result is not None:
        out.line(data_text(result))


def exit_code(status: str, error: BaseException | None = None, *, interrupted: bool = False) -> int:
    """What the status of a run says to the calling program."""
    code = _CODES.get(status)
    stands = status == "failed" or isinstance(error, RunWaiting)  # whatever signal came, it had stopped
    if code is not None and (stands or not interrupted):
        return code
    if interrupted:
        return INTERRUPTED
    return error.exit_code if isinstance(error, HoldfastError) else INTERRUPTED


def _name_ways(detail: Detail) -> None:
    """The commands that move the run on, each on a line to be copied."""
    ways = [(typed(command), what) for command, what in detail.ways_on()]
    widest = max(cells(command) for command, _ in ways)
    for command, what in ways:
        if widest + 4 + cells(what) <= err.width:
            say(["  ", (command.ljust(widest), "cyan"), (f"  {what}", "dim")])
        else:  # a narrow terminal: the command stays whole, to be copied
            say(["  ", (command, "cyan")])
            say([(f"    {what}", "dim")])


def sentence(detail: Detail, error: BaseException | None) -> str:
    """How a run that has not completed stands, and what to do next."""
    run_id, status = detail.info.id, detail.info.status
    if status == "failed" and detail.state.error is not None:
        ways = "; ".join(f"`{command}` {what}" for command, what in detail.ways_on())
        return f"run {run_id} failed: {clean(detail.sentence(detail.state.error))}; {ways}"
    if status == "waiting":
        wants = " and for ".join(clean(gate.wants) for gate in detail.open_gates())
        return f"run {run_id} waits for {wants or 'a child run'}"
    if status == "sleeping" and (error is None or isinstance(error, RunWaiting)):
        dues = [step.due for step in detail.steps if step.status == "sleeping" and step.due]
        until = f" until {stamp(min(dues))}" if dues else ""
        return f"run {run_id} sleeps{until}; `holdfast resume {run_id}` goes on then"
    if isinstance(error, HoldfastError):
        return str(error)
    if error is None:
        return str(_by_status(detail))
    return f"run {run_id} stopped ({type(error).__name__}); `holdfast resume {run_id}` goes on"


def _by_status(detail: Detail) -> HoldfastError:
    """What whoever executed the run was told."""
    run_id, status, reason = detail.info.id, detail.info.status, detail.info.reason
    if status == "paused":
        return RunPaused(run_id, reason)
    if status == "cancelled":
        return RunCancelled(run_id, reason)
    if status == "needs_attention":
        return NeedsAttention(run_id, reason)
    return RunInterrupted(run_id, "nobody executes it")
