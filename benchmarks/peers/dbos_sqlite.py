"""DBOS Transact on SQLite: `dbos_sqlite.py serve HOME MODE` or `dbos_sqlite.py victim HOME MARKS`.

As its documentation says: a system database URL `sqlite:///...`, workflows called as functions, many of them by
`DBOS.start_workflow`, recovery by `DBOS.launch`. MODE `shipped` leaves SQLite as DBOS sets it up; `wal`
turns the database to WAL mode first, which its documentation does not mention.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from importlib.metadata import version
from pathlib import Path

import sqlalchemy
from dbos import DBOS, SetWorkflowID
from protocol import RESULT, kill_and_restart, mark, rate, serve

SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")
JOURNALS = {"delete": "rollback journal", "wal": "WAL"}
DURABILITY = {
    "shipped": "as it ships: a step is committed before the next one begins",
    "wal": "not what it ships with: a step is committed before the next one begins",
}


@DBOS.step()
def work(i: int, prompt: str = "hello") -> dict[str, object]:
    return RESULT


@DBOS.workflow()
def sequential(steps: int) -> int:
    for i in range(steps):
        work(i, "do it")
    return steps


@DBOS.step()
def wait(marks: str) -> None:
    if mark(marks) == 1:
        time.sleep(60)


@DBOS.workflow()
def killed(marks: str) -> None:
    wait(marks)


def launch(home: Path) -> DBOS:
    dbos = DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{home / 'dbos.sqlite'}",
            "log_level": "WARNING",
        }
    )
    DBOS.launch()
    return dbos


class DbosWorker:
    def __init__(self, home: Path, mode: str) -> None:
        if mode == "wal":
            _to_wal(home / "dbos.sqlite")
        self._home = home
        self._mode = mode
        self._kills = 0
        self.version = version("dbos")
        self.setting = _setting(launch(home))
        self.durability = DURABILITY[mode]

    def sequential(self, steps: int) -> float:
        return rate(steps, lambda: sequential(steps))

    def many(self, runs: int, steps: int) -> float:
        def work() -> None:
            started = [DBOS.start_workflow(sequential, steps) for _ in range(runs)]
            for run in started:
                run.get_result()

        return rate(runs * steps, work)

    def one_step_runs(self, runs: int) -> float:
        return rate(runs, lambda: [sequential(1) for _ in range(runs)])

    def kill_to_rerun(self) -> float:
        self._kills += 1
        home = self._home / f"kill-{self._kills}"
        home.mkdir()
        if self._mode == "wal":
            _to_wal(home / "dbos.sqlite")
        return kill_and_restart(
            [sys.executable, __file__, "victim", str(home), str(home / "marks")], home / "marks"
        )

    def close(self) -> None:
        DBOS.destroy()


def _to_wal(file: Path) -> None:
    database = sqlite3.connect(file)
    database.execute("PRAGMA journal_mode=wal")
    database.close()


def _setting(dbos: DBOS) -> str:
    """What its own connections say: a setting that another release changes is told as it is there."""
    with dbos._sys_db.engine.connect() as connection:
        journal = connection.execute(sqlalchemy.text("PRAGMA journal_mode")).scalar_one()
        synchronous = connection.execute(sqlalchemy.text("PRAGMA synchronous")).scalar_one()
    return f"SQLite, {JOURNALS.get(journal, journal)}, synchronous={SYNCHRONOUS[synchronous]}"


def victim(home: Path, marks: str) -> None:
    """The first life starts the workflow; the second only launches, which recovers it."""
    again = Path(marks).exists()
    launch(home)
    if again:
        DBOS.retrieve_workflow("victim").get_result()
    else:
        with SetWorkflowID("victim"):
            killed(marks)
    DBOS.destroy()


if __name__ == "__main__":
    what, home, last = sys.argv[1:4]
    if what == "serve":
        serve(lambda: DbosWorker(Path(home), last))
    else:
        victim(Path(home), last)
