"""LangGraph with its SQLite saver: `langgraph_sqlite.py serve HOME MODE` or `... victim HOME MARKS MODE`.

MODE `graph`: a StateGraph with one node per step; MODE `tasks`: an entrypoint with one task per step. Both with
`durability="sync"`, the most durable of its modes. It makes LangGraph wait for the checkpoint at the end of a
super-step: that is every step of the graph, but the whole of an entrypoint, whose tasks go on
before their writes are on the disk. Many runs at once share the saver in threads, which was faster here than its async saver.
"""

from __future__ import annotations

import sqlite3
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from protocol import RESULT, kill_and_restart, mark, rate, serve

SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")


class State(TypedDict):
    steps: int
    done: int
    last: dict[str, object]
    marks: str


def work_node(state: State) -> dict[str, object]:
    if state["marks"] and mark(state["marks"]) == 1:
        time.sleep(60)
    return {"done": state["done"] + 1, "last": RESULT}


def more(state: State) -> str:
    return "work" if state["done"] < state["steps"] else END


@task
def work(i: int, marks: str) -> dict[str, object]:
    if marks and mark(marks) == 1:
        time.sleep(60)
    return RESULT


def graph_of(saver: SqliteSaver) -> Any:
    builder = StateGraph(State)
    builder.add_node("work", work_node)
    builder.add_edge(START, "work")
    builder.add_conditional_edges("work", more)
    return builder.compile(checkpointer=saver)


def tasks_of(saver: SqliteSaver) -> Any:
    @entrypoint(checkpointer=saver)
    def flow(state: State) -> int:
        for i in range(state["steps"]):
            work(i, state["marks"]).result()
        return state["steps"]

    return flow


FLOWS: dict[str, Callable[[SqliteSaver], Any]] = {"graph": graph_of, "tasks": tasks_of}
DURABILITY = {
    "graph": "as its documentation advises: a step is committed before the next one begins",
    "tasks": "the same mode: a task's result is committed in the background, the next task does not wait for it",
}


class LangGraphWorker:
    def __init__(self, home: Path, mode: str) -> None:
        self._home = home
        self._mode = mode
        self._kills = 0
        self._connection = sqlite3.connect(home / "checkpoints.sqlite", check_same_thread=False)
        self._flow = FLOWS[mode](SqliteSaver(self._connection))
        self._run(1)
        self.version = f"{version('langgraph')}, saver {version('langgraph-checkpoint-sqlite')}"
        self.setting = self._setting()
        self.durability = DURABILITY[mode]

    def _run(self, steps: int) -> None:
        invoke(self._flow, uuid.uuid4().hex, steps)

    def sequential(self, steps: int) -> float:
        return rate(steps, lambda: self._run(steps))

    def many(self, runs: int, steps: int) -> float:
        with ThreadPoolExecutor(runs) as pool:
            return rate(runs * steps, lambda: list(pool.map(self._run, [steps] * runs)))

    def one_step_runs(self, runs: int) -> float:
        return rate(runs, lambda: [self._run(1) for _ in range(runs)])

    def kill_to_rerun(self) -> float:
        self._kills += 1
        home = self._home / f"kill-{self._kills}"
        home.mkdir()
        command = [sys.executable, __file__, "victim", str(home), str(home / "marks"), self._mode]
        return kill_and_restart(command, home / "marks")

    def close(self) -> None:
        self._connection.close()

    def _setting(self) -> str:
        """What its own connection says."""
        (journal,) = self._connection.execute("PRAGMA journal_mode").fetchone()
        (synchronous,) = self._connection.execute("PRAGMA synchronous").fetchone()
        awaited = "" if self._mode == "graph" else ", tasks' writes not awaited"
        return f'SQLite, {journal.upper()}, synchronous={SYNCHRONOUS[synchronous]}, "sync"{awaited}'


def invoke(flow: Any, thread: str, steps: int, marks: str = "", *, again: bool = False) -> None:
    """Begin a thread, or go on with it as the documentation says: the same thread, None for the input."""
    begin = {"steps": steps, "done": 0, "last": {}, "marks": marks}
    config = {"configurable": {"thread_id": thread}, "recursion_limit": steps + 5}
    flow.invoke(None if again else begin, config, durability="sync")


def victim(home: Path, marks: str, mode: str) -> None:
    again = Path(marks).exists()
    with SqliteSaver.from_conn_string(str(home / "checkpoints.sqlite")) as saver:
        invoke(FLOWS[mode](saver), "victim", 1, marks, again=again)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(lambda: LangGraphWorker(Path(sys.argv[2]), sys.argv[3]))
    else:
        victim(Path(sys.argv[2]), sys.argv[3], sys.argv[4])
