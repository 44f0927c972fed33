"""Backups of a live store, and the way back: nothing half made, nothing lost, whoever dies when."""

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

import apsw
import pytest

from holdfast.errors import (
    BadInput,
    NotFound,
    Resync,
    StoreCorrupt,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreHeld,
    StoreNewer,
    StoreReadOnly,
    StoreVanished,
)
from holdfast.store.sqlite import backup
from holdfast.store.sqlite.attachment import read_attachment
from holdfast.store.sqlite.backup import Backup, create, examine, find, holds, rotate
from holdfast.store.sqlite.connection import connect, migrate
from holdfast.store.sqlite.restore import Restored, inspect, restore
from holdfast.store.sqlite.seal import seal
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.histories import EVERYTHING, own, perform, step_append, whole_feed

AT = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
NAME = "holdfast-20260131T120000Z.db"
KEPT = "before-restore-20260131T120000Z"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def store(home: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(home)
    own(store, "r")
    store.append(step_append("r", "a#1"))
    yield store
    store.close()


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    (tmp_path / "shelf").mkdir()
    return tmp_path / "shelf"


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 400 kB. Where nothing can be mounted the test is skipped, but not in CI."""
    point = tmp_path / "mounted"
    point.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", point], capture_output=True, check=False
    )
    if done.returncode and os.environ.get("CI") != "true":
        pytest.skip("mounting needs root")
    assert done.returncode == 0, done.stderr
    yield point
    subprocess.run(["umount", "-l", point], check=True)


def keys(home: Path) -> list[str]:
    """The steps of the run `r`, of a store in which everything holds."""
    store = SqliteStore(home)
    try:
        assert list(store.verify()) == []
        return [row.key for row in store.steps("r")]
    finally:
        store.close()


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def python(script: str, *args: object) -> subprocess.Popen[str]:
    """A process of its own, with the usual names imported."""
    start = (
        "import os, signal, sys\nfrom datetime import UTC, datetime\nfrom pathlib import Path\n"
        "from holdfast.store.sqlite.store import SqliteStore\n"
        "from holdfast.store.sqlite import backup, restore\n"
        "from holdfast.testing.histories import *\n"
    )
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", start + textwrap.dedent(script), *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


# Making one


def test_a_backup_is_one_private_file_with_all_of_the_store(home, shelf, tmp_path):
    """Every event, value and table is in it; SQLite needs nothing else to read it, and neither have we."""
    store = SqliteStore(home)
    for at, commands in enumerate(EVERYTHING, 1):
        perform(store, "r", *commands, at=at)
    made = create(store.path, shelf, AT)
    assert made == Backup(shelf / NAME, AT, made.path.stat().st_size, len(whole_feed(store)), "", None)
    assert made == examine(made.path)
    assert names(shelf) == {NAME}
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    db = sqlite3.connect(made.path)
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert db.execute("PRAGMA journal_mode").fetchall() == [("delete",)]
    db.close()
    (tmp_path / "other").mkdir()
    shutil.copy(made.path, tmp_path / "other" / "holdfast.db")
    other = SqliteStore(tmp_path / "other")
    assert whole_feed(other) == whole_feed(store)
    assert (other.run("r"), other.steps("r")) == (store.run("r"), store.steps("r"))
    assert list(other.verify()) == []
    other.close()
    store.close()


class Attached:
    """Files of a given size, as a backup has them."""

    size = 3_000_000

    def write(self, file: BinaryIO, told: Callable[[int, int], None]) -> int:
        file.write(b"file" * (self.size // 4))
        told(self.size, self.size)
        return 7


def test_files_behind_the_database_do_not_disturb_it(home, shelf, tmp_path):
    """SQLite finds the same database; used as a store in place, it is written to as any other."""
    store = SqliteStore(home)
    for at, commands in enumerate(EVERYTHING, 1):
        perform(store, "r", *commands, at=at)
    plain = create(store.path, shelf, AT)
    told: list[str] = []
    made = create(store.path, shelf, AT, files=Attached(), progress=lambda what, *_: told.append(what))
    assert made == examine(made.path) and "copying files" in told
    assert made.files is not None and (made.files.size, made.files.files) == (3_000_000, 7)
    assert made.size > plain.size + 3_000_000 and plain.files is None
    assert read_attachment(made.path) == made.files and read_attachment(plain.path) is None
    db = sqlite3.connect(made.path)
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()
    (tmp_path / "other").mkdir()
    shutil.copy(made.path, tmp_path / "other" / "holdfast.db")
    other = SqliteStore(tmp_path / "other")
    assert whole_feed(other) == whole_feed(store)
    for number in range(2000):
        own(other, f"r-{number}")
    assert list(other.verify()) == []
    other.close()
    store.close()


def test_writers_go_on_and_the_backup_is_one_moment(store, home, shelf, tmp_path):
    """While a thread and a process write, each backup holds a beginning of each run, without a gap, and
    nothing that was acknowledged before it was asked for is missing."""
    child = python(
        """
        store = SqliteStore(Path(sys.argv[1]))
        own(store, "theirs")
        print("go", flush=True)
        for n in range(100_000):
            store.append(step_append("theirs", f"a#{n}", durable=False))
        """,
        home,
    )
    stop = threading.Event()

    def write() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            store.append(step_append("r", f"b#{n}"))

    writer = threading.Thread(target=write)
    try:
        assert child.stdout is not None and child.stdout.readline() == "go\n"
        writer.start()
        for n in range(5):
            before = {run: len(store.steps(run)) for run in ("r", "theirs")}
            made = create(store.path, shelf, AT + timedelta(seconds=n))
            done = restore(made.path, tmp_path / f"home-{n}", AT)
            copy = SqliteStore(tmp_path / f"home-{n}")
            assert done == Restored(made.events, None)
            assert made.events == len(copy.load("r")) + len(copy.load("theirs")) + len(copy.load("@store"))
            ours, theirs = ([row.key for row in copy.steps(run)] for run in ("r", "theirs"))
            assert ours == ["a#1", *(f"b#{k}" for k in range(1, len(ours)))]
            assert theirs == [f"a#{k}" for k in range(len(theirs))]
            assert (len(ours) >= before["r"], len(theirs) >= before["theirs"]) == (True, True)
            copy.close()
    finally:
        stop.set()
        if writer.ident:
            writer.join()
        child.kill()
        child.communicate()
    assert list(store.verify()) == []


def test_backups_of_one_second_get_names_of_their_own(store, shelf):
    """Also when they are made at once; the newest comes first."""
    threads = [threading.Thread(target=create, args=(store.path, shelf, AT)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.name for path in find(shelf)] == [f"{NAME[:-3]}-3.db", f"{NAME[:-3]}-2.db", NAME]
    assert not any(examine(path).fault for path in find(shelf))


def test_a_damaged_store_gives_no_backup(store, shelf):
    """What does not verify does not become a backup, and nothing is left of the attempt."""
    store._db.execute("UPDATE events SET payload = replace(payload, 'a#1', 'a#2') WHERE type = 'StepRan'")
    with pytest.raises(StoreCorrupt, match="no backup was made"):
        create(store.path, shelf, AT)
    assert names(shelf) == set()


def test_a_copy_that_lacks_events_is_no_backup(store, shelf, monkeypatch):
    """The number of events is compared with the snapshot's."""
    count = backup.count_events
    monkeypatch.setattr(backup, "count_events", lambda db: count(db) + ("partial" not in db.filename))
    with pytest.raises(StoreCorrupt, match="does not have the 5 events"):
        create(store.path, shelf, AT)
    assert names(shelf) == set()


def test_another_store_at_the_same_path_is_not_backed_up_by_mistake(store, home, shelf):
    """A process that has the old one open is told, and writes nothing."""
    made = create(store.path, shelf, AT)
    restore(made.path, home, AT)
    with pytest.raises(StoreVanished, match="replaced"):
        create(store.path, shelf, AT, incarnation=store.incarnation)
    assert names(shelf) == {NAME}


# Where it may go


def test_a_backup_onto_the_store_itself_is_refused(store, home, shelf):
    """By its own name, by its log's, by a link of either kind, also by force: not a byte is changed."""
    os.link(store.path, shelf / "hard.db")
    (shelf / "soft.db").symlink_to(store.path)
    for target in (store.path, home / "holdfast.db-wal", shelf / "hard.db", shelf / "soft.db"):
        with pytest.raises(BadInput, match="name another file"):
            create(store.path, target, AT, force=True)
    store.append(step_append("r", "b#1"))
    assert names(shelf) == {"hard.db", "soft.db"}
    assert list(store.verify()) == []


def test_a_backup_takes_the_place_of_no_other_store(store, home, shelf, tmp_path):
    """One that is in use, whoever uses it; its locks are left alone, too."""
    other = SqliteStore(tmp_path / "other")
    own(other, "q")
    with pytest.raises(BadInput, match="a store in use"):
        create(store.path, other.path, AT, force=True)
    other.append(step_append("q", "a#1"))
    assert list(other.verify()) == []
    other.close()
    for name in ("write.lock", "backup.lock"):
        (home / name).touch()
        with pytest.raises(BadInput, match=r"no backup; name another file$"):
            create(store.path, home / name, AT, force=True)


def test_only_a_backup_is_overwritten_unless_by_force(store, shelf):
    """The old one stays until the new one is whole."""
    (shelf / "notes.txt").write_text("my notes")
    with pytest.raises(BadInput, match="overwrite it with --force"):
        create(store.path, shelf / "notes.txt", AT)
    assert (shelf / "notes.txt").read_text() == "my notes"
    first = create(store.path, shelf / "notes.txt", AT, force=True)
    store.append(step_append("r", "b#1"))
    second = create(store.path, shelf / "notes.txt", AT)
    assert (second.path, second.events) == (first.path, first.events + 1)
    assert names(shelf) == {"notes.txt"}


def test_places_that_cannot_be_taken(store, shelf):
    """A directory that is not there, a device, a file as a directory: a sentence, and nothing is made."""
    with pytest.raises(NotFound, match="no directory"):
        create(store.path, shelf / "not" / "there.db", AT)
    with pytest.raises(BadInput, match="no regular file"):
        create(store.path, Path("/dev/null"), AT, force=True)
    with pytest.raises(NotFound, match="no directory"):
        create(store.path, Path("/dev/null/x.db"), AT)
    with pytest.raises(StoreError, match="cannot be used"):
        create(store.path, shelf / ("x" * 300), AT)
    assert Path("/dev/null").is_char_device()
    assert names(shelf) == set()


def test_a_link_to_a_file_is_followed(store, shelf, tmp_path):
    """The link stays a link."""
    (shelf / "link.db").symlink_to(tmp_path / "far.db")
    assert create(store.path, shelf / "link.db", AT).path == tmp_path / "far.db"
    assert (shelf / "link.db").is_symlink()


# Full and forbidden disks


def test_a_full_disk_gets_no_backup_and_loses_nothing(store, mounted):
    """Seen before the first byte where the room is known, and where a write fails; then there is no
    file, the backup of before is there, and with room again it works."""
    create(store.path, mounted, AT)
    (mounted / "filler").write_bytes(b"x" * (os.statvfs(mounted).f_bavail * 4096))
    with pytest.raises(StoreFull, match=r": [1-9]\d* [KM]B are needed, 0 bytes are free"):
        create(store.path, mounted, AT + timedelta(seconds=1))
    assert names(mounted) == {NAME, "filler"}
    (mounted / "filler").unlink()
    create(store.path, mounted, AT + timedelta(seconds=1))
    assert [examine(path).fault for path in find(mounted)] == ["", ""]


class BadDisk(apsw.VFS):
    """The file system, whose disk cannot be read when it is told so."""

    def __init__(self) -> None:
        super().__init__("bad disk", "")
        self.is_bad = False

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return FileOnBadDisk(self, name, flags)


class FileOnBadDisk(apsw.VFSFile):
    def __init__(self, disk: BadDisk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk

    def xRead(self, amount: int, offset: int) -> bytes:
        if self._disk.is_bad:
            raise apsw.IOError("the disk is bad")
        return super().xRead(amount, offset)


def test_a_disk_that_fails_while_it_is_copied(store, shelf):
    """SQLite has ended the transaction by itself then: the error is that of the disk."""
    store.close()
    disk = BadDisk()
    source = apsw.Connection(str(store.path), vfs="bad disk")
    source.execute("PRAGMA cache_size=1")
    source.pragma("user_version")
    disk.is_bad = True
    with pytest.raises(apsw.IOError):
        backup.copy(source, shelf / "copy.db")
    assert not source.in_transaction
    disk.is_bad = False
    assert backup.copy(source, shelf / "again.db") == 4
    source.close()


@pytest.mark.parametrize("room", [0, 4, 16, 32])
def test_a_disk_that_fills_up_meanwhile(store, mounted, monkeypatch, room):
    """Somebody else takes the room while the backup is written."""
    monkeypatch.setattr(backup, "refuse_without_room", lambda directory, needed: None)
    for n in range(100):
        store.append(step_append("r", f"b#{n}", durable=False))
    (mounted / "filler").write_bytes(b"x" * (os.statvfs(mounted).f_bavail - room // 4 - 1) * 4096)
    with pytest.raises(StoreFull, match="no room left"):
        create(store.path, mounted, AT)
    assert names(mounted) == {"filler"}
    store.append(step_append("r", "c#1"))
    assert list(store.verify()) == []


def test_a_restore_onto_a_full_disk_leaves_the_store(mounted, shelf):
    """The old store is there as it was, and nothing is left of the attempt."""
    home = mounted / "home"
    store = SqliteStore(home)
    own(store, "r")
    made = create(store.path, shelf, AT)
    store.append(step_append("r", "a#1"))
    store.close()
    (mounted / "filler").write_bytes(b"x" * (os.statvfs(mounted).f_bavail - 3) * 4096)
    before = names(home) | {"backup.lock"}
    with pytest.raises(StoreFull):
        restore(made.path, home, AT)
    assert names(home) == before
    (mounted / "filler").unlink()
    assert keys(home) == ["a#1"]
    restore(made.path, home, AT)
    assert keys(home) == []


def test_a_directory_that_cannot_be_written(store, mounted):
    """A sentence that names it."""
    subprocess.run(["mount", "-o", "remount,ro", mounted], check=True)
    with pytest.raises(StoreReadOnly, match=f"{mounted} cannot be used"):
        create(store.path, mounted, AT)


# Listing and rotation


def test_only_files_with_our_names_are_listed_and_removed(store, shelf):
    """What somebody put there, and what only looks like a backup, stays."""
    foreign = {
        "holdfast.db", "holdfast-20260131T120000Z.db.txt", "holdfast-99999999T999999Z.db", "my.db",
        "holdfast-20260131T120000Z-x.db", "xholdfast-20260131T120000Z.db", ".holdfast-1.partial",
        "holdfast-2026013١T120000Z.db",
    }  # fmt: skip
    for name in foreign:
        (shelf / name).touch()
    (shelf / "holdfast-20200101T000000Z.db").mkdir()
    made = [create(store.path, shelf, AT + timedelta(days=n)).path for n in range(5)]
    assert find(shelf) == made[::-1]
    assert rotate(shelf, 3, made[-1]) == made[1::-1]
    assert find(shelf) == made[:1:-1]
    assert names(shelf) == foreign | {"holdfast-20200101T000000Z.db"} | {path.name for path in made[2:]}


def test_the_backup_just_made_stays_whatever_the_clock_says(store, shelf):
    """With others from a time when the clock was ahead, and when only one is kept."""
    ahead = [create(store.path, shelf, AT + timedelta(days=n)).path for n in (700, 800)]
    made = create(store.path, shelf, AT).path
    assert rotate(shelf, 2, made) == ahead[:1]
    assert rotate(shelf, 1, made) == ahead[1:]
    assert find(shelf) == [made]
    assert rotate(shelf, 1, made) == []


def test_stores_that_share_a_directory_do_not_remove_each_others_backups(store, shelf, tmp_path):
    """Nor what is damaged, so that it is not known whose it is."""
    other = SqliteStore(tmp_path / "other")
    own(other, "q")
    theirs = [create(other.path, shelf, AT + timedelta(days=n)).path for n in range(2)]
    other.close()
    damaged = create(store.path, shelf, AT - timedelta(days=1)).path
    flip(damaged, 0)
    ours = [create(store.path, shelf, AT + timedelta(days=n)).path for n in range(2, 5)]
    assert rotate(shelf, 2, ours[-1]) == ours[:1]
    assert find(shelf) == [*ours[:0:-1], *theirs[::-1], damaged]


def test_a_directory_that_is_not_there_has_no_backups(tmp_path):
    assert find(tmp_path / "nowhere") == []


def test_whether_a_backup_has_all_of_the_log(store, home, shelf):
    """Not once another event is there, nor if it is damaged, nor after a restore."""
    made = create(store.path, shelf, AT).path
    assert holds(made, store.path)
    store.append(step_append("r", "b#1"))
    assert not holds(made, store.path)
    made = create(store.path, shelf, AT).path
    assert holds(made, store.path)
    flip(made, made.stat().st_size // 2)
    assert not holds(made, store.path)
    assert not holds(shelf / "nowhere.db", store.path)


# Damage


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x01
    path.write_bytes(data)


def test_a_flipped_bit_anywhere_is_seen_and_refused(store, home, shelf):
    """By the list and by restore, before anything is touched; but in the mark of the seal, without which
    the file is still all of the store, restore does not need it."""
    made = create(store.path, shelf, AT)
    whole = made.path.read_bytes()
    before = names(home)
    for at in (*range(0, len(whole), 997), len(whole) - 1, len(whole) - 33, len(whole) - 40):
        flip(made.path, at)
        assert "damaged" in examine(made.path).fault
        with pytest.raises(StoreCorrupt, match="damaged"):
            restore(made.path, home, AT)
        made.path.write_bytes(whole)
    flip(made.path, len(whole) - 50)
    assert "no seal" in examine(made.path).fault
    assert names(home) <= before | {"backup.lock"}
    assert keys(home) == ["a#1"]


@pytest.mark.parametrize("sealed", [False, True])
def test_damage_is_found_by_what_the_log_says(store, home, shelf, sealed):
    """The seal is not all there is: a changed event, a dropped one, a table that does not match."""
    damages = [
        "UPDATE events SET payload = replace(payload, 'a#1', 'a#2') WHERE type = 'StepRan'",
        "DELETE FROM events WHERE type = 'StepRan'",
        "UPDATE runs SET status = 'failed'",
        "DROP TABLE streams",
    ]
    for n, damage in enumerate(damages):
        path = shelf / f"{n}.db"
        create(store.path, path, AT)
        db = apsw.Connection(str(path))
        db.execute(damage)
        db.close()
        if sealed:
            seal(path, 4)
        assert bool(examine(path).fault) is not sealed
        with pytest.raises(StoreCorrupt, match="nothing was changed"):
            restore(path, home, AT)
    assert not list(home.glob("before-*")) and not list(home.glob(".*"))
    assert keys(home) == ["a#1"]


def test_a_backup_that_was_cut_off_is_refused(store, home, shelf):
    """As a copy to a full stick leaves it."""
    made = create(store.path, shelf, AT)
    whole = made.path.read_bytes()
    for length in (0, 50, 100, 2048, len(whole) // 2):
        made.path.write_bytes(whole[:length])
        assert "not whole" in examine(made.path).fault
        with pytest.raises((StoreCorrupt, StoreForeign)):
            restore(made.path, home, AT)
    assert keys(home) == ["a#1"]


# What can be restored


def test_files_that_are_no_backups(store, home, shelf):
    """Another program's database, a text, a directory, nothing at all, the store itself, a newer one."""
    (shelf / "text.db").write_text("my notes\n" * 500)
    db = sqlite3.connect(shelf / "theirs.db")
    db.execute("CREATE TABLE a (b)")
    db.close()
    sqlite3.connect(shelf / "void.db").executescript("VACUUM")
    newer = create(store.path, shelf / "newer.db", AT).path
    db = sqlite3.connect(newer)
    db.execute("PRAGMA user_version = 999")
    db.close()
    seal(newer, 4)
    for name, error, says in [
        ("text.db", StoreForeign, "no backup of holdfast"),
        ("theirs.db", StoreForeign, "no backup of holdfast"),
        ("void.db", StoreForeign, "no backup of holdfast"),
        ("newer.db", StoreNewer, "schema 999.*upgrade holdfast"),
        ("nowhere.db", NotFound, "no backup"),
        ("", BadInput, "no regular file"),
    ]:
        for act in (inspect, lambda path: restore(path, home, AT)):
            with pytest.raises(error, match=says):
                act(shelf / name)
    with pytest.raises(BadInput, match="the store itself"):
        restore(store.path, home, AT)
    store.append(step_append("r", "b#1"))
    assert keys(home) == ["a#1", "b#1"]
    assert names(shelf) == {"text.db", "theirs.db", "void.db", "newer.db"}


def test_a_backup_of_an_older_schema_is_migrated(tmp_path, home):
    """The file itself stays as it is."""
    old = tmp_path / "old.db"
    db = connect(old, create=True)
    migrate(db, upto=1)
    db.close()
    before = old.read_bytes()
    assert restore(old, home, AT) == Restored(0, None)
    assert old.read_bytes() == before
    store = SqliteStore(home)
    own(store, "r")
    assert list(store.verify()) == []
    store.close()


def test_a_backup_on_a_read_only_disk_can_be_restored(store, home, mounted):
    """Nothing comes to stand beside it, not even for a moment."""
    made = create(store.path, mounted, AT)
    subprocess.run(["mount", "-o", "remount,ro", mounted], check=True)
    store.append(step_append("r", "b#1"))
    store.close()
    restore(made.path, home, AT)
    assert keys(home) == ["a#1"]


def test_odd_names_are_no_obstacle(store, home, shelf):
    """What a URI would take for something else, and bytes that are no text."""
    for name in ("a?b.db", "a#b%20c.db", "a b&c.db", "é\udcff.db"):
        made = create(store.path, shelf / name, AT)
        assert restore(made.path, home, AT).events == 4


# Restoring


def test_the_store_that_was_there_is_kept_whole(store, home, shelf):
    """Also what was only in its write-ahead log; it is one file, and can be restored in turn."""
    made = create(store.path, shelf, AT)
    store.append(step_append("r", "b#1"))
    old, cursor = whole_feed(store), store.tail()
    store.close()
    assert restore(made.path, home, AT) == Restored(4, home / KEPT)
    assert names(home / KEPT) == {"holdfast.db"}
    assert names(home) == {"holdfast.db", "write.lock", "backup.lock", KEPT}
    assert stat.S_IMODE((home / KEPT).stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "holdfast.db").stat().st_mode) == 0o600
    new = SqliteStore(home)
    assert whole_feed(new) == old[:-1]
    assert new._reader.pragma("journal_mode") == "wal"
    with pytest.raises(Resync):
        new.feed(cursor)
    new.append(step_append("r", "c#1"))
    new.close()
    assert restore(home / KEPT / "holdfast.db", home, AT) == Restored(5, home / f"{KEPT}-2")
    assert keys(home) == ["a#1", "b#1"]
    assert keys(home / f"{KEPT}-2") == ["a#1", "c#1"]


def test_a_cursor_of_before_is_refused_though_the_log_is_the_same(store, home, shelf):
    """The incarnation is a fresh one: who follows the feed reads it again."""
    made = create(store.path, shelf, AT)
    cursor, incarnation = store.tail(), store.incarnation
    restore(made.path, home, AT)
    new = SqliteStore(home)
    assert new.incarnation != incarnation
    with pytest.raises(Resync):
        new.feed(cursor)
    new.close()


def test_who_has_the_old_store_open_is_told_and_does_no_harm(store, home, shelf):
    """In this process and in another one: the next commit says StoreVanished; neither that commit nor the
    closing of the old store touches the new one's log."""
    child = python(
        """
        from holdfast.errors import StoreVanished
        store = SqliteStore(Path(sys.argv[1]))
        store.load("r")
        print("open", flush=True)
        sys.stdin.readline()
        try:
            store.append(step_append("r", "lost#1"))
        except StoreVanished:
            print("vanished", flush=True)
        sys.stdin.readline()
        store.close()
        """,
        home,
    )
    assert child.stdin is not None and child.stdout is not None
    assert child.stdout.readline() == "open\n"
    made = create(store.path, shelf, AT)
    store.append(step_append("r", "b#1"))
    restore(made.path, home, AT)
    new = SqliteStore(home)
    new.append(step_append("r", "c#1"))
    with pytest.raises(StoreVanished):
        store.append(step_append("r", "lost#2"))
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline() == "vanished\n"
    new.append(step_append("r", "c#2"))
    store.close()
    child.communicate("\n", timeout=30)
    assert child.returncode == 0
    new.append(step_append("r", "c#3"))
    new._wal_due = 0.0
    new.append(step_append("r", "c#4"))
    assert [row.key for row in new.steps("r")] == ["a#1", "c#1", "c#2", "c#3", "c#4"]
    assert list(new.verify()) == []
    new.close()
    assert keys(home) == ["a#1", "c#1", "c#2", "c#3", "c#4"]
    assert keys(home / KEPT)[:2] == ["a#1", "b#1"]


def test_a_store_in_use_is_not_replaced(store, home, shelf):
    """`refuse` is asked before the copy, and again when nobody else can commit: what it raises leaves
    everything as it was."""
    made = create(store.path, shelf, AT)
    store.append(step_append("r", "b#1"))
    asked = []

    def refuse() -> None:
        asked.append(os.path.lexists(home / ".holdfast.db.partial"))
        if len(asked) == calls:
            raise StoreHeld(home, 7, "here")

    before = names(home)
    for calls in (1, 2):
        asked.clear()
        with pytest.raises(StoreHeld, match="the live process 7 on here"):
            restore(made.path, home, AT, refuse=refuse)
        assert asked == [False, True][:calls]
        assert names(home) == before
    store.append(step_append("r", "c#1"))
    assert keys(home) == ["a#1", "b#1", "c#1"]


def test_a_reader_that_does_not_end_is_waited_for_and_then_refused(store, home, shelf, monkeypatch):
    """Its snapshot needs the old log; nothing has changed when the patience is over."""
    monkeypatch.setattr("holdfast.store.sqlite.restore.BUSY_MS", 50)
    made = create(store.path, shelf, AT)
    reader = connect(store.path)
    reader.execute("BEGIN; SELECT count(*) FROM events").fetchall()
    store.append(step_append("r", "b#1"))
    with pytest.raises(StoreHeld, match="another live process"):
        restore(made.path, home, AT)
    reader.close()
    store.append(step_append("r", "c#1"))
    assert not list(home.glob("before-*"))
    assert keys(home) == ["a#1", "b#1", "c#1"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_text("my notes"),
        lambda path: path.write_bytes(b"\xff" * 100 + path.read_bytes()[100:]),
        lambda path: path.unlink(),
    ],
    ids=["text", "header", "gone"],
)
def test_a_store_that_cannot_be_read_is_replaced_and_its_log_kept_with_it(store, home, shelf, spoil):
    """What is restored for. Its write-ahead log, with commits in it, is never read with the new file."""
    made = create(store.path, shelf, AT)
    store.append(step_append("r", "b#1"))
    store.close()
    store = SqliteStore(home)
    store.append(step_append("r", "c#1"))
    files = {path.name: path.read_bytes() for path in home.glob("holdfast.db*")}
    store.close()
    assert set(files) == {"holdfast.db", "holdfast.db-wal", "holdfast.db-shm"}
    for name in ("holdfast.db", "holdfast.db-wal"):
        (home / name).write_bytes(files[name])
    spoil(home / "holdfast.db")
    left = (home / "holdfast.db").read_bytes() if (home / "holdfast.db").exists() else None
    assert restore(made.path, home, AT).kept == home / KEPT
    kept = home / KEPT / "holdfast.db"
    assert (kept.read_bytes() if kept.exists() else None) == left
    assert (home / KEPT / "holdfast.db-wal").read_bytes() == files["holdfast.db-wal"]
    assert keys(home) == ["a#1"]


def test_a_home_without_a_store(store, home, shelf, tmp_path):
    """The directory is made, private; there was nothing to keep."""
    made = create(store.path, shelf, AT)
    assert restore(made.path, tmp_path / "new" / "home", AT) == Restored(4, None)
    assert names(tmp_path / "new" / "home") == {"holdfast.db", "backup.lock", "write.lock"}
    assert stat.S_IMODE((tmp_path / "new" / "home").stat().st_mode) == 0o700
    assert keys(tmp_path / "new" / "home") == ["a#1"]


# Killed in the middle

KILLER = """
backup._PAGES_AT_ONCE = 4
at = datetime(2026, 1, 31, 12, tzinfo=UTC)
left = 0

def moment(*_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def watch(name):
    real = getattr(os, name)
    def watched(*args, **kwargs):
        moment()
        return real(*args, **kwargs)
    setattr(os, name, watched)

for name in ("fsync", "link", "mkdir", "open", "rename", "replace", "rmdir", "unlink"):
    watch(name)
for n in range(1, 200):
    left = n
    pid = os.fork()
    if pid == 0:
        act()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    sys.stdin.readline()
"""


def killed_at_every_moment(action: str, *args: object) -> Iterator[int]:
    """Do it again and again, killed before its 1st, 2nd, ... touch of the disk, until one lives."""
    child = python(f"def act():\n    {action}\n" + KILLER, *args)
    assert child.stdin is not None and child.stdout is not None
    try:
        for n in range(1, 200):
            code = int(child.stdout.readline())
            if code == 0:
                assert n > 10
                return
            assert code == -signal.SIGKILL
            yield n
            child.stdin.write("\n")
            child.stdin.flush()
        pytest.fail("it never came to its end")
    finally:
        child.kill()
        child.communicate()


def test_a_backup_that_is_killed_leaves_no_half_one(store, shelf):
    """Under a name of ours there is a whole backup or nothing, and the next one clears up."""
    create(store.path, shelf / "b.db", AT)
    for n in range(20):
        store.append(step_append("r", f"b#{n}"))
    new = 0
    for _ in killed_at_every_moment(
        "backup.create(Path(sys.argv[1]), Path(sys.argv[2]), at, progress=moment)", store.path, shelf / "b.db"
    ):
        found = examine(shelf / "b.db")
        assert (found.fault, found.events in (4, 24)) == ("", True)
        new += found.events == 24
        assert all(name == "b.db" or name.startswith(".holdfast-") for name in names(shelf))
        assert list(store.verify()) == []
    assert new > 2
    assert names(shelf) == {"b.db"}
    assert list(store.verify()) == []


@pytest.mark.parametrize("again", [False, True])
def test_a_restore_that_is_killed_leaves_the_old_store_or_the_new_one(store, home, shelf, again):
    """At every moment, whole; also where one was killed before, whose traces the next one clears away."""
    made = create(store.path, shelf, AT)
    for n in range(20):
        store.append(step_append("r", f"b#{n}"))
    store.close()
    old = ["a#1", *(f"b#{n}" for n in range(20))]
    template = home.with_name("template")
    shutil.copytree(home, template)
    olds = news = 0
    for _ in killed_at_every_moment(
        "restore.restore(Path(sys.argv[1]), Path(sys.argv[2]), at, progress=moment)", made.path, home
    ):
        found = keys(home)
        if found == old:
            olds += 1
        else:
            news += 1
            assert found == ["a#1"]
            (kept,) = home.glob("before-*")
            assert keys(kept) == old
        if found != old or not again:
            shutil.rmtree(home)
            shutil.copytree(template, home)
    assert (olds > 15, news > 0) == (True, True)
    assert keys(home) == ["a#1"]
    assert not list(home.glob(".*"))
    assert [keys(kept) for kept in home.glob("before-*")] == [old]


def test_a_restore_that_is_killed_does_not_deceive_who_has_the_store_open(store, home, shelf):
    """What another process commits afterwards is in the store, at the latest when it closes it, or it is
    told StoreVanished; the store is whole either way."""
    made = create(store.path, shelf, AT)
    store.append(step_append("r", "b#1"))
    store.close()
    template = home.with_name("template")
    shutil.copytree(home, template)
    other = python(
        """
        from holdfast.errors import StoreVanished
        store = None
        for line in sys.stdin:
            if line == "open\\n":
                store = SqliteStore(Path(sys.argv[1]))
                store.load("r")
                print("open", flush=True)
            else:
                store._wal_due = 0.0  # it is looked at once a second
                try:
                    store.append(step_append("r", "c#1"))
                    print("recorded", flush=True)
                except StoreVanished:
                    print("vanished", flush=True)
                sys.stdin.readline()
                store.close()
                print("closed", flush=True)
        """,
        home,
    )

    def ask(what: str) -> str:
        assert other.stdin is not None and other.stdout is not None
        other.stdin.write(f"{what}\n")
        other.stdin.flush()
        return other.stdout.readline().strip()

    answers = []
    try:
        ask("open")
        for _ in killed_at_every_moment(
            "restore.restore(Path(sys.argv[1]), Path(sys.argv[2]), at, progress=moment)", made.path, home
        ):
            first = keys(home)
            answers.append(ask("commit"))
            ask("close")
            assert keys(home) == (first if answers[-1] == "vanished" else [*first, "c#1"])
            shutil.rmtree(home)
            shutil.copytree(template, home)
            ask("open")
    finally:
        other.kill()
        other.communicate()
    assert answers == sorted(answers)  # as long as it is the old one, all is recorded
    assert set(answers) == {"recorded", "vanished"}
