"""A store with everything that a repair can lose: runs of all kinds, large values, saved files, archives and
backups; and the bytes of each as they were."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from tests.crash.specimen import DATABASE, LOG, ROOT, cut_off, doubtful, failing, parent, plain

from holdfast import Holdfast, step, workflow
from holdfast.errors import NeedsAttention
from holdfast.workspace.contents.content_store import Contents


@step(effect="workspace")
def write_files(root: str, number: int) -> int:
    for n in range(6):
        Path(root, f"file-{number}-{n}.txt").write_text(f"{number} {n} " * (50 + 400 * n))
    return number


@workflow
def writing(root: str, first: int) -> int:
    return sum(write_files(root, first + n) for n in range(3))


def write_history(home: Path, files: Path) -> None:
    """Make the store, and end this process in the body of a step, as a crash would."""
    files.mkdir()
    hf = Holdfast(home, workspace=files, durability="process")
    tasks = [hf.tasks.create(f"task {n}", body=f"what to do for {n}, in words") for n in range(5)]
    hf.tasks.link(tasks[1].id, tasks[0].id)
    hf.memory.remember("the tide table is in docs/tides.md")
    for name in ("old-1", "old-2"):
        hf.with_id(name).run(plain, 12)
    hf.with_id("old-parent").run(parent)
    hf.with_id("files-1").run(writing, str(files), 1)
    hf.backup()
    hf.archive(timedelta(0))
    hf.with_id("plain").run(plain, 30)
    hf.with_id("parent").run(parent)
    hf.with_id("files-2").run(writing, str(files), 10)
    for name in ("gone-1", "gone-3", "gone-5", "old-3"):  # one bit of a name makes another one of it
        hf.with_id(name).run(plain, 6)
    hf.undo(hf.delete("gone-3").operation)
    hf.delete("gone-1")
    for name in ("doubtful", "settled"):
        try:
            hf.with_id(name).run(doubtful, 3)
        except NeedsAttention:
            pass
    hf.backup()
    hf.settle("settled", "pay_slowly", done=3, by="somebody")
    hf.with_id("settled").run(doubtful, 3)
    try:
        hf.with_id("failing").run(failing)
    except ValueError:
        pass
    hf.tasks.complete(tasks[0].id)
    hf.tasks.note(tasks[1].id, "low tide is at noon")
    hf.tasks.create("a late task")
    hf.delete("gone-5")
    hf.memory.remember("kelp grows half a metre a day")
    hf.with_id("late").run(plain, 20)
    hf.rewind("late", "draw#1", rerun_once=True)
    hf.with_id("files-3").run(writing, str(files), 20)
    hf.mirror_rebuild()
    hf.budgets.set("team", usd="2")
    hf.with_id("cut-off").run(cut_off)


@workflow
def short() -> int:
    return 1


def write_deletions(home: Path, files: Path) -> None:
    """Make a store with many short runs, of which half are deleted, some of them restored: SQLite has split
    pages of the table of the streams, and has left rows of deleted runs as they were."""
    files.mkdir()
    hf = Holdfast(home, workspace=files, durability="process")
    hf.tasks.create("a task")
    chance = random.Random(1)
    names = [f"run-{n:02}" for n in range(72)]
    for name in names:
        hf.with_id(name).run(short)
    chance.shuffle(names)
    deletions = [hf.delete(name) for name in names[:40]]
    for deletion in deletions[::5]:
        hf.undo(deletion.operation)
    for name in (*names[:40:10], *names[40:44]):  # some for the second time
        hf.delete(name)
    hf.mirror_rebuild()
    os._exit(0)


JOURNAL, CARD = "mirror/tasks/journal.jsonl", "mirror/mirror.json"


class Event(NamedTuple):
    position: int
    stream: int
    version: int
    type: str
    time: int
    payload: str
    hash: bytes
    synced: int


@dataclass(frozen=True, repr=False)
class Truth:
    """The files of the store, and what they say."""

    files: dict[str, bytes]
    """Path in the home → its bytes, of the database, its log, backups, archives and packs."""
    lock: bytes
    folded: bytes
    """The database with everything checkpointed into it."""
    names: dict[int, str]
    heads: dict[str, tuple[str, int]]
    """Stream → its kind and version; the kind of one that was archived is `archived`, of one that was deleted
    `deleted`."""
    numbers: dict[str, int]
    """Run or task → its number."""
    events: dict[str, list[Event]]
    """Also those of archived runs, from the backup that has them, and those of deleted runs."""
    rows: dict[str, tuple[Any, ...]]
    """Stream → its row, as the database has it in the end."""
    meta: list[tuple[str, str]]
    blobs: dict[str, bytes]
    contents: dict[str, bytes]
    """Those that the log names."""


def make(home: Path, history: str = "write_history") -> Truth:
    """Let another process write the history and crash; then read it, from a copy."""
    code = "import sys; from pathlib import Path; from tests.crash import repair_specimen as s; "
    code += f"s.{history}(Path(sys.argv[1]), Path(sys.argv[2]))"
    home.parent.mkdir(exist_ok=True)
    place = [str(home), str(home.with_name("files"))]
    environment = os.environ | {"HOLDFAST_MIRROR_DIR": str(home / "mirror")}
    subprocess.run([sys.executable, "-c", code, *place], cwd=ROOT, check=True, timeout=60, env=environment)
    patterns = (
        DATABASE,
        LOG,
        "backups/*",
        "archive/*",
        "workspace/packs/*",
        "workspace/large/*/*",
        "mirror/**/*",
    )
    files = {
        str(path.relative_to(home)): path.read_bytes()
        for one in patterns
        for path in sorted(home.glob(one))
        if path.is_file()
    }
    copy = home.with_name("copy")
    copy.mkdir()
    names: dict[int, str] = {}
    events: dict[str, list[Event]] = {}
    heads: dict[str, tuple[str, int]] = {}
    blobs: dict[str, bytes] = {}
    numbers: dict[str, int] = {}
    for source in (*sorted(name for name in files if name.startswith("backups/")), DATABASE):
        path = copy / Path(source).name
        path.write_bytes(files[source])
        if source == DATABASE:
            (copy / LOG).write_bytes(files[LOG])
        with closing(sqlite3.connect(path)) as db:
            rows = db.execute("SELECT id, name, kind, version FROM streams").fetchall()
            names |= {id: name for id, name, _, _ in rows}
            heads |= {name: (kind, version) for _, name, kind, version in rows}
            numbers = numbers_in(db)
            for id, name, _, _ in rows:
                table = "deleted_events" if heads[name][0] == "deleted" else "events"
                query = f"SELECT position, stream, version, type, time, payload, hash, synced FROM {table}"
                found = [
                    Event(*row) for row in db.execute(f"{query} WHERE stream = ? ORDER BY version", (id,))
                ]
                events[name] = found or events.get(name, [])
            everything = "SELECT id, name, kind, version, hash, epoch, time, number FROM streams"
            whole = {row[1]: row for row in db.execute(everything)}
            meta = db.execute("SELECT key, value FROM meta").fetchall()
            blobs |= dict(db.execute("SELECT hash, data FROM blobs").fetchall())
    folded = (copy / DATABASE).read_bytes()
    # Nothing brings back what only an archived run names: `gc` may remove it at any time.
    shutil.copytree(home, home.with_name("swept"), ignore=shutil.ignore_patterns("owners"))
    with Holdfast(home.with_name("swept")) as hf:
        hf.gc()
    with closing(Contents(home.with_name("swept") / "workspace")) as contents:
        kept = {ref.hex(): contents.read(ref) for ref in contents.refs()}
    lock = (home / "write.lock").read_bytes()
    return Truth(files, lock, folded, names, heads, numbers, events, whole, meta, blobs, kept)


def numbers_in(db: sqlite3.Connection) -> dict[str, int]:
    return dict(db.execute("SELECT name, number FROM streams WHERE number > 0").fetchall())
