"""The same work as LangGraph flows: a graph with one node per step, or an entrypoint with one task per step.

Each takes a `State`; with `marks` in it, the first step hangs to be killed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from workload import RESULT, hang_once


class State(TypedDict):
    steps: int
    done: int
    last: dict[str, object]
    marks: str


def begin(steps: int, marks: str = "") -> State:
    """The input of a new thread."""
    return {"steps": steps, "done": 0, "last": {}, "marks": marks}


def config(thread: str, steps: int) -> dict[str, object]:
    return {"configurable": {"thread_id": thread}, "recursion_limit": steps + 5}


def work_node(state: State) -> dict[str, object]:
    if state["marks"]:
        hang_once(state["marks"])
    return {"done": state["done"] + 1, "last": RESULT}


async def awork_node(state: State) -> dict[str, object]:
    return {"done": state["done"] + 1, "last": RESULT}


@task
def work(i: int, marks: str) -> dict[str, object]:
    if marks:
        hang_once(marks)
    return RESULT


@task
async def awork(i: int) -> dict[str, object]:
    return RESULT


def loop_of(state: Any, node: Callable[..., Any], saver: Any) -> Any:
    """A graph that goes through `node` until `done` of its state has come to `steps`."""
    builder = StateGraph(state)
    builder.add_node("work", node)
    builder.add_edge(START, "work")
    builder.add_conditional_edges("work", lambda now: "work" if now["done"] < now["steps"] else END)
    return builder.compile(checkpointer=saver)


def graph_of(saver: Any) -> Any:
    return loop_of(State, work_node, saver)


def async_graph_of(saver: Any) -> Any:
    return loop_of(State, awork_node, saver)


def tasks_of(saver: Any) -> Any:
    @entrypoint(checkpointer=saver)
    def flow(state: State) -> int:
        for i in range(state["steps"]):
            work(i, state["marks"]).result()
        return state["steps"]

    return flow


def async_tasks_of(saver: Any) -> Any:
    @entrypoint(checkpointer=saver)
    async def flow(state: State) -> int:
        for i in range(state["steps"]):
            await awork(i)
        return state["steps"]

    return flow


FLOWS: dict[str, Callable[[Any], Any]] = {"graph": graph_of, "tasks": tasks_of}
ASYNC_FLOWS: dict[str, Callable[[Any], Any]] = {"graph": async_graph_of, "tasks": async_tasks_of}
