"""`get(at=...)`: a run as it was shown at an earlier moment."""

from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import Holdfast, Retry, approval, checkpoint, stage, step, workflow
from holdfast.errors import BadInput, NotFound
from holdfast.kernel import events as e
from holdfast.store.port import Decision, NewEvent
from holdfast.store.sqlite.store import SqliteStore
from holdfast.views.reader import Reader

failed: list[int] = []
captured: list[tuple[int, dict]] = []
_open: list[Holdfast] = []


def capture() -> None:
    """What `show --json` prints now."""
    with Holdfast(_open[0].home, read_only=True) as looking:
        shown = looking.get("r").to_json()
        captured.append((looking.events("r")[-1].version, shown))


@step(retry=Retry(attempts=2, initial=0.001))
def flaky() -> str:
    print("at work")
    if not failed:
        failed.append(1)
        raise ValueError("the first time")
    return "done"


@step
def plain(text: str) -> str:
    return text


@workflow
def below(text: str) -> str:
    return plain(text)


@workflow
def report(topic: str) -> str:
    stage("first")
    capture()
    plain(topic)
    capture()
    flaky()
    capture()
    checkpoint("drafted")
    below("inner")
    capture()
    stage("second")
    approval("send", show="a text")
    capture()
    return plain("end")


def replica(hf: Holdfast, home: Path) -> dict[int, dict]:
    """What a reader shows after each event of the run, as the same log grows in another store."""
    store = SqliteStore(home, durability="process")
    for owner in hf._store.owners():
        store.put_owner(owner)
    reader = Reader(store, hf.home, hf._open_redactor)
    kinds = {
        one.event.stream: one.event.kind for one in hf._store.load("@store") if hasattr(one.event, "kind")
    }
    shown: dict[int, dict] = {}
    for entry in hf._store.feed(limit=10_000).entries:
        if entry.stream == "@store":
            continue
        event = e.decode(entry.type, entry.payload)
        epoch = event.epoch if isinstance(event, e.FENCING) else None
        decision = Decision(kinds[entry.stream], [NewEvent(entry.type, entry.at, entry.payload)], epoch)
        store.command(entry.stream, lambda _, decision=decision: decision)
        if entry.stream == "r":
            shown[entry.version] = reader.detail("r").to_json()
    store.close()
    return shown


def test_the_past_is_what_was_shown_then(tmp_path):
    """After every event of a run with a retry, a child, a gate, a rewind and its undo, and as it
    was captured in the middle of the run."""
    failed.clear()
    captured.clear()
    with Holdfast(tmp_path / "home", durability="process") as hf:
        _open[:] = [hf]
        run = hf.with_id("r").start(report, "kelp")
        run.rested.wait(60)
        capture()
        hf.approve("r", "send", by="ann")
        assert run.result() == "end"
        capture()
        hf.rewind("r", "drafted")
        capture()
        hf.undo()
        capture()
        shown = replica(hf, tmp_path / "replica")
        assert len(captured) >= 8 and sorted(shown) == [one.version for one in hf.events("r")]
        for version, what in [*captured, *shown.items()]:
            assert hf.get("r", at=version).to_json() == what
        events = hf.events("r")
        for event in events:
            last = max(one.version for one in events if one.at <= event.at)
            assert hf.get("r", at=event.at).to_json() == shown[last]
        assert hf.get("r", at=str(events[2].version)).to_json() == shown[events[2].version]
        assert hf.get("r", at=events[-1].at.isoformat()).to_json() == shown[events[-1].version]
        now = hf.get("r", at=events[-1].at + timedelta(days=1))
        assert now.to_json() == hf.get("r").to_json()
        drafted = hf.get("r", at="drafted")
        assert [one.key for one in drafted.steps] == ["plain#1", "flaky#1", "drafted#1"]
        assert (drafted.status, drafted.stage, drafted.ended) == ("running", "first", False)
        assert [one.key for one in hf.get("r", at="before:flaky#1").steps] == ["plain#1"]
        assert [one.status for one in hf.get("r", at="send").children()] == ["completed"]
        assert [one.version for one in drafted.events()] == list(range(1, drafted.recorded[-1].version + 1))
        waits = next(one.version for one in events if one.type == "GateOpened")
        assert [gate.key for gate in hf.get("r", at=waits).open_gates()] == ["send#1"]


def test_a_moment_that_is_none(tmp_path):
    """A version that is not there, a time before the run, a name of nothing, nothing at all."""
    with Holdfast(tmp_path, durability="process") as hf:
        hf.with_id("r").run(below, "x")
        created = hf.get("r").created_at
        for at in (0, 99, created - timedelta(seconds=1), "no-such-step"):
            with pytest.raises(NotFound, match="r"):
                hf.get("r", at=at)
        with pytest.raises(BadInput):
            hf.get("r", at=" ")


def test_numbers_name_runs(tmp_path):
    """In the order of creation, children too; with `#` always, without it where no id begins so; never given
    again."""
    with Holdfast(tmp_path, durability="process") as hf:
        hf.with_id("r").run(report_one, "x")
        hf.with_id("7x").run(below, "y")
        numbers = {run.id: run.number for run in hf.runs()}
        assert sorted(numbers.values()) == [1, 2, 3] and numbers["r"] == 1
        assert all(hf.find(f"#{number}") == run for run, number in numbers.items())
        assert (hf.find("3"), hf.find("7"), hf.get("7x").to_json()["number"]) == ("7x", "7x", 3)
        for text in ("#0", "#9", "#", "#x", "9", "#99999999999999999999999", "#٣"):
            with pytest.raises(NotFound):
                hf.find(text)
        hf.delete("7x")
        hf.gc()
        hf.with_id("new").run(below, "z")
        assert hf.get("new").number > 3
        hf.repair()
        assert {run.id: run.number for run in hf.runs()}["r"] == 1


@workflow
def report_one(text: str) -> str:
    return below(text)
