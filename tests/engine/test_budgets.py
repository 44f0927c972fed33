"""The governor: what is reserved before a step, settled with it, refused, and charged after a crash."""

from __future__ import annotations

import asyncio
import threading
import warnings
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from holdfast import (
    NOT_DONE,
    Amounts,
    BudgetReached,
    Retry,
    RunCancelled,
    RunPaused,
    StepTimeout,
    budget,
    command,
    gather,
    measure,
    parallel,
    plans,
    step,
    timeout,
    workflow,
)
from holdfast.agents.governor import Governor
from holdfast.agents.governor.budgets import Budgets
from holdfast.engine.execution.reserving import Paying
from holdfast.errors import BadInput, DetachedStep, NotFound
from holdfast.kernel.budget import BudgetReserved, stream_of
from holdfast.serving.protocol import error_fields, error_of
from holdfast.testing import FakeClock
from holdfast.testing.crash import at_mark, before_append

CENT = Decimal("0.01")


def spend(cents: int = 2) -> None:
    measure(model="small", input_tokens=10, output_tokens=5, usd=cents * CENT)


@step(reserve=Amounts(usd="0.05", tokens=100))
def ask(question: str = "?") -> str:
    spend()
    return question.upper()


@step(reserve=Amounts(usd="0.05", tokens=100))
async def aask(question: str = "?") -> str:
    spend()
    await asyncio.sleep(0)
    return question.upper()


def spent(hf: Any, name: str = "default") -> tuple[Any, Any, Any]:
    """Money, tokens and steps that are spent, where nothing is reserved any more."""
    found = hf.budgets.get(name)
    assert found.reservations == ()
    return found.spent.usd, found.spent.tokens, found.spent.steps


def reserved(hf: Any, name: str = "default") -> list[tuple[str, int]]:
    """The name and the attempt of everything that was ever reserved."""
    events = [one.event for one in hf._store.load(stream_of(name))]
    return [(event.id, event.attempt) for event in events if isinstance(event, BudgetReserved)]


def left_by(hf: Any, owner: str, *, attempt: int, generation: int) -> None:
    """Reserve for this attempt of `ask#1` of run x, as an execution did that was over before it began."""
    asked = BudgetReserved("left", "x", "ask#1", attempt, Amounts(usd="0.05"), generation, owner, 1)
    Budgets(hf._store, hf._engine.clock).reserve(asked, Paying("default"))


# Reserve, settle


@pytest.mark.parametrize("colour", ["def", "async", "aio"])
def test_a_step_settles_what_it_measured(hf: Any, act: Any, colour: str) -> None:
    """What was measured is spent, and nothing stays reserved."""

    def plot() -> str:
        return ask("kelp")

    async def aplot() -> str:
        return await (aask("kelp") if colour == "async" else ask.aio("kelp"))

    assert hf.run(act(plot if colour == "def" else aplot)) == "KELP"
    assert spent(hf) == (2 * CENT, 15, 1)


@pytest.mark.parametrize("colour", ["def", "async"])
def test_reserved_before_the_intent_and_settled_with_the_result(hf: Any, act: Any, colour: str) -> None:
    """The order of the log is reservation, intent, result; the settlement is in the commit of the result, and
    the intent waits for the disk."""
    seen: list[tuple[Any, ...]] = []
    store = hf._engine.store
    append, append_soon, command_all = store.append, store.append_soon, store.command_all

    def note(item: Any) -> None:
        seen.append(([e.type for e in item.events], [one.source.stream for one in item.also], item.durable))

    def noting(item: Any) -> None:
        append(item)
        note(item)

    def noting_soon(item: Any, done: Any) -> None:
        append_soon(item, lambda item: (note(item), done(item)))

    def noting_all(sources: Any, decide: Any, **how: Any) -> Any:
        seen.append(([source.stream for source in sources],))
        return command_all(sources, decide, **how)

    store.append, store.append_soon, store.command_all = noting, noting_soon, noting_all
    hf.budgets.set("all")
    hf.budgets.set("team", parent="all")
    seen.clear()

    async def aplot() -> str:
        return await aask()

    hf.with_budget("team").with_id("x").run(act(ask if colour == "def" else aplot))
    kinds = [one for one in seen if "@budget/team" in one[0] or "StepStarted" in one[0] or one[1:2] != ([],)]
    assert kinds == [
        (["@budget/team", "@budget/all"],),
        (["StepStarted"], [], True),
        (["StepMeasured", "StepCompleted"], ["@budget/team", "@budget/all"], True),
    ]
    assert [e.type for e in hf._store.entries("@budget/all")] == [
        "BudgetSet", "BudgetReserved", "BudgetSettled",
    ]  # fmt: skip


def test_only_a_step_that_reserves_leaves_the_straight_path() -> None:
    """Without `reserve` nothing is between a call and its body."""
    plain = step(name="plain")(lambda: 1)
    assert (plain.spec.straight, ask.spec.straight, aask.spec.straight) == (True, False, False)


def test_what_is_not_measured_is_charged_as_reserved(hf: Any, act: Any) -> None:
    """A body that says nothing has used what it reserved; one that measured 0 has used nothing."""

    @step(reserve=Amounts(usd="0.05", tokens=100))
    def silent() -> None:
        measure(pages=3)

    @step(reserve=Amounts(usd="0.05", tokens=100))
    def free() -> None:
        measure(usd=Decimal(0))

    hf.run(act(silent))
    assert spent(hf) == (5 * CENT, 100, 1)
    hf.run(act(free))
    assert spent(hf) == (5 * CENT, 100, 2)


def test_a_failed_attempt_settles_what_it_measured_or_all(hf: Any, act: Any, ran: list[int]) -> None:
    """Each attempt has a reservation of its own: the first measured 2 cents, the second nothing."""

    @step(reserve=Amounts(usd="0.05"), retry=Retry(attempts=3, initial=0.0))
    def flaky() -> str:
        ran.append(1)
        if len(ran) == 1:
            spend()
        if len(ran) < 3:
            raise OSError("again")
        spend(1)
        return "done"

    assert hf.with_id("x").run(act(flaky)) == "done"
    assert spent(hf) == (8 * CENT, 30, 3)
    assert reserved(hf) == [("x:0:flaky#1:1", 1), ("x:0:flaky#1:2", 2), ("x:0:flaky#1:3", 3)]


def test_an_unknown_price_counts_tokens_and_is_said(hf: Any, act: Any) -> None:
    """Money is charged as reserved then, if some was, and the budget says how often a price was unknown."""

    @step(reserve=Amounts(usd="0.05", tokens=100))
    def unpriced() -> None:
        measure(model="new", input_tokens=7)

    @step(reserve=Amounts(tokens=100))
    def unpriced_and_unreserved() -> None:
        measure(model="new", input_tokens=7)

    hf.run(act(unpriced))
    assert (spent(hf), hf.budgets.get("default").unknown) == ((5 * CENT, 7, 1), 1)
    hf.run(act(unpriced_and_unreserved))
    assert (spent(hf), hf.budgets.get("default").unknown) == ((5 * CENT, 14, 2), 2)


def test_more_than_was_reserved_is_recorded_and_stops_the_next(hf: Any, act: Any) -> None:
    """A settlement is never refused: it says what has happened."""
    hf.budgets.set("default", usd="0.05")

    @step(reserve=Amounts(usd="0.05"))
    def dear() -> None:
        spend(9)

    with pytest.raises(BudgetReached):
        hf.run(act(lambda: [dear() for _ in range(2)]))
    assert spent(hf)[0] == 9 * CENT


def test_seconds_and_steps_are_metered_without_being_named(hf: Any, open_hf: Any, act: Any) -> None:
    """An attempt is a step and takes seconds; what a reservation does not name is refused when nothing is
    left."""
    hf.budgets.set("default", steps=2, seconds=100)

    @step(reserve=Amounts())
    def plain() -> None: ...

    with pytest.raises(BudgetReached, match="plain#3 needs 1 step; of its 2, 2 are spent"):
        hf.run(act(lambda: [plain() for _ in range(3)]))
    hf.budgets.set("default", steps="none", seconds=0)
    with pytest.raises(BudgetReached, match=r"needs more seconds; of its 0, .* --seconds VALUE` raises it"):
        hf.run(act(plain))


def test_a_command_reserves_and_measures_by_its_lines(hf: Any, act: Any) -> None:
    """`on_line` can measure what a program prints of its cost."""

    def plot() -> int:
        def read(line: str) -> None:
            measure(usd=Decimal(line.split()[1]))

        return command(
            ["echo", "cost 0.03"], effect="idempotent", on_line=read, reserve=Amounts(usd="0.50")
        ).exit_code

    assert hf.run(act(plot)) == 0
    assert spent(hf)[0] == 3 * CENT


# Refused


@pytest.mark.parametrize("colour", ["def", "async"])
def test_at_the_limit_the_run_is_paused(hf: Any, act: Any, ran: list[Any], colour: str) -> None:
    """The step that does not fit does not begin; after a raise, `resume` tries it and repeats nothing."""
    hf.budgets.set("team", usd="0.08")

    @step(reserve=Amounts(usd="0.05"))
    def note(n: int) -> int:
        ran.append(n)
        spend()
        return n

    def plot() -> list[int]:
        return [note(n) for n in range(3)]

    async def aplot() -> list[int]:
        return [await note.aio(n) for n in range(3)]

    chosen = act(plot if colour == "def" else aplot)
    with pytest.raises(BudgetReached) as refused:
        hf.with_budget("team").with_id("x").run(chosen)
    error = refused.value
    assert (error.budget, error.unit, error.limit, error.spent, error.reserved, error.needed) == (
        "team", "usd", "0.08", "0.04", "0", "0.05",
    )  # fmt: skip
    assert str(error) == (
        "run x is paused: budget team is reached: note#3 needs 0.05 usd; of its 0.08, 0.04 are spent and 0 "
        "reserved; `holdfast budget raise team --usd 0.01` raises it; `holdfast resume x` continues"
    )
    assert [way.shell() for way in error.ways] == [
        "holdfast resume x",
        "holdfast budget raise team --usd 0.01",
    ]
    assert (hf.get("x").status, ran) == ("paused", [0, 1])
    hf.budgets.raise_("team", usd="0.01")
    assert hf.resume("x").result() == [0, 1, 2]
    assert ran == [0, 1, 2]
    assert spent(hf, "team")[0] == 6 * CENT


def test_a_budget_of_zero_lets_nothing_begin(hf: Any, act: Any, ran: list[Any]) -> None:
    """The first reservation is refused with the same sentence."""
    hf.budgets.set("default", usd=0)

    @step(reserve=Amounts(usd="0.05"))
    def note() -> None:
        ran.append(1)

    with pytest.raises(BudgetReached, match=r"needs 0.05 usd; of its 0, 0 are spent and 0 reserved"):
        hf.run(act(note))
    assert ran == []


@pytest.mark.parametrize("colour", ["def", "async"])
def test_a_fan_out_at_the_limit_lets_what_runs_end(hf: Any, act: Any, ran: list[int], colour: str) -> None:
    """Siblings in flight are recorded; after `budget raise` and `resume` nothing has run twice."""
    hf.budgets.set("team", usd="0.20")

    @step(reserve=Amounts(usd="0.05"))
    def note(n: int) -> int:
        ran.append(n)
        spend(5)
        return n

    def plot() -> list[int]:
        return parallel(note, range(10), limit=4)

    async def aplot() -> list[int]:
        return await gather(*(note.aio(n) for n in range(10)))

    with pytest.raises(BudgetReached):
        hf.with_budget("team").with_id("x").run(act(plot if colour == "def" else aplot))
    assert len(ran) == 4
    assert spent(hf, "team") == (20 * CENT, 60, 4)
    assert sorted(one.status for one in hf.steps("x")) == ["completed"] * 4
    hf.budgets.raise_("team", usd="0.30")
    assert hf.resume("x").result() == list(range(10))
    assert sorted(ran) == list(range(10))
    assert spent(hf, "team") == (50 * CENT, 150, 10)


def test_a_parent_refuses_and_nothing_is_reserved(hf: Any, act: Any) -> None:
    """One transaction over the chain: what the parent refuses, the child has not reserved either."""
    hf.budgets.set("all", usd="0.06")
    hf.budgets.set("team", usd="5", parent="all")
    hf.budgets.set("ann", parent="team")
    with pytest.raises(
        BudgetReached, match=r"budget all is reached: ask#2 needs 0.05 usd; of its 0.06, 0.02"
    ):
        hf.with_budget("ann").run(act(lambda: [ask(), ask()]))
    for name in ("ann", "team", "all"):
        assert spent(hf, name) == (2 * CENT, 15, 1)


def test_a_parent_that_another_process_has_changed_is_the_one_that_pays(open_hf: Any, act: Any) -> None:
    """What this process knows of the chain is older than the log."""
    first, second = open_hf(), open_hf()
    first.budgets.set("old")
    first.budgets.set("new")
    first.budgets.set("team", parent="old")
    first.with_budget("team").run(act(lambda: ask()))
    second.budgets.set("team", parent="new")
    first.with_budget("team").run(act(lambda: ask()))
    assert [spent(first, name)[2] for name in ("team", "old", "new")] == [2, 1, 1]


def test_a_budget_that_was_never_set_pauses_the_run(hf: Any, act: Any) -> None:
    """A name that is spelt wrong is no way around a limit."""
    with pytest.raises(RunPaused, match="budget taem, which is not set; `holdfast budget set taem"):
        hf.with_budget("taem").with_id("x").run(act(ask))
    hf.budgets.set("taem")
    assert hf.resume("x").result() == "?"


def test_a_child_run_that_is_refused_pauses_its_parent(hf: Any, act: Any) -> None:
    """The error names the budget, and the run to resume is the parent."""
    hf.budgets.set("team", usd="0.04")
    child = act(lambda: ask("kelp"), "child")
    with pytest.raises(BudgetReached, match="run x is paused: budget team is reached") as refused:
        hf.with_budget("team").with_id("x").run(act(lambda: child()))
    assert refused.value.ways[0].shell() == "holdfast resume x"
    hf.budgets.raise_("team", usd="1")
    assert hf.resume("x").result() == "KELP"
    assert spent(hf, "team")[0] == 2 * CENT


# Which budget pays


def test_the_nearest_budget_pays(hf: Any, act: Any) -> None:
    """The amounts' own, else the scope's, else the run's; branches and child runs inherit that of the
    scope."""
    for name in ("run", "scope", "own"):
        hf.budgets.set(name)

    @step(reserve=Amounts(budget="own"))
    def own() -> None: ...

    @step(reserve=Amounts())
    def note(n: int = 0) -> None: ...

    child = act(note, "child")

    def plot() -> None:
        note()
        with budget("scope"):
            own()
            parallel(note, range(2))
            parallel(lambda n: note(n), range(2))
            child()
        note()

    hf.with_budget("run").run(act(plot))
    assert {name: spent(hf, name)[2] for name in ("run", "scope", "own")} == {"run": 2, "scope": 5, "own": 1}


async def _noted(note: Any, n: int) -> None:
    await note.aio(n)


def test_tasks_inherit_the_budget_of_the_scope(hf: Any, act: Any) -> None:
    """A call belongs to the scope that makes it, wherever it is awaited."""
    hf.budgets.set("scope")

    @step(reserve=Amounts())
    def note(n: int = 0) -> None: ...

    async def plot() -> None:
        with budget("scope"):
            called = note.aio(0)
            task = asyncio.create_task(_noted(note, 1))
        await called
        await task
        await note.aio(2)

    hf.run(act(plot))
    assert (spent(hf, "scope")[2], spent(hf)[2]) == (2, 1)


def test_the_run_keeps_its_budget(open_hf: Any, act: Any, crashes: Any) -> None:
    """It is recorded with the run: whoever resumes it need not know."""
    first = open_hf()
    first.budgets.set("team", usd=0)
    with pytest.raises(BudgetReached):
        first.with_budget("team").with_id("x").run(act(ask))
    first.close()
    second = open_hf()
    second.budgets.raise_("team", usd=1)
    assert second.resume("x").result() == "?"
    assert spent(second, "team")[2] == 1
    assert second.get("x").to_json()["budget"] == "team"
    assert second.get("x").to_json()["spent"][0]["usd"] == "0.02"


def test_a_function_of_the_arguments_says_what_is_needed(hf: Any, act: Any) -> None:
    """It gets the arguments of the step; if it raises, that is the failure of the step, once and for all."""

    @step(reserve=lambda words: Amounts(usd=CENT * len(words)))
    def write(words: str) -> None: ...

    hf.run(act(lambda: write("kelp")))
    assert spent(hf)[0] == 4 * CENT

    @step(reserve=lambda: Amounts(usd=0.05))  # type: ignore[arg-type]
    def inexact() -> None: ...

    @step(reserve=lambda: 5)  # type: ignore[arg-type, return-value]
    def other() -> None: ...

    with pytest.raises(BadInput, match=r"reserve= of step other returned 5: return Amounts\(...\)"):
        hf.run(act(other))
    with pytest.raises(BadInput, match=r"usd=0.05: text or a Decimal"):
        hf.with_id("x").run(act(inexact))
    assert [(one.key, one.status) for one in hf.steps("x")] == [("inexact#1", "failed")]
    assert spent(hf)[2] == 1


@pytest.mark.parametrize("wrong", [{"reserve": 5}, {"reserve": Amounts(), "secret": True}])
def test_what_no_step_can_reserve_is_refused(wrong: dict[str, Any]) -> None:
    """At the decorator, not at the first call."""
    with pytest.raises(BadInput, match="reserve"):
        step(**wrong)(lambda: None)


def test_an_attempt_that_took_too_long_is_charged_at_least_as_reserved(hf: Any, act: Any) -> None:
    """It had measured one request; what became of the other, which was in flight, is not known."""
    ended = threading.Event()

    @step(reserve=Amounts(usd="0.50", tokens=100), timeout=0.05)
    def two(cents: int) -> None:
        spend(cents)
        ended.wait(30)

    def plot() -> None:
        for cents in (2, 60):
            with pytest.raises(StepTimeout):
                two(cents)

    hf.run(act(plot))
    ended.set()
    assert spent(hf) == (110 * CENT, 200, 2)


@pytest.mark.parametrize("colour", ["def", "async"])
def test_a_step_that_reserves_is_not_called_in_a_body(hf: Any, act: Any, colour: str) -> None:
    """It would spend without a budget there."""

    @step
    def body() -> None:
        ask()

    @step
    async def abody() -> None:
        await aask()

    async def aplot() -> None:
        await abody()

    hf.budgets.set("default", usd=0)
    with pytest.raises(BadInput, match="reserves what it costs"):
        hf.run(act(body if colour == "def" else aplot))


def test_a_step_that_reserves_is_not_called_on_a_bare_thread(hf: Any, act: Any) -> None:
    """While a run is executed, it would spend beside every budget."""
    found: list[Any] = []

    def call() -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found.append(ask())
        except DetachedStep as error:
            found.append(type(error))

    def plot() -> None:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    hf.run(act(plot))
    assert found == [DetachedStep]


# Crashes

KILLED = """
    from decimal import Decimal
    from holdfast import Amounts, Holdfast, measure, step, workflow
    from holdfast.testing.crash import mark

    @step(reserve=Amounts(usd="0.05", tokens=100))
    def ask() -> str:
        mark("in flight")
        measure(model="small", input_tokens=10, usd=Decimal("0.02"))
        return "done"

    @workflow
    def job() -> str:
        return ask()

    if __name__ == "__main__":
        with Holdfast() as hf:
            hf.with_id("x").run(job)
"""


def test_an_attempt_that_was_cut_off_is_charged_in_full_once(lab: Any, home: Any, open_hf: Any) -> None:
    """kill -9 while the request is in flight, twice: each is charged as reserved, and the third as
    measured."""
    job = lab(KILLED)
    assert job.run(kill=at_mark("in flight")).killed
    assert job.run(kill=at_mark("in flight")).killed
    assert job.run().exit_code == 0
    assert spent(open_hf()) == (12 * CENT, 210, 3)


def test_a_reservation_whose_attempt_never_began_is_released(lab: Any, open_hf: Any) -> None:
    """Killed between the reservation and the intent: nothing was requested, and nothing is charged for it."""
    job = lab(KILLED)
    assert job.run(kill=before_append(1)).killed
    hf = open_hf()
    held = hf.budgets.get("default").reservations
    assert [(one.step, one.attempt) for one in held] == [("ask#1", 1)]
    hf.close()
    assert job.run().exit_code == 0
    assert spent(open_hf()) == (2 * CENT, 10, 1)


def test_a_reservation_that_was_never_begun_does_not_stay_in_another_parent(lab: Any, open_hf: Any) -> None:
    """The budget has another parent when the attempt is resumed: the old one holds nothing for it."""
    hf = open_hf()
    hf.budgets.set("old")
    hf.budgets.set("new")
    hf.budgets.set("default", parent="old")
    hf.close()
    job = lab(KILLED)
    assert job.run(kill=before_append(1)).killed
    hf = open_hf()
    assert hf.budgets.get("old").reserved.usd == 5 * CENT
    hf.budgets.set("default", parent="new")
    hf.close()
    assert job.run().exit_code == 0
    hf = open_hf()
    assert spent(hf, "new") == (2 * CENT, 10, 1)
    assert spent(hf, "old") == (0, 0, 0)


def test_what_a_dead_process_holds_is_charged_when_others_need_it(lab: Any, open_hf: Any, act: Any) -> None:
    """Its run is never resumed. Whoever is refused because of it settles it first."""
    assert lab(KILLED).run(kill=at_mark("in flight")).killed
    hf = open_hf()
    hf.budgets.set("default", usd="0.10")
    assert hf.run(act(lambda: ask())) == "?"
    assert hf.budgets.get("default").reserved.usd == 5 * CENT
    with pytest.raises(BudgetReached, match=r"of its 0.10, 0.07 are spent and 0 reserved"):
        hf.run(act(lambda: ask()))
    assert spent(hf) == (7 * CENT, 115, 2)


def test_an_audit_names_a_damaged_settlement(hf: Any, act: Any) -> None:
    """A sum that is no number any more does not end the audit: the hash of the event is wrong."""
    hf.run(act(lambda: ask()))
    db = apsw.Connection(str(hf.home / "holdfast.db"))
    db.execute("""UPDATE events SET payload = replace(payload, '"usd":"0.0', '"usd":"0x0')""")
    db.close()
    faults = list(hf._store.verify())
    assert "@budget/default" in {one.stream for one in faults}


def test_what_the_log_has_of_a_cut_off_attempt_is_charged_if_it_is_more(hf: Any, act: Any) -> None:
    """The attempt had measured more than it reserved when it was interrupted."""

    @step(reserve=Amounts(usd="0.05", tokens=100))
    def long() -> None:
        spend(9)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hf.run(act(long))
    hf.budgets.set("default", usd="0.08")
    with pytest.raises(BudgetReached):
        hf.run(act(lambda: ask()))
    assert spent(hf) == (9 * CENT, 100, 1)


def test_what_a_cancelled_run_holds_is_charged_in_full(lab: Any, open_hf: Any) -> None:
    """`cancel` of a run that was killed leaves nothing reserved."""
    assert lab(KILLED).run(kill=at_mark("in flight")).killed
    hf = open_hf()
    assert hf.budgets.get("default").reserved.usd == 5 * CENT
    hf.cancel("x")
    assert not hf.budgets.get("default").reserved.usd
    assert spent(hf) == (5 * CENT, 100, 1)


_in_flight = threading.Event()


@step(reserve=Amounts(usd="0.05"))
async def never_answered() -> None:
    _in_flight.set()
    await asyncio.Event().wait()


@workflow
async def asks_in_vain() -> None:
    await never_answered()


def test_what_a_run_holds_that_is_cancelled_at_work_is_charged_in_full(hf: Any) -> None:
    """The request of an async step is cut off by `cancel`, and may have been billed."""
    _in_flight.clear()
    run = hf.with_id("x").start(asks_in_vain)
    assert _in_flight.wait(30)
    assert hf.cancel("x") == "cancelled"
    with pytest.raises(RunCancelled):
        run.result()
    assert not hf.budgets.get("default").reserved.usd
    assert spent(hf)[0] == 5 * CENT


def test_how_long_a_cut_off_attempt_took_is_charged_as_reserved(hf: Any, act: Any) -> None:
    """Nobody measured it. A price that was unknown is counted as such."""

    @step(reserve=Amounts(usd="0.05", seconds=9))
    def long() -> None:
        measure(model="new", input_tokens=10)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hf.run(act(long))
    hf.budgets.set("default", usd="0.08")
    with pytest.raises(BudgetReached):
        hf.run(act(lambda: ask()))
    found = hf.budgets.get("default")
    assert (found.spent.seconds, found.unknown) == (9, 1)


@pytest.mark.parametrize(("attempt", "generation"), [(2, 0), (1, 1)])
def test_what_was_reserved_for_another_attempt_is_not_charged(
    hf: Any, act: Any, attempt: int, generation: int
) -> None:
    """An earlier attempt of the step has begun, or the same one before a rewind: this one has not."""
    hf.with_id("x").run(act(lambda: ask()))
    left_by(hf, "gone", attempt=attempt, generation=generation)
    hf.budgets.set("default", usd="0.07")
    assert hf.run(act(lambda: ask())) == "?"
    assert spent(hf) == (4 * CENT, 30, 2)


def test_a_resumed_run_ends_what_it_left_and_nothing_else(hf: Any, act: Any) -> None:
    """Another run has a request in flight in the same budget, reserved by an earlier epoch than the run's."""
    begun: list[Any] = []

    @step(reserve=Amounts(usd="0.03"))
    def cut() -> None:
        begun.append(1)
        if len(begun) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hf.with_id("cut").run(act(lambda: cut(), "child"))

    @step(reserve=Amounts(usd="0.05"))
    def slow() -> None:
        hf.resume("cut").result()
        begun.append([one.step for one in hf.budgets.get("default").reservations])
        spend()

    hf.with_id("slow").run(act(slow))
    assert begun == [1, 1, ["slow#1"]]
    assert spent(hf)[0] == 8 * CENT


def test_what_an_earlier_execution_of_a_live_run_holds_is_not_in_use(open_hf: Any, act: Any) -> None:
    """The process that reserved is alive and executes the run again: what another run needs is released."""
    first, second = open_hf(), open_hf()
    done: list[Any] = []

    @step
    def prepare() -> None:
        if done:
            done.append(second.run(act(lambda: ask(), "child")))
            return
        done.append("interrupted")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first.with_id("x").run(act(prepare))
    left_by(first, first._engine.owner_id, attempt=1, generation=0)
    first.budgets.set("default", usd="0.07")
    first.resume("x").result()
    assert done == ["interrupted", "?"]
    assert spent(first) == (2 * CENT, 15, 1)


def test_what_a_deleted_run_holds_is_charged_in_full(lab: Any, open_hf: Any, act: Any) -> None:
    """Deleting a run gives nothing back, and leaves nothing reserved for ever."""
    assert lab(KILLED).run(kill=at_mark("in flight")).killed
    hf = open_hf()
    hf.cancel("x")
    hf.delete("x")
    hf.budgets.set("default", usd="0.08")
    with pytest.raises(BudgetReached):
        hf.run(act(lambda: ask()))
    assert spent(hf) == (5 * CENT, 100, 1)


def test_what_a_live_process_holds_is_left_alone(open_hf: Any, act: Any) -> None:
    """Another Holdfast is refused while the request of the first is in flight."""
    first, second = open_hf(), open_hf()
    first.budgets.set("default", usd="0.08")
    refused: list[str] = []

    @step(reserve=Amounts(usd="0.05"))
    def slow() -> None:
        with pytest.raises(BudgetReached) as error:
            second.run(act(lambda: ask(), "child"))
        refused.append(error.value.reserved)

    first.run(act(slow))
    assert refused == ["0.05"]


def test_a_rewind_refunds_nothing(hf: Any, act: Any) -> None:
    """Money spent stays spent, and the step that runs again is charged again."""
    from holdfast import checkpoint

    def plot() -> str:
        checkpoint("before")
        return ask()

    hf.with_id("x").run(act(plot))
    hf.rewind("x", to="before")
    assert spent(hf) == (2 * CENT, 15, 1)
    hf.resume("x").result()
    assert spent(hf) == (4 * CENT, 30, 2)
    assert reserved(hf) == [("x:0:ask#1:1", 1), ("x:1:ask#1:1", 1)]


def test_a_failed_once_step_settles_before_it_is_tried_again(hf: Any, act: Any, ran: list[int]) -> None:
    """Its verify hook says that it did not happen: the attempt is charged all the same."""

    @step(
        effect="once",
        verify=lambda: NOT_DONE,
        retry=Retry(attempts=2, initial=0.0),
        reserve=Amounts(usd="0.05"),
    )
    def send() -> str:
        ran.append(1)
        if len(ran) == 1:
            raise OSError("again")
        spend()
        return "sent"

    assert hf.run(act(send)) == "sent"
    assert spent(hf) == (7 * CENT, 15, 2)


def test_a_step_after_its_deadline_reserves_nothing(open_hf: Any, act: Any) -> None:
    """No body begins, so nothing is spent."""
    clock = FakeClock()
    hf = open_hf(clock=clock)

    def plot() -> None:
        with timeout(5):
            clock.advance(10)
            ask()

    with pytest.raises(StepTimeout):
        hf.run(act(plot))
    assert hf.budgets.list() == []


# Limits


def test_set_changes_what_is_given_and_leaves_the_rest(hf: Any) -> None:
    """`none` removes a limit or the parent; setting the same again writes nothing."""
    hf.budgets.set("all")
    hf.budgets.set("team", usd="5.50", tokens=1000, parent="all")
    found = hf.budgets.set("team", usd=6, tokens="none")
    assert (found.limits, found.parent) == (Amounts(6), "all")
    assert found.left == Amounts(6)
    version = hf._store.budget("team").version
    hf.budgets.set("team", usd="6")
    assert hf._store.budget("team").version == version
    assert hf.budgets.set("team", parent="none").parent == ""
    assert [one.name for one in hf.budgets.list()] == ["all", "team"]


def test_a_budget_cannot_be_below_itself(hf: Any, open_hf: Any) -> None:
    """The cycle is named, also if another process has made half of it."""
    for name, parent in (("a", None), ("b", "a"), ("c", "b")):
        open_hf().budgets.set(name, parent=parent)
    with pytest.raises(BadInput, match="a budget cannot be its own parent: a → c → b → a"):
        hf.budgets.set("a", parent="c")
    with pytest.raises(BadInput, match="a budget cannot be its own parent: a → a"):
        hf.budgets.set("a", parent="a")
    open_hf().budgets.set("c", parent="none")
    assert hf.budgets.set("a", parent="c").parent == "c"


def test_a_cycle_that_two_processes_make_at_once(open_hf: Any) -> None:
    """The second sets its half after the first has looked at the parents, and before it writes."""
    first, second = open_hf(), open_hf()
    first.budgets.set("a")
    first.budgets.set("b")
    store = first._engine.store
    command_all = store.command_all

    def late(*given: Any, **how: Any) -> Any:
        store.command_all = command_all
        second.budgets.set("b", parent="a")
        return command_all(*given, **how)

    store.command_all = late
    with pytest.raises(BadInput, match="cannot be its own parent: a → b → a"):
        first.budgets.set("a", parent="b")
    assert [first.budgets.get(name).parent for name in ("a", "b")] == ["", "a"]


def test_wrong_limits_are_refused_with_a_sentence(hf: Any) -> None:
    """Nothing is written."""
    hf.budgets.set("team", usd=1, steps=1)
    for error, says, call in (
        (NotFound, "no budget 'taem'; did you mean team", lambda: hf.budgets.raise_("taem", usd=1)),
        (NotFound, "no budget 'x'", lambda: hf.budgets.set("team", parent="x")),
        (NotFound, "no budget 'x'", lambda: hf.budgets.get("x")),
        (BadInput, "has no limit of tokens", lambda: hf.budgets.raise_("team", tokens=1)),
        (BadInput, "raise budget team by what", lambda: hf.budgets.raise_("team")),
        *(
            (BadInput, "raise budget team by what", partial(hf.budgets.raise_, "team", **nothing))
            for nothing in ({"usd": 0}, {"usd": "0.00"}, {"steps": "0"}, {"usd": 1, "steps": 0})
        ),
        (BadInput, "usd=-1: not less than 0", lambda: hf.budgets.raise_("team", usd="-1")),
        (BadInput, "steps=-1: a whole number, not less than 0", lambda: hf.budgets.raise_("team", steps=-1)),
        (BadInput, "floats are not exact", lambda: hf.budgets.set("team", usd=0.1)),
        (BadInput, "not less than 0", lambda: hf.budgets.set("team", usd="-1")),
        (BadInput, "a number such as", lambda: hf.budgets.set("team", usd="much")),
        (BadInput, "a whole number", lambda: hf.budgets.set("team", tokens="1.5")),
        (BadInput, "cannot be a budget's name", lambda: hf.budgets.set("a b")),
        (BadInput, "cannot be a budget's name", lambda: hf.budgets.set("none")),
    ):
        with pytest.raises(error, match=says):
            call()
    assert [(one.name, one.limits) for one in hf.budgets.list()] == [("team", Amounts(1, steps=1))]


def test_a_raise_by_a_step_that_runs_again_counts_once(open_hf: Any, act: Any, crashes: Any) -> None:
    """The step died after it had raised, before its result was recorded."""
    first = open_hf()
    first.budgets.set("team", usd=1)
    plot = act(lambda: str(first.budgets.raise_("team", usd=1).limits.usd))
    crashes.arm(first, 1)
    with pytest.raises(Exception, match="the process is dead"):
        first.with_id("x").run(plot)
    assert first.budgets.get("team").limits == Amounts(2)
    crashes.bury(first)
    second = open_hf()
    plot = act(lambda: str(second.budgets.raise_("team", usd=1).limits.usd))
    assert second.with_id("x").run(plot) == "2"


def test_a_programs_own_governor(open_hf: Any, act: Any) -> None:
    """`handlers` puts another one in the place of ours; what it raises as a pause pauses the run."""

    class Strict(Governor):
        def reserve(self, call: Any, amounts: Any, paying: Any) -> Any:
            raise RunPaused(call.execution.id, "not on a Sunday")

    hf = open_hf(handlers={"governor": Strict})
    with pytest.raises(RunPaused, match="not on a Sunday"):
        hf.run(act(ask))


# Plans, services, files


PLAN = """
name: p
budget: {steps: 2, usd: 0.1}
steps:
- {id: a, run: 'true', effect: idempotent}
- {id: b, python: 'tests.engine.plan_functions:names', needs: [a]}
- {id: c, run: 'true', effect: idempotent, needs: [b]}
"""


def test_the_budget_of_a_plan_limits_its_run(hf: Any) -> None:
    """Its own budget, a part of the run's; what a person has raised stays raised."""
    hf.budgets.set("team")
    with pytest.raises(BudgetReached, match=r"budget run:x is reached: c\[1\]/c#1 needs 1 step; of its 2"):
        hf.with_id("x").with_budget("team").run(plans.run_plan, plans.read(PLAN), {})
    found = hf.budgets.get("run:x")
    assert (found.parent, found.limits) == ("team", Amounts("0.1", steps=2))
    hf.budgets.raise_("run:x", steps=1)
    assert list(hf.resume("x").result()) == ["a", "b", "c"]
    assert (spent(hf, "run:x")[2], spent(hf, "team")[2]) == (3, 3)


def test_the_budget_of_a_plan_is_there_when_it_refuses_the_first_step(hf: Any) -> None:
    """It is set and a part of the run's, so the command that the error names raises it, and both count."""
    hf.budgets.set("team", steps=2)
    plan = plans.read(PLAN.replace("steps: 2, usd: 0.1", "steps: 0"))
    with pytest.raises(BudgetReached, match=r"budget run:x is reached: a\[1\]/a#1 needs 1 step; of its 0"):
        hf.with_id("x").with_budget("team").run(plans.run_plan, plan, {})
    found = hf.budgets.get("run:x")
    assert (found.parent, found.limits) == ("team", Amounts(steps=0))
    assert [one.shell() for one in hf.get("x").ways()] == [
        "holdfast budget raise run:x --steps 1",
        "holdfast resume x",
    ]
    hf.budgets.raise_("run:x", steps=5)
    with pytest.raises(BudgetReached, match="budget team is reached"):
        hf.resume("x").result()
    assert (spent(hf, "run:x")[2], spent(hf, "team")[2]) == (2, 2)


def test_a_budget_that_was_set_before_its_plan_is_a_part_of_the_runs(hf: Any) -> None:
    """`budget set run:ID` gives the limits; it cannot take the run out of the budget that it is started with.
    A parent that is removed after the plan has begun to spend stays removed."""
    hf.budgets.set("team", steps=1)
    hf.budgets.set("run:x", steps=5)
    with pytest.raises(BudgetReached, match="budget team is reached"):
        hf.with_id("x").with_budget("team").run(plans.run_plan, plans.read(PLAN), {})
    found = hf.budgets.get("run:x")
    assert (found.parent, found.limits) == ("team", Amounts(steps=5))
    hf.budgets.set("run:x", parent="none")
    hf.resume("x").result()
    assert (spent(hf, "run:x")[2], spent(hf, "team")[2]) == (3, 1)


def test_the_budget_of_a_plan_cannot_be_above_its_own_parent(hf: Any) -> None:
    """A budget that was set below `run:ID` cannot pay for that run: neither would end."""
    hf.budgets.set("run:x", steps=5)
    hf.budgets.set("team", parent="run:x")
    with pytest.raises(Exception, match="a budget cannot be its own parent: run:x → team → run:x"):
        hf.with_id("x").with_budget("team").run(plans.run_plan, plans.read(PLAN), {})
    assert hf.budgets.get("run:x").parent == ""


def test_a_plan_keeps_its_limits_in_a_run_with_limits_of_its_own(hf: Any, tmp_path: Path) -> None:
    """`deliver` with `max_usd` makes the budget `run:ID`; the plan's is below it, and both count."""
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN.replace("name: p", "name: p\ninput: {goal: }"))
    run = hf.deliver("g", plan=file, max_usd=Decimal(5), run_id="x")
    with pytest.raises(BudgetReached, match=r"budget plan:x is reached: c\[1\]/c#1 needs 1 step; of its 2"):
        run.result()
    assert hf.budgets.get("plan:x").parent == "run:x"
    assert (spent(hf, "plan:x")[2], spent(hf, "run:x")[2]) == (2, 2)


def test_a_limit_of_a_delivery_is_below_the_default_budget(hf: Any, tmp_path: Path) -> None:
    """Also if nobody has set that yet: what the run spends counts there, and a limit set later holds."""
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN.replace("name: p", "name: p\ninput: {goal: }").replace("steps: 2", "steps: 9"))
    assert hf.budgets.list() == []
    hf.deliver("g", plan=file, max_usd=Decimal(5), run_id="x").result()
    assert hf.budgets.get("run:x").parent == "default"
    assert (spent(hf, "run:x")[2], spent(hf, "default")[2]) == (3, 3)
    hf.budgets.set("default", steps=4)
    with pytest.raises(BudgetReached, match="budget default is reached"):
        hf.deliver("g", plan=file, max_usd=Decimal(5), run_id="y").result()


def test_a_sub_plan_is_paid_by_the_plan_around_it(hf: Any) -> None:
    """Its steps count there, too."""
    outer = plans.read(PLAN.replace("steps: 2", "steps: 9"))
    inner = plans.read(PLAN.replace("budget: {steps: 2, usd: 0.1}\n", ""))
    nested = msgspec.structs.replace(
        outer, steps=(msgspec.structs.replace(outer.steps[0], kind="plan", plan=inner, argv=()),)
    )
    hf.with_id("x").run(plans.run_plan, nested, {})
    assert spent(hf, "run:x")[2] == 3


def test_a_call_of_budgets_in_a_workflow_is_recorded(twice: Any, hf: Any) -> None:
    """A replay returns what the call returned, whatever the budget is by then."""
    live, replayed = twice(lambda: hf.budgets.set("team", usd="0.10", tokens=5))
    assert live == replayed
    assert live.limits == Amounts("0.10", 5)


def test_a_deadline_that_passes_while_it_reserves_releases(open_hf: Any, act: Any) -> None:
    """The body does not begin, so nothing is spent, and nothing stays reserved."""
    clock = FakeClock()

    class Slow(Governor):
        def reserve(self, call: Any, amounts: Any, paying: Any) -> Any:
            held = super().reserve(call, amounts, paying)
            clock.advance(10)
            return held

    hf = open_hf(clock=clock, handlers={"governor": Slow})

    def plot() -> None:
        with timeout(5):
            ask()

    with pytest.raises(StepTimeout):
        hf.run(act(plot))
    assert spent(hf) == (0, 0, 0)
    assert [one.type for one in hf._store.entries("@budget/default")] == ["BudgetReserved", "BudgetReleased"]


def test_a_workspace_step_that_is_refused_leaves_the_files_free(
    open_hf: Any, act: Any, tmp_path: Path
) -> None:
    """The lock of the files is released with the run, and the resumed step takes it again."""
    root = tmp_path / "tree"
    root.mkdir()
    hf = open_hf(workspace=root)
    hf.budgets.set("default", usd=0)

    def plot() -> None:
        command(["touch", "made"], cwd=root, reserve=Amounts(usd="0.01"))

    with pytest.raises(BudgetReached):
        hf.with_id("x").run(act(plot))
    assert not (root / "made").exists()
    hf.budgets.raise_("default", usd=1)
    hf.resume("x").result()
    assert (root / "made").exists()
    assert spent(hf) == (CENT, 0, 1)


def test_the_error_crosses_the_socket_of_a_worker_whole() -> None:
    """The serving process sees the same class, sentence and fields."""
    error = BudgetReached(
        "x", "team", unit="usd", limit="1", spent="0.9", reserved="0", needed="0.2", step="ask#1",
        short={"usd": "0.1"},
    )  # fmt: skip
    found = error_of(error_fields(error))
    assert (type(found), str(found), vars(found)) == (BudgetReached, str(error), vars(error))
