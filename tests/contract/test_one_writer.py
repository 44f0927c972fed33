"""One writer at a time, each on what the one before wrote; and nothing is read that was not written."""

import fcntl
import hashlib
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import apsw
import pytest
from tests.engine.missing_threads import refusing_threads

from holdfast import file_lock
from holdfast.errors import StoreCorrupt, StoreFull
from holdfast.kernel import events as e
from holdfast.store.port import NO_EVENTS, Append, new_event
from holdfast.store.sqlite import write_lock
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.histories import own, step_append


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def store(home):
    store = SqliteStore(home)
    own(store, "r")
    yield store
    store.close()


def test_the_gate_is_held_during_a_commit_and_free_after_it(store, home):
    """Whoever comes meanwhile waits in the kernel's queue, not in SQLite's polling."""
    fd = os.open(home / "write.lock", os.O_RDWR)
    held = []

    def look(_):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.append(True)
        return NO_EVENTS

    try:
        store.command("r", look)
        assert held == [True]
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(fd)


def test_two_stores_on_one_file_do_not_overwrite_each_other(store, home):
    """Each remembers where the stream ended when it wrote last; a stale memory is found out."""
    other = SqliteStore(home)
    try:
        for n in range(3):
            store.append(step_append("r", f"a#{n}"))
            other.append(step_append("r", f"b#{n}"))
        assert [row.key for row in store.steps("r")] == ["a#0", "b#0", "a#1", "b#1", "a#2", "b#2"]
        assert list(store.verify()) == []
    finally:
        other.close()


def test_a_large_append_is_whole_or_not_there(store):
    """However many events it has, and however many statements they take."""
    many = [new_event(e.OutputCaptured("a#1", 1, "stdout", "x" * 100), 1)] * 10_000
    store.append(Append("r", 1, many[:1]))
    store._db.pragma("max_page_count", store._db.pragma("page_count") + 800)
    with pytest.raises(StoreFull):
        store.append(Append("r", 1, many))
    assert len(store.load("r", output=True)) == 3
    store._db.pragma("max_page_count", 1 << 30)
    store.append(Append("r", 1, many))
    assert len(store.load("r", output=True)) == 10_003
    assert list(store.verify()) == []


FORKS = """
import os, sys
from pathlib import Path
from holdfast.errors import StoreClosed
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.histories import own, step_append

home = Path(sys.argv[1])
store = SqliteStore(home)
own(store, "r")
child = os.fork()
if child == 0:
    try:
        SqliteStore(home)
        print("opened", flush=True)
    except StoreClosed as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
store.append(step_append("r", "a#1"))
print("written")
"""


def test_a_forked_child_of_a_process_with_the_store_open_is_refused(home):
    """SQLite's memory of the parent's locks would be the child's: it would write without holding any."""
    words = [sys.executable, "-c", FORKS, str(home)]  # a process without other threads
    told, written = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "was open in the process that this one was forked from" in told
    assert written == "written"


def test_a_history_that_ends_before_its_head_is_not_loaded(store, home):
    """Steps behind the cut were done, and would be done again."""
    for n in range(3):
        store.append(step_append("r", f"a#{n}"))
    db = apsw.Connection(str(home / "holdfast.db"))
    for after in (4, 0):
        db.execute("DELETE FROM events WHERE version > ? AND stream = 2", (after,))
        with pytest.raises(StoreCorrupt, match=f"at version {after + 1}"):
            store.load("r")
    db.close()


def test_a_changed_blob_is_not_given(store, home):
    data = b"large" * 9
    name = hashlib.sha256(data).hexdigest()
    append = step_append("r", "a#1")
    append.blobs = [(name, data)]
    store.append(append)
    db = apsw.Connection(str(home / "holdfast.db"))
    db.execute("UPDATE blobs SET data = x'00'")
    db.close()
    with pytest.raises(StoreCorrupt, match="was changed"):
        store.blob(name)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE streams SET epoch = 5 WHERE name = 'r'",
        "UPDATE streams SET time = 5 WHERE name = 'r'",
        "UPDATE streams SET kind = 'plan' WHERE name = 'r'",
        "UPDATE events SET position = 900 WHERE stream = 2 AND version = 2",
        "UPDATE events SET synced = 7 WHERE stream = 2 AND version = 2",
    ],
)
def test_verify_looks_at_every_column(store, home, damage):
    """What no hash covers is compared with what the log says."""
    assert list(store.verify()) == []
    db = apsw.Connection(str(home / "holdfast.db"))
    db.execute(damage)
    db.close()
    assert list(store.verify())


def test_a_long_wait_that_gets_no_thread_to_report_it_is_a_wait_all_the_same(tmp_path, monkeypatch):
    path = str(tmp_path / "write.lock")
    holder = write_lock.WriteLock(path)
    mine = write_lock.WriteLock(path)
    waits = threading.Event()

    def lock_soon(fd):
        waits.set()
        file_lock.lock(fd)

    def pass_gate():
        with mine:
            passed.append(1)

    passed = []
    waiting = threading.Thread(target=pass_gate)
    monkeypatch.setattr(write_lock, "lock", lock_soon)
    monkeypatch.setattr(threading.Thread, "start", refusing_threads("holdfast-write-lock"))
    with holder:
        waiting.start()
        assert waits.wait(20)
    waiting.join(20)
    assert passed == [1]
    assert write_lock._waiting == {}


def test_whoever_waits_long_for_the_gate_is_told_who_holds_it(tmp_path, monkeypatch, caplog):
    """Once, and as soon as it takes long; the wait continues."""
    monkeypatch.setattr(write_lock, "_LONG_S", 0.05)
    monkeypatch.setattr(write_lock, "_LOOK_EVERY_S", 0.02)
    path = str(tmp_path / "write.lock")
    hold = f"import fcntl, time; file = open({path!r}, 'w'); fcntl.flock(file, fcntl.LOCK_EX)"
    script = f"{hold}; print(flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    mine = write_lock.WriteLock(path)
    passed = threading.Event()

    def pass_gate():
        with mine:
            passed.set()

    waiting = threading.Thread(target=pass_gate)
    waiting.start()
    deadline = time.monotonic() + 20
    while not caplog.records and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not passed.is_set()
    holder.kill()
    holder.communicate()
    waiting.join(20)
    assert passed.is_set()
    (told,) = caplog.records
    assert "to write to the store" in told.message and "is held by" in told.message
    if sys.platform == "linux":
        assert f"process {holder.pid}" in told.message
    mine.close()
    while any(thread.name == "holdfast-gate" for thread in threading.enumerate()):
        time.sleep(0.01)


def test_a_new_database_is_private_from_its_first_moment(tmp_path, monkeypatch):
    """Another process that opens it at once makes the files beside it with the mode that it sees."""
    modes = []
    real = apsw.Connection

    def opened(path, *args, **options):
        db = real(path, *args, **options)
        modes.append(stat.S_IMODE(Path(path).stat().st_mode))
        return db

    monkeypatch.setattr("holdfast.store.sqlite.connection.apsw.Connection", opened)
    SqliteStore(tmp_path).close()
    assert modes and set(modes) == {0o600}
