"""Swapped, on DBOS: five branches of two questions each, answered in one order, replayed in another.

Twice: as coroutines in `asyncio.gather`, which its documentation tells not to do, and as child workflows, which it advises.
"""

from __future__ import annotations

import asyncio
import json

from dbos import DBOS, SetWorkflowID
from scene import Scene, Verdict, play, this, verdict

BRANCHES = "abcde"
RIGHT = [[f"answer to {name}1", f"answer to {name}2"] for name in BRANCHES]


@DBOS.step()
async def ask(question: str) -> str:
    await asyncio.sleep(0.1 * (5 - BRANCHES.index(question[0])))
    return f"answer to {question}"


@DBOS.step()
async def crash() -> None:
    this().die_once()


async def branch(name: str) -> list[str]:
    return [await ask(f"{name}1"), await ask(f"{name}2")]


@DBOS.workflow()
async def child(name: str) -> list[str]:
    return await branch(name)


@DBOS.workflow()
async def with_coroutines() -> list[list[str]]:
    answers = await asyncio.gather(*map(branch, BRANCHES), return_exceptions=True)
    await crash()
    return list(answers)


@DBOS.workflow()
async def with_children() -> list[list[str]]:
    handles = [await DBOS.start_workflow_async(child, name) for name in BRANCHES]
    answers = [await handle.get_result() for handle in handles]
    await crash()
    return answers


def app(scene: Scene, form: str) -> None:
    """The first life starts the workflow; the second only launches, which recovers it."""
    again = bool(scene.notes("died"))
    url = f"sqlite:///{scene.home / 'dbos.sqlite'}"
    DBOS(config={"name": "research", "system_database_url": url})
    DBOS.launch()
    if not again:
        with SetWorkflowID("research"):
            asyncio.run(with_children() if form == "children" else with_coroutines())
    answers = DBOS.retrieve_workflow("research").get_result()
    scene.note(f"answers {json.dumps(answers)}")
    DBOS.destroy()


def wrong_by(scene: Scene, form: str) -> int:
    """How many branches of this form got answers of others back."""
    scene = Scene(scene.home / form)
    scene.home.mkdir()
    scene.live("app", form)
    scene.live("app", form)
    answers = json.loads(scene.told("answers ")[0])
    return sum(got != right for got, right in zip(answers, RIGHT, strict=True))


def judge(scene: Scene) -> Verdict:
    by_children, by_coroutines = wrong_by(scene, "children"), wrong_by(scene, "coroutines")
    return verdict(
        f"coroutines in `asyncio.gather`: {by_coroutines} of 5 branches got answers of others, silently (its documentation "
        f"says not to, nothing checks it); as child workflows, which it advises: {by_children} of 5",
        plain=by_coroutines == 0,
        other=by_children == 0,
    )


if __name__ == "__main__":
    play(judge, app=app)
