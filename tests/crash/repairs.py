"""Random damage to a store and its copies, and `repair`: what can survive is computed beforehand.

The oracle shares no code with the product's salvage. It knows the bytes of every event, large value and saved
content in every file as it was, and which bytes a damage has changed: what is untouched in at least one copy
must be there afterwards; what was never written must not. A store that is repaired must verify, must say what
is lost where anything that is left shows it, and a run that lost its tail must wait for a person.
"""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import random
import shutil
import sqlite3
import struct
import tempfile
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tests.crash.repair_specimen import CARD, JOURNAL, Event, Truth, make, numbers_in
from tests.crash.score import Budget, Score
from tests.crash.specimen import DATABASE, LOG

from holdfast import Holdfast, RepairReport
from holdfast.errors import HoldfastError, StoreCorrupt
from holdfast.store.sqlite.store import SqliteStore
from holdfast.workspace.contents.content_store import Contents

POINTS, OF_DELETIONS = 220, 25
"""Of a store with everything, and of one with many deletions."""
PAGE = 2048
_TARGETS = (DATABASE, DATABASE, DATABASE, "wal", "backup", "archive", "pack", "both", "journal")
_AIMS = ("row", "number", "name", "record", "record", "position", "meta")
_ALIKE = ("old-1", "old-3", "gone-1", "gone-3", "gone-5")
_ENDS = ("StreamArchived", "StreamDeleted")
_FATES = ("StreamDeleted", "StreamRestored")
_HOWS = ("flip", "flips", "zero", "truncate", "delete", "noise")

Changed = dict[str, "bytes | None"]
"""File → its bytes after the damage; None if it was deleted."""


@dataclass
class Damage:
    """What was done to which files, in words and in bytes."""

    words: list[str]
    base: dict[str, bytes]
    """The files before it: with a write-ahead log, or with everything checkpointed."""
    after: Changed
    lock: bytes
    """The lock of the store, which says which store it is."""
    aim: str = ""
    """What one flipped bit was aimed at, if nothing else was damaged; copies may have been deleted."""
    moved: tuple[str, int] = ("", 0)
    """The event (stream, version) whose position may be damaged."""

    def is_untouched(self, file: str, start: int, end: int) -> bool:
        now = self.after.get(file, self.base[file])
        return now is not None and now[start:end] == self.base[file][start:end]


def strike(truth: Truth, chance: random.Random) -> Damage:
    base = dict(truth.files)
    if chance.random() < 0.5:
        del base[LOG]
        base[DATABASE] = truth.folded
    damage = Damage([], base, {}, truth.lock)
    if chance.random() < 0.35:
        _aim(damage, truth, chance)
        return damage
    kind = chance.choice(_TARGETS)
    files = {
        DATABASE: [DATABASE],
        "wal": [LOG] if LOG in base else [DATABASE],
        "backup": [one for one in base if one.startswith("backups/")],
        "archive": [one for one in base if one.startswith("archive/")],
        "pack": [one for one in base if one.startswith("workspace/")],
        "both": [DATABASE],
        "journal": [JOURNAL, CARD],
    }[kind]
    _hit(damage, chance.choice(files), chance)
    if kind in ("backup", "both", "journal"):
        _hit(damage, chance.choice(sorted(base)) if kind == "both" else DATABASE, chance)
    return damage


def strike_deletions(truth: Truth, chance: random.Random) -> Damage:
    """Make the records about a few streams unreadable that were deleted or restored; some of their rows, or
    other bytes of the database, are damaged too."""
    base = dict(truth.files)
    if chance.random() < 0.5:
        del base[LOG]
        base[DATABASE] = truth.folded
    damage = Damage([], base, {}, truth.lock)
    records = [one for one in truth.events["@store"] if one.type in _FATES]
    for event in chance.sample(records, chance.randrange(1, 4)):
        name = json.loads(event.payload)["stream"]
        _erase(damage, event.payload.encode(), f"{event.type} {name}")
        if chance.random() < 0.3:
            _erase(damage, record(None, *truth.rows[name][1:]), f"the row {name}")
    if chance.random() < 0.4:
        _hit(damage, DATABASE, chance, ("flip", "flips", "zero", "noise"))
    return damage


def _erase(damage: Damage, text: bytes, what: str) -> None:
    for file in (DATABASE, LOG):
        if file in damage.base:
            data = damage.after.get(file) or damage.base[file]
            damage.after[file] = data.replace(text, b"\xff" * len(text))
    damage.words.append(f"erase {what}")


def _aim(damage: Damage, truth: Truth, chance: random.Random) -> None:
    """Flip one bit of a row of `streams` or of its number, of a record of the store's own stream, of the name
    in either, of the position of an event, or of a row of `meta`; in one place, or wherever the row is. Other
    copies are left, or not."""
    for copies in ("backups/", "archive/", "mirror/"):
        if chance.random() < 0.5:
            damage.after |= dict.fromkeys(one for one in damage.base if one.startswith(copies))
            damage.words.append(f"delete {copies}")
    damage.aim = chance.choice(_AIMS)
    names = [name for name, (kind, _) in truth.heads.items() if kind != "archived"]
    is_row = damage.aim in ("row", "number") or (damage.aim == "name" and chance.random() < 0.5)
    name = chance.choice([*truth.rows]) if is_row else "@store"
    name = chance.choice(names) if damage.aim == "position" else name
    name = chance.choice(_ALIKE) if damage.aim == "name" and is_row else name
    event = None if is_row else chance.choice(truth.events[name])
    if damage.aim == "name" and event is not None:
        event = chance.choice([one for one in truth.events[name] if _alike_in(one.payload)])
    if damage.aim == "meta":
        row, number = record(*chance.choice(truth.meta)), b""
    elif event is None:
        row, number = record(None, *truth.rows[name][1:]), _varint(truth.rows[name][0])
    else:
        row, number = record(None, *event[1:]), _varint(event.position)
        damage.moved = (name, event.version)
    head = _varint(len(row)) + number
    cell = head + pieces_of(row)[0]
    end = len(head) if damage.aim in ("position", "number") else len(cell)
    bit = chance.choice(range(8 * (len(head) - len(number)), 8 * end))
    if damage.aim == "name":  # 1, 3 and 5 differ in one bit, or two
        alike = name if event is None else _alike_in(event.payload)
        bit = 8 * (cell.index(alike.encode()) + len(alike) - 1) + chance.choice((1, 2))
    places = [
        (file, at)
        for file in (DATABASE, LOG)
        if file in damage.base
        for at in _all_places(damage.base[file], cell)
    ]
    for file, at in places if chance.random() < 0.5 else places[-1:]:
        data = bytearray(damage.after.get(file) or damage.base[file])
        data[at + bit // 8] ^= 1 << bit % 8
        damage.after[file] = bytes(data)
        damage.words.append(f"flip bit {bit} of the {damage.aim} {name} {damage.moved[1]} in {file} at {at}")


def _alike_in(payload: str) -> str:
    """The name in a record that is like another one; empty if it has none."""
    return next((name for name in _ALIKE if f'"stream":"{name}"' in payload), "")


def _all_places(data: bytes, piece: bytes) -> list[int]:
    found, at = [], data.find(piece)
    while at >= 0:
        found.append(at)
        at = data.find(piece, at + 1)
    return found


def _hit(damage: Damage, file: str, chance: random.Random, hows: Sequence[str] = _HOWS) -> None:
    how = chance.choice(hows)
    data = bytearray(damage.after.get(file) or damage.base[file])
    where: Any = ""
    if how == "delete" and (file != LOG or chance.random() < 0.3):
        damage.after[file] = None
        damage.words.append(f"delete {file}")
        return
    if how == "truncate":
        where = chance.randrange(len(data))
        del data[where:]
    elif how == "zero":
        size = chance.choice((PAGE, 4096, 3 * PAGE))
        where = chance.randrange(0, max(len(data) - size, 1), 512)
        data[where : where + size] = bytes(len(data[where : where + size]))
    elif how == "noise":
        size = chance.randrange(1, 700)
        where = chance.randrange(len(data))
        data[where : where + size] = chance.randbytes(len(data[where : where + size]))
    else:
        where = [chance.randrange(len(data)) for _ in range(1 if how == "flip" else chance.randrange(2, 12))]
        for one in where:
            data[one] ^= 1 << chance.randrange(8)
    damage.after[file] = bytes(data)
    damage.words.append(f"{how} {file} at {where}")


# The oracle: what is still there, byte by byte


def _varint(value: int) -> bytes:
    out = [value & 0x7F]
    while value := value >> 7:
        out.append(0x80 | value & 0x7F)
    return bytes(reversed(out))


def _integer(value: int) -> tuple[int, bytes]:
    if value in (0, 1):
        return 8 + value, b""
    for kind, size in ((1, 1), (2, 2), (3, 3), (4, 4), (5, 6), (6, 8)):
        if -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1:
            return kind, value.to_bytes(size, "big", signed=True)
    raise ValueError(value)


def record(*columns: Any) -> bytes:
    """A row as SQLite stores it."""
    types, body = b"", b""
    for one in columns:
        if one is None:
            kind, raw = 0, b""
        elif isinstance(one, int):
            kind, raw = _integer(one)
        elif isinstance(one, str):
            raw = one.encode()
            kind = 13 + 2 * len(raw)
        else:
            raw = one
            kind = 12 + 2 * len(raw)
        types += _varint(kind)
        body += raw
    return _varint(len(types) + 1) + types + body


def pieces_of(row: bytes) -> list[bytes]:
    """The parts of a row that lie together: on its own page, and on each page that it continues on."""
    if len(row) <= PAGE - 35:
        return [row]
    least = (PAGE - 12) * 32 // 255 - 23
    local = least + (len(row) - least) % (PAGE - 4)
    local = local if local <= PAGE - 35 else least
    return [row[:local], *(row[at : at + PAGE - 4] for at in range(local, len(row), PAGE - 4))]


class Oracle:
    """Where everything lies in the files as they were."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._found: dict[tuple[int, bytes], list[int]] = {}

    def _places(self, data: bytes, piece: bytes) -> list[int]:
        key = (id(data), piece)
        if key not in self._found:
            self._found[key] = _all_places(data, piece)
        return self._found[key]

    def is_in(self, damage: Damage, file: str, row: bytes) -> bool:
        """Whether every part of a row is untouched somewhere in a database file or a write-ahead log."""
        data = damage.base[file]
        parts = pieces_of(row)
        for n, part in enumerate(parts):
            before, behind = (4 if n else 0), (4 if n == 0 and len(parts) > 1 else 0)
            if not any(
                damage.is_untouched(file, at - before, at + len(part) + behind)
                and (file != LOG or self._is_committed(damage, at, len(part)))
                for at in self._places(data, part)
            ):
                return False
        return True

    def _is_committed(self, damage: Damage, at: int, size: int) -> bool:
        """Whether the frame is whole in the file, and the header of one behind it that ends a transaction."""
        data, now = damage.base[LOG], damage.after.get(LOG, damage.base[LOG])
        step = PAGE + 24
        frame = (at - 32) // step
        end = 32 + (frame + 1) * step
        if now is None or len(now) < end or at + size > end:
            return False
        if now[:32] != data[:32]:
            return False
        salt = data[16:24]
        if data[end - step + 8 : end - step + 16] != salt:
            return True  # of an earlier round: it was committed before that ended
        for start in range(end - step, len(now) - step + 1, step):
            head = data[start : start + 24]
            if now[start : start + 24] == head and head[8:16] == salt and head[4:8] != bytes(4):
                return True
        return False

    def survives(self, damage: Damage, event: Event) -> bool:
        row = record(None, *event[1:])
        files = [one for one in damage.base if one in (DATABASE, LOG) or one.startswith("backups/")]
        return any(self.is_in(damage, one, row) for one in files)

    def blob_survives(self, damage: Damage, hash: str) -> bool:
        row = record(hash, self._truth.blobs[hash])
        files = [one for one in damage.base if one in (DATABASE, LOG) or one.startswith("backups/")]
        return any(self.is_in(damage, one, row) for one in files)

    def prefix(self, damage: Damage, name: str) -> int:
        """How many events of a stream must be there afterwards."""
        elsewhere = archived_lines(damage, name) | self._journal_lines(damage, name)
        for n, event in enumerate(self._truth.events[name]):
            if not self.survives(damage, event) and event.payload not in elsewhere:
                return n
        return len(self._truth.events[name])

    def _journal_lines(self, damage: Damage, name: str) -> set[str]:
        """The payloads of a stream whose lines in the journal are untouched. A journal whose card is damaged
        may be of another store, unless the database shows that it is not."""
        data, now = damage.base[JOURNAL], damage.after.get(JOURNAL, damage.base[JOURNAL])
        if now is None or CARD in damage.after:
            return set()
        left = set(now.split(b"\n")[:-1])
        lines = [json.loads(line) for line in data.splitlines() if line in left]
        text = {json.dumps(one["data"], sort_keys=True) for one in lines if one["stream"] == name}
        known = self._truth.events[name]
        return {one.payload for one in known if json.dumps(json.loads(one.payload), sort_keys=True) in text}

    def shows_end_of(self, damage: Damage, name: str) -> bool:
        """Whether the row or the record is untouched that shows that a stream was archived or deleted."""
        row = record(None, *self._truth.rows[name][1:])
        records = [
            event
            for event in self._truth.events["@store"]
            if event.type in _ENDS and json.loads(event.payload)["stream"] == name
        ]
        files = [one for one in (DATABASE, LOG) if one in damage.base]
        return any(self.is_in(damage, one, row) for one in files) or self.survives(damage, records[-1])

    def shows_undo_of(self, damage: Damage, name: str) -> bool:
        """Whether a run was never deleted, or its row or the record is untouched that shows that it was
        restored."""
        row = record(None, *self._truth.rows[name][1:])
        records = [
            event
            for event in self._truth.events["@store"]
            if event.type in _FATES and json.loads(event.payload)["stream"] == name
        ]
        files = [one for one in (DATABASE, LOG) if one in damage.base]
        return (
            not records
            or any(self.is_in(damage, one, row) for one in files)
            or self.survives(damage, records[-1])
        )

    def content_survives(self, damage: Damage, ref: str) -> bool:
        raw = bytes.fromhex(ref)
        for file, data in damage.base.items():
            if file.startswith("backups/") and file not in damage.after and self._in_export(data, raw):
                return True
            if file.startswith("workspace/packs/") and raw in data and self._in_pack(damage, file, raw):
                return True
        return False

    def _in_export(self, data: bytes, raw: bytes) -> bool:
        return any(
            raw in pack for name, pack in self._truth.files.items() if ".pack" in name and pack in data
        )

    def _in_pack(self, damage: Damage, file: str, raw: bytes) -> bool:
        data = damage.base[file]
        now = damage.after.get(file, data)
        if now is None or len(now) != len(data):
            return False
        at, groups, count = struct.unpack_from("<QII", data, len(data) - 56)
        names = at + 16 * groups
        number = next((n for n in range(count) if data[names + 32 * n : names + 32 * n + 32] == raw), None)
        if number is None:
            return False  # another content names it
        place = names + 32 * count + 12 * number
        group = struct.unpack_from("<I", data, place)[0]
        where, stored, _ = struct.unpack_from("<QII", data, at + 16 * group)
        # The groups are found by each other if the footer is damaged.
        whole = damage.is_untouched(file, len(data) - 56, len(data)) or damage.is_untouched(file, at, names)
        return whole and all(
            damage.is_untouched(file, start, start + size)
            for start, size in (
                (at + 16 * group, 16), (at, 8), (names + 32 * number, 32), (place, 12), (where, stored)
            )
        )  # fmt: skip


def archived_lines(damage: Damage, name: str) -> set[str]:
    """The payloads of a run that can be read from the archives, up to the first byte that was changed."""
    found: set[str] = set()
    for file, data in damage.base.items():
        now = damage.after.get(file, data)
        if not file.startswith("archive/") or now is None:
            continue
        same = next(
            (n for n, (a, b) in enumerate(zip(now, data, strict=False)) if a != b), min(len(now), len(data))
        )
        text = zlib.decompressobj(31).decompress(data[:same])
        stream = ""
        for line in text.split(b"\n")[:-1]:
            fields = json.loads(line)
            stream = fields.get("stream", stream)
            if stream == name and "payload" in fields:
                found.add(fields["payload"])
    return found


# One point


def try_one(
    truth: Truth, oracle: Oracle, damage: Damage, home: Path
) -> tuple[list[str], RepairReport | None]:
    """Damage a store, repair it, and compare; what is wrong, in words."""
    write(damage, home)
    with mock.patch.dict(os.environ, HOLDFAST_MIRROR_DIR=str(home / "mirror")):
        return _repair_and_judge(truth, oracle, damage, home)


def _repair_and_judge(
    truth: Truth, oracle: Oracle, damage: Damage, home: Path
) -> tuple[list[str], RepairReport | None]:
    must = {name: oracle.prefix(damage, name) for name in truth.events}
    try:
        report = Holdfast.repair_store(home)
    except StoreCorrupt as error:
        return ([f"refused: {error}"] if any(must.values()) else []), None
    except HoldfastError as error:
        return [f"{type(error).__name__}: {error}"], None
    wrong: list[str] = []
    with closing(SqliteStore(home)) as store:
        wrong += [f"verify: {fault.stream} {fault.what}" for fault in store.verify()]
        there = {name: list(store.entries(name)) for name in truth.events}
        runs = {row.id: row for row in store.runs()}
        archived = {name for name in truth.events if store.archived(name) is not None}
        lost_values = set(report.values)
        for hash, data in truth.blobs.items():
            named = any(f'"blob":"{hash}"' in one.payload for entries in there.values() for one in entries)
            if named and oracle.blob_survives(damage, hash) and store.blob(hash) != data:
                wrong.append(f"value {hash[:12]} is another one")
            if named and not oracle.blob_survives(damage, hash) and hash not in lost_values:
                store.blob(hash)  # it came from a place that the oracle does not know
    with closing(sqlite3.connect(home / DATABASE)) as db:
        now = dict(db.execute("SELECT name, kind FROM streams").fetchall())
    lost = {one.stream: one for one in report.lost}
    for name, (kind, _) in truth.heads.items():
        events = truth.events[name]
        if name == "@store":
            continue
        if kind == "archived":
            wrong += _judge_archived(home, name, events, must[name], damage)
        if kind in ("archived", "deleted"):
            if name in runs and oracle.shows_end_of(damage, name):
                wrong.append(f"{name} was {kind}, and is there again")
            continue
        if now.get(name) == "deleted" and not oracle.shows_undo_of(damage, name):
            continue
        found = [(one.version, one.type, one.at, one.payload, one.hash) for one in there[name]]
        same = 0
        for one, event in zip(found, events, strict=False):
            if one != (event.version, event.type, event.time, event.payload, event.hash):
                break
            same += 1
        added = [one[1] for one in found[same:]]
        if not set(added) <= {"RunNeedsAttention", "StepInDoubt"}:
            wrong.append(f"{name} has {added} behind version {same}, which were never written")
        if same < must[name]:
            wrong.append(f"{name} has {same} events, and {must[name]} were still there")
        if same == len(events) and name in lost:
            wrong.append(f"{name} is whole, and reported as lost")
        if same < len(events):
            wrong += _judge_cut(oracle, damage, name, events, same, lost, runs, archived, bool(report.kept))
    if "@store" in lost and must["@store"] == len(truth.events["@store"]):
        wrong.append("@store is whole in its copies, and reported as lost")
    wrong += _judge_numbers(home, truth, damage)
    wrong += _judge_streams(home, truth, damage, lost)
    wrong += _judge_contents(home, truth, oracle, damage, report)
    again = Holdfast.repair_store(home)
    if again.kept is not None:
        wrong.append(f"a second repair finds {[one.what for one in again.findings]}")
    return wrong, report


def _judge_cut(
    oracle: Oracle, damage: Damage, name: str, events: list[Event], same: int, lost: dict[str, Any],
    runs: dict[str, Any], archived: set[str], repaired: bool,
) -> list[str]:  # fmt: skip
    """A tail that is lost is named, if anything shows it; and its run waits for a person."""
    last = events[-1]
    shown = any(
        oracle.is_in(damage, file, record(None, *event[1:]))
        for file in (DATABASE, LOG)
        if file in damage.base and damage.after.get(file, b"") is not None and not _is_cut(damage)
        for event in events[same:]
    )
    wrong = []
    shown = shown or _shown_in_mirror(damage, name) > same
    if shown and name not in lost:
        wrong.append(f"{name}: versions {same + 1} to {last.version} are lost, and nobody says so")
    row = runs.get(name)
    if (
        name in lost
        and row is not None
        and row.status not in ("needs_attention", "completed", "failed", "cancelled")
    ):
        wrong.append(f"{name} lost its tail and is {row.status}")
    if same == 0 and name in lost and name not in archived and repaired:
        wrong.append(f"{name} is gone, and its name is free")
    return wrong


def _shown_in_mirror(damage: Damage, name: str) -> int:
    """How many events of a run its file in the mirror shows, if neither that nor the card was touched."""
    file = f"mirror/runs/{name}.json"
    if file not in damage.base or file in damage.after or CARD in damage.after:
        return 0
    version: int = json.loads(damage.base[file])["version"]
    return version


def _judge_numbers(home: Path, truth: Truth, damage: Damage) -> list[str]:
    """Runs and tasks that are there have the numbers that they had. Where the copies that show the others may
    be damaged, they have at least the order in which they were created."""
    with closing(sqlite3.connect(home / DATABASE)) as db:
        found = numbers_in(db)
    there = sorted(found.keys() & truth.numbers.keys(), key=truth.numbers.__getitem__)
    ordered = sorted(there, key=found.__getitem__)
    if there != ordered:
        return [f"the order of runs and tasks is {ordered}, and was {there}"]
    if not damage.aim and any(file.startswith(("mirror/", "archive/", "backups/")) for file in damage.after):
        return []
    return [
        f"the number of {name} is {found[name]}, and was {truth.numbers[name]}"
        for name in there
        if found[name] != truth.numbers[name]
    ]


def _judge_streams(home: Path, truth: Truth, damage: Damage, lost: dict[str, Any]) -> list[str]:
    """No stream is made up. One flipped bit removes at most a name, and moves at most the event that it is
    in."""
    with closing(sqlite3.connect(home / DATABASE)) as db:
        names = dict(db.execute("SELECT id, name FROM streams").fetchall())
        rows = db.execute("SELECT stream, version FROM events ORDER BY position").fetchall()
        deleted = db.execute(
            "SELECT s.name, e.version, e.payload, e.hash FROM deleted_events AS e "
            "JOIN streams AS s ON s.id = e.stream ORDER BY s.name, e.version"
        ).fetchall()
    wrong = [
        f"{name} was made up" for name in {*names.values()} - {*truth.heads} if not name.startswith("@lost/")
    ]
    if sum(name.startswith("@lost/") for name in names.values()) > len(truth.events["@store"]):
        wrong.append("there are more lost streams than there were streams")
    if not damage.aim:
        return wrong
    wrong += [f"{name} is gone, and nobody says so" for name in {*truth.heads} - {*names.values()} - {*lost}]
    right = [
        (event.position, name, event.version)
        for name, events in truth.events.items()
        if truth.heads[name][0] not in ("archived", "deleted")
        for event in events
    ]
    there = [(names[stream], version) for stream, version in rows]
    known = {*there} & {(name, version) for _, name, version in right} - {damage.moved}
    if [one for one in there if one in known] != [one[1:] for one in sorted(right) if one[1:] in known]:
        wrong.append("the events have another order")
    for name, (kind, _) in truth.heads.items():
        left = [one[1:] for one in deleted if one[0] == name]
        if kind == "deleted" and name not in lost:
            whole = [(one.version, one.payload, one.hash) for one in truth.events[name]]
            if left != whole:
                wrong.append(
                    f"the deleted run {name} has {len(left)} of {len(whole)} events, and nobody says so"
                )
    return wrong


def _is_cut(damage: Damage) -> bool:
    """Without a part of the log, what is in the file may be older than what is not."""
    return any(one is not None and len(one) < len(damage.base[file]) for file, one in damage.after.items())


def _judge_archived(home: Path, name: str, events: list[Event], must: int, damage: Damage) -> list[str]:
    if not any(
        file.startswith("archive/") and damage.after.get(file, b"") is not None for file in damage.base
    ):
        return []
    found = []
    for file in (home / "archive").glob("*.gz"):
        stream = ""
        for line in gzip.decompress(file.read_bytes()).splitlines():
            fields = json.loads(line)
            stream = fields.get("stream", stream)
            if stream == name and "payload" in fields:
                found.append((fields["version"], fields["payload"], fields["hash"]))
    known = [(one.version, one.payload, one.hash.hex()) for one in events]
    if found != known[: len(found)]:
        return [f"the archive has another history of {name}"]
    return (
        [f"the archive has {len(found)} events of {name}, and {must} were still there"]
        if len(found) < must
        else []
    )


def _judge_contents(
    home: Path, truth: Truth, oracle: Oracle, damage: Damage, report: RepairReport
) -> list[str]:
    wrong = []
    with closing(Contents(home / "workspace")) as contents:
        bad = contents.verify()
        if bad:
            wrong.append(f"contents are damaged: {bad}")
        here = {ref.hex() for ref in contents.refs()}
    named = any(one.place.startswith("workspace/") for one in report.findings)  # no snapshot may be left
    named = named or any(one.stream.startswith("files-") for one in report.lost)  # nor a run that had them
    for ref in truth.contents:
        if ref not in here and oracle.content_survives(damage, ref):
            wrong.append(f"content {ref[:12]} is gone, and a copy had it")
        if ref not in here and not report.snapshots and not named:
            wrong.append(f"content {ref[:12]} is lost, and nobody says so")
    return wrong


def write(damage: Damage, home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(mode=0o700)
    (home / "write.lock").write_bytes(damage.lock)
    for name, data in {**damage.base, **damage.after}.items():
        if data is not None:
            path = home / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o600)


Strike = Callable[[Truth, random.Random], Damage]


def run_points(truth: Truth, home: Path, seed: int, count: int, strike: Strike = strike) -> Score:
    score = Score("damage, then repair", "database, log, backups, archives, saved files")
    oracle = Oracle(truth)
    for number in range(count):
        damage = strike(truth, random.Random(f"{seed} {number}"))
        try:
            wrong, report = try_one(truth, oracle, damage, home)
        except Exception as error:  # a defect of the product is a violation, and the others are still tried
            wrong, report = [f"{type(error).__name__}: {error}"], None
        score.points += 1
        text = f"point {number} of seed {seed} ({'; '.join(damage.words)})"
        score.violations += [f"{text}: {one}" for one in wrong]
        score.lost += sum("still there" in one or "a copy had it" in one for one in wrong)
        if report is not None:
            for name, yes in (
                ("log written anew", bool(report.taken)),
                ("something lost for good", not report.ok),
                ("nothing damaged that is read", report.kept is None),
            ):
                score.notes[name] = score.notes.get(name, 0) + yes
    return score


def run(budget: Budget) -> list[Score]:
    """`make crash`: so many points. In a process of its own: the variable that says where the mirror is must
    not reach the processes that other kinds start."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        counts = budget.of(POINTS), budget.of(OF_DELETIONS)
        return alone.submit(_run_points, budget.seed, *counts).result()


def _run_points(seed: int, count: int, of_deletions: int) -> list[Score]:
    fast = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="repairs-", dir=fast if fast.is_dir() else None) as directory:
        truth = make(Path(directory, "made"))
        score = run_points(truth, Path(directory, "home"), seed, count)
        truth = make(Path(directory, "deletions", "made"), "write_deletions")
        deletions = run_points(truth, Path(directory, "home"), seed, of_deletions, strike_deletions)
        deletions.what = "records and rows of deleted and restored runs"
        return [score, deletions]
