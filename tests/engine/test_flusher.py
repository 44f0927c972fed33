"""The thread that writes beginnings: nothing that goes wrong with one run may end it for the others."""

import threading
import time

import pytest

from holdfast import StoreError, step
from holdfast.engine.execution.execution import Birth
from holdfast.store.port import NO_EVENTS, Append


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def statuses(hf):
    return [info.status for run in hf.runs() for info in hf.steps(run.id)]


def test_a_beginning_that_cannot_be_written_stops_its_run_and_no_other(hf, act, monkeypatch):
    """The run's error says why, and the next run's long step is in the log while it runs."""

    def refuse(self, done):
        raise RuntimeError("can't start new thread")

    @step
    def slow() -> None:
        time.sleep(0.1)

    with monkeypatch.context() as patch:
        patch.setattr(Birth, "flush", refuse)
        with pytest.raises(StoreError, match="can't start new thread"):
            hf.run(act(lambda: slow()))
    seen = []

    @step
    def looks() -> None:
        wait_for(lambda: "running" in statuses(hf))
        seen.append(True)

    hf.run(act(lambda: looks()))
    assert seen == [True]


def test_a_first_step_that_waits_for_the_gate_is_not_taken_for_robbed(hf, act):
    """While another process writes for long, the run is not in the log yet: nobody else can have it."""
    hf.run(act(lambda: None))
    go = threading.Event()
    holding = threading.Event()

    def hold(_):
        holding.set()
        go.wait(20)

        return NO_EVENTS

    holder = threading.Thread(target=hf._store.command, args=("nobody", hold))

    @step
    def slow() -> str:
        holder.start()
        assert holding.wait(20)
        time.sleep(0.8)
        go.set()
        return "done"

    try:
        assert hf.run(act(lambda: slow())) == "done"
    finally:
        go.set()
        holder.join(20)


def test_a_flusher_that_cannot_be_started_is_started_by_the_next_step(hf, act, monkeypatch):
    """And closing does not wait for a thread that never was."""
    start = threading.Thread.start

    def no_flusher(self):
        if self.name == "holdfast-flush":
            raise RuntimeError("can't start new thread")
        start(self)

    @step
    def work() -> str:
        return "done"

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_flusher)
        with pytest.raises(RuntimeError, match="can't start"):
            hf.run(act(lambda: work()))
    assert hf.run(act(lambda: work())) == "done"
    assert hf._engine.flusher._thread.is_alive()


def test_a_failure_is_recorded_although_the_run_is_being_stopped(open_hf, act, ran):
    """What a body did counts, whatever it was: on resume it has used its attempt."""
    hf = open_hf()

    @step
    def fails() -> None:
        ran.append("ran")
        hf._engine.stop("somebody stopped it")
        raise ValueError("no")

    with pytest.raises(Exception, match=r"no|stopped"):
        hf.with_id("x").run(act(lambda: fails()))
    assert [event.type for event in hf.events("x")][2:] == ["StepStarted", "StepFailed", "RunReleased"]
    second = open_hf()
    with pytest.raises(ValueError, match="no"):
        second.with_id("x").run(act(lambda: fails()))
    assert ran == ["ran"]


def test_events_of_a_run_are_told_in_their_order(open_hf, act):
    """Also those that were written while a step ran."""
    told = []
    hf = open_hf(on_event=told.append)

    @step
    def slow() -> None:
        time.sleep(0.012)

    for _ in range(10):
        hf.run(act(lambda: slow()))
    by_run = {}
    for event in told:
        by_run.setdefault(event.run_id, []).append(event.version)
    assert list(by_run.values()) == [sorted(versions) for versions in by_run.values()]


def test_an_append_that_could_not_be_queued_dooms_what_follows(hf, act, monkeypatch):
    """A step's end without its beginning would make the log unreadable."""
    engine = hf._engine
    store = engine.store
    append_soon = store.append_soon

    def fails(append: Append, done):
        with monkeypatch.context() as patch:
            patch.setattr(store._group, "submit_soon", _no_thread)
            append_soon(append, done)

    monkeypatch.setattr(store, "append_soon", fails)

    @step
    def slow() -> None:
        time.sleep(0.1)

    with pytest.raises(StoreError):
        hf.with_id("x").run(act(lambda: slow()))
    assert "StepCompleted" not in [event.type for event in hf.events("x")]
    assert list(hf._store.verify()) == []


def _no_thread(*_):
    raise RuntimeError("can't start new thread")


def test_it_does_not_lie_down_when_it_is_closed_just_then(hf):
    """Closed between its last tick and its rest, it ends; whoever closes it waits for that."""
    flusher = hf._engine.flusher
    flusher._closing.set()
    resting = threading.Thread(target=flusher._rest, daemon=True)
    resting.start()
    resting.join(20)
    assert not resting.is_alive()
