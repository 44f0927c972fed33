"""Ids that holdfast mints: 16 random hex digits, and never those of another run."""

import asyncio
import re
import uuid
from datetime import timedelta

import pytest

from holdfast import Holdfast, step
from holdfast.clock import SystemClock
from holdfast.operations import archiving
from holdfast.testing import FakeClock


class Repeating(FakeClock):
    """Gives the same UUID again and again, as often as it is told to."""

    def __init__(self):
        super().__init__()
        self.same = uuid.UUID("1234567890abcdef1234567890abcdef")
        self.times = 0

    def uuid(self):
        if self.times:
            self.times -= 1
            return self.same
        return super().uuid()


ID = "1234567890abcdef"


@step
def work(n: int) -> int:
    return n


@pytest.fixture
def clock():
    return Repeating()


@pytest.fixture
def taken(open_hf, act):
    """A store with a run of that id."""
    assert open_hf().with_id(ID).run(act(lambda: work(1))) == 1


@pytest.fixture
def repeating(taken, open_hf, clock, act):
    """Opened, its owner born, with a clock that will give the id of that run three times."""
    hf = open_hf(clock=clock)
    hf.run(act(lambda: 0))
    clock.times = 3
    return hf


def ids(hf):
    return {info.id for info in hf.runs()}


def test_an_id_has_16_hex_digits(hf, act):
    assert re.fullmatch(r"[0-9a-f]{16}", hf.start(act(lambda: 1)).id)
    hf.run(act(lambda: 1))
    hf.fork(next(iter(ids(hf))), "start")
    assert all(re.fullmatch(r"[0-9a-f]{16}", one) for one in ids(hf))


def test_start_mints_again(repeating, act, clock):
    """The handle has the id that the run has in the end."""
    run = repeating.start(act(lambda: work(2)))
    assert run.result(30) == 2
    assert run.id != ID and repeating.get(run.id).status == "completed"
    assert clock.times == 0 and len(ids(repeating)) == 3
    assert [event.type for event in repeating.events(ID)].count("RunCompleted") == 1


def test_run_mints_again(repeating, act, ran):
    """Also where the first events of the run ride with its first step."""

    def plot(items):
        items.append(work(2))  # its own copy, each time
        ran.append(list(items))
        return items

    given = [1]
    assert repeating.run(act(plot), given) == [1, 2]
    assert given == [1]
    assert ran[-1] == [1, 2]
    assert len(ids(repeating)) == 3
    assert [event.type for event in repeating.events(ID)].count("RunCompleted") == 1
    assert list(repeating._store.verify()) == []


def test_a_program_is_told_of_its_own_runs_only(taken, open_hf, clock, act):
    """The callback hears nothing of the run whose id was minted, and everything of the new one."""
    told = []
    hf = open_hf(clock=clock, on_event=lambda event: told.append((event.run_id, event.type)))
    hf.run(act(lambda: 0))
    told.clear()
    clock.times = 2
    hf.run(act(lambda: work(2)))
    (run_id,) = {run_id for run_id, _ in told}
    assert run_id != ID
    assert [type for _, type in told] == ["RunCreated", "RunClaimed", "StepRan", "RunCompleted"]


@pytest.mark.parametrize("first", [True, False])
def test_start_in_a_loop_mints_again(taken, home, clock, act, first):
    """The first claim of a Holdfast and every later one."""

    async def inner():
        return await work.aio(2)

    async def main():
        async with Holdfast(home, durability="process", clock=clock) as hf:
            if not first:
                await hf.start(act(inner))
            clock.times = 2
            run = hf.start(act(inner))
            assert await run == 2
            assert run.id != ID
            assert (await hf.aio.get(run.id)).status == "completed"

    asyncio.run(main())


def test_fork_mints_again(repeating):
    forked = repeating.fork(ID, "start")
    assert forked.id != ID
    assert repeating.get(forked.id).status == "paused"


def test_the_id_of_an_archived_run_is_not_given_out(repeating, act, tmp_path):
    later = repeating.get(ID).updated_at + timedelta(microseconds=1)
    archiving.archive(repeating._store, repeating.home, later, tmp_path / "archive", SystemClock())
    assert ID not in ids(repeating)
    assert repeating.run(act(lambda: work(2))) == 2
    assert ID not in ids(repeating)


def test_the_id_of_a_live_run_is_not_given_out(open_hf, clock, act):
    """Of this process: its first events may not be in the store yet."""
    hf = open_hf(clock=clock)

    def plot(depth):
        clock.times = 2
        return [hf.start(act(plot), depth - 1).result(30)] if depth else work(1)

    assert hf.run(act(plot), 2) == [[1]]
    assert len(ids(hf)) == 3


def test_an_id_that_was_chosen_is_kept(repeating, act):
    """It continues that run; other ids are not minted for it."""
    assert repeating.with_id(ID).run(act(lambda: work(1))) == 1
    assert repeating.with_id(ID).start(act(lambda: work(1))).id == ID
