"""What is not on the disk has not happened: nobody is told of it, stopped by it or refused because of it."""

import asyncio
import threading
import time
from contextlib import contextmanager

import apsw
import pytest
from tests.engine.test_gates import parked, until

from holdfast import Holdfast, approval, checkpoint, parallel, step, wait_for
from holdfast.engine.execution.inbox import Inbox
from holdfast.engine.ownership import claim_locks
from holdfast.errors import BadInput, RunHeld, StoreFull
from holdfast.kernel import commands as c
from holdfast.store.port import NO_EVENTS
from holdfast.store.sqlite.commit import Committer


@contextmanager
def one_commit(store, *submit):
    """What these submit, one after the other and in threads of their own, shares a commit."""
    threads = [threading.Thread(target=one) for one in submit]

    def hold(_):
        for n, thread in enumerate(threads, 1):
            thread.start()
            until(lambda n=n: len(store._group._queue) == n)
        return NO_EVENTS

    store.command("", hold)
    yield
    for thread in threads:
        thread.join(20)


def waiting(hf, run_id="x"):
    return [one.key for one in hf.steps(run_id) if one.status == "waiting"]


@pytest.fixture
def no_room_for_blobs(monkeypatch):
    """A commit with a large value takes a while, and then there is no room for it."""
    append = Committer._append

    def full(self, stream, head, decision, synced, **owned):
        if decision.blobs:
            time.sleep(0.1)
            raise apsw.FullError("full")
        return append(self, stream, head, decision, synced, **owned)

    with monkeypatch.context() as patch:
        patch.setattr(Committer, "_append", full)
        yield patch


def refused_by_the_disk(call, errors):
    def try_it():
        try:
            call()
        except StoreFull as error:
            errors.append(error)

    return try_it


def test_a_decision_is_not_told_before_it_is_on_the_disk(hf, act, no_room_for_blobs):
    """It shares a commit with the gate of another branch, which the run writes and so knows what is in it.
    The disk is full: nobody has decided anything, and nobody may have been told."""
    told, errors, ready = [], [], threading.Event()

    def branch(n):
        if n == 2:
            ready.wait(20)
        told.append((n, approval("turn", show="x" * n**20).comment))

    run = hf.with_id("x").start(act(lambda: parallel(branch, [1, 2])))
    until(lambda: waiting(hf))
    approve = refused_by_the_disk(lambda: hf.approve("x", comment="first"), errors)
    with one_commit(hf._store, approve, ready.set), pytest.raises(StoreFull):
        run.result(20)
    assert errors and not told
    no_room_for_blobs.undo()
    run = hf.resume("x")
    until(lambda: len(waiting(hf)) == 2)
    for key in ("branch[1]/turn#1", "branch[2]/turn#1"):
        hf.approve("x", key, comment="second")
    run.result(20)
    assert set(told) == {(1, "second"), (2, "second")}  # it may have been parked between them


def test_a_signal_that_is_handed_on_is_told_when_that_is_on_the_disk(hf, act, monkeypatch):
    """A gate is given up, and what it took goes to another one that waits."""
    told, seen, busy = [], [], threading.Event()

    @step
    def work():
        busy.wait(20)

    def branch(n):
        return told.append(wait_for("s")) if n < 3 else work()

    run = hf.with_id("x").start(act(lambda: parallel(branch, [1, 2, 3])))
    until(lambda: len(waiting(hf)) == 2)
    execution = hf._engine.live["x"][0]
    hf.signal("x", "s", 1)
    until(lambda: told)
    (first,) = (one.key for one in hf.steps("x") if one.status == "completed")
    (heir,) = (key for key in waiting(hf) if "/s#" in key)
    append = Committer._append

    def look(self, stream, head, decision, synced, **owned):
        execution.inbox.wake()
        time.sleep(0.1)
        seen.append((execution.inbox.is_open(heir), heir in execution.inbox.open_gates(), len(told)))
        return append(self, stream, head, decision, synced, **owned)

    with monkeypatch.context() as patch:
        patch.setattr(Committer, "_append", look)
        execution.transact(lambda: [c.AbandonWait(first)])
    assert seen[0] == (True, True, 1)
    busy.set()
    run.result(20)
    assert told == [1, 1]


def test_a_cancel_that_is_not_on_the_disk_ends_no_child(hf, act, no_room_for_blobs):
    """It shares a commit with a gate of the run, and the commit fails: the run stops, and nothing is
    cancelled."""
    inside, ready, stop, errors = threading.Event(), threading.Event(), threading.Event(), []

    @step
    def work():
        inside.set()
        return stop.wait(20)

    child = act(work, "child")

    def branch(n):
        if n == 1:
            return child()
        ready.wait(20)
        return approval("turn", show="x" * 100_000).outcome

    run = hf.with_id("x").start(act(lambda: parallel(branch, [1, 2])))
    inside.wait(20)
    (below,) = (one.id for one in until(lambda: hf.runs()[1:] and hf.runs()) if one.id != "x")
    until(lambda: hf.steps(below))  # the log has its beginning: nobody else writes
    cancel = refused_by_the_disk(lambda: hf.cancel("x"), errors)
    with one_commit(hf._store, cancel, ready.set):
        until(lambda: errors)
        stop.set()
        with pytest.raises(StoreFull):
            run.result(20)
    assert hf.get(below).status != "cancelled"
    assert "CancelRequested" not in [event.type for event in hf.events("x")]


def test_a_refusal_by_what_is_not_on_the_disk_is_none(hf, act):
    """Two decide a gate in one commit, which fails: the second is not told that the first has decided it."""
    hf.with_id("x").start(act(lambda: approval("go").outcome))
    parked(hf, "x")
    errors = []

    def full(_):
        raise apsw.FullError("full")

    decisions = [
        refused_by_the_disk(call, errors)
        for call in (
            lambda: hf.approve("x", by="ann"),
            lambda: hf.reject("x", by="bob"),
            lambda: hf._store.command("", full),
        )
    ]
    with one_commit(hf._store, *decisions):
        pass
    assert len(errors) == 3 and waiting(hf) == ["go#1"]


def test_a_decision_just_before_a_run_is_parked(hf, act, monkeypatch):
    """Between the look at what is over and the look at what is open: the run continues all the same."""
    listed, went = Inbox.open_gates, []

    def decide_first(self):
        if not went:
            went.append("decided")
            decider = threading.Thread(target=lambda: hf.approve("x", "branch[1]/g#1"))
            decider.start()
            decider.join()
            until(lambda: self._run.state.steps["branch[1]/g#1"].status == "completed")
        return listed(self)

    def branch(n):
        approval("g")
        went.append(n)

    monkeypatch.setattr(Inbox, "open_gates", decide_first)
    hf.with_id("x").start(act(lambda: parallel(branch, [1, 2])))
    until(lambda: 1 in went)


def test_the_value_of_a_keyed_step_is_not_given_before_it_is_on_the_disk(hf, act):
    """A second call of the same key, while the first one's result is written, is one too many."""
    begun, going = threading.Event(), threading.Event()

    @step
    def shared():
        begun.set()
        going.wait(20)
        return 1

    async def plot():
        first = asyncio.ensure_future(shared.with_key("k").aio())
        while not hf._store._group._queue:
            await asyncio.sleep(0)
        with pytest.raises(BadInput, match="twice at once"):
            await shared.with_key("k").aio()
        written.set()
        return await first

    written = threading.Event()
    run = hf.with_id("x").start(act(plot))

    def hold(_):
        begun.wait(20)
        going.set()
        written.wait(20)
        return NO_EVENTS

    hf._store.command("", hold)
    assert run.result(20) == 1 and written.is_set()


def test_ctrl_c_while_a_gate_is_opened_leaves_the_files_of_the_run(tmp_path, act, monkeypatch):
    """The run stops in order: what it made of its files goes to the log with its release."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "a").write_text("before")

    def plot():
        checkpoint("c")
        edit()
        submit = hf._store._group.submit

        def interrupted(item):
            monkeypatch.setattr(hf._store._group, "submit", submit)
            submit(item)
            raise KeyboardInterrupt

        monkeypatch.setattr(hf._store._group, "submit", interrupted)
        return approval("go").outcome

    @step
    def edit():
        (root / "a").write_text("after")

    with Holdfast(tmp_path / "home", workspace=root) as hf:
        with pytest.raises(KeyboardInterrupt):
            hf.with_id("x").run(act(plot))
        ends = [(event.type, event.data.get("place")) for event in hf.events("x")][-2:]
        assert ends == [("FilesSaved", "stop"), ("RunReleased", None)]


def test_a_turn_that_is_long_in_coming_is_not_taken(monkeypatch):
    """Two threads of one owner that both have claimed a run would both execute it."""
    monkeypatch.setattr(claim_locks, "_PATIENCE_S", 0.05)
    taken = claim_locks.ClaimLocks()
    other = threading.Thread(target=taken.take, args=("x", lambda: None))
    other.start()
    other.join()
    with pytest.raises(RunHeld, match="another thread"):
        taken.take("x", lambda: None)
    assert taken.take("x", lambda: "live") == "live"
    taken.leave("x")
    assert taken.take("x", lambda: None) is None
