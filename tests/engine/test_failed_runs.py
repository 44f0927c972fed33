"""Failed runs: the error is kept, and only `resume` tries again, only what failed."""

import asyncio

import pytest

from holdfast import StoreError, gather, parallel, step
from holdfast.engine.execution.notices import note_recorded
from holdfast.testing import FakeClock


class Trouble(Exception):
    def __init__(self, code, *, detail):
        super().__init__(code)
        self.detail = detail


@pytest.fixture
def work(ran):
    """A step that fails for the names in `work.fails`."""
    fails = set()

    @step
    def work(name: str) -> str:
        ran.append(name)
        if name in fails:
            raise Trouble(7, detail=name)
        return name.upper()

    work.fails = fails
    return work


def test_a_failed_run_keeps_its_error(hf, open_hf, act, work, ran):
    """`run`, `result`, a second start and another process's view: one and the same error, run once."""
    work.fails.add("b")

    def plot():
        return [work("a"), work("b")]

    with pytest.raises(Trouble) as live:
        hf.with_id("x").run(act(plot))
    other = open_hf()
    with pytest.raises(Trouble) as started:
        other.with_id("x").start(act(plot)).result(30)
    assert [(type(e.value), e.value.args, e.value.detail) for e in (live, started)] == [
        (Trouble, (7,), "b")
    ] * 2
    assert (hf.get("x").status, ran) == ("failed", ["a", "b"])


def notes(error):
    return getattr(error, "__notes__", [])


@pytest.mark.parametrize("way", ["run", "result", "await"])
def test_a_recorded_error_says_that_it_is_one(open_hf, act, work, way):
    """A script that is started again raises the old error: a note names the command that tries again."""
    clock = FakeClock()
    work.fails.add("b")
    flow = act(lambda: work("b"))

    async def awaited(run_id):
        return await hf.with_id(run_id).start(flow)

    hf = open_hf(clock=clock)
    with pytest.raises(Trouble) as live:
        hf.with_id("x").run(flow)
    clock.advance(20)
    if way == "run":
        with pytest.raises(Trouble) as again:
            hf.with_id("x").run(flow)
    elif way == "result":
        handle = hf.with_id("x").start(flow)
        for _ in range(2):
            with pytest.raises(Trouble) as again:
                handle.result(30)
    else:
        with pytest.raises(Trouble) as again:
            asyncio.run(awaited("x"))
    assert notes(live.value) == []
    assert notes(again.value) == [
        "run x failed 20 s ago: this is its recorded error; `holdfast resume x` tries it again"
    ]
    with pytest.raises(Trouble) as resumed:
        hf.resume("x").result(30)
    assert notes(resumed.value) == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.5, "just now"), (59, "59 s ago"), (61, "1 min ago"), (7300, "2 h ago"), (200_000, "2 d ago")],
)
def test_a_note_tells_the_age_of_an_error(seconds, text):
    error = ValueError("bad")
    note_recorded(error, "x", seconds)
    assert f"run x failed {text}: " in notes(error)[0]


def test_a_recorded_error_has_no_note_inside_a_run(hf, act, twice):
    """What leaves a workflow is recorded with its notes: a replay must see the same error."""
    inner = act(lambda: ["kelp"].pop(1), "child")

    @step
    def call() -> None:
        hf.with_id("inner").run(inner)

    def plot():
        found = []
        for work in (call, lambda: hf.with_id("inner").run(inner), inner):
            try:
                work()
            except IndexError as error:
                found.append(notes(error))
        return found

    with pytest.raises(IndexError):
        hf.with_id("inner").run(inner)
    assert twice(plot) == ([[], [], []], [[], [], []])


def test_resume_tries_only_the_failed_step_again(hf, act, work, ran):
    """Same generation, same identity; the rest is replayed."""
    work.fails.add("b")

    def plot():
        return [work("a"), work("b"), work("c")]

    with pytest.raises(Trouble):
        hf.with_id("x").run(act(plot))
    work.fails.clear()
    assert hf.resume("x").result(30) == ["A", "B", "C"]
    assert ran == ["a", "b", "b", "c"]
    types = [event.type for event in hf.events("x")]
    assert types[types.index("RunFailed") :][:3] == ["RunFailed", "StepReopened", "RunReopened"]


def test_a_resumed_run_may_fail_again(hf, act, work, ran):
    """Each resume is one more try, and each failure is kept."""
    work.fails.add("a")
    with pytest.raises(Trouble):
        hf.with_id("x").run(act(lambda: work("a")))
    for _ in range(3):
        with pytest.raises(Trouble):
            hf.resume("x").result(30)
    assert (ran, hf.get("x").status) == (["a"] * 4, "failed")


def test_all_failures_of_a_group_are_tried_again(hf, act, work, ran):
    """`parallel` raises an ExceptionGroup in the order of its arguments; resume opens all its steps."""
    work.fails.update("bd")

    def plot():
        return parallel(work, "abcd")

    with pytest.raises(ExceptionGroup) as caught:
        hf.with_id("x").run(act(plot))
    assert [error.detail for error in caught.value.exceptions] == ["b", "d"]
    work.fails.clear()
    assert hf.resume("x").result(30) == ["A", "B", "C", "D"]
    assert sorted(ran) == ["a", "b", "b", "c", "d", "d"]


def test_all_failures_of_an_async_group_are_tried_again(hf, act, ran):
    """The same for `gather`."""
    fails = set("ac")

    @step
    async def work(name: str) -> str:
        ran.append(name)
        await asyncio.sleep(0)
        if name in fails:
            raise Trouble(1, detail=name)
        return name.upper()

    async def plot():
        return list(await gather(*(work(name) for name in "abc")))

    with pytest.raises(ExceptionGroup) as caught:
        hf.with_id("x").run(act(plot))
    assert [error.detail for error in caught.value.exceptions] == ["a", "c"]
    fails.clear()
    assert hf.resume("x").result(30) == ["A", "B", "C"]
    assert sorted(ran) == ["a", "a", "b", "c", "c"]


def test_an_error_raised_from_a_steps_error_reopens_that_step(hf, act, work, ran):
    """`raise X from error` still says which step is to be tried again."""
    work.fails.add("a")

    def plot():
        try:
            return work("a")
        except Trouble as error:
            raise RuntimeError("could not work") from error

    with pytest.raises(RuntimeError, match="could not work"):
        hf.with_id("x").run(act(plot))
    work.fails.clear()
    assert hf.resume("x").result(30) == "A"
    assert ran == ["a", "a"]


def test_caught_errors_are_not_tried_again(hf, act, work, ran):
    """What the workflow has handled is history; only what ended the run is opened."""
    work.fails.update("ac")

    def plot():
        try:
            work("a")
        except Trouble:
            work("b")
        return work("c")

    with pytest.raises(Trouble):
        hf.with_id("x").run(act(plot))
    work.fails.clear()
    assert hf.resume("x").result(30) == "C"
    assert ran == ["a", "b", "c", "c"]


def test_an_error_of_the_workflow_itself_replays_the_workflow(hf, act, work, ran):
    """Without a failed step, resume replays the function: with mended code it continues."""
    broken = [True]

    def plot():
        first = work("a")
        if broken:
            raise ZeroDivisionError("my own bug")
        return first + work("b")

    with pytest.raises(ZeroDivisionError, match="my own bug"):
        hf.with_id("x").run(act(plot))
    broken.clear()
    assert hf.resume("x").result(30) == "AB"
    assert ran == ["a", "b"]


def test_resuming_a_completed_run_gives_its_result(hf, act, work, ran):
    """Nothing is executed, nothing is written."""
    hf.with_id("x").run(act(lambda: work("a")))
    events = hf.events("x")
    assert hf.resume("x").result(30) == "A"
    assert (ran, hf.events("x")) == (["a"], events)


def test_the_live_error_keeps_the_users_traceback(hf, act, work):
    """The error that `run` raises points at the user's line."""
    work.fails.add("a")
    with pytest.raises(Trouble) as caught:
        hf.run(act(lambda: work("a")))
    assert caught.traceback[-1].path.name == "test_failed_runs.py"


@pytest.mark.parametrize("colour", ["def", "async def"])
def test_a_failure_that_is_replayed_after_a_crash_can_be_tried_again(open_hf, act, crashes, ran, colour):
    """The process died between the step's failure and the run's: resume still knows which step it was."""
    fails = [True]

    @step
    def work() -> str:
        ran.append("work")
        if fails:
            raise Trouble(7, detail="x")
        return "done"

    async def aplot():
        return await work.aio()

    plot = aplot if colour == "async def" else lambda: work()

    def die(event):
        if event.type == "StepFailed":
            store.left = 0

    first = open_hf(on_event=die)
    store = crashes.arm(first)
    with pytest.raises((StoreError, Trouble)):
        first.with_id("x").run(act(plot))
    crashes.bury(first)
    second = open_hf()
    assert [info.status for info in second.steps("x")] == ["failed"]
    with pytest.raises(Trouble):
        second.with_id("x").run(act(plot))
    assert (second.get("x").status, ran) == ("failed", ["work"])
    fails.clear()
    assert second.resume("x").result(30) == "done"
    assert ran == ["work", "work"]


def test_an_error_raised_while_a_steps_error_is_handled_reopens_that_step(hf, act, work, ran):
    """Without `from` the step's error is the context: the run failed because of it."""
    work.fails.add("a")

    def plot():
        try:
            return work("a")
        except Trouble:
            raise RuntimeError("could not work")  # noqa: B904

    with pytest.raises(RuntimeError, match="could not work"):
        hf.with_id("x").run(act(plot))
    work.fails.clear()
    assert hf.resume("x").result(30) == "A"
    assert ran == ["a", "a"]


@pytest.mark.parametrize("in_loop", [False, True])
def test_resume_reads_the_history_once(open_hf, act, work, monkeypatch, in_loop):
    """The claim reads only what was recorded since the code of the run was looked for."""
    work.fails.add("b")
    flow = act(lambda: [work("a"), work("b")])
    with pytest.raises(Trouble):
        open_hf().with_id("x").run(flow)
    work.fails.clear()
    hf = open_hf()
    store = type(hf._engine.store)
    reads, history = [], store.history

    def counted(self, stream, *, after=0, output=False):
        reads.append(after)
        return history(self, stream, after=after, output=output)

    monkeypatch.setattr(store, "history", counted)

    async def resume():
        return await hf.resume("x")

    assert (asyncio.run(resume()) if in_loop else hf.resume("x").result()) == ["A", "B"]
    assert reads.count(0) == 1
