"""What every store answers to those who look at many runs: the SQLite store against the oracle."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.store.oracle import OracleStore
from holdfast.store.port import Append, RunFilter, Store, new_event
from holdfast.store.sqlite import sql
from holdfast.store.sqlite.choice import glob, table
from holdfast.store.sqlite.store import SqliteStore
from holdfast.store.statistics import Durations, FailingStep, StepTotals, WorkflowTotals, durations
from holdfast.testing.histories import EVERYTHING, failure, output_append, own, perform, step_append

UNFINISHED = ("pending", "running", "sleeping")
ENDS: dict[str, tuple[c.Command, ...]] = {
    "pending": (),
    "running": (),
    "sleeping": (c.Record(e.SleepStarted("sleep#1", 5, 99)),),
    "needs_attention": (c.AttendRun("diverged", "look"),),
    "completed": (c.CompleteRun(),),
    "failed": (c.FailRun(failure()),),
    "cancelled": (c.CancelRun("enough"),),
}


def fill(store: Store) -> None:
    """Runs of every status, of two workflows and two owners, some of them children, at times of their own."""
    time = itertools.count(10, 10)
    for (status, end), (owner, workflow) in itertools.product(
        ENDS.items(), (("ann", "report"), ("bob", "make [all] -k"))
    ):
        run = f"{status}-{owner}"
        create = c.CreateRun(run, e.Code(workflow), "d", parent="failed-ann" if status == "completed" else "")
        perform(store, run, create, at=next(time))
        if status != "pending":
            perform(store, run, c.ClaimRun(run, owner), *end, at=next(time))
    perform(store, "needs_attention-ann", c.ReleaseRun("needs_attention-ann", "ann"), at=next(time))


@pytest.fixture(params=["oracle", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = OracleStore() if request.param == "oracle" else SqliteStore(tmp_path / "one")
    yield opened
    opened.close()


@pytest.fixture
def twins(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    sqlite, oracle = SqliteStore(tmp_path / "twin"), OracleStore()
    for one in (sqlite, oracle):
        fill(one)
    yield sqlite, oracle
    sqlite.close()


def ids(store: Store, **fields: object) -> list[str]:
    return [row.id for row in store.find_runs(RunFilter(**fields))]  # type: ignore[arg-type]


# Filters


def test_each_field_of_a_filter_narrows(store):
    """By status, by owner that lives or not, by workflow, by parent, by time; the newest comes first."""
    fill(store)
    assert len(ids(store)) == 14
    assert ids(store, status=("cancelled", "needs_attention")) == [
        "cancelled-bob", "cancelled-ann", "needs_attention-bob", "needs_attention-ann",
    ]  # fmt: skip
    assert ids(store, orphaned=("running", "sleeping"), live=("ann",)) == ["sleeping-bob", "running-bob"]
    assert ids(store, status=("failed",), orphaned=("sleeping",), live=("ann",)) == [
        "failed-bob", "failed-ann", "sleeping-bob",
    ]  # fmt: skip
    assert len(ids(store, workflow="rep*")) == len(ids(store, workflow="make*")) == 7
    assert ids(store, parent="failed-ann") == ["completed-bob", "completed-ann"]
    assert len(ids(store, parent="")) == 12
    assert ids(store, status=("running",), parent="")[-1] == "running-ann"
    changed = {row.id: row.updated_at for row in store.runs()}
    at = changed["sleeping-ann"]
    assert set(ids(store, changed_since=at)) == {one for one, last in changed.items() if last >= at}
    assert ids(store, changed_since=max(changed.values())) == ["needs_attention-ann"]
    created = {row.id: row.created_at for row in store.runs()}
    assert ids(store, created_before=created["running-bob"]) == ["running-ann", "pending-bob", "pending-ann"]


def test_sqlite_finds_what_the_oracle_finds(twins):
    """Every combination of filters, through the small table of open runs and through the whole one: the
    same rows in the same order, and as many as are counted."""
    sqlite, oracle = twins
    statuses = [
        (),
        ("failed",),
        ("completed",),
        ("waiting", "needs_attention", "failed"),
        ("completed", "running"),
    ]
    orphans = [((), ()), (UNFINISHED, ()), (UNFINISHED, ("bob",)), (("running",), ("ann", "bob", "eve"))]
    others = [
        {}, {"workflow": "*[all]*"}, {"workflow": "make [[]*"}, {"workflow": "[!m]*"}, {"parent": ""},
        {"parent": "failed-ann"}, {"changed_since": 90}, {"created_before": 150}, {"workflow": "x"},
        {"changed_since": 90, "created_before": 150, "parent": "", "workflow": "*e*"},
    ]  # fmt: skip
    found = 0
    for status, (orphaned, live), rest in itertools.product(statuses, orphans, others):
        which = RunFilter(status=status, orphaned=orphaned, live=live, **rest)
        expected = oracle.find_runs(which)
        assert sqlite.find_runs(which) == expected, which
        assert sqlite.count_runs(which) == oracle.count_runs(which) == len(expected), which
        assert sqlite.find_runs(which, 2) == oracle.find_runs(which, 2) == expected[:2], which
        found += len(expected)
    assert found > 300
    assert sqlite.find_runs(RunFilter(), 0) == []


@pytest.mark.parametrize(
    ("pattern", "fits", "not_so"),
    [
        ("report", ["report"], ["Report", "reports", "a report"]),
        ("make *", ["make all", "make "], ["make", "cmake x"]),
        ("r?port", ["report"], ["rport"]),
        ("[rt]est", ["rest", "test"], ["best"]),
        ("[!rt]est", ["best"], ["rest", "test"]),
        ("[^rt]est", ["best"], ["rest", "test"]),
        ("[]x]*", ["]a", "xa"], ["a"]),
        ("test [ -f", ["test [ -f"], ["test  -f"]),
        ("[[]ok]", ["[ok]"], ["ok", "o"]),
        ("a%_'\"\\", ["a%_'\"\\"], ["ab"]),
        ("[", ["["], [""]),
        ("[!", ["[!"], ["a"]),
        ("*ü*", ["grün"], ["grun"]),
    ],
)  # fmt: skip
def test_patterns_mean_the_same_in_every_store(store, pattern, fits, not_so):
    """`*`, `?`, `[...]` and `[!...]`; everything else is a letter."""
    for n, name in enumerate([*fits, *not_so]):
        perform(store, f"r{n}", c.CreateRun(f"r{n}", e.Code(name), "d"))
    assert sorted(row.workflow for row in store.find_runs(RunFilter(workflow=pattern))) == sorted(fits)
    assert store.count_runs(RunFilter(workflow=pattern)) == len(fits)


def test_text_that_no_store_can_have_finds_nothing(store):
    """Half a character, as a terminal can give it."""
    fill(store)
    for which in (RunFilter(workflow="\udcff"), RunFilter(parent="\udcff")):
        assert (store.find_runs(which), store.count_runs(which)) == ([], 0)


def test_owners_are_named_once(store):
    """In order, whatever table has the runs; a run that was released names nobody."""
    fill(store)
    assert store.owners_named(UNFINISHED) == ["ann", "bob"]
    assert store.owners_named(("completed", "failed")) == store.owners_named(()) == []
    perform(store, "running-ann", c.ReleaseRun("running-ann", "ann"))
    assert store.owners_named(("running",)) == ["bob"]


def test_open_runs_are_found_by_their_index(tmp_path):
    """What can be resumed costs nothing of what has ended: the plan has no scan of all runs. Where an ended
    status is asked for, the whole table is looked at."""
    store = SqliteStore(tmp_path / "one")
    fill(store)
    assert table(("failed",), ("running",)) == "open_runs"
    assert table(("failed", "completed")) == table(("cancelled",)) == table() == table(()) == "runs"
    for name, values in (("find_runs", 9), ("count_runs", 8), ("owners_named", 1)):
        text = sql.query(name).replace("FROM chosen", "FROM open_runs")
        plan = [row[3] for row in store._db.execute(f"EXPLAIN QUERY PLAN {text}", (None,) * values)]
        assert any("USING" in line and "INDEX runs_open" in line for line in plan), plan
        assert not [line for line in plan if line in ("SCAN runs", "SCAN r", "SCAN streams")], plan
    store.close()


def test_ids_of_children_and_of_no_children(store):
    """Both begin as they are asked for, in order, up to a number."""
    fill(store)
    assert store.run_ids("completed", 9) == ["completed-ann", "completed-bob"]
    assert store.run_ids("completed", 9, parent="") == []
    assert store.run_ids("", 1, parent="failed-ann") == ["completed-ann"]
    assert len(store.run_ids("", 99, parent="")) == 12
    assert store.run_ids("", 99, parent="none") == []


def test_entries_of_one_type(store):
    """Only those that are asked for, with their versions, after the one that is named."""
    own(store, "r")
    for text in ("one", "two", "three"):
        store.append(output_append("r", text))
    store.append(step_append("r", "a#1"))
    assert [entry.version for entry in store.entries("r", type="OutputCaptured")] == [3, 4, 5]
    assert [entry.version for entry in store.entries("r", after=4, type="OutputCaptured")] == [5]
    assert [entry.type for entry in store.entries("r", after=4)] == ["OutputCaptured", "StepRan"]
    assert list(store.entries("r", type="NoSuch")) == list(store.entries("none", type="StepRan")) == []


# Statistics


def test_statistics_add_up(store):
    """Runs by workflow and status with their durations, steps with their attempts, what fails most."""
    for n, took in enumerate((40, 10, 20, 30)):
        perform(
            store, f"r{n}", c.CreateRun(f"r{n}", e.Code("report"), "d"), c.ClaimRun(f"r{n}", "me"), at=100
        )
        store.append(step_append(f"r{n}", "quick#1", at=101))
        perform(store, f"r{n}", c.CompleteRun(), at=100 + took)
    perform(store, "bad", c.CreateRun("bad", e.Code("make"), "d"), c.ClaimRun("bad", "me"), at=500)
    again = (c.StartStep("ask#1", "ask"), c.FailAttempt("ask#1", failure(), retry_at=9))
    perform(store, "bad", *again, *again, c.StartStep("ask#1", "ask"), c.CompleteStep("ask#1"), at=501)
    ends = (c.FailAttempt("send#1", failure()), c.FailRun(failure(), ("send#1",)))
    perform(store, "bad", c.StartStep("send#1", "send", effect="once"), *ends, at=502)
    found = store.statistics()
    assert found.workflows == [
        WorkflowTotals("report", {"completed": 4}, Durations(4, 20, 40, 40)),
        WorkflowTotals("make", {"failed": 1}, Durations()),
    ]
    assert found.durations == Durations(4, 20, 40, 40)
    assert found.steps == StepTotals(4 + 3 + 1, 1, {"completed": 5, "failed": 1})
    assert found.failing == [FailingStep("make", "ask", 1, 2, 0), FailingStep("make", "send", 1, 1, 1)]
    assert found.events == sum(row.version for row in store.runs()) + len(list(store.entries("@store")))
    since = store.statistics(500)
    assert [one.workflow for one in since.workflows] == ["make"]
    assert (since.durations, since.steps.steps, since.steps.attempts) == (Durations(), 2, 4)
    assert (since.failing, since.events) == (found.failing, found.events)
    later = store.statistics(10_000)
    assert (later.workflows, later.steps, later.failing) == ([], StepTotals(), [])


def test_statistics_of_an_empty_store(store):
    """Nothing is nothing, not an error."""
    found = store.statistics()
    assert (found.workflows, found.durations, found.steps, found.failing) == (
        [],
        Durations(),
        StepTotals(),
        [],
    )
    assert found.events == 0


def test_sqlite_counts_what_the_oracle_counts(twins):
    """In a store with runs of every kind, with everything that can happen to one, and with rewound ones,
    whose steps count as their live history has them."""
    for store in twins:
        for at, commands in enumerate(EVERYTHING, 1):
            perform(store, "r", *commands, at=at)
        own(store, "back")
        for key in ("a#1", "b#1", "c#1"):
            store.append(step_append("back", key))
        store.append(Append("back", 1, [new_event(e.StepStarted("d#1", "d"), 5)]))
        store.append(Append("back", 1, [new_event(e.Rewound(1, 0, 4), 9)]))
        ran = e.StepRan("e#1", "e", 8, generation=1, result=msgspec.Raw(b"1"))
        store.append(Append("back", 1, [new_event(ran, 10)]))
        assert len(store.steps("back")) == 3
    sqlite, oracle = twins
    for since in (0, 5, 60, 10_000):
        found, expected = sqlite.statistics(since), oracle.statistics(since)
        assert found.size > 0
        assert msgspec.structs.replace(found, size=0) == expected, since
    assert sum(one.runs for one in sqlite.statistics().workflows) == 16


@pytest.mark.parametrize(
    ("count", "p50", "p95"), [(1, 1, 1), (2, 1, 2), (3, 2, 3), (20, 10, 19), (100, 50, 95), (101, 51, 96)]
)
def test_percentiles_are_durations_that_occurred(count, p50, p95):
    """The smallest that at least so many of a hundred do not exceed."""
    assert durations(list(range(count, 0, -1))) == Durations(count, p50, p95, count)


def test_a_damaged_store_says_so_to_statistics(tmp_path, monkeypatch):
    """Also where the thread that counts in the log finds it."""
    from holdfast.errors import StoreClosed, StoreError

    store = SqliteStore(tmp_path / "one")
    fill(store)
    spoil: Callable[[str], str] = lambda name: "SELECT nothing" if name == "steps_that_ran" else query(name)  # noqa: E731
    query = sql.query
    with monkeypatch.context() as patch:
        patch.setattr(sql, "query", spoil)
        with pytest.raises(StoreError):
            store.statistics()
    store.close()
    with pytest.raises(StoreClosed):
        store.statistics()


def test_glob_is_written_for_sqlite():
    """A class that is negated either way; brackets that have no end."""
    assert [glob(one) for one in ("a*?", "[!a]", "[^a]", "[", "[]", "[]]", "[!]]", "x[!", "[a-z][")] == [
        "a*?", "[^a]", "[^a]", "[[]", "[[]]", "[]]", "[^]]", "x[[]!", "[a-z][[]",
    ]  # fmt: skip
