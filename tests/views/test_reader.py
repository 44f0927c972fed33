"""Runs as people look at them: pages, who is alive, what can be resumed, what all runs add up to."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.clock import SystemClock, instant, microseconds
from holdfast.engine.ownership.owners import Owner
from holdfast.errors import AmbiguousRunId, RunNotFound
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.identity import matches
from holdfast.redaction import Redactor
from holdfast.store.oracle import OracleStore
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.histories import failure, output_append, own, perform
from holdfast.views import reader as readings
from holdfast.views.reader import Reader


@pytest.fixture
def store(home: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(home, durability="process")
    yield opened
    opened.close()


@pytest.fixture
def reading(store: SqliteStore, home: Path) -> Reader:
    return Reader(store, home, Redactor)


@pytest.fixture
def alive(store: SqliteStore, home: Path) -> Iterator[Owner]:
    """An owner that lives as long as the test."""
    owner = Owner(home, store, SystemClock())
    yield owner
    owner.close()


@pytest.fixture
def family(store: SqliteStore, alive: Owner) -> None:
    """Of every kind of run one, two that are not what their status says, and a child."""
    own(store, "done")
    perform(store, "done", c.CompleteRun())
    own(store, "broken")
    perform(store, "broken", c.FailRun(failure()))
    own(store, "dropped")
    perform(store, "dropped", c.CancelRun("enough"))
    own(store, "live", alive.id)
    own(store, "lost", "dead")
    perform(store, "begun", c.CreateRun("begun", e.Code("flow"), "d"))
    own(store, "asleep", alive.id)
    perform(store, "asleep", c.Record(e.SleepStarted("sleep#1", 1, 99)))
    own(store, "unclear", alive.id)
    perform(store, "unclear", c.AttendRun("in_doubt", "look"))
    perform(store, "kid", c.CreateRun("kid", e.Code("flow"), "d", parent="lost"), c.ClaimRun("kid", "dead"))


def ids(page: object) -> list[str]:
    return [run.id for run in page.runs]  # type: ignore[attr-defined]


def test_what_can_be_resumed_is_what_nobody_executes(reading, family):
    """The same through `runs` and through a page: interrupted ones, and those that stopped."""
    expected = ["kid", "unclear", "begun", "lost", "broken"]
    assert [run.id for run in reading.runs(resumable=True)] == ids(reading.page(resumable=True)) == expected
    assert [run.id for run in reading.runs(resumable=True, limit=2)] == expected[:2]
    assert [run.id for run in reading.runs(resumable=False)] == ["asleep", "live", "dropped", "done"]
    assert [run.id for run in reading.runs()] == [
        "kid", "unclear", "asleep", "begun", "lost", "live", "dropped", "broken", "done",
    ]  # fmt: skip
    assert ids(reading.page(resumable=True, parent="")) == expected[1:]
    assert ids(reading.page(resumable=True, status=["running"])) == ["kid", "lost"]
    assert ids(reading.page(resumable=True, status=["failed", "interrupted"])) == [
        "kid", "begun", "lost", "broken",
    ]  # fmt: skip
    assert reading.page(resumable=True, status=["completed"]).total == 0
    assert reading.runs(resumable=True, status=["completed"]) == []


def test_interrupted_is_asked_for_like_a_status(reading, family):
    """Alone, with a status beside it, and with one that it overlaps with."""
    assert ids(reading.page(status=["interrupted"])) == ["kid", "lost"]
    assert ids(reading.page(status=["interrupted", "failed"])) == ["kid", "lost", "broken"]
    assert ids(reading.page(status=["interrupted", "running"])) == ["kid", "lost", "live"]
    assert ids(reading.page(status=["running"])) == ["kid", "lost", "live"]
    every = ["interrupted", "pending", "running", "sleeping"]
    assert len(reading.page(status=every).runs) == 5


def test_a_page_says_how_many_there_are(reading, family):
    """In all, and whether it shows them all or not."""
    assert (len(reading.page().runs), reading.page().total) == (9, 9)
    page = reading.page(limit=2)
    assert (ids(page), page.total) == (["kid", "unclear"], 9)
    assert (reading.page(limit=9).total, reading.page(limit=10).total) == (9, 9)
    assert (ids(reading.page(limit=0)), reading.page(limit=0, status=["interrupted"]).total) == ([], 2)
    assert reading.page(resumable=True, limit=1).total == 5


def test_a_page_by_time_by_workflow_and_by_parent(reading, store):
    """Changed since then, that moment included; created before, that moment not."""
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    us = [int((noon + timedelta(minutes=n)).timestamp() * 1_000_000) for n in range(4)]
    for n, name in enumerate(("report", "make all", "make test")):
        perform(
            store, name.split()[-1], c.CreateRun("x", e.Code(name), "d", parent="p" if n else ""), at=us[n]
        )
    perform(store, "report", c.ClaimRun("report", "me"), at=us[3])
    assert ids(reading.page(since=instant(us[2]))) == ["test", "report"]
    assert ids(reading.page(until=instant(us[2]))) == ["all", "report"]
    assert ids(reading.page(since=instant(us[2]), until=instant(us[2]))) == ["report"]
    assert ids(reading.page(workflow="make *")) == ["test", "all"]
    assert (ids(reading.page(parent="")), ids(reading.page(parent="p"))) == (["report"], ["test", "all"])


def test_each_owner_is_looked_up_once(reading, store, monkeypatch):
    """However many runs it has: thirty runs of three dead owners are three looks at a lock."""
    for n in range(30):
        own(store, f"r{n}", f"dead{n % 3}")
    looks: list[str] = []
    monkeypatch.setattr(readings, "is_alive", lambda home, owner: bool(looks.append(owner)))
    assert reading.page(resumable=True, limit=10).total == 30
    assert sorted(looks) == ["dead0", "dead1", "dead2"]


def test_many_owners_are_looked_up_by_the_locks_they_left(reading, store, alive, monkeypatch):
    """One that closed, or was buried, has no lock file: of hundreds only those with one are looked at."""
    own(store, "live", alive.id)
    for n in range(150):
        own(store, f"r{n}", f"dead{n}")
    looks: list[str] = []
    is_alive = readings.is_alive
    monkeypatch.setattr(
        readings, "is_alive", lambda home, owner: looks.append(owner) or is_alive(home, owner)
    )
    page = reading.page(resumable=True, limit=1)
    assert (page.total, page.runs[0].id) == (150, "r149")
    assert sorted(looks) == sorted([alive.id, "dead149"])  # the second for the run that is shown


def test_an_owner_that_is_born_meanwhile_is_not_dead(reading, store, home, monkeypatch):
    """A run that was claimed after the living were counted is no orphan."""
    own(store, "old", "dead")
    find = store.find_runs
    born: list[Owner] = []

    def claim_first(*args: object) -> object:
        if not born:
            born.append(Owner(home, store, SystemClock()))
            own(store, "new", born[0].id)
        return find(*args)

    monkeypatch.setattr(store, "find_runs", claim_first)
    try:
        assert ids(reading.page(resumable=True)) == ["old"]
        assert [run.interrupted for run in reading.runs()] == [False, True]
    finally:
        born[0].close()


def test_logs_go_on_after_a_version(reading, store):
    """With the version of each piece, of all steps or of one."""
    own(store, "r")
    for text in ("one", "two", "API_KEY=abcdef123456"):
        store.append(output_append("r", text))
    assert [(line.version, line.text) for line in reading.logs("r", after=3)] == [
        (4, "two"), (5, "API_KEY=[redacted:secret]"),
    ]  # fmt: skip
    assert len(list(reading.logs("r", "a"))) == 3
    assert list(reading.logs("r", "b")) == list(reading.logs("r", after=5)) == []
    assert matches("branch[1]/a#1", "a")


def test_the_beginning_of_an_id_means_the_parent(reading, store):
    """Its children's ids begin so too; they are found where one of them is being typed."""
    for name, parent in (("kelp", ""), ("kelp.one-1", "kelp"), ("kelp.two-1", "kelp"), ("rock", "")):
        perform(store, name, c.CreateRun(name, e.Code("flow"), "d", parent=parent))
    assert (reading.find("ke"), reading.find("kelp"), reading.find("kelp.o")) == (
        "kelp",
        "kelp",
        "kelp.one-1",
    )
    with pytest.raises(AmbiguousRunId, match=r"kelp\.one-1, kelp\.two-1"):
        reading.find("kelp.")
    perform(store, "kept", c.CreateRun("kept", e.Code("flow"), "d"))
    with pytest.raises(AmbiguousRunId, match="kelp, kept;"):
        reading.find("ke")
    with pytest.raises(RunNotFound, match="rock"):
        reading.find("rocks")


def test_statistics_hide_secrets(reading, store):
    """A command line that holds one is a workflow's name too."""
    line = "curl -H 'Authorization: Bearer abcdef1234567890'"
    perform(store, "r", c.CreateRun("r", e.Code(line), "d"), c.ClaimRun("r", "me"))
    perform(store, "r", c.StartStep("get#1", "get"), c.FailAttempt("get#1", failure()))
    found = reading.statistics()
    names = [one.workflow for one in (*found.workflows, *found.failing)]
    assert len(names) == 2
    assert not [name for name in names if "abcdef" in name]
    assert reading.statistics(datetime.now(UTC)).workflows == []


def test_reading_knows_a_store_only_by_its_port(home):
    """All of it works on the oracle."""
    store = OracleStore()
    own(store, "lost", "dead")
    reading = Reader(store, home, Redactor)
    assert ids(reading.page(resumable=True, workflow="fl*")) == ["lost"]
    assert reading.statistics().steps.steps == 0


def test_a_time_without_a_zone_is_local() -> None:
    """`datetime.now()` and `datetime.now(UTC)` name the same moment."""
    now = datetime.now(UTC)
    assert microseconds(now.astimezone().replace(tzinfo=None)) == microseconds(now)
