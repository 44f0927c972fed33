"""The session that the settings name: it must exist before anything is recorded in it."""

import sys
from pathlib import Path

import pytest

from holdfast import Holdfast, step, workflow
from holdfast.errors import SessionNotFound
from holdfast.kernel.task import stream_of

broken = True


@step
def body() -> int:
    if broken:
        raise ValueError("not yet")
    return 1


@workflow
def work() -> int:
    return body()


def test_a_session_that_does_not_exist_is_refused_at_the_first_change(tmp_path: Path, monkeypatch):
    """Nothing is recorded in it, and the sentence names the sessions that there are."""
    monkeypatch.setenv("HOLDFAST_SESSION", "nope")
    with Holdfast(tmp_path, durability="process") as hf:
        with pytest.raises(
            SessionNotFound, match=r"names 'nope', and the store has no such .* \(it has none\)"
        ):
            hf.tasks.create("one")
        known = hf.sessions.start("ann").id
        for change in (
            lambda: hf.tasks.create("one"),
            lambda: hf.tasks.claim(),
            lambda: hf.memory.remember("x"),
        ):
            with pytest.raises(SessionNotFound, match=rf"the newest are {known}\); unset it"):
                change()
        assert (hf.tasks.list(), hf.tasks.current(), [one.id for one in hf.sessions.list()]) == (
            [],
            None,
            [known],
        )
        assert hf.prime() is not None
        hf.sessions.end(known)


def test_a_session_that_does_not_exist_stops_no_run(tmp_path: Path, monkeypatch):
    """The end of the run moves its task, in no session."""
    with Holdfast(tmp_path, durability="process") as hf:
        task = hf.tasks.create("one").id
        with pytest.raises(ValueError, match="not yet"):
            hf.with_id("x", task=task).run(work)
    monkeypatch.setenv("HOLDFAST_SESSION", "nope")
    monkeypatch.setattr(sys.modules[__name__], "broken", False)
    with Holdfast(tmp_path, durability="process") as hf:
        assert hf.resume("x").result(30) == 1
        assert hf.tasks.get(task).status == "completed"
        ended = hf._store.load(stream_of(task))[-1].event
    assert (type(ended).__name__, ended.author.session) == ("TaskCompleted", "")


def test_a_session_that_has_ended_still_counts(tmp_path: Path, monkeypatch):
    """A process that outlives its session can record what it did."""
    with Holdfast(tmp_path, durability="process") as hf:
        session = hf.sessions.start("ann").id
        hf.sessions.end(session)
    monkeypatch.setenv("HOLDFAST_SESSION", session)
    with Holdfast(tmp_path, durability="process") as hf:
        hf.tasks.create("one")
        claim = hf.tasks.claim()
        assert claim is not None
        held = hf.tasks.get(claim.task.id).claim
        assert held is not None
        assert held.session == session
