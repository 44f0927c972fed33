"""Children of the other colour: an async child of a `def` parent, and a `def` child of an async one."""

import asyncio
import os
import signal
import threading
import time

import pytest

from holdfast import (
    DetachedStep,
    RunCancelled,
    RunHeld,
    StepTimeout,
    StoreError,
    approval,
    command,
    gather,
    parallel,
    sleep,
    step,
    timeout,
    wait_for,
)
from holdfast.errors import OwnershipLost, WrongColour
from holdfast.operations.replaying import replay
from holdfast.testing.crash import at_body, at_mark

SYNC, ASYNC = "def parent", "async parent"


class Family:
    """A parent of one colour and a child of the other. Bodies are written once, as generators that yield
    calls: `yield work, "a"` is `work("a")` in a `def` workflow and `await work.aio("a")` in an async one."""

    def __init__(self, act, colour):
        self._act = act
        self.is_async = colour == ASYNC
        self.child_id = "p.child-1" if self.is_async else "p.achild-1"

    def child(self, body):
        return self._act(_as_async(body) if not self.is_async else _as_def(body), "child")

    def plot(self, body):
        """The parent's function."""
        return _as_async(body) if self.is_async else _as_def(body)

    def parent(self, body):
        return self._act(self.plot(body))

    def all_at_once(self, child, items):
        """The parent's body: fan out over the items."""
        if self.is_async:

            async def spread():
                return list(await gather(*(child.aio(item) for item in items)))

            return self._act(spread)
        return self._act(lambda: parallel(child, items))


def _as_def(body):
    def played(*args):
        playing = body(*args)
        value, failed = None, None
        try:
            while True:
                called, *given = playing.send(value) if failed is None else playing.throw(failed)
                value, failed = None, None
                try:
                    value = getattr(called, "sync", called)(*given)
                except Exception as error:
                    failed = error
        except StopIteration as stop:
            return stop.value

    return played


def _as_async(body):
    async def played(*args):
        playing = body(*args)
        value, failed = None, None
        try:
            while True:
                called, *given = playing.send(value) if failed is None else playing.throw(failed)
                value, failed = None, None
                try:
                    value = await called.aio(*given)
                except Exception as error:
                    failed = error
        except StopIteration as stop:
            return stop.value

    return played


@pytest.fixture(params=[SYNC, ASYNC])
def family(act, request):
    return Family(act, request.param)


@pytest.fixture
def work(ran):
    @step
    def work(name: str) -> str:
        ran.append(name)
        return name.upper()

    return work


def until(happened, timeout=30.0):
    deadline = time.monotonic() + timeout
    while not (found := happened()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)
    return found


def statuses(hf):
    return {info.id: info.status for info in hf.runs()}


def test_a_child_gives_its_result_and_is_a_run_of_its_own(hf, family, work):
    """It has its own stream and steps, and the parent has it as one step."""

    def inner(name):
        return [(yield work, name), (yield work, f"{name}2")]

    child = family.child(inner)

    def outer():
        return [(yield child, "a"), (yield work, "b")]

    assert hf.with_id("p").run(family.parent(outer)) == [["A", "A2"], "B"]
    kinds = [(info.key.partition("#")[0], info.kind, info.child) for info in hf.steps("p")]
    assert kinds == [(child.name, "child", family.child_id), ("work", "step", "")]
    assert [info.key for info in hf.steps(family.child_id)] == ["work#1", "work#2"]
    assert statuses(hf) == {"p": "completed", family.child_id: "completed"}


def test_a_recorded_child_does_not_run_again(twice, family, work, ran):
    """A replay of the parent takes its recorded result and its recorded error."""

    def inner(name):
        if name == "bad":
            raise LookupError("not here")
        return (yield work, name)

    child = family.child(inner)

    def outer():
        found = yield child, "a"
        try:
            yield child, "bad"
        except LookupError as error:
            return [found, str(error)]

    expected = ["A", "not here"]
    assert twice(family.plot(outer)) == (expected, expected)
    assert ran == ["a"]


@pytest.mark.parametrize("survivor", range(2, 10))
def test_a_crash_inside_a_child_goes_on_inside_it(open_hf, family, crashes, work, ran, survivor):
    """Wherever the process died, no recorded step of parent or child runs again."""

    def inner():
        return [(yield work, "c1"), (yield work, "c2")]

    child = family.child(inner)

    def outer():
        return [(yield work, "p1"), (yield (child,)), (yield work, "p2")]

    chosen = family.parent(outer)
    first = open_hf()
    crashes.arm(first, survivor)
    with pytest.raises(StoreError):
        first.with_id("p").run(chosen)
        raise StoreError("it has survived all of its appends")
    crashes.bury(first)
    second = open_hf()
    done = [info.name for run in second.runs() for info in second.steps(run.id) if info.status == "completed"]
    ran.clear()
    assert second.with_id("p").run(chosen) == ["P1", ["C1", "C2"], "P2"]
    assert len(ran) == 4 - done.count("work")
    assert set(statuses(second).values()) == {"completed"}


def test_a_child_that_waits_at_a_gate_parks_its_parent(hf, open_hf, family, work, ran):
    """Nobody holds a thread for either; whoever resumes the parent later continues inside the child."""

    def inner():
        yield work, "before"
        decision = yield approval, "ship it?"
        return decision.outcome

    child = family.child(inner)

    def outer():
        return (yield (child,))

    run = hf.with_id("p").start(family.parent(outer))
    until(lambda: statuses(hf) == {"p": "waiting", family.child_id: "waiting"})
    until(lambda: all(info.owner_pid is None for info in hf.runs()))
    until(lambda: not [one for one in threading.enumerate() if one.name.startswith("holdfast-run")])
    hf.approve(family.child_id)
    assert run.result(30) == "approved"
    assert ran == ["before"]
    assert set(statuses(hf).values()) == {"completed"}


def test_a_parked_family_is_resumed_by_another_process(open_hf, family, work, ran):
    """The first Holdfast is closed while the child waits for a signal."""

    def inner():
        return [(yield work, "before"), (yield wait_for, "go")]

    child = family.child(inner)

    def outer():
        return (yield (child,))

    first = open_hf()
    first.with_id("p").start(family.parent(outer))
    until(lambda: statuses(first) == {"p": "waiting", family.child_id: "waiting"})
    first.close()
    second = open_hf()
    second.signal(family.child_id, "go", 7)
    assert second.resume("p").result(30) == ["BEFORE", 7]
    assert ran == ["before"]


def test_a_branch_works_while_the_child_of_another_waits(hf, family, work, ran):
    """The parent waits in place as long as one of its children works, and is parked after that."""
    go = threading.Event()

    @step
    def slow() -> str:
        go.wait(30)
        return "slow"

    def inner(what):
        if what == "gate":
            return (yield wait_for, "go")
        return (yield (slow,))

    child = family.child(inner)
    run = hf.with_id("p").start(family.all_at_once(child, ["gate", "work"]))
    until(lambda: sorted(statuses(hf).values()) == ["running", "running", "waiting"])
    go.set()
    until(lambda: sorted(statuses(hf).values()) == ["completed", "waiting", "waiting"])
    waiting = next(info.id for info in hf.runs(status="waiting") if info.parent)
    hf.signal(waiting, "go", 1)
    assert run.result(30) == [1, "slow"]


def test_fan_out_over_children(hf, family, work, ran):
    """Children run side by side, and their results come in the order of the items."""
    both = threading.Barrier(2, timeout=30)

    @step
    def meet(name: str) -> str:
        both.wait()
        return name

    def inner(name):
        return [(yield meet, name), (yield work, name)]

    child = family.child(inner)
    assert hf.with_id("p").run(family.all_at_once(child, ["a", "b"])) == [["a", "A"], ["b", "B"]]
    if not family.is_async:
        assert {info.key for info in hf.steps("p")} == {"achild[1]/achild#1", "achild[2]/achild#1"}


def test_many_children_at_once_do_not_wait_for_threads_of_a_pool(hf, act, ran):
    """More `def` children than a pool has threads, each of which waits for an async child of its own whose
    step needs one."""

    @step
    def work(n: int) -> int:
        ran.append(n)
        return n

    @step
    def meet() -> None:
        while len(ran) < 70:  # all of them have come so far
            time.sleep(0.01)

    async def inner(n):
        return await work.aio(n)

    grandchild = act(inner, "child")
    middle = act(lambda n: [grandchild.sync(n), meet()][0], "grandchild")

    async def outer():
        return sum(await gather(*(middle.aio(n) for n in range(70))))

    assert hf.run(act(outer)) == sum(range(70))


def test_colours_alternate_down_a_family(hf, act, ran):
    """`def` → async → `def`: each in its place, and the error of the last reaches the first."""

    @step
    def work() -> None:
        ran.append("work")
        raise FileNotFoundError("deep")

    last = act(lambda: work(), "grandchild")

    async def inner():
        return await last.aio()

    middle = act(inner, "child")
    with pytest.raises(FileNotFoundError, match="deep"):
        hf.with_id("p").run(act(lambda: middle.sync()))
    assert set(statuses(hf).values()) == {"failed"}
    assert len(statuses(hf)) == 3


def test_a_failed_child_fails_its_parent_and_resume_reopens_both(hf, family, ran):
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
            raise ZeroDivisionError("not yet")
        return 2

    def inner():
        return [(yield (first,)), (yield (second,))]

    child = family.child(inner)

    def outer():
        return (yield (child,))

    with pytest.raises(ZeroDivisionError, match="not yet"):
        hf.with_id("p").run(family.parent(outer))
    assert statuses(hf) == {"p": "failed", family.child_id: "failed"}
    fails.clear()
    assert hf.resume("p").result(30) == [1, 2]
    assert ran == ["first", "second", "second"]


def test_cancel_of_the_parent_ends_the_child(hf, open_hf, family, tmp_path):
    """What runs in the child is ended with it."""
    began = tmp_path / "began"

    def inner():
        return (yield command, ["sh", "-c", f"touch {began}; sleep 600"])

    child = family.child(inner)

    def outer():
        return (yield (child,))

    run = hf.with_id("p").start(family.parent(outer))
    until(began.exists)
    assert open_hf().cancel("p", "enough", patience=30) == "cancelled"
    with pytest.raises(RunCancelled, match="enough"):
        run.result(30)
    assert statuses(hf) == {"p": "cancelled", family.child_id: "cancelled"}


def test_cancel_of_a_parked_parent_ends_the_child(hf, family):
    """Also one whose child waits at a gate."""

    def inner():
        return (yield wait_for, "go")

    child = family.child(inner)

    def outer():
        return (yield (child,))

    run = hf.with_id("p").start(family.parent(outer))
    until(lambda: statuses(hf) == {"p": "waiting", family.child_id: "waiting"})
    assert hf.cancel("p") == "cancelled"
    with pytest.raises(RunCancelled):
        run.result(30)
    assert statuses(hf) == {"p": "cancelled", family.child_id: "cancelled"}


def test_a_child_waits_until_a_body_has_ended_that_cannot_be_cancelled(hf, family, ran):
    """A `def` body runs to its end, and only then is the parent cancelled: nobody else runs it meanwhile."""
    inside, go = threading.Event(), threading.Event()

    @step
    def stubborn() -> None:
        inside.set()
        go.wait(30)
        ran.append("ended")

    def inner():
        yield (stubborn,)

    child = family.child(inner)

    def outer():
        yield (child,)

    run = hf.with_id("p").start(family.parent(outer))
    assert inside.wait(30)
    hf.cancel("p", patience=0.3)
    assert statuses(hf) == {"p": "running", family.child_id: "running"}
    go.set()
    with pytest.raises(RunCancelled):
        run.result(30)
    assert ran == ["ended"]
    assert statuses(hf) == {"p": "cancelled", family.child_id: "cancelled"}


def test_a_rewind_of_the_parent_over_the_child_runs_it_again(hf, family, work, ran):
    """In the new generation it is another run; undo brings the old one back."""

    def inner():
        return (yield work, "child")

    child = family.child(inner)

    def outer():
        return [(yield work, "first"), (yield (child,)), (yield work, "last")]

    assert hf.with_id("p").run(family.parent(outer)) == ["FIRST", "CHILD", "LAST"]
    hf.rewind("p", to="work#1")
    ran.clear()
    assert hf.resume("p").result(30) == ["FIRST", "CHILD", "LAST"]
    assert ran == ["child", "last"]
    again = next(info.child for info in hf.steps("p") if info.child)
    assert again.startswith(f"p.g1-{child.name}-1")
    assert statuses(hf) == {"p": "completed", family.child_id: "completed", again: "completed"}
    hf.undo()
    assert [info.child for info in hf.steps("p") if info.child] == [family.child_id]


def test_replay_checks_the_histories_of_both(hf, family, work, ran):
    """`replay` plays parent and child against today's code, and runs no step."""

    def inner():
        return (yield work, "other" if changes else "child")

    changes = []
    child = family.child(inner)

    def outer():
        return [(yield work, "first"), (yield (child,))]

    hf.with_id("p").run(family.parent(outer))
    ran.clear()
    found = replay(hf._engine, "p")
    assert (found.verdict, found.calls, found.reached) == ("matches", 3, "")
    changes.append(True)
    found = replay(hf._engine, "p")
    assert found.verdict == "diverges" and family.child_id in found.why
    assert ran == []


def test_closing_interrupts_parent_and_child(open_hf, family, work, ran):
    """They stop at the next step boundary, and continue in another Holdfast."""
    inside = threading.Event()

    @step
    def slow() -> str:
        inside.set()
        time.sleep(0.2)
        return "slow"

    def inner():
        return [(yield (slow,)), (yield work, "after")]

    child = family.child(inner)

    def outer():
        return (yield (child,))

    first = open_hf()
    first.with_id("p").start(family.parent(outer))
    assert inside.wait(30)
    first.close()
    assert ran == []
    second = open_hf()
    assert {info.status for info in second.runs(resumable=True)} == {"running"}
    assert second.resume("p").result(30) == ["slow", "AFTER"]


def test_taking_a_parent_over_takes_its_child(open_hf, family, ran):
    """By force from a live owner, which is told that it has lost both."""
    inside, go = threading.Event(), threading.Event()

    @step
    def work() -> str:
        ran.append("work")
        inside.set()
        if len(ran) == 1:
            go.wait(30)
        return "done"

    def inner():
        return (yield (work,))

    child = family.child(inner)

    def outer():
        return (yield (child,))

    first, second = open_hf(), open_hf()
    run = first.with_id("p").start(family.parent(outer))
    assert inside.wait(30)
    with pytest.raises(RunHeld):
        second.resume("p")
    assert second.resume("p", take_over=True).result(30) == "done"
    go.set()
    with pytest.raises(OwnershipLost):
        run.result(30)
    assert set(statuses(second).values()) == {"completed"}


def test_a_deadline_of_the_parent_holds_in_the_child(hf, act, ran):
    """`timeout` around the call ends the step of the child that takes too long, in both directions."""

    @step
    async def hang() -> None:
        await asyncio.sleep(60)

    async def inner():
        await hang()

    child = act(inner, "child")

    def outer():
        with timeout(0.2):
            child.sync()

    with pytest.raises(StepTimeout):
        hf.with_id("d").run(act(outer))

    other = act(lambda: sleep(60), "child")

    async def aouter():
        with timeout(0.2):
            await other.aio()

    with pytest.raises(StepTimeout):
        hf.with_id("a").run(act(aouter))


def test_a_call_in_the_wrong_colour_says_what_to_write(hf, act):
    """Nothing is recorded, and no coroutine is left."""

    async def inner():
        return 1

    achild, child = act(inner, "child"), act(lambda: 1, "grandchild")

    def outer():
        with pytest.raises(WrongColour, match=r"write `achild\.sync\(\.\.\.\)`"):
            achild()
        with pytest.raises(WrongColour, match=r"write `grandchild\(\.\.\.\)`"):
            child.aio()

    async def aouter():
        with pytest.raises(WrongColour, match=r"write `await grandchild\.aio\(\.\.\.\)`"):
            child()
        with pytest.raises(WrongColour, match=r"write `await achild\(\.\.\.\)`"):
            achild.sync()

    hf.with_id("d").run(act(outer))
    hf.with_id("a").run(act(aouter))
    assert hf.steps("d") == hf.steps("a") == []


def test_a_child_that_is_not_awaited_is_a_failure(hf, act):
    """As with any other call of an async workflow."""
    child = act(lambda: 1, "child")

    async def outer():
        child.aio()

    with pytest.raises(Exception, match="workflow child was called without `await`"):
        hf.run(act(outer))


def test_outside_a_run_both_ways_are_plain_calls(act, work, ran):
    """Nothing is recorded; each colour can be called from the other."""

    async def inner(name):
        return await work.aio(name)

    achild, child = act(inner, "child"), act(lambda name: work(name), "grandchild")
    for flow in (achild, child):
        flow._warned = False  # every test shares it
        with pytest.warns(DetachedStep, match="outside every run"):
            assert flow.sync("a") == "A"
        assert asyncio.run(flow.aio("b")) == "B"
    assert ran == ["a", "b"] * 2

    async def blocks():
        achild.sync("c")

    with pytest.raises(WrongColour, match=r"write `await achild\(\.\.\.\)`"):
        asyncio.run(blocks())


SCRIPT = """
    from holdfast import Holdfast, approval, gather, parallel, step, workflow
    from holdfast.testing.crash import mark

    @step
    def work(name: str) -> str:
        return name.upper()

    @workflow
    async def achild(name):
        found = [await work.aio(name), await work.aio(name + "2")]
        mark("child")
        return found

    @workflow
    def child(name):
        found = [work(name), work(name + "2")]
        mark("child")
        return found

    @workflow
    def parent():
        return [work("p"), achild.sync("a"), *parallel(achild, ["b", "c"])]

    @workflow
    async def aparent():
        return [await work.aio("p"), await child.aio("a"), *await gather(child.aio("b"), child.aio("c"))]

    if __name__ == "__main__":
        import sys

        with Holdfast() as hf:
            print(hf.with_id("p").run(globals()[sys.argv[1]]))
"""


@pytest.mark.parametrize("parent", ["parent", "aparent"])
@pytest.mark.parametrize(
    "kill",
    [at_body("work#1", 2), at_body("work#2"), at_mark("child"), at_mark("child", 2), at_mark("child", 3)],
)
def test_killed_while_the_child_works(lab, open_hf, parent, kill):
    """`kill -9`: the same script again continues inside the child, and no recorded step runs again."""
    crashing = lab(SCRIPT, parent)
    assert crashing.run(kill).killed
    hf = open_hf()
    recorded = sum(info.kind == "step" for run in hf.runs() for info in hf.steps(run.id))
    hf.close()
    before = sum(count for key, count in crashing.bodies().items() if key.startswith("work"))
    ended = crashing.run()
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout == "['P', ['A', 'A2'], ['B', 'B2'], ['C', 'C2']]\n"
    after = sum(count for key, count in crashing.bodies().items() if key.startswith("work"))
    assert 7 - recorded <= after - before <= 7
    hf = open_hf()
    assert set(statuses(hf).values()) == {"completed"}
    assert len(statuses(hf)) == 4


INTERRUPTED = """
    import signal, sys, time
    from holdfast import Holdfast, step, workflow
    from holdfast.testing.crash import mark

    @step
    def slow() -> str:
        mark("slow")
        time.sleep(0.3)
        return "slow"

    @step
    def after() -> str:
        return "after"

    @workflow
    async def achild():
        return [await slow.aio(), await after.aio()]

    @workflow
    def parent():
        return achild.sync()

    if __name__ == "__main__":
        # A shell's background job has SIGINT ignored, and Python then leaves it so.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with Holdfast() as hf:
            print(hf.with_id("p").run(parent))
"""


def test_ctrl_c_while_the_child_works_stops_both_at_the_next_boundary(lab, open_hf):
    """The step that runs is recorded, the next one does not begin; the same script again continues."""
    script = lab(INTERRUPTED)
    process = script.start()
    script.wait_for("slow")
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT), err
    assert "stopping at the next step boundary" in err
    hf = open_hf()
    assert [(info.key, info.status) for info in hf.steps("p.achild-1")] == [("slow#1", "completed")]
    assert {(info.interrupted, info.owner_pid) for info in hf.runs()} == {(True, None)}
    hf.close()
    ended = script.run()
    assert (ended.exit_code, ended.stdout) == (0, "['slow', 'after']\n")
    assert script.bodies()["slow#1"] == 1
