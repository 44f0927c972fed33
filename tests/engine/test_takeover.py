"""Continuing the run of a dead owner: not before everything that it started is dead."""

import fcntl
import os
import threading
import time

import pytest

from holdfast import StoreError
from holdfast.engine.execution import thread_driver
from holdfast.engine.execution.execution import Birth
from holdfast.engine.execution.scope import current
from holdfast.engine.ownership import dead_owner

GRACE_S = 0.3


def test_takeover_waits_for_the_dead_owners_command(open_hf, act, crashes):
    """The supervisor of a command holds a lock until its whole tree is dead; until then nobody continues."""
    first = open_hf()
    crashes.arm(first, 1)
    with pytest.raises(StoreError):
        first.with_id("x").run(act(lambda: None))
    crashes.bury(first)
    second = open_hf()
    lock = dead_owner.command_locks(second.home, "x") / "1-1.lock"
    lock.parent.mkdir(parents=True)
    fd = os.open(lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    threading.Timer(GRACE_S, os.close, [fd]).start()
    began = time.monotonic()
    second.resume("x").result(30)
    assert time.monotonic() - began >= GRACE_S * 0.9
    assert not lock.exists()


def test_a_run_that_is_not_written_yet_was_not_taken_over(hf, act, monkeypatch):
    """Its first events go to the log with the first step; a wait before that looks for another owner."""
    monkeypatch.setattr(Birth, "flush", lambda birth, done: None)

    def plot():
        run = current.get().execution
        thread_driver.pause(run, run.engine.clock.now_us() + 5_000)
        return hf._store.run(run.id)

    assert hf.run(act(plot)) is None
