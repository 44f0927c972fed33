"""`timeout(seconds)`: a limit on several steps together, the same in every replay."""

import asyncio
import os
import threading
from datetime import timedelta

import pytest

from holdfast import Retry, command, sleep, step, timeout
from holdfast.errors import BadInput, StepTimeout
from holdfast.testing import FakeClock


def test_a_step_that_would_begin_after_the_deadline_fails_at_once(open_hf, twice, ran):
    """It is recorded as failed without its body having run, so replay takes the same way."""
    clock = FakeClock()

    @step
    def work(name: str) -> str:
        ran.append(name)
        clock.advance(40)
        return name

    def plot():
        done = []
        try:
            with timeout(60):
                done.append(work("a"))
                done.append(work("b"))
                done.append(work("c"))
        except StepTimeout as late:
            done.append((late.step, late.scope))
        done.append(work("after"))
        return done

    expected = ["a", "b", ("work#3", "deadline"), "after"]
    assert twice(plot, clock=clock) == (expected, expected)
    assert ran == ["a", "b", "after"]


def test_a_running_step_is_cut_at_the_deadline(hf, act):
    """In both colours; the limit of the step itself counts if it is shorter."""
    done = threading.Event()

    @step
    def work() -> None:
        done.wait(30)

    @step(timeout=20)
    async def awork() -> None:
        await asyncio.sleep(30)

    def plot():
        with timeout(0.05):
            work()

    async def aplot():
        with timeout(0.05):
            await awork()

    with pytest.raises(StepTimeout, match="work#1"):
        hf.run(act(plot))
    done.set()
    with pytest.raises(StepTimeout, match="awork#1"):
        hf.run(act(aplot))


def test_the_deadline_is_that_of_the_first_execution(open_hf, crashes, act, ran):
    """A resumed run has the time that was left, not a fresh minute."""
    clock = FakeClock()

    @step
    def work(name: str) -> None:
        ran.append(name)
        if name == "a" and len(ran) == 1:
            clock.advance(30)

    def plot():
        with timeout(60):
            work("a")
            work("b")

    first = open_hf(clock=clock)
    crashes.arm(first, 2)  # the claim and the first step
    with pytest.raises(Exception, match="dead"):
        first.with_id("x").run(act(plot))
    crashes.bury(first)
    clock.advance(31)
    with pytest.raises(StepTimeout, match="work#2"):
        open_hf(clock=clock).with_id("x").run(act(plot))
    assert ran == ["a", "b"]


def test_deadlines_nest_and_end_with_their_block(open_hf, act):
    """The nearest deadline counts inside, the outer one again after it, none after both."""
    clock = FakeClock()
    hf = open_hf(clock=clock)

    @step
    def work(seconds: int) -> int:
        clock.advance(seconds)
        return seconds

    def plot():
        out = []
        with timeout(100):
            with timeout(10):
                out.append(work(11))
                try:
                    work(0)
                except StepTimeout:
                    out.append("inner")
            out.append(work(100))
            try:
                work(0)
            except StepTimeout:
                out.append("outer")
        out.append(work(1))
        return out

    assert hf.run(act(plot)) == [11, "inner", 100, "outer", 1]


def test_no_retry_begins_after_the_deadline(open_hf, act, ran):
    """A retry that would begin too late is not waited for: the error comes at once."""
    hf = open_hf(clock=FakeClock())

    @step(retry=Retry(attempts=9, initial=25, factor=1, jitter=0))
    def work() -> None:
        ran.append(1)
        raise ValueError("no")

    def plot():
        with timeout(60):
            work()

    with pytest.raises(ValueError, match="no"):
        hf.run(act(plot))
    assert len(ran) == 3


def test_a_deadline_outside_a_run_does_nothing():
    """Code that is called plainly is not limited."""
    with timeout(0.000001):
        pass
    with pytest.raises(BadInput):
        timeout(0)


def test_a_once_step_that_would_begin_too_late_is_a_failure_not_a_doubt(open_hf, act, ran):
    """Its body never ran: there is nothing to settle."""
    clock = FakeClock()
    hf = open_hf(clock=clock)

    @step
    def slow() -> None:
        clock.advance(61)

    @step(effect="once")
    def pay() -> None:
        ran.append("paid")

    def plot():
        with timeout(60):
            slow()
            try:
                pay()
            except StepTimeout as late:
                return late.scope

    assert hf.with_id("x").run(act(plot)) == "deadline"
    assert (ran, [info.status for info in hf.steps("x")]) == ([], ["completed", "failed"])


@pytest.mark.parametrize("colour", ["def", "async def"])
def test_a_child_run_keeps_the_deadline_of_its_parent(hf, act, ran, colour):
    """Its steps fail at the deadline, and it ends before its parent continues: nothing is stranded."""

    @step
    async def aslow() -> None:
        await asyncio.sleep(0.2)

    @step
    def slow() -> None:
        threading.Event().wait(0.2)

    @step
    def after() -> None:
        ran.append("after the deadline")

    def inner():
        slow()
        after()

    async def ainner():
        await aslow()
        await after.aio()

    child = act(inner if colour == "def" else ainner, "child")

    def plot():
        with timeout(0.05):
            try:
                child()
            except StepTimeout:
                return "late"

    async def aplot():
        with timeout(0.05):
            try:
                await child()
            except StepTimeout:
                return "late"

    assert hf.with_id("x").run(act(plot if colour == "def" else aplot)) == "late"
    assert [(run.parent, run.status) for run in hf.runs()] == [("x", "failed"), ("", "completed")]
    assert ran == []


@pytest.mark.parametrize("colour", ["def", "async def"])
def test_a_command_is_ended_at_the_deadline(hf, act, tmp_path, colour):
    """Its tree is dead before the workflow continues."""
    pid = tmp_path / "pid"
    argv = ["sh", "-c", f"echo $$ > {pid}; exec sleep 600"]

    def is_dead():
        return not os.path.exists(f"/proc/{pid.read_text().strip()}")

    def plot():
        with timeout(0.5):
            try:
                command(argv, effect="idempotent")
            except StepTimeout:
                return is_dead()

    async def aplot():
        with timeout(0.5):
            try:
                await command.aio(argv, effect="idempotent")
            except StepTimeout:
                return is_dead()

    assert hf.run(act(plot if colour == "def" else aplot)) is True


@pytest.mark.parametrize("colour", ["def", "async def"])
def test_a_sleep_beyond_the_deadline_ends_there(twice, colour):
    """It wakes up at the deadline and fails; replay fails in the same place, at once."""
    clock = FakeClock()
    start = clock.now()

    def plot():
        try:
            with timeout(60):
                sleep(30)
                sleep(3600)
        except StepTimeout as late:
            return [late.step, late.scope]

    async def aplot():
        try:
            with timeout(60):
                await sleep.aio(30)
                await sleep.aio(3600)
        except StepTimeout as late:
            return [late.step, late.scope]

    live, replayed = twice(plot if colour == "def" else aplot, clock=clock)
    assert live == replayed == ["sleep#2", "deadline"]
    assert clock.now() - start == timedelta(seconds=60)


def test_a_sleep_beyond_the_deadline_is_over_there_for_whoever_goes_on(open_hf, act):
    """The run is ready at the deadline, not an hour later."""
    hf = open_hf()

    def plot():
        with timeout(30):
            sleep(3600)

    hf.with_id("x").start(act(plot)).rested.wait(30)
    now = hf._engine.clock.now_us()
    assert now < hf._store.next_due(now) <= now + 31_000_000
    assert [run_id for run_id, _ in hf._store.ready_runs(now + 31_000_000)] == ["x"]
