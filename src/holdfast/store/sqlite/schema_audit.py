"""Whether the tables, views and indexes of a store are those that its migrations make."""

from __future__ import annotations

from collections.abc import Iterator

import apsw

from holdfast.store.port import Fault
from holdfast.store.sqlite import sql


def verify_schema(db: apsw.Connection) -> Iterator[Fault]:
    """A damaged schema can leave every row as it was, and hide a column from queries that name it."""
    expected = apsw.Connection(":memory:")
    try:
        for _, _, script in sql.migrations():
            expected.execute(script)
        wanted, found = _shape(expected), _shape(db)
    finally:
        expected.close()
    for name in sorted(wanted.keys() | found.keys()):
        if name not in found:
            yield Fault("", 0, f"the schema is damaged: {_text(name)} is missing")
        elif wanted.get(name) != found[name]:
            yield Fault("", 0, f"the schema is damaged: {_text(name)} is not what holdfast makes")


def _shape(db: apsw.Connection) -> dict[str, list[tuple[str, ...]]]:
    """The columns of each object. Names are in hexadecimal: a damaged one may be no text."""
    shape: dict[str, list[tuple[str, ...]]] = {}
    for name, *column in db.execute(sql.query("schema_columns")):
        shape.setdefault(name, []).append(tuple(map(str, column)))
    return shape


def _text(name: str) -> str:
    kind, _, code = name.partition(" ")
    return f"{kind} {bytes.fromhex(code).decode('utf-8', 'backslashreplace')}"
