"""`make crash` itself."""

from tests.crash.__main__ import AFTER, LANES, kinds


def test_every_kind_is_in_one_lane():
    """What is in none would never be tried."""
    assert sorted(name for lane in (*LANES, AFTER) for name in lane) == sorted(kinds())
