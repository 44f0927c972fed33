"""`make crash` itself."""

import threading

from tests.crash.__main__ import AFTER, LANES, kinds
from tests.crash.side import Side, here, speaking


def test_every_kind_is_in_one_lane():
    """What is in none would never be tried."""
    assert sorted(name for lane in (*LANES, AFTER) for name in lane) == sorted(kinds())


def test_a_life_hears_itself_alone():
    """Lanes are threads of one process: a life that another lane begins waits, and says its own lines."""
    first, second = Side(None), Side(None)
    began = threading.Event()

    def live() -> None:
        with speaking(second):
            began.set()
            here().say("second")

    other = threading.Thread(target=live)
    with speaking(first):
        other.start()
        assert not began.wait(0.1)
        here().say("first")
    other.join()
    assert (first.past, second.past) == (["first"], ["second"])
