"""A customer table in SQLite that is moved into a new one. Each call can be made again."""

import sqlite3
from contextlib import closing
from typing import Any

DATABASE = "customers.db"


def make(rows: int = 5) -> None:
    """The database that the example begins with."""
    with closing(sqlite3.connect(DATABASE)) as database, database:
        database.execute("create table old (id integer primary key, name text)")
        database.executemany("insert into old (name) values (?)", [(f"customer {n}",) for n in range(rows)])
        database.execute("create table new (id integer primary key, name text, region text)")


def ask(query: str) -> list[Any]:
    with closing(sqlite3.connect(DATABASE)) as database:
        return database.execute(query).fetchall()


def preview() -> dict[str, Any]:
    return {"rows": ask("select count(*) from old")[0][0], "example": ask("select * from old limit 1")[0][1]}


def batches(size: int) -> list[dict[str, int]]:
    last = ask("select max(id) from old")[0][0]
    return [{"first": first, "last": min(first + size - 1, last)} for first in range(1, last + 1, size)]


def move(first: int, last: int) -> int:
    with closing(sqlite3.connect(DATABASE)) as database, database:
        database.execute(
            "insert or replace into new select id, name, 'eu' from old where id between ? and ?",
            (first, last),
        )
    return last - first + 1


def verify() -> dict[str, int]:
    counts = {"rows": ask("select count(*) from old")[0][0], "moved": ask("select count(*) from new")[0][0]}
    if counts["rows"] != counts["moved"]:
        raise ValueError(f"{counts['moved']} of {counts['rows']} rows were moved")
    return counts


def drop_old() -> None:
    with closing(sqlite3.connect(DATABASE)) as database, database:
        database.execute("drop table if exists old")


if __name__ == "__main__":
    make()
