"""What a type checker must accept, with the types it must see. Never executed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import datetime
from decimal import Decimal
from typing import Any, assert_type
from uuid import UUID

from holdfast import (
    CommandFailed,
    CommandResult,
    CrashLoop,
    FileDiff,
    Holdfast,
    Measured,
    NeedsAttention,
    NotStorable,
    Retry,
    Run,
    RunInterrupted,
    Secret,
    StepTimeout,
    changes,
    command,
    gather,
    measure,
    now,
    parallel,
    random,
    recorded,
    sleep,
    snapshot,
    stage,
    step,
    timeout,
    uuid,
    workflow,
)
from holdfast.agents import Agent, CommandAgent, Job, Outcome, ScriptAgent, work


@step
def length(text: str) -> int:
    return len(text)


@step(retry=Retry(attempts=5), timeout=10)
def ask(q: str, depth: int = 1) -> str:
    return q * depth


@step
async def fetch(url: str) -> bytes:
    measure(model="small", input_tokens=1, output_tokens=2, usd=Decimal("0.1"), pages=3, seconds=Decimal(1))
    return url.encode()


def was_sent(to: str, token: Secret) -> str:
    return token.name


@step(effect="once", verify=was_sent)
async def send(to: str, token: Secret) -> str:
    return to


class Client:
    @step(ignore=("self",))
    def call(self, path: str) -> int:
        return len(path)


@workflow
def report(topics: list[str], depth: int = 1) -> str:
    assert_type(ask("kelp"), str)
    assert_type(ask("kelp", depth=2), str)
    assert_type(parallel(length, topics), list[int])
    assert_type(Client().call("/x"), int)
    assert_type(length.with_key("k")("text"), int)
    assert_type(command(["ls"]), CommandResult)
    assert_type(command(["ls", Secret("a", "b")], env={"K": Secret("a", "b")}, stdin="x"), CommandResult)
    assert_type(now(), datetime)
    assert_type(random(), float)
    assert_type(uuid(), UUID)
    assert_type(recorded("depth", lambda: len(topics)), int)
    assert_type(recorded("topics", lambda: topics), list[str])
    before = assert_type(snapshot(), str)
    assert_type(changes(before), list[FileDiff])
    assert_type(changes(before, snapshot()), list[FileDiff])
    command(["ls"], on_line=print, output_limit=1 << 20)
    command(["ls"], on_line=lambda line: line.split())
    with timeout(5):
        sleep(1)
    stage("children")
    assert_type(areport.sync(["kelp"]), bytes)
    assert_type(parallel(aspell, ["a", "b"]), list[int])
    assert_type(parallel(aspell.sync, ["a", "b"]), list[int])
    assert_type(child.sync(1), str)
    return child(1)


@workflow
def child(n: int) -> str:
    return str(n)


@workflow
async def aspell(word: str) -> int:
    return len(word)


@workflow
async def areport(topics: list[str]) -> bytes:
    pending = fetch("u")
    assert_type(await assert_type(pending, Coroutine[Any, Any, bytes]), bytes)
    assert_type(await ask.aio("kelp"), str)
    assert_type(await command.aio(["ls"]), CommandResult)
    await sleep.aio(1)
    before = assert_type(await snapshot.aio(), str)
    assert_type(await changes.aio(before), list[FileDiff])
    await command.aio(["ls"], on_line=print, output_limit=0)
    assert_type(await gather(fetch("a"), fetch("b"), limit=2), list[bytes])
    await asyncio.gather(fetch("a"), fetch("b"))
    stage("children")
    assert_type(await assert_type(child.aio(1), Coroutine[Any, Any, str]), str)
    assert_type(await child.aio(n=1), str)
    assert_type(await gather(child.aio(1), child.aio(2), limit=2), list[str])
    assert_type(await aspell("a"), int)
    assert_type(await aspell.aio("a"), int)
    return b"".join([await fetch(topic) for topic in topics])


class Echo:
    name = "echo"

    async def work(self, job: Job) -> Outcome:
        return Outcome(text=job.prompt)


JOB = Job(goal="greet", prompt="write hello")


@workflow
def agents_in_def() -> str:
    agent: Agent = CommandAgent(["claude", "-p"], parse="claude", env={"MODEL": "small"})
    assert_type(work(agent, JOB, timeout=600), Outcome)
    assert_type(work("claude", JOB, role="developer").text, str)
    return work(ScriptAgent({"other": {"answer": "done"}}), JOB, isolate="copy").session


@workflow
async def agents_in_async() -> tuple[Measured, ...]:
    outcome = await work.aio(Echo(), JOB, retry=Retry(attempts=2))
    assert_type(outcome, Outcome)
    return outcome.measured


def main() -> None:
    with Holdfast("home", durability="process") as hf:
        assert_type(hf.run(report, ["kelp"]), str)
        assert_type(hf.run(report, ["kelp"], depth=2), str)
        assert_type(hf.run(areport, ["kelp"]), bytes)
        assert_type(hf.with_id("kelp-1").run(report, ["kelp"]), str)
        assert_type(hf.start(report, ["kelp"]), Run[str])
        assert_type(hf.start(report, ["kelp"]).result(), str)
        assert_type(hf.start(areport, ["kelp"]), Run[bytes])


def why(run: Run[str]) -> str:
    try:
        return run.result()
    except CommandFailed as error:
        assert_type(error.returncode, int)
    except StepTimeout as error:
        assert_type(error.seconds, float)
    except NotStorable as error:
        assert_type(error.path, str)
    except CrashLoop as error:
        assert_type(error.takeovers, int)
    except (NeedsAttention, RunInterrupted) as error:
        assert_type(error.run_id, str)
    return ""


async def amain() -> None:
    async with Holdfast() as hf:
        assert_type(await hf.start(areport, ["kelp"]), bytes)
        assert_type(await hf.with_id("kelp-1").start(report, ["kelp"]), str)
        assert_type(await hf.aio.run(areport, ["kelp"]), bytes)
        assert_type(await hf.aio.with_id("kelp-1").run(report, ["kelp"]), str)
        assert_type(await (await hf.aio.start(report, ["kelp"])), str)
        assert_type(await hf.aio.resume("kelp-1"), Run[Any])
        runs = await hf.aio.runs()
        assert_type(runs[0].status, str)
        assert_type((await hf.aio.steps("kelp-1"))[0].measured, tuple[Measured, ...])
