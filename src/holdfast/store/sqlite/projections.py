"""The tables that `projections.sql` makes of the log: made again where other code made them."""

from __future__ import annotations

import apsw

from holdfast.store.sqlite import sql

TABLES = ("runs", "step_rows", "generations", "operations")


def rebuild(db: apsw.Connection) -> None:
    """Make the projections again from the log, and note by which code. The caller holds the transaction."""
    for table in TABLES:
        db.execute(f"DELETE FROM {table}")
    db.execute(sql.query("replay_projections"))
    db.execute(sql.query("set_projections"), (sql.digest("projections.sql"),))


def is_current(db: apsw.Connection) -> bool:
    """Whether the projections were made by the code that reads them now. One that projects an event otherwise
    needs no migration: the tables of a store that another one wrote are made again."""
    made_by: object = db.execute(sql.query("projections")).get
    return made_by == sql.digest("projections.sql")


def renew(db: apsw.Connection) -> None:
    """Make the projections again if other code made them. The caller holds the write gate, and the connection
    is prepared to write."""
    with db:
        if not is_current(db):
            rebuild(db)
