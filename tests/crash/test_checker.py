"""The checker finds every kind of damage: a good store is edited, a good life's lines are changed."""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.crash.checker import GENESIS, Lives, Violation, chain, check_rebuilt, check_store
from tests.crash.history import budget_of, task_of
from tests.crash.side import Side
from tests.crash.workloads import WORKLOADS, live


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    """A store with runs that have failures, large values, sleeps, children and once steps."""
    home = tmp_path_factory.mktemp("good")
    for name in ("sequential", "storm", "post", "tree"):
        live(name, home, Side(None))
    return home


@pytest.fixture
def home(good, tmp_path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "home"))


def edit(home: Path, *statements: str) -> None:
    with closing(sqlite3.connect(home / "holdfast.db", isolation_level=None)) as db:
        for statement in statements:
            assert db.execute(statement).rowcount != 0, statement


# A log that was written wrongly, and well chained: only what it says is wrong

Row = dict[str, Any]


def rewrite(home: Path, run: str, change: Callable[[list[Row]], None]) -> None:
    """Change the events of one run, chain them again, put the head behind the last."""
    with closing(sqlite3.connect(home / "holdfast.db", isolation_level=None)) as db:
        db.row_factory = sqlite3.Row
        (id,) = db.execute("SELECT id FROM streams WHERE name = ?", (run,)).fetchone()
        rows = [
            {**dict(row), "payload": json.loads(row["payload"])}
            for row in db.execute("SELECT * FROM events WHERE stream = ? ORDER BY version", (id,))
        ]
        change(rows)
        others = [
            dict(row) for row in db.execute("SELECT * FROM events WHERE stream <> ? ORDER BY position", (id,))
        ]
        db.execute("DELETE FROM events")
        hash = GENESIS
        for version, row in enumerate(rows, 1):
            payload = json.dumps(row["payload"])
            hash = chain(hash, run, version, row["type"], row["time"], payload)
            row |= {"stream": id, "version": version, "payload": payload, "hash": hash, "synced": 1}
        (gone,) = db.execute(
            "SELECT coalesce(sum(version), 0) FROM streams WHERE kind = 'archived'"
        ).fetchone()
        for position, row in enumerate([*others, *rows], 1 + gone):
            row["position"] = position
            names = ", ".join(row)
            db.execute(f"INSERT INTO events ({names}) VALUES ({', '.join('?' * len(row))})", [*row.values()])
        head = (len(rows), hash, rows[-1]["time"], id)
        db.execute("UPDATE streams SET version = ?, hash = ?, time = ? WHERE id = ?", head)


def at(rows: list[Row], type: str, key: str = "") -> int:
    return next(
        n for n, row in enumerate(rows) if row["type"] == type and row["payload"].get("key", "") == key
    )


def again(type: str, key: str, **changed: Any) -> Callable[[list[Row]], None]:
    """The same event once more, right behind itself."""

    def change(rows: list[Row]) -> None:
        n = at(rows, type, key)
        rows.insert(n + 1, {**rows[n], "payload": {**rows[n]["payload"], **changed}})

    return change


def without(type: str, key: str = "") -> Callable[[list[Row]], None]:
    return lambda rows: rows.pop(at(rows, type, key)) and None


def moved(type: str, key: str, behind: str) -> Callable[[list[Row]], None]:
    def change(rows: list[Row]) -> None:
        row = rows.pop(at(rows, type, key))
        rows.insert(at(rows, behind) + 1, row)

    return change


def changed(type: str, key: str = "", **fields: Any) -> Callable[[list[Row]], None]:
    return lambda rows: rows[at(rows, type, key)]["payload"].update(fields)


def claimed_again(**fields: Any) -> Callable[[list[Row]], None]:
    """Another owner takes the run after its third step."""

    def change(rows: list[Row]) -> None:
        claim = rows[at(rows, "RunClaimed")]
        payload = {"owner": "other", "epoch": 2, "took_over": claim["payload"]["owner"], **fields}
        rows.insert(5, {**claim, "payload": payload})

    return change


def released(rows: list[Row]) -> None:
    claim = rows[at(rows, "RunClaimed")]
    rows.insert(5, {**claim, "type": "RunReleased", "payload": {"owner": claim["payload"]["owner"]}})


def test_a_good_store(good):
    """Nothing is found, and everything is seen."""
    history = check_store(good)
    assert {run.id: run.status for run in history.runs.values()} == dict.fromkeys(
        ("sequential", "storm", "post", "tree", "tree.leaf-1", "tree.leaf-2"), "completed"
    )
    storm = history.runs["storm"]
    hopeless = storm.steps[0, "hopeless#1"]
    assert (hopeless.status, hopeless.attempts, hopeless.failures, hopeless.successes) == ("failed", 3, 3, 0)
    assert storm.result_json == WORKLOADS["storm"].plan["storm"].result_json
    assert history.runs["sequential"].steps[0, "work#7"].result_json == '"' + "6" * 40_000 + '"'
    check_rebuilt(good)


def test_no_store_yet(tmp_path):
    """What was never made, or is not more than an empty file, has no history."""
    assert check_store(tmp_path).runs == {}
    (tmp_path / "holdfast.db").touch()
    assert check_store(tmp_path).runs == {}


def test_the_store_is_left_alone(home):
    """Looking changes no byte and leaves no file."""
    before = {path.name: path.read_bytes() for path in home.iterdir() if path.is_file()}
    check_store(home)
    check_rebuilt(home)
    assert {path.name: path.read_bytes() for path in home.iterdir() if path.is_file()} == before


_RUN = "(SELECT id FROM streams WHERE name = 'storm')"
_LAST = f"stream = {_RUN} AND version = (SELECT version FROM streams WHERE name = 'storm')"


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (f"DELETE FROM events WHERE stream = {_RUN} AND version = 4", "is missing"),
        (f"DELETE FROM events WHERE {_LAST}", "is missing|the head is at version"),
        ("DELETE FROM events WHERE position = (SELECT max(position) FROM events)", "the head is at version"),
        (f"UPDATE events SET payload = payload || ' ' WHERE stream = {_RUN} AND version = 1", "wrong hash"),
        (f"UPDATE events SET time = time + 1 WHERE stream = {_RUN} AND version = 2", "wrong hash"),
        (f"UPDATE events SET type = 'StepRan' WHERE stream = {_RUN} AND version = 3", "wrong hash"),
        (f"UPDATE events SET hash = zeroblob(32) WHERE {_LAST}", "wrong hash"),
        (f"UPDATE events SET version = 99 WHERE {_LAST}", "expected version"),
        ("UPDATE events SET synced = 7 WHERE position = 3", "synced is 7"),
        ("UPDATE streams SET version = version - 1 WHERE name = 'storm'", "the head is at version"),
        ("UPDATE streams SET hash = zeroblob(32) WHERE name = 'storm'", "the head is at version"),
        ("UPDATE streams SET time = time + 1 WHERE name = 'storm'", "the head is at version"),
        ("UPDATE streams SET epoch = epoch + 1 WHERE name = 'storm'", "the head's epoch is 2"),
        ("UPDATE streams SET epoch = 0 WHERE name = 'storm'", "the head's epoch is 0"),
        ("DELETE FROM streams WHERE name = 'storm'", "has no head"),
        ("UPDATE streams SET name = 'calm' WHERE name = 'storm'", "wrong hash"),
        ("UPDATE streams SET kind = 'task' WHERE name = 'storm'", "of another kind"),
        ("UPDATE runs SET status = 'running' WHERE workflow = 'storm'", "table runs .* status is 'running'"),
        ("UPDATE runs SET owner = 'x' WHERE workflow = 'storm'", "table runs .* owner"),
        ("DELETE FROM runs WHERE workflow = 'storm'", "table runs .* a row is missing"),
        ("UPDATE step_rows SET attempt = 2 WHERE key = 'hopeless#1'", "table step_rows .* attempt is 2"),
        ("UPDATE step_rows SET status = 'failed' WHERE key = 'flaky#1'", "table step_rows .* status"),
        ("DELETE FROM step_rows WHERE key = 'flaky#2'", "table step_rows .* a row is missing"),
        ("INSERT INTO step_rows SELECT run, 3, key, name, kind, effect, status, attempt, started_at, "
         "ended_at, due_at, child, version FROM step_rows LIMIT 1", "table step_rows .* a row too many"),
        ("DELETE FROM blobs WHERE rowid = 1", "large values are missing"),
        ("UPDATE blobs SET data = x'00' WHERE rowid = 1", "does not match its hash"),
        ("INSERT INTO blobs VALUES (lower(hex(randomblob(32))), x'00')", "does not match its hash"),
        ("DELETE FROM meta WHERE key = 'incarnation'", "no incarnation"),
        ("PRAGMA application_id = 1", "application_id"),
    ],
)  # fmt: skip
def test_damage_to_rows(home, statement, found):
    """One row changed by hand."""
    edit(home, statement)
    with pytest.raises(Violation, match=found):
        check_store(home)


@pytest.mark.parametrize(
    ("run", "change", "found"),
    [
        ("sequential", again("StepRan", "work#5"), "work#5 is not new"),
        ("storm", again("StepCompleted", "flaky#1"), "flaky#1 is completed"),
        ("storm", again("StepStarted", "flaky#1"), "attempt 1 of flaky#1 follows 1"),
        ("storm", again("StepFailed", "hopeless#1"), "hopeless#1 is failed"),
        ("storm", changed("StepCompleted", "flaky#1", attempt=2), "attempt 2 of flaky#1, which is at 3"),
        ("storm", without("StepStarted", "flaky#1"), "flaky#1 never started|begins with attempt 2"),
        ("storm", again("SleepEnded", "sleep#1"), "sleep#1 is completed"),
        ("sequential", again("ValueRecorded", "random#1"), "random#1 is recorded already"),
        ("sequential", moved("StepRan", "work#5", behind="RunCompleted"), "nothing follows"),
        ("sequential", again("RunCompleted", ""), "nothing follows a run that is completed"),
        ("sequential", without("RunCreated"), "a run begins with RunCreated"),
        ("sequential", without("RunClaimed"), "the run has no owner"),
        ("sequential", released, "the run has no owner"),
        ("sequential", claimed_again(epoch=3), "epoch 3 after 1"),
        ("sequential", claimed_again(epoch=1), "epoch 1 after 1"),
        ("sequential", claimed_again(took_over="someone"), "whose owner was"),
        ("sequential", claimed_again(took_over=""), "whose owner was"),
        ("sequential", claimed_again(), "the head's epoch is 1, the last one in the log 2"),
        ("sequential", changed("StepRan", "work#3", generation=1), "another generation"),
        ("post", again("StepStarted", "send#1", attempt=2), "once step send#1 begins again"),
        ("tree", without("StepStarted", "leaf#1"), "leaf#1 never started"),
    ],
)  # fmt: skip
def test_wrong_histories(home, run, change, found):
    """A log that is whole and chained, and tells of what cannot happen."""
    rewrite(home, run, change)
    with pytest.raises(Violation, match=found):
        check_store(home)


# Companions


def test_companions_go_with_their_appends(tmp_path, monkeypatch):
    """A store where both are is good. The checker finds an append without its companion, a companion without
    its append, and one that did not see what was there."""
    live("spending", tmp_path / "good", Side(None))
    assert check_store(tmp_path / "good").runs["spending"].status == "completed"
    budget, task = budget_of("spending"), task_of("spending")
    for n, (stream, change, found) in enumerate(
        (
            (budget, lambda rows: rows.pop(), "its budget"),
            ("spending", lambda rows: rows.pop(at(rows, "StepAttemptFailed", "flaky#1") + 1), "."),
            (budget, lambda rows: rows[2]["payload"].update(seen=1), "saw"),
            (task, lambda rows: rows.append({**rows[0]}), "its task"),
        )
    ):
        home = Path(shutil.copytree(tmp_path / "good", tmp_path / str(n)))
        rewrite(home, stream, change)
        with pytest.raises(Violation, match=found):
            check_store(home)
    without = dataclasses.replace(WORKLOADS["spending"], enter=lambda hf: None)
    monkeypatch.setitem(WORKLOADS, "spending", without)
    live("spending", tmp_path / "without", Side(None))
    with pytest.raises(Violation, match="its budget 0"):
        check_store(tmp_path / "without")


# Budgets


@pytest.fixture(scope="module")
def accounts(tmp_path_factory) -> Path:
    """A store with a run that has spent of a budget and of its parent."""
    home = tmp_path_factory.mktemp("accounts")
    WORKLOADS["metered"].prepare(home)
    live("metered", home, Side(None))
    return home


FLAKY = "metered:0:flaky#1:1"


LAST = "metered:0:ask#8:1"


def booked(rows: list[Row], type: str, id: str = FLAKY) -> int:
    """Where a budget has the event of this reservation."""
    return next(n for n, row in enumerate(rows) if row["type"] == type and row["payload"]["id"] == id)


def unbooked(*types: str, id: str = FLAKY) -> Callable[[list[Row]], None]:
    return lambda rows: [rows.pop(booked(rows, type, id)) for type in types] and None


def charged(usd: str) -> Callable[[list[Row]], None]:
    return lambda rows: rows[booked(rows, "BudgetSettled")]["payload"]["amounts"].update(usd=usd)


def never_raised(rows: list[Row]) -> None:
    last = max(n for n, row in enumerate(rows) if row["type"] == "BudgetSet")
    del rows[last]


def released(rows: list[Row]) -> None:
    row = rows[booked(rows, "BudgetSettled")]
    row |= {"type": "BudgetReleased", "payload": {"id": FLAKY}}


@pytest.mark.parametrize(
    ("budgets", "change", "found"),
    [
        (["team"], never_raised, "team, version .* of 0.25 usd"),
        (["ann"], unbooked("BudgetReserved"), "is charged, and has no open reservation"),
        (["team"], unbooked("BudgetSettled", id=LAST), "not the same in its parent team"),
        (["ann"], charged("0.02"), "not the same in its parent team"),
        (["ann"], unbooked("BudgetSettled"), "reserved in ann, and not in its parent"),
        (["ann", "team"], unbooked("BudgetSettled", id=LAST), "ended, and their reservations in .* are open"),
        (["ann", "team"], unbooked("BudgetReserved", "BudgetSettled"), "begun, and have no reservation"),
        (["ann", "team"], released, "begun, and their reservations in .* were released"),
        (["metered"], without("StepAttemptFailed", "flaky#1"), "."),
    ],
)
def test_wrong_accounts(accounts, tmp_path, budgets, change, found):
    """Limits that were passed, charges without reservations, reservations without ends, in a budget alone or
    in its parent too."""
    assert check_store(accounts).runs["metered"].status == "completed"
    home = Path(shutil.copytree(accounts, tmp_path / "home"))
    for name in budgets:
        rewrite(home, name if name == "metered" else budget_of(name), change)
    with pytest.raises(Violation, match=found):
        check_store(home)


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("UPDATE budgets SET spent_usd = '0'", "budgets"),
        ("UPDATE budgets SET unknown = unknown + 1", "budgets"),
        ("DELETE FROM run_spending", "run_spending"),
        (
            "INSERT INTO reservations SELECT stream, 'x', 'metered', 'ask#1', 1, '{}', 0, '', 1, 0 "
            "FROM budgets",
            "reservations",
        ),
    ],
)
def test_tables_of_budgets_that_do_not_fit(accounts, tmp_path, statement, table):
    """What was spent, what each run has spent, and what is reserved."""
    home = Path(shutil.copytree(accounts, tmp_path / "home"))
    edit(home, statement)
    with pytest.raises(Violation, match=f"table {table} has"):
        check_store(home)


# Runs that others steer


@pytest.fixture(scope="module")
def good_steered(tmp_path_factory) -> Path:
    """A store with gates, signals, a pause, a cancel, generations, operations, a fork and an archive."""
    home = tmp_path_factory.mktemp("steered")
    for name in ("turns", "asks", "helm"):
        if name == "turns":
            WORKLOADS[name].prepare(home)
        live(name, home, Side(None))
    return home


@pytest.fixture
def steered(good_steered, tmp_path) -> Path:
    return Path(shutil.copytree(good_steered, tmp_path / "home"))


def asked_to_cancel(rows: list[Row]) -> None:
    """Right after the first claim; another claim follows."""
    n = at(rows, "RunClaimed")
    rows.insert(n + 1, {**rows[n], "type": "CancelRequested", "payload": {}})


def not_taken(rows: list[Row]) -> None:
    """A signal is there, its gate is open, and something else happens instead."""
    value = {"key": "random#1", "ordinal": 9, "value": 1}
    rows[at(rows, "GateDecided", "early#1")] |= {"type": "ValueRecorded", "payload": value}


def test_a_good_steered_store(good_steered):
    """Nothing is found, and everything is seen."""
    history = check_store(good_steered)
    statuses = {run.id: run.status for run in history.runs.values()}
    ended = dict.fromkeys(("turns", "twig", "asks", "helm"), "completed")
    assert statuses == ended | {"helm.adrift-1": "cancelled"}
    assert history.archived == {"old"}
    assert [one.kind for one in history.operations.values()] == ["rewind", "undo", "undo"]
    assert (history.runs["turns"].generation, history.runs["twig"].forked_from) == (1, "turns")
    signals = [(one.name, one.taken_by) for one in history.runs["asks"].signals.values()]
    assert signals == [("early", "early#1"), ("parcel", "parcel#1")]
    check_rebuilt(good_steered)


@pytest.mark.parametrize(
    ("run", "change", "found"),
    [
        ("asks", again("GateDecided", "send#1"), "send#1 is completed"),
        ("asks", without("GateOpened", "send#1"), "send#1 never started"),
        ("asks", again("GateOpened", "send#1"), "send#1 is not new"),
        ("asks", changed("GateOpened", "send#1", digest=""), "has the digest of what it shows"),
        ("asks", changed("GateDecided", "send#1", outcome="received"), "waits for a decision"),
        ("asks", changed("GateDecided", "early#1", outcome="approved"), "for a signal, and was approved"),
        ("asks", changed("GateDecided", "early#1", signal=1), "no signal at version 1"),
        ("asks", changed("GateDecided", "early#1", value=18), "another value than its signal"),
        ("asks", changed("SignalReceived", name="other"), "takes a signal of the name other"),
        ("asks", again("SignalReceived", ""), "no signal at version|an earlier signal|another value"),
        ("asks", not_taken, "a gate waits for early, which came"),
        ("asks", changed("GateOpened", "never#1", until=1 << 60), "the time of never#1 is not over"),
        ("asks", moved("GateDecided", "parcel#1", behind="RunCompleted"), "nothing follows"),
        ("asks", again("CheckpointTaken", "half#1"), "half#1 is not new"),
        ("asks", again("Emitted", "progress#1"), "progress#1 is recorded already"),
        ("helm", again("RunPaused", ""), "it is paused already"),
        ("helm", asked_to_cancel, "a run that was to be cancelled"),
        ("turns", again("Rewound", ""), "not the next generation"),
        ("turns", changed("Rewound", version=1), "at which no step of this generation ended"),
        ("turns", changed("Rewound", parent=7), "from generation 7, not from 0"),
        ("turns", changed("Rewound", epoch=9), "epoch 9 after"),
        ("turns", changed("Rewound", operation="other"), "the log has None"),
        ("turns", changed("GenerationRestored", generation=5), "generation 5 was never left"),
        ("turns", changed("GateDecided", "gybe#1", generation=1), "another generation"),
        ("twig", changed("StepRan", "tack#1", result="other"), "StepRan is no event of turns"),
        ("twig", moved("RunForked", "", behind="RunClaimed"), "it is no new run|has no owner"),
    ],
)  # fmt: skip
def test_wrong_histories_of_steered_runs(steered, run, change, found):
    """A log that is whole and chained, and tells of what cannot happen."""
    rewrite(steered, run, change)
    with pytest.raises(Violation, match=found):
        check_store(steered)


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE operations SET person = 'x' WHERE kind = 'rewind'", "table operations .* person is 'x'"),
        ("DELETE FROM operations WHERE kind = 'rewind'", "table operations .* a row is missing"),
        ("UPDATE generations SET status = 'paused' WHERE generation = 0", "table generations .* status"),
        ("DELETE FROM generations", "table generations .* a row is missing"),
        ("UPDATE streams SET kind = 'run' WHERE kind = 'archived'", "was archived, and is there|is missing"),
        ("UPDATE streams SET version = version + 1 WHERE kind = 'archived'", "fewer are missing"),
        ("UPDATE streams SET hash = zeroblob(32) WHERE kind = 'archived'", "was archived at version"),
        ("UPDATE runs SET status = 'running' WHERE workflow = 'asks'", "table runs .* status"),
    ],
)
def test_damage_to_rows_of_steered_runs(steered, statement, found):
    """One row changed by hand."""
    edit(steered, statement)
    with pytest.raises(Violation, match=found):
        check_store(steered)


def test_an_archive_that_is_not_whole(steered):
    """A file that was cut, and one that is gone."""
    (file,) = (steered / "archive").iterdir()
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    file.write_bytes(gzip.compress(b"".join(lines[:3])))
    with pytest.raises(Violation, match="does not have old to its end"):
        check_store(steered)
    file.write_bytes(gzip.compress(b"".join(lines).replace(b"RunCreated", b"RunCreatex")))
    with pytest.raises(Violation, match="wrong hash"):
        check_store(steered)
    file.unlink()
    with pytest.raises(Violation, match="is missing"):
        check_store(steered)


def test_torn_pages(home):
    """A page of the file that is not a page."""
    with (home / "holdfast.db").open("r+b") as file:
        file.seek(3 * 2048)
        file.write(b"\xff" * 2048)
    with pytest.raises(Violation):
        check_store(home)


def test_half_a_migration(home):
    """Tables of one version, and the number of another."""
    edit(home, "PRAGMA user_version = 1")
    with pytest.raises(Violation, match="schema 1 has the tables"):
        check_store(home)


def test_what_only_the_product_finds(home):
    """A rebuild that would change a table is reported, too."""
    edit(home, "UPDATE step_rows SET status = 'failed' WHERE key = 'flaky#1'")
    with pytest.raises(Violation, match="audit verify"):
        check_rebuilt(home)


# Lines against the log


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> tuple[Path, list[str]]:
    """A whole life of the workload with once steps: its store and its lines."""
    home = tmp_path_factory.mktemp("said")
    side = Side(None)
    live("post", home, side)
    return home, side.past


def lived(home: Path, lines: list[str], *, cut: bool = False) -> Lives:
    lives = Lives(WORKLOADS["post"].plan)
    lives.add(lines, check_store(home), cut=cut)
    return lives


def test_a_good_life(said):
    """The lines of an undisturbed life agree with its log; a second one replays and begins nothing."""
    home, lines = said
    lives = lived(*said)
    assert lives.finish() == "completed"
    replayed = [line for line in lines if line.startswith(("told", "result"))]
    lives.add(replayed, check_store(home), cut=False)
    assert lives.finish() == "completed"


def replaced(pattern: str, by: str) -> Callable[[list[str]], list[str]]:
    return lambda lines: [re.sub(pattern, by, line) for line in lines]


def added(*more: str) -> Callable[[list[str]], list[str]]:
    return lambda lines: [*lines, *more]


def first(*more: str) -> Callable[[list[str]], list[str]]:
    return lambda lines: [*more, *lines]


def dropped(*gone: str) -> Callable[[list[str]], list[str]]:
    return lambda lines: [line for line in lines if line not in gone]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (added("told post work#4 -"), "work#4 of post was acknowledged, and the log has it as nothing"),
        (replaced(r"told post pay#1 \w+", "told post pay#1 0000"), "another value than the log has"),
        (added("told post pay#1 0000"), "it was .* before"),
        (replaced(r"result post \w+", "result post 0000"), "another result than the log has"),
        (added("result other 0000"), "gave a result, and the log has none"),
        (added("began post work#1", "ended post work#1"), "began after it was acknowledged"),
        (first("began post work#1", "ended post work#1"), "began 2 times in one life, which recorded 1 ends"),
        (first("began post send#1", "ended post send#1"), "began 2 times in one life"),
        (added("began post work#9"), "nobody planned it"),
        (added("ended post work#1"), "ended 2 times and began 1 times"),
        (dropped("began post work#1", "ended post work#1"), "an end that no body came to"),
        (dropped("ended post send#2"), "an end that no body came to"),
    ],
)
def test_lines_that_do_not_fit(said, change, found):
    """One line more, less, or other than the log has."""
    home, lines = said
    with pytest.raises(Violation, match=found):
        lived(home, change(lines))


@pytest.fixture(scope="module")
def said_of_gates(tmp_path_factory) -> tuple[Path, list[str]]:
    """A whole life of the workload with gates and signals."""
    home, side = tmp_path_factory.mktemp("gates"), Side(None)
    live("asks", home, side)
    return home, side.past


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (replaced(r"told asks send#1 \w+", "told asks send#1 0000"), "another value than the log has"),
        (added("told asks desk[3]/turn#1 -"), "the log has it as nothing"),
        (added("decided asks send#1 rejected"), "was rejected; the log has 'approved'"),
        (added("decided asks other#1 approved"), "was approved; the log has ''"),
        (added("sent asks never 0000"), "signal never was sent to asks and is not there"),
        (added("stopped-at asks paused"), "the log has no RunPaused"),
        (added("stopped-at asks cancelled"), "the log has no RunCancelled"),
    ],
)
def test_lines_of_steering_that_do_not_fit(said_of_gates, change, found):
    """What somebody was told is done must be in the log."""
    home, lines = said_of_gates
    lives = Lives(WORKLOADS["asks"].plan)
    with pytest.raises(Violation, match=found):
        lives.add(change(lines), check_store(home), cut=False)


def test_a_body_that_was_cut_off(said):
    """It may have begun once more than the log knows, but a once step only on an intent of its own."""
    home, lines = said
    assert lived(home, ["began post work#1", *lines], cut=True).finish() == "completed"
    with pytest.raises(Violation, match=r"began 3 times in one life.* at most 1"):
        lived(home, ["began post work#1", "began post work#1", *lines], cut=True)
    with pytest.raises(Violation, match=r"send#1 of post began 2 times on 1 synced intents"):
        lived(home, ["began post send#1", *lines], cut=True)
    with pytest.raises(Violation, match=r"work#1 of post began after it was acknowledged"):
        lived(home, [*lines, "began post work#1"], cut=True)


def test_a_completed_step_that_begins(said):
    """What the log had before a life never begins in it."""
    home, _ = said
    lives = lived(*said)
    with pytest.raises(Violation, match="began, although it had completed before"):
        lives.add(["began post work#2", "ended post work#2"], check_store(home), cut=True)


def test_what_is_gone(said, tmp_path):
    """A log that is shorter after a life than before it."""
    lives = lived(*said)
    empty = check_store(tmp_path)
    with pytest.raises(Violation, match="is not there after it"):
        lives.add([], empty, cut=True)
    assert lives.lost == 1


def test_an_acknowledgement_without_a_sync(said, tmp_path):
    """A step that the workflow has, and whose commit did not wait for the disk."""
    home, lines = said
    copy = Path(shutil.copytree(home, tmp_path / "copy"))
    edit(copy, "UPDATE events SET synced = 0 WHERE type = 'StepRan'")
    with pytest.raises(Violation, match="a commit that was not synced"):
        lived(copy, lines)


def test_a_run_without_an_end(said, tmp_path):
    """After a life without faults a run is over, or says what it waits for."""
    half = Side(None)
    half.hooks["began post work#2"] = _interrupt
    live("post", tmp_path, half)
    with pytest.raises(Violation, match="run post is running"):
        lived(tmp_path, half.past, cut=True).finish()


def _interrupt() -> None:
    raise KeyboardInterrupt
