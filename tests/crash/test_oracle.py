"""The oracle: a sample of random programs, and whether it finds what is wrong."""

from __future__ import annotations

import random
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.crash.oracle import mutations, try_programs, wal
from tests.crash.oracle.comparing import Story, check, difference, durable
from tests.crash.oracle.lives import Life, Plan
from tests.crash.oracle.programs import ANYIO_BLOCKS, ASYNC_BLOCKS, make
from tests.crash.oracle.wal import Logged

from holdfast import Holdfast, step, workflow

SEED = 20261


@pytest.mark.parametrize(
    ("count", "options"),
    [
        (20, ("--kind", "async")),
        (20, ("--kind", "async", "--first", "20")),
        (15, ("--kind", "def")),
        (15, ("--kind", "mutated")),
        (10, ("--kind", "async", "--loop", "uvloop")),
        (10, ("--kind", "async", "--anyio")),
    ],
)
def test_a_resumed_run_is_the_same_execution(count, options):
    """Random programs that are killed at some of their commits: no life shows anything else than before."""
    if "uvloop" in options:
        pytest.importorskip("uvloop")
    if "--anyio" in options:
        pytest.importorskip("anyio")
    tried = try_programs(count, SEED, "--most-kills", "8", *options, jobs=1)
    assert [f"{one['command']}: {one['text'][:500]}" for one in tried if one["what"]] == []
    assert sum(one["kills"] for one in tried) >= 3 * count


def test_a_second_cancel_while_a_wait_is_given_up():
    """`asyncio.timeout` inside `anyio.fail_after`, around a gate: anyio knows its own cancel, which comes
    while the first one is being recorded."""
    pytest.importorskip("anyio")
    options = ("--kind", "async", "--anyio", "--only-program", "7", "--times", "2", "--most-kills", "6")
    tried = try_programs(2, 395227, *options, jobs=1)
    assert len(tried) == 2
    assert [f"{one['command']}: {one['text'][:500]}" for one in tried if one["what"]] == []


# What it must find


def test_it_finds_a_lost_commit():
    """Outcomes that the code received and that the store no longer has."""
    tried = try_programs(8, SEED, "--kind", "async", "--fault", "lost", jobs=1)
    assert sum(bool(one["what"]) for one in tried) >= 4


@pytest.mark.skipif(
    find_spec("holdfast.engine.execution.delivery") is None,
    reason="the engine delivers in no order of its own",
)
def test_it_finds_outcomes_in_another_order():
    tried = try_programs(8, SEED, "--kind", "async", "--fault", "swapped", jobs=1)
    assert sum(bool(one["what"]) for one in tried) >= 6


# Its parts


def test_a_seed_gives_the_same_programs():
    programs = [str(make(colour, 7, number)) for colour in ("async", "def") for number in range(50)]
    again = [str(make(colour, 7, number)) for colour in ("async", "def") for number in range(50)]
    assert programs == again
    assert len(set(programs)) == 100


def test_every_block_is_the_centre_of_a_program():
    """However few programs are tried, none of the blocks is left out for long."""
    plain = {one.kind for n in range(len(ASYNC_BLOCKS)) for one in make("async", 1, n).top.walk()}
    anyio = {one.kind for n in range(8) for one in make("async", 1, n, anyio=True).top.walk()}
    assert set(ASYNC_BLOCKS) <= plain
    assert set(ANYIO_BLOCKS) <= anyio


def test_every_change_fits_some_program():
    found = set()
    for number in range(150):
        program = make("async", 3, number)
        changed = mutations.mutate(program, random.Random(number))
        assert changed is not None and str(changed[1]) != str(program)
        found.add(changed[0])
    assert found == set(mutations.CHANGES)


def test_where_traces_differ():
    before = [["call", "s1"], ["got", "s1", "s1"]]
    assert difference(before, before, "") == ""
    assert difference(before, before[:1], "") == ""
    assert difference(before, [["call", "s2"]], "").startswith("entry 0 of 2")


def test_a_value_may_change_until_it_is_recorded():
    before, now = [["value", "s1", "0.25"]], [["value", "s1", "0.75"]]
    assert difference(before, now, "") == ""
    assert difference(before, now, '{"value": 0.25}') != ""


def test_what_came_after_the_last_outcome_may_be_forgotten():
    entries = [["call", "s1"], ["got", "s1", "s1"], ["woke", "s2"]]
    assert durable(entries) == entries[:2]
    assert durable(entries[2:]) == []


def life(*lines: list, past: tuple[Logged, ...] = ()) -> Life:
    plan = Plan(make("async", 1, 0), Path("nowhere"), "seed")
    return Life(plan, list(lines), past=list(past), log=list(past), killed=True)


def body(name: str, effect: str = "once", key: str = "once#1") -> list:
    return ["body", 0, "p", key, name, effect, 1]


def test_a_once_step_runs_again_only_if_somebody_allows_it():
    story = Story().after(life(body("s1")))
    assert [one.what for one in check(story, life(body("s1")))] == ["repeated"]
    assert check(story, life(["settled", 0, "p", "once#1"], body("s1"))) == []


def test_a_recorded_step_never_runs_again_under_any_key():
    story = Story().after(life(body("s1", "plain", "a[1]/plain#1")))
    recorded = Logged("p", "StepRan", {"key": "a[1]/plain#1"})
    again = life(body("s1", "plain", "b[1]/plain#1"), past=(recorded,))
    assert [one.what for one in check(story, again)] == ["repeated"]


def test_an_outcome_is_reported_once():
    reported = Logged("p", "OutcomeReported", {"key": "route[1]/outcome#1"})
    assert check(Story(), life(past=(reported,))) == []
    assert [one.what for one in check(Story(), life(past=(reported, reported)))] == ["repeated"]


def test_an_attempt_that_costs_has_reserved():
    began = Logged("p", "StepStarted", {"key": "plain-paid#1", "name": "plain-paid"})
    id = "p:0:plain-paid#1:1"
    reserved = Logged("@budget/default", "BudgetReserved", {"id": id, "run": "p", "amounts": {}})
    assert check(Story(), life(past=(reserved, began))) == []
    assert [one.text for one in check(Story(), life(past=(began,)))] == [
        f"budget: ['{id}'] were begun, and have no reservation"
    ]


@step
def number_of(n: int) -> int:
    return n


@workflow
def counts() -> list[int]:
    return [number_of(n) for n in range(4)]


def test_a_life_gives_the_store_of_a_kill_at_each_of_its_commits(tmp_path):
    """The logs of the copies grow, each a beginning of the next; the last one is the whole log."""
    home = tmp_path / "home"
    Holdfast(home, durability="process").close()
    with Holdfast(home, durability="process") as hf:
        hf.with_id("p").run(counts)
        sizes = wal.commits(home)
        for number, size in enumerate(sizes):
            wal.copy_until(home, size, tmp_path / str(number))
        whole = [one.type for one in hf.events("p")]
    logs = [[one.type for one in wal.events(tmp_path / str(number))] for number in range(len(sizes))]
    assert logs[-1] == whole
    assert all(whole[: len(log)] == log for log in logs)
    assert len({len(log) for log in logs}) >= 5
