"""Bit flips: in every column of every table, and in raw pages of the database file.

Whatever changes in the log or in what is made of it must be found by `audit verify` (`SqliteStore.verify`) or
be refused with an error of the store's family; a flip that is not found must not change anything that can be
read. And without an audit: `load` and `blob`, which runs are built on, give what was written, or an error.
What they show of it (`runs`, `steps`) is read without a look at the hashes: that, only an audit sees.

No hash covers the tables `owners` and `meta`, and whether an event's commit waited for the disk (`synced`: 0,
1): a flip there must do no harm, but is not found. A flip in the write-ahead log is none of these: SQLite
takes it for the end of the log (`run_log`).
"""

from __future__ import annotations

import multiprocessing
import random
import sqlite3
import struct
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.score import Budget, Score
from tests.crash.specimen import (
    COVERED,
    DATABASE,
    LOG,
    TABLES,
    UNCOVERED,
    Content,
    Specimen,
    content_of,
    load,
    make_specimen,
)

from holdfast.errors import StoreError
from holdfast.store.sqlite.store import SqliteStore

FLIPS_PER_COLUMN = 15
PAGE_FLIPS = 1_500
LOG_FLIPS = 100


# What the product says of a changed store


@dataclass
class Verdict:
    faults: list[str] = field(default_factory=list)
    """What `audit verify` says."""
    refused: str = ""
    """The error with which the store refuses to be opened or audited."""
    wrong: list[str] = field(default_factory=list)
    """Errors that are none of the store's, and wrong values that were returned without an error."""
    unseen: bool = False
    """A run was not found, or `runs` and `steps` show something else."""

    @property
    def found(self) -> bool:
        return bool(self.faults or self.refused)


def examine(home: Path, truth: Specimen) -> Verdict:
    """Open, audit and read the store."""
    verdict = Verdict()
    with _refusing(verdict, "opening it"), closing(SqliteStore(home)) as store:
        _audit(store, verdict)
        _read(store, truth, verdict)
    return verdict


def _audit(store: SqliteStore, verdict: Verdict) -> None:
    with _refusing(verdict, "audit verify"):
        for fault in store.verify():
            verdict.faults.append(f"{fault.stream} {fault.what}")


@contextmanager
def _refusing(verdict: Verdict, what: str) -> Iterator[None]:
    """An error of the store's is an answer, any other one is a defect."""
    try:
        yield
    except StoreError as error:
        verdict.refused = f"{type(error).__name__}: {error}"
    except Exception as error:
        verdict.wrong.append(f"{what} raised {error!r}")


def _read(store: SqliteStore, truth: Specimen, verdict: Verdict) -> None:
    """What runs are built on is as it was written, or an error, whether or not there was an audit."""
    reading = Verdict(wrong=verdict.wrong)
    for row in truth.runs:
        with _refusing(reading, f"load({row.id!r})"):
            loaded = load(store, row.id)
            if not loaded:
                verdict.unseen = True
            elif loaded != truth.loads[row.id]:
                known = len(truth.loads[row.id])
                verdict.wrong.append(f"load({row.id!r}) gave {len(loaded)} events, not the {known} written")
        with _refusing(reading, f"steps({row.id!r})"):
            verdict.unseen |= store.steps(row.id) != truth.steps[row.id]
    for hash, data in truth.blobs.items():
        with _refusing(reading, "blob()"):
            if store.blob(hash) != data:
                verdict.wrong.append(f"blob({hash[:12]!r}) gave other bytes than were written")
    with _refusing(reading, "runs()"):
        verdict.unseen |= store.runs() != truth.runs


# Columns


def run_columns(budget: Budget, home: Path, truth: Specimen) -> Score:
    """Some bits of every column."""
    score = Score("bit flip in a column", "every column of every table")
    chance = random.Random(budget.seed)
    for table in TABLES:
        for column in truth.columns[table]:
            for _ in range(budget.of(FLIPS_PER_COLUMN)):
                _write(home, truth.database)
                flip = flip_column(home / DATABASE, table, column, chance)
                if flip:
                    _judge_column(score, table, f"{flip} (seed {budget.seed})", home, truth)
                else:
                    _note(score, f"nothing to flip in {table}.{column}")
    return score


def _judge_column(score: Score, table: str, flip: str, home: Path, truth: Specimen) -> None:
    score.points += 1
    verdict = examine(home, truth)
    score.violations += [f"{flip}: {what}" for what in verdict.wrong]
    if table in UNCOVERED:
        _note(score, f"in {table}, which no hash covers")
    elif verdict.found:
        _note(score, "found")
        _note(score, "of these seen by an audit only", verdict.unseen)
    elif not verdict.wrong:
        _note_harmless(score, flip, home, truth)


def flip_column(path: Path, table: str, column: str, chance: random.Random) -> str:
    """Flip one bit of one value; says which, nothing if there is none to flip."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.text_factory = bytes
        info = db.execute(f"PRAGMA table_info({table})").fetchall()
        types = {row[1].decode(): row[2] for row in info}
        keys = [row[1].decode() for row in info if row[5]]
        rows = db.execute(f"SELECT {column}, {', '.join(keys)} FROM {table} ORDER BY 1, 2").fetchall()
        rows = [row for row in rows if row[0] not in (b"", None)]
        where = " AND ".join(f"{key} = {_bound(types[key])}" for key in keys)
        change = f"UPDATE {table} SET {column} = {_bound(types[column])} WHERE {where}"
        while rows:
            value, *key = rows.pop(chance.randrange(len(rows)))
            bit, changed = _flipped(value, chance)
            try:
                db.execute(change, (changed, *key))
            except sqlite3.IntegrityError:
                continue  # another row has that key
            return f"{table}.{column} of {key}: bit {bit}, {value!r:.60} became {changed!r:.60}"
    return ""


def _bound(type: bytes) -> str:
    """Texts are bound as bytes: a flip may leave them without valid UTF-8."""
    return "CAST(? AS TEXT)" if type == b"TEXT" else "?"


def _flipped(value: int | bytes, chance: random.Random) -> tuple[int, int | bytes]:
    if isinstance(value, int):
        bit = chance.randrange(min(62, max(8, value.bit_length() + 4)))
        return bit, value ^ 1 << bit
    bit = chance.randrange(len(value) * 8)
    changed = bytearray(value)
    changed[bit // 8] ^= 1 << bit % 8
    return bit, bytes(changed)


# Pages


def run_pages(budget: Budget, home: Path, truth: Specimen) -> Score:
    score = Score(
        "bit flip in the file", "header, page headers, cells of tables and indexes, overflow, freelist"
    )
    chance = random.Random(budget.seed)
    regions = regions_of(truth.database)
    for _ in range(budget.of(PAGE_FLIPS)):
        region = chance.choice(sorted(regions))
        start, end = chance.choice(regions[region])
        bit = chance.randrange(start * 8, end * 8)
        changed = bytearray(truth.database)
        changed[bit // 8] ^= 1 << bit % 8
        _write(home, bytes(changed))
        _judge_page(score, f"bit {bit % 8} of byte {bit // 8} ({region}, seed {budget.seed})", home, truth)
    return score


def _judge_page(score: Score, flip: str, home: Path, truth: Specimen) -> None:
    score.points += 1
    verdict = examine(home, truth)
    score.violations += [f"{flip}: {what}" for what in verdict.wrong]
    if verdict.found:
        _note(score, "found by an audit" if verdict.faults else "refused")
        _note(score, "of these seen by an audit only", verdict.unseen)
    elif not verdict.wrong:
        _note_harmless(score, flip, home, truth)


def _note_harmless(score: Score, flip: str, home: Path, truth: Specimen) -> None:
    """A flip that was not found has changed nothing that matters."""
    try:
        content = content_of(home / DATABASE)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        score.violations.append(f"{flip}: not found, and another SQLite cannot read it: {error}")
        return
    differing = [table for table in COVERED if _hashed(content, table) != _hashed(truth.content, table)]
    if differing:
        score.violations.append(f"{flip}: not found, and {', '.join(differing)} changed")
    elif content["events"] != truth.content["events"]:
        _note(score, "in events.synced, which no hash covers")
    else:
        _note(score, "without effect" if content == truth.content else "in owners or meta")


def _hashed(content: Content, table: str) -> list[Any]:
    """The rows without what no hash covers."""
    return [row[:-1] if table.endswith("events") and row[-1] in (0, 1) else row for row in content[table]]


def regions_of(database: bytes) -> dict[str, list[tuple[int, int]]]:
    """What lies where: names of regions → ranges of bytes."""
    size = struct.unpack(">H", database[16:18])[0]
    free = _free_pages(database, size)
    regions: dict[str, list[tuple[int, int]]] = {"file header": [(0, 100)]}
    for start in range(0, len(database), size):
        header = 100 if start == 0 else start
        name = _PAGES.get(database[header])
        if start // size + 1 in free:
            regions.setdefault("freelist", []).append((start, start + size))
        elif name is None:
            regions.setdefault("overflow", []).append((start, start + size))
        else:
            _add_tree_page(regions, name, database, header, start + size)
    return regions


def _add_tree_page(
    regions: dict[str, list[tuple[int, int]]], name: str, database: bytes, header: int, end: int
) -> None:
    cells, content = struct.unpack(">HH", database[header + 3 : header + 7])
    pointers = header + (12 if name.endswith("interior") else 8)
    start = (header if header != 100 else 0) + content
    regions.setdefault(f"{name}, header", []).append((header, pointers + 2 * cells))
    if start < end:  # a table that is empty has a page without cells
        regions.setdefault(f"{name}, cells", []).append((start, end))
    if pointers + 2 * cells < start:
        regions.setdefault("unused", []).append((pointers + 2 * cells, start))


_PAGES = {13: "table", 5: "table interior", 10: "index", 2: "index interior"}


def _free_pages(database: bytes, size: int) -> set[int]:
    free: set[int] = set()
    trunk = struct.unpack(">I", database[32:36])[0]
    while trunk:
        free.add(trunk)
        start = (trunk - 1) * size
        trunk, leaves = struct.unpack(">II", database[start : start + 8])
        free.update(struct.unpack(f">{leaves}I", database[start + 8 : start + 8 + 4 * leaves]))
    return free


# The write-ahead log


def run_log(budget: Budget, home: Path, truth: Specimen) -> Score:
    """A flip in the write-ahead log ends it there: SQLite's checksums tell it from nothing that was ever
    written. What came before is whole; what came after is gone, and no audit can know."""
    score = Score("bit flip in the log", "the write-ahead log: a whole beginning of what was written is left")
    chance = random.Random(budget.seed)
    database, log = truth.cut
    for _ in range(budget.of(LOG_FLIPS)):
        bit = chance.randrange(len(log) * 8)
        changed = bytearray(log)
        changed[bit // 8] ^= 1 << bit % 8
        _write(home, database, bytes(changed))
        _judge_log(score, f"bit {bit % 8} of byte {bit // 8} of the log (seed {budget.seed})", home, truth)
    return score


def _judge_log(score: Score, flip: str, home: Path, truth: Specimen) -> None:
    score.points += 1
    verdict = Verdict()
    with _refusing(verdict, "opening it"), closing(SqliteStore(home)) as store:
        _audit(store, verdict)
    if verdict.found or verdict.wrong:
        score.violations.append(f"{flip}: {[verdict.refused, *verdict.faults, *verdict.wrong]}")
        return
    events = content_of(home / DATABASE)["events"]
    if events != truth.content["events"][: len(events)]:
        score.violations.append(f"{flip}: what is left is no beginning of the log")
    _note(score, "commits lost behind the flip", len(events) < len(truth.content["events"]))


def _write(home: Path, database: bytes, log: bytes = b"") -> None:
    for name in (LOG, f"{DATABASE}-shm"):
        (home / name).unlink(missing_ok=True)
    (home / DATABASE).write_bytes(database)
    if log:
        (home / LOG).write_bytes(log)


def _note(score: Score, name: str, count: int = 1) -> None:
    score.notes[name] = score.notes.get(name, 0) + int(count)


def run(budget: Budget) -> list[Score]:
    """In a process of its own: this one has other things to do meanwhile."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_run, budget).result()


def _run(budget: Budget) -> list[Score]:
    fast = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="flips-", dir=fast if fast.is_dir() else None) as directory:
        home = Path(directory, "home")
        truth = make_specimen(home)
        return [part(budget, home, truth) for part in (run_columns, run_pages, run_log)]
