"""The contest of holdfast and its peers, with contenders that are none."""

from __future__ import annotations

import pytest

from peers.comparison import Comparison
from peers.contest import compare
from peers.peer import Broken
from turns import Turn


class Machine:
    """A machine that becomes slower with every measurement; raw commits are as fast as it is."""

    def __init__(self) -> None:
        self.speed = 1000.0
        self.order: list[str] = []

    def commit(self, commits: int) -> float:
        return commits / self.speed


class Contender:
    """Works at a fixed multiple of the machine's speed."""

    version, setting, durability, variant = "1", "none", "promises nothing", False

    def __init__(self, name: str, factor: float, machine: Machine) -> None:
        self.name, self.factor, self.machine = name, factor, machine

    def sequential(self) -> float:
        self.machine.order.append(self.name)
        self.machine.speed -= 5
        return self.factor * self.machine.speed

    many = many_async = one_step_runs = sequential

    def kill_to_rerun(self) -> float:
        return 7.0

    def disk(self) -> dict[str, float]:
        return {"": 1.25}


class Ours(Contender):
    """Leaves a turn to raw."""

    def sequential(self, others: Turn) -> float:  # type: ignore[override]
        others()
        return super().sequential()

    many = many_async = one_step_runs = sequential  # type: ignore[assignment]

    def kill_to_rerun(self) -> float:
        return 150.0


class Fragile(Contender):
    """Breaks down in its first kill."""

    def kill_to_rerun(self) -> float:
        raise Broken("out of memory")


def contest(machine: Machine, *peers: Contender, **absent: str) -> Comparison:
    ours = Ours("holdfast", 0.5, machine)
    return compare(ours, peers, machine, 4, absent)  # type: ignore[arg-type]


def test_ratios_hold_on_a_machine_whose_speed_changes() -> None:
    """A peer is compared with holdfast just before and just after it."""
    machine = Machine()
    found = contest(machine, Contender("DBOS", 0.05, machine), Contender("LangGraph", 0.1, machine))
    assert [peer.name for peer in found.peers] == ["DBOS", "LangGraph"]
    dbos = found.peers[0].behind["sequential"]
    assert (dbos.low, dbos.high) == (pytest.approx(10), pytest.approx(10))
    assert found.peers[1].behind["many"].median == pytest.approx(5)
    ours, raw = found.ours.rates["many"], found.raw["many"]
    assert ours.high > 1.3 * ours.low
    assert raw.high == pytest.approx(2 * ours.high + 5)


def test_a_peer_stands_between_two_of_ours_and_none_always_comes_first() -> None:
    """The order within a figure, and who begins the rounds."""
    machine = Machine()
    contest(machine, Contender("a", 1, machine), Contender("b", 1, machine))
    warm_up = 4 + 2 * 4
    rounds = [machine.order[warm_up + 20 * turn :][:5] for turn in range(4)]
    assert rounds[0] == ["holdfast", "a", "holdfast", "b", "holdfast"]
    assert [played[1] for played in rounds] == ["a", "b", "a", "b"]


def test_what_is_to_be_reached_is_judged() -> None:
    """By the median ratio, against the peer that the reach names; and what cannot be judged is told."""
    machine = Machine()
    found = contest(machine, Contender("DBOS", 0.05, machine), LangGraph="there is no network")
    assert [(row.what, row.value, row.met) for row in found.rows()] == [
        ("sequential sync steps", "10 × DBOS", True),
        ("50 sync runs × 20 steps at once", "10 × DBOS", False),
        ("50 async runs × 20 steps at once", "10 × DBOS", False),
        ("1-step runs", "10 × DBOS", True),
        ("`kill -9` → the step runs again", "150 ms", True),
        ("disk for 600 steps of 2 KB, by the data", "1.25 ×", True),
    ]
    text = found.markdown()
    assert "| sequential sync steps | not judged: no LangGraph here | ≥ 6 × LangGraph |" in text
    assert "| **LangGraph** | absent: there is no network |" in text
    assert "| 7 ms | 1.25 × | none; promises nothing |" in text


def test_a_peer_that_breaks_down_is_absent_and_the_others_go_on() -> None:
    """Half a set of figures is not a set."""
    machine = Machine()
    found = contest(machine, Fragile("Restate", 0.2, machine), Contender("DBOS", 0.05, machine))
    assert [peer.name for peer in found.peers] == ["DBOS"]
    assert found.absent == {"Restate": "it broke down: out of memory"}


def test_without_any_peer_holdfast_is_measured_all_the_same() -> None:
    """As on a machine without a network."""
    found = contest(Machine(), DBOS="no network", LangGraph="no network")
    assert found.peers == []
    assert [row.what for row in found.rows()] == [
        "`kill -9` → the step runs again",
        "disk for 600 steps of 2 KB, by the data",
    ]
