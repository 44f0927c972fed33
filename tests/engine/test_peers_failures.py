"""Five failures of comparable engines, reproduced there; none of them may happen here."""

import asyncio
import random
import subprocess

import pytest

from holdfast import Holdfast, gather, parallel, step
from holdfast.testing import at_body

GATED = """
    import sys, time
    from pathlib import Path
    from holdfast import Holdfast, step, workflow

    @step
    def first() -> int:
        return 1

    @step
    def slow(go: str) -> int:
        while not Path(go).exists():
            time.sleep(0.005)
        return 2

    @step
    def last() -> int:
        return 3

    @workflow
    def job(go: str) -> list[int]:
        return [first(), slow(go), last()]

    if __name__ == "__main__":
        with Holdfast() as hf:
            print(hf.with_id("job").run(job, sys.argv[1]))
"""


class ApiError(Exception):
    """Its constructor takes what its `args` do not have: pickle and naive rebuilding fail on it."""

    def __init__(self, status: int, *, body: str) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.body = body


class Unpicklable(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.hook = lambda: None


def test_stolen(lab, open_hf, tmp_path):
    """A second process that opens the store, and even recovers, leaves a live process's run alone."""
    go = tmp_path / "go"
    job = lab(GATED, str(go))
    worker = job.start()
    job.wait_for("slow#1")
    opener = (
        "import sys; from holdfast import Holdfast\nwith Holdfast(sys.argv[1]) as hf: print(hf.recover())"
    )
    done = subprocess.run(
        [worker.args[0], "-c", opener, str(job.home)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
    assert open_hf().recover() == []
    info = open_hf().get("job")
    assert (info.status, info.interrupted, info.owner_pid) == ("running", False, worker.pid)
    go.touch()
    out, err = worker.communicate(timeout=60)
    assert (out, err) == ("[1, 2, 3]\n", "")
    assert job.bodies() == {"first#1": 1, "slow#1": 1, "last#1": 1}


@pytest.mark.parametrize("way", ["recover", "resume"])
def test_orphaned(lab, open_hf, tmp_path, way):
    """A killed process's run is found and finished by another process, at once."""
    go = tmp_path / "go"
    job = lab(GATED, str(go))
    assert job.run(at_body("slow#1")).killed
    go.touch()
    hf: Holdfast = open_hf()
    assert [(run.id, run.interrupted) for run in hf.runs(resumable=True)] == [("job", True)]
    if way == "recover":
        assert [(run.id, run.result(0)) for run in hf.recover()] == [("job", [1, 2, 3])]
    else:
        assert hf.resume("job").result(30) == [1, 2, 3]
    assert job.bodies() == {"first#1": 1, "slow#1": 1}
    assert hf.recover() == []


@pytest.mark.parametrize("seed", range(10))
def test_swapped(twice, seed, ran):
    """Two branches with steps of the same names get their own answers, however replay is timed."""
    chance = random.Random(seed)

    @step
    async def ask(q: str) -> str:
        ran.append(q)
        return f"answer to {q}"

    async def wander():
        for _ in range(chance.randrange(5)):
            await asyncio.sleep(0)

    async def branch_a():
        await wander()
        return [await ask("a1"), await ask("a2")]

    async def branch_b():
        await wander()
        return [await ask("b1"), await ask("b2")]

    async def plot():
        return list(await asyncio.gather(branch_a(), branch_b()))

    answers = [["answer to a1", "answer to a2"], ["answer to b1", "answer to b2"]]
    assert twice(plot) == (answers, answers)
    assert sorted(ran) == ["a1", "a2", "b1", "b2"]


def test_lost_errors(twice, ran):
    """An error with a constructor of its own is, live and replayed, the same class with the same data."""

    @step
    def call() -> None:
        ran.append("call")
        raise ApiError(503, body="try later")

    def plot():
        with pytest.raises(ApiError) as caught:
            call()
        error = caught.value
        return (type(error).__name__, error.status, error.body, str(error), error.args)

    expected = ("ApiError", 503, "try later", "status 503", ("status 503",))
    assert twice(plot) == (expected, expected)
    assert ran == ["call"]


def test_lost_errors_that_cannot_be_rebuilt(twice, ran):
    """One that no data can carry is recorded too: the same class both times, with a stand-in; run once."""

    @step
    def call() -> None:
        ran.append("call")
        raise Unpicklable("no way")

    def plot():
        with pytest.raises(Unpicklable) as caught:
            call()
        return [str(caught.value), type(caught.value.hook).__name__]

    live, replayed = twice(plot)
    assert live == replayed == ["no way", "KeptObject"]
    assert ran == ["call"]


def test_discarded_siblings(open_hf, act, ran):
    """When a branch fails, its siblings finish and are recorded; resume runs only the failed one."""
    hf = open_hf()
    fails = ["b"]

    @step
    async def work(name: str) -> str:
        ran.append(name)
        for _ in range(5):
            await asyncio.sleep(0)
        if name in fails:
            raise ValueError(name)
        return name.upper()

    async def plot():
        return list(await gather(*(work(name) for name in "abc")))

    with pytest.raises(ValueError, match="b"):
        hf.with_id("x").run(act(plot))
    assert sorted((info.key, info.status) for info in hf.steps("x")) == [
        ("work#1", "completed"),
        ("work#2", "failed"),
        ("work#3", "completed"),
    ]
    fails.clear()
    assert hf.resume("x").result(30) == ["A", "B", "C"]
    assert sorted(ran) == ["a", "b", "b", "c"]


def test_discarded_siblings_of_parallel(open_hf, act, ran):
    """The same for threads, with fewer threads than branches."""
    hf = open_hf()
    fails = ["a"]

    @step
    def work(name: str) -> str:
        ran.append(name)
        if name in fails:
            raise ValueError(name)
        return name.upper()

    def plot():
        return parallel(work, "abcd", limit=2)

    with pytest.raises(ValueError, match="a"):
        hf.with_id("x").run(act(plot))
    assert sorted(ran) == ["a", "b", "c", "d"]
    fails.clear()
    assert hf.resume("x").result(30) == ["A", "B", "C", "D"]
    assert sorted(ran) == ["a", "a", "b", "c", "d"]


def test_discarded_siblings_of_plain_asyncio(open_hf, act, ran):
    """Plain `asyncio.gather` raises at once, but a sibling's started body is still recorded."""
    hf = open_hf()
    fails = ["b"]

    @step
    async def work(name: str) -> str:
        ran.append(name)
        if name in fails:
            raise ValueError(name)
        for _ in range(20):
            await asyncio.sleep(0.001)
        return name.upper()

    async def plot():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work(name)) for name in "abc"]
        return [task.result() for task in tasks]

    with pytest.raises(ExceptionGroup):
        hf.with_id("x").run(act(plot))
    fails.clear()
    assert hf.resume("x").result(30) == ["A", "B", "C"]
    assert sorted(ran) == ["a", "b", "b", "c"]


def test_discarded_siblings_of_plain_gather(open_hf, act, ran):
    """`asyncio.gather` leaves siblings running when it raises: the run ends only when they are recorded."""
    hf = open_hf()
    fails = ["b"]

    @step
    async def work(name: str) -> str:
        ran.append(name)
        if name in fails:
            raise ValueError(name)
        await asyncio.sleep(0.05)
        return name.upper()

    async def plot():
        return list(await asyncio.gather(*(work(name) for name in "abc")))

    with pytest.raises(ValueError, match="b"):
        hf.with_id("x").run(act(plot))
    fails.clear()
    assert hf.resume("x").result(30) == ["A", "B", "C"]
    assert sorted(ran) == ["a", "b", "b", "c"]
