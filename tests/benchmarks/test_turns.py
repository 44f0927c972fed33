"""ClaimLocks: each side is timed alone, and whatever the machine does in a round meets both."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench import ratio
from figures import Figures
from raw import Raw
from turns import Clock, RawTurns, Turn, in_turns


class Machine:
    """A machine whose clock is told, and that becomes slower while it works."""

    def __init__(self) -> None:
        self.now = 0.0
        self.turns: list[str] = []

    def commit(self, commits: int) -> float:
        return self.work("raw", commits / 1000)

    def work(self, who: str, seconds: float) -> float:
        """What takes `seconds` at first takes longer the later it begins."""
        took = seconds * (1 + self.now)
        self.now += took
        self.turns.append(who)
        return took


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(time, "perf_counter", lambda: machine.now)
    return machine


def test_raw_comes_first_last_and_in_between(machine: Machine) -> None:
    """A round is cut into slices, and raw stands on both sides of each."""

    def rate(others: Turn) -> float:
        return 20 / in_turns(2, lambda: machine.work("ours", 0.01), others)

    turns = RawTurns(machine, 10)  # type: ignore[arg-type]
    rate(turns)
    assert machine.turns == ["raw", "ours", "raw", "ours", "raw"]


def test_a_machine_that_slows_down_does_not_move_the_ratio(machine: Machine) -> None:
    """Ours is half as fast as raw, and is found so while everything becomes some times slower."""

    def rate(others: Turn) -> float:
        return 300 / in_turns(10, lambda: machine.work("ours", 0.06), others)

    row = ratio("steps", rate, machine, 4, 0.4)  # type: ignore[arg-type]
    assert machine.now > 4
    assert row.found.low == pytest.approx(0.5, rel=0.03)
    assert row.found.high == pytest.approx(0.5, rel=0.03)
    assert row.met


def test_the_clock_stands_still_in_the_turns_of_others(machine: Machine) -> None:
    """Only what is measured is counted, also before and after."""
    machine.now = 7.0
    with Clock(lambda: machine.work("raw", 5) and None) as clock:
        machine.now += 1
        clock.pause()
        machine.now += 2
    assert clock.seconds == 3
    assert machine.turns == ["raw"] * 3


def test_a_sequential_run_is_cut_into_slices_of_thirty_steps(tmp_path: Path) -> None:
    """One run of 300 steps leaves nine turns inside, one before and one after."""
    made = Figures(tmp_path)
    turns: list[float] = []
    try:
        for rate in (made.sequential, made.sequential_async):
            turns.clear()
            assert rate(lambda: turns.append(1)) > 0
            assert len(turns) == 11
    finally:
        made.close()


def test_raw_has_its_full_log_before_it_is_measured(tmp_path: Path) -> None:
    """No commit of the yardstick lengthens the log."""
    raw = Raw(tmp_path)
    log = tmp_path / "raw.db-wal"
    size = log.stat().st_size
    assert raw.rate(300) > 0
    assert log.stat().st_size == size
    raw.close()
