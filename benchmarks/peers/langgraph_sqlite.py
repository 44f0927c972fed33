"""LangGraph with its SQLite saver: `langgraph_sqlite.py serve HOME MODE`.

MODE `graph`: a graph with one node per step and `durability="sync"`, its most durable mode: LangGraph waits for the checkpoint
at the end of a super-step. `async`: the same graph in its default mode, which writes while the next node runs. `tasks`: an
entrypoint with one task per step; there "sync" waits at the end of the entrypoint, not of a task. Runs at once share one
saver, in threads, or for coroutines in one loop with its async saver.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
import uuid
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import langgraph_disk
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_flows import ASYNC_FLOWS, FLOWS, begin, config
from measure import kill_to_rerun, seconds, seconds_at_once
from protocol import serve
from sqlite_setting import setting

VICTIM = Path(__file__).with_name("langgraph_victim.py")


@dataclass(frozen=True)
class Mode:
    """How LangGraph is used, and what that promises."""

    form: Literal["graph", "tasks"]
    durability: Literal["sync", "async"]
    promise: str


MODES = {
    "graph": Mode("graph", "sync", "its most durable mode: a step is on the disk before the next one begins"),
    "async": Mode("graph", "async", "its default mode: a step is written while the next one runs"),
    "tasks": Mode(
        "tasks", "sync", "its most durable mode: a task is written while the next one runs, all at the end"
    ),
}


class LangGraphWorker:
    """One open saver for the rates; a kill and a weighing have databases of their own."""

    def __init__(self, home: Path, name: str) -> None:
        self._home = home
        self._mode = MODES[name]
        self._kills = 0
        self._connection = sqlite3.connect(home / "checkpoints.sqlite", check_same_thread=False)
        self._flow = FLOWS[self._mode.form](SqliteSaver(self._connection))
        self._run(1)
        self.version = f"{version('langgraph')}, saver {version('langgraph-checkpoint-sqlite')}"
        sqlite = setting(lambda pragma: self._connection.execute(f"PRAGMA {pragma}").fetchone()[0])
        awaited = ", tasks not awaited" if self._mode.form == "tasks" else ""
        self.setting = f'{sqlite}, durability="{self._mode.durability}"{awaited}'
        self.durability = self._mode.promise

    def sequential(self, steps: int) -> float:
        return steps / seconds(lambda: self._run(steps))

    def many(self, runs: int, steps: int) -> float:
        return runs * steps / seconds_at_once(runs, lambda: self._run(steps))

    def many_async(self, runs: int, steps: int) -> float:
        async def main() -> float:
            async with AsyncSqliteSaver.from_conn_string(str(self._home / "async.sqlite")) as saver:
                await saver.setup()
                flow = ASYNC_FLOWS[self._mode.form](saver)
                began = time.perf_counter()
                await asyncio.gather(*(flow.ainvoke(*self._call(steps), **self._how()) for _ in range(runs)))
                return runs * steps / (time.perf_counter() - began)

        return asyncio.run(main())

    def one_step_runs(self, runs: int) -> float:
        return runs / seconds(lambda: [self._run(1) for _ in range(runs)])

    def kill_to_rerun(self) -> float:
        self._kills += 1
        home = self._home / f"kill-{self._kills}"
        home.mkdir()
        arguments = [str(home), str(home / "marks"), self._mode.form, self._mode.durability]
        return kill_to_rerun([sys.executable, str(VICTIM), *arguments], home / "marks")

    def disk(self, steps: int, size: int) -> dict[str, float]:
        mode = self._mode
        return langgraph_disk.weigh(self._home / "disk", mode.form, steps, size, mode.durability)

    def close(self) -> None:
        self._connection.close()

    def _run(self, steps: int) -> None:
        self._flow.invoke(*self._call(steps), **self._how())

    def _call(self, steps: int) -> tuple[dict[str, object], dict[str, object]]:
        return begin(steps), config(uuid.uuid4().hex, steps)

    def _how(self) -> dict[str, str]:
        return {"durability": self._mode.durability}


if __name__ == "__main__":
    serve(lambda: LangGraphWorker(Path(sys.argv[2]), sys.argv[3]))
