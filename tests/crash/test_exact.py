"""Programs as users write them: killed after their commits and resumed, they are the same execution."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.exact import try_case
from tests.crash.exact.table import CASES
from tests.crash.exact.trials import check_completed, check_divergence, skipped
from tests.crash.oracle.comparing import Story
from tests.crash.oracle.lives import Life, Plan
from tests.crash.oracle.wal import Logged

SEED = "20261"
MOST_KILLS = "5"
"""Of the undisturbed life; `python -m tests.crash.exact` tries all."""

ROWS = [
    pytest.param(case, loop, id=case.name + (f" ({loop})" if loop != "asyncio" else ""))
    for case in CASES.values()
    for loop in case.loops
]


@pytest.mark.parametrize(("case", "loop"), ROWS)
def test_a_resumed_run_is_the_same_execution(case, loop):
    """The trace of the killed life is the beginning of the resumed one's; no `once` body runs again; no
    divergence, but for code that was changed."""
    missing = skipped(case, loop)
    if missing is not None:
        pytest.skip(missing.different.removeprefix("skipped: "))
    [row] = try_case(case.name, "--loop", loop, "--seed", SEED, "--most-kills", MOST_KILLS)
    assert row["different"] == ""
    assert row["equal"] == row["kills"] >= 4
    assert bool(row["refused"]) == bool(case.renamed)


# What it must find


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.needs][:3])
def test_it_finds_a_lost_commit(name):
    """Outcomes that the code received and that the store no longer has."""
    [row] = try_case(name, "--loop", "asyncio", "--seed", SEED, "--most-kills", MOST_KILLS, "--fault", "lost")
    assert row["different"] != "" and row["equal"] < row["kills"]


def test_it_finds_outcomes_in_another_order():
    name = "found.append(await ...) under gather"
    [row] = try_case(name, "--loop", "asyncio", "--seed", SEED, "--most-kills", "1", "--fault", "swapped")
    assert row["different"] != ""


def life(*lines: list, past: tuple[Logged, ...] = ()) -> Life:
    plan = Plan(next(iter(CASES.values())).program(1), Path("nowhere"), "seed")
    return Life(plan, list(lines), past=list(past))


DIVERGED = ["end", 0, "p", "divergence", "DivergenceError: ..."]
REPORTED = ["replay", 0, "p", "diverges", "..."]


def test_changed_code_must_be_refused_before_any_body():
    """A body, a result, or a `replay` that finds nothing: each is a difference."""
    body = ["body", 0, "p", "ask#1", "ask a", "plain", 1]
    finished, unnoticed = ["end", 0, "p", "result", "x"], ["replay", 0, "p", "matches", "..."]
    assert check_divergence(Story(), life(DIVERGED, REPORTED)) == []
    for lines in ([body, DIVERGED, REPORTED], [finished, REPORTED], [DIVERGED, unnoticed], [DIVERGED], []):
        assert check_divergence(Story(), life(*lines)) != []


def test_a_completed_run_keeps_its_result():
    completed = Logged("p", "RunCompleted", {"result": "x"})
    assert check_completed(life(["end", 0, "p", "result", "x"], past=(completed,))) == []
    assert check_completed(life(["end", 0, "p", "result", "y"], past=(completed,))) != []
