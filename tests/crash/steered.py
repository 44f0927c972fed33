"""Scripts of user code that others steer: gates, signals, pause, cancel, rewind, undo, fork, archive.

Whoever steers looks at the log and does what is left to do, so that it is the same whoever was killed: in
the life itself, where faults strike it too, or in a process beside it, which continues when the life is dead.
It says what it was told is done:

    decided RUN KEY OUTCOME     a gate
    sent RUN NAME DIGEST        a signal
    stopped-at RUN STATUS       a pause or a cancel
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.crash.history import canonical, digest
from tests.crash.lives import Plan, RunPlan, place
from tests.crash.side import Side, body, here, speaking, told

from holdfast import (
    Decision,
    Holdfast,
    Run,
    approval,
    checkpoint,
    emit,
    gather,
    idempotency_key,
    parallel,
    patched,
    stage,
    step,
    wait_for,
    workflow,
)
from holdfast.clock import SystemClock
from holdfast.errors import Refused, RunCancelled, RunNotFound, RunPaused, RunWaiting, StepTimeout, StoreError
from holdfast.operations import archiving

Attend = Callable[[Run[Any]], Any]
"""A run → its result, when somebody has steered it to its end."""
Steer = Callable[[Holdfast], None]

# What the follower cannot read it logs, and tries again; nobody here reads that.
logging.getLogger("holdfast").addHandler(logging.NullHandler())

LOOK_S = 0.002
SIGNALS: dict[str, Any] = {"early": 17, "paid": {"amount": 3}, "parcel": "p" * 40_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# What the scripts do


@step
def tend(n: int) -> int:
    with body():
        return n * n


@step
async def atend(n: int) -> int:
    with body():
        await asyncio.sleep(0)
        return n * n


def ask(run: str, key: str, decision: Decision) -> str:
    """The workflow has a decision, the same in every replay to the microsecond."""
    at = (decision.at - _EPOCH) // timedelta(microseconds=1)
    told(run, key, [decision.outcome, decision.by, decision.comment, at])
    return decision.outcome


def desk(n: int) -> str:
    at = f"desk[{n}]/"
    outcome = ask("asks", f"{at}turn#1", approval("turn", show=n))
    return outcome + str(told("asks", f"{at}tend#1", tend(n)))


@workflow
def asks() -> list[Any]:
    """Gates one after the other and side by side; a signal that comes early, one that is waited for, one too
    large for the log, and one that never comes."""
    first = told("asks", "tend#1", tend(1))
    found: list[Any] = [ask("asks", "send#1", approval("send", show=first))]
    emit("progress", first)
    found.append(told("asks", "early#1", wait_for("early")))
    checkpoint("half", found=found)
    found.append(parallel(desk, [1, 2]))
    found.append(len(told("asks", "parcel#1", wait_for("parcel"))))
    try:
        wait_for("never", timeout=0.02)
    except StepTimeout:
        here().say("told", "asks", "never#1", "-")
        found.append("never")
    return found


async def berth(n: int) -> str:
    at = f"berth[{n}]/"
    outcome = ask("calls", f"{at}moor#1", await approval.aio("moor", show=n))
    return outcome + str(told("calls", f"{at}atend#1", await atend(n)))


async def tow() -> None:
    await wait_for.aio("tow")


@workflow
async def calls() -> list[Any]:
    """The same in an event loop, and a wait that the code gives up."""
    found: list[Any] = [told("calls", "paid#1", await wait_for.aio("paid"))]
    await checkpoint.aio("half")
    found.append(await gather(berth(1), berth(2)))
    found.append(ask("calls", "leave#1", await approval.aio("leave", show=found, timeout=3600)))
    waits = asyncio.ensure_future(tow())
    found.append(told("calls", "atend#1", await atend(3)))
    waits.cancel()
    await asyncio.wait([waits])
    return found


@step
def lull() -> str:
    """So long that somebody can pause the run in it."""
    with body():
        time.sleep(0.03)
        return "calm"


@workflow
def adrift() -> None:
    """Ends when somebody cancels it."""
    told("helm.adrift-1", "tend#1", tend(2))
    approval("rescue")


@workflow
def helm() -> list[Any]:
    """Paused at a gate and in a step; a child of it is cancelled."""
    found = [ask("helm", "sail#1", approval("sail")), told("helm", "lull#1", lull())]
    try:
        adrift()
    except RunCancelled:
        here().say("told", "helm", "adrift#1", "-")
        found.append("lost")
    return [*found, told("helm", "tend#1", tend(3))]


@step
def tack(n: int) -> str:
    """Says of which run and generation it is: so what is taken over tells where it comes from."""
    with body():
        run, generation, _ = idempotency_key().split(":", 2)
        return f"{run}:{generation}:{n}"


def tacked(n: int) -> str:
    value = tack(n)
    run, generation, _ = value.split(":")
    return told(run, place(f"tack#{n}", int(generation)), value)


@workflow
def turns() -> list[str]:
    stage("out")
    found = [tacked(1), tacked(2)]
    patched("reef")
    checkpoint("half", found=found)
    stage("home")
    found.append(tacked(3))
    if approval("gybe", show=found).outcome == "approved":
        found.append(tacked(4))
    return found


@workflow
def old() -> str:
    return told("old", "freight#1", freight())


@step
def freight() -> str:
    with body():
        return "f" * 40_000


# Steering


def attend(hf: Holdfast, run: Run[Any], steer: Steer | None) -> Any:
    """The result of a run, while somebody steers it; without `steer`, somebody else does."""
    while True:
        if steer is not None:
            steer(hf)
        try:
            return run.result(None if steer is None else LOOK_S)
        except RunWaiting:
            continue
        except RunPaused as paused:
            _say_what_else(paused)
            run = hf.resume(run.id)


def _say_what_else(paused: RunPaused) -> None:
    """A child run of it was ended by an error of the store while it was being paused: its caller is told of
    the pause, and of the error as its cause. A body of the child may have been cut off, as by an error that
    ends a try."""
    if isinstance(paused.__cause__, StoreError):
        here().say("again", type(paused.__cause__).__name__, paused.__cause__.code)


def answer(hf: Holdfast, run_id: str) -> None:
    """Decide what is open, send what is waited for."""
    for key, opened in _open_gates(hf, run_id):
        if opened["kind"] == "signal":
            if opened["name"] in SIGNALS:
                _send(hf, run_id, opened["name"])
            continue
        decide = hf.reject if key.startswith("desk[2]") else hf.approve
        decide(run_id, key, opened["digest"], by="clerk", comment=f"seen {key}")
        outcome = "rejected" if decide == hf.reject else "approved"
        here().say("decided", run_id, place(key, hf.get(run_id).generation), outcome)


def answer_asks(hf: Holdfast) -> None:
    if _goes_on(hf, "asks") and not _happened(hf, "asks", "SignalReceived", name="early"):
        _send(hf, "asks", "early")
    answer(hf, "asks")


def answer_calls(hf: Holdfast) -> None:
    answer(hf, "calls")


def steer_helm(hf: Holdfast) -> None:
    """Pause at the gate before it is decided, and once more in a step; cancel the child at its gate."""
    if not _goes_on(hf, "helm"):
        return
    pauses = [event for event in hf.events("helm") if event.type == "RunPaused"]
    if not pauses and any(_open_gates(hf, "helm")):
        _stop(hf.pause, "helm")
    elif pauses:
        answer(hf, "helm")
    running = [one.key for one in hf.steps("helm") if one.status == "running"]
    if "lull#1" in running and not _happened(hf, "helm", "PauseRequested", reason="lull"):
        _stop(hf.pause, "helm", "lull")
    child = "helm.adrift-1"
    if _goes_on(hf, child) and any(_open_gates(hf, child)):
        _stop(hf.cancel, child)


def answer_turns(hf: Holdfast) -> None:
    for run_id in ("turns", "twig"):
        answer(hf, run_id)


def _open_gates(hf: Holdfast, run_id: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if not _goes_on(hf, run_id):
        return
    waiting = [one.key for one in hf.steps(run_id) if one.status == "waiting"]
    if waiting:
        opened = {event.data["key"]: event.data for event in hf.events(run_id) if event.type == "GateOpened"}
        yield from ((key, opened[key]) for key in waiting)


def _goes_on(hf: Holdfast, run_id: str) -> bool:
    try:
        return hf.get(run_id).status not in ("completed", "failed", "cancelled")
    except RunNotFound:
        return False


def _happened(hf: Holdfast, run_id: str, type: str, **fields: Any) -> bool:
    wanted = fields.items()
    return any(event.type == type and wanted <= event.data.items() for event in hf.events(run_id))


def _send(hf: Holdfast, run_id: str, name: str) -> None:
    hf.signal(run_id, name, SIGNALS[name], by="clerk")
    here().say("sent", run_id, name, digest(canonical(SIGNALS[name])))


def _stop(how: Callable[..., str], run_id: str, reason: str = "") -> None:
    try:
        status = how(run_id, reason, by="clerk", patience=0.5)
    except Refused:
        return  # it has come to its end meanwhile
    if status in ("paused", "cancelled"):
        here().say("stopped-at", run_id, status)


# Operations


def begin_turns(home: Path) -> None:
    """A run that has ended, and one to be archived."""
    with speaking(Side(None)), Holdfast(home) as hf:
        hf.with_id("old").run(old)
        attend(hf, hf.with_id("turns").start(turns), answer_turns)


def take_turns(hf: Holdfast, wait: Attend) -> Any:
    """Rewind, continue, undo, undo that, fork, archive: what the lives before have not done."""
    done = len(hf.operations("turns"))
    if done == 0:
        hf.rewind("turns", to="half")
    if done <= 1:
        wait(hf.resume("turns"))
        hf.undo()
    if done <= 2:
        hf.undo()
    known = {run.id for run in hf.runs()}
    if "twig" not in known:
        hf.fork("turns", at="tack#3", into="twig")
    wait(hf.resume("twig"))
    if "old" in known:
        just_after = hf.get("old").updated_at + timedelta(microseconds=1)
        archiving.archive(hf._store, hf.home, just_after, hf.home / "archive", SystemClock())
    return hf.resume("turns").result()


# Plans

_TACKS = ("tack#1", "tack#2", "half#1", "tack#3", "gybe#1", "tack#4")
_MARKS = ("patched@reef", "stage#1", "stage#2")
_BACK = ["turns:0:1", "turns:0:2"]

ASKS: Plan = {
    "asks": RunPlan(
        (
            *("tend#1", "send#1", "early#1", "half#1", "parcel#1", "never#1"),
            *(f"desk[{n}]/{key}" for n in (1, 2) for key in ("turn#1", "tend#1")),
        ),
        canonical(["approved", 17, ["approved1", "rejected4"], 40_000, "never"]),
        marks=("progress#1",),
    )
}
CALLS: Plan = {
    "calls": RunPlan(
        (
            *("paid#1", "half#1", "leave#1", "atend#1"),
            *(f"berth[{n}]/{key}" for n in (1, 2) for key in ("moor#1", "atend#1")),
        ),
        canonical([SIGNALS["paid"], ["approved1", "approved4"], "approved", 9]),
        given_up=frozenset({"tow[1]/tow#1"}),
    )
}
HELM: Plan = {
    "helm": RunPlan(
        ("sail#1", "lull#1", "adrift#1", "tend#1"),
        canonical(["approved", "calm", "lost", 9]),
        fails=frozenset({"adrift#1"}),
        failures={"adrift#1": range(1, 2)},
        silent=frozenset({"adrift#1"}),
    ),
    "helm.adrift-1": RunPlan(("tend#1", "rescue#1"), "", status="cancelled"),
}
TURNS: Plan = {
    "turns": RunPlan(_TACKS, canonical([*_BACK, "turns:1:3", "turns:1:4"]), marks=_MARKS),
    "twig": RunPlan(_TACKS, canonical([*_BACK, "twig:0:3", "twig:0:4"]), marks=_MARKS),
    "old": RunPlan(("freight#1",), canonical("f" * 40_000), status="archived"),
}
