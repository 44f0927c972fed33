"""Scopes: a step's identity comes from where it is called, never from when."""

import asyncio
import contextvars
import random
import subprocess
import sys

import anyio
import pytest
from tests.engine.conftest import achild

from holdfast import Holdfast, gather, parallel, step
from holdfast.operations.replaying import replay


@step
async def ask(q: str) -> str:
    return f"{q}?"


@step
def look(q: str) -> str:
    return f"{q}!"


async def nap(chance: random.Random) -> None:
    for _ in range(chance.randrange(6)):
        await asyncio.sleep(0)


async def branch(name: str, chance: random.Random) -> list[str]:
    await nap(chance)
    first = await ask(f"{name}1")
    await nap(chance)
    return [first, await ask(f"{name}2")]


async def nested(name: str, chance: random.Random) -> list[list[str]]:
    await nap(chance)
    return list(await asyncio.gather(branch(f"{name}x", chance), branch(f"{name}y", chance)))


def recorded(hf, run_id):
    """Step → the question it was asked, as the log has it."""
    events = hf.events(run_id)
    begun = [event.data for event in events if event.type in ("StepStarted", "StepRan")]
    return {data["key"]: data["args"]["q"] for data in begun}


async def with_gather(chance):
    await asyncio.gather(branch("a", chance), branch("b", chance), branch("c", chance))


async def with_our_gather(chance):
    await gather(branch("a", chance), branch("b", chance), branch("c", chance), limit=2)


async def with_task_group(chance):
    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(branch(name, chance))


async def with_create_task(chance):
    tasks = [asyncio.create_task(branch(name, chance)) for name in "abc"]
    await nap(chance)
    await asyncio.wait(tasks)


async def with_explicit_context(chance):
    shared = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    await asyncio.gather(*(loop.create_task(branch(name, chance), context=shared) for name in "abc"))


THREE_BRANCHES = {f"branch[{n}]/ask#{m}": f"{name}{m}" for n, name in enumerate("abc", 1) for m in (1, 2)}


@pytest.mark.parametrize(
    "plot", [with_gather, with_our_gather, with_task_group, with_create_task, with_explicit_context]
)
def test_branches_keep_their_identities_whatever_the_timing(hf, act, plot):
    """Each branch has its own scope, numbered at its creation: fifteen timings, one set of identities."""

    async def seeded(seed):
        await plot(random.Random(seed))

    for seed in range(15):
        hf.with_id(f"run-{seed}").run(act(seeded), seed)
        assert recorded(hf, f"run-{seed}") == THREE_BRANCHES, f"seed {seed}"


def test_nested_gathers_nest_their_scopes(hf, act):
    """A branch of a branch has a path, not a number out of one common counter."""

    async def seeded(seed):
        chance = random.Random(seed)
        await asyncio.gather(nested("a", chance), nested("b", chance))

    expected = {
        f"nested[{n}]/branch[{m}]/ask#{k}": f"{outer}{inner}{k}"
        for n, outer in enumerate("ab", 1)
        for m, inner in enumerate("xy", 1)
        for k in (1, 2)
    }
    for seed in range(15):
        hf.with_id(f"run-{seed}").run(act(seeded), seed)
        assert recorded(hf, f"run-{seed}") == expected, f"seed {seed}"


def test_identity_is_fixed_when_a_step_is_called(hf, act):
    """Coroutines of steps that are awaited in another order keep the order of their calls."""

    async def plot():
        first, second = ask("a"), ask("b")
        await second
        await first

    hf.with_id("x").run(act(plot))
    assert recorded(hf, "x") == {"ask#1": "a", "ask#2": "b"}


def test_steps_gathered_directly_belong_to_the_caller(hf, act):
    """`gather(ask(..), ask(..))` calls the steps in the caller's scope: no branch is needed."""

    async def plot():
        await asyncio.gather(ask("a"), ask("b"))
        await gather(ask("c"), ask("d"))

    hf.with_id("x").run(act(plot))
    assert recorded(hf, "x") == {"ask#1": "a", "ask#2": "b", "ask#3": "c", "ask#4": "d"}


async def limited(name: str) -> str:
    return await ask(name)


async def with_wait_for():
    await asyncio.wait_for(limited("a"), 5)
    await asyncio.wait_for(ask("b"), 5)
    async with asyncio.timeout(5):
        await ask("c")
    await asyncio.gather(asyncio.wait_for(limited("d"), 5), limited("e"))


WAIT_FOR = {"ask#1": "a", "ask#2": "b", "ask#3": "c", "wait_for[1]/ask#1": "d", "limited[1]/ask#1": "e"}


def test_wait_for_is_no_scope(hf, act):
    """Python 3.11 wraps in a task what 3.12 does not: identities are the same in both."""

    async def plot():
        await with_wait_for()

    hf.with_id("x").run(act(plot))
    assert recorded(hf, "x") == WAIT_FOR


def test_as_completed_with_keys(twice, ran):
    """Where the order of calls is left to timing, a key of its own makes the identity."""
    delays = iter([3, 2, 1, 1, 2, 3])

    @step
    async def fetch(name: str) -> str:
        for _ in range(next(delays)):
            await asyncio.sleep(0)
        return name

    @step
    async def digest(name: str) -> str:
        ran.append(name)
        return name.upper()

    async def plot():
        done = []
        for future in asyncio.as_completed([fetch(name) for name in "abc"]):
            name = await future
            done.append(await digest.with_key(name)(name))
        return sorted(done)

    assert twice(plot) == (["A", "B", "C"], ["A", "B", "C"])
    assert sorted(ran) == ["a", "b", "c"]


def test_parallel_gives_each_item_its_scope(hf, act):
    """A step is called in the caller's scope, in the items' order; a function gets a scope per item."""

    def both(name: str) -> list[str]:
        return [look(f"{name}1"), look(f"{name}2")]

    def plot():
        return [parallel(look, ["a", "b"], limit=2), parallel(both, ["c", "d"])]

    assert hf.with_id("x").run(act(plot)) == [["a!", "b!"], [["c1!", "c2!"], ["d1!", "d2!"]]]
    assert recorded(hf, "x") == {
        "look#1": "a",
        "look#2": "b",
        "both[1]/look#1": "c1",
        "both[1]/look#2": "c2",
        "both[2]/look#1": "d1",
        "both[2]/look#2": "d2",
    }


def test_parallel_inside_parallel(hf, act):
    """Scopes of threads nest as those of tasks do."""

    def inner(name: str) -> str:
        return look(name)

    def outer(name: str) -> list[str]:
        return parallel(inner, [f"{name}1", f"{name}2"])

    for n in range(10):
        hf.with_id(f"x{n}").run(act(lambda: parallel(outer, ["a", "b"])))
        assert recorded(hf, f"x{n}") == {
            "outer[1]/inner[1]/look#1": "a1",
            "outer[1]/inner[2]/look#1": "a2",
            "outer[2]/inner[1]/look#1": "b1",
            "outer[2]/inner[2]/look#1": "b2",
        }


if sys.version_info >= (3, 12):  # eager tasks came with 3.12

    def test_eager_tasks_have_the_same_scopes(hf, act):
        """A task that begins to run at its creation is the same scope as one that begins later."""

        async def plot():
            chance = random.Random(1)
            await asyncio.gather(branch("a", chance), branch("b", chance), branch("c", chance))

        async def main():
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
            await hf.with_id("x").start(act(plot))

        asyncio.run(main())
        assert recorded(hf, "x") == THREE_BRANCHES


def test_a_task_of_another_library_keeps_its_factory(hf, act, ran):
    """The task factory that a program has set is still called."""

    async def plot():
        await asyncio.gather(limited("a"), limited("b"))

    async def main():
        def factory(loop, coro, **kwargs):
            ran.append("made")
            return asyncio.Task(coro, loop=loop, **kwargs)

        asyncio.get_running_loop().set_task_factory(factory)
        await hf.with_id("x").start(act(plot))

    asyncio.run(main())
    assert recorded(hf, "x") == {"limited[1]/ask#1": "a", "limited[2]/ask#1": "b"}
    assert len(ran) >= 2


FIRST_USE_OF_ANYIO = """
import asyncio, sys
import anyio
from holdfast import Holdfast, step, workflow

@step
async def ask(q: str) -> str:
    return f"{q}?"

async def worker() -> str:
    with anyio.CancelScope():
        async with anyio.create_task_group() as group:
            group.start_soon(ask, "a")
            group.start_soon(ask, "b")
    return "left"

@workflow
async def flow() -> str:
    assert "anyio._backends._asyncio" not in sys.modules
    return (await asyncio.gather(worker()))[0]

with Holdfast(sys.argv[1]) as hf:
    print(hf.run(flow))
"""


def test_a_task_of_a_run_may_be_the_first_that_uses_anyio(home, tmp_path):
    """anyio loads its scopes when they are first used. A task of a run that does this inside nested scopes,
    and then makes tasks, leaves them again."""
    program = tmp_path / "program.py"
    program.write_text(FIRST_USE_OF_ANYIO)
    command = [sys.executable, str(program), str(home)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.returncode) == ("left\n", 0), ended.stderr


def test_the_task_of_a_function_has_one_hash_wherever_it_is_executed(home, tmp_path, act):
    """By it, and by that of the scopes that it enters, anyio orders what it cancels."""
    tasks: list[asyncio.Task[None]] = []
    scopes: list[anyio.CancelScope] = []
    hashes: list[int] = []

    async def plot() -> None:
        with anyio.CancelScope() as scope:
            tasks.append(asyncio.current_task())  # kept, so that no other has its address
            scopes.append(scope)
            hashes.append(hash(scope))
            await ask("a")

    async def main(other: Holdfast) -> None:
        await other.with_id("x").start(act(plot))

    with Holdfast(home) as hf, Holdfast(tmp_path / "other") as other:
        hf.with_id("x").run(act(plot))
        replay(hf._engine, "x")
        asyncio.run(main(other))
        act(plot, "child")
        for one in (hf, other):
            one.with_id("y").run(act(lambda: achild.sync()))
    assert len(tasks) == 5
    assert hashes == [hash(one) for one in tasks]
    assert len(set(hashes[:3])) == 1 and len(set(hashes[3:])) == 1
