"""Control signals: what stops a run stops it, whatever its code catches."""

import asyncio
import threading

import pytest
from tests.engine.test_gates import until

from holdfast import DivergenceError, InDoubt, RunCancelled, RunPaused, command, now, parallel, sleep, step
from holdfast.engine.execution.control import Control
from holdfast.engine.execution.parking import Parked
from holdfast.errors import NeedsAttention, OwnershipLost, RunInterrupted
from holdfast.kernel import commands as c


@step(effect="once", timeout=0.01)
def doubtful() -> None:
    threading.Event().wait(0.2)


@step
def after(name: str) -> None:
    _ran.append(name)


@step
async def aafter(name: str) -> None:
    _ran.append(name)


@step(effect="once", timeout=0.01)
async def adoubtful() -> None:
    await asyncio.sleep(30)


_ran: list[str] = []


@pytest.fixture(autouse=True)
def _clean():
    _ran.clear()


def refusals(*calls):
    """How many of these calls were refused by the signal that came before."""
    refused = 0
    for call in calls:
        try:
            call()
        except BaseException:
            refused += 1
    return refused


def test_swallowing_a_control_signal_does_not_help(hf, act):
    """`except BaseException` in user code cannot swallow it: every later call raises it again."""
    counted = []

    def plot():
        try:
            doubtful()
        except BaseException:
            pass
        counted.append(
            refusals(
                lambda: after("a"),
                lambda: parallel(after, ["b", "c"]),
                lambda: sleep(0),
                lambda: now(),
                lambda: command(["true"]),
            )
        )
        return "as if nothing had been"

    with pytest.raises(InDoubt):
        hf.with_id("x").run(act(plot))
    assert (counted, _ran) == ([5], [])
    assert hf.get("x").status == "needs_attention"


def test_swallowing_in_async_code_does_not_help(hf, act):
    """The same for coroutines."""
    counted = []

    async def plot():
        try:
            await adoubtful()
        except BaseException:
            pass
        for call in [lambda: aafter("a"), lambda: sleep.aio(0), lambda: command.aio(["true"])]:
            try:
                await call()
            except BaseException:
                counted.append("refused")
        return "as if nothing had been"

    with pytest.raises(InDoubt):
        hf.with_id("x").run(act(plot))
    assert (counted, _ran) == (["refused"] * 3, [])


def test_an_agents_except_exception_does_not_see_it(hf, act):
    """Control signals are no `Exception`."""
    caught = []

    def plot():
        try:
            doubtful()
        except Exception as error:
            caught.append(error)

    with pytest.raises(InDoubt):
        hf.run(act(plot))
    assert caught == []


def test_steps_in_finally_are_refused_while_unwinding(hf, act):
    """A clean-up step would be recorded out of its place."""

    def plot():
        try:
            doubtful()
        finally:
            after("cleanup")

    with pytest.raises(InDoubt):
        hf.run(act(plot))
    assert _ran == []


def test_a_signal_in_one_branch_stops_the_others_at_their_next_step(hf, act):
    """The run as a whole stops; what the failing branch's siblings had begun is recorded."""
    begun = threading.Event()

    @step
    def waits() -> str:
        begun.wait(30)
        return "done"

    def branch(name):
        if name == "a":
            try:
                doubtful()
            finally:
                begun.set()
        else:
            waits()
            after(name)

    with pytest.raises(InDoubt):
        hf.with_id("x").run(act(lambda: parallel(branch, ["a", "b"])))
    assert _ran == []
    done = {info.name: info.status for info in hf.steps("x")}
    assert done["doubtful"] == "in_doubt"
    assert hf.get("x").status == "needs_attention"


def test_closing_stops_a_run_at_its_next_step(open_hf, act):
    """`close()` lets the running body finish and be recorded, then stops; the run is released."""
    hf = open_hf()
    inside, go = threading.Event(), threading.Event()

    @step
    def waits() -> str:
        inside.set()
        go.wait(30)
        return "done"

    def plot():
        waits()
        after("b")
        return "end"

    run = hf.with_id("x").start(act(plot))
    inside.wait(30)
    closer = threading.Thread(target=hf.close)
    closer.start()
    assert hf._engine.live["x"][0].stopping.wait(30)
    go.set()
    closer.join(30)
    with pytest.raises(RunInterrupted, match="Holdfast was closed"):
        run.result(0)
    assert _ran == []
    again = open_hf()
    assert [(info.key, info.status) for info in again.steps("x")] == [("waits#1", "completed")]
    assert [event.type for event in again.events("x")][-1] == "RunReleased"
    assert again.resume("x").result(30) == "end"
    assert _ran == ["b"]


def test_divergence_outranks_nothing_but_stays(hf, act):
    """The first signal stays: a later one does not replace it."""

    def plot():
        try:
            doubtful()
        except BaseException:
            pass
        try:
            doubtful()
        except DivergenceError:
            return "never"

    with pytest.raises(InDoubt, match="doubtful#1"):
        hf.run(act(plot))


RANKS = [
    Parked("x", 0),
    Control(RunInterrupted("x", "closed")),
    Control(RunPaused("x", "lunch"), [c.PauseRun("x", "lunch")]),
    Control(NeedsAttention("x", "look"), [c.AttendRun("divergence", "look")]),
    Control(RunCancelled("x", "enough"), [c.CancelRun("x", "enough")], at_once=True),
    Control(OwnershipLost("x"), silent=True),
]
"""What stops a run, the strongest last."""


@pytest.mark.parametrize("strong", range(len(RANKS)))
@pytest.mark.parametrize("weak", range(len(RANKS)))
def test_what_stops_a_run_has_ranks(weak, strong):
    """Each is replaced by what says more, and by nothing else."""
    assert RANKS[strong].outranks(RANKS[weak]) == (strong > weak)


@pytest.mark.parametrize("first", ["pause", "interrupt"])
def test_a_cancel_follows_what_only_stops_the_run(open_hf, act, first):
    """A body that a pause, or a process that ends, would have let end is cancelled, and so is the run."""
    hf, other = open_hf(), open_hf()

    @step
    async def long() -> None:
        await asyncio.sleep(600)

    async def plot():
        await long()

    run = hf.with_id("x").start(act(plot))
    until(lambda: other._store.run("x") and other.steps("x"))
    execution = hf._engine.live["x"][0]
    if first == "pause":
        assert other.pause("x", patience=0) == "running"
        until(lambda: execution.control is not None)
    else:
        execution.interrupt("its process ends")
    assert other.cancel("x", patience=20) == "cancelled"
    with pytest.raises(RunCancelled):
        run.result(20)
    assert hf.get("x").status == "cancelled"
