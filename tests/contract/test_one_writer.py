"""One writer at a time, and each on what the one before wrote."""

import fcntl
import os

import pytest

from holdfast.errors import StoreFull
from holdfast.kernel import events as e
from holdfast.store.port import Append, Decision, new_event
from holdfast.store.sqlite import SqliteStore
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
        return Decision()

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
