"""What LangGraph leaves on the disk for steps that return texts, by the ways its documentation has to hold them.

A checkpoint of its SQLite saver has the whole state in it, so what counts is how the state holds the results: the last one
only, all of them in a list with a reducer, or all of them in a `DeltaChannel`, which is in beta.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.channels import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from langgraph_flows import config, loop_of
from measure import bytes_under
from workload import text


def joined(results: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*results, *(one for write in writes for one in write)]


class Last(TypedDict):
    steps: int
    size: int
    done: int
    result: str


class All(TypedDict):
    steps: int
    size: int
    done: int
    results: Annotated[list[str], operator.add]


class AllByDelta(TypedDict):
    steps: int
    size: int
    done: int
    results: Annotated[list[str], DeltaChannel(joined)]


# A node's annotation would be the state it is added for, and `write_all` is added for two.
def write_last(state: Any) -> dict[str, object]:
    return {"done": state["done"] + 1, "result": text(state["done"], state["size"])}


def write_all(state: Any) -> dict[str, object]:
    return {"done": state["done"] + 1, "results": [text(state["done"], state["size"])]}


@task
def write(i: int, size: int) -> str:
    return text(i, size)


def tasks_of(saver: SqliteSaver) -> Any:
    @entrypoint(checkpointer=saver)
    def flow(state: Last) -> int:
        return sum(len(write(i, state["size"]).result()) for i in range(state["steps"]))

    return flow


WAYS = {
    "graph": {
        "the last in the state": lambda saver: loop_of(Last, write_last, saver),
        "all in the state": lambda saver: loop_of(All, write_all, saver),
        "all in a `DeltaChannel`, beta": lambda saver: loop_of(AllByDelta, write_all, saver),
    },
    "tasks": {"": tasks_of},
}


def weigh(home: Path, form: str, steps: int, size: int, durability: str) -> dict[str, float]:
    """Bytes on the disk for each byte that the steps returned, per way to hold them."""
    found = {}
    for number, (way, flow_of) in enumerate(WAYS[form].items()):
        directory = home / f"{number}"
        directory.mkdir(parents=True)
        begin = {"steps": steps, "size": size, "done": 0, "result": "", "results": []}
        with SqliteSaver.from_conn_string(str(directory / "checkpoints.sqlite")) as saver:
            flow_of(saver).invoke(begin, config("texts", steps), durability=durability)
        found[way] = bytes_under(directory) / (steps * size)
    return found
