"""The router in runs: choices are recorded, outcomes are learned from, failing candidates give way to
others."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from random import Random

import apsw
import pytest

import holdfast
from holdfast import Holdfast, measure, parallel, sleep, step
from holdfast.agents import router
from holdfast.agents.learning.learner import WINDOW
from holdfast.errors import AllFailed, BadInput, StoreError
from holdfast.kernel import events as e
from holdfast.operations.replaying import replay
from holdfast.store.port import Decision, new_event
from holdfast.store.sqlite import sql
from holdfast.testing import FakeClock
from holdfast.testing.histories import own

PRICES = {"small": Decimal("0.004"), "large": Decimal("0.2")}


class World:
    """Models that answer by chance, or are down."""

    def __init__(self) -> None:
        self.random = Random(7)
        self.rates = {"small": 0.9, "large": 0.97}
        self.down: set[str] = set()
        self.asked: list[str] = []


world = World()


@pytest.fixture(autouse=True)
def fresh_world():
    world.__init__()


@step
def ask(model: str) -> bool:
    world.asked.append(model)
    measure(model=model, usd=PRICES[model])
    if model in world.down:
        raise ConnectionError(f"{model} is down")
    return world.random.random() < world.rates[model]


def outcomes(hf, run_id="r"):
    """(chosen, ok, usd, error) of every outcome in the log."""
    found = [event.data for event in hf.events(run_id) if event.type == "OutcomeReported"]
    return [(one["chosen"], one["ok"], one.get("usd"), one.get("error", "")) for one in found]


@pytest.mark.parametrize("seed", range(3))
def test_learns_through_the_store(home, act, seed):
    """Of 2,000 choices that runs make, at least 90% of the last 500 go to the best by value."""
    chosen = []

    def plot(count):
        for _ in range(count):
            with router.route("draft", ["large", "small"]) as choice:
                choice.report(ask(choice.candidate))
            chosen.append(choice.candidate)

    world.random.seed(seed)
    with Holdfast(home, durability="process", clock=FakeClock(seed=seed)) as hf:
        for number in range(20):
            hf.with_id(f"r{number}").run(act(plot), 100)
        assert len(chosen) == 2000
        assert chosen[-500:].count("small") >= 450
        sums = {one.candidate: one for one in hf._store.outcome_sums("router", "draft")}
        assert sums["small"].good + sums["small"].bad == chosen.count("small")
        assert sums["large"].usd == chosen.count("large") * 200_000_000
        assert list(hf._store.verify()) == []


def test_a_replay_repeats_the_choices(hf, act, monkeypatch):
    """The code gets the recorded choice, nothing is chosen or reported again, and the history matches."""

    def plot():
        first = router.choose("draft", ["small", "large"])
        with router.route("draft", ["small", "large"]) as second:
            ok = ask(second.candidate)
        first.report(ok, usd=Decimal("0.5"))
        return [first.candidate, second.candidate]

    chosen = {tuple(hf.with_id(f"r{n}").run(act(plot))) for n in range(20)}
    assert len(chosen) > 1
    before = [hf.events(f"r{n}") for n in range(20)]
    again = [tuple(hf.with_id(f"r{n}").run(act(plot))) for n in range(20)]
    assert [hf.events(f"r{n}") for n in range(20)] == before
    assert all(one in chosen for one in again)
    monkeypatch.setattr(hf._engine, "handler", lambda name: pytest.fail(f"{name} is asked again"))
    assert {replay(hf._engine, f"r{n}").verdict for n in range(20)} == {"matches"}


def test_the_end_of_the_block_is_the_outcome(hf, act):
    """An exception is a failure and is raised; what was reported stays; else it is a success. Steps of the
    block give the cost."""
    world.rates["small"] = 1.0

    def plot():
        with router.route("draft", ["small"]) as choice:
            ask(choice.candidate)
            ask(choice.candidate)
        with router.route("draft", ["small"]) as choice:
            choice.report(False)
            ask(choice.candidate)
        with router.route("draft", ["small"]) as choice:
            choice.report(True, usd=Decimal("3.0000000004"))
        world.down.add("small")
        with pytest.raises(ConnectionError), router.route("draft", ["small"]) as choice:
            ask(choice.candidate)
        parallel(lambda model: ask(model), ["large", "large"])

    hf.with_id("r").run(act(plot))
    assert outcomes(hf) == [
        (["small"], True, "0.008000000", ""),
        (["small"], False, None, ""),
        (["small"], True, "3.000000000", ""),
        (["small"], False, "0.004000000", "ConnectionError"),
    ]


def test_kinds_of_work_are_learned_apart(hf, act):
    """What fails at one kind is not held against it at another."""

    def plot():
        for _ in range(30):
            router.choose("code", ["small"]).report(False)
            router.choose("prose", ["large"]).report(False)

    hf.with_id("r").run(act(plot))
    engine = hf._engine
    rank = engine.handler("router").rank
    for kind, better in (("code", "large"), ("prose", "small")):  # without a difference: 100 of 200
        assert [rank(kind, ["small", "large"])[0] for _ in range(200)].count(better) > 150


def test_async_workflows_choose_too(hf, act):
    """The same calls, concurrently; each branch has its own choices."""
    world.rates = {"small": 1.0, "large": 1.0}

    async def branch(kind):
        with router.route(kind, ["small", "large"]) as choice:
            await ask.aio(choice.candidate)
        return choice.candidate

    async def plot():
        first = await asyncio.gather(*(branch(kind) for kind in "abc"))
        last = await router.failover.aio("d", ["small", "large"], ask.aio)
        return [*first, last]

    assert hf.with_id("r").run(act(plot))[3] is True
    assert [ok for _, ok, _, _ in outcomes(hf)] == [True] * 4
    before = hf.events("r")
    hf.with_id("r").run(act(plot))
    assert hf.events("r") == before


def test_a_failing_candidate_gives_way(hf, act):
    """`failover` tries the next one, and records the failure; the failing one comes last from then on."""
    world.rates |= {"small": 1.0, "large": 1.0}

    def known():
        return [router.failover("draft", ["small"], ask) for _ in range(20)]

    assert hf.with_id("before").run(act(known)) == [True] * 20  # so that it is chosen first
    world.down.add("small")

    def plot():
        return [router.failover("draft", ["small", "large"], ask) for _ in range(12)]

    assert hf.with_id("r").run(act(plot)) == [True] * 12
    failed = [one for one in outcomes(hf) if not one[1]]
    assert failed == [(["small"], False, "0.004000000", "ConnectionError")] * len(failed)
    assert 0 < len(failed) <= 3, "it rests after three"
    assert len(outcomes(hf)) == 12 + len(failed)


def test_a_rest_ends(home, act):
    """A candidate that was down rests, is tried again after a minute, and is used again when it is back."""
    world.down.add("small")
    world.rates = {"small": 1.0, "large": 1.0}
    clock = FakeClock()

    def plot(count):
        for _ in range(count):
            router.failover("draft", ["small", "large"], ask)

    with Holdfast(home, durability="process", clock=clock) as hf:
        hf.with_id("a").run(act(plot), 10)
        assert world.asked.count("small") == 3
        clock.advance(59)
        hf.with_id("b").run(act(plot), 10)
        assert world.asked.count("small") == 3
        world.down.clear()
        clock.advance(2)
        hf.with_id("c").run(act(plot), 30)
        assert world.asked.count("small") > 3


def test_all_failed_pauses_and_resume_tries_again(hf, act):
    """The error says who failed and why; each resume is one more round; when one is back, the run
    completes."""
    world.down = {"small", "large"}

    def plot():
        return router.failover("draft", ["small", "large"], ask)

    with pytest.raises(AllFailed) as stopped:
        hf.with_id("r").run(act(plot))
    assert stopped.value.exit_code == 7 and stopped.value.code == "all_failed"
    assert "small: ConnectionError: small is down" in str(stopped.value)
    assert "large: ConnectionError: large is down" in str(stopped.value)
    assert "`holdfast resume r`" in str(stopped.value)
    assert hf.get("r").status == "paused" and "all candidates for 'draft' failed" in hf.get("r").reason
    assert replay(hf._engine, "r").verdict == "matches"
    with pytest.raises(AllFailed):
        hf.resume("r").result()
    assert sorted(world.asked) == ["large", "large", "small", "small"]
    world.down.clear()
    world.rates = {"small": 1.0, "large": 1.0}
    assert hf.resume("r").result() is True
    assert len(outcomes(hf)) == 5 and hf.get("r").status == "completed"
    assert replay(hf._engine, "r").verdict == "matches"


def test_a_secret_in_an_error_is_hidden(hf, act):
    """In the reason of the pause, in what the caller gets, and in the outcomes, as the log has them."""
    token = "ghp_" + "a1B2" * 9

    def fail(model):
        raise ConnectionError(f"{model} refused {token}")

    with pytest.raises(AllFailed) as stopped:
        hf.with_id("r").run(act(lambda: router.failover(f"draft {token}", ["small"], fail)))
    assert "small refused [redacted" in str(stopped.value) and token not in str(stopped.value)
    recorded = [one for one in hf._store.entries("r") if one.type in ("OutcomeReported", "RunPaused")]
    assert {one.type for one in recorded} == {"OutcomeReported", "RunPaused"}
    assert not any(token in one.payload for one in recorded)


def test_all_failed_in_an_async_workflow(hf, act):
    """The same there."""
    world.down = {"small"}

    async def plot():
        return await router.failover.aio("draft", ["small"], ask.aio)

    with pytest.raises(AllFailed):
        hf.with_id("r").run(act(plot))
    world.down.clear()
    world.rates["small"] = 1.0
    assert hf.resume("r").result() is True


def test_mistakes_of_the_caller_are_no_outcome(hf, act):
    """A wrong call is raised by `failover` and `route`, and no candidate is blamed."""

    def plot():
        with pytest.raises(BadInput):
            router.failover("draft", ["small", "large"], lambda model: sleep(-1))
        with pytest.raises(BadInput), router.route("draft", ["small"]):
            router.choose("", ["small"])
        for kind, names in (("x", []), ("x", "small"), ("x", ["a" * 201]), ("x", [1]), (3, ["small"])):
            with pytest.raises(BadInput):
                router.choose(kind, names)
        choice = router.choose("x", ["small", "small"])
        for wrong in ({"ok": 1}, {"ok": True, "usd": 0.5}, {"ok": True, "usd": Decimal(-1)}):
            with pytest.raises(BadInput):
                choice.report(**wrong)
        choice.report(True)
        with pytest.raises(BadInput, match="already"):
            choice.report(True)

    hf.with_id("r").run(act(plot))
    assert outcomes(hf) == [(["small"], True, None, "")]


def test_outside_a_workflow_nothing_is_chosen(hf, act):
    """Neither without a run nor in a step's body: what is not recorded cannot be replayed or learned from."""
    with pytest.raises(BadInput, match="workflow"):
        router.choose("draft", ["small"])

    @step
    def inside():
        with pytest.raises(BadInput, match="step's body"):
            router.choose("draft", ["small"])

    hf.with_id("r").run(act(lambda: inside()))


def test_another_outcome_in_the_same_place_diverges(hf, act):
    """Code that reports another outcome than it did before is not the code of the history."""
    answer = [True]
    world.down.add("small")

    def plot():
        router.choose("draft", ["small"]).report(answer[0])
        ask("small")

    with pytest.raises(ConnectionError):
        hf.with_id("r").run(act(plot))
    answer[0] = False
    with pytest.raises(holdfast.DivergenceError, match="not ok"):
        hf.resume("r").result()


def test_a_rewind_keeps_outcomes_and_a_fork_does_not_repeat_them(hf, act):
    """Work that was done counts, also if the run goes back before it; a fork's copy of the past does not
    count again. Deleted and archived runs take their outcomes with them."""
    world.rates["small"] = 1.0

    def plot():
        for _ in range(3):
            with router.route("draft", ["small"]) as choice:
                ask(choice.candidate)

    def good():
        return [one.good for one in hf._store.outcome_sums("router")]

    hf.with_id("r").run(act(plot))
    assert good() == [3]
    forked = hf.fork("r", at="route[3]/ask#1")
    assert good() == [3]
    hf.resume(forked.id).result()
    assert good() == [4], "two of its three are copies"
    hf.rewind("r", to="route[2]/ask#1")
    assert good() == [4]
    hf.resume("r").result()
    assert good() == [6], "two pieces of work were done again"
    assert list(hf._store.verify()) == []
    hf.delete("r")
    assert good() == [1]
    hf.undo()
    assert good() == [6]


def test_killed_at_every_append(tmp_path, act, crashes):
    """A run with choices, outcomes, a failover and a pause dies after each of its appends in turn: it makes
    the recorded choices again, reports each outcome once, and ends as it should."""
    world.rates = {"small": 1.0, "large": 1.0}

    def plot():
        chosen = []
        for kind in "abc":
            with router.route(kind, ["small", "large"]) as choice:
                ask(choice.candidate)
            chosen.append(choice.candidate)
        ask("small")
        return [*chosen, router.failover("d", ["large"], ask)]

    appends, died = 0, True
    while died:
        home = tmp_path / f"home{appends}"
        Holdfast(home, durability="process").close()
        world.down.clear()
        hf = Holdfast(home, durability="process")
        crashes.arm(hf, appends)
        died = False
        try:
            hf.with_id("r").run(act(plot))
        except holdfast.StoreError:
            died = True
        crashes.bury(hf)
        with Holdfast(home, durability="process") as hf:
            known = (
                [one.data["value"] for one in hf.events("r") if one.type == "ValueRecorded"]
                if appends
                else []
            )
            result = hf.with_id("r").run(act(plot))
            values = [one.data["value"] for one in hf.events("r") if one.type == "ValueRecorded"]
            assert values[: len(known)] == known
            assert result == [one[0] for one in values[:3]] + [True]
            assert [ok for _, ok, _, _ in outcomes(hf)] == [True] * 4
            assert sum(one.good for one in hf._store.outcome_sums("router")) == 4
            assert list(hf._store.verify()) == []
        appends += 1
    assert appends > 5


def test_killed_around_the_pause(tmp_path, act, crashes):
    """Wherever a run dies whose candidates all fail, it is paused in the end, and resumes when one is
    back."""
    world.rates["small"] = 1.0

    def plot():
        return router.failover("d", ["small"], ask)

    appends, died = 0, True
    while died:
        home = tmp_path / f"home{appends}"
        Holdfast(home, durability="process").close()
        world.down = {"small"}
        hf = Holdfast(home, durability="process")
        crashes.arm(hf, appends)
        died = False
        try:
            hf.with_id("r").run(act(plot))
        except AllFailed:
            pass
        except holdfast.StoreError:
            died = True
        crashes.bury(hf)
        with Holdfast(home, durability="process") as hf:
            if died:
                with pytest.raises(AllFailed):
                    hf.with_id("r").run(act(plot))
            assert hf.get("r").status == "paused"
            assert [ok for _, ok, _, _ in outcomes(hf)] == [False]
            world.down.clear()
            assert hf.resume("r").result() is True
        appends += 1
    assert appends > 2


def test_a_choice_costs_the_same_after_a_long_history(home):
    """SQLite executes as many instructions to read the window of 30,000 outcomes as of 1,000."""
    steps = []
    with Holdfast(home, durability="process") as hf:
        for run_id, count in (("few", 1_000), ("many", 30_000)):
            own(hf._store, run_id)
            reported = e.OutcomeReported("outcome#1", 1, "router", "draft", ("small",), True)
            news = [new_event(reported, at) for at in range(count)]
            hf._store.command(run_id, lambda _, news=news: Decision("run", news))
            assert len(hf._store.outcomes("router", "draft", "small", WINDOW)) == WINDOW
            steps.append(instructions(home, sql.query("outcomes"), ("router", "draft", "small", WINDOW)))
    assert WINDOW < steps[0] == pytest.approx(steps[1], rel=0.05)


def instructions(home, query, values):
    """How many instructions of SQLite's machine a query takes."""
    db = apsw.Connection(str(home / "holdfast.db"))
    count = 0

    def counted():
        nonlocal count
        count += 1
        return False

    db.set_progress_handler(counted, 1)
    db.execute(query, values).fetchall()
    db.close()
    return count


class Unreadable:
    """A router whose store cannot be read."""

    def __init__(self, engine, settings):
        pass

    def rank(self, kind, candidates):
        raise StoreError("the disk is gone")


class Stranger(Unreadable):
    """A router that names a candidate of its own."""

    def rank(self, kind, candidates):
        return [*candidates, "z"]


def test_an_order_of_other_candidates_is_refused(open_hf, act):
    """The code gave the names: no other one is worked with."""
    with pytest.raises(BadInput, match=r"Stranger.rank\(\) returned \['a', 'z'\], which is not an order of"):
        open_hf(handlers={"router": Stranger}).run(act(lambda: router.choose("draft", ["a"]).candidate))


def test_a_store_that_cannot_be_read_is_no_failure_of_the_run(open_hf, act):
    """The run stops where it is, and is resumed when the store can be read again."""
    broken = open_hf(handlers={"router": Unreadable})
    with pytest.raises(StoreError):
        broken.with_id("r").run(act(lambda: router.choose("draft", ["a"]).candidate))
    assert broken.get("r").status != "failed"
    broken.close()
    assert open_hf().with_id("r").run(act(lambda: router.choose("draft", ["a"]).candidate)) == "a"
