"""Events: the callback gets what the log has, once each, in order, and only what is durable."""

import asyncio
import threading

import pytest
from tests.engine.test_gates import until

from holdfast import (
    Retry,
    RunCancelled,
    StoreError,
    approval,
    command,
    gather,
    now,
    parallel,
    sleep,
    step,
    wait_for,
)
from holdfast.testing import FakeClock


@step
def work(name: str) -> str:
    return name


@step
async def awork(name: str) -> str:
    await asyncio.sleep(0)
    return name


@step(retry=Retry(attempts=2))
def flaky(tries: list) -> None:
    raise ValueError("no")


def plain():
    work("a")
    now()
    sleep(5)
    parallel(work, "bcd")
    try:
        flaky([])
    except ValueError:
        pass
    command(["echo", "hello"], effect="idempotent")
    now()
    return 1


async def coloured():
    await awork("a")
    await gather(*(awork(name) for name in "bcd"))
    await sleep.aio(5)
    now()
    return 1


@pytest.mark.parametrize("plot", [plain, coloured])
def test_the_callback_gets_all_events_in_order(open_hf, act, plot):
    """It is told the same as `events()` gives, version by version."""
    told = []
    hf = open_hf(clock=FakeClock(), on_event=told.append)
    chosen = act(plot)
    hf.with_id("x").run(chosen)
    logged = hf.events("x")
    assert [event.version for event in logged] == list(range(1, len(logged) + 1))
    assert told == logged


def test_the_callback_is_told_what_every_reader_is_told(open_hf, act):
    """A secret is hidden from it as `events()` hides it; the log has it, for the replay."""
    secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    told = []
    hf = open_hf(on_event=told.append)
    assert hf.with_id("x").run(act(lambda *args: work(*args)), secret) == secret
    assert told == hf.events("x")
    assert (secret in repr(told), "[redacted:github-token]" in repr(told)) == (False, True)


def test_the_events_of_a_sequence_are_told_in_order(open_hf, act, crashes):
    """One step after the other, across a takeover: the callback gets the log as it grows."""
    told = []
    first = open_hf(on_event=told.append)
    crashes.arm(first, 3)
    with pytest.raises(StoreError):
        first.with_id("x").run(act(lambda: [work(name) for name in "abc"]))
    crashes.bury(first)
    second = open_hf(on_event=told.append)
    second.with_id("x").run(act(lambda: [work(name) for name in "abc"]))
    assert told == second.events("x")


def test_events_are_told_after_they_are_durable(open_hf, act):
    """When the callback hears of a step, another reader of the store sees it."""
    reader = open_hf()
    seen = []

    def tell(event):
        if event.type in ("StepRan", "StepCompleted"):
            seen.append([info.status for info in reader.steps("x")])

    open_hf(on_event=tell).with_id("x").run(act(lambda: [work("a"), work("b")]))
    assert seen == [["completed"], ["completed", "completed"]]


def test_nothing_is_told_of_a_commit_that_failed(open_hf, act, crashes):
    """What the store refused has not happened."""
    told = []
    hf = open_hf(on_event=told.append)
    crashes.arm(hf, 2)
    with pytest.raises(StoreError):
        hf.with_id("x").run(act(lambda: [work("a"), work("b")]))
    crashes.bury(hf)
    completed = [event for event in told if event.type in ("StepRan", "StepCompleted")]
    assert [event.data.get("key") for event in completed] == ["work#1"]


def test_a_long_step_is_announced_while_it_runs(open_hf, act):
    """Its intent is committed after a few milliseconds, and told."""
    begun = threading.Event()

    def tell(event):
        if event.type == "StepStarted":
            begun.set()

    @step
    def slow() -> bool:
        return begun.wait(30)

    hf = open_hf(on_event=tell)
    assert hf.with_id("x").run(act(lambda: slow())) is True
    assert [event.type for event in hf.events("x")] == [
        "RunCreated",
        "RunClaimed",
        "StepStarted",
        "StepCompleted",
        "RunCompleted",
    ]


def test_events_of_one_run_are_only_its_own(hf, act):
    """And the newest run comes first in `runs()`."""
    hf.with_id("x").run(act(lambda: work("a")))
    hf.with_id("y").run(act(lambda: work("b")))
    assert {event.run_id for event in hf.events("x")} == {"x"}
    assert [run.id for run in hf.runs()] == ["y", "x"]
    assert [run.id for run in hf.runs(limit=1)] == ["y"]
    assert hf.runs(status="failed") == []


def test_an_error_of_the_callback_is_not_the_runs(open_hf, act):
    """A program's own mistake in its callback does not fail the run, nor the threads of the store."""

    def tell(event):
        raise RuntimeError("my own mistake")

    hf = open_hf(on_event=tell)
    assert hf.with_id("x").run(act(lambda: work("a"))) == "a"


def test_the_callback_gets_what_others_write(open_hf, act):
    """Decisions and signals that come while the run is parked, or while a branch of it works: once each."""
    told, go = [], threading.Event()
    hf, other = open_hf(on_event=told.append), open_hf()

    @step
    def busy():
        go.wait(20)

    def branch(kind):
        return approval("second").outcome if kind == "gate" else busy()

    def plot():
        now()
        first = approval("first").outcome
        return first, wait_for("kept"), parallel(branch, ["gate", "work"])

    run = hf.with_id("x").start(act(plot))
    until(lambda: other.runs(status="waiting") and other.get("x").owner_pid is None)
    other.signal("x", "kept", 1)
    other.approve("x", by="ann")
    until(lambda: any(step.name == "second" for step in other.steps("x")))
    other.approve("x", by="bob")
    until(lambda: any(event.data.get("by") == "bob" for event in told))
    go.set()
    assert run.result(timeout=20) == ("approved", 1, ["approved", None])
    logged = hf.events("x")
    assert [event.version for event in logged] == list(range(1, len(logged) + 1))
    assert told == logged


def test_nobody_overtakes_a_thread_that_tells(open_hf, act):
    """While one thread calls the program for a beginning, another commits the end: it is told after it, and
    `result()` comes after both."""
    told = []

    def tell(event):
        if event.type == "StepStarted":
            until(lambda: reader.steps("x")[0].status == "completed")
        told.append(event)

    reader, hf = open_hf(), open_hf(on_event=tell)

    @step
    def slow() -> None:
        until(lambda: reader._store.run("x") and reader.steps("x"))

    hf.with_id("x").run(act(lambda: slow()))
    assert told == hf.events("x")


def test_branches_and_others_are_told_in_one_order(open_hf, act):
    """Several threads of the run commit, and somebody sends it signals: version by version, none twice."""
    told = []
    hf, other = open_hf(on_event=told.append), open_hf()

    def branch(name):
        for n in range(5):
            wait_for(name)
            work(f"{name}{n}")

    run = hf.with_id("x").start(act(lambda: parallel(branch, "abc")))
    until(lambda: other._store.run("x"))
    for _ in range(5):
        for name in "abc":
            other.signal("x", name)
    run.result(timeout=20)
    assert told == hf.events("x")


def test_what_ends_a_parked_run_is_told(open_hf, act):
    """Somebody else cancels it: the callback hears of that, too."""
    told = []
    hf, other = open_hf(on_event=told.append), open_hf()
    run = hf.with_id("x").start(act(lambda: approval("go").outcome))
    until(lambda: other.runs(status="waiting") and other.get("x").owner_pid is None)
    other.cancel("x")
    with pytest.raises(RunCancelled):
        run.result(timeout=20)
    assert told == hf.events("x")
