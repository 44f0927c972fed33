"""The tables that are made from the log, in groups. A group is rebuilt alone if other code made its tables.

A group `runs` is a file `runs.sql`: a view `projected_runs` whose triggers write the group's tables, and a
trigger on `appended` (`log.sql`) that passes on the events that the group looks at. Among them is
`StreamArchived`, which removes the rows of that stream. When a stream is deleted, its rows are removed from
every group, and when it is restored, it is projected again (`deletion.sql`). No group looks at an event of
the hot path (`commit.py`). The tables themselves are in `schema.sql` and the migrations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from holdfast.store.sqlite import sql

_EXACT: Final = Context(prec=100)


class Group(NamedTuple):
    """Tables that are rebuilt together."""

    name: str
    tables: Mapping[str, str]
    """Each table, and the column that is the id of a stream."""
    reads: str = ""
    """A query that copies to a fresh database the events that the triggers read, beside the one that they are
    given."""

    def script(self) -> str:
        return sql.script(f"{self.name}.sql")

    def digest(self) -> str:
        return sql.digest(f"{self.name}.sql")

    def remove(self) -> str:
        """The statement that removes the rows of the stream that is deleted: as when it is archived."""
        return (
            f"INSERT INTO projected_{self.name} "
            "VALUES (NEW.stream, NEW.version, 'StreamArchived', NEW.time, NEW.payload);"
        )

    def project(self) -> str:
        """The statements that project the events of the stream that is restored, then what depends on it."""
        return (
            f"INSERT INTO projected_{self.name} SELECT stream, version, type, time, payload FROM main.events "
            "WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream') "
            f"ORDER BY version;\n    INSERT INTO projected_{self.name} "
            "VALUES (NEW.stream, NEW.version, 'StreamProjected', NEW.time, NEW.payload);"
        )

    def replay(self) -> str:
        """The statement that projects the whole log."""
        return sql.query("replay_projections").replace("projected", f"projected_{self.name}")


GROUPS: Final[Sequence[Group]] = (
    Group(
        "runs",
        {"runs": "stream", "step_rows": "run", "generations": "run", "stages": "run", "operations": "stream"},
        reads="copy_rewound_steps",
    ),
    # The tasks first: emptying the links then touches no count.
    Group(
        "tracker",
        {"tasks": "stream", "task_readiness": "stream", "links": "task", "sessions": "stream"},
        reads="copy_tracked_streams",
    ),
    Group("memory", {"memories": "stream"}),
    Group("authored", {"authored": "stream"}),
    Group("budgets", {"budgets": "stream", "reservations": "stream", "run_spending": "stream"}),
    Group("learning", {"outcomes": "stream"}),
)


_RUN_LIFE: Final = ("RunCreated", "RunClaimed", "RunReleased", "RunCompleted", "RunFailed")


def run_life() -> frozenset[str]:
    """The events of a run's beginning and end that no group but `runs` looks at: `lived` projects these
    (`log.sql`), and none else."""
    others = "".join(group.script() for group in GROUPS if group.name != "runs")
    return frozenset(type for type in _RUN_LIFE if f"'{type}'" not in others)


def prepare(db: apsw.Connection) -> None:
    """Make the views and triggers through which everything is written."""
    db.create_scalar_function("exact_sum", exact_sum, 2, deterministic=True)
    db.execute(sql.script("log.sql"))
    for group in GROUPS:
        db.execute(group.script())
    db.execute(_deletion())


def exact_sum(*numbers: Any) -> str:
    """The sum of two decimal numbers; SQLite would add them as floats. A text of a damaged event that is no
    number counts as 0: an audit finds the event by its hash."""
    return f"{_EXACT.add(*map(_number, numbers)):f}"


def _number(text: Any) -> Decimal:
    try:
        number = Decimal(text)
    except (ArithmeticError, TypeError, ValueError):
        return Decimal(0)
    return number if number.is_finite() else Decimal(0)


def _deletion() -> str:
    """`deletion.sql`, with the statements for every group."""
    removed = "\n    ".join(group.remove() for group in GROUPS)
    projected = "\n    ".join(group.project() for group in GROUPS)
    script = sql.script("deletion.sql")
    return script.replace("-- rows: removed", removed).replace("-- rows: projected", projected)


def rebuild(db: apsw.Connection, groups: Sequence[Group] | None = None) -> None:
    """Make the tables of these groups, or of all, again from the log, and note by which code. The caller
    holds the transaction."""
    for group in GROUPS if groups is None else groups:
        for table in group.tables:
            db.execute(f"DELETE FROM {table}")
        db.execute(group.replay())
    db.execute(sql.query("renumber"))
    db.execute(sql.query("set_projections"), (_noted(),))


def is_current(db: apsw.Connection) -> bool:
    """Whether all tables were made by the code that reads them now. Code that projects an event otherwise
    needs no migration: the tables of a store that another version wrote are rebuilt."""
    made_by: object = db.execute(sql.query("projections")).get
    return made_by == _noted()


def renew(db: apsw.Connection) -> None:
    """Make the tables of those groups again that other code made, in one transaction. The caller holds the
    write lock, and the connection is prepared to write."""
    with db:
        if not is_current(db):
            rebuild(db, _stale(db))


def _noted() -> str:
    """The digest of each group, as `meta` keeps it. A version that does not know a group leaves its digest
    out: it does not write the group's tables, so they are stale when it has written events."""
    return msgspec.json.encode({group.name: group.digest() for group in GROUPS}).decode()


def _stale(db: apsw.Connection) -> list[Group]:
    try:
        made_by = msgspec.json.decode(db.execute(sql.query("projections")).get or "{}", type=dict[str, str])
    except msgspec.DecodeError:  # of a version without groups: the digest of one file
        made_by = {}
    return [group for group in GROUPS if made_by.get(group.name) != group.digest()]
