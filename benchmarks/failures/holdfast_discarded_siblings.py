"""Discarded siblings, on holdfast: one of two parallel steps fails while the other runs; then the run is tried again.

Twice: with steps that are plain functions, by `parallel`, and with coroutines, by `gather`.
"""

from __future__ import annotations

import asyncio
import time

from scene import Scene, Verdict, play, this, times, verdict

from holdfast import Holdfast, gather, parallel, step, workflow


def fail_once() -> None:
    if not this().notes("failed"):
        this().note("failed")
        raise OSError("no route to host")


@step
def search(name: str) -> str:
    if name == "slow":
        return this().body("slow", until="failed long ago")
    this().must("began slow")
    fail_once()
    return "done quick"


@step
async def asearch(name: str) -> str:
    scene = this()
    if name == "slow":
        scene.note("began slow")
        await scene.wait_async("failed long ago")
        scene.note("ended slow")
        return "done slow"
    await scene.wait_async("began slow")
    fail_once()
    return "done quick"


@workflow
def by_functions() -> list[str]:
    return parallel(search, ["quick", "slow"])


@workflow
async def by_coroutines() -> list[str]:
    return await gather(asearch("quick"), asearch("slow"))


def app(scene: Scene, form: str) -> None:
    async def main() -> None:
        async with Holdfast(scene.home / "store") as hf:
            again = scene.notes("failed")
            run = hf.resume("research") if again else hf.with_id("research").start(by_coroutines)
            scene.note(f"result {await run}")

    if form == "coroutines":
        asyncio.run(main())
    else:
        with Holdfast(scene.home / "store") as hf:
            again = scene.notes("failed")
            run = hf.resume("research") if again else hf.with_id("research").start(by_functions)
            scene.note(f"result {run.result()}")


def lived_twice(scene: Scene, form: str) -> str:
    """What became of the sibling: how often it began and how often it came to its end."""
    scene = Scene(scene.home / form)
    scene.home.mkdir()
    first = scene.start("app", form)
    scene.must("failed")
    time.sleep(0.5)
    scene.note("failed long ago")
    first.wait(30)
    scene.live("app", form)
    scene.told("result ['done quick', 'done slow']")
    return f"began {times(len(scene.notes('began slow')))}, ended {times(len(scene.notes('ended slow')))}"


def judge(scene: Scene) -> Verdict:
    functions, coroutines = lived_twice(scene, "functions"), lived_twice(scene, "coroutines")
    once = "began once, ended once"
    return verdict(
        f"the running sibling, counted over failure and `resume`: {functions} as a function, {coroutines} as a coroutine",
        plain=functions == coroutines == once,
    )


if __name__ == "__main__":
    play(judge, app=app)
