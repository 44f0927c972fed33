"""`repair_store` and what was deleted or restored: rows that SQLite no longer reads decide nothing against
those that it reads, or against the records of the store."""

import json
import random
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.operations.test_repairing import verified
from tests.operations.test_repairing_damaged_rows import PAGE, home, lose, order, replace, row_of, streams

from holdfast import Holdfast
from holdfast.store.sqlite.salvage.candidates import Candidates
from holdfast.store.sqlite.salvage.images import Image, Images
from holdfast.store.sqlite.salvage.records import pointed
from holdfast.store.sqlite.salvage.rows import LEFT_OVER, POINTED, UNKNOWN, HeadRow, rows

__all__ = ["home"]

_LEFT_OVER, _DAMAGED = b"\x0d" + bytes(7), b"\x0d\0\0\xff\xff" + bytes(3)
"""The header of a page without cells, and that of a page whose pointers lead nowhere."""


def write_many(home: Path) -> None:
    """Runs of which many are deleted, some of them restored: the table of the streams has several pages, and
    SQLite splits them, because the kind `deleted` is longer than `run`."""
    with Holdfast(home, durability="process") as hf:
        names = [f"run-{n:02}" for n in range(90)]
        for name in names:
            hf.with_id(name).run(order, 1)
        random.Random(5).shuffle(names)
        deletions = [hf.delete(name) for name in names[:50]]
        for deletion in deletions[:20]:
            hf.undo(deletion.operation)


def heads_in(home: Path) -> list[HeadRow]:
    data = (home / "holdfast.db").read_bytes()
    images = Images(lambda at, size: data[at : at + size], len(data), b"")
    return [row for row in rows(images) if isinstance(row, HeadRow)]


def payload_of(home: Path, type: str, name: str) -> str:
    """The last record of this type about a stream."""
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        ((payload,),) = db.execute(
            "SELECT payload FROM events WHERE stream = 1 AND type = ? AND payload LIKE ? "
            "ORDER BY version DESC LIMIT 1",
            (type, f'{{"stream":"{name}"%'),
        )
    return str(payload)


def damage(home: Path, type: str, name: str) -> None:
    """Make the last record of this type about a stream unreadable."""
    payload = payload_of(home, type, name).encode()
    replace(home, payload, b"\xff" * len(payload))


def version_of(home: Path, type: str, name: str) -> int:
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        ((version,),) = db.execute(
            "SELECT max(version) FROM events WHERE stream = 1 AND type = ? AND payload LIKE ?",
            (type, f'{{"stream":"{name}"%'),
        )
    return int(version)


def cell_of(home: Path, name: str) -> bytes:
    row, number = row_of(home, name), streams(home)[name][0]
    assert len(row) < 128 and number < 128
    return bytes([len(row), number]) + row


def append(home: Path, cell: bytes, header: bytes = _LEFT_OVER) -> None:
    """Add a page with a row in its unallocated space."""
    with (home / "holdfast.db").open("ab") as file:
        file.write((header + bytes(500) + cell).ljust(PAGE, b"\0"))


def kinds(home: Path) -> dict[str, str]:
    return {name: kind for name, (_, kind, _) in streams(home).items()}


def test_a_split_page_left_the_row_of_a_run_that_is_deleted(home: Path) -> None:
    """The records of the deletions are lost: the rows that SQLite reads show what is deleted."""
    write_many(home)
    before = kinds(home)
    found = {(row.name, row.kind) for row in heads_in(home)}
    gone = [name for name, kind in before.items() if kind == "deleted" and (name, "run") in found]
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        texts = db.execute("SELECT payload FROM events WHERE stream = 1 AND type = 'StreamRestored'")
        back = [json.loads(text)["stream"] for (text,) in texts]
    assert len(gone) > 3 and len(back) == 20
    for name in gone:
        damage(home, "StreamDeleted", name)
    for name in back:
        damage(home, "StreamRestored", name)
    report = Holdfast.repair_store(home)
    assert {one.stream for one in report.lost} == {"@store"}
    after = kinds(home)
    assert {name: after[name] for name in before} == before
    verified(home)


@pytest.mark.parametrize("is_deleted", [True, False])
def test_the_record_is_in_a_damaged_frame(home: Path, tmp_path: Path, is_deleted: bool) -> None:
    """SQLite reads no frame of the write-ahead log behind that of the record, but the row is in one, and
    is newer than the row that SQLite reads."""
    with Holdfast(home, durability="process") as hf:
        for name in ("run-a", "run-b"):
            hf.with_id(name).run(order, 2)
        deletion = hf.delete("run-a")
    with Holdfast(home, durability="process") as hf:
        hf.undo(deletion.operation)
        if is_deleted:
            hf.delete("run-a")
        hf.with_id("run-c").run(order, 2)
        copy = tmp_path / "copy"
        shutil.copytree(home, copy, ignore=shutil.ignore_patterns("owners", "*-shm"))
    before = kinds(home)
    assert before["run-a"] == ("deleted" if is_deleted else "run")
    payload = payload_of(home, "StreamDeleted" if is_deleted else "StreamRestored", "run-a").encode()
    log = (copy / "holdfast.db-wal").read_bytes()
    assert payload in log
    (copy / "holdfast.db-wal").write_bytes(log.replace(payload, b"\xff" * len(payload)))
    Holdfast.repair_store(copy)
    after = kinds(copy)
    assert {name: after[name] for name in before} == before
    verified(copy)


def test_how_a_row_is_reached(home: Path) -> None:
    """A row is pointed to, left over, or on a page whose pointers are damaged."""
    write_many(home)
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        live = set(db.execute("SELECT name, kind FROM streams"))
    found = heads_in(home)
    assert {(row.name, row.kind) for row in found if row.reach == POINTED} == live
    assert {row.reach for row in found} == {LEFT_OVER, POINTED}
    data = bytearray((home / "holdfast.db").read_bytes())
    row = row_of(home, "run-80")
    page = data.index(row) // PAGE * PAGE
    whole = pointed(Image(bytes(data[page : page + PAGE]), 0))
    assert whole.is_whole and data.index(row) - page in whole.starts
    for at in range(8 + 2 * len(whole.starts)):
        for bit in range(8):
            damaged = bytearray(data[page : page + PAGE])
            damaged[at] ^= 1 << bit
            now = pointed(Image(bytes(damaged), 0))
            assert not now.is_whole
    data[page] = 0
    (home / "holdfast.db").write_bytes(data)
    assert {row.reach for row in heads_in(home) if row.name == "run-80"} == {UNKNOWN}


@pytest.mark.parametrize(
    ("header", "is_cut_later"), [(_LEFT_OVER, True), (_LEFT_OVER, False), (_DAMAGED, False)]
)
def test_a_row_of_an_earlier_deletion(home: Path, header: bytes, is_cut_later: bool) -> None:
    """The run was restored, as its last record says; its row is lost, and one from before is left. Another
    record is lost, before the restoration or behind it."""
    with Holdfast(home, durability="process") as hf:
        for name in ("run-a", "run-b", "run-c"):
            hf.with_id(name).run(order, 2)
        if not is_cut_later:
            hf.delete("run-b")
        deletion = hf.delete("run-a")
    old = cell_of(home, "run-a")
    with Holdfast(home, durability="process") as hf:
        hf.undo(deletion.operation)
        if is_cut_later:
            hf.delete("run-b")
    before = kinds(home)
    lose(home, version_of(home, "StreamDeleted", "run-b"))
    row = cell_of(home, "run-a")
    replace(home, row, bytes(len(row)))
    append(home, old, header)
    report = Holdfast.repair_store(home)
    assert {one.stream for one in report.lost} == {"@store"}
    after = kinds(home)
    assert {name: after[name] for name in before} == before
    assert verified(home) == {"run-a": "completed", "run-c": "completed"}


@pytest.mark.parametrize(
    ("header", "is_cut_later"), [(_LEFT_OVER, True), (_LEFT_OVER, False), (_DAMAGED, False)]
)
def test_a_row_from_before_a_deletion(home: Path, header: bytes, is_cut_later: bool) -> None:
    """The run is deleted, as its last record says; its row is lost, and one from before is left. Another
    record is lost, before the deletion or behind it."""
    with Holdfast(home, durability="process") as hf:
        for name in ("run-a", "run-b", "run-c"):
            hf.with_id(name).run(order, 2)
        if not is_cut_later:
            hf.delete("run-b")
    old = cell_of(home, "run-a")
    with Holdfast(home, durability="process") as hf:
        deletion = hf.delete("run-a")
        if is_cut_later:
            hf.delete("run-b")
    before = kinds(home)
    lose(home, version_of(home, "StreamDeleted", "run-b"))
    row = cell_of(home, "run-a")
    replace(home, row, bytes(len(row)))
    append(home, old, header)
    Holdfast.repair_store(home)
    after = kinds(home)
    assert {name: after[name] for name in before} == before
    assert verified(home) == {"run-c": "completed"}
    with Holdfast(home, durability="process") as hf:
        hf.undo(deletion.operation)
    assert verified(home) == {"run-a": "completed", "run-c": "completed"}


@pytest.mark.parametrize("header", [_LEFT_OVER, _DAMAGED])
def test_only_old_rows_show_a_deletion(home: Path, header: bytes) -> None:
    """The record and the row that SQLite reads are lost; a row of the deleted run is left, and one from
    before: the run stays deleted."""
    with Holdfast(home, durability="process") as hf:
        for name in ("run-a", "run-b"):
            hf.with_id(name).run(order, 2)
    old = cell_of(home, "run-a")
    with Holdfast(home, durability="process") as hf:
        hf.delete("run-a")
        hf.with_id("run-c").run(order, 2)
    before, row = kinds(home), cell_of(home, "run-a")
    lose(home, version_of(home, "StreamDeleted", "run-a"))
    replace(home, row, bytes(len(row)))
    append(home, old, header)
    append(home, row, header)
    Holdfast.repair_store(home)
    after = kinds(home)
    assert {name: after[name] for name in before} == before
    assert verified(home) == {"run-b": "completed", "run-c": "completed"}


@pytest.mark.parametrize("which", ["first", "last"])
@pytest.mark.parametrize("fields", ["version", "hash", "both"])
def test_a_run_that_was_deleted_twice(home: Path, fields: str, which: str) -> None:
    """It was restored and continued in between, and a row of the first deletion is left: the record of one
    of the deletions has another head, and the run stays deleted, with all its events."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("run-a").run(order, 3)
        deletion = hf.delete("run-a")
    old, first = cell_of(home, "run-a"), payload_of(home, "StreamDeleted", "run-a")
    with Holdfast(home, durability="process") as hf:
        hf.undo(deletion.operation)
        hf.rewind("run-a", "work#2")
        hf.with_id("run-a").run(order, 3)
        deletion = hf.delete("run-a")
        hf.with_id("run-b").run(order, 2)
    before = streams(home)
    append(home, old)
    payload = first if which == "first" else payload_of(home, "StreamDeleted", "run-a")
    wrong = payload
    if fields in ("version", "both"):
        wrong = re.sub(r'"version":\d', '"version":3', wrong)
    if fields in ("hash", "both"):
        wrong = re.sub(r'"hash":".', '"hash":"$', wrong)
    assert len(wrong) == len(payload) or fields != "hash"
    if len(wrong) != len(payload):
        wrong = re.sub(r'"version":\d', '"version":33', wrong)
    replace(home, payload.encode(), wrong.encode())
    report = Holdfast.repair_store(home)
    assert report.lost == ()
    assert streams(home) | {"@store": before["@store"]} == before
    assert verified(home) == {"run-b": "completed"}
    with Holdfast(home, durability="process") as hf:
        hf.undo(deletion.operation)
    assert verified(home) == {"run-a": "completed", "run-b": "completed"}


def test_many_deletions_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With twice as many deletions whose records are lost, twice as many events are read."""
    read = list[int]()
    event = Candidates.event

    def counted(self: Candidates, id: int) -> Any:
        read[-1] += 1
        return event(self, id)

    monkeypatch.setattr(Candidates, "event", counted)
    for count in (20, 40):
        home = tmp_path / str(count)
        with Holdfast(home, durability="process") as hf:
            for n in range(count):
                hf.with_id(f"run-{n}").run(order, 1)
            deletions = [hf.delete(f"run-{n}") for n in range(count)]
        with closing(sqlite3.connect(home / "holdfast.db")) as db:
            db.execute("PRAGMA secure_delete = ON")
            db.execute("DELETE FROM events WHERE stream = 1 AND type = 'StreamDeleted'")
            db.commit()
            db.execute("VACUUM")
        read.append(0)
        Holdfast.repair_store(home)
        assert verified(home) == {}
        with Holdfast(home, durability="process") as hf:
            hf.undo(deletions[7].operation)
        assert verified(home) == {"run-7": "completed"}
    assert read[1] < 2.5 * read[0]
