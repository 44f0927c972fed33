"""What people forget: an `await`, a run around a workflow, that somebody must decide."""

import asyncio
import gc
import logging
import subprocess
import sys
import threading
import time
import warnings

import pytest

from holdfast import (
    DetachedStep,
    Holdfast,
    approval,
    checkpoint,
    command,
    gather,
    sleep,
    step,
    wait_for,
    workflow,
)
from holdfast.errors import NotAwaited


@step
async def ask(name: str) -> str:
    return name


@step
def look(name: str) -> str:
    return name


@workflow
async def child() -> str:
    return "child"


CALLS = {
    "step ask": lambda: ask("a"),
    "step look": lambda: look.aio("a"),
    "step ask with a key": lambda: ask.with_key("k")("a"),
    "workflow child": lambda: child(),
    "sleep.aio": lambda: sleep.aio(1),
    "approval 'send'": lambda: approval.aio("send"),
    "wait_for 'paid'": lambda: wait_for.aio("paid"),
    "checkpoint 'half'": lambda: checkpoint.aio("half"),
    "command true": lambda: command.aio(["true"], effect="idempotent"),
}


@pytest.mark.parametrize("what", list(CALLS))
def test_a_call_without_await_fails_the_run_and_is_named(hf, act, what):
    """And Python does not warn of a coroutine that the user has never heard of."""

    async def plot():
        CALLS[what]()
        return "done"

    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(NotAwaited, match=what.partition(" with ")[0].replace("(", r"\(")):
            hf.with_id("x").run(act(plot))
        gc.collect()
    assert hf.get("x").status == "failed"


def test_the_mended_run_continues(open_hf, act, crashes):
    ran = []

    async def forgetful():
        ask("a")

    async def mended():
        ran.append(await ask("a"))
        return "done"

    first = open_hf()
    with pytest.raises(NotAwaited):
        first.with_id("x").run(act(forgetful))
    crashes.bury(first)
    second = open_hf()
    act(mended)
    assert second.resume("x").result(30) == "done"
    assert ran == ["a"]


def test_an_error_of_the_code_stays_and_has_a_note(hf, act):
    async def plot():
        ask("a")
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        hf.run(act(plot))
    assert "step ask was called without `await`" in caught.value.__notes__[0]


def test_what_is_awaited_in_any_way_is_not_forgotten(hf, act):
    """Tasks, gather, a wait that is given up before it began, a call that was closed, a hundred in a row."""

    async def plot():
        task = asyncio.create_task(ask("a"))
        await gather(ask("b"), ask("c"), limit=1)
        await asyncio.gather(*(ask(str(n)) for n in range(100)))
        dropped = asyncio.create_task(ask("d"))
        dropped.cancel()
        await asyncio.wait([dropped])
        ask("e").close()
        async with asyncio.timeout(5):
            await ask("f")
        for n in range(100):
            await ask(str(n))
        return await task

    assert hf.run(act(plot)) == "a"


def test_start_without_await_in_a_loop_is_told(tmp_path, act, caplog):
    """`hf.start(...)` there raises nothing by itself: its error would be lost."""

    async def bad():
        raise ValueError("lost")

    async def main():
        async with Holdfast(tmp_path, durability="process") as hf:
            hf.with_id("x").start(act(bad))
            while not any(run.status == "failed" for run in await hf.aio.runs()):
                await asyncio.sleep(0.01)

    with caplog.at_level(logging.WARNING, "holdfast"):
        asyncio.run(main())
    assert "run x was started and never awaited; it ended with ValueError: lost" in caplog.text


def test_an_awaited_start_is_not_complained_about(tmp_path, act, caplog):
    async def bad():
        raise ValueError("seen")

    async def main():
        async with Holdfast(tmp_path, durability="process") as hf:
            with pytest.raises(ValueError, match="seen"):
                await hf.start(act(bad))
            hf.start(act(lambda: "nobody asks"))
            await asyncio.sleep(0.3)

    asyncio.run(main())
    assert "never awaited" not in caplog.text


def test_the_status_of_a_run_can_be_read_in_a_loop(tmp_path, act):
    async def main():
        async with Holdfast(tmp_path, durability="process") as hf:
            run = hf.start(act(lambda: 1))
            before = run.status
            await run
            return before, run.status

    before, after = asyncio.run(main())
    assert before in ("pending", "running", "completed")
    assert after == "completed"


def test_a_workflow_outside_a_run_warns_once(recwarn):
    @workflow
    def deploy() -> str:
        return "deployed"

    assert [deploy(), deploy()] == ["deployed", "deployed"]
    told = [str(one.message) for one in recwarn if issubclass(one.category, DetachedStep)]
    assert len(told) == 1
    assert "workflow deploy was called outside every run" in told[0]
    assert "hf.run(deploy, ...)" in told[0]


@pytest.mark.parametrize("colour", ["async", "def"])
def test_a_caller_that_waits_for_a_person_is_told_how(hf, act, caplog, colour):
    """`hf.run` at a gate stands still, and says why and what to type."""

    async def aplot():
        return (await approval.aio("send")).outcome

    def plot():
        return approval("send").outcome

    def decide():
        while "holdfast approve x" not in caplog.text:
            time.sleep(0.01)
        hf.approve("x")

    with caplog.at_level(logging.WARNING, "holdfast"):
        threading.Thread(target=decide, daemon=True).start()
        assert hf.with_id("x").run(act(aplot if colour == "async" else plot)) == "approved"
    opened = next(event for event in hf.events("x") if event.type == "GateOpened")
    place = f"'send#1@{opened.data['digest'][:6]}'"
    assert (
        "run x waits for the approval of 'send': `holdfast show x` shows what is asked; "
        f"`holdfast approve x {place}` or `holdfast reject x {place}`"
    ) in caplog.text


SCRIPT = """
import sys
from holdfast import Holdfast, wait_for, workflow

@workflow
def order():
    return wait_for("paid")

Holdfast(sys.argv[1]).with_id("o1").run(order)
"""


def test_a_script_at_a_gate_says_so_on_stderr(tmp_path):
    script = tmp_path / "order.py"
    script.write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, script, tmp_path / "home"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        process.kill()
    assert line == "run o1 waits for the signal 'paid': `holdfast signal o1 paid VALUE`\n"
