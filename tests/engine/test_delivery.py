"""Delivery at its edges: what is read or run before an outcome, what stops a run, and the code's clock."""

import asyncio
import threading
import time

import pytest

from holdfast import Holdfast, approval, gather, parallel, sleep, step, wait_for
from holdfast.engine.execution.code_clock import CodeClock
from holdfast.engine.primitives.slots import Slots

LARGE = "x" * 200_000


class Real:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def lives(open_hf, crashes, act, ran):
    """Executes a plot until it dies in its step `last`, and again; gives what `last` got then."""

    def live(make):
        died = []

        @step
        async def alast(*seen: object) -> list[object]:
            if not died:
                died.append(1)
                raise KeyboardInterrupt
            return list(seen)

        @step
        def last(*seen: object) -> list[object]:
            if not died:
                died.append(1)
                raise KeyboardInterrupt
            return list(seen)

        plot, chosen = make(alast, last)
        first = chosen(open_hf)
        with pytest.raises((Exception, KeyboardInterrupt)):
            first.with_id("x").run(act(plot))
        crashes.bury(first)
        return chosen(open_hf).with_id("x").run(act(plot))

    return live


def plain(open_hf):
    return open_hf()


# The code's clock


def test_the_clock_moves_with_deliveries_only():
    """Two readings between them are equal, however slow the machine is."""
    real = Real()
    clock = CodeClock(real, 1_000_000)
    real.at += 5
    assert clock.read() == clock.read() == 1000.0
    clock.reach(8_500_000)
    assert clock.read() == 1007.5
    clock.reach(3_000_000)
    assert clock.read() == 1007.5, "a clock that was set back"
    clock.move_to(1010.0)
    assert clock.read() == 1010.0


def test_differences_are_the_same_wherever_the_clock_begins():
    """Each process has a clock of its own: rounding must not decide what the code does."""
    seen = set()
    for began in (0.1, 77_777.777, 1e6 / 3):
        real = Real()
        real.at = began
        clock = CodeClock(real, 5)
        first = clock.read()
        clock.reach(1_234_567)
        second = clock.read()
        clock.move_to(second + 0.1)
        seen.add((second - first, clock.read() - second, clock.read() >= second + 0.1))
    assert len(seen) == 1, seen


def test_code_that_only_looks_at_the_clock_sees_it_move():
    real = Real()
    clock = CodeClock(real, 0)
    for _ in range(2000):
        real.at += 1
        clock.read()
    assert clock.read() > 1900


def test_a_deadline_that_had_passed_has_passed_again(lives):
    """`asyncio.timeout_at`: the steps before it are instant in the replay, the code's clock is not."""

    def make(last, _):
        @step
        async def slow() -> None:
            await asyncio.sleep(0.1)

        async def plot():
            deadline = asyncio.get_running_loop().time() + 0.05
            await slow()
            try:
                async with asyncio.timeout_at(deadline):
                    await asyncio.sleep(0)
                    late = False
            except TimeoutError:
                late = True
            return await last(late)

        return plot, plain

    assert lives(make) == [True]


def test_a_replay_reads_what_the_live_code_read(lives):
    """Code that decides by the clock, such as a rate limiter, takes the same path."""
    seen = []

    def make(last, _):
        @step
        async def slow(number: int) -> int:
            await asyncio.sleep(0.01 * number)
            return number

        async def plot():
            loop = asyncio.get_running_loop()
            began, read = loop.time(), []

            async def one(number):
                await slow(number)
                read.append(loop.time() - began)
                await asyncio.sleep(0.003)
                read.append(loop.time() - began)

            await asyncio.gather(*(one(number) for number in range(4)))
            seen.append(read)
            return await last()

        return plot, plain

    lives(make)
    first, again = seen
    assert first == again and first == sorted(first) and len(first) == 8 and first[-1] > 0.03


def test_a_sleep_after_a_replayed_timer_is_not_longer(lives):
    """Timers of the engine go by the real clock."""

    def make(last, _):
        @step
        async def work() -> None: ...

        async def plot():
            await asyncio.sleep(1.5)
            await work()
            await last()
            began = time.monotonic()
            await sleep.aio(0.05)
            return time.monotonic() - began < 1

        return plot, plain

    assert lives(make) is True


# What is read or run before an outcome is delivered


def test_a_large_signal_keeps_its_place(open_hf, crashes, act):
    """Its value is read from the disk before it is delivered: what comes later does not overtake it."""
    died, lives = [], []

    @step
    async def quick() -> None: ...

    @step
    async def last(*seen: object) -> list[object]:
        if not died:
            died.append(1)
            raise KeyboardInterrupt
        return list(seen)

    async def plot():
        found = []

        async def waits():
            await wait_for.aio("data")
            found.append("signal")

        async def works():
            await wait_for.aio("go")
            await quick()
            found.append("step")

        await asyncio.gather(waits(), works())
        lives.append(found)
        return await last(*found)

    first = open_hf()
    run = first.with_id("x").start(act(plot))
    while len(first._store.open_gates(["x"])) < 2:
        time.sleep(0.005)
    first.signal("x", "data", LARGE)
    first.signal("x", "go", 1)
    with pytest.raises((Exception, KeyboardInterrupt)):
        run.result(20)
    crashes.bury(first)
    open_hf().with_id("x").run(act(plot))
    assert lives[0] == lives[1]


def test_a_large_value_makes_no_task_of_the_run(lives):
    """Reading it in a replay must not shift the numbers of the tasks that follow."""
    orders = []

    def make(last, _):
        @step
        async def fetch() -> str:
            return LARGE

        @step
        async def fail() -> None:
            raise ValueError("no")

        async def plot():
            await fetch()
            await asyncio.gather(*(asyncio.sleep(0) for _ in range(27)))  # numbers around the size of a set
            cancelled = []

            async def branch(number):
                try:
                    await asyncio.Event().wait()
                finally:
                    cancelled.append(number)

            try:
                async with asyncio.TaskGroup() as group:
                    for number in range(7):
                        group.create_task(branch(number))
                    group.create_task(fail())
            except* ValueError:
                pass
            orders.append(cancelled)
            return await last()

        return plot, plain

    lives(make)
    assert orders[0] == orders[1]


def test_a_secret_in_a_branch_keeps_its_place(lives):
    """Its body runs again in the replay, beside the others, and its outcome waits for its turn."""

    def make(_, last):
        @step(secret=True)
        def token() -> str:
            time.sleep(0.03)
            return "t"

        @step
        def work() -> None:
            time.sleep(0.06)

        def plot():
            found = []

            def branch(number):
                (token if number == 0 else work)()
                found.append(number)

            parallel(branch, [0, 1])
            return last(*found)

        return plot, plain

    assert lives(make) == [0, 1]


def test_a_replay_in_which_a_lock_goes_to_another_branch_begins_again(lives):
    """The branch that has it waits at the barrier for the one that waits for it: nothing of it has run."""
    late = iter([False, True])  # in the replay, the other branch comes first
    held = threading.Lock()

    def make(_, last):
        @step
        def ask(name: str) -> str:
            return name

        def branch(name: str) -> str:
            if name == "a" and next(late, False):
                time.sleep(0.3)
            with held:
                return ask(name) + (last("dies") and ask(name) if name == "a" else "")

        return lambda: parallel(branch, "ab"), plain

    assert lives(make) == ["aa", "b"]
    assert next(late, "over") == "over"


def test_secrets_alone_in_parallel_are_resumed(lives):
    """`parallel(secret_step, items)`: what is recorded is taken before the barrier."""

    def make(_, last):
        @step(secret=True)
        def token(name: str) -> str:
            return name * 2

        def plot():
            return last(*parallel(token, ["a", "b"]))

        return plot, plain

    assert lives(make) == ["aa", "bb"]


def test_an_automatic_checkpoint_that_fails_does_not_keep_the_run_waiting(tmp_path, act, monkeypatch):
    """The step's outcome is withdrawn, and the error raised."""
    from holdfast.engine.files import checkpoint_append

    async def broken(run):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint_append, "take_due_soon", broken)

    @step
    async def work(n: int) -> int:
        return n

    async def plot():
        found = []
        for n in range(3):
            try:
                found.append(await work(n))
            except OSError as error:
                found.append(error.errno)
        return found

    (tmp_path / "holdfast.toml").write_text("checkpoint_every = 1\n")
    monkeypatch.chdir(tmp_path)
    with Holdfast(tmp_path / "home", workspace=tmp_path) as hf:
        assert hf.with_id("x").start(act(plot)).result(10) == [28, 28, 28]


# Loose histories


def test_a_failed_run_is_resumed_while_a_large_value_is_read(open_hf, act):
    """What the failure had led to is not asked for again; the large value waits until it is read."""
    fails = [True]

    @step
    async def fetch() -> str:
        await asyncio.sleep(0.1)
        return LARGE

    @step
    async def flaky() -> str:
        if fails:
            fails.clear()
            raise ValueError("down")
        return "up"

    @step
    async def notify() -> None: ...

    async def plot():
        async def asks():
            try:
                return await flaky()
            except ValueError:
                await notify()
                raise

        async def reads():
            return len(await fetch())

        return await gather(asks(), reads())

    hf = open_hf()
    with pytest.raises(ValueError, match="down"):
        hf.with_id("x").run(act(plot))
    assert hf.resume("x").result(10) == ["up", len(LARGE)]


def test_as_completed_in_a_failed_run_that_is_resumed(open_hf, act):
    """Its branches are told apart by their arguments."""
    fails = [True]

    @step
    async def ask(n: int) -> int:
        return n

    @step
    async def flaky() -> None:
        if fails:
            fails.clear()
            raise ValueError("down")

    async def plot():
        async def branch(n):
            return await ask(n)

        found = [await one for one in asyncio.as_completed([branch(n) for n in range(3)])]
        await flaky()
        return sorted(found)

    hf = open_hf()
    with pytest.raises(ValueError, match="down"):
        hf.with_id("x").run(act(plot))
    assert hf.resume("x").result(10) == [0, 1, 2]


# Stopping


def test_a_run_that_parks_lets_its_code_clean_up(hf, act):
    """`finally: await client.aclose()` around a gate is not cancelled."""
    seen = []

    async def plot():
        try:
            return (await approval.aio("go")).outcome
        finally:
            try:
                await asyncio.to_thread(time.sleep, 0.5)
                seen.append("closed")
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

    run = hf.with_id("x").start(act(plot))
    while not seen:
        time.sleep(0.01)
    assert seen == ["closed"]
    hf.approve("x")
    assert run.result(20) == "approved"


def test_a_gate_of_a_def_workflow_has_its_place(hf, act):
    """The code may become async while the run waits: then the order counts."""

    @step
    def after() -> None: ...

    def plot():
        approval("go")
        after()

    run = hf.with_id("x").start(act(plot))
    while not hf._store.open_gates(["x"]):
        time.sleep(0.005)
    hf.approve("x")
    run.result(20)
    seen = [event.type for event in hf.events("x")]
    assert seen.index("GateDecided") < seen.index("OutcomeDelivered") < seen.index("StepRan")


def test_a_cancelled_gather_with_a_limit_leaves_no_slot_behind():
    """Branches that wait for a slot are cancelled with those that have one."""

    async def main():
        slots = Slots(1)
        ended = []

        async def branch(n):
            try:
                async with slots:
                    await asyncio.Event().wait()
            finally:
                ended.append(n)

        tasks = [asyncio.create_task(branch(n)) for n in range(3)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        async with asyncio.timeout(1), slots:
            return [type(one).__name__ for one in found], sorted(ended)

    assert asyncio.run(main()) == (["CancelledError"] * 3, [0, 1, 2])
