"""Discarded siblings, on LangGraph: one of two parallel nodes fails while the other runs; then the thread is tried again.

Twice: with nodes that are plain functions, in threads, and with nodes that are coroutines.
"""

from __future__ import annotations

import asyncio
import operator
import time
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from scene import Scene, Verdict, play, this, times, verdict

CONFIG: Any = {"configurable": {"thread_id": "research"}}


class State(TypedDict):
    found: Annotated[list[str], operator.add]


def fail_once() -> None:
    if not this().notes("failed"):
        this().note("failed")
        raise OSError("no route to host")


def quick(state: State) -> State:
    this().must("began slow")
    fail_once()
    return {"found": ["quick"]}


def slow(state: State) -> State:
    this().body("slow", until="failed long ago")
    return {"found": ["slow"]}


async def aquick(state: State) -> State:
    await this().wait_async("began slow")
    fail_once()
    return {"found": ["quick"]}


async def aslow(state: State) -> State:
    this().note("began slow")
    await this().wait_async("failed long ago")
    this().note("ended slow")
    return {"found": ["slow"]}


def graph_of(saver: Any, *nodes: Any) -> Any:
    builder = StateGraph(State)
    for name, node in zip(("quick", "slow"), nodes, strict=True):
        builder.add_node(name, node)
        builder.add_edge(START, name)
    return builder.compile(checkpointer=saver)


def app(scene: Scene, form: str) -> None:
    begin: Any = None if scene.notes("failed") else {"found": []}
    database = str(scene.home / "checkpoints.sqlite")

    async def main() -> None:
        async with AsyncSqliteSaver.from_conn_string(database) as saver:
            found = await graph_of(saver, aquick, aslow).ainvoke(begin, CONFIG, durability="sync")
            scene.note(f"result {sorted(found['found'])}")

    if form == "coroutines":
        asyncio.run(main())
    else:
        with SqliteSaver.from_conn_string(database) as saver:
            found = graph_of(saver, quick, slow).invoke(begin, CONFIG, durability="sync")
            scene.note(f"result {sorted(found['found'])}")


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
    scene.told("result ['quick', 'slow']")
    return f"began {times(len(scene.notes('began slow')))}, ended {times(len(scene.notes('ended slow')))}"


def judge(scene: Scene) -> Verdict:
    threads, coroutines = lived_twice(scene, "threads"), lived_twice(scene, "coroutines")
    once = "began once, ended once"
    return verdict(
        f"the running sibling, counted over failure and resumption: {threads} as a function, {coroutines} as a coroutine",
        plain=threads == coroutines == once,
        other=once in (threads, coroutines),
    )


if __name__ == "__main__":
    play(judge, app=app)
