"""Short histories for tests of stores: runs that are owned, steps, a run in which everything happens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from decimal import Decimal

import msgspec

from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.decide import decide
from holdfast.kernel.events import Failure
from holdfast.kernel.evolve import evolve, fold
from holdfast.store.port import NO_EVENTS, Append, Decision, Entry, Recorded, Store, new_event

CODE = e.Code("flow", "module")


def perform(store: Store, run: str, *commands: c.Command, at: int = 1, durable: bool = True) -> int:
    """The events that the commands lead to, decided inside the store's transaction, as the engine does it."""

    def decide_now(recorded: Sequence[Recorded]) -> Decision:
        state = fold(recorded)
        events = []
        for command in commands:
            for event in decide(state, command):
                state = evolve(state, event, (state.version if state else 0) + 1, at)
                events.append(event)
        claimed = [event.epoch for event in events if isinstance(event, e.FENCING)]
        return Decision("run", [new_event(event, at) for event in events], claimed[-1] if claimed else None)

    return store.command(run, decide_now, durable=durable)


def own(store: Store, run: str, owner: str = "me") -> None:
    """A run that `owner` has created and claimed: two events, epoch 1."""
    perform(store, run, c.CreateRun(run, CODE, "d"), c.ClaimRun(run, owner))


def step_append(run: str, key: str, *, epoch: int = 1, at: int = 2, durable: bool = True) -> Append:
    """The hot path: a step that ran."""
    ran = e.StepRan(key, key.partition("#")[0], at - 1, result=msgspec.Raw(b"1"))
    return Append(run, epoch, [new_event(ran, at)], durable=durable)


def start_append(run: str, key: str, *, epoch: int = 1, at: int = 2, durable: bool = True) -> Append:
    """The plain path: an event that becomes a row."""
    started = e.StepStarted(key, key.partition("#")[0])
    return Append(run, epoch, [new_event(started, at)], durable=durable)


def output_append(run: str, text: str, *, epoch: int = 1, durable: bool = True) -> Append:
    """The smallest append: one event that changes no projection but the run's version."""
    return Append(run, epoch, [new_event(e.OutputCaptured("a#1", 1, "stdout", text), 3)], durable=durable)


def archived(store: Store, run: str) -> e.StreamArchived:
    """The record of the run's archiving, as its head is now."""
    last = list(store.entries(run))[-1]
    return e.StreamArchived(run, last.version, last.hash.hex(), "file")


def whole_feed(store: Store, cursor: str = "", limit: int = 1000) -> list[Entry]:
    found: list[Entry] = []
    page = store.feed(cursor, limit=limit)
    while page.entries:
        found += page.entries
        page = store.feed(page.cursor, limit=limit)
    return found


def in_threads(*bodies: Callable[[], object]) -> None:
    """Run all at once; raise what one of them raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(bodies))

    def run(body: Callable[[], object]) -> None:
        try:
            start.wait(30)
            body()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(body,), daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs in the store"
    if errors:
        raise errors[0]


def together(store: Store, *appends: Append) -> None:
    """Submit the appends while a command keeps the store busy, so that a store that groups commits
    has them in one batch. Refusals are left in `error`."""
    queued, done = threading.Event(), threading.Semaphore(0)

    def hold(_: Sequence[Recorded]) -> Decision:
        holding.set()
        queued.wait(0.2)  # a store without a queue lets no other in before this ends
        return NO_EVENTS

    holding = threading.Event()
    holder = threading.Thread(target=store.command, args=("nobody", hold), daemon=True)
    holder.start()
    assert holding.wait(30)
    for append in appends:
        store.append_soon(append, lambda _: done.release())
    queued.set()
    holder.join(30)
    for _ in appends:
        assert done.acquire(timeout=30), "an append was never acknowledged"


def failure(message: str = "no") -> Failure:
    return Failure("builtins:ValueError", message)


EVERYTHING: Sequence[Sequence[c.Command]] = (
    (c.CreateRun("r", CODE, "d", parent="above", parent_step="child#1"), c.ClaimRun("r", "me")),
    (c.StartStep("a#1", "a", ordinal=1), c.CompleteStep("a#1", msgspec.Raw(b'"x"'))),
    (c.RunStep(e.StepRan("quick#1", "quick", 1, ordinal=2, result=msgspec.Raw(b"[2]"))),),
    (c.StartStep("b#1", "b", ordinal=3), c.FailAttempt("b#1", failure(), retry_at=77)),
    (c.StartStep("b#1", "b", ordinal=3), c.CaptureOutput("b#1", "stdout", "line\n")),
    (c.FailAttempt("b#1", failure()), c.FailRun(failure(), ("b#1",))),
    (c.ReopenRun("r"), c.ClaimRun("r", "you")),
    (c.StartStep("b#1", "b", ordinal=3), c.CompleteStep("b#1")),
    (c.Record(e.ValueRecorded("now#1", 4, msgspec.Raw(b"5"))), c.Record(e.SleepStarted("sleep#1", 5, 99))),
    (c.ReleaseRun("r", "you"), c.ClaimRun("r", "you")),
    (c.Record(e.SleepEnded("sleep#1")), c.StartStep("pay#1", "pay", ordinal=6, effect="once")),
    (c.DoubtStep("r", "pay#1", "was cut off"), c.AttendRun("in_doubt", "look: ¿\0?", "pay#1")),
    (c.ReleaseRun("r", "you"), c.SettleStep("r", "pay#1", "retry", "ann")),
    (c.ClaimRun("r", "me", force=True), c.StartStep("pay#1", "pay", ordinal=6, effect="once")),
    (
        c.SettleStep("r", "pay#1", "done", abandoned=True),
        c.StartStep("kid#1", "kid", kind="child", child="k"),
    ),
    (
        c.SendSignal("r", "go", msgspec.Raw(b'"early"')),
        c.Record(e.GateOpened("go#1", 7, "signal", "go")),
        c.Record(e.GateOpened("send#1", 8, "approval", "send", "d1", msgspec.Raw(b'"text"'), until=500)),
    ),
    (
        c.Record(e.EvidenceWritten("half#1", "half", "digest", "", "observed", until=20)),
        c.Record(e.CheckpointTaken("half#1", 9, "half", msgspec.Raw(b"{}"))),
        c.VerifyEvidence("r", "half#1", "digest", "equal", by="ann"),
        c.Record(e.Emitted("tokens", msgspec.Raw(b'"x"'), "tokens#1", 10)),
    ),
    (
        c.Record(e.PatchSeen("patched@fix", "fix")),
        c.Record(e.Emitted("progress", msgspec.Raw(b"1"), step="kid#1", attempt=1)),
    ),
    (
        c.DecideGate("r", "approved", "send", "d1", "ann", "fine"),
        c.Record(e.GateOpened("late#1", 11, "signal", "late", until=1)),
    ),
    (c.ExpireGate("late#1", 2), c.Record(e.GateOpened("never#1", 12, "approval", "never", "d2"))),
    (c.Record(e.SleepStarted("sleep#2", 13, 999)), c.AbandonWait("sleep#2"), c.AbandonWait("go#1")),
    (c.Record(e.StageEntered("stage#1", 14, "first")), c.Record(e.StageEntered("stage#2", 15, "last stage"))),
    (
        c.Record(e.OutcomeReported("outcome#1", 16, "router", "draft", ("small",), True, Decimal("0.0021"))),
        c.Record(
            e.OutcomeReported(
                "outcome#2", 17, "skills", "draft", ("tables", "prose"), False, error="ValueError"
            )
        ),
    ),
    (
        c.Record(e.OutcomeDelivered("go#1")),
        c.Record(e.TimerFired("", 1, 1)),
        c.Record(e.TimerFired("b[1]/", 2, 2)),
    ),
    (c.PauseRun("r", "lunch", "ann", live=True), c.PauseRun("r", "lunch", "ann")),
    (c.ClaimRun("r", "me"), c.CancelRun("r", "enough", "ann", live=True)),
    (c.CancelRun("r", "enough", "ann"),),
)
"""A history in which every command takes part; every one but the last leaves the run going."""
