"""A disk that is full for a while: nobody is told what no log has, and no run is stuck when there is room."""

import threading

import pytest
from tests.engine.test_gates import parked, until

from holdfast import Holdfast, approval, checkpoint, emit, step
from holdfast.engine.execution.execution import Execution
from holdfast.engine.outside import steering
from holdfast.engine.ownership.unreleased import is_held
from holdfast.engine.runs import recovery
from holdfast.engine.runs.claim import claim, give_back
from holdfast.engine.runs.serving import Service
from holdfast.errors import OwnershipLost, RunHeld, StoreFull
from holdfast.kernel import commands as c


class Disk:
    """Under one Holdfast. A release is so small that a database that may not grow still has room for it: so
    whole commits are refused here."""

    def __init__(self, hf):
        self._store = hf._store
        self._commit = self._store._group._commit
        self._store._group._commit = self._write
        self.refuses = None
        self.refused = []

    def fill(self, refuses=lambda _: True):
        """`refuses` is asked with the types of the events of a commit; none are known of a command's."""
        self.refuses = refuses

    def clear(self):
        self.refuses = None

    def _write(self, batch):
        types = [event.type for item in batch for event in getattr(item, "events", ())]
        if self.refuses is not None and self.refuses(types):
            self.refused.append(types)
            self._store._fail(batch, StoreFull("no room"))
        else:
            self._commit(batch)


def types(hf, run_id):
    return [event.type for event in hf.events(run_id)]


# What is told


@pytest.mark.parametrize("refusal", ["full", "taken"])
def test_an_emission_that_was_lost_is_not_told(open_hf, act, monkeypatch, refusal):
    """`on_event` hears what the log has, and what it has in the place of the lost one, too."""
    told, going, inside = [], threading.Event(), threading.Event()
    hf = open_hf(on_event=lambda event: told.append((event.version, event.type)))

    @step
    def work():
        emit("token", "kept")
        inside.set()
        assert going.wait(20)
        if refusal == "full":
            db = hf._store._db
            db.pragma("max_page_count", db.pragma("page_count"))
        emit("token", "lost" * 100_000)
        until(lambda: hf._engine.live["x"][0].control is not None)

    run = hf.with_id("x").start(act(lambda: work()))
    assert inside.wait(20)
    if refusal == "taken":
        until(lambda: "Emitted" in types(hf, "x"))
        monkeypatch.setattr(hf._engine.follower, "_receive", lambda: False)  # it may be slower
        claim(open_hf()._engine, "x", force=True)
    going.set()
    with pytest.raises(StoreFull if refusal == "full" else OwnershipLost):
        run.result(20)
    hf._store._db.pragma("max_page_count", 1 << 30)
    logged = [(event.version, event.type) for event in hf.events("x")]
    assert logged[-1][1] == ("RunReleased" if refusal == "full" else "RunClaimed")
    until(lambda: told == logged)


def test_a_release_that_nobody_waits_for_and_that_is_lost_is_not_told(open_hf, act):
    """A claim is given back when its task was cancelled meanwhile; here that is refused, and retried."""
    told = []
    hf = open_hf(on_event=lambda event: told.append((event.version, event.type)))
    disk = Disk(hf)
    hf.with_id("x").start(act(lambda: approval("go").outcome))
    parked(hf, "x", "waiting")
    claimed = claim(hf._engine, "x")
    until(lambda: told[-1][1] == "RunClaimed")
    disk.fill()
    give_back(hf._engine, "x", claimed)
    until(lambda: ["RunReleased"] in disk.refused and not hf._engine.flusher._has_noted())
    assert types(hf, "x")[-1] == told[-1][1] == "RunClaimed"
    disk.clear()
    until(lambda: types(hf, "x")[-1] == "RunReleased")
    until(lambda: told == [(event.version, event.type) for event in hf.events("x")])


@pytest.mark.parametrize("whose", ["own", "child"])
def test_a_full_disk_is_not_told_as_what_needs_a_person(tmp_path, act, whose):
    """Where a run with files continues: its files could be looked at, and the log could not be written. Its
    parent must not record that it needs attention."""
    root = tmp_path / "files"
    root.mkdir()
    (root / "a").write_text("a")

    def kid():
        checkpoint("one")
        return approval("go").outcome

    with Holdfast(tmp_path / "home", workspace=root, durability="process") as hf:
        disk = Disk(hf)
        nested = act(kid, "child")
        run = hf.with_id("x").start(act(kid if whose == "own" else lambda: nested()))
        parked(hf, "x", "waiting")
        disk.fill(lambda types: "FilesSaved" in types)
        gated = next(info.id for info in hf.runs() if hf.checkpoints(info.id))
        hf.approve(gated)
        with pytest.raises(StoreFull):
            run.result(20)
        disk.clear()
        assert {info.status for info in hf.runs()} <= {"running", "pending"}
        assert hf.resume("x").result(20) == "approved"


def test_no_room_for_a_snapshot_is_not_for_a_person(tmp_path, act, monkeypatch):
    """The disk of the files is full, that of the log is not: the run continues when there is room."""

    def no_room(*_):
        raise StoreFull("no room")

    with Holdfast(tmp_path / "home", workspace=tmp_path, durability="process") as hf:
        flow = act(lambda: checkpoint("one"))
        with monkeypatch.context() as patch:
            patch.setattr("holdfast.engine.files.file_windows.take", no_room)
            with pytest.raises(StoreFull):
                hf.with_id("x").run(flow)
        assert types(hf, "x") == ["RunCreated", "RunClaimed", "RunReleased"]
        assert [run.result(20) for run in hf.recover()] == [None]


def test_what_needs_a_person_is_told_only_if_the_log_says_so(hf, act):
    """The run stops because of its history, and that cannot be written: it is as it was."""
    disk = Disk(hf)

    @step
    def work(n):
        return n

    values = iter([1, 2, 2])

    def plot():
        work(next(values))
        disk.fill()
        return approval("go").outcome

    with pytest.raises(StoreFull):
        hf.with_id("x").run(act(plot))
    disk.fill(lambda types: "RunNeedsAttention" in types)
    with pytest.raises(StoreFull):
        hf.resume("x").result(20)
    assert hf.get("x").status == "running"


def test_a_cancel_that_cannot_be_written_is_told_in_either_colour(hf, act, monkeypatch):
    """It comes while the run is parked: the run is released, its end is refused."""

    def refuse(*_):
        raise StoreFull("no room")

    def release_and_cancel(execution, *_):
        release = c.ReleaseRun(execution.id, execution.engine.owner_id)
        execution.transact(lambda: [release])
        return execution.cancel("enough", "")

    async def async_plot():
        return (await approval.aio("go")).outcome

    monkeypatch.setattr(steering, "cancel", refuse)
    monkeypatch.setattr(Execution, "release_parked", release_and_cancel)
    for name, plot in (("sync", lambda: approval("go").outcome), ("async", async_plot)):
        with pytest.raises(StoreFull):
            hf.with_id(name).start(act(plot)).result(20)
        assert not hf.get(name).owner_pid


# When there is room again


def stuck(hf, act, run_id="x"):
    """(a disk that is full, the workflow): its step could not be recorded, nor the run be released."""
    disk = Disk(hf)

    @step
    def work():
        if not disk.refused:
            disk.fill()
        return 1

    flow = act(lambda: work())
    with pytest.raises(StoreFull):
        hf.with_id(run_id).start(flow).result(20)
    assert ["RunReleased"] in disk.refused
    assert types(hf, run_id)[-1] != "RunReleased" and hf.get(run_id).owner_pid
    return disk, flow


def test_other_processes_get_the_run_when_there_is_room(open_hf, act):
    """This process retries the release, and tells of it."""
    told = []
    hf, other = open_hf(on_event=lambda event: told.append(event.type)), open_hf()
    disk, _ = stuck(hf, act)
    with pytest.raises(RunHeld):
        other.resume("x")
    disk.clear()
    until(lambda: not other.get("x").owner_pid)
    assert other.resume("x").result(20) == 1
    assert told == ["RunCreated", "RunClaimed", "RunReleased"] == types(hf, "x")[:3]
    until(lambda: not hf._engine.unreleased)


@pytest.fixture
def patient(monkeypatch):
    """Nobody retries a release: what is seen is what this process does with a run that is still its own."""
    monkeypatch.setattr("holdfast.engine.runs.follower.release_left", lambda _: None)


@pytest.mark.parametrize("way", ["resume", "run", "start", "recover", "serve"])
def test_this_process_goes_on_with_it_at_once(hf, act, patient, way):
    """By itself if it serves the store; each execution has an epoch of its own."""
    disk, flow = stuck(hf, act)
    disk.clear()
    assert recovery.orphans(hf._engine) == ["x"]
    if way == "resume":
        assert hf.resume("x").result(20) == 1
    elif way == "run":
        assert hf.with_id("x").run(flow) == 1
    elif way == "start":
        assert hf.with_id("x").start(flow).result(20) == 1
    elif way == "recover":
        assert [run.result(20) for run in hf.recover()] == [1]
    else:
        service, stop = Service(hf._engine, 4), threading.Event()
        service.drain(stop)
    assert hf.get("x").status == "completed"
    claims = [event.data["epoch"] for event in hf.events("x") if event.type == "RunClaimed"]
    assert claims == [1, 2]
    assert recovery.orphans(hf._engine) == []


def test_serving_goes_on_by_itself_when_there_is_room(hf, act, patient):
    disk, _ = stuck(hf, act)
    told, stop = [], threading.Event()
    service = Service(hf._engine, 4, lambda run_id, error: told.append((run_id, type(error))))
    thread = threading.Thread(target=service.run, args=(stop,))
    thread.start()
    try:
        until(lambda: told == [("x", StoreFull)])
        disk.clear()
        until(lambda: told == [("x", StoreFull), ("x", type(None))])
    finally:
        stop.set()
        thread.join(20)
    assert hf.get("x").status == "completed"


@pytest.mark.parametrize("way", ["cancel", "pause"])
def test_it_is_cancelled_and_paused_at_once(hf, act, patient, way):
    """Nobody would hear a request."""
    disk, _ = stuck(hf, act)
    disk.clear()
    status = hf.cancel("x", patience=0.0) if way == "cancel" else hf.pause("x", patience=0.0)
    assert status == {"cancel": "cancelled", "pause": "paused"}[way]
    assert types(hf, "x")[-1] == {"cancel": "RunCancelled", "pause": "RunPaused"}[way]


@pytest.mark.parametrize("way", ["cancel", "pause"])
def test_what_another_process_asked_for_is_done_with_the_release(open_hf, act, way):
    hf, other = open_hf(), open_hf()
    disk, _ = stuck(hf, act)
    (other.cancel if way == "cancel" else other.pause)("x", patience=0.0)
    assert types(hf, "x")[-1] == {"cancel": "CancelRequested", "pause": "PauseRequested"}[way]
    disk.clear()
    until(lambda: hf.get("x").status == {"cancel": "cancelled", "pause": "paused"}[way])


def test_a_run_that_is_claimed_anew_is_not_released_by_the_retry(hf, act):
    """The retry has looked at the log, is slow, and the run continues here meanwhile."""
    disk, _ = stuck(hf, act)
    engine = hf._engine
    retrying, claimed, real = threading.Event(), threading.Event(), engine.store.command
    held = []

    def command(stream, decide, **kwargs):
        if threading.current_thread().name == "holdfast-follow":
            retrying.set()
            assert claimed.wait(20)
        return real(stream, decide, **kwargs)

    def is_held_now():
        row = engine.store.run("x")
        return is_held(engine, "x", row.owner, row.epoch)

    def plot():
        held.append(is_held_now())
        claimed.set()
        until(lambda: not engine.unreleased)
        return 2

    engine.store.command = command
    assert retrying.wait(20)
    disk.clear()
    assert not is_held_now()
    act(plot)
    assert hf.resume("x").result(20) == 2
    assert held == [True]
    assert types(hf, "x")[2:] == ["RunReleased", "RunClaimed", "RunCompleted"]
