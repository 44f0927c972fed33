"""Child runs: a workflow called inside a run is a run of its own, recorded in the parent as a step."""

import threading
import time

import pytest

from holdfast import DetachedStep, InDoubt, StoreError, command, gather, parallel, step
from holdfast.engine.runs.child_run import child_id
from holdfast.engine.runs.claim import claim
from holdfast.errors import NeedsAttention, NotStorable, OwnershipLost
from holdfast.kernel.identity import check_run_id


@pytest.fixture
def work(ran):
    @step
    def work(name: str) -> str:
        ran.append(name)
        return name.upper()

    return work


def test_only_a_step_can_ignore_what_cannot_be_stored(hf, act, work):
    """The error of a step advises `ignore`, which that of a workflow does not: all its arguments count."""
    child = act(lambda name: work(name), "child")
    for called, advised in ((work, True), (child, False)):
        with pytest.raises(NotStorable, match="is not data") as refused:
            hf.run(act(lambda called=called: called(object())))
        assert ("@step(ignore=" in str(refused.value)) is advised


def test_a_child_is_a_run_with_a_readable_id(hf, act, work):
    """It has its own stream and steps, and knows its parent; the parent has it as one step."""
    child = act(lambda name: work(name), "child")

    def plot():
        return [child("a"), child("b")]

    assert hf.with_id("p").run(act(plot)) == ["A", "B"]
    assert [(info.key, info.kind, info.child) for info in hf.steps("p")] == [
        ("child#1", "child", "p.child-1"),
        ("child#2", "child", "p.child-2"),
    ]
    assert [(run.id, run.parent, run.status) for run in hf.runs()] == [
        ("p.child-2", "p", "completed"),
        ("p.child-1", "p", "completed"),
        ("p", "", "completed"),
    ]
    assert [info.key for info in hf.steps("p.child-1")] == ["work#1"]


def test_async_children(hf, act, ran):
    """The same in the other colour, side by side."""

    @step
    async def work(name: str) -> str:
        ran.append(name)
        return name.upper()

    async def inner(name):
        return await work(name)

    child = act(inner, "child")

    async def plot():
        return list(await gather(child("a"), child("b")))

    assert hf.with_id("p").run(act(plot)) == ["A", "B"]
    assert sorted(run.id for run in hf.runs()) == ["p", "p.achild-1", "p.achild-2"]


def test_parallel_children_and_grandchildren(hf, act, work, ran):
    """Children in threads have children of their own."""
    grandchild = act(lambda name: work(name), "grandchild")
    child = act(lambda name: [grandchild(f"{name}1"), grandchild(f"{name}2")], "child")

    def plot():
        return parallel(child, ["a", "b"])

    assert hf.with_id("p").run(act(plot)) == [["A1", "A2"], ["B1", "B2"]]
    assert len(hf.runs(status="completed")) == 7
    assert sorted(ran) == ["a1", "a2", "b1", "b2"]


@pytest.mark.parametrize("survivor", range(2, 9))
def test_a_crash_inside_a_child_goes_on_inside_it(open_hf, act, crashes, work, ran, survivor):
    """Wherever the process died, no recorded step of parent or child runs again."""
    child = act(lambda: [work("c1"), work("c2")], "child")

    def plot():
        return [work("p1"), child(), work("p2")]

    first = open_hf()
    crashes.arm(first, survivor)
    with pytest.raises(StoreError):
        first.with_id("p").run(act(plot))
    crashes.bury(first)
    second = open_hf()
    before = [
        info.name for run in second.runs() for info in second.steps(run.id) if info.status == "completed"
    ]
    already = list(ran)
    ran.clear()
    assert second.with_id("p").run(act(plot)) == ["P1", ["C1", "C2"], "P2"]
    assert len(already) + len(ran) in (4, 5)
    assert len(ran) == 4 - before.count("work")
    assert {run.status for run in second.runs()} == {"completed"}


def test_a_failed_child_fails_its_parent_and_resume_reopens_both(hf, act, ran):
    """The error passes through with its class; resume tries the child's failed step again, alone."""
    fails = [True]

    @step
    def first() -> int:
        ran.append("first")
        return 1

    @step
    def second() -> int:
        ran.append("second")
        if fails:
            raise ValueError("not yet")
        return 2

    child = act(lambda: [first(), second()], "child")
    with pytest.raises(ValueError, match="not yet"):
        hf.with_id("p").run(act(lambda: child()))
    assert [(run.id, run.status) for run in hf.runs()] == [("p.child-1", "failed"), ("p", "failed")]
    fails.clear()
    assert hf.resume("p").result(30) == [1, 2]
    assert ran == ["first", "second", "second"]


def test_a_caught_failure_of_a_child_is_not_tried_again(twice, act, ran):
    """Replay takes the recorded error; the failed child stays failed."""

    def fail():
        ran.append("child")
        raise ValueError("no")

    child = act(fail, "child")

    def plot():
        try:
            child()
        except ValueError as error:
            return f"caught {error}"

    assert twice(plot) == ("caught no", "caught no")
    assert ran == ["child"]


def test_a_once_step_in_doubt_in_a_child_stops_the_parent(open_hf, act, crashes, ran):
    """The parent needs attention too and says which child; settling the child lets both continue."""

    @step(effect="once")
    def pay() -> str:
        ran.append("pay")
        return "paid"

    child = act(lambda: pay(), "child")

    def plot():
        try:
            return child()
        except Exception:
            return "swallowed"

    first = open_hf()
    crashes.arm(first, 4)  # claim, intent of the child, claim of the child, intent of pay
    with pytest.raises(StoreError):
        first.with_id("p").run(act(plot))
    crashes.bury(first)
    second = open_hf()
    assert [(info.key, info.status) for info in second.steps("p.child-1")] == [("pay#1", "running")]
    with pytest.raises(NeedsAttention, match=r"child run p\.child-1"):
        second.with_id("p").run(act(plot))
    assert {run.id: run.status for run in second.runs()} == {
        "p": "needs_attention",
        "p.child-1": "needs_attention",
    }
    with pytest.raises(InDoubt):
        second.resume("p.child-1")
    second.settle("p.child-1", "pay", done="by hand")
    assert second.resume("p").result(30) == "by hand"
    assert ran == ["pay"]


def test_ids_of_deep_children_stay_legal_and_distinct():
    """However long parent and key are, an id has at most 128 characters of those allowed."""
    parent, seen = "p" * 128, set()
    for key in ["a#1", "a-1", "x" * 200 + "#1", "x" * 200 + "#2", "branch[1]/é#1", "branch[1]/è#1"]:
        whole = child_id(parent, 0, key)
        assert check_run_id(whole) == whole
        seen.add(whole)
    for key in ["a#1", "a[1]/b#1", "a-1-/b#1", "ü#1"]:
        seen.add(child_id("p", 0, key))
        seen.add(child_id("p", 3, key))
    assert len(seen) == 6 + 8


def test_outside_a_run_a_workflow_is_a_plain_call(act, work, ran):
    """Nothing is recorded; its steps are plain calls as well."""
    flow = act(lambda: work("a"))
    flow._warned = False  # every test shares it
    with pytest.warns(DetachedStep, match="outside every run"):
        assert flow() == "A"
    assert ran == ["a"]


def test_a_crash_after_a_childs_failure_does_not_try_it_again(open_hf, act, crashes, ran):
    """The child failed, the process died before the parent knew: the parent takes the recorded error."""

    @step
    def work() -> None:
        ran.append("work")
        raise ValueError("no")

    def die(event):
        if event.type == "RunFailed" and event.run_id == "p.child-1":
            store.left = 0

    child = act(lambda: work(), "child")
    first = open_hf(on_event=die)
    store = crashes.arm(first)
    with pytest.raises(StoreError):
        first.with_id("p").run(act(lambda: child()))
    crashes.bury(first)
    second = open_hf()
    with pytest.raises(ValueError, match="no"):
        second.with_id("p").run(act(lambda: child()))
    assert ran == ["work"]
    assert {run.id: run.status for run in second.runs()} == {"p": "failed", "p.child-1": "failed"}


@pytest.mark.parametrize("colour", ["def", "async def"])
def test_a_child_that_somebody_else_resumes_is_followed(open_hf, act, crashes, ran, colour):
    """While one thread continues the child by its id, the parent waits for it and gets its result."""
    inside, go = threading.Event(), threading.Event()

    @step
    def work() -> str:
        ran.append("work")
        inside.set()
        go.wait(30)
        return "done"

    async def awork() -> str:
        return await work.aio()

    child = act((lambda: work()) if colour == "def" else awork, "child")

    async def aplot():
        return await child()

    chosen = act((lambda: child()) if colour == "def" else aplot)
    child_id = "p.child-1" if colour == "def" else "p.achild-1"

    def die(event):
        if event.type == "RunClaimed" and event.run_id == child_id:
            store.left = 0

    first = open_hf(on_event=die)
    store = crashes.arm(first)
    go.set()
    with pytest.raises(StoreError):
        first.with_id("p").run(chosen)
    crashes.bury(first)
    ran.clear()
    inside.clear()
    go.clear()
    second = open_hf()
    alone = second.resume(child_id)
    assert inside.wait(30)
    parent = second.with_id("p").start(chosen)
    go.set()
    assert [alone.result(30), parent.result(30)] == ["done", "done"]
    assert ran == ["work"]


def until(happened, timeout=30.0):
    deadline = time.monotonic() + timeout
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


@pytest.mark.parametrize(("colour", "depth"), [("def", 1), ("def", 2), ("async def", 1)])
def test_taking_a_parent_over_takes_its_children(open_hf, act, ran, colour, depth):
    """By force from a live owner, down to the last: none of them is told to be held."""
    inside, go = threading.Event(), threading.Event()

    @step
    def work() -> str:
        ran.append("work")
        inside.set()
        if len(ran) == 1:
            go.wait(30)
        return "done"

    if colour == "def":
        grandchild = act(lambda: work(), "grandchild")
        child = act((lambda: work()) if depth == 1 else (lambda: grandchild()), "child")
        chosen = act(lambda: child())
    else:

        async def awork() -> str:
            return await work.aio()

        async def aplot() -> str:
            return await child()

        child = act(awork, "child")
        chosen = act(aplot)
    first, second = open_hf(), open_hf()
    run = first.with_id("p").start(chosen)
    assert inside.wait(30)
    assert second.resume("p", take_over=True).result(30) == "done"
    go.set()
    with pytest.raises(OwnershipLost):
        run.result(30)
    assert {info.status for info in second.runs()} == {"completed"}
    claims = {
        info.id: [e.data.get("forced", False) for e in second.events(info.id) if e.type == "RunClaimed"]
        for info in second.runs()
    }
    assert all(forced == [False, True] for forced in claims.values()), claims


def test_a_child_that_is_begun_after_a_takeover_is_not_forced(open_hf, act, ran):
    """Only what the last owner had begun is taken from it."""
    inside, go = threading.Event(), threading.Event()

    @step
    def work() -> None:
        inside.set()
        if ran.append("work") or len(ran) == 1:
            go.wait(30)

    child = act(lambda: "done", "child")

    def plot():
        work()
        return child()

    first, second = open_hf(), open_hf()
    first.with_id("p").start(act(plot))
    assert inside.wait(30)
    assert second.resume("p", take_over=True).result(30) == "done"
    go.set()
    claimed = [event.data for event in second.events("p.child-1") if event.type == "RunClaimed"]
    assert [data.get("forced", False) for data in claimed] == [False]


@pytest.mark.parametrize("depth", [1, 2])
def test_a_child_stops_when_its_parent_is_taken_away(open_hf, act, tmp_path, depth):
    """It does not continue for the old owner: its command is ended and it is released."""
    began = tmp_path / "began"

    def work():
        return command(["sh", "-c", f"touch {began}; sleep 600"], effect="idempotent").exit_code

    grandchild = act(work, "grandchild")
    child = act(work if depth == 1 else (lambda: grandchild()), "child")
    first, second = open_hf(), open_hf()
    run = first.with_id("p").start(act(lambda: child()))
    until(began.exists)
    claim(second._engine, "p", force=True)
    with pytest.raises(OwnershipLost):
        run.result(30)
    below = [info for info in second.runs() if info.id != "p"]
    assert len(below) == depth
    assert all(info.interrupted and info.owner_pid is None for info in below)
