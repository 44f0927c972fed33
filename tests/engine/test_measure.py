"""`measure`: what steps used is recorded with their outcomes, and no attempt is forgotten."""

from __future__ import annotations

import asyncio
import json
import threading
from decimal import Decimal
from typing import Any

import pytest

from holdfast import InDoubt, Measured, Retry, StepTimeout, command, measure, parallel, step
from holdfast.errors import BadInput
from holdfast.testing.crash import at_mark, before_append


def used(hf: Any, run_id: str = "x") -> dict[str, tuple[Measured, ...]]:
    return {one.key: one.measured for one in hf.steps(run_id)}


def events(hf: Any, run_id: str = "x") -> list[str]:
    return [event.type for event in hf.events(run_id)]


ONE = Measured("small", 10, 5, Decimal("0.01"))


def spend(times: int = 1) -> None:
    for _ in range(times):
        measure(model="small", input_tokens=10, output_tokens=5, usd=Decimal("0.01"))


@step
def ask(times: int = 1) -> int:
    spend(times)
    return times


@step
async def aask(times: int = 1) -> int:
    spend(times)
    await asyncio.sleep(0)
    return times


@pytest.mark.parametrize("colour", ["def", "async", "aio"])
def test_a_step_measures_what_it_uses(open_hf: Any, act: Any, colour: str) -> None:
    """Sums for each model, in the commit of the result, which is not later than that."""
    hf = open_hf()
    hf._engine.flusher._after_s = 60.0
    appends: list[list[str]] = []
    store = hf._engine.store
    append, append_soon = store.append, store.append_soon

    def counting(item: Any) -> None:
        append(item)
        appends.append([event.type for event in item.events])

    def counting_soon(item: Any, done: Any) -> None:
        appends.append([event.type for event in item.events])
        append_soon(item, done)

    store.append, store.append_soon = counting, counting_soon

    def body() -> None:
        spend(2)
        measure(model="large", input_tokens=1)
        measure(pages=3, seconds=Decimal("0.5"))
        measure(pages=4)

    async def abody() -> None:
        body()

    work = step(name="work")(abody if colour == "async" else body)

    async def aplot() -> None:
        await work.aio()

    hf.with_id("x").run(act((lambda: work()) if colour == "def" else aplot))
    assert used(hf) == {
        "work#1": (
            Measured("small", 20, 10, Decimal("0.02")),
            Measured("large", 1),
            Measured(units={"pages": 7, "seconds": Decimal("0.5")}),
        )
    }
    assert ["StepStarted", "StepMeasured", "StepCompleted"] in [one[-3:] for one in appends]


def test_a_step_that_measures_nothing_is_one_event_as_before(hf: Any, act: Any) -> None:
    hf._engine.flusher._after_s = 60.0
    hf.with_id("x").run(act(lambda: step(name="plain")(lambda: 1)()))
    assert "StepRan" in events(hf)
    assert used(hf) == {"plain#1": ()}


@pytest.mark.parametrize("colour", ["def", "async"])
def test_each_attempt_counts(hf: Any, act: Any, colour: str) -> None:
    """Also those that failed, and a step that fails for good."""
    tries = []

    def body() -> None:
        spend()
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError

    async def abody() -> None:
        body()

    flaky = step(name="flaky", retry=Retry(attempts=2, initial=0.001))(abody if colour == "async" else body)

    async def aplot() -> None:
        await flaky()

    workflow = act(aplot if colour == "async" else lambda: flaky())
    with pytest.raises(ConnectionError):
        hf.with_id("x").run(workflow)
    assert used(hf) == {"flaky#1": (Measured("small", 20, 10, Decimal("0.02")),)}
    by_attempt = [event.data["attempt"] for event in hf.events("x") if event.type == "StepMeasured"]
    assert by_attempt == [1, 2]
    hf.resume("x").result(30)
    assert used(hf) == {"flaky#1": (Measured("small", 30, 15, Decimal("0.03")),)}


def test_a_replay_measures_nothing_again(twice: Any, open_hf: Any) -> None:
    twice(lambda: ask(2))
    assert used(open_hf(), "twice") == {"ask#1": (Measured("small", 20, 10, Decimal("0.02")),)}


def test_a_secret_step_that_runs_again_has_used_it_again(twice: Any, open_hf: Any) -> None:
    hidden = step(name="hidden", secret=True)(lambda: spend())
    twice(lambda: hidden())
    assert used(open_hf(), "twice") == {"hidden#1": (Measured("small", 20, 10, Decimal("0.02")),)}


def test_a_result_that_cannot_be_stored_has_used_it(hf: Any, act: Any) -> None:
    def body() -> object:
        spend()
        return object()

    with pytest.raises(Exception, match="stor"):
        hf.with_id("x").run(act(lambda: step(name="odd")(body)()))
    assert used(hf) == {"odd#1": (ONE,)}


@pytest.mark.parametrize("end", ["timeout", "not storable", "verify"])
def test_a_step_in_doubt_has_used_it(hf: Any, act: Any, end: str) -> None:
    let_go = threading.Event()

    def body() -> object:
        spend()
        if end == "timeout":
            let_go.wait(30)
        if end == "verify":
            raise ConnectionError
        return object()

    def verify() -> object:
        spend()
        raise LookupError

    options: dict[str, Any] = {"timeout": 0.05} if end == "timeout" else {}
    if end == "verify":
        options = {"verify": verify, "retry": Retry(attempts=2)}
    pay = step(name="pay", effect="once", **options)(body)
    with pytest.raises(InDoubt):
        hf.with_id("x").run(act(lambda: pay()))
    let_go.set()
    both = (ONE.plus(ONE),) if end == "verify" else (ONE,)
    assert used(hf) == {"pay#1": both}


def test_an_interrupt_in_the_body_loses_nothing(hf: Any, act: Any) -> None:
    def body() -> None:
        spend()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hf.with_id("x").run(act(lambda: step(name="cut")(body)()))
    assert used(hf) == {"cut#1": (ONE,)}


def test_a_cancelled_async_body_loses_nothing(hf: Any, act: Any) -> None:
    begun = threading.Event()

    @step
    async def slow() -> None:
        spend()
        begun.set()
        await asyncio.sleep(30)

    async def plot() -> None:
        await slow()

    run = hf.with_id("x").start(act(plot))
    assert begun.wait(30)
    hf.cancel("x")
    with pytest.raises(BaseException, match="cancel"):
        run.result(30)
    assert used(hf) == {"slow#1": (ONE,)}


def test_what_a_long_attempt_has_used_is_in_the_log_soon(hf: Any, act: Any) -> None:
    """While its body runs, as an event of its own; what comes later counts too."""
    seen = []

    @step
    def long() -> None:
        spend()
        for _ in range(1000):
            if "StepMeasured" in events(hf):
                break
            threading.Event().wait(0.01)
        seen.extend(used(hf)["long#1"])
        spend()

    hf.with_id("x").run(act(lambda: long()))
    assert seen == [ONE]
    assert used(hf) == {"long#1": (ONE.plus(ONE),)}
    assert events(hf).count("StepMeasured") == 2


def test_threads_with_the_context_of_the_body_count(hf: Any, act: Any) -> None:
    """`to_thread` and tasks carry it; a bare thread has none, and is told so."""
    wrong: list[BaseException] = []

    def bare() -> None:
        try:
            measure(pages=1)
        except BadInput as error:
            wrong.append(error)

    @step
    async def work() -> None:
        await asyncio.gather(asyncio.to_thread(spend), asyncio.to_thread(spend))
        await asyncio.create_task(aspend())

    async def aspend() -> None:
        spend()

    @step
    def thread() -> None:
        import contextvars

        carried = contextvars.copy_context()
        for target in (bare, lambda: carried.run(spend)):
            started = threading.Thread(target=target)
            started.start()
            started.join()

    async def plot() -> None:
        await work()
        await thread.aio()

    hf.with_id("x").run(act(plot))
    assert used(hf) == {"work#1": (Measured("small", 30, 15, Decimal("0.03")),), "thread#1": (ONE,)}
    assert "only inside the body" in str(wrong[0])


def test_an_overdue_attempt_counts_what_it_uses_after_its_time(hf: Any, act: Any) -> None:
    """The thread of an attempt that took too long cannot be killed: what it uses then was used, too."""
    let_go, ended = threading.Event(), threading.Event()

    @step(timeout=0.05)
    def slow() -> None:
        let_go.wait(30)
        spend()
        ended.set()

    def plot() -> str:
        try:
            slow()
        except StepTimeout:
            let_go.set()
            assert ended.wait(30)
        return "late"

    assert hf.with_id("x").run(act(plot)) == "late"
    assert used(hf) == {"slow#1": (ONE,)}


def test_on_line_of_a_command_measures_for_it(hf: Any, act: Any) -> None:
    """A program that prints what it costs."""

    def listen(line: str) -> None:
        told = json.loads(line)
        measure(model=told["model"], usd=Decimal(told["usd"]))

    script = """for n in 1 2; do echo '{"model": "small", "usd": "0.1"}'; done"""
    hf.with_id("x").run(act(lambda: command(["sh", "-c", script], on_line=listen)))
    assert used(hf) == {"sh#1": (Measured("small", usd=Decimal("0.2")),)}


def test_steps_side_by_side_keep_theirs_apart(hf: Any, act: Any) -> None:
    hf.with_id("x").run(act(lambda: parallel(ask, range(1, 6))))
    assert {key: one[0].input_tokens for key, one in used(hf).items()} == {
        f"ask#{n}": 10 * n for n in range(1, 6)
    }


def test_it_is_for_bodies_only(hf: Any, act: Any) -> None:
    with pytest.raises(BadInput, match="only inside the body"):
        measure(pages=1)
    with pytest.raises(BadInput, match="only inside the body"):
        hf.run(act(lambda: measure(pages=1)))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"usd": 0.1}, "a Decimal"),
        ({"usd": 1}, "a Decimal"),
        ({"usd": Decimal(-1)}, "not less than 0"),
        ({"usd": Decimal("NaN")}, "finite"),
        ({"input_tokens": -1}, "not less than 0"),
        ({"input_tokens": 1.5}, "whole number"),
        ({"output_tokens": True}, "whole number"),
        ({"pages": 1.5}, "Decimal"),
        ({"pages": "many"}, "whole number"),
        ({"model": 7}, "must be text"),
    ],
)
def test_amounts_are_exact_and_not_negative(hf: Any, act: Any, wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        hf.with_id("x").run(act(lambda: step(name="odd")(lambda: measure(**wrong))()))
    assert "StepMeasured" not in events(hf)


def test_a_fork_has_not_used_what_the_other_run_used(hf: Any, act: Any) -> None:
    def plot() -> None:
        ask()
        ask(2)

    hf.with_id("x").run(act(plot))
    hf.fork("x", "ask#2", "y")
    assert used(hf, "y") == {"ask#1": ()}
    assert hf.stats().measured == (Measured("small", 30, 15, Decimal("0.03")),)
    hf.resume("y").result(30)
    assert hf.stats().measured == (Measured("small", 50, 25, Decimal("0.05")),)


def test_a_rewind_gives_nothing_back(hf: Any, act: Any) -> None:
    def plot() -> None:
        ask()
        ask(2)

    hf.with_id("x").run(act(plot))
    hf.rewind("x", "ask#1")
    assert used(hf) == {"ask#1": (ONE,)}
    assert hf.stats().measured == (Measured("small", 30, 15, Decimal("0.03")),)
    hf.resume("x").result(30)
    assert hf.stats().measured == (Measured("small", 50, 25, Decimal("0.05")),)


SCRIPT = """
    from decimal import Decimal
    from holdfast import Holdfast, measure, step, workflow
    from holdfast.testing.crash import mark
    import time

    @step
    def ask() -> None:
        measure(model="small", input_tokens=10, output_tokens=5, usd=Decimal("0.01"))
        while "StepMeasured" not in [event.type for event in hf.events("x")]:
            time.sleep(0.01)
        mark("measured")

    @step
    def end() -> None: ...

    @workflow
    def spend() -> None:
        ask()
        end()

    with Holdfast() as hf:
        hf.with_id("x").run(spend)
"""


def test_a_killed_attempt_has_used_what_it_had_used(lab: Any, open_hf: Any) -> None:
    """SIGKILL in the body: the flushed measure stays in the log, and the next attempt adds its own."""
    crash = lab(SCRIPT)
    assert crash.run(kill=at_mark("measured")).killed
    done = crash.run()
    assert done.exit_code == 0, done.stderr
    assert used(open_hf())["ask#1"] == (ONE.plus(ONE),)


FAST = """
    from decimal import Decimal
    from holdfast import Holdfast, measure, step, workflow
    from holdfast.testing.crash import mark

    @step
    def ask() -> None:
        mark("ran")
        measure(model="small", input_tokens=10, output_tokens=5, usd=Decimal("0.01"))

    @workflow
    def spend() -> None:
        for _ in range(3):
            ask()

    with Holdfast() as hf:
        hf.with_id("x").run(spend)
"""


@pytest.mark.parametrize("nth", range(1, 6))
def test_a_result_and_what_it_took_are_one_commit(lab: Any, open_hf: Any, nth: int) -> None:
    """SIGKILL before each append: a step that is recorded has its measure, once."""
    crash = lab(FAST)
    crash.run(kill=before_append(nth))
    done = crash.run()
    assert done.exit_code == 0, done.stderr
    found = used(open_hf())
    assert set(found) == {"ask#1", "ask#2", "ask#3"}
    total = sum(one[0].input_tokens for one in found.values())
    assert 30 <= total <= 10 * crash.marks().count("ran")
    assert all(one[0].input_tokens >= 10 for one in found.values())


def test_a_secret_in_the_name_of_a_model_is_not_recorded(hf: Any, act: Any) -> None:
    """As the log has it, not only as it is shown."""
    token = "ghp_" + "a1B2" * 9

    @step
    def leak() -> None:
        measure(model=f"small {token}", input_tokens=1)

    hf.with_id("x").run(act(leak))
    (payload,) = [one.payload for one in hf._store.entries("x", type="StepMeasured")]
    assert "small [redacted" in payload and token not in payload
