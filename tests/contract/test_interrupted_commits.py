"""Ctrl-C at the worst moments of a commit: the store stays usable, and what it says is true."""

import re

import pytest

import holdfast.store.sqlite
from holdfast.errors import StoreInDoubt
from holdfast.kernel import events as e
from holdfast.store.port import Append, Fate, new_event
from holdfast.store.sqlite import commit, projections
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.histories import own, start_append, step_append


@pytest.fixture
def store(tmp_path):
    store = SqliteStore(tmp_path / "home")
    own(store, "r")
    yield store
    store.close()


class Interrupting:
    """A connection on which Ctrl-C comes as a statement returns."""

    def __init__(self, db, statement):
        self._db = db
        self._statement = statement

    def execute(self, text, *args):
        result = self._db.execute(text, *args)
        if text.startswith(self._statement):
            self._statement = "never again"
            raise KeyboardInterrupt
        return result

    def __getattr__(self, name):
        return getattr(self._db, name)


def interrupt(store, statement):
    store._committer._db = Interrupting(store._committer._db, statement)


def test_as_the_transaction_begins(store, tmp_path):
    """It does not stay open: neither this process nor another is locked out."""
    interrupt(store, "BEGIN")
    with pytest.raises(KeyboardInterrupt):
        own(store, "s")
    own(store, "t")
    other = SqliteStore(tmp_path / "home")
    own(other, "u")
    other.close()
    assert [row.id for row in store.runs()] == ["u", "t", "r"]


def test_as_it_stops_to_wait_for_the_disk(store):
    """What is acknowledged as durable after that waits for the disk."""
    interrupt(store, "PRAGMA synchronous=NORMAL")
    with pytest.raises(KeyboardInterrupt):
        store.append(step_append("r", "a#1", durable=False))
    store.append(step_append("r", "b#1"))
    assert store._db.pragma("synchronous") == 2


def test_as_the_connection_is_prepared(tmp_path, monkeypatch):
    """The next write prepares another one."""
    SqliteStore(tmp_path / "home").close()  # a new store is written to as it is opened
    store = SqliteStore(tmp_path / "home")
    prepare = holdfast.store.sqlite.store.prepare_to_write

    def interrupted(db):
        prepare(db)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(holdfast.store.sqlite.store, "prepare_to_write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            own(store, "r")
    own(store, "r")
    store.close()


def test_what_was_in_the_interrupted_batch_dooms_what_follows(store, monkeypatch):
    """A beginning that may be lost, and an end that is written: nobody could read that log."""
    fate = Fate()
    begins = start_append("r", "a#1")
    begins.fate = fate
    write = store._write

    def interrupted(batch):
        monkeypatch.setattr(store, "_write", write)
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.append(begins)
    with pytest.raises((StoreInDoubt, KeyboardInterrupt)):
        store.append(Append("r", 1, [new_event(e.StepCompleted("a#1"), 3)], fate=fate))
    assert list(store.verify()) == []


def test_an_event_that_cannot_follow_is_found(store):
    """Whoever wrote it, with a chain that is whole."""
    store.append(Append("r", 1, [new_event(e.StepCompleted("a#1"), 3)]))
    faults = [fault for fault in store.verify() if fault.stream == "r"]
    assert [(fault.version, "cannot follow" in fault.what) for fault in faults] == [(3, True)]


def test_what_is_only_logged_is_what_no_trigger_looks_at():
    """The list in Python and the one in SQL are the same, and no projection is for one of these."""
    for group in projections.GROUPS:
        listed = re.findall(r"WHEN NEW.type NOT IN \(([^)]*)\)", group.script())
        for types in listed:
            assert set(re.findall(r"'(\w+)'", types)) == commit._LOGGED | {"StreamCreated"}
        assert not set(re.findall(r"WHEN NEW.type = '(\w+)'", group.script())) & commit._LOGGED
