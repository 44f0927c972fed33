"""holdfast has none of the five failures that the benchmark tries on it and on its peers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCENARIOS = Path(__file__).parents[2] / "benchmarks" / "failures"


@pytest.mark.parametrize("failure", ["stolen", "orphaned", "swapped", "lost_errors", "discarded_siblings"])
def test_the_failure_does_not_happen(failure: str) -> None:
    """The scenario, played once, says ok."""
    script = SCENARIOS / f"holdfast_{failure}.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100)
    assert done.stdout.partition(":")[0] == "ok", done.stdout + done.stderr


def test_every_failure_has_a_scenario_on_every_product() -> None:
    """The table has no hole that a missing file would make."""
    scripts = {path.name for path in SCENARIOS.glob("*_*.py")}
    failures = {name.removeprefix("holdfast_") for name in scripts if name.startswith("holdfast_")}
    assert len(failures) == 5
    assert scripts == {
        f"{product}_{one}" for product in ("holdfast", "dbos", "langgraph") for one in failures
    }
