"""The public fake clock."""

import asyncio
import threading
from datetime import timedelta

import pytest

from holdfast import Holdfast, step, workflow, workspace_path
from holdfast.testing import FakeClock
from holdfast.testing.clock import START


def test_time_stands_still_until_it_is_moved():
    """`advance` takes seconds or a timedelta; microseconds are exact."""
    clock = FakeClock()
    assert clock.now() == START
    clock.advance(1.5)
    clock.advance(timedelta(days=1, microseconds=1))
    assert clock.now() == START + timedelta(days=1, seconds=1, milliseconds=500, microseconds=1)


def test_a_jumping_clock_does_not_wait():
    """Whoever waits gets the moment at once; one that is past does not turn the time back."""
    clock = FakeClock()
    moment = clock.now_us() + 5_000_000
    assert (clock.wait(moment), clock.now_us()) == (0.0, moment)
    assert (clock.wait(moment - 1), clock.now_us()) == (0.0, moment)


def test_a_clock_that_does_not_jump_lets_sleepers_wait():
    """`until_asleep` returns the moment that they wait for; `advance` lets them go."""
    clock = FakeClock(jump=False)
    moment = clock.now_us() + 5_000_000
    assert clock.wait(moment) > 0
    assert clock.until_asleep() == START + timedelta(seconds=5)
    clock.advance(5)
    assert clock.wait(moment) == 0.0
    with pytest.raises(TimeoutError, match="no thread slept"):
        clock.until_asleep(timeout=0.01)


def test_until_asleep_waits_for_another_thread():
    """No polling in tests."""
    clock = FakeClock(jump=False)
    thread = threading.Timer(0.02, clock.wait, [clock.now_us() + 1])
    thread.start()
    assert clock.until_asleep() == START + timedelta(microseconds=1)
    thread.join()


def test_chance_is_repeatable_and_ids_are_not():
    """`random` follows the seed; `uuid` must differ between owners that share a store."""
    first, second = FakeClock(seed=3), FakeClock(seed=3)
    assert [first.random() for _ in range(3)] == [second.random() for _ in range(3)]
    assert first.uuid() != second.uuid()


def test_monotonic_goes_on_and_jumps_along():
    """It never goes backwards."""
    clock = FakeClock()
    before = clock.monotonic()
    clock.advance(100)
    assert clock.monotonic() >= before + 100


@step(effect="workspace")
async def write_file(name: str) -> str:
    for _ in range(20):
        await asyncio.sleep(0)
    (workspace_path() / name).write_text(name)
    return name


@workflow
async def write_two() -> list[str]:
    return list(await asyncio.gather(write_file("one"), write_file("two")))


def test_two_steps_that_take_turns_at_the_files_end_with_a_clock_that_jumps(tmp_path):
    """A step that waits for the files waits by real time: it lets the other one work, and moves no clock."""
    (tmp_path / "files").mkdir()
    clock = FakeClock()
    with Holdfast(tmp_path / "store", workspace=tmp_path / "files", clock=clock) as hf:
        run = hf.start(write_two)
        assert run.result(timeout=20) == ["one", "two"]
    assert clock.now_us() == int(START.timestamp() * 1e6)
