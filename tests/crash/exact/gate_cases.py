"""Patterns in which someone decides while the code does something else."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.crash.exact.basic_steps import ask, ask_slowly, post, send
from tests.crash.exact.cases import case, saw
from tests.crash.oracle.witness import see

from holdfast import approval, parallel, sleep, wait_for


@case("approval while a branch runs", has_gates=True, loops=("asyncio", "uvloop"))
async def approved() -> list[str]:
    """The decision has the same place among the outcomes of the other branch in every replay."""
    found: list[str] = []

    async def gate() -> None:
        decision = await approval.aio("yes-deploy", show="a draft")
        found.append(decision.outcome)
        see("decided", decision.outcome, len(found))
        found.append(saw(await send("deploy")))

    async def other() -> None:
        for item in "abcd":
            found.append(saw(await ask_slowly(item), len(found)))

    await asyncio.gather(gate(), other())
    return found


@case("signal races a timer", has_gates=True)
async def signal_race() -> list[Any]:
    """A signal against `asyncio.timeout`, and against a durable sleep: the same one is first."""
    found: list[Any] = []
    for number in range(2):
        try:
            async with asyncio.timeout(0.022):
                found.append(await wait_for.aio(f"yes-paid{number}"))
        except TimeoutError:
            found.append("too late")
        see("timeout or signal", number, found[-1])
        found.append(saw(await send(f"first {number}")))
    for number in range(2):
        tasks = {
            asyncio.create_task(wait_for.aio(f"yes-shipped{number}")): "signal",
            asyncio.create_task(sleep.aio(0.02)): "sleep",
        }
        done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        found.append([tasks[task] for task in done])
        see("first", number, found[-1])
        for task in left:
            task.cancel()
        found.append(saw(await send(f"second {number}")))
    return found


@case("approvals in worker threads", has_gates=True)
def thread_approvals() -> list[str]:
    """Branches of `parallel` wait for decisions; the list has them in the order in which they came."""
    found: list[str] = []

    def branch(item: str) -> None:
        if item in "ac":
            found.append(approval(f"{'yes' if item == 'a' else 'no'}-{item}", show=item).outcome)
            see("decided", item, list(found))
        found.append(saw(post(f"{item} after {len(found)}")))

    parallel(branch, "abcd")
    return found


@case("first of several approvals", has_gates=True)
async def first_approval() -> list[str]:
    """The gates that were not decided first are given up; the winner decides what is sent."""
    found: list[str] = []

    async def reviewer(name: str) -> str:
        decision = await approval.aio(f"yes-{name}", show=name)
        see("decided", name)
        return f"{name} {decision.outcome}"

    for number in range(2):
        background = asyncio.create_task(ask(f"background {number}"))
        tasks = [asyncio.create_task(reviewer(f"{name}{number}")) for name in "abc"]
        done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        found += [task.result() for task in tasks if task in done]
        found.append(saw(await send(" ".join(found))))
        found.append(saw(await background))
    return found
