"""`holdfast approve`, `reject`, `signal`, `pause`, `cancel`: steer a run from any process."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, Literal

import click

from holdfast.cli import access, options, parameters
from holdfast.cli.drawing.terminal import clean, complain, out, say, typed
from holdfast.errors import GateError, NeedsAttention, Refused
from holdfast.views.records import HALTED
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.handle import Holdfast
    from holdfast.views.run_detail import RunDetail

HELD = 4
_DIGEST = re.compile(r"[0-9a-f]{4,64}")
_TAKEN_UP_S = 2.0
_LOOK_EVERY_S = 0.02

Decide = Literal["approved", "rejected"]


resume_option = click.option(
    "--resume",
    "then_resume",
    is_flag=True,
    help="Then resume the run, as `holdfast resume` does, unless a live process executes it.",
)


_decision_options = options.together(
    click.argument("run"),
    click.argument("gate", required=False),
    click.option("--by", metavar="NAME", help="Who decides (default: you)."),
    click.option("--comment", default="", metavar="TEXT", help="Why; the workflow can read it."),
    resume_option,
    options.json_object,
)


@click.command("approve")
@_decision_options
@click.option(
    "--snapshot",
    metavar="ID",
    help="Only if the files are still those of this snapshot, which you have seen.",
)
def approve_command(
    run: str,
    gate: str | None,
    by: str | None,
    comment: str,
    then_resume: bool,
    as_json: bool,
    snapshot: str | None,
) -> int:
    """Approve what RUN shows.

    GATE is needed where several are open: its name, or `send#1@ab12cd` as `holdfast show` names it. With
    the digest after the `@`, only that content is approved. The first decision counts, and is the only one.
    """
    return _decide("approved", run, gate, by, comment, then_resume, as_json, snapshot)


@click.command("reject")
@_decision_options
def reject_command(
    run: str, gate: str | None, by: str | None, comment: str, then_resume: bool, as_json: bool
) -> int:
    """Reject what RUN shows; what follows from that, its workflow says.

    GATE is needed where several are open: its name, or `send#1@ab12cd` as `holdfast show` names it.
    """
    return _decide("rejected", run, gate, by, comment, then_resume, as_json)


def _decide(
    outcome: Decide,
    run: str,
    gate: str | None,
    by: str | None,
    comment: str,
    then_resume: bool,
    as_json: bool,
    snapshot: str | None = None,
) -> int:
    with access.open_to_execute() as hf:
        detail = access.detail(hf, run)
        run_id = detail.id
        name, digest = _split(gate or "", detail)
        given = (run_id, name or None, digest or None, by, comment)
        try:
            if outcome == "approved":
                key = hf.approve(*given, snapshot=snapshot)
            else:
                key = hf.reject(*given)
        except GateError as error:
            _point_to_children(detail)
            raise _with_next(error, detail) from None
        decided = next(one for one in hf.get(run_id).gates if one.key == key)
        fields = {
            "gate": key, "digest": decided.digest, "outcome": outcome, "by": decided.by, "comment": comment,
        }  # fmt: skip
        following = report(
            hf,
            run_id,
            f"gate {clean(key)} of run {run_id} is {outcome}",
            lambda: fields | _standing(hf, run_id),
            then_resume=then_resume,
            as_json=as_json,
        )
    return resume_and_follow(following, as_json=as_json)


def _split(text: str, detail: RunDetail) -> tuple[str, str]:
    """Gate and digest; a title may have an `@` of its own."""
    name, _, digest = text.rpartition("@")
    whole = any(text in (gate.key, gate.title) for gate in detail.gates)
    return (name, digest) if name and not whole and _DIGEST.fullmatch(digest) else (text, "")


def _point_to_children(detail: RunDetail) -> None:
    """A run that waits for a child run has no gate of its own: raise what names the child's."""
    open_gates = [gate for gate in detail.open_gates() if gate.kind == "approval"]
    if open_gates and all(gate.run_id != detail.id for gate in open_gates):
        named = ", ".join(f"{gate.run_id} {gate.place}" for gate in open_gates[:3])
        raise GateError(f"run {detail.id} has no open gate of its own; its child runs have: {named}")


def _with_next(error: GateError, detail: RunDetail) -> GateError:
    """Where there is nothing to decide: the error with the command that moves the run on, if there is one."""
    if detail.status == "needs_attention":
        show = quoted(Way("show", detail.id))
        return GateError(f"{error}: it needs attention; {show} says what for")
    way = next(iter(detail.ways()), None)
    undecided = any(gate.is_open and gate.kind == "approval" for gate in detail.gates)
    if way is None or undecided or detail.ended:
        return error
    return GateError(f"{error}; {quoted(way)} {way.effect}")


@click.command("signal")
@click.argument("run")
@click.argument("name")
@click.argument("value", required=False)
@click.option("--by", metavar="NAME", help="Who sends it (default: you).")
@resume_option
@options.json_object
def signal_command(
    run: str, name: str, value: str | None, by: str | None, then_resume: bool, as_json: bool
) -> int:
    """Give RUN the VALUE that its `wait_for(NAME)` waits for.

    VALUE is JSON if it parses, else text; without it, null. A signal that no gate waits for is kept for the
    next `wait_for` of that name.
    """
    with access.open_to_execute() as hf:
        run_id = hf.find(run)
        sent = None if value is None else parameters.value(value)
        taken = hf.signal(run_id, name, sent, by=by)
        following = report(
            hf,
            run_id,
            f"run {run_id} has received the signal {name}",
            lambda: {"name": name, "taken": taken, **_standing(hf, run_id)},
            next_up="" if taken else f"it is kept for the next wait_for({name!r})",
            then_resume=then_resume,
            as_json=as_json,
        )
    return resume_and_follow(following, as_json=as_json)


_timeout_option = click.option(
    "--timeout",
    "patience",
    type=options.Number(0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the process that executes it.",
)


@click.command("pause")
@click.argument("run")
@click.option("--reason", default="", metavar="TEXT", help="Why; it is shown with the run.")
@_timeout_option
@options.json_object
def pause_command(run: str, reason: str, patience: float, as_json: bool) -> int:
    """Stop RUN at its next step boundary, until a person resumes it.

    Exits with 4 if the process that executes it has not come there in time; it stops when it does.
    """
    with access.open_to_execute() as hf:
        run_id = hf.find(run)
        status = hf.pause(run_id, reason, patience=patience)
        if status == "paused":
            return _stopped(hf, run_id, f"is paused; `holdfast resume {run_id}` continues", as_json)
        return _not_stopped(hf, run_id, status, "pause", patience)


@click.command("cancel")
@click.argument("run")
@click.option("--reason", default="", metavar="TEXT", help="Why; it is shown with the run.")
@_timeout_option
@options.json_object
def cancel_command(run: str, reason: str, patience: float, as_json: bool) -> int:
    """End RUN, the commands that run in it with all their children, and its child runs.

    A `once` step that is cut off is in doubt. `holdfast resume` continues it after all, and with its child
    runs. Exits with 4 if the process that executes it did not end it
    in time; it does as soon as it can.
    """
    with access.open_to_execute() as hf:
        run_id = hf.find(run)
        status = hf.cancel(run_id, reason, patience=patience)
        if status == "cancelled":
            return _stopped(hf, run_id, _cancelled(hf, run_id), as_json)
        return _not_stopped(hf, run_id, status, "cancel", patience)


def _stopped(hf: Holdfast, run_id: str, what: str, as_json: bool) -> int:
    if as_json:
        out.json({"run": run_id, **_standing(hf, run_id)})
    else:
        out.line(typed(f"run {run_id} {what}"))
    return 0


def _cancelled(hf: Holdfast, run_id: str) -> str:
    doubtful = hf.get(run_id).in_doubt
    if not doubtful:
        return "is cancelled"
    many = "was" if len(doubtful) == 1 else "were"
    return f"is cancelled; {', '.join(doubtful[:3])} {many} cut off and may or may not have happened"


def _not_stopped(hf: Holdfast, run_id: str, status: str, what: str, patience: float) -> int:
    """Raises if it came to another end first; otherwise its owner is still at it."""
    info = hf.get(run_id)
    if info.ended:
        raise Refused(f"run {run_id} has ended ({status}) before it could {what}")
    if status == "needs_attention":
        raise NeedsAttention(run_id, info.reason)
    who = f"process {info.owner_pid}" if info.owner_pid else "the process that executes it"
    complain(
        f"run {run_id} is asked to {what}, but {who} has not done it within {patience:g} s; it does as soon "
        f"as it can, and if it hangs, `holdfast resume {run_id} --take-over` goes past it"
    )
    return HELD


# What comes next


def report(
    hf: Holdfast,
    run_id: str,
    done: str,
    fields: Callable[[], dict[str, Any]],
    *,
    next_up: str = "",
    then_resume: bool,
    as_json: bool,
) -> str | None:
    """Print what was done to the run and who resumes it (`next_up`, if that is known), or the `fields` of it
    as JSON. Returns the run that this process is to resume next, None if there is none: only then is what is
    printed the output; else the output is the run's result."""
    next_up = next_up or _going_on(hf, run_id, then_resume)
    following = _to_resume(hf, run_id) if then_resume else None
    sentence = f"{done}; {next_up}"
    if as_json:
        if following is None:
            out.json({"run": run_id, **fields()})
    elif following is None:
        out.line(sentence)
    else:
        say(sentence)
    return following


def _to_resume(hf: Holdfast, run_id: str) -> str | None:
    """The run to resume; None if it has ended, or a live process executes it."""
    eldest = _eldest(hf, run_id)
    info = hf.get(eldest)
    return None if info.ended or info.owner_pid is not None else eldest


def resume_and_follow(run_id: str | None, *, as_json: bool) -> int:
    """As `holdfast resume RUN`, after what was done to it here; 0 if there is nothing to resume."""
    if run_id is None:
        return 0
    from holdfast.cli.commands.resuming import Options, resume_one

    return resume_one(run_id, Options(as_json=as_json))


def _going_on(hf: Holdfast, run_id: str, here: bool = False) -> str:
    """Who continues the run, or which command does; `here`: this process does, if no other. A live process
    takes it up within a moment."""
    deadline = time.monotonic() + (_TAKEN_UP_S if hf.owners() else 0)
    while True:
        info = hf.get(run_id)
        if info.ended:
            return f"the run has continued, and is {info.status}"
        if info.owner_pid is not None:
            return f"process {info.owner_pid} continues it"
        gates = info.open_gates() if info.status == "waiting" else []
        if gates:
            return f"it still waits for {clean(gates[0].wants)} ({clean(gates[0].place)})"
        if info.status in HALTED or time.monotonic() >= deadline:
            return (
                "it continues here" if here else typed(f"`holdfast resume {_eldest(hf, run_id)}` continues")
            )
        time.sleep(_LOOK_EVERY_S)


def _eldest(hf: Holdfast, run_id: str) -> str:
    """The run at the root of its family: a child run continues inside its parent."""
    while parent := hf.get(run_id).parent:
        run_id = parent
    return run_id


def _standing(hf: Holdfast, run_id: str) -> dict[str, Any]:
    """How the run stands now."""
    info = hf.get(run_id)
    return {"status": info.status, "owner_pid": info.owner_pid}
