"""A line of a table: what was found, what it is to reach, and whether it does."""

from __future__ import annotations

import pytest

from row import Row, Spread, number


def test_the_median_is_judged_and_the_spread_is_told() -> None:
    """At least, by default."""
    found = Spread.of([0.5, 0.7, 0.8])
    row = Row("steps", found, "× raw", 0.6, 0.9, beside="70/s; raw 100/s")
    assert row.markdown() == "| steps | 0.7 × raw (70/s; raw 100/s) | ≥ 0.6 × raw | 0.9 | 0.5 to 0.8 | ✓ |"
    assert not Row("steps", found, "× raw", 0.71).met


def test_what_is_to_be_small_is_judged_the_other_way() -> None:
    """At most."""
    row = Row("wait", Spread.of([210.0]), "ms", 200, at_most=True)
    assert row.markdown() == "| wait | 210 ms | ≤ 200 ms |  | 210 to 210 | missed |"


def test_without_a_reach_a_figure_is_told_and_not_judged() -> None:
    """Neither reached nor missed."""
    row = Row("steps", Spread.of([1.0]), "× raw")
    assert row.met
    assert row.markdown() == "| steps | 1 × raw |  |  | 1 to 1 |  |"


@pytest.mark.parametrize(
    ("value", "told"), [(0.6054, "0.605"), (27.31, "27.3"), (118.4, "118"), (35285.2, "35,285")]
)
def test_three_digits_count(value: float, told: str) -> None:
    """Whatever the size."""
    assert number(value) == told
