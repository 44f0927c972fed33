"""Interrupts, lost appends and unreadable results: what stops a run stops it for good."""

import asyncio
import linecache
import signal
import sys
import threading
from dataclasses import dataclass

import pytest
from tests.engine.test_gates import parked, until

from holdfast import NOT_DONE, Retry, RunPaused, StoreError, approval, now, parallel, sleep, step
from holdfast.engine.execution.scope import live_runs
from holdfast.errors import InDoubt, NeedsAttention, RunInterrupted, StoreCorrupt, StoreFull
from holdfast.kernel import codec


def test_steps_in_finally_are_refused_while_an_interrupt_unwinds(hf, act, ran):
    """A clean-up step that ran because of Ctrl-C would be recorded out of its place."""

    @step
    def work(name: str) -> str:
        ran.append(name)
        if ran == ["slow"]:
            raise KeyboardInterrupt
        return name

    def plot():
        try:
            work("slow")
            return work("other")
        finally:
            work("cleanup")

    with pytest.raises(KeyboardInterrupt):
        hf.with_id("x").run(act(plot))
    assert ran == ["slow"]
    assert hf.resume("x").result(30) == "other"
    assert ran == ["slow", "slow", "other", "cleanup"]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_fast_step_records_nothing(open_hf, act, ran, interrupt):
    """Neither that it began nor that it failed: the step is a new one when the run continues."""
    hf = open_hf()
    hf._engine.flusher._after_s = 60.0

    @step
    def work() -> str:
        ran.append("ran")
        if ran == ["ran"]:
            raise interrupt
        return "done"

    with pytest.raises(interrupt):
        hf.with_id("x").run(act(lambda: work()))
    assert [event.type for event in hf.events("x")] == ["RunCreated", "RunClaimed", "RunReleased"]
    assert (hf.steps("x"), hf.get("x").interrupted) == ([], True)
    assert hf.resume("x").result(30) == "done"
    assert ran == ["ran", "ran"]
    assert [event.type for event in hf.events("x")][3:] == ["RunClaimed", "StepRan", "RunCompleted"]


def test_an_interrupt_of_the_workflow_itself_refuses_steps_too(hf, act, ran):
    """The same when Ctrl-C falls between two steps."""
    interrupts = [True]

    @step
    def work(name: str) -> str:
        ran.append(name)
        return name

    def plot():
        try:
            work("a")
            if interrupts:
                raise KeyboardInterrupt
            return work("b")
        finally:
            work("cleanup")

    with pytest.raises(KeyboardInterrupt):
        hf.with_id("x").run(act(plot))
    interrupts.clear()
    assert hf.resume("x").result(30) == "b"
    assert ran == ["a", "b", "cleanup"]


def test_an_exit_in_a_run_of_its_own_thread_is_an_interrupted_run(hf, act):
    """`result()` says so; it does not end the program that asks."""

    @step
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(RunInterrupted):
        hf.with_id("x").start(act(lambda: leave())).result(30)
    assert hf.get("x").interrupted


FAN_OUT = """
    import signal, sys, threading
    from holdfast import Holdfast, parallel, step, workflow
    from holdfast.testing import mark

    pressed, begun = sys.argv[1], threading.Barrier(4)

    @step
    def work(n: int) -> int:
        if pressed and begun.wait(30) == 0:
            taker = threading.main_thread() if pressed == "main" else threading.current_thread()
            signal.pthread_kill(taker.ident, signal.SIGINT)
        if pressed:
            assert hf._engine.live["job"][0].stopping.wait(30)
            mark(f"ended {n}")
        return n

    @workflow
    def job() -> list[int]:
        return parallel(work, range(60), limit=4)

    if __name__ == "__main__":
        # A shell's background job has SIGINT ignored, and Python then leaves it so.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with Holdfast() as hf:
            print(sum(hf.with_id("job").run(job)))
"""


@pytest.mark.parametrize("taken_by", ["main", "item"])
def test_an_interrupt_of_parallel_begins_no_more_items(lab, open_hf, taken_by):
    """What has begun ends and is recorded, what has not does not begin, whichever thread the signal
    goes to; the next process does only what is left."""
    interrupted = lab(FAN_OUT, taken_by)
    assert interrupted.run().exit_code == -signal.SIGINT
    first = [f"work#{n}" for n in range(1, 5)]
    assert (interrupted.bodies(), len(interrupted.marks())) == (dict.fromkeys(first, 1), 4)
    steps = {info.key: info.status for info in open_hf().steps("job")}
    assert steps == dict.fromkeys(first, "completed")
    assert open_hf().get("job").interrupted
    again = lab(FAN_OUT, "")
    assert again.run().stdout == f"{sum(range(60))}\n"
    assert again.bodies() == {f"work#{n}": 1 for n in range(1, 61)}


LEFT_BEHIND = """
    import os, signal, threading
    from holdfast import Holdfast, RunHeld, parallel, step, workflow
    from holdfast.testing import mark

    begun, go = threading.Barrier(2), threading.Event()

    def press():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    @step
    def work(n: int) -> int:
        if begun.wait(30) == 0:
            press()
            assert hf._engine.live["job"][0].stopping.wait(30)
            press()
        assert go.wait(30)
        mark(f"ended {n}")
        return n

    @workflow
    def job() -> list[int]:
        return parallel(work, range(2))

    if __name__ == "__main__":
        signal.signal(signal.SIGINT, signal.default_int_handler)
        hf, other = Holdfast(), Holdfast()
        try:
            hf.with_id("job").run(job)
        except KeyboardInterrupt:
            print("interrupted", hf._engine.live["job"][0].left_behind != [])
        try:
            other.resume("job")
        except RunHeld as error:
            print("held", error.pid == os.getpid())
        go.set()
        while hf._engine.live: threading.Event().wait(0.01)
        print(other.resume("job").result(30), [event.type for event in hf.events("job")].count("RunReleased"))
        hf.close()
        other.close()
"""


def test_a_second_interrupt_of_parallel_keeps_the_run_while_its_steps_run(lab):
    """The caller has the interrupt at once. In a process that lives on, nobody runs the steps beside the ones
    that were left behind: these end and are recorded, and then the run is released."""
    left = lab(LEFT_BEHIND)
    done = left.run()
    assert (done.exit_code, done.stdout) == (0, "interrupted True\nheld True\n[0, 1] 1\n"), done
    assert left.bodies() == {"work#1": 1, "work#2": 1}
    assert sorted(left.marks()) == ["ended 0", "ended 1"]


def test_what_follows_a_lost_append_is_lost_with_it(open_hf, act, ran):
    """A value that rode in a failed append must not be missing under a sibling's recorded step."""
    hf = open_hf()
    store = hf._store
    real, failed = store._commit, []
    both = threading.Barrier(2)

    def commit(batch):
        appends = [item for item in batch if getattr(item, "events", ()) and not failed]
        if any(event.type == "ValueRecorded" for item in appends for event in item.events):
            failed.append(True)
            store._fail(batch, StoreFull("no room"))
            return
        real(batch)

    store._group._commit = commit

    @step
    def work(at: object, n: int) -> int:
        if not failed:
            both.wait(10)
        ran.append(n)
        return n

    def plot():
        at = now()
        return parallel(lambda n: work(at, n), [0, 1])

    with pytest.raises(StoreFull):
        hf.with_id("x").run(act(plot))
    assert [event.type for event in hf.events("x")] == ["RunCreated", "RunClaimed", "RunReleased"]
    assert hf.resume("x").result(30) == [0, 1]


@pytest.mark.parametrize("paused", ["x", "its child"])
def test_a_pause_tells_of_the_append_that_a_run_below_lost(open_hf, act, ran, paused):
    """The run is paused as was asked; whoever waits for it hears why a step below it will run again."""
    hf = open_hf()
    store, live = hf._store, hf._engine.live
    real, lost = store._commit, StoreFull("no room")

    def commit(batch):
        types = {event.type for item in batch for event in getattr(item, "events", ())}
        if types & {"StepRan", "StepCompleted"} and ran == ["work"]:
            ran.append("lost")
            store._fail(batch, lost)
            return
        real(batch)

    store._group._commit = commit

    @step
    def work() -> int:
        ran.append("work")
        if ran == ["work"]:
            below = next(one for one, _ in live.values() if one.state.parent == "x")
            (live["x"][0] if paused == "x" else below).pause("lunch", "ann")
        return 1

    inner = act(work, "grandchild")
    kid = act(lambda: inner(), "child")
    with pytest.raises(RunPaused) as caught:
        hf.with_id("x").run(act(lambda: kid()))
    assert (caught.value.run_id, caught.value.__cause__) == ("x", lost)
    assert hf.get("x").status == "paused"
    assert (hf.resume("x").result(30), ran) == (1, ["work", "lost", "work"])


def test_a_gate_is_not_opened_after_a_lost_append(hf, act):
    """What was lost may be what led to the gate: nobody is to be asked for a decision on it."""

    def plot():
        hf._engine.live["x"][0]._fate.error = StoreFull("no room")  # of another branch, a moment ago
        return approval("go").outcome

    with pytest.raises(StoreFull):
        hf.with_id("x").run(act(plot))
    assert [event.type for event in hf.events("x")] == ["RunCreated", "RunClaimed", "RunReleased"]


def test_a_result_that_cannot_be_read_stops_the_run_whatever_is_caught(hf, act, ran, monkeypatch):
    """A class that was renamed is not a failure of the step: no other branch of the code is taken."""

    @step
    def fetch() -> Item:
        return Item(1)

    @step
    def fallback() -> str:
        ran.append("fallback")
        return "other"

    def plot():
        try:
            fetch()
        except Exception:
            return fallback()
        if not ran:
            ran.append("stop")
            raise KeyboardInterrupt
        return "done"

    with pytest.raises(KeyboardInterrupt):
        hf.with_id("x").run(act(plot))

    real = codec.decode

    def renamed(data):
        from holdfast.errors import CodeNotFound

        if b"Item" in bytes(data):
            raise CodeNotFound("tests:Item", "it was renamed")
        return real(data)

    monkeypatch.setattr(codec, "decode", renamed)
    with pytest.raises(NeedsAttention, match=r"the recorded result of fetch#1 cannot be read"):
        hf.resume("x").result(30)
    assert (hf.get("x").status, ran) == ("needs_attention", ["stop"])
    monkeypatch.undo()
    assert hf.resume("x").result(30) == "done"


@pytest.mark.parametrize("error", [StoreError("the disk did not answer"), StoreCorrupt("it was changed")])
@pytest.mark.parametrize("what", ["the result", "the arguments"])
def test_only_a_value_that_is_damaged_is_for_a_person(hf, act, monkeypatch, what, error):
    """A store that cannot be read for a moment stops the execution: the run is let go and continues later."""
    big = "x" * 100_000

    @step
    def fetch() -> str:
        return big

    def plot(*args):
        fetched = fetch() if what == "the result" else args[0]
        approval("go")
        return len(fetched)

    run = hf.with_id("x").start(act(plot), *([big] if what == "the arguments" else []))
    parked(hf, "x")
    hf.pause("x")
    with pytest.raises(RunPaused):
        run.result(30)

    def fails(hash):
        raise error

    monkeypatch.setattr(hf._store, "blob", fails)
    damaged = isinstance(error, StoreCorrupt)
    with pytest.raises(NeedsAttention if damaged else StoreError, match=str(error)):
        hf.resume("x").result(30)
    assert hf.get("x").status == ("needs_attention" if damaged else "waiting")
    assert hf.get("x").owner_pid is None
    monkeypatch.undo()
    again = hf.resume("x")
    hf.approve("x")
    assert again.result(30) == 100_000


@dataclass
class Item:
    n: int


def test_verify_is_asked_between_the_attempts_of_a_once_step(hf, act, ran):
    """An attempt that failed may have happened: the next one begins only when the hook says it did not."""
    happened = []

    def check(to: str) -> object:
        ran.append("verify")
        return happened[0] if happened else NOT_DONE

    @step(effect="once", retry=Retry(attempts=5, initial=0), verify=check)
    def send(to: str) -> str:
        ran.append("send")
        if ran.count("send") == 2:
            happened.append("sent after all")
        raise ConnectionError("no answer")

    assert hf.with_id("x").run(act(lambda: send("kelp"))) == "sent after all"
    assert ran == ["send", "verify", "send", "verify"]
    failed = [event.data["attempt"] for event in hf.events("x") if event.type == "StepAttemptFailed"]
    assert failed == [1]


def test_a_once_step_whose_result_cannot_be_stored_is_in_doubt(hf, act, ran):
    """It was done: running it again because of what it returned would do it twice."""

    @step(effect="once")
    def pay() -> object:
        ran.append("paid")
        return object()

    with pytest.raises(InDoubt, match="its result was lost"):
        hf.with_id("x").run(act(lambda: pay()))
    with pytest.raises(InDoubt):
        hf.resume("x")
    assert ran == ["paid"]


def test_sleeping_def_runs_do_not_take_the_loops_threads(hf, act):
    """Forty `def` runs that sleep leave the loop's own executor to the program."""

    async def main() -> str:
        for n in range(40):
            hf.with_id(f"s{n}").start(act(lambda: sleep(600)))
        await asyncio.wait_for(asyncio.to_thread(lambda: None), 30)
        while not (found := await asyncio.wait_for(hf.aio.runs(limit=1), 30)):
            await asyncio.sleep(0.01)
        return found[0].workflow

    assert asyncio.run(main()) == "play"


def test_a_callback_may_use_the_store(open_hf, act, ran):
    """`on_event` is called where a commit does not wait for it."""
    box = []

    def tell(event):
        box.append(event.type)
        if event.type == "StepStarted":
            other.with_id(f"seen-{len(box)}").run(act(lambda: None, "child"))

    other = open_hf()
    hf = open_hf(on_event=tell)

    @step
    def slow() -> str:
        threading.Event().wait(0.05)
        return "done"

    assert hf.run(act(lambda: [slow() for _ in range(3)])) == ["done"] * 3


# Ctrl-C between any two lines

CLAIMS = (
    "runs/claim.py",
    "ownership/claim_locks.py",
    "runs/launching.py",
    "runs/lifecycle.py",
    "runs/ending.py",
)


class CtrlC:
    """Falls on the `n`-th line that this thread executes of the modules that claim and drive runs."""

    def __init__(self, n: int) -> None:
        self.left = n
        self.fell = False

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._call)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _call(self, frame, event, arg):
        return self._line if frame.f_code.co_filename.endswith(CLAIMS) else None

    def _line(self, frame, event, arg):
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        # Where a `with` is left, Python itself may lose the lock to a Ctrl-C.
        if event == "line" and not self.fell and not text.startswith(("with ", "finally", "try", "@")):
            self.left -= 1
            if self.left == 0:
                self.fell = True
                raise KeyboardInterrupt
        return self._line


def run_here(hf, flow, run_id):
    return hf.with_id(run_id).run(flow)


def start(hf, flow, run_id):
    return hf.with_id(run_id).start(flow).result(20)


@pytest.mark.parametrize("way", [run_here, start])
@pytest.mark.parametrize("nested", [False, True])
def test_an_interrupt_on_any_line_leaves_the_run_free(open_hf, act, way, nested):
    """No thread of this process has it then, in whatever way, and any other process can continue it."""
    hf, other = open_hf(), open_hf()

    @step
    def work() -> str:
        return "done"

    kid = act(lambda: work(), "child")
    flow = act((lambda: kid()) if nested else (lambda: work()))
    n = 0
    while True:
        n += 1
        ctrl_c, run_id = CtrlC(n), f"r{n}"
        try:
            with ctrl_c:
                way(hf, flow, run_id)
        except KeyboardInterrupt:
            pass
        if not ctrl_c.fell:
            break
        until(lambda: not hf._engine.live)
        assert hf._engine.claim_locks._threads == {}, f"line {n}"
        assert not [one for one in live_runs if one.engine is hf._engine], f"line {n}"
        for row in other._store.runs():
            assert not row.owner, f"line {n}: {row.id} is {row.status}"
        if other._store.run(run_id) is not None:
            assert other.resume(run_id).result(20) == "done"
    assert n > 40
