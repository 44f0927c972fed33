"""Replay: histories are checked against the code, and no body of a step runs."""

import asyncio
import time

import pytest

from holdfast import (
    DivergenceError,
    StoreError,
    approval,
    gather,
    idempotency_key,
    now,
    parallel,
    patched,
    step,
)
from holdfast.engine.execution.execution import Execution
from holdfast.operations.replaying import _Playback, replay

ran: list[str] = []


@pytest.fixture(autouse=True)
def fresh():
    ran.clear()


def make(name):
    def body(n: int = 0) -> str:
        ran.append(name)
        return name

    return step(name=name)(body)


a, b, z = map(make, "abz")


@step
async def ask(n: int) -> int:
    ran.append(f"ask {n}")
    return n


@step(effect="once")
def pay() -> str:
    ran.append(idempotency_key())
    return "paid"


@step(secret=True)
def secret() -> str:
    ran.append("secret")
    return "s3cret"


@pytest.fixture
def recorded(open_hf, act, crashes):
    """Executes a plot until `appends` were written, crashes, and gives a Holdfast with its history."""

    def record(plot, appends=None):
        first = open_hf()
        if appends is None:
            first.with_id("r").run(act(plot))
        else:
            crashes.arm(first, appends)
            with pytest.raises(StoreError):
                first.with_id("r").run(act(plot))
        crashes.bury(first)
        ran.clear()
        return open_hf()

    return record


def check(hf):
    """The verdict, with nothing run and nothing written."""
    tail = hf._store.tail()
    found = replay(hf._engine, "r")
    assert (ran, hf._store.tail(), list(hf._store.verify())) == ([], tail, [])
    return found


def test_a_run_in_flight_matches_up_to_where_its_history_ends(recorded):
    """The first call that is not recorded is named."""
    found = check(recorded(lambda: [a(), now(), b(), z()], 3))
    assert (found.verdict, found.reached, found.calls, found.why) == ("matches", "z#1", 3, "")


def test_a_finished_run_matches_to_its_end(recorded):
    found = check(recorded(lambda: [a(), b()]))
    assert (found.verdict, found.reached, found.calls) == ("matches", "", 2)


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (lambda: [b(), a()], "recorded is a#1 as call 1 of its scope, the code calls b#1"),
        (lambda: [a(1), b()], "a#1 with other arguments"),
        (lambda: [a()], "nothing more"),
        (lambda: [a(), z(), b()], "recorded is b#1, the code calls z#1"),
    ],
)
def test_changed_code_diverges(recorded, act, new, why):
    """A step that moved, that is called otherwise, left out, or put between: both sides are named."""
    hf = recorded(lambda: [a(), b()], 3)
    act(new)
    found = check(hf)
    assert found.verdict == "diverges" and why in found.why


def test_patched_makes_a_change_match(recorded, act):
    """A run that had passed the place goes the old way, and one that has not come to it, the new one."""
    hf = recorded(lambda: [a(), b()], 3)
    act(lambda: [a(), z() if patched("more") else None, b()])
    found = check(hf)
    assert (found.verdict, found.calls) == ("matches", 2)
    act(lambda: [a(), b(), z() if patched("later") else None])
    found = check(hf)
    assert (found.verdict, found.calls, found.reached) == ("matches", 2, "z#1")


def test_a_gate_that_waits_is_where_the_history_ends(hf, act):
    """Nothing is decided, opened or waited for."""
    run = hf.with_id("r").start(act(lambda: [a(), approval("send").outcome]))
    while hf.get("r").status != "waiting" or hf.get("r").owner_pid:
        time.sleep(0.005)  # It waits as soon as its gate is open; that it is released is written after that.
    ran.clear()
    found = check(hf)
    assert (found.verdict, found.reached) == ("matches", "send#1")
    hf.approve("r")
    assert run.result(30) == ["a", "approved"]


def test_code_that_raises_before_the_end_of_its_history_diverges(recorded, act):
    """And one that raises after it matches: so the run would end."""
    hf = recorded(lambda: [a(), b()], 3)
    act(lambda: [a(), 1 // 0])
    assert check(hf).verdict == "diverges"
    act(lambda: [a(), b(), 1 // 0])
    found = check(hf)
    assert (found.verdict, found.why) == ("matches", "ZeroDivisionError: integer division or modulo by zero")


def test_a_step_that_was_cut_off_does_not_run(recorded):
    """Its beginning is recorded, and nothing else: there the history ends."""
    found = check(recorded(lambda: [a(), pay()], 3))
    assert (found.verdict, found.reached) == ("matches", "pay#1")


def test_a_secret_step_does_not_run(recorded):
    """Its result was never stored, so nothing behind it can be checked."""
    found = check(recorded(lambda: [a(), secret(), b()]))
    assert (found.verdict, found.reached) == ("matches", "secret#1")


def test_a_step_in_a_finally_is_no_divergence(recorded):
    """What the end of the history unwinds is not held against the code."""

    def plot():
        try:
            a()
            return b()
        finally:
            z()

    assert check(recorded(plot, 2)).verdict == "matches"


def test_every_branch_is_checked_to_its_own_end(recorded, act):
    """One branch that has more to do does not hide what another one does otherwise."""

    def branches(second):
        def one(name):
            if name == "first":
                return b(1)
            return second()

        return lambda: [a(), parallel(one, ["first", "second"], limit=1)]

    hf = recorded(branches(lambda: z(1)))
    assert check(hf).verdict == "matches"
    act(branches(lambda: z(2)))
    assert check(hf).verdict == "diverges"


def test_an_async_workflow_is_replayed_too(recorded, act):
    """With gather and plain tasks; a changed branch diverges."""

    def make_plot(last):
        async def plot():
            both = await gather(ask(1), ask(2))
            async with asyncio.TaskGroup() as group:
                task = group.create_task(branch(last))
            return [*both, task.result()]

        return plot

    async def branch(n):
        return await ask(n)

    hf = recorded(make_plot(3))
    found = check(hf)
    assert (found.verdict, found.calls) == ("matches", 3)
    act(make_plot(4))
    assert check(hf).verdict == "diverges"


def test_calls_that_are_no_longer_made_diverge(recorded, act):
    """The last one of a branch, a whole branch, one with a key of its own."""

    def branches(items, *calls):
        def one(n):
            return [call(n) for call in calls]

        return lambda: parallel(one, items)

    def keyed(*keys):
        return lambda: [a.with_key(key)(1) for key in keys]

    hf = recorded(branches([1, 2], a, b))
    assert check(hf).verdict == "matches"
    act(branches([1, 2], a))
    assert "the branch has ended" in check(hf).why
    act(branches([1], a, b))
    assert check(hf).why.startswith("recorded is one[2]/a#1")
    hf.with_id("r2").run(act(keyed("x", "y")))
    act(keyed("y", "x"))
    assert replay(hf._engine, "r2").verdict == "matches"
    act(keyed("x"))
    assert replay(hf._engine, "r2").why.startswith("recorded is a@y")


def test_an_async_branch_that_ends_too_soon_diverges(recorded, act):
    """Plain tasks and `gather` alike."""

    def make_plot(calls):
        async def one(n):
            return [await ask(n) for _ in range(calls)]

        async def plot():
            async with asyncio.TaskGroup() as group:
                group.create_task(one(1))
            return await gather(one(2), one(3))

        return plot

    hf = recorded(make_plot(2))
    assert check(hf).verdict == "matches"
    act(make_plot(1))
    assert "the branch has ended" in check(hf).why


def test_child_runs_are_replayed_too(recorded, act):
    """Their code is today's as well; one that has not ended is played as far as it came."""
    kid = act(lambda: [a(), b()], "child")
    hf = recorded(lambda: [a(), kid()])
    found = check(hf)
    assert (found.verdict, found.calls) == ("matches", 4)
    act(lambda: [a()], "child")
    found = check(hf)
    assert (found.verdict, found.why.partition(":")[0]) == ("diverges", "in child run r.child-1")


def test_a_branch_that_ends_too_soon_stops_a_resumed_run(recorded, act):
    """As the function itself does: what was recorded would be as if it had never been."""

    def branches(*calls):
        def one(n):
            return [call(n) for call in calls]

        return lambda: [parallel(one, [1, 2], limit=1), z()]

    hf = recorded(branches(a, b), 5)
    act(branches(a))
    with pytest.raises(DivergenceError, match="the branch has ended"):
        hf.resume("r").result(30)


def test_code_that_cannot_be_loaded_is_told(hf, act, monkeypatch):
    """And counts neither as a match nor as a divergence."""
    hf.with_id("r").run(act(lambda: a()))
    from holdfast.engine.runs import code
    from holdfast.errors import CodeNotFound

    def gone(_):
        raise CodeNotFound("flow.py:flow", "the file is gone")

    monkeypatch.setattr(code, "load", gone)
    found = replay(hf._engine, "r")
    assert (found.verdict, found.why) == ("unloadable", "the file is gone")


@pytest.mark.parametrize("name", ["recall", "reach", "note", "make_append", "transact", "task_ended"])
def test_a_playback_replaces_what_would_write(name):
    """Each of these is a method of an execution under the same name, and not inherited from it."""
    assert callable(getattr(Execution, name)) and name in vars(_Playback)
