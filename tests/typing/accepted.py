"""What a type checker must accept, with the types it must see. Never executed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import datetime
from typing import Any, assert_type
from uuid import UUID

from holdfast import (
    CommandFailed,
    CommandResult,
    CrashLoop,
    Holdfast,
    NeedsAttention,
    NotStorable,
    Retry,
    Run,
    RunInterrupted,
    Secret,
    StepTimeout,
    command,
    gather,
    now,
    parallel,
    random,
    sleep,
    step,
    timeout,
    uuid,
    workflow,
)


@step
def length(text: str) -> int:
    return len(text)


@step(retry=Retry(attempts=5), timeout=10)
def ask(q: str, depth: int = 1) -> str:
    return q * depth


@step
async def fetch(url: str) -> bytes:
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
    with timeout(5):
        sleep(1)
    return child(1)


@workflow
def child(n: int) -> str:
    return str(n)


@workflow
async def areport(topics: list[str]) -> bytes:
    pending = fetch("u")
    assert_type(await assert_type(pending, Coroutine[Any, Any, bytes]), bytes)
    assert_type(await ask.aio("kelp"), str)
    assert_type(await command.aio(["ls"]), CommandResult)
    await sleep.aio(1)
    assert_type(await gather(fetch("a"), fetch("b"), limit=2), list[bytes])
    await asyncio.gather(fetch("a"), fetch("b"))
    return b"".join([await fetch(topic) for topic in topics])


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
