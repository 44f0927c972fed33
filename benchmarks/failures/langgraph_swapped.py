"""Swapped, on LangGraph: five branches of two questions each, answered in one order, replayed in another.

Twice: as coroutines of tasks in `asyncio.gather`, and as branches of a graph, one node per question.
"""

from __future__ import annotations

import asyncio
import json
import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from scene import Scene, Verdict, play, this, verdict

BRANCHES = "abcde"
RIGHT = [[f"answer to {name}1", f"answer to {name}2"] for name in BRANCHES]


async def answer(question: str) -> str:
    await asyncio.sleep(0.1 * (5 - BRANCHES.index(question[0])))
    return f"answer to {question}"


@task
async def ask(question: str) -> str:
    return await answer(question)


@task
async def crash() -> None:
    await asyncio.sleep(0.5)
    this().die_once()


async def branch(name: str) -> list[str]:
    return [await ask(f"{name}1"), await ask(f"{name}2")]


def flow_of_coroutines(saver: AsyncSqliteSaver) -> Any:
    @entrypoint(checkpointer=saver)
    async def research(state: dict[str, Any]) -> list[list[str]]:
        answers = await asyncio.gather(*map(branch, BRANCHES))
        await crash()
        return list(answers)

    return research


class State(TypedDict):
    answers: Annotated[dict[str, str], operator.or_]


def flow_of_nodes(saver: AsyncSqliteSaver) -> Any:
    builder = StateGraph(State)
    builder.add_node("crash", crash_node)
    for name in BRANCHES:
        builder.add_node(f"{name}1", node(f"{name}1"))
        builder.add_node(f"{name}2", node(f"{name}2"))
        builder.add_edge(START, f"{name}1")
        builder.add_edge(f"{name}1", f"{name}2")
    builder.add_edge([f"{name}2" for name in BRANCHES], "crash")
    return builder.compile(checkpointer=saver)


def node(question: str) -> Callable[[State], Any]:
    async def ask(state: State) -> dict[str, dict[str, str]]:
        return {"answers": {question: await answer(question)}}

    return ask


async def crash_node(state: State) -> dict[str, dict[str, str]]:
    this().die_once()
    return {"answers": {}}


def app(scene: Scene, form: str) -> None:
    async def main() -> None:
        begin = None if scene.notes("died") else {"answers": {}}
        async with AsyncSqliteSaver.from_conn_string(str(scene.home / "checkpoints.sqlite")) as saver:
            flow = flow_of_nodes(saver) if form == "nodes" else flow_of_coroutines(saver)
            answers = await flow.ainvoke(
                begin, {"configurable": {"thread_id": "research"}}, durability="sync"
            )
            if form == "nodes":
                answers = [[answers["answers"][f"{name}{i}"] for i in (1, 2)] for name in BRANCHES]
            scene.note(f"answers {json.dumps(answers)}")

    asyncio.run(main())


def wrong_by(scene: Scene, form: str) -> int:
    """How many branches of this form got answers of others back."""
    scene = Scene(scene.home / form)
    scene.home.mkdir()
    scene.live("app", form)
    scene.live("app", form)
    answers = json.loads(scene.told("answers ")[0])
    return sum(got != right for got, right in zip(answers, RIGHT, strict=True))


def judge(scene: Scene) -> Verdict:
    by_nodes, by_coroutines = wrong_by(scene, "nodes"), wrong_by(scene, "coroutines")
    return verdict(
        f"coroutines of tasks in `asyncio.gather`: {by_coroutines} of 5 branches got answers of others, silently (its "
        f"documentation asks for one order of calls, nothing checks it); as branches of a graph: {by_nodes} of 5",
        plain=by_coroutines == 0,
        other=by_nodes == 0,
    )


if __name__ == "__main__":
    play(judge, app=app)
