"""`branch`: a named scope, so that the keys of a plan's node or of an agent are its own."""

import asyncio
import random

import pytest

from holdfast import DivergenceError, gather, now, parallel, step, timeout
from holdfast.engine.primitives.branch import branch
from holdfast.errors import BadInput, StepTimeout, WrongColour
from holdfast.testing.crash import at_body


@step
def look(q: str) -> str:
    return f"{q}!"


@step
async def ask(q: str) -> str:
    return f"{q}?"


def keys(hf, run_id):
    return {event.data["key"] for event in hf.events(run_id) if event.type in ("StepStarted", "StepRan")}


@pytest.mark.parametrize("colour", ["def", "async"])
def test_steps_inside_have_the_keys_of_the_branch(hf, act, colour):
    """With its key, numbered without one, nested, and nothing of it after its end."""

    def plot():
        with branch("review", "reef"):
            look("a")
            with branch("deeper"):
                look("b")
        with branch("review"):
            look("c")
        with branch("review"):
            look("d")
        look("e")

    async def aplot():
        with branch("review", "reef"):
            await look.aio("a")
            with branch("deeper"):
                await look.aio("b")
        with branch("review"):
            await look.aio("c")
        with branch("review"):
            await look.aio("d")
        await look.aio("e")

    hf.with_id("x").run(act(plot if colour == "def" else aplot))
    assert keys(hf, "x") == {
        "review[reef]/look#1",
        "review[reef]/deeper[1]/look#1",
        "review[1]/look#1",
        "review[2]/look#1",
        "look#1",
    }


def test_tasks_and_parallel_branches_belong_to_the_branch_around_them(hf, act):
    async def node(q):
        return await ask(q)

    async def aplot():
        with branch("node", "a"):
            first = asyncio.create_task(node("a"))
        with branch("node", "b"):
            second = asyncio.create_task(node("b"))
        return await gather(second, first)

    def plot():
        def item(q):
            with branch("part", q):
                return look(q)

        with branch("node", "a"):
            return parallel(item, ["x", "y"])

    hf.with_id("tasks").run(act(aplot))
    assert keys(hf, "tasks") == {"node[a]/node[1]/ask#1", "node[b]/node[1]/ask#1"}
    hf.with_id("threads").run(act(plot))
    assert keys(hf, "threads") == {"node[a]/item[1]/part[x]/look#1", "node[a]/item[2]/part[y]/look#1"}


def test_keys_do_not_depend_on_the_order_in_which_branches_end_or_begin(hf, act):
    """A scheduler that starts nodes as others end: fifteen timings, one set of keys."""

    async def plot(seed):
        chance = random.Random(seed)
        names = list("abcdef")
        chance.shuffle(names)

        async def node(name):
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
            return await ask(name)

        tasks = []
        for name in names:
            with branch("node", name):
                tasks.append(asyncio.create_task(node(name)))
            if chance.random() < 0.5:
                await tasks.pop(0)
        await asyncio.gather(*tasks)

    expected = {f"node[{name}]/node[1]/ask#1" for name in "abcdef"}
    for seed in range(15):
        hf.with_id(f"run-{seed}").run(act(plot), seed)
        assert keys(hf, f"run-{seed}") == expected, f"seed {seed}"


def test_one_scope_opens_a_key_once(hf, act):
    """A second branch of that key would continue the first one's count. In another scope it is another."""

    def twice_here():
        with branch("node", "a"):
            look("1")
        with branch("node", "a"):
            look("2")

    def elsewhere():
        for outer in "xy":
            with branch("outer", outer), branch("node", "a"):
                look("1")

    with pytest.raises(BadInput, match=r"branch node\[a\] is opened twice"):
        hf.run(act(twice_here))
    hf.with_id("x").run(act(elsewhere))
    assert keys(hf, "x") == {"outer[x]/node[a]/look#1", "outer[y]/node[a]/look#1"}


def test_numbers_and_keys_do_not_collide(hf, act):
    """A number that was given as a key is not given again; a key that is a number in use is refused."""

    def skips():
        with branch("node", 1):
            look("key")
        with branch("node"):
            look("number")

    def clashes():
        with branch("node"):
            look("number")
        with branch("node", "1"):
            look("key")

    hf.with_id("x").run(act(skips))
    assert keys(hf, "x") == {"node[1]/look#1", "node[2]/look#1"}
    with pytest.raises(BadInput, match="opened twice"):
        hf.run(act(clashes))


@pytest.mark.parametrize("wrong", [("a b", ""), ("a/b", ""), ("a", "x/y"), ("a", "x]"), ("", "")])
def test_names_that_would_blur_identities_are_refused(wrong):
    with pytest.raises(BadInput), branch(*wrong):
        pass


def test_a_replay_gives_the_same(twice):
    def plot():
        found = []
        for name in "ab":
            with branch("node", name):
                found += [now(), look(name)]
        return found

    async def aplot():
        async def node(name):
            return [now(), await ask(name)]

        tasks = []
        for name in "ab":
            with branch("node", name):
                tasks.append(asyncio.create_task(node(name)))
        return await asyncio.gather(*tasks)

    live, replayed = twice(plot)
    assert live == replayed
    live, replayed = twice(aplot, run_id="async")
    assert live == replayed


@pytest.mark.parametrize("change", ["name", "key", "gone", "a call less"])
@pytest.mark.parametrize("colour", ["def", "async"])
def test_a_renamed_branch_diverges_before_anything_runs(open_hf, act, crashes, ran, colour, change):
    first = open_hf()
    store = crashes.arm(first)
    changed = [False]

    @step
    def work(q: str) -> str:
        ran.append(q)
        return q

    def where():
        if not changed[0] or change == "a call less":
            return branch("node", "a")
        return {"name": branch("knot", "a"), "key": branch("node", "b"), "gone": timeout(99)}[change]

    def plot():
        with where():
            work("1")
            if not (changed[0] and change == "a call less"):
                work("2")
        if store.left is None:
            store.left = 0
        work("3")

    async def aplot():
        with where():
            await work.aio("1")
            if not (changed[0] and change == "a call less"):
                await work.aio("2")
        if store.left is None:
            store.left = 0
        await work.aio("3")

    plot = plot if colour == "def" else aplot
    with pytest.raises(Exception, match="dead"):
        first.with_id("x").run(act(plot))
    crashes.bury(first)
    ran.clear()
    changed[0] = True
    with pytest.raises(DivergenceError):
        open_hf().with_id("x").run(act(plot))
    assert ran == []


@pytest.mark.parametrize("colour", ["def", "async"])
def test_a_value_less_at_the_end_of_a_branch_diverges(open_hf, act, crashes, colour):
    """No code waits for a value: only the end of the branch tells that the call is gone."""
    first = open_hf()
    store = crashes.arm(first)

    def values():
        return now() if store.left is None else None

    def plot():
        with branch("node", "a"):
            values()
        look("1")
        store.left = 0

    async def aplot():
        with branch("node", "a"):
            values()
        await ask("1")
        store.left = 0

    plot = plot if colour == "def" else aplot
    with pytest.raises(Exception, match="dead"):
        first.with_id("x").run(act(plot))
    crashes.bury(first)
    with pytest.raises(DivergenceError, match=r"node\[a\]/now#1"):
        open_hf().with_id("x").run(act(plot))


def test_a_deadline_around_it_holds_inside(hf, act):
    def plot():
        with timeout(0.001), branch("node", "a"):
            for _ in range(1000):
                look("x")

    with pytest.raises(StepTimeout):
        hf.run(act(plot))


def test_outside_a_run_and_in_a_body_it_does_nothing(hf, act):
    @step
    def body() -> str:
        with branch("node", "a"):
            return look("x")

    with branch("node", "a"), branch("node", "a"):
        assert look("x") == "x!"
    hf.with_id("x").run(act(lambda: body()))
    assert keys(hf, "x") == {"body#1"}


def test_on_another_thread_it_is_refused(hf, act):
    def enter():
        with branch("node", "a"):
            pass

    async def plot():
        await asyncio.to_thread(enter)

    with pytest.raises(WrongColour, match="another thread"):
        hf.run(act(plot))


def test_a_killed_run_resumes_in_its_branches(lab):
    """SIGKILL in the second node of three, whose tasks run side by side: what was done is not done again."""
    crash = lab(
        """
        import asyncio
        from holdfast import Holdfast, step, workflow
        from holdfast.engine.primitives.branch import branch

        @step
        async def ask(q: str) -> str:
            return q

        async def node(name: str) -> str:
            return await ask(name) + await ask(name)

        @workflow
        async def plan() -> str:
            tasks = []
            for name in "abc":
                with branch("node", name):
                    tasks.append(asyncio.create_task(node(name)))
            return "".join([await task for task in tasks])

        with Holdfast() as hf:
            assert hf.with_id("x").run(plan) == "aabbcc"
        """
    )
    assert crash.run(kill=at_body("node[b]/node[1]/ask#2")).killed
    before = dict(crash.bodies())
    done = crash.run()
    assert done.exit_code == 0, done.stderr
    assert crash.bodies()["node[b]/node[1]/ask#1"] == before["node[b]/node[1]/ask#1"] == 1
    assert set(crash.bodies()) == {f"node[{name}]/node[1]/ask#{n}" for name in "abc" for n in (1, 2)}
