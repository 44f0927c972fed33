"""Swapped, on holdfast: five branches of two questions each, answered in one order, replayed in another."""

from __future__ import annotations

import asyncio
import json

from scene import Scene, Verdict, play, this, verdict

from holdfast import Holdfast, step, workflow

BRANCHES = "abcde"
RIGHT = [[f"answer to {name}1", f"answer to {name}2"] for name in BRANCHES]


@step
async def ask(question: str) -> str:
    await asyncio.sleep(0.1 * (5 - BRANCHES.index(question[0])))
    return f"answer to {question}"


@step
async def crash() -> None:
    this().die_once()


async def branch(name: str) -> list[str]:
    return [await ask(f"{name}1"), await ask(f"{name}2")]


@workflow
async def research() -> list[list[str]]:
    answers = await asyncio.gather(*map(branch, BRANCHES))
    await crash()
    return answers


def app(scene: Scene) -> None:
    async def main() -> None:
        async with Holdfast(scene.home / "store") as hf:
            answers = await hf.with_id("research").start(research)
            scene.note(f"answers {json.dumps(answers)}")

    asyncio.run(main())


def judge(scene: Scene) -> Verdict:
    scene.live("app")
    scene.live("app")
    answers = json.loads(scene.told("answers ")[0])
    wrong = sum(got != right for got, right in zip(answers, RIGHT, strict=True))
    return verdict(
        f"coroutines in `asyncio.gather`: {wrong} of 5 branches got answers of others", plain=wrong == 0
    )


if __name__ == "__main__":
    play(judge, app=app)
