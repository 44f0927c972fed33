"""Ownership: one open Holdfast executes a run; a live one is never robbed, a dead one's run is free."""

import asyncio
import os
import signal
import threading
import time

import pytest

from holdfast import InDoubt, RunHeld, StoreError, command, step
from holdfast.engine.ownership import dead_owner
from holdfast.engine.ownership.owners import is_alive
from holdfast.engine.processes.tree_lock import take_lock
from holdfast.errors import OwnershipLost, RunInterrupted, StoreClosed, StoreFull
from holdfast.store.port import OwnerRow
from holdfast.testing import at_body


def until(happened, timeout=30.0):
    """Poll what no event tells of; fails instead of hanging."""
    deadline = time.monotonic() + timeout
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


@pytest.fixture
def gated(ran):
    """A step that says that it began and waits to be let go."""
    inside, go = threading.Event(), threading.Event()

    @step
    def work(name: str) -> str:
        ran.append(name)
        inside.set()
        go.wait(30)
        return name.upper()

    work.inside, work.go = inside, go
    yield work
    go.set()


def test_another_holdfast_of_the_same_process_is_another_owner(open_hf, act, gated):
    """It is told who holds the run, and may have it after the release."""
    first, second = open_hf(), open_hf()
    run = first.with_id("x").start(act(lambda: gated("a")))
    assert gated.inside.wait(30)
    with pytest.raises(RunHeld) as held:
        second.resume("x")
    assert (held.value.run_id, held.value.pid) == ("x", os.getpid())
    gated.go.set()
    assert run.result(30) == "A"
    assert second.resume("x").result(30) == "A"


SLEEPER = """
    import os, sys, time
    from holdfast import Holdfast, step, workflow

    @step
    def first() -> int:
        return os.getpid()

    @step
    def slow() -> int:
        if not os.environ.get("GO"):
            time.sleep(60)
        return os.getpid()

    @workflow
    def job() -> list[int]:
        return [first(), slow()]

    if __name__ == "__main__":
        with Holdfast() as hf:
            print(hf.with_id("job").run(job))
"""


def test_takeover_after_kill_9_is_immediate(lab, open_hf, monkeypatch):
    """The kernel drops a dead owner's lock: nobody waits for a lease."""
    monkeypatch.setenv("GO", "")
    job = lab(SLEEPER)
    worker = job.start()
    job.wait_for("slow#1")
    hf = open_hf()
    with pytest.raises(RunHeld):
        hf.resume("job")
    worker.kill()
    worker.communicate()
    monkeypatch.setenv("GO", "1")
    started = time.monotonic()
    assert hf.resume("job").result(30) == [worker.pid, os.getpid()]
    assert time.monotonic() - started < 5
    claims = [event.data for event in hf.events("job") if event.type == "RunClaimed"]
    assert [(data["epoch"], bool(data.get("took_over"))) for data in claims] == [(1, False), (2, True)]


def test_a_stopped_owner_is_passed_by_force_only(lab, open_hf, monkeypatch):
    """SIGSTOP is not death: RunHeld, until a person says take over."""
    job = lab(SLEEPER, env={"GO": ""})
    worker = job.start()
    job.wait_for("slow#1")
    os.kill(worker.pid, signal.SIGSTOP)
    try:
        hf = open_hf()
        with pytest.raises(RunHeld):
            hf.resume("job")
        monkeypatch.setenv("GO", "1")
        assert hf.resume("job", take_over=True).result(30) == [worker.pid, os.getpid()]
        forced = [event.data.get("forced", False) for event in hf.events("job") if event.type == "RunClaimed"]
        assert forced == [False, True]
    finally:
        os.kill(worker.pid, signal.SIGCONT)
        worker.kill()
        worker.communicate()


def test_a_stale_owner_is_refused(open_hf, act, gated, ran):
    """After a forced takeover nothing of the old owner reaches the log; its run says why it ended."""
    first, second = open_hf(), open_hf()
    chosen = act(lambda: [gated("a"), "end"])
    run = first.with_id("x").start(chosen)
    assert gated.inside.wait(30)
    taken = second.resume("x", take_over=True)
    until(lambda: len(ran) == 2)
    gated.go.set()
    assert taken.result(30) == ["A", "end"]
    with pytest.raises(OwnershipLost):
        run.result(30)
    completed = [event for event in second.events("x") if event.type in ("StepRan", "StepCompleted")]
    assert (len(completed), second.get("x").status) == (1, "completed")


def test_a_stale_owners_async_step_is_cancelled(open_hf, act, ran):
    """The old owner notices the takeover while its step runs, and does not let it continue."""
    inside = threading.Event()

    def tell(event):
        if event.type == "StepStarted":
            inside.set()  # nothing more is written until the step ends: only a look at the store can tell

    first, second = open_hf(on_event=tell), open_hf()

    @step
    async def work() -> str:
        ran.append("begin")
        if len(ran) > 1:
            return "done"
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ran.append("cancelled")
            raise
        return "never"

    async def plot():
        return await work()

    run = first.with_id("x").start(act(plot))
    assert inside.wait(30)
    assert second.resume("x", take_over=True).result(30) == "done"
    with pytest.raises(OwnershipLost):
        run.result(30)
    assert sorted(ran) == ["begin", "begin", "cancelled"]


def test_a_forked_child_cannot_use_the_parents_holdfast(hf, act):
    """It is refused with a hint, and the parent continues undisturbed."""
    hf.run(act(lambda: 1))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            hf.run(act(lambda: 2))
            os.write(write, b"ran")
        except StoreClosed as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    told = os.read(read, 1000).decode()
    os.close(read)
    assert "forked child" in told
    assert hf.run(act(lambda: 3)) == 3


def test_a_forked_child_does_not_keep_the_parents_lock(lab, open_hf, monkeypatch, tmp_path):
    """A worker's child that outlives it must not make it look alive."""
    job = lab(
        """
        import os, sys, time
        from holdfast import Holdfast, step, workflow
        from holdfast.testing import mark

        @step
        def forks() -> int:
            if os.environ.get("GO"):
                return 1
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            print(child, flush=True)
            mark("forked")
            time.sleep(60)

        @workflow
        def job() -> int:
            return forks()

        if __name__ == "__main__":
            with Holdfast() as hf:
                print(hf.with_id("job").run(job))
        """,
        env={"GO": ""},
    )
    worker = job.start()
    job.wait_for("forked")
    grandchild = int(worker.stdout.readline())
    worker.kill()
    worker.wait()
    try:
        os.kill(grandchild, 0)
        monkeypatch.setenv("GO", "1")
        assert open_hf().resume("job").result(30) == 1
    finally:
        os.kill(grandchild, signal.SIGKILL)
        worker.stdout.close()
        worker.stderr.close()


def test_closing_leaves_no_trace_of_the_owner(open_hf, act, home):
    """Row and lock file are gone; a run that was stopped can be had at once."""
    first = open_hf()
    first.with_id("x").run(act(lambda: 1))
    owner = first._engine.owner_id
    assert is_alive(home, owner)
    first.close()
    assert not is_alive(home, owner)
    assert list((home / "owners").iterdir()) == []
    assert open_hf()._store.owners() == []


def owner_files(home):
    return {path.stem for path in (home / "owners").iterdir()}


def test_the_dead_that_no_run_names_are_buried_at_the_next_birth(open_hf, act, crashes, home, gated):
    """Row and lock file go; not those of a live owner, nor of one whose run is still to be taken over."""
    idle, killed, alive = open_hf(), open_hf(), open_hf()
    idle.run(act(lambda: 1))
    run = killed.with_id("x").start(act(lambda: gated("a")))
    assert gated.inside.wait(30)
    alive.run(act(lambda: 1, "child"))
    dead, needed, kept = (hf._engine.owner_id for hf in (idle, killed, alive))
    crashes.arm(killed, 0)
    gated.go.set()
    with pytest.raises(StoreError):
        run.result(30)
    crashes.bury(idle)
    crashes.bury(killed)
    assert owner_files(home) == {dead, needed, kept}
    hf = open_hf()
    mine = hf._engine.owner_id
    assert {owner.id for owner in hf._store.owners()} == owner_files(home) == {needed, kept, mine}
    assert hf.resume("x").result(30) == "A"
    claimed = [event.data for event in hf.events("x") if event.type == "RunClaimed"]
    assert claimed[1]["took_over"] == needed
    assert {owner.id for owner in hf._store.owners()} == owner_files(home) == {kept, mine}


def test_a_birth_buries_twenty_at_most(open_hf):
    """The first claim of a process does not pay for all the dead of a store."""
    hf = open_hf()
    for n in range(25):
        hf._store.put_owner(OwnerRow(f"dead-{n:02}", "host", "boot", 1, n))
    mine = hf._engine.owner_id
    left = [owner.id for owner in hf._store.owners()]
    assert left == [*(f"dead-{n}" for n in range(20, 25)), mine]


def test_a_birth_that_fails_leaves_no_lock(open_hf, home, monkeypatch):
    """No row could be written: nothing is left that would be held for as long as the process lives."""
    hf = open_hf()

    def full(owner):
        assert is_alive(home, owner.id)
        raise StoreFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr(hf._store, "put_owner", full)
        with pytest.raises(StoreFull):
            hf._engine.owner_id  # noqa: B018
    assert owner_files(home) == set()
    assert is_alive(home, hf._engine.owner_id)


def test_a_keyboard_interrupt_releases_the_run(open_hf, act, ran):
    """Ctrl-C in a step leaves the run free, not failed: the step runs again on resume."""
    hf = open_hf()

    @step
    def work() -> str:
        ran.append("work")
        if len(ran) == 1:
            raise KeyboardInterrupt
        return "done"

    with pytest.raises(KeyboardInterrupt):
        hf.with_id("x").run(act(lambda: work()))
    info = open_hf().get("x")
    assert (info.status, info.interrupted, info.owner_pid) == ("running", True, None)
    assert [event.type for event in hf.events("x")][-1] == "RunReleased"
    assert open_hf().resume("x").result(30) == "done"
    assert ran == ["work", "work"]


def test_a_system_exit_releases_the_run_too(hf, act, ran):
    """A driver that ends for any reason releases its run."""

    @step
    def work() -> str:
        ran.append("work")
        if len(ran) == 1:
            raise SystemExit(3)
        return "done"

    with pytest.raises(SystemExit):
        hf.with_id("x").run(act(lambda: work()))
    assert hf.resume("x").result(30) == "done"


def test_close_while_async_runs_are_live(open_hf, act, ran):
    """Async runs stop at their next step as well."""
    hf = open_hf()
    inside = threading.Event()
    go = threading.Event()

    @step
    async def work() -> None:
        inside.set()
        while not go.is_set():
            await asyncio.sleep(0.001)

    @step
    async def after() -> None:
        ran.append("after")

    async def plot():
        await work()
        await after()

    run = hf.with_id("x").start(act(plot))
    assert inside.wait(30)
    closer = threading.Thread(target=hf.close)
    closer.start()
    assert hf._engine.live["x"][0].stopping.wait(30)
    go.set()
    closer.join(30)
    with pytest.raises(RunInterrupted):
        run.result(0)
    assert ran == []
    assert [(info.key, info.status) for info in open_hf().steps("x")] == [("work#1", "completed")]


def test_a_closed_holdfast_says_so(open_hf, act):
    """Instead of failing somewhere below."""
    hf = open_hf()
    hf.close()
    with pytest.raises(StoreClosed, match="open another one"):
        hf.run(act(lambda: 1))
    with pytest.raises(StoreError):
        hf.runs()


CRASHER = """
    import os, signal
    from holdfast import Holdfast, step, workflow

    @workflow
    def job() -> None:
        if os.environ.get("CRASH"):
            os.kill(os.getpid(), signal.SIGKILL)

    if __name__ == "__main__":
        with Holdfast() as hf:
            [run.result() for run in hf.recover()] if hf.runs() else hf.with_id("job").run(job)
"""


def test_a_crash_loop_is_left_alone_by_recover(lab, open_hf):
    """After five takeovers without progress recover stops; resume by a person still tries."""
    job = lab(CRASHER, env={"CRASH": "1"})
    ends = [job.run() for _ in range(6)]
    assert [end.killed for end in ends] == [True] * 5 + [False]
    assert "taken over 5 times without progress" in ends[-1].stderr
    hf = open_hf()
    assert len([event for event in hf.events("job") if event.type == "RunClaimed"]) == 5
    assert hf.resume("job").result(30) is None
    assert hf.get("job").status == "completed"


def test_a_run_that_makes_progress_is_no_crash_loop(lab):
    """Each life that records something starts the count again."""
    job = lab("""
        from holdfast import Holdfast, step, workflow

        @step
        def work(n: int) -> int:
            return n

        @workflow
        def job() -> int:
            return sum(work(n) for n in range(9))

        if __name__ == "__main__":
            with Holdfast() as hf:
                print([run.result() for run in hf.recover()] if hf.runs() else hf.with_id("job").run(job))
    """)
    for n in range(2, 9):
        assert job.run(at_body(f"work#{n}")).killed
    assert job.run().stdout == "[36]\n"
    assert job.bodies()["work#1"] == 1


def sleeper(tmp_path, trace):
    """The first time it says so and sleeps, the second time it only says so."""
    first = f"[ $(wc -l < {trace}) -lt 2 ]"
    return f"echo x >> {trace}; if {first}; then touch {tmp_path}/began; sleep 600; fi"


@pytest.mark.parametrize("effect", ["idempotent", "once"])
def test_a_command_of_a_live_owner_that_is_passed_by_force(open_hf, act, tmp_path, monkeypatch, effect):
    """It is ended after the claim, so its owner cannot call that a failure: a `once` command is in
    doubt and does not run a second time."""
    trace = tmp_path / "trace"
    script = sleeper(tmp_path, trace)
    chosen = act(lambda: command(["sh", "-c", script], effect=effect).exit_code)
    first, second = open_hf(), open_hf()
    run = first.with_id("x").start(chosen)
    until((tmp_path / "began").exists)
    claim_it = second._engine.store.command

    def late(*args, **kwargs):
        time.sleep(0.5)  # what its owner could record if the command were ended before the claim, it has
        return claim_it(*args, **kwargs)

    monkeypatch.setattr(second._engine.store, "command", late)
    if effect == "once":
        with pytest.raises(InDoubt):
            second.resume("x", take_over=True).result(30)
        assert trace.read_text() == "x\n"
    else:
        assert second.resume("x", take_over=True).result(30) == 0
        assert trace.read_text() == "x\nx\n"
    with pytest.raises(OwnershipLost):
        run.result(30)
    assert "StepFailed" not in [event.type for event in second.events("x")]


def test_a_stale_owner_leaves_the_next_ones_lock_alone(open_hf, act, tmp_path, home):
    """What it clears away at its end is its own: the new owner's command stays under a lock."""
    go, count = tmp_path / "go", tmp_path / "count"
    script = f"echo x >> {count}; while [ ! -e {go} ]; do sleep 0.01; done"
    chosen = act(lambda: command(["sh", "-c", script], effect="idempotent").exit_code)
    first, second = open_hf(), open_hf()
    run = first.with_id("x").start(chosen)
    until(lambda: count.exists() and count.read_text() == "x\n")
    taken = second.resume("x", take_over=True)
    until(lambda: count.read_text() == "x\nx\n")
    with pytest.raises(OwnershipLost):
        run.result(30)
    assert [lock.name.partition("-")[0] for lock in (home / "commands" / "x").iterdir()] == ["2"]
    go.touch()
    assert taken.result(30) == 0
    assert not (home / "commands" / "x").exists()


@pytest.mark.parametrize("take_over", [False, True])
def test_a_command_that_does_not_die_holds_the_run(
    open_hf, act, crashes, gated, home, monkeypatch, take_over
):
    """It is told as what it is: no process to stop, nothing to take over; and the run stays free."""
    gated.go.set()
    first = open_hf()
    crashes.arm(first, 1)
    with pytest.raises(StoreError):
        first.with_id("x").run(act(lambda: gated("a")))
    crashes.bury(first)
    (home / "commands" / "x").mkdir(parents=True)
    lock = take_lock(home / "commands" / "x" / "1-0123.lock")
    monkeypatch.setattr(dead_owner, "_TREE_PATIENCE_S", 0.1)
    second = open_hf()
    try:
        with pytest.raises(RunHeld) as held:
            second.resume("x", take_over=take_over)
    finally:
        os.close(lock)
    told = str(held.value)
    assert told.startswith("run x: a command of its") and told.endswith("ended; try again in a moment")
    assert "take-over" not in told
    assert held.value.exit_code == 4
    assert second.resume("x").result(30) == "A"
    assert not (home / "commands" / "x").exists()
