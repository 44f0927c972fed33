"""The system has no thread for the follower: it is asked for again until there is one."""

from __future__ import annotations

import threading
import time

import pytest
from tests.engine.test_full_disk import stuck, types
from tests.engine.test_gates import parked, until

from holdfast import approval


@pytest.fixture
def scarce(monkeypatch):
    """Threads that could not be started, while `Scarce.over` is not set."""
    start = threading.Thread.start

    class Scarce:
        refused = 0
        over = False

        def begin(self, thread):
            if thread.name == "holdfast-follow" and not self.over:
                self.refused += 1
                raise RuntimeError("can't start new thread")
            start(thread)

    scarce = Scarce()
    monkeypatch.setattr(threading.Thread, "start", lambda thread: scarce.begin(thread))
    return scarce


def test_a_run_that_could_not_be_released_is_released(hf, act, scarce):
    """It comes to rest all the same."""
    disk, _ = stuck(hf, act)
    disk.clear()
    scarce.over = True
    until(lambda: types(hf, "x")[-1] == "RunReleased")
    assert scarce.refused


def test_a_parked_run_goes_on(hf, act, scarce):
    """Though it has no steps, and the flusher would rest by then."""
    run = hf.with_id("x").start(act(lambda: approval("ok").outcome))
    parked(hf, "x")
    time.sleep(0.6)  # longer than the flusher ticks for nothing
    refused = scarce.refused
    scarce.over = True
    hf.approve("x")
    assert run.result(20) == "approved"
    assert refused
