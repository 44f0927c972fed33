"""A resumed run is the same execution: one test for each rule of delivery.

The oracle (tests/crash/oracle) tries random programs; these are the smallest programs that show a rule.
"""

import asyncio
import queue
import sys
import threading
import time
from contextlib import aclosing

import pytest

from holdfast import (
    DivergenceError,
    Retry,
    approval,
    gather,
    now,
    parallel,
    patched,
    sleep,
    step,
    wait_for,
    workflow,
)
from holdfast.engine.execution import delivery
from holdfast.engine.execution.execution import Execution
from holdfast.engine.execution.watched_loop import watched
from holdfast.errors import BadInput
from holdfast.operations.replaying import replay


@pytest.fixture
def slow(monkeypatch):
    """Delays of bodies by name; a later life has others."""
    return {}


@pytest.fixture
def ask(ran, slow):
    @step
    async def ask(name: str) -> str:
        ran.append(name)
        await asyncio.sleep(slow.get(name, 0))
        return name

    return ask


@pytest.fixture
def ask_def(ran, slow):
    @step
    def ask(name: str) -> str:
        ran.append(name)
        time.sleep(slow.get(name, 0))
        return name

    return ask


@pytest.fixture
def last(ran):
    """A step at which the first life dies."""
    lives = []

    @step
    async def last(*seen: object) -> str:
        if not lives:
            lives.append(1)
            raise KeyboardInterrupt
        ran.append("last")
        return repr(seen)

    return last


@pytest.fixture
def last_def(ran):
    lives = []

    @step
    def last(*seen: object) -> str:
        if not lives:
            lives.append(1)
            raise KeyboardInterrupt
        ran.append("last")
        return repr(seen)

    return last


@pytest.fixture
def resumed(open_hf, crashes, act, ran):
    """Executes `old` until it dies in `last`, and `new` (the same if None) in another life."""

    def resume(old, new=None, survivors=None):
        first = open_hf()
        if survivors is not None:
            crashes.arm(first, survivors)
        with pytest.raises((Exception, KeyboardInterrupt)):
            first.with_id("x").run(act(old))
        crashes.bury(first)
        before, ran[:] = list(ran), []
        return before, open_hf().with_id("x").run(act(new or old))

    return resume


def types(hf, run_id="x"):
    return [event.type for event in hf.events(run_id)]


# Order


def test_the_winner_of_a_race_is_the_same(resumed, ask, last, ran, slow):
    """Both outcomes are recorded: the one that came first wins again, whatever the order of the tasks."""
    slow["tortoise"] = 0.05

    async def plot():
        tasks = {asyncio.create_task(ask(name)): name for name in ("tortoise", "hare")}
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        won = [tasks[task] for task in done]
        await asyncio.wait(tasks)
        return await last(*won)

    before, result = resumed(plot)
    assert (before, result, ran) == (["tortoise", "hare"], "('hare',)", ["last"])


def test_a_list_that_branches_share_has_the_same_order(resumed, ask, last, slow):
    """`found.append(await ask(x))` under gather is an argument of a step afterwards."""
    slow.update(a=0.4, b=0.0, c=0.2)
    found = []

    async def plot():
        found.clear()

        async def branch(name):
            found.append(await ask(name))

        await asyncio.gather(*map(branch, "abc"))
        return await last(*found)

    assert resumed(plot)[1] == "('b', 'c', 'a')"


def test_outcomes_that_come_together_keep_their_order(resumed, ask, last):
    """Steps of one commit: the code receives them in the order of the log, live and in the replay."""
    lives = []

    async def plot():
        found = []

        async def branch(name):
            found.append(await ask(name))
            found.append(await ask(name + name))

        await asyncio.gather(*map(branch, "abcdefghijklmnop"))
        lives.append(found)
        return await last()

    resumed(plot)
    assert lives[0] == lives[1]


def test_branches_of_parallel_take_turns(resumed, ask_def, last_def, slow):
    """The same for threads: one of them runs the workflow's code at a time, in the order of the outcomes."""
    slow.update(a=0.4, b=0.0, c=0.2)
    found = []

    def plot():
        found.clear()

        def branch(name):
            found.append(ask_def(name))

        parallel(branch, "abc")
        return last_def(*found)

    assert resumed(plot)[1] == "('b', 'c', 'a')"


def test_one_branch_of_parallel_runs_code_at_a_time(hf, act, ask_def):
    """From one call to its next, also when their outcomes come together."""
    inside, together = [], []

    def plot():
        def branch(name):
            for _ in range(3):
                ask_def(name)
                inside.append(name)
                time.sleep(0.002)
                together.append(len(inside))
                inside.pop()

        parallel(branch, "abcd")

    hf.run(act(plot))
    assert together == [1] * 12


def test_a_branch_that_was_cancelled_does_not_continue(resumed, ask, last, ran, slow):
    """A TaskGroup whose sibling failed: the cancelled branch has its outcome, and does not send."""
    slow["draft"] = 0.03

    @step
    async def fail() -> None:
        raise ValueError("no")

    async def plot():
        async def sends():
            await ask("draft")
            await ask("send")

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(sends())
                group.create_task(fail())
        except* ValueError:
            pass
        return await last()

    before, _ = resumed(plot)
    assert (before, ran) == (["draft"], ["last"])


def test_a_queue_of_workers_gives_the_same_items_to_them(resumed, ask, last, ran, slow):
    """Each worker takes the next item when its outcome is delivered."""
    slow.update(zip("abcdef", (0.03, 0.0, 0.01, 0.0, 0.02, 0.0), strict=True))
    who = []

    async def plot():
        who.clear()
        items: asyncio.Queue[str] = asyncio.Queue()
        for item in "abcdef":
            items.put_nowait(item)

        async def worker(number):
            while not items.empty():
                item = items.get_nowait()
                who.append((number, await ask.with_key(item)(item)))

        await asyncio.gather(*(worker(number) for number in range(3)))
        return await last(*who)

    before, result = resumed(plot)
    assert sorted(before) == list("abcdef")
    assert (result, ran) == (repr(tuple(who)), ["last"])


# Identity


def test_a_key_of_the_users_choice_is_one_in_the_run(resumed, ask, last, ran):
    """Other workers, in other branches, get the recorded results."""

    def pool(workers):
        async def plot():
            items = list("abcdef")

            async def worker():
                while items:
                    item = items.pop(0)
                    await ask.with_key(item)(item)

            await asyncio.gather(*(worker() for _ in range(workers)))
            return await last()

        return plot

    before, _ = resumed(pool(2), pool(3))
    assert (sorted(before), ran) == (list("abcdef"), ["last"])


def test_a_key_with_other_arguments_is_refused(hf, act, ask):
    """It names one call in the whole run."""

    async def plot():
        async def branch(name):
            return await ask.with_key("k")(name)

        return [await asyncio.create_task(branch(name)) for name in "ab"]

    with pytest.raises(BadInput, match="ask@k is called again with other arguments"):
        hf.run(act(plot))


def test_as_completed_numbers_branches_in_the_order_of_its_argument(hf, act, ask):
    """Not in that of the set that it makes: sets of coroutines are in the order of their addresses."""

    async def plot():
        async def branch(name):
            await ask(name)

        for one in asyncio.as_completed([branch(str(n)) for n in range(12)]):
            await one

    hf.with_id("x").run(act(plot))
    begun = [event.data for event in hf.events("x") if event.type in ("StepRan", "StepStarted")]
    ran = {data["key"]: data["args"] for data in begun}
    assert ran == {f"branch[{n + 1}]/ask#1": {"name": str(n)} for n in range(12)}


def test_as_completed_of_a_set_is_refused(hf, act, ask):
    """It has no order of its own."""

    async def plot():
        for one in asyncio.as_completed({ask("a"), ask("b")}):
            await one

    with pytest.raises(BadInput, match="give it a list"):
        hf.run(act(plot))


def test_a_group_cancels_its_tasks_in_their_order(hf, act, ask, slow):
    """Its tasks are in a set: they hash by their numbers."""
    cancelled = []

    async def plot():
        async def branch(name):
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(name)

        async with asyncio.TaskGroup() as group:
            for n in range(30):
                group.create_task(branch(n))
            await ask("x")
            raise ValueError

    for _ in range(3):
        junk = [object() for _ in range(1000)]  # other addresses
        with pytest.raises(ExceptionGroup):
            hf.run(act(plot))
        del junk
    assert cancelled[:30] == cancelled[30:60] == cancelled[60:]


# The barrier


def test_a_renamed_helper_repeats_nothing(resumed, hf, act, ran, last):
    """The recorded steps of a fan-out are never asked for: that is reported before any body runs."""

    @step(effect="once")
    async def send(to: str) -> None:
        ran.append(to)

    async def mail(to):
        await send(to)

    async def deliver(to):
        await send(to)

    def plot(helper):
        async def play():
            await asyncio.gather(*map(helper, "ab"))
            return await last()

        return play

    with pytest.raises(DivergenceError, match=r"recorded is mail\[1\]/send#1 next, the code calls deliver"):
        resumed(plot(mail), plot(deliver))
    assert ran == []
    found = replay(hf._engine, "x")
    assert (found.verdict, found.why.split(",")[0]) == ("diverges", "recorded is mail[1]/send#1 next")
    act(plot(mail))
    assert hf.resume("x").result(20) == "()"
    assert ran == ["last"]


def test_a_renamed_helper_of_parallel_repeats_nothing(resumed, ran, last_def):
    """The same for threads."""

    @step(effect="once")
    def send(to: str) -> None:
        ran.append(to)

    def mail(to):
        send(to)

    def deliver(to):
        send(to)

    def plot(helper):
        def play():
            parallel(helper, "ab")
            return last_def()

        return play

    with pytest.raises(DivergenceError, match=r"recorded is mail\[1\]/send#1 next"):
        resumed(plot(mail), plot(deliver))
    assert ran == []


def test_a_call_that_had_begun_must_be_made_again(open_hf, crashes, act, ran):
    """A once step without an outcome, in a branch that is renamed, is not begun under another name."""

    @step(effect="once")
    async def send(to: str) -> None:
        ran.append(to)
        raise KeyboardInterrupt

    async def mail(to):
        await send(to)

    async def deliver(to):
        await send(to)

    def plot(helper):
        async def play():
            await asyncio.gather(helper("a"))

        return play

    first = open_hf()
    with pytest.raises((Exception, KeyboardInterrupt)):
        first.with_id("x").run(act(plot(mail)))
    crashes.bury(first)
    with pytest.raises(DivergenceError, match=r"recorded is mail\[1\]/send#1"):
        open_hf().with_id("x").run(act(plot(deliver)))
    assert ran == ["a"]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_another_limit_is_no_divergence(resumed, ask, last, ran, slow, limit):
    """Branches that were under way under a larger limit begin when the replay needs them."""
    slow["0"] = 0.05

    def plot(limit):
        async def play():
            async def branch(n):
                await ask(str(n))

            await gather(*map(branch, range(6)), limit=limit)
            return await last()

        return play

    before, _ = resumed(plot(3), plot(limit))
    assert (sorted(before), ran) == (list("012345"), ["last"])


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_another_limit_of_threads_is_no_divergence(resumed, ask_def, last_def, ran, slow, limit):
    """The same for `parallel`."""
    slow["0"] = 0.05

    def plot(limit):
        def play():
            parallel(lambda n: ask_def(str(n)), range(6), limit=limit)
            return last_def()

        return play

    before, _ = resumed(plot(3), plot(limit))
    assert (sorted(before), ran) == (list("012345"), ["last"])


# Time


def test_a_timeout_of_asyncio_fires_at_the_same_place(resumed, ask, last, ran, slow):
    """The step was too slow then; today it is not, and the fallback is taken all the same."""
    slow["draft"] = 0.1

    async def plot():
        slow["draft"] = 0.1 if not ran else 0.0
        try:
            async with asyncio.timeout(0.02):
                found = await ask("draft")
        except TimeoutError:
            found = await ask("fallback")
        return await last(found)

    before, result = resumed(plot)
    assert (before, result, ran) == (["draft", "fallback"], "('fallback',)", ["last"])


def test_naps_that_follow_one_another_are_one_event(hf, act, ask):
    """A loop that polls costs one event with the next append."""

    async def plot():
        for _ in range(20):
            await asyncio.sleep(0.0001)
        await ask("a")

    hf.with_id("x").run(act(plot))
    fired = [event.data for event in hf.events("x") if event.type == "TimerFired"]
    assert [(one["first"], one["last"]) for one in fired] == [(1, 20)]


def test_the_clock_of_the_code_stands_still_between_deliveries(hf, act, ask):
    """`asyncio.timeout` compares two readings: a slow machine must not take another way."""

    async def plot():
        loop = asyncio.get_running_loop()
        first = loop.time()
        time.sleep(0.01)
        same = loop.time() == first
        await ask("a")
        return same, loop.time() > first

    assert hf.run(act(plot)) == (True, True)


def test_a_slept_hour_has_passed_for_the_code(open_hf, act, ask, last, crashes, monkeypatch):
    """A timer of the history is delivered at once, and the clock is not behind it."""
    seen = []

    async def plot():
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.sleep(0.2)
        await ask("a")
        seen.append(loop.time() - began > 0.19)
        return await last()

    first = open_hf()
    with pytest.raises((Exception, KeyboardInterrupt)):
        first.with_id("x").run(act(plot))
    crashes.bury(first)
    assert open_hf().with_id("x").run(act(plot))
    assert seen == [True, True]


def test_a_new_call_before_a_wait_that_was_given_up_is_a_divergence(resumed, ask, last):
    """It is a recorded call as any other: code that passes it by is not the code that made it."""

    async def race():
        try:
            async with asyncio.timeout(0.05):
                return await wait_for.aio("paid")
        except TimeoutError:
            return "given up"

    async def old():
        return await last(*await asyncio.gather(race()))

    async def new():
        first = await ask("first")
        return [first, *await asyncio.gather(race())]

    with pytest.raises(DivergenceError, match=r"race\[1\]/paid#1 next"):
        resumed(old, new)


def test_a_retry_that_was_given_up_is_given_up_again(resumed, ask, last, ran):
    """A branch that is cancelled while its step waits for the next attempt: that is recorded."""

    @step(retry=Retry(attempts=5, initial=30.0))
    async def flaky() -> None:
        ran.append("flaky")
        raise ValueError("later")

    async def plot():
        try:
            async with asyncio.timeout(0.05):
                await flaky()
        except TimeoutError:
            await ask("instead")
        return await last()

    before, _ = resumed(plot)
    assert (before, ran) == (["flaky", "instead"], ["last"])


# Gates


def test_a_decision_has_its_place_among_the_outcomes(open_hf, crashes, act, ask, last, ran, slow):
    """What others write reaches the code at a recorded place."""
    slow.update(a=0.0, b=0.05)
    found = []

    async def plot():
        found.clear()

        async def works():
            for name in ("a", "b"):
                found.append(await ask(name))

        async def waits():
            found.append((await approval.aio("go")).outcome)

        await asyncio.gather(works(), waits())
        return await last(*found)

    first = open_hf()
    run = first.with_id("x").start(act(plot))
    while not first._store.open_gates(["x"]):
        time.sleep(0.002)
    first.approve("x")
    with pytest.raises((Exception, KeyboardInterrupt)):
        run.result(20)
    seen = list(found)
    crashes.bury(first)
    slow.clear()
    assert open_hf().with_id("x").run(act(plot)) == repr(tuple(seen))


def test_a_signal_races_a_timer_to_the_same_end(open_hf, crashes, act, last):
    """The timer had fired: the signal that came later is not taken."""

    async def plot():
        try:
            found = await asyncio.wait_for(wait_for.aio("go"), 0.05)
        except TimeoutError:
            found = "too late"
        return await last(found)

    first = open_hf()
    with pytest.raises((Exception, KeyboardInterrupt)):
        first.with_id("x").run(act(plot))
    crashes.bury(first)
    second = open_hf()
    second.signal("x", "go", 1)
    assert second.with_id("x").run(act(plot)) == "('too late',)"


# Patches


@pytest.mark.parametrize("colour", ["async", "def"])
def test_patched_counts_what_is_beneath_its_scope(resumed, ask, ask_def, last, last_def, ran, colour):
    """A place before a fan-out: the recorded steps of its branches say that the run has passed it."""

    def async_plot(new):
        async def play():
            if new and patched("greet"):
                await ask("hello")

            async def branch(name):
                await ask(name)

            await asyncio.gather(*map(branch, "ab"))
            return await last()

        return play

    def def_plot(new):
        def play():
            if new and patched("greet"):
                ask_def("hello")
            parallel(lambda name: ask_def(name), "ab")
            return last_def()

        return play

    plot = async_plot if colour == "async" else def_plot
    before, _ = resumed(plot(False), plot(True))
    assert (sorted(before), ran) == (["a", "b"], ["last"])


# What cannot be known


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(delivery, "PATIENCE_S", 0.3)
    monkeypatch.setattr(delivery, "OWN_PATIENCE_S", 0.3)


def test_code_that_waits_for_something_unknown_is_reported(resumed, impatient, ask, last, ran):
    """In the replay a future that nobody sets keeps the code from its next call: no hang."""
    lives = []

    async def plot():
        if lives:
            await asyncio.get_running_loop().create_future()
        lives.append(1)
        await ask("a")
        return await last()

    with pytest.raises(
        DivergenceError, match=r"recorded is ask#1 next, the code calls nothing \(and waits at"
    ):
        resumed(plot)
    assert ran == []


shared: list[asyncio.Semaphore] = []
died: list[int] = []


@step
async def hold() -> None:
    await asyncio.sleep(0.6)


@step
async def use() -> int:
    return 7


@step
async def die_once() -> None:
    if not died:
        died.append(1)
        raise KeyboardInterrupt


@workflow
async def holding() -> None:
    async with shared[-1]:
        await hold()


@workflow
async def limited() -> int:
    async with shared[-1]:
        found = await use()
    await die_once()
    return found


def test_a_lock_that_another_run_holds_is_waited_for(open_hf, crashes, monkeypatch):
    """Runs may share a limit: what one of them waits for in its replay comes from the other."""
    died.clear()
    shared.append(asyncio.Semaphore(1))
    first = open_hf()
    with pytest.raises((Exception, KeyboardInterrupt)):
        first.with_id("x").run(limited)
    crashes.bury(first)
    monkeypatch.setattr(delivery, "OWN_PATIENCE_S", 0.1)
    hf = open_hf()

    async def both():
        shared.append(asyncio.Semaphore(1))
        other = hf.with_id("other").start(holding)
        while not shared[-1].locked():
            await asyncio.sleep(0.01)
        found = await hf.with_id("x").start(limited)
        await other
        return found

    assert asyncio.run(both()) == 7


def test_a_foreign_thread_may_take_its_time(resumed, ask, last, ran, slow):
    """I/O of the workflow's own code, slower than in the first life, is waited for."""
    slow["b"] = 0.05
    pauses = [0.0, 0.2]

    async def plot():
        async def reads():
            await asyncio.to_thread(time.sleep, pauses.pop(0))
            await ask("a")

        await asyncio.gather(reads(), ask("b"))
        return await last()

    before, _ = resumed(plot)
    assert (sorted(before), ran) == (["a", "b"], ["last"])


def test_code_that_never_rests_gets_its_outcomes(resumed, ask, last, ran):
    """A loop of `sleep(0)` until another branch has set a flag."""

    async def plot():
        done = []

        async def works():
            done.append(await ask("a"))

        task = asyncio.create_task(works())
        while not done:
            await asyncio.sleep(0)
        await task
        return await last()

    before, _ = resumed(plot)
    assert (before, ran) == (["a"], ["last"])


def test_a_step_of_a_foreign_thread_is_refused(hf, act, ask_def):
    """It would have no place in the order."""

    async def plot():
        await asyncio.to_thread(ask_def, "a")

    with pytest.raises(Exception, match="another thread"):
        hf.run(act(plot))


def test_a_task_that_outlives_its_workflow_is_let_end(hf, act, ask, ran, slow):
    """What it has begun is recorded; it begins nothing more."""
    slow["a"] = 0.05

    async def plot():
        async def works():
            await ask("a")
            await ask("b")

        asyncio.create_task(works())  # noqa: RUF006
        await asyncio.sleep(0.01)
        return "done"

    assert hf.with_id("x").run(act(plot)) == "done"
    assert ran == ["a"]
    assert "StepCompleted" in types(hf) or "StepRan" in types(hf)
    assert replay(hf._engine, "x").verdict == "matches"


def test_a_gate_that_is_being_opened_when_the_function_ends(hf, act, monkeypatch):
    """The end of the run is recorded after it."""
    transact, append_of = Execution.transact, Execution.append_of
    ended, opened = threading.Event(), threading.Event()

    def slow_transact(*args, **kwargs):
        ended.wait(0.2)
        try:
            return transact(*args, **kwargs)
        finally:
            opened.set()

    def slow_append_of(*args, **kwargs):
        made = append_of(*args, **kwargs)
        ended.set()
        opened.wait(0.2)
        return made

    monkeypatch.setattr(Execution, "transact", slow_transact)
    monkeypatch.setattr(Execution, "append_of", slow_append_of)

    async def plot():
        asyncio.create_task(approval.aio("go"))  # noqa: RUF006
        await asyncio.sleep(0)
        return "done"

    assert hf.with_id("x").run(act(plot)) == "done"
    assert types(hf)[-1] == "RunCompleted"
    assert replay(hf._engine, "x").verdict == "matches"


def test_a_loop_that_cannot_be_watched_is_refused():
    """The reason is named."""

    class Sealed:
        __slots__ = ()

        call_soon = call_at = call_later = time = None

    with pytest.raises(BadInput, match="Sealed does not let holdfast see"):
        watched(Sealed())


def test_a_loop_whose_call_soon_is_another_librarys(open_hf, act, ask):
    """It is called for everything that is not the code's."""
    calls = []

    async def plot():
        return await ask("a")

    async def main():
        loop = asyncio.get_running_loop()
        real = loop.call_soon

        def call_soon(*args, **kwargs):
            calls.append(args)
            return real(*args, **kwargs)

        loop.call_soon = call_soon
        async with open_hf() as hf:
            return await hf.start(act(plot))

    assert asyncio.run(main()) == "a"
    assert calls


def test_a_stopped_run_ends_a_function_that_waits_for_a_worker(open_hf, crashes, act, ran):
    """A once step in doubt stops a worker; the function waits for the queue, and must not wait for ever."""

    @step(effect="once")
    async def send() -> None:
        ran.append("send")
        raise KeyboardInterrupt

    async def plot():
        items: asyncio.Queue[int] = asyncio.Queue()
        items.put_nowait(1)

        async def worker():
            await items.get()
            await send()
            items.task_done()

        task = asyncio.create_task(worker())
        await items.join()
        await task

    first = open_hf()
    with pytest.raises((Exception, KeyboardInterrupt)):
        first.with_id("x").run(act(plot))
    crashes.bury(first)
    run = open_hf().with_id("x").start(act(plot))
    with pytest.raises(Exception, match=r"send#1 .* may or may not have happened"):
        run.result(10)
    assert ran == ["send"]


def test_branches_that_block_each_other_get_on(hf, act, ask_def, ran):
    """A lock around a step: the branch that waits for it loses its turn to the one that has it."""

    def plot():
        lock = threading.Lock()

        def branch(name):
            with lock:
                return ask_def(name)

        return parallel(branch, "abc")

    assert hf.run(act(plot)) == ["a", "b", "c"]
    assert sorted(ran) == ["a", "b", "c"]


def test_a_blocking_queue_between_branches(hf, act, ask_def):
    """Producer and consumer in one `parallel`."""

    def plot():
        items: queue.Queue[str | None] = queue.Queue()

        def produce():
            for name in "ab":
                items.put(ask_def(name))
            items.put(None)

        def consume():
            found = []
            while (item := items.get()) is not None:
                found.append(ask_def(item * 2))
            return found

        return parallel(lambda work: work(), [consume, produce])[0]

    assert hf.run(act(plot)) == ["aa", "bb"]


# Old histories


def test_a_history_of_an_older_version_is_resumed(resumed, monkeypatch, ask, last, ran, slow):
    """It has no order: outcomes are delivered in that of the log where they are asked for."""
    from holdfast.kernel import decide as kernel
    from holdfast.kernel import events as e

    slow.update(a=0.02)
    claim = kernel._DECIDE[kernel.c.ClaimRun]

    def unordered(state, command):
        return [
            e.RunClaimed(one.owner, one.epoch, one.took_over, one.forced, one.seen_at)
            if isinstance(one, e.RunClaimed)
            else one
            for one in claim(state, command)
        ]

    lives = []

    async def plot():
        if not lives:
            lives.append(1)
        else:
            monkeypatch.setitem(kernel._DECIDE, kernel.c.ClaimRun, claim)
        now()

        async def branch(name):
            return await ask(name)

        found = await asyncio.gather(*map(branch, "ab"))
        await sleep.aio(0.001)
        return await last(*found)

    monkeypatch.setitem(kernel._DECIDE, kernel.c.ClaimRun, unordered)
    before, result = resumed(plot)
    assert (sorted(before), result, ran) == (["a", "b"], "('a', 'b')", ["last"])


def test_a_step_in_the_clean_up_of_a_generator(hf, act, ask):
    """The code closes it, early or late, and the step is one as any other. It was taken for Ctrl-C."""

    async def pages():
        try:
            yield await ask("1")
            yield await ask("2")
        finally:
            await ask("bye")

    async def plot():
        first = pages()
        found = [await anext(first)]
        await first.aclose()
        async with aclosing(pages()) as second:
            async for page in second:
                found.append(page)
                break
        return found

    assert len(hf.with_id("x").run(act(plot))) == 2
    assert [one.key for one in hf.get("x").steps] == ["ask#1", "ask#2", "ask#3", "ask#4"]


def test_a_generator_that_the_code_drops(open_hf, act, ask, last, crashes):
    """The loop closes it in a task. That task has its place among the others."""

    async def pages():
        try:
            yield await ask("1")
        finally:
            await ask("bye")

    async def plot():
        async for _ in pages():
            break
        await ask("next")
        return await last()

    first = open_hf()
    with pytest.raises((Exception, KeyboardInterrupt)):
        first.with_id("x").run(act(plot))
    crashes.bury(first)
    hf = open_hf()
    hf.with_id("x").run(act(plot))
    assert sum(one.name == "ask" for one in hf.get("x").steps) == 3


def test_a_step_in_the_clean_up_of_a_plain_generator(hf, act):
    @step
    def look_up(topic: str) -> str:
        return topic

    def pages():
        try:
            yield look_up("1")
            yield look_up("2")
        finally:
            look_up("bye")

    def plot():
        first = pages()
        found = [next(first)]
        first.close()
        for page in pages():
            found.append(page)
            break
        return found

    assert hf.with_id("x").run(act(plot)) == ["1", "1"]
    assert hf.get("x").steps[-1].key == "look_up#4"


def test_the_names_of_tasks_are_numbered_in_the_run(hf, act, ask):
    """asyncio counts the tasks of the process."""

    async def named():
        return asyncio.current_task().get_name()

    async def plot():
        await ask("a")
        return await asyncio.gather(named(), asyncio.create_task(named(), name="mine"), named())

    assert [hf.run(act(plot)) for _ in range(2)] == [["Task-2", "mine", "Task-3"]] * 2


if sys.version_info >= (3, 12):

    def test_eager_tasks_are_not_ahead_of_their_creator(open_hf, act, ask, last, crashes):
        """A replay delivers nothing to a task that begins at once before the code that creates it rests."""

        async def plot():
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
            found = []

            async def one(topic):
                found.append(await ask(topic))

            task = asyncio.create_task(one("a"))
            found.append("begun")
            await task
            await last()
            return found

        first = open_hf()
        with pytest.raises((Exception, KeyboardInterrupt)):
            first.with_id("x").run(act(plot))
        crashes.bury(first)
        assert open_hf().with_id("x").run(act(plot))[0] == "begun"
