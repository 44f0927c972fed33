"""In an event loop: nothing blocks it, and what would block says what to write instead."""

import asyncio
import gc
import itertools
import threading
import time
import weakref

import pytest

from holdfast import Holdfast, RunExists, RunHeld, RunInterrupted, RunNotFound, approval, gather, sleep, step
from holdfast.errors import WrongColour
from holdfast.testing import FakeClock


@step
async def work(name: str) -> str:
    return name.upper()


@step
def blocking(name: str) -> str:
    return name.lower()


def test_await_a_run(home, act):
    """`async with`, `await hf.start(...)`, in the loop of the caller."""
    threads = []

    async def plot(name):
        threads.append(threading.get_ident())
        return [await work(name), await blocking.aio(name)]

    async def main():
        async with Holdfast(home, durability="process") as hf:
            first = await hf.start(act(plot), "Kelp")
            run = hf.with_id("x").start(act(plot), "Kelp")
            second = [await run, await run]
            return first, second

    assert asyncio.run(main()) == (["KELP", "kelp"], [["KELP", "kelp"]] * 2)
    assert threads == [threading.get_ident()] * 2


def test_run_start_and_resume_as_coroutines(home, act):
    """`hf.aio` executes runs in the caller's loop: `run` gives the result, `start` and `resume` a handle."""
    loops = []

    async def plot(name):
        loops.append(asyncio.get_running_loop())
        return await work(name)

    async def main():
        async with Holdfast(home, durability="process") as hf:
            found = [await hf.aio.run(act(plot), "kelp"), await (await hf.aio.start(act(plot), "rock"))]
            found.append(await hf.aio.with_id("x").run(act(plot), "tide"))
            found.append(await (await hf.aio.with_id("x").start(act(plot), "tide")))
            found.append(await (await hf.aio.resume("x")))
            assert set(loops) == {asyncio.get_running_loop()}
            with pytest.raises(RunNotFound):
                await hf.aio.resume("y")
            return found

    assert asyncio.run(main()) == ["KELP", "ROCK", "TIDE", "TIDE", "TIDE"]
    assert len(loops) == 3


@pytest.mark.parametrize("is_async", [False, True])
def test_a_run_is_durable_once_its_start_was_awaited(home, act, is_async):
    """Its id may be given away: another process finds the run. The first start makes the owner, too."""

    async def plot(name):
        return await work(name)

    def table(name):
        return blocking(name)

    async def main():
        flow = act(plot if is_async else table)
        async with Holdfast(home) as hf:
            runs = [await hf.aio.start(flow, "kelp"), await hf.aio.with_id("x").start(flow, "kelp")]
            runs.append(await hf.aio.start(flow, "kelp"))
            with Holdfast(home) as other:
                assert [await other.aio.has(run.id) for run in runs] == [True, True, True]
            with pytest.raises(RunExists):
                await hf.aio.with_id("x").start(flow, "rock")
            return [await run for run in runs]

    assert {one.lower() for one in asyncio.run(main())} == {"kelp"}


def test_a_loop_that_ends_interrupts_what_began_in_it(home, act):
    """A handle that outlives its loop raises an error of holdfast's, not a cancellation of its own caller."""

    async def plot(name):
        return await work(name)

    async def kick(hf):
        return await hf.aio.with_id("begun").start(act(plot), "kelp"), hf.start(act(plot), "kelp")

    with Holdfast(home) as hf:
        for run in asyncio.run(kick(hf)):
            with pytest.raises(RunInterrupted):
                run.result(timeout=30)
        assert hf.with_id("begun").run(act(plot), "kelp") == "KELP"


def test_the_notice_of_an_awaited_run_does_not_block_the_loop(hf, act, caplog):
    """It is printed once, in a thread; a timer of its own is no part of a run."""

    async def plot():
        return (await approval.aio("go")).outcome

    threads = []
    read = hf._engine.store.run

    def slow(run_id):
        threads.append(threading.current_thread() is threading.main_thread())
        return read(run_id)

    async def main():
        run = hf.with_id("x").start(act(plot))
        waiting = asyncio.ensure_future(_await(run))
        hf._engine.store.run = slow
        while not caplog.records:
            await asyncio.sleep(0.05)
        await asyncio.sleep(1.2)
        await hf.aio.approve("x")
        return await waiting

    assert asyncio.run(main()) == "approved"
    said = [record.message for record in caplog.records]
    assert len(said) == 1 and said[0].startswith("run x waits for the approval of 'go'")
    assert threads and not any(threads)


async def _await(run):
    return await run


def test_a_def_workflow_can_be_awaited(hf, act):
    """It runs in a thread, the loop continues."""

    def plot(name):
        return blocking(name)

    async def main():
        return await hf.start(act(plot), "Kelp")

    assert asyncio.run(main()) == "kelp"


def test_an_async_workflow_from_plain_code(hf, act):
    """`run` and `start().result()` work without a loop of the caller's own."""

    async def plot(name):
        return await work(name)

    assert hf.run(act(plot), "a") == "A"
    assert [run.result(30) for run in [hf.start(act(plot), "b"), hf.start(act(plot), "c")]] == ["B", "C"]


def test_what_blocks_raises_with_a_hint(hf, act):
    """Each blocking method names its async form."""
    hf.with_id("x").run(act(lambda: 1))

    async def main():
        run = hf.with_id("x").start(act(lambda: 1))
        hints = []
        for call in [
            lambda: hf.run(act(lambda: 1)),
            lambda: hf.with_id("y").run(act(lambda: 1)),
            lambda: run.result(),
            lambda: hf.get("x"),
            lambda: hf.runs(),
            lambda: hf.steps("x"),
            lambda: hf.events("x"),
            lambda: hf.logs("x"),
            lambda: hf.recover(),
            lambda: hf.settle("x", "a", retry=True),
            lambda: hf.follow_logs("x"),
            lambda: hf.differing("x", "start").__enter__(),
        ]:
            with pytest.raises(WrongColour) as caught:
                call()
            hints.append(str(caught.value).partition("write ")[2])
        assert await run == 1
        return hints

    assert asyncio.run(main()) == [
        "`await hf.start(...)`",
        "`await hf.with_id(...).start(...)`",
        "`await run`",
        "`await hf.aio.get(...)`",
        "`await hf.aio.runs(...)`",
        "`await hf.aio.steps(...)`",
        "`await hf.aio.events(...)`",
        "`await hf.aio.logs(...)`",
        "`await hf.aio.recover(...)`",
        "`await hf.aio.settle(...)`",
        "`await hf.aio.logs(...)`",
        "`await hf.aio.diff(...)`",
    ]


def test_every_reading_method_has_an_async_form(hf, act):
    """`hf.aio` gives the same as the plain methods."""
    hf.with_id("x").run(act(lambda: blocking("A")))

    async def main():
        return [
            await hf.aio.get("x"),
            await hf.aio.runs(),
            await hf.aio.steps("x"),
            await hf.aio.events("x"),
            await hf.aio.logs("x"),
            await hf.aio.recover(),
        ]

    assert asyncio.run(main()) == [hf.get("x"), hf.runs(), hf.steps("x"), hf.events("x"), [], []]


def test_errors_of_the_claim_are_raised_at_the_await(hf, open_hf, act):
    """`start` in a loop returns at once; RunExists, RunHeld and RunNotFound come with the first await."""
    inside, go = threading.Event(), threading.Event()

    @step
    def slow() -> None:
        inside.set()
        go.wait(30)

    hf.with_id("done").run(act(lambda *args: args), 1)
    chosen = act(lambda *args: slow())
    held = hf.with_id("held").start(chosen)
    assert inside.wait(30)
    other = open_hf()

    async def main():
        for run, error in [
            (other.with_id("done").start(chosen, 2), RunExists),
            (other.resume("held"), RunHeld),
            (other.resume("nowhere"), RunNotFound),
        ]:
            with pytest.raises(error):
                await run

    try:
        asyncio.run(main())
    finally:
        go.set()
    held.result(30)


def test_resuming_in_a_loop(hf, act, ran):
    """A failed run continues in the loop; a completed one gives its result."""
    fails = [True]

    @step
    async def flaky() -> str:
        ran.append("flaky")
        if fails:
            raise ValueError("no")
        return "yes"

    async def plot():
        return await flaky()

    async def main():
        with pytest.raises(ValueError, match="no"):
            await hf.with_id("x").start(act(plot))
        fails.clear()
        return [await hf.resume("x"), await hf.resume("x"), await hf.with_id("x").start(act(plot))]

    assert asyncio.run(main()) == ["yes", "yes", "yes"]
    assert ran == ["flaky", "flaky"]


def test_the_loop_goes_on_while_the_disk_is_slow(hf, act):
    """A commit that takes long delays its own step, not the loop."""
    commit = hf._store._commit
    ticks = []

    def slow(batch):
        time.sleep(0.05)
        commit(batch)

    async def plot():
        return [await work("a"), await work("b")]

    async def main():
        hf._store._group._commit = slow
        run = hf.start(act(plot))
        while not run.done():
            ticks.append(time.monotonic())
            await asyncio.sleep(0.001)
        return await run

    assert asyncio.run(main()) == ["A", "B"]
    gaps = [later - earlier for earlier, later in itertools.pairwise(ticks)]
    assert len(ticks) > 20
    assert sorted(gaps)[-3] < 0.045


def test_a_foreign_cancel_leaves_a_started_body_shielded(hf, act, ran):
    """`asyncio.timeout` around a step: the body ends and is recorded, then the cancel continues."""
    clock = []

    @step
    async def slow() -> str:
        for _ in range(20):
            await asyncio.sleep(0.005)
        ran.append("ended")
        return "done"

    async def plot():
        try:
            async with asyncio.timeout(0.01):
                await slow()
        except TimeoutError:
            clock.append("timed out")
        return await work("after")

    assert hf.with_id("x").run(act(plot)) == "AFTER"
    assert (ran, clock) == (["ended"], ["timed out"])
    assert [(info.key, info.status) for info in hf.steps("x")] == [
        ("slow#1", "completed"),
        ("work#1", "completed"),
    ]


def test_cancelling_the_callers_task_does_not_cancel_the_run(hf, act):
    """Whoever waits for a run may stop waiting; the run continues."""
    go = asyncio.Event()

    @step
    async def waits() -> str:
        await go.wait()
        return "done"

    async def plot():
        return await waits()

    async def main():
        run = hf.with_id("x").start(act(plot))
        waiter = asyncio.ensure_future(_wait(run))
        await asyncio.sleep(0.01)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        go.set()
        return await run

    async def _wait(run):
        return await run

    assert asyncio.run(main()) == "done"


@pytest.fixture
def slow_claim(monkeypatch):
    """`slow_claim(hf)` makes its claims wait for `go`, and say when they wait and when they are written."""

    def make(hf):
        store = hf._engine.store
        command = store.command
        make.waits, make.go, make.written = threading.Event(), threading.Event(), threading.Event()

        def slow(stream, *args, **kwargs):
            if stream != "x":
                return command(stream, *args, **kwargs)
            make.waits.set()
            assert make.go.wait(30)
            version = command(stream, *args, **kwargs)
            make.written.set()
            return version

        monkeypatch.setattr(store, "command", slow)
        return make

    yield make
    make.go.set()


def types(hf, run_id):
    return [event.type for event in hf.events(run_id)]


@pytest.mark.parametrize("moment", ["while", "after"])
def test_a_start_that_is_cancelled_gives_the_run_back(hf, act, slow_claim, moment):
    """The loop ends while the run is claimed in a thread, or before it has heard of the claim: nobody
    executes the run, and the next start has it at once."""
    hf._engine.flusher._after_s = 60.0
    claim = slow_claim(hf)
    chosen = act(lambda: blocking("Kelp"))

    async def main():
        run = hf.with_id("x").start(chosen)
        await asyncio.to_thread(claim.waits.wait, 30)
        if moment == "after":
            claim.go.set()
            claim.written.wait(30)  # the loop is blocked meanwhile
            time.sleep(0.05)
        return run

    cancelled = asyncio.run(main())
    with pytest.raises(RunInterrupted):
        cancelled.result(0)
    claim.go.set()
    started = time.monotonic()
    assert hf.with_id("x").start(chosen).result(30) == "kelp"
    assert time.monotonic() - started < 5
    created = ["RunCreated", "RunClaimed", "RunReleased"]
    assert types(hf, "x") == [*created, "RunClaimed", "StepRan", "RunCompleted"]


def test_closing_waits_for_a_claim_that_is_to_be_given_back(open_hf, act, slow_claim):
    """The run is free when the Holdfast is closed, not the run of a dead owner."""
    hf = open_hf()
    claim = slow_claim(hf)

    async def main():
        hf.with_id("x").start(act(lambda: blocking("Kelp")))
        await asyncio.to_thread(claim.waits.wait, 30)

    asyncio.run(main())
    threading.Timer(0.1, claim.go.set).start()
    hf.close()
    assert types(open_hf(), "x") == ["RunCreated", "RunClaimed", "RunReleased"]


def test_a_start_that_is_cancelled_before_it_begins(hf, act):
    """There is no run then, and whoever waits for it is told."""

    async def main():
        run = hf.with_id("x").start(act(lambda: blocking("Kelp")))
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        return run

    with pytest.raises(RunInterrupted, match="before it began"):
        asyncio.run(main()).result(30)
    assert hf.runs() == []


def test_loops_that_have_ended_are_forgotten(hf, act):
    """A program that opens a loop for every request does not keep them all."""

    async def plot():
        return await work("a")

    async def main():
        loops.add(asyncio.get_running_loop())
        return await hf.start(act(plot))

    loops = weakref.WeakSet()
    assert [asyncio.run(main()) for _ in range(5)] == ["A"] * 5
    gc.collect()
    assert len(loops) == 1


def test_many_runs_in_one_loop(hf, act):
    """Fifty runs of ten steps each keep their results apart."""

    async def plot(name):
        return [await work(f"{name}-{n}") for n in range(10)]

    async def main():
        chosen = act(plot)
        runs = [hf.start(chosen, str(n)) for n in range(50)]
        return [await run for run in runs]

    assert asyncio.run(main()) == [[f"{n}-{m}" for m in range(10)] for n in range(50)]


def test_sleeping_runs_share_a_loop(open_hf, act):
    """A durable sleep in a branch does not hold up the others."""
    hf = open_hf(clock=FakeClock())

    async def nap(seconds):
        await sleep.aio(seconds)
        return seconds

    async def plot():
        return list(await gather(nap(30), nap(10), work("a")))

    assert hf.run(act(plot)) == [30, 10, "A"]


def test_leaving_a_plain_with_block_in_a_loop_does_not_hang(lab):
    """A live run of the same loop cannot end while the loop is blocked: closing says so or lets it be."""
    job = lab("""
        import asyncio
        from holdfast import Holdfast, step, workflow

        @step
        async def slow() -> None:
            await asyncio.sleep(0.5)

        @workflow
        async def job() -> None:
            await slow()

        async def main() -> None:
            with Holdfast() as hf:
                hf.with_id("job").start(job)
                await asyncio.sleep(0.2)

        if __name__ == "__main__":
            asyncio.run(main())
    """)
    job.run(timeout=60)


def test_closing_while_a_start_claims_lets_no_step_begin(open_hf, act, slow_claim, ran):
    """The run was claimed after the last look at the live ones: it stops before its first body, and goes
    on later."""

    @step
    async def work_here() -> None:
        ran.append("began")

    async def plot():
        await work_here()

    async def main():
        hf = open_hf()
        claim = slow_claim(hf)
        async with hf:
            hf.with_id("x").start(act(plot))
            await asyncio.to_thread(claim.waits.wait, 30)
            threading.Timer(0.1, claim.go.set).start()

    asyncio.run(main())
    assert ran == []
    open_hf().with_id("x").run(act(plot))
    assert ran == ["began"]


def test_a_run_that_is_got_reads_nothing_in_the_loop(hf, act, monkeypatch):
    """`await hf.aio.get(...)` has read the history: its steps and its result are there without the store."""
    hf.with_id("x").run(act(lambda: [blocking("A"), blocking("B")]))

    async def main():
        detail = await hf.aio.get("x")
        with monkeypatch.context() as patch:
            patch.setattr(type(hf._reader), "history", None)
            patch.setattr(type(hf._reader), "blob", None)
            return [step.status for step in detail.steps], detail.result

    assert asyncio.run(main()) == (["completed", "completed"], ["a", "b"])
