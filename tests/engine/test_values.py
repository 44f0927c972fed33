"""`now`, `random`, `uuid`: the same in every replay, and no commit of their own."""

import asyncio
import uuid as uuids
from datetime import UTC, datetime, timedelta

import pytest

from holdfast import gather, now, random, step, uuid
from holdfast.errors import WrongColour
from holdfast.testing import FakeClock


@step
def work() -> None: ...


@step
async def awork() -> None: ...


def test_replay_gives_the_same_values(twice):
    """What was drawn before a recorded step is drawn again, whatever the clock says by then."""
    clock = FakeClock()

    def plot():
        drawn = (now(), random(), uuid(), now())
        work()
        clock.advance(5)
        return drawn

    live, replayed = twice(plot, clock=clock)
    assert live == replayed
    assert [type(value) for value in live] == [datetime, float, uuids.UUID, datetime]
    assert live[0] == live[3]


def test_async_branches_draw_their_own(twice):
    """A value belongs to its scope, as a step does."""

    async def branch():
        drawn = uuid()
        await awork()
        return drawn

    async def plot():
        return list(await asyncio.gather(branch(), branch()))

    live, replayed = twice(plot)
    assert live == replayed
    assert live[0] != live[1]


def test_values_ride_with_the_next_commit(open_hf, act):
    """They are in the log in order, in the same append as the next step, and cost none themselves."""
    hf = open_hf()
    hf._engine.flusher._after_s = 60.0
    appends = []
    store = hf._engine.store
    append = store.append

    def counting(item):
        append(item)
        appends.append([event.type for event in item.events])

    store.append = counting  # type: ignore[method-assign]

    def plot():
        now()
        random()
        work()
        uuid()

    hf.with_id("x").run(act(plot))
    assert appends == [
        ["ValueRecorded", "ValueRecorded", "StepRan"],
        ["ValueRecorded", "RunCompleted"],
    ]


def test_values_of_a_run_that_died_before_a_commit_are_drawn_anew(open_hf, act, crashes):
    """Nobody saw them: they were in no durable result."""
    clock = FakeClock()
    drawn = []

    def plot():
        drawn.append(now())
        work()

    first = open_hf(clock=clock)
    crashes.arm(first, 1)
    with pytest.raises(Exception, match="dead"):
        first.with_id("x").run(act(plot))
    crashes.bury(first)
    clock.advance(60)
    open_hf(clock=clock).with_id("x").run(act(plot))
    assert drawn[1] - drawn[0] == timedelta(seconds=60)


def test_outside_a_run_and_inside_a_body_they_are_fresh(hf, act):
    """There they are what their names say, and are not recorded."""

    @step
    def body() -> bool:
        return random() != random()

    assert hf.with_id("x").run(act(lambda: body())) is True
    assert [event.type for event in hf.events("x")].count("ValueRecorded") == 0
    assert abs(now() - datetime.now(UTC)) < timedelta(seconds=5)
    assert uuid() != uuid()
    assert 0 <= random() < 1


def test_values_on_another_thread_are_refused(hf, act):
    """They would move the counters of a scope that is not theirs."""

    async def plot():
        await gather(asyncio.to_thread(now))

    with pytest.raises(WrongColour, match="another thread"):
        hf.run(act(plot))
