"""holdfast has none of the five failures that the benchmark tries on it and on its peers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from failures import outcomes
from failures.outcomes import FAILURES, PRODUCTS, Outcome, Stage
from peers.environment import Unavailable

SCENARIOS = Path(outcomes.__file__).parent


@pytest.mark.parametrize("failure", FAILURES)
def test_the_failure_does_not_happen(failure: str) -> None:
    """The scenario, played once, says ok."""
    script = SCENARIOS / f"holdfast_{failure}.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100)
    assert done.stdout.partition(":")[0] == "ok", done.stdout + done.stderr


def test_every_failure_has_a_scenario_on_every_product() -> None:
    """The table has no hole that a missing file would make."""
    scripts = {path.stem for path in SCENARIOS.glob("[a-z]*_*.py")}
    assert scripts == {f"{product}_{failure}" for product in PRODUCTS for failure in FAILURES}


def test_a_product_that_cannot_be_had_is_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every failure of it is in the table as not run."""

    def absent(product: str) -> Stage:
        raise Unavailable("there is no network")

    monkeypatch.setattr(Stage, "of", absent)
    found = outcomes.play(1, "dbos")
    assert [(one.failure, one.outcome, one.how) for one in found] == [
        (failure, "not run", "there is no network") for failure in FAILURES
    ]
    assert "**not run**: there is no network" in outcomes.markdown(found)


def test_the_worst_of_all_tries_is_the_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure that happens once in three tries has happened, and the table says how often."""
    (tmp_path / "thing_stolen.py").write_text(
        "from pathlib import Path\n"
        "seen = Path(__file__).with_suffix('.seen')\n"
        "print('ok: fine' if seen.exists() else 'failed: twice at once')\n"
        "seen.touch()\n"
    )
    monkeypatch.setattr(outcomes, "HERE", tmp_path)
    stage = Stage("thing", Path(sys.executable), {}, "1")
    found = stage.play("stolen", 3)
    assert found == Outcome("stolen", "thing", "1", "failed", "twice at once", 1, 3)
    assert found.cell() == "**failed** (1 of 3 tries): twice at once"
