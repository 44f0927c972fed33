"""`Service`: continues whatever can continue, until it is told to stop."""

import threading

import msgspec
import pytest
from tests.engine.test_gates import parked, until

from holdfast import RunCancelled, RunInterrupted, RunWaiting, approval, sleep, step, wait_for
from holdfast.engine.runs import recovery
from holdfast.engine.runs.serving import EndedElsewhere, Service
from holdfast.errors import CodeNotFound, NotTrusted, RunPaused, StoreFull
from holdfast.serving.protocol import error_fields, error_of
from holdfast.testing import FakeClock


@pytest.fixture
def serve(open_hf):
    """Starts a service on a Holdfast of its own; (the service, what it has told)."""
    stop = threading.Event()
    threads = []

    def start(limit=4, elsewhere=None):
        told = []
        tell = lambda run_id, error: told.append((run_id, error))  # noqa: E731
        service = Service(open_hf()._engine, limit, tell, elsewhere)
        thread = threading.Thread(target=service.run, args=(stop,))
        thread.start()
        threads.append(thread)
        return service, told

    yield start
    stop.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def test_parked_runs_go_on(open_hf, act, serve):
    """After a decision, after a signal, at their time; nobody else lives."""

    def plot(kind):
        if kind == "gate":
            return approval("ok").outcome
        if kind == "signal":
            return wait_for("go")
        return sleep(1.3)

    flow = act(plot)
    first = open_hf()
    for kind in ("gate", "signal", "sleep"):
        first.with_id(kind).start(flow, kind)
        parked(first, kind, "sleeping" if kind == "sleep" else "waiting")
    first.close()
    service, told = serve()
    reader = open_hf()
    reader.approve("gate")
    reader.signal("signal", "go", 7)
    until(lambda: {info.status for info in reader.runs()} == {"completed"})
    until(lambda: service.served == 3)
    assert sorted(told) == [("gate", None), ("signal", None), ("sleep", None)]


def test_orphans_go_on(open_hf, act, crashes, serve):
    """A dead owner's run is claimed, replayed and brought to its end."""
    dead = open_hf()
    flow = act(lambda: approval("ok").outcome)
    store = crashes.arm(dead)
    dead.with_id("x").start(act(lambda: approval("ok").outcome))
    parked(dead, "x")
    reader = open_hf()
    reader.approve("x")
    store.left = 0
    crashes.bury(dead)
    serve()
    until(lambda: reader.get("x").status == "completed")
    assert reader.with_id("x").run(flow) == "approved"


def test_a_family_goes_on_as_one(open_hf, act, serve):
    """A child's decision continues its parent, which continues the child."""
    kid = act(lambda: approval("ok").outcome, "child")
    first = open_hf()
    first.with_id("x").start(act(lambda: [kid(), kid()]))
    parked(first, "x")
    first.close()
    serve()
    reader = open_hf()
    for _ in range(2):
        child = until(lambda: next((i.id for i in reader.runs() if i.parent and i.status == "waiting"), None))
        reader.approve(child)
        until(lambda child=child: reader.get(child).status == "completed")
    until(lambda: reader.get("x").status == "completed")


def lost_or(kid):
    try:
        return kid()
    except RunCancelled:
        return "lost"


def test_a_parent_whose_child_was_cancelled_goes_on(open_hf, act, serve):
    """Both were parked: nothing but the end of the child says that the parent can continue."""
    kid = act(lambda: approval("ok").outcome, "child")
    flow = act(lambda: lost_or(kid))
    first = open_hf()
    first.with_id("x").start(flow)
    parked(first, "x")
    first.close()
    reader = open_hf()
    assert reader.cancel("x.child-1") == "cancelled"
    serve()
    until(lambda: reader.get("x").status == "completed")
    assert reader.with_id("x").run(flow) == "lost"


def test_a_parent_whose_child_was_resumed_alone_goes_on(open_hf, act, serve):
    kid = act(lambda: approval("ok").outcome, "child")
    flow = act(lambda: kid())
    first = open_hf()
    first.with_id("x").start(flow)
    parked(first, "x")
    first.close()
    reader = open_hf()
    reader.approve("x.child-1")
    assert reader.resume("x.child-1").result(timeout=20) == "approved"
    serve()
    until(lambda: reader.get("x").status == "completed")
    assert reader.with_id("x").run(flow) == "approved"


def test_many_serve_and_each_run_goes_on_once(open_hf, act, ran, serve):
    """Two services, twenty decisions: no step runs twice."""

    @step
    def after(n):
        ran.append(n)

    def plot(n):
        approval("ok")
        after(n)

    flow = act(plot)
    first = open_hf()
    for n in range(20):
        first.with_id(f"r{n}").start(flow, n)
    for n in range(20):
        parked(first, f"r{n}")
    first.close()
    serve()
    serve()
    reader = open_hf()
    for n in range(20):
        reader.approve(f"r{n}")
    until(lambda: {info.status for info in reader.runs()} == {"completed"})
    assert sorted(ran) == list(range(20))


@pytest.mark.parametrize("orphan", [False, True])
def test_what_cannot_be_executed_is_told_once(open_hf, act, crashes, serve, monkeypatch, orphan):
    """Its code is not found: one word, and nobody tries over and over."""
    first = open_hf()
    go = threading.Event()

    @step
    def held():
        go.wait(20)

    first.with_id("x").start(act((lambda: held()) if orphan else (lambda: approval("ok").outcome)))
    if orphan:
        until(lambda: first.steps("x"))
        go.set()
        crashes.bury(first)
    else:
        parked(first, "x")
        first.approve("x")
        first.close()

    def lost(_):
        raise CodeNotFound("play", "it is gone")

    monkeypatch.setattr(recovery.codes, "load", lost)
    service, told = serve()
    until(lambda: told)
    threading.Event().wait(1.3)  # longer than between two looks for orphans
    assert (service.served, len(told), type(told[0][1])) == (1, 1, CodeNotFound)


def test_a_run_that_waits_again_is_told_as_waiting(open_hf, act, serve):
    first = open_hf()
    first.with_id("x").start(act(lambda: (approval("a").outcome, approval("b").outcome)))
    parked(first, "x")
    first.approve("x")
    first.close()
    _, told = serve()
    until(lambda: told)
    assert isinstance(told[0][1], RunWaiting)
    reader = open_hf()
    reader.approve("x", "b")
    until(lambda: reader.get("x").status == "completed")


def wait_at_a_gate(hf, act, *names):
    """Runs of their own, which nobody holds."""
    for name in names:
        hf.with_id(name).start(act(lambda: approval("ok").outcome))
        parked(hf, name)
    hf.close()


def failing(monkeypatch, *errors):
    """The first claims find these errors when they load the run's code."""
    left, load = list(errors), recovery.codes.load

    def stumble(code):
        if left:
            error = left.pop(0)
            raise error() if callable(error) else error
        return load(code)

    monkeypatch.setattr(recovery.codes, "load", stumble)


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "beside another"])
def test_what_failed_is_tried_again_though_nothing_else_happens(open_hf, act, serve, monkeypatch, others):
    """The store is quiet: nobody writes anything that would be a reason to look."""
    wait_at_a_gate(open_hf(), act, "x")
    failing(monkeypatch, *[StoreFull("no room")] * (1 + others))
    services = [serve() for _ in range(1 + others)]
    reader = open_hf()
    reader.approve("x")
    until(lambda: reader.get("x").status == "completed")
    assert [type(error) for _, told in services for _, error in told].count(StoreFull) == 1 + others


def test_what_was_written_while_it_failed_is_a_reason_to_try_again(open_hf, act, serve, monkeypatch):
    """It was refused as it was before: that would be all for half a minute."""
    wait_at_a_gate(open_hf(), act, "x")
    reader = open_hf()

    def gone():
        reader.signal("x", "more")
        return CodeNotFound("play", "it is gone")

    failing(monkeypatch, gone)
    serve()
    reader.approve("x")
    until(lambda: reader.get("x").status == "completed", 10)


def test_code_that_ends_its_thread_leaves_room_for_others(open_hf, act, serve, monkeypatch):
    wait_at_a_gate(open_hf(), act, "x", "y")
    failing(monkeypatch, SystemExit(3))
    _, told = serve(limit=1)
    reader = open_hf()
    reader.approve("x")
    until(lambda: told)
    assert (told[0][0], type(told[0][1])) == ("x", SystemExit)
    reader.approve("y")
    until(lambda: reader.get("y").status == "completed")


def test_a_system_without_threads_is_no_reason_to_end(open_hf, act, serve, monkeypatch):
    wait_at_a_gate(open_hf(), act, "x")
    serve()
    start, refused = threading.Thread.start, []

    def scarce(thread):
        if thread.name == "serve-x" and len(refused) < 3:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    reader = open_hf()
    reader.approve("x")
    until(lambda: reader.get("x").status == "completed")
    assert len(refused) == 3


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_workflow_that_exits_is_not_executed_over_and_over(open_hf, act, serve, ran, elsewhere):
    """It is told once, and tried again after a while."""

    def exits():
        approval("ok")
        ran.append("exits")
        raise SystemExit(3)

    first = open_hf()
    first.with_id("x").start(act(exits))
    parked(first, "x")
    first.close()
    reader = open_hf()

    def there(run_id, code):
        """As a worker does, which is another process."""
        assert code.name == "play"
        run = open_hf()._engine.resume(run_id, stay=False)
        run.rested.wait()
        return EndedElsewhere(str(run.outcome.error), 1)

    _, told = serve(elsewhere=there if elsewhere else None)
    reader.approve("x")
    until(lambda: told)
    threading.Event().wait(1.3)  # longer than between two looks for orphans
    assert (ran, len(told)) == (["exits"], 1)
    assert isinstance(told[0][1], EndedElsewhere if elsewhere else RunInterrupted)


@pytest.mark.parametrize("colour", ["def", "async"])
def test_a_run_that_settings_stop_is_told_once(open_hf, act, ran, colour):
    """The agent of a recorded job is not trusted any more, say. It is tried again after half a minute, then
    after twice that, and so on up to an hour; it is told once, and continues when that is mended."""

    @step
    def one():
        return 1

    def plot():
        ran.append("plot")
        if len(ran) in wrong:
            raise NotTrusted("the agent is not trusted")
        one()
        return approval("ok").outcome

    async def async_plot():
        ran.append("plot")
        if len(ran) in wrong:
            raise NotTrusted("the agent is not trusted")
        await one.aio()
        return (await approval.aio("ok")).outcome

    wrong, clock = range(2, 12), FakeClock(jump=False)
    first = open_hf(clock=clock)
    first.with_id("x").start(act(plot if colour == "def" else async_plot))
    parked(first, "x")
    first.approve("x")
    first.close()
    hf, told = open_hf(clock=clock), []
    service = Service(hf._engine, 4, lambda run_id, error: told.append((run_id, type(error))))

    def look(after_s=0.0):
        """One look of the service, and the end of what it began."""
        clock.advance(after_s)
        service.drain(threading.Event())
        return len(ran) - 1

    waits = [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert look() == 1
    for n, wait in enumerate(waits):
        assert look(wait - 20) == n + 1
        assert look(20) == n + 2
    assert told == [("x", NotTrusted)]
    assert look(3600) == len(waits) + 2
    assert told == [("x", NotTrusted), ("x", type(None))]
    assert hf.get("x").status == "completed"


def test_a_fault_of_the_disk_is_tried_again_within_half_a_minute(open_hf, act, monkeypatch):
    """It passes without a change to the run, also if there is room enough for each claim."""
    wait_at_a_gate(open_hf(), act, "x")
    hf = open_hf()
    service = Service(hf._engine, 4)
    monkeypatch.setattr(hf._engine.clock, "monotonic", lambda: 0.0)
    monkeypatch.setattr(service, "_made_progress", lambda tried: False)
    row = hf._store.run("x")
    waits = []
    for _ in range(8):
        tried, row = row, msgspec.structs.replace(row, epoch=row.epoch + 1, version=row.version + 1)
        monkeypatch.setattr(hf._store, "run", lambda _, row=row: row)
        service._refuse(tried, StoreFull("no room"))
        waits.append(service._refused["x"].again_at)
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]


def test_an_error_comes_from_a_worker_with_the_error_of_the_store_behind_it():
    """A pause during which a child run lost an append; any other cause stays with the worker."""
    paused, lost = RunPaused("x", "lunch", "ann"), StoreFull("no room")
    paused.__cause__ = lost
    found = error_of(error_fields(paused))
    assert (type(found), str(found), vars(found)) == (RunPaused, str(paused), vars(paused))
    assert (type(found.__cause__), str(found.__cause__)) == (StoreFull, "no room")
    paused.__cause__ = KeyError("theirs")
    assert error_of(error_fields(paused)).__cause__ is None
