"""DBOS Transact on SQLite: `dbos_sqlite.py serve HOME MODE`, `... victim HOME MARKS` or `... texts HOME STEPS SIZE`.

As its documentation says: a system database URL `sqlite:///...`, workflows called as functions, coroutines started
by `DBOS.start_workflow_async`, recovery by `DBOS.launch`. MODE `shipped` leaves SQLite as DBOS sets it up; `wal`
turns the database to WAL mode first, which its documentation does not mention.
"""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import sqlalchemy
from dbos import DBOS, SetWorkflowID
from measure import bytes_under, kill_to_rerun, seconds, seconds_at_once
from protocol import serve
from sqlite_setting import setting
from workload import RESULT, hang_once, text

DURABILITY = {
    "shipped": "as it ships: a step is on the disk before the next one begins",
    "wal": "not as it ships: a step is on the disk before the next one begins",
}


@DBOS.step()
def work(i: int, prompt: str = "hello") -> dict[str, object]:
    return RESULT


@DBOS.step()
async def awork(i: int, prompt: str = "hello") -> dict[str, object]:
    return RESULT


@DBOS.step()
def write(i: int, size: int) -> str:
    return text(i, size)


@DBOS.step()
def wait(marks: str) -> None:
    hang_once(marks)


@DBOS.workflow()
def sequential(steps: int) -> int:
    for i in range(steps):
        work(i, "do it")
    return steps


@DBOS.workflow()
async def sequential_async(steps: int) -> int:
    for i in range(steps):
        await awork(i, "do it")
    return steps


@DBOS.workflow()
def texts(steps: int, size: int) -> int:
    return sum(len(write(i, size)) for i in range(steps))


@DBOS.workflow()
def killed(marks: str) -> None:
    wait(marks)


def launch(home: Path) -> DBOS:
    url = f"sqlite:///{home / 'dbos.sqlite'}"
    dbos = DBOS(config={"name": "bench", "system_database_url": url, "log_level": "WARNING"})
    DBOS.launch()
    return dbos


class DbosWorker:
    """One launched DBOS for the rates; a kill and a weighing have processes and databases of their own."""

    def __init__(self, home: Path, mode: str) -> None:
        self._home = home
        self._mode = mode
        self._made = 0
        self._prepare(home)
        self._dbos = launch(home)
        # DBOS makes its thread pool the loop's own, and `asyncio.run` would shut that down at its end.
        self._loop = asyncio.Runner()
        self.version = version("dbos")
        self.durability = DURABILITY[mode]
        with self._dbos._sys_db.engine.connect() as connection:
            self.setting = setting(
                lambda name: connection.execute(sqlalchemy.text(f"PRAGMA {name}")).scalar_one()
            )

    def sequential(self, steps: int) -> float:
        return steps / seconds(lambda: sequential(steps))

    def many(self, runs: int, steps: int) -> float:
        return runs * steps / seconds_at_once(runs, lambda: sequential(steps))

    def many_async(self, runs: int, steps: int) -> float:
        async def main() -> float:
            began = time.perf_counter()
            for run in [await DBOS.start_workflow_async(sequential_async, steps) for _ in range(runs)]:
                await run.get_result()
            return runs * steps / (time.perf_counter() - began)

        return self._loop.run(main())

    def one_step_runs(self, runs: int) -> float:
        return runs / seconds(lambda: [sequential(1) for _ in range(runs)])

    def kill_to_rerun(self) -> float:
        home = self._fresh()
        return kill_to_rerun(
            [sys.executable, __file__, "victim", str(home), str(home / "marks")], home / "marks"
        )

    def disk(self, steps: int, size: int) -> dict[str, float]:
        home = self._fresh()
        subprocess.run(
            [sys.executable, __file__, "texts", str(home), str(steps), str(size)],
            check=True,
            stdout=sys.stderr,
        )
        return {"": bytes_under(home) / (steps * size)}

    def close(self) -> None:
        DBOS.destroy()
        self._loop.close()

    def _fresh(self) -> Path:
        self._made += 1
        home = self._home / f"{self._made}"
        home.mkdir()
        self._prepare(home)
        return home

    def _prepare(self, home: Path) -> None:
        if self._mode == "wal":
            database = sqlite3.connect(home / "dbos.sqlite")
            database.execute("PRAGMA journal_mode=wal")
            database.close()


def live(home: Path, marks: str) -> None:
    """The first life starts the workflow; the second only launches, which recovers it."""
    again = Path(marks).exists()
    launch(home)
    if again:
        DBOS.retrieve_workflow("victim").get_result()
    else:
        with SetWorkflowID("victim"):
            killed(marks)
    DBOS.destroy()


def main(what: str, home: str, *rest: str) -> None:
    if what == "serve":
        serve(lambda: DbosWorker(Path(home), rest[0]))
    elif what == "victim":
        live(Path(home), rest[0])
    else:
        launch(Path(home))
        texts(*map(int, rest))
        DBOS.destroy()


if __name__ == "__main__":
    main(*sys.argv[1:])
