"""Everything that the copies of a log still hold, in a scratch database, so that a large log need
not fit into memory.

Nothing in it is trusted: `operations/repairing` decides by the hashes which events to use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import apsw
import msgspec

from holdfast import typed_values
from holdfast.kernel import events as e
from holdfast.store.port import GENESIS, STORE_STREAM, chain
from holdfast.store.sqlite import sql
from holdfast.store.sqlite.salvage.rows import (
    POINTED,
    BlobRow,
    EventRow,
    HeadRow,
    MetaRow,
    NameRow,
    PlaceRow,
    Row,
)
from holdfast.store.sqlite.salvage.stream_names import LOST_KIND, kind_of
from holdfast.store.streams import GONE

OWN, SAME, OLDER, EARLIER = 0, 1, 2, 3
"""How much a copy is trusted: the store's own files, another copy of the same log, a copy from before a
repair (its events are used, but it does not decide where streams end), a copy from before a restore, whose
history may differ."""
REACHED: Final = (0, 2)
"""The ranks of rows that SQLite reads, or would read if no frame before them were damaged."""
_Record = TypeVar("_Record", bound=e.Event)

UNLIKELY = 1 << 40
_LATEST = 1 << 62
"""A damaged event, or one of a file that others wrote, may have any version and time: SQLite could not store
some of them."""


class Candidate(NamedTuple):
    """A possible event of a stream."""

    id: int
    copy: int
    trust: int
    version: int
    type: str
    at: int
    payload: str
    hash: bytes
    position: int
    rank: int

    def chained(self, before: bytes, name: bytes) -> bytes:
        """The hash that it has behind `before`."""
        return chain(before, name, self.version, self.type, self.at, self.payload)


class Head(NamedTuple):
    """A row of `streams` as found."""

    kind: str
    version: int
    hash: bytes
    trust: int
    rank: int
    reach: int


class JournalPlace(NamedTuple):
    """The place of an event in a journal, whose lines are in the order of the log: after the event at
    position `behind`, the last one that is known, in the line `line`."""

    behind: int = 0
    line: int = 0


NO_PLACE: Final = JournalPlace()


class _First(NamedTuple):
    """A possible first event of a stream in a copy."""

    copy: int
    stream: int
    type: str
    at: int
    payload: str
    hash: bytes


class Candidates:
    """A scratch database in `path`. The caller removes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = apsw.Connection(str(path))
        self._db.execute("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE")
        self._db.execute(sql.script("salvage.sql"))
        self._named: dict[tuple[int, str], int] = {}
        self.meta: dict[int, dict[str, str]] = {}
        """Copy → what its table `meta` said."""

    def close(self) -> None:
        self._db.close(True)

    # Adding

    def add_copy(self, label: str, trust: int) -> int:
        self._db.execute("INSERT INTO copies (label, trust) VALUES (?, ?)", (label, trust))
        copy = self._db.last_insert_rowid()
        self.meta[copy] = {}
        self._name(copy, 1, STORE_STREAM)
        return copy

    def trust(self, copy: int, trust: int) -> None:
        self._db.execute("UPDATE copies SET trust = ? WHERE id = ?", (trust, copy))

    def forget(self, copy: int) -> None:
        """Remove a copy that is of another log."""
        for table in ("found", "names", "entries", "heads", "places"):
            self._db.execute(f"DELETE FROM {table} WHERE copy = ?", (copy,))

    def has_events(self, copy: int) -> bool:
        return self._db.execute("SELECT 1 FROM found WHERE copy = ? LIMIT 1", (copy,)).get is not None

    def earlier_incarnations(self) -> set[str]:
        """Those that the store had before a repair, by the records in its own stream."""
        rows = self._db.execute(sql.query("salvaged_repairs"))
        return {one.before for one in _decoded(rows, e.StoreRepaired) if one.before}

    def first_hash(self, copy: int) -> bytes:
        """The hash of the first event of a copy's log, if that is proven; else empty."""
        for first in self._firsts():
            if first[:2] == (copy, 1) and _begins(STORE_STREAM, first):
                return first[-1]
        return b""

    def _firsts(self) -> list[_First]:
        return [_First(*row) for row in self._db.execute(sql.query("salvaged_first_events"))]

    def add_rows(self, copy: int, rows: Iterable[Row]) -> None:
        """Add everything that was read from a database."""
        with self._db:
            for row in rows:
                match row:
                    case EventRow():
                        self._add(copy, row)
                    case HeadRow() if row.version < UNLIKELY and kind_of(row.name):
                        self._db.execute(sql.query("salvage_head"), (copy, *row))
                        self._name(copy, row.stream, row.name)
                    case NameRow() if row.stream > 0 and kind_of(row.name):
                        self._db.execute(sql.query("salvage_entry"), (copy, row.page, *row[:2]))
                    case PlaceRow() if row.rank in REACHED and row.version < UNLIKELY:
                        self._db.execute(sql.query("salvage_place"), (copy, *row[:4]))
                    case BlobRow():
                        self.add_blob(row.hash, row.data)
                    case MetaRow():
                        self.meta[copy].setdefault(row.key, row.value)
                    case _:
                        pass

    def add_event(
        self,
        copy: int,
        name: str,
        version: int,
        type: str,
        at: int,
        payload: str,
        hash: bytes,
        rank: int = 0,
        place: JournalPlace = NO_PLACE,
    ) -> None:
        """An event from a file that names its stream."""
        number = 1 if name == STORE_STREAM else self._named.setdefault((copy, name), -1 - len(self._named))
        self._name(copy, number, name)
        self._add(copy, EventRow(number, version, type, at, payload, hash, 1, 0, rank), place)

    def add_blob(self, hash: str, data: bytes) -> None:
        """A large value; ignored if it does not match its hash."""
        if sha256(data).hexdigest() == hash:
            self._db.execute(sql.query("put_blob"), (hash, data))

    def _add(self, copy: int, row: EventRow, place: JournalPlace = NO_PLACE) -> None:
        if not (0 < row.version < UNLIKELY and -_LATEST < row.at < _LATEST):
            return
        digest = blake2b(repr((row.type, row.at, row.payload, row.hash)).encode(), digest_size=12).digest()
        self._db.execute(
            sql.query("salvage_found"),
            (copy, *row[:6], row.synced, row.position, row.rank, digest, *place),
        )
        if row.stream == 1 and row.type == "StreamCreated":
            for created in _decoded([(row.payload,)], e.StreamCreated):
                if kind_of(created.stream):
                    self._name(copy, row.version + 1, created.stream)

    def _name(self, copy: int, stream: int, name: str) -> None:
        self._db.execute(sql.query("salvage_name"), (copy, stream, name))

    def read_indexes(self) -> None:
        """Read the positions of events and the names of streams from the indexes of the databases. Entries of
        other indexes look the same and are dropped. An entry is the name of a stream if the hash of the
        stream's first event covers it, or if its page agrees with the known names."""
        self._db.execute(sql.query("salvage_no_other_index"))
        self._correct_positions()
        named: list[Any] = self._db.execute(sql.query("salvaged_named_first_events")).fetchall()
        for *row, name in named:
            first = _First(*row)
            if _begins(name, first):
                self._name(first.copy, first.stream, name)
        for page in self._db.execute(sql.query("salvaged_pages_of_names")).fetchall():
            self._db.execute(sql.query("salvage_names_of_page"), page)
        self._drop_disproven_names()

    def _drop_disproven_names(self) -> None:
        """Where a stream has several names in a copy, or a name several streams, a row or a record is
        damaged. The hash of a first event proves one name of its stream; the others are dropped. A head with
        a name that was dropped stays if an event of that name has its hash: then its number is damaged."""
        contested: list[Any] = self._db.execute(sql.query("salvaged_contested_names")).fetchall()
        proven = [(first[0], first[1], name) for *first, name in contested if _begins(name, _First(*first))]
        for one in proven:
            self._db.execute(sql.query("salvage_only_name"), one)
        for one in proven:
            self._name(*one)
        self._db.execute(sql.query("salvage_no_disproven_head"))

    def _correct_positions(self) -> None:
        """Where the table and the index of the events have different positions, one of them is damaged. A
        position is wrong if another event has it, or if it is not between those of the events before and
        after it in the stream. It is unlikely if it is after the end of the log, and if the event before it
        in the log is younger, or the one after it older."""
        ends: dict[int, int] = {}
        misplaced: list[Any] = self._db.execute(sql.query("salvaged_misplaced")).fetchall()
        self._db.executemany(sql.query("salvage_position"), [(0, id) for id, *_ in misplaced])
        for id, copy, stored, indexed in misplaced:
            if copy not in ends:
                end: int = self._db.execute(sql.query("salvaged_end"), (copy,)).get
                ends[copy] = end + len(misplaced)
            possible = [
                (self._disorder(id, one) + (one > ends[copy]), n, one)
                for n, one in enumerate((stored, indexed))
                if one > 0 and self._db.execute(sql.query("salvaged_obstacle"), (id, one)).get is None
            ]
            if possible:
                self._db.execute(sql.query("salvage_position"), (min(possible)[-1], id))

    def _disorder(self, id: int, position: int) -> int:
        """How many of the two events around a position are not there by their time."""
        count: int = self._db.execute(sql.query("salvaged_disorder"), (id, position)).get
        return count

    def name_orphans(self) -> None:
        """Find the names of streams whose rows are lost: other copies may have the same numbers, and the hash
        of a first event covers the name."""
        self._db.execute(sql.query("salvage_names_alike"))
        left = [
            first
            for first in self._firsts()
            if not any(_begins(name, first) for name in self._names_in(first.copy, first.stream))
        ]
        known = self.names() if left else []
        for first in left:
            for name in known:
                if _begins(name, first):
                    self._name(first.copy, first.stream, name)
                    break

    def _names_in(self, copy: int, stream: int) -> list[str]:
        rows = self._db.execute(sql.query("salvaged_names_in"), (copy, stream))
        return [name for (name,) in rows]

    # Reading

    def names(self) -> list[str]:
        return [name for (name,) in self._db.execute(sql.query("salvaged_names"))]

    def of(self, name: str, after: int = 0) -> Iterator[Candidate]:
        """The found events of a stream, by version, the most trusted first."""
        for row in self._db.execute(sql.query("salvaged_events"), (name, after)):
            yield Candidate(*row)

    def event(self, id: int) -> tuple[str, int, str, bytes, int, int, int]:
        """(type, at, payload, hash, synced, position, copy) of a candidate."""
        row: tuple[str, int, str, bytes, int, int, int] = self._db.execute(
            sql.query("salvaged_event"), (id,)
        ).get
        return row

    def journal_place(self, id: int) -> JournalPlace:
        """Where a candidate is in the journal that has it."""
        return JournalPlace(*self._db.execute(sql.query("salvaged_journal_place"), (id,)).get)

    def position(self, name: str, version: int, hash: bytes) -> int:
        """The position of an event in the copy that is trusted most; 0 if none has it with one."""
        found: int | None = self._db.execute(sql.query("salvaged_position"), (name, version, hash)).get
        return found or 0

    def last_position(self) -> int:
        """The last position on which the table and the index of a copy of this log agree; 0 if none has
        both."""
        last: int = self._db.execute(sql.query("salvaged_last_position")).get
        return last

    def has_hash(self, name: str, version: int, hash: bytes) -> bool:
        """Whether some copy has an event of that hash."""
        return self._db.execute(sql.query("salvaged_hash"), (name, version, hash)).get is not None

    def heads(self, name: str) -> list[Head]:
        return [Head(*row) for row in self._db.execute(sql.query("salvaged_heads"), (name,))]

    def places(self, name: str, after: int) -> list[int]:
        """The versions that an index knows of the stream."""
        return [version for (version,) in self._db.execute(sql.query("salvaged_places"), (name, after))]

    def number(self, name: str) -> int:
        """The number of a stream; 0 if no copy that numbers streams has it."""
        for (number,) in self._db.execute(sql.query("salvaged_numbers"), (name,)):
            return int(number)
        return 0

    def number_of(self, id: int) -> int:
        """The number of the stream of a candidate; 0 if it is of a copy that does not number streams."""
        return max(int(self._db.execute(sql.query("salvaged_number_of"), (id,)).get), 0)

    def is_only_earlier(self, name: str) -> bool:
        """Whether only copies of an earlier life of the store have the stream."""
        return bool(self._db.execute(sql.query("salvaged_trust"), (name,)).get == EARLIER)

    def names_of(self, number: int) -> list[str]:
        """The names that copies have for the stream of this number."""
        return [name for (name,) in self._db.execute(sql.query("salvaged_names_of"), (number,))]

    def head_names(self, number: int) -> set[str]:
        """The names in rows of the stream of this number; none if no copy of this log has such a row. If
        there are several, one of the rows is damaged."""
        return {name for (name,) in self._db.execute(sql.query("salvaged_head_names"), (number,))}

    def names_at(self, version: int, hash: str) -> set[str]:
        """The names in rows of streams that have this head; the hash is hexadecimal."""
        rows = self._db.execute(sql.query("salvaged_names_at"), (min(version, UNLIKELY), hash))
        return {name for (name,) in rows}

    def own_rows(self, name: str) -> list[Head]:
        """The stream's rows in the last versions of the pages of the store's own files. If no pointer leads
        to one, those of pages whose pointers are damaged, else those that are left over."""
        kinds = (*GONE, kind_of(name), LOST_KIND)
        rows = [
            row for row in self.heads(name) if row.trust == OWN and row.rank in REACHED and row.kind in kinds
        ]
        best = max((row.reach for row in rows), default=POINTED)
        return [row for row in rows if row.reach == best]

    def own_end(self, name: str) -> int:
        """The last version of a stream that the store's own files have."""
        heads = (row.version for row in self.heads(name) if row.trust == OWN and row.rank in REACHED)
        events = (one.version for one in self.of(name) if one.trust == OWN and one.rank in REACHED)
        return max(0, *heads, *events)

    def archived(self) -> list[tuple[str, int, bytes]]:
        """The streams that the store's own file has as archived, with their heads."""
        return [tuple(row) for row in self._db.execute(sql.query("salvaged_archived"))]

    def deleted(self) -> Iterator[tuple[str, Head]]:
        """The streams that the store's own file has as deleted, with their heads. A row to which no pointer
        leads may be older than one that is also left: a deletion that one of them shows counts."""
        names: list[Any] = self._db.execute(sql.query("salvaged_deleted")).fetchall()
        for (name,) in names:
            rows = self.own_rows(name)
            if all(row.kind == "deleted" or row.reach < POINTED for row in rows):
                yield from ((name, row) for row in rows if row.kind == "deleted")

    def archived_in(self, file: str) -> list[str]:
        """The streams that a record of the store's own stream says are in this archive."""
        rows = self._db.execute(sql.query("salvaged_archivings"))
        return list(dict.fromkeys(one.stream for one in _decoded(rows, e.StreamArchived) if one.file == file))

    def has_blob(self, hash: str) -> bool:
        return self._db.execute(sql.query("salvaged_blob"), (hash,)).get is not None

    def blob(self, hash: str) -> bytes | None:
        data: bytes | None = self._db.execute(sql.query("blob"), (hash,)).get
        return data

    def labels(self) -> dict[int, str]:
        labels: dict[int, str] = dict(self._db.execute(sql.query("salvaged_labels")))
        return labels


def _decoded(payloads: Iterable[tuple[str]], of: type[_Record]) -> Iterator[_Record]:
    """The payloads that can be decoded as an event of this type. SQLite would return texts that are no
    Unicode from some of the others."""
    for (payload,) in payloads:
        try:
            yield typed_values.decode(payload, of)
        except msgspec.DecodeError:
            continue


def _begins(name: str, first: _First) -> bool:
    """Whether this is the first event of the stream of that name."""
    return chain(GENESIS, name.encode(), 1, first.type, first.at, first.payload) == first.hash
