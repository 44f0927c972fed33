"""Tasks and sessions through the façade: claims, checks, links, files, and what is refused."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.tracker import claim_race

from holdfast import Holdfast, step, wiring, workflow
from holdfast.errors import (
    BadInput,
    CheckFailed,
    ClaimLost,
    HoldfastError,
    LinkCycle,
    NotFound,
    Refused,
    StoreCorrupt,
    TaskHeld,
    TaskNotFound,
)
from holdfast.facade.sessions import Sessions
from holdfast.kernel.author import Author
from holdfast.kernel.task import TaskCompleted, stream_of
from holdfast.redaction import Redactor
from holdfast.store.oracle import OracleStore
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing import FakeClock
from holdfast.tracker import claiming, creating, ending
from holdfast.tracker.claiming import ready
from holdfast.tracker.tracker import Tracker

SECRET = "sk-ant-api03-" + "a" * 40


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def hf(tmp_path: Path, clock: FakeClock) -> Iterator[Holdfast]:
    with Holdfast(tmp_path / "home", durability="process", clock=clock) as opened:
        yield opened


def test_ready_follows_blockers_reasons_and_priorities(hf: Holdfast) -> None:
    """A task is ready when all that it needs is completed or archived, and nothing blocks it."""
    a, b = hf.tasks.create("a", priority=3), hf.tasks.create("b", priority=1)
    c = hf.tasks.create("c", priority=0, needs=[a.id, b.id])

    def ready() -> str:
        return "".join(task.name for task in hf.tasks.ready())

    assert ready() == "ba"
    hf.tasks.complete(b.id)
    assert (ready(), hf.tasks.get(c.id).open_blockers) == ("a", 1)
    hf.tasks.archive(a.id)
    assert ready() == "c"
    hf.tasks.reopen(b.id)
    assert ready() == "b"
    hf.tasks.unlink(c.id, b.id)
    assert ready() == "cb"
    hf.tasks.block(c.id, "no key")
    assert ready() == "b"
    hf.tasks.unblock(c.id)
    claim = hf.tasks.claim()
    assert claim is not None and claim.task.name == "c"
    hf.tasks.edit(b.id, priority=4)
    assert [task.priority for task in hf.tasks.list()] == [0, 4]


def test_a_worker_claims_only_tasks_with_its_label(hf: Holdfast, clock: FakeClock) -> None:
    """Behind any number of more urgent ones; also one whose claim is dead. In priority order."""
    for n in range(claiming._LOOKED_AT + 1):
        hf.tasks.create(f"other {n}", priority=0, labels=["other"])
    late, first = (hf.tasks.create(f"own {n}", priority=n, labels=["own", "x"]) for n in (3, 1))
    assert [task.id for task in hf.tasks.ready(label="own")] == [first.id, late.id]
    assert [task.id for task in hf.tasks.ready(1, "x")] == [first.id]
    claims = [hf.tasks.claim(label="own", lease=60) for _ in range(3)]
    assert [claim and claim.task.id for claim in claims] == [first.id, late.id, None]
    clock.advance(timedelta(seconds=61))
    assert [task.id for task in hf.tasks.ready(label="own")] == [first.id, late.id]
    with pytest.raises(BadInput, match="leave it out"):
        hf.tasks.claim(first.id, label="own")


def test_a_claim_is_fenced_by_its_number(hf: Holdfast, clock: FakeClock) -> None:
    """When the lease is over, somebody else may claim; what the first one does then is refused, and it is
    told who has the task."""
    task = hf.tasks.create("a").id
    first = hf.tasks.claim(task, lease=60)
    assert first is not None
    with pytest.raises(TaskHeld, match=r"until .*claim 1"):
        hf.tasks.claim(task)
    first.renew(120)
    clock.advance(100)
    assert hf.tasks.ready() == []
    clock.advance(30)
    assert [task.id for task in hf.tasks.ready()] == [task]
    second = hf.tasks.claim()
    assert second is not None and second.number == 2
    for act in (first.complete, first.renew, first.release, lambda: first.fail("no")):
        with pytest.raises(ClaimLost, match="has it with claim 2"):
            act()
    with pytest.raises(ClaimLost, match=r"claim 3 of task .* was never made: .* has it with claim 2"):
        hf.tasks.complete(task, number=3)
    with pytest.raises(ClaimLost, match=r"claim 0 of task .* was never made"):
        hf.tasks.complete(task, number=0)
    assert second.complete("done", {"n": 1}).attempts == 2
    assert second.complete("done", {"n": 1}).summary == "done", "the same claim may say so again"
    with pytest.raises(Refused, match="is completed; reopen"):
        hf.tasks.claim(task)


def test_a_second_completion_that_says_something_else_is_refused(hf: Holdfast) -> None:
    """Its summary would be lost. The refusal names who completed the task, and when; the same completion of
    the same claim is a second try after a crash."""
    task = hf.tasks.create("a").id
    claim = hf.tasks.claim(task)
    assert claim is not None
    hf.tasks.complete(task, summary="summary one")
    who = wiring.actor(hf._place)
    with pytest.raises(
        ClaimLost, match=rf"was completed by {who} at \d{{4}}-\d\d-\d\d .*task show"
    ) as refused:
        claim.complete("summary two", evidence={"tests": 2})
    assert (refused.value.by, refused.value.status, refused.value.exit_code) == (who, "completed", 4)
    with pytest.raises(ClaimLost, match=rf"is completed already, and nothing was recorded: .* by {who} at"):
        hf.tasks.complete(task, summary="summary one")
    assert claim.complete("summary one").summary == "summary one"
    assert len(hf.tasks.events(task)) == 3
    other = hf.tasks.create("b").id
    given_up = hf.tasks.claim(other)
    assert given_up is not None
    given_up.fail("no ink")
    assert given_up.fail("no ink").error == "no ink"
    with pytest.raises(ClaimLost, match=f"recorded as failed by {who} at"):
        given_up.fail("no paper")


def test_a_claim_that_a_live_process_holds_is_not_resumed(hf: Holdfast) -> None:
    """Not by its id, nor without: the process works on the task. When it is dead, the task is resumed."""
    task, other = hf.tasks.create("a").id, hf.tasks.create("b").id
    hf.tasks.start(other)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        hf.tasks.claim(task, holder=child.pid)
        version = hf.tasks.get(task).version
        with pytest.raises(
            TaskHeld, match=rf"held by live process {child.pid} \(claimed by .*claim 1\)"
        ) as held:
            hf.tasks.resume(task)
        assert (held.value.pid, held.value.exit_code) == (child.pid, 4)
        assert hf.tasks.resume().task.id == other
        hf.tasks.release(other)
        with pytest.raises(TaskHeld, match=f"held by live process {child.pid}"):
            hf.tasks.resume()
        assert (hf.tasks.current(), hf.tasks.get(task).version) == (None, version)
    finally:
        child.communicate()
    resumed = hf.tasks.resume().task
    assert (resumed.id, resumed.claim and resumed.claim.number) == (task, 2)


def test_resume_takes_no_task_of_another_actor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also not one whose lease is over: it names what others have in progress."""
    clock = FakeClock()
    monkeypatch.setenv("HOLDFAST_ACTOR", "ann")
    with Holdfast(tmp_path / "home", durability="process", clock=clock) as hf:
        task = hf.tasks.create("kelp").id
        hf.tasks.start(task, lease=60)
    monkeypatch.setenv("HOLDFAST_ACTOR", "bob")
    with Holdfast(tmp_path / "home", durability="process", clock=clock) as hf:
        clock.advance(100)
        named = rf"no task of yours is in progress; in progress are {task[:8]} \(kelp\) of ann"
        with pytest.raises(NotFound, match=named):
            hf.tasks.resume()
        assert hf.tasks.current() is None
        assert hf.tasks.get(task).version == 2
        assert hf.tasks.resume(task).task.claim is not None, "named by its id, it is free"
        assert hf.tasks.resume().task.id == task


def test_a_start_that_is_refused_begins_no_session(hf: Holdfast) -> None:
    """A completed task, and one that is claimed. One that succeeds begins a session in its own commit."""
    done, held, free = (hf.tasks.create(name).id for name in ("done", "held", "free"))
    hf.tasks.complete(done)
    hf.tasks.claim(held)
    for task, error in ((done, Refused), (held, TaskHeld)):
        with pytest.raises(error):
            hf.tasks.start(task)
    assert hf.sessions.list() == []
    started = hf.tasks.start(free).task
    (session,) = hf.sessions.list()
    assert (started.session, started.claim and started.claim.session) == (session.id, session.id)
    hf.tasks.start(hf.tasks.create("next").id)
    assert len(hf.sessions.list()) == 1


def test_a_completion_is_repeated_whatever_its_evidence_is_made_of(hf: Holdfast) -> None:
    """What JSON records of a tuple is a list; the same call is the same completion."""
    task = hf.tasks.create("a").id
    claim = hf.tasks.claim(task)
    assert claim is not None
    for _ in range(2):
        assert claim.complete("done", {"files": ("a.py", "b.py"), 1: 2.0}).status == "completed"


def test_a_claim_ends_with_its_process_and_not_before(hf: Holdfast) -> None:
    """A process that lives keeps its claim; at its death the task is ready, at once."""
    task = hf.tasks.create("a").id
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    claim = hf.tasks.claim(task, holder=child.pid)
    assert claim is not None and hf.tasks.ready() == []
    with pytest.raises(TaskHeld):
        hf.tasks.claim(task, holder=os.getpid())
    child.kill()
    child.communicate()
    assert [task.id for task in hf.tasks.ready()] == [task]
    taken = hf.tasks.claim(holder=os.getpid())
    assert taken is not None and taken.number == 2
    with pytest.raises(ClaimLost):
        claim.complete()
    with pytest.raises(BadInput, match="no process"):
        hf.tasks.claim(hf.tasks.create("b").id, holder=child.pid)


def test_checks_must_succeed_or_be_left_out_with_a_reason(hf: Holdfast) -> None:
    """The output of the one that fails is in the error; secrets in it are not."""
    task = hf.tasks.create("a", checks=["true", f"echo wrong; echo {SECRET}; exit 3", "false"]).id
    with pytest.raises(CheckFailed, match="exit code 3") as failed:
        hf.tasks.complete(task)
    assert "wrong" in failed.value.output and SECRET not in str(failed.value)
    assert hf.tasks.get(task).status == "pending"
    with pytest.raises(BadInput, match="needs a reason"):
        hf.tasks.complete(task, unchecked=" ")
    assert hf.tasks.complete(task, unchecked="no network").unchecked == "no network"
    assert hf.tasks.events(task)[-1].data["unchecked"] == "no network"


def test_a_check_that_takes_too_long_leaves_no_process(
    hf: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ended with what it has started; however much it printed, the end of that is shown."""
    pid, wait = tmp_path / "pid", subprocess.Popen.wait

    def run_out_of_time(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        if timeout is None:
            return wait(process)
        until(lambda: pid.exists() and pid.read_text().endswith("\n"))
        raise subprocess.TimeoutExpired("", timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", run_out_of_time)
    loud = f"yes | head -c 3000000; echo the end; sleep 600 & echo $! > {pid}; wait"
    task = hf.tasks.create("a", checks=[loud]).id
    with pytest.raises(CheckFailed, match="took longer") as failed:
        hf.tasks.complete(task)
    assert failed.value.output.endswith("the end") and len(failed.value.output) <= 4000
    until(lambda: is_dead(int(pid.read_text())))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_dead(pid: int) -> bool:
    """A zombie does nothing any more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_task_that_needs_an_open_one_is_not_completed(
    hf: Holdfast, clock: FakeClock, tmp_path: Path
) -> None:
    """The open ones are named, and the checks are not run. With a reason it is completed, and shows the
    reason and what was open; `undo` undoes that. What is completed or archived holds nothing up."""
    first, second, third = (hf.tasks.create(name) for name in ("dig", "water", "weed"))
    task = hf.tasks.create("reap", needs=[first.id, second.id, third.id], checks=[f"touch {tmp_path}/ran"])
    hf.tasks.archive(third.id)
    with pytest.raises(Refused) as refused:
        hf.tasks.complete(task.id)
    for one in (first, second):
        assert f"{one.id[:8]} ({one.name}), which is pending" in str(refused.value)
    assert third.id[:8] not in str(refused.value) and "--anyway" in str(refused.value)
    assert not (tmp_path / "ran").exists() and hf.tasks.get(task.id).status == "pending"
    with pytest.raises(BadInput, match="anyway needs a reason"):
        hf.tasks.complete(task.id, anyway=" ")
    hf.tasks.complete(first.id)
    done = hf.tasks.complete(task.id, unchecked="no shell", anyway=f"they wait {SECRET}")
    assert done.status == "completed"
    (note,) = hf.tasks.show(task.id).notes
    assert note.kind == "anyway" and "they wait" in note.text and SECRET not in note.text
    assert f"(completed while open: {second.id[:8]})" in note.text
    event = hf.tasks.events(task.id)[-1]
    assert event.data["needed"] == [second.id] and SECRET not in str(event.data)
    hf.undo(hf.operations()[0].id)
    assert hf.tasks.get(task.id).status == "pending"
    hf.tasks.complete(second.id)
    assert hf.tasks.complete(task.id, unchecked="no shell", anyway="not needed").status == "completed"
    assert "anyway" not in hf.tasks.events(task.id)[-1].data, "nothing was open"


def test_a_blocker_that_came_during_the_checks_counts(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link, or a blocker that was reopened, while the checks ran: the task is not completed."""
    task, other = hf.tasks.create("reap", checks=["true"]), hf.tasks.create("dig")
    changes = [lambda: hf.tasks.link(task.id, other.id), lambda: hf.tasks.reopen(other.id)]

    def run_checks(_: Tracker, id: str, __: tuple[str, ...]) -> None:
        if id == task.id:
            changes.pop(0)()

    monkeypatch.setattr(ending, "run_checks", run_checks)
    with pytest.raises(Refused, match="which is pending"):
        hf.tasks.complete(task.id)
    hf.tasks.complete(other.id, unchecked="done")
    with pytest.raises(Refused, match="which is pending"):
        hf.tasks.complete(task.id)
    assert hf.tasks.get(task.id).status == "pending" and not changes


@pytest.mark.parametrize("kind", ["sqlite", "oracle"])
def test_completing_asks_either_store(tmp_path: Path, clock: FakeClock, kind: str) -> None:
    """Both stores refuse a task that needs an open one, and record the same event where a reason is given."""
    store: Any = OracleStore() if kind == "oracle" else SqliteStore(tmp_path, durability="process")
    ids = iter(f"{n:08d}-task" for n in range(9))
    tracker = Tracker(store, clock, lambda: Author("ann"), lambda: Redactor(()), tmp_path, lambda: None)
    monkey = pytest.MonkeyPatch()
    monkey.setattr(Tracker, "new_id", lambda *_: next(ids))
    try:
        first = creating.create(tracker, {"name": "dig"})
        task = creating.create(tracker, {"name": "reap"}, needs=[first])
        with pytest.raises(Refused, match="dig"):
            ending.complete(tracker, task)
        ending.complete(tracker, task, anyway="they wait")
        event, _, _ = store.load(stream_of(task))[-1]
        assert event == TaskCompleted(0, anyway="they wait", needed=(first,), author=Author("ann"))
        assert store.task(task).fields.status == "completed" and list(store.verify()) == []
        ending.complete(tracker, first)
    finally:
        monkey.undo()
        store.close()


def test_links_close_no_cycle(hf: Holdfast) -> None:
    """A cycle of any length is refused and named; a task on itself, too; other kinds may go around."""
    ids = [hf.tasks.create(name).id for name in "abcd"]
    for task, on in pairwise(ids):
        assert hf.tasks.link(task, on)
    assert not hf.tasks.link(ids[0], ids[1]), "linked already"
    with pytest.raises(LinkCycle, match=r"\(d\) → \w+ \(a\) → \w+ \(b\) → \w+ \(c\) → \w+ \(d\)") as cycle:
        hf.tasks.link(ids[3], ids[0])
    assert cycle.value.path == [ids[3], *ids]
    with pytest.raises(BadInput, match="to itself"):
        hf.tasks.link(ids[0], ids[0])
    with pytest.raises(TaskNotFound):
        hf.tasks.link(ids[0], "ffffffff-0000-4000-8000-000000000000")
    hf.tasks.link(ids[3], ids[0], "related")
    hf.tasks.link(ids[1], ids[0], "parent")
    with pytest.raises(BadInput, match="has a parent already"):
        hf.tasks.link(ids[1], ids[2], "parent")
    assert [(node.task.name, node.depth) for node in hf.tasks.tree(ids[0])] == [("a", 0), ("b", 1)]
    with pytest.raises(NotFound):
        hf.tasks.unlink(ids[3], ids[0])


def nested(levels: int) -> list[Any]:
    """A list in a list, so many levels deep."""
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def bad(hf: Holdfast, task: str) -> list[tuple[str, Any]]:
    tasks = hf.tasks
    return [
        ("needs a name", lambda: tasks.create(" ")),
        ("one line", lambda: tasks.create("a\nb")),
        ("10,000,000 characters, and 262,144 at most", lambda: tasks.create("a", body="x" * 10_000_000)),
        ("priority 7", lambda: tasks.create("a", priority=7)),
        ("list of texts", lambda: tasks.create("a", labels="x")),
        ("JSON can carry", lambda: tasks.create("a", meta={"a": object()})),
        ("at most 190 levels", lambda: tasks.create("a", meta={"a": nested(700)})),
        ("at most 190 levels", lambda: tasks.create("a", meta={"a": nested(5000)})),
        ("meta of a task is nested deeper than 190", lambda: tasks.edit(task, meta={"a": nested(190)})),
        ("evidence of a task is nested deeper than 190", lambda: tasks.complete(task, evidence=nested(191))),
        ("'a\\udcff' has bytes that are not UTF-8", lambda: tasks.create("a\udcff")),
        ("has bytes that are not UTF-8", lambda: tasks.edit(task, meta={"\udcff": 1})),
        ("no task 'ffff", lambda: tasks.create("a", needs=["ffff"])),
        ("no time zone", lambda: tasks.create("a", due=__import__("datetime").datetime(2026, 1, 1))),
        ("no status", lambda: tasks.list("open")),
        ("is a text, not 5", lambda: tasks.note(task, 5)),  # type: ignore[arg-type]
        ("is a text, not None", lambda: tasks.create("a", body=None)),  # type: ignore[arg-type]
        ("10,000,008 characters", lambda: tasks.create("a", meta={"a": "x" * 10_000_000})),
        ("no kind of note", lambda: tasks.note(task, "x", "poem")),
        ("no kind of link", lambda: tasks.link(task, task, "near")),
        ("lease of -1", lambda: tasks.claim(task, lease=-1)),
        ("nothing to reopen", lambda: tasks.reopen(task)),
        ("is not claimed", lambda: tasks.renew(task)),
        ("no task 'abc'", lambda: tasks.find("abc")),
        ("no task is in progress", tasks.resume),
        ("cannot be read", lambda: tasks.import_("/nowhere/x")),
        ("cannot be written", lambda: tasks.export("/nowhere/x")),
        ("no session", lambda: hf.sessions.end("ffff")),
    ]


def test_bad_input_is_a_sentence_and_changes_nothing(hf: Holdfast) -> None:
    """Each names what is wrong; nothing was written."""
    task = hf.tasks.create("a").id
    before = hf._store.tail()
    for said, act in bad(hf, task):
        with pytest.raises(HoldfastError) as refused:
            act()
        assert said in str(refused.value) and "\n" not in str(refused.value), said
    assert hf._store.tail() == before


def test_an_open_file_is_imported_with_dates_as_people_write_them(hf: Holdfast) -> None:
    """A date is local where it has no time zone, as for `--due`; microseconds stay what they are."""
    at = datetime(2026, 12, 31, 11, tzinfo=UTC)
    lines = [
        {"name": "a", "due": "2026-12-31"},
        {"name": "b", "due": "2026-12-31T12:00+01:00"},
        {"name": "c", "due": int(at.timestamp()) * 1_000_000},
        {"name": "d"},
    ]
    assert hf.tasks.import_(io.BytesIO("\n".join(map(json.dumps, lines)).encode())).created == 4
    due = {task.name: task.due for task in hf.tasks.list()}
    assert due == {"a": datetime(2026, 12, 31).astimezone(), "b": at, "c": at, "d": None}
    for wrong in ("soon", "0001-01-01", "1969-12-31", -1, None):
        file = io.BytesIO(json.dumps({"name": "e", "due": wrong}).encode())
        with pytest.raises(BadInput, match=r"^line 1 of the file is wrong: due .* nothing was read in$"):
            hf.tasks.import_(file)


def test_the_deepest_meta_is_exported_and_imported(hf: Holdfast, tmp_path: Path) -> None:
    """The bound leaves room for the events and the lines around a value."""
    task = hf.tasks.create("a", meta={"a": nested(189)}).id
    hf.tasks.edit(task, meta={"b": nested(189)})
    hf.tasks.complete(task, evidence=nested(190))
    hf.tasks.export(tmp_path / "tasks.jsonl")
    with Holdfast(tmp_path / "other", durability="process") as other:
        assert other.tasks.import_(tmp_path / "tasks.jsonl").created == 1
        assert other.tasks.show(task).to_json() == hf.tasks.show(task).to_json()


def test_what_is_recorded_has_no_secret(hf: Holdfast) -> None:
    """In no text of a task, in no event, and not in the database."""
    task = hf.tasks.create(f"use {SECRET}", body=SECRET, labels=[SECRET], meta={"password": "hunter22"}).id
    hf.tasks.note(task, SECRET)
    hf.tasks.edit(task, body=f"again {SECRET}")
    hf.tasks.complete(task, summary=SECRET, evidence={"token": SECRET})
    hf.sessions.end(hf.sessions.start().id, SECRET)
    data = b"".join(path.read_bytes() for path in hf.home.glob("holdfast.db*"))
    assert SECRET.encode() not in data and b"hunter22" not in data


def test_export_and_import_are_inverse_and_a_wrong_line_is_named(hf: Holdfast, tmp_path: Path) -> None:
    """An empty store gets all that was written out; a second time changes nothing; a line from elsewhere is
    a new task; a wrong one is refused with its number, and nothing of the file is read in."""
    a = hf.tasks.create("a", labels=["x"], meta={"k": [1, None]})
    b = hf.tasks.create("b", needs=[a.id])
    hf.tasks.note(a.id, "why", "decision")
    hf.tasks.start(a.id)
    file, again = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    hf.tasks.export(file)
    with Holdfast(tmp_path / "other", durability="process") as other:
        done = other.tasks.import_(file)
        assert (done.created, done.links) == (2, 1)
        other.tasks.export(again)
        assert again.read_text() == file.read_text()
        assert other.tasks.import_(file).kept == 2
        hf.tasks.complete(a.id)
        hf.tasks.export(file)
        assert other.tasks.import_(file).extended == 1
        assert [task.id for task in other.tasks.ready()] == [b.id]
        assert list(other._store.verify()) == []
        count = len(other.tasks.list())
        for line, said in (
            ("{", "line 2 .* is wrong"),
            ("[1]", "no JSON object"),
            ('{"name": ""}', "needs a name"),
            ('{"name": "a", "colour": 1}', "no 'colour'"),
            ('{"task": "7", "name": "a"}', "no UUID"),
            ('{"holdfast": "runs"}', "has no tasks"),
            (json.dumps({"link": [a.id, b.id, "blocks"]}), "close a cycle"),
            (json.dumps({"link": [a.id, "x", "blocks"]}), "no task x"),
        ):
            again.write_text('{"name": "new"}\n' + line + "\n")
            with pytest.raises(BadInput, match=said):
                other.tasks.import_(again)
        assert len(other.tasks.list()) == count
        again.write_text('{"name": "new", "priority": 0}\n')
        assert other.tasks.import_(again).created == 1
        again.write_text('{"name": "c", "checks": ["true", "false"]}\n')
        assert other.tasks.import_(again).checks == 2


def test_a_file_from_elsewhere_writes_nothing_but_tasks(hf: Holdfast, tmp_path: Path) -> None:
    """An imported file cannot delete streams, leak a secret, or leave a task that cannot be read; bad lines
    are named, and nothing of their file is written."""
    kept = hf.tasks.create("kept")
    file = tmp_path / "tasks.jsonl"
    new = "7e57ab1e-0000-4000-8000-000000000001"
    created = {"type": "TaskCreated", "at": 1, "payload": {"name": "new", "body": f"key {SECRET}"}}

    def import_(*events: dict[str, Any]) -> object:
        file.write_text(json.dumps({"task": new, "events": [created, *events]}) + "\n")
        return hf.tasks.import_(file)

    bad = {
        "StreamArchived": {"stream": f"@task/{kept.id}", "version": 1, "hash": "00"},
        "TaskEdited": {"changes": {"labels": [1]}},
        "TaskNoted": {"kind": "note", "text": "x" * (300 << 10)},
        "ClaimRenewed": {"number": 1, "until": 1 << 70},
        "TaskReverted": {"version": 1, "operation": "x", "fields": {"name": ""}},
    }
    for type, payload in bad.items():
        with pytest.raises(BadInput, match=r"line 1 of .* is wrong"):
            import_({"type": type, "at": 2, "payload": payload})
    assert [task.name for task in hf.tasks.list()] == ["kept"]
    import_()
    assert SECRET not in hf.tasks.get(new).body
    link = {"link": [kept.id, new, "parent"]}
    third = hf.tasks.create("third")
    hf.tasks.link(kept.id, third.id, "parent")
    file.write_text(json.dumps(link) + "\n")
    with pytest.raises(BadInput, match="a second parent"):
        hf.tasks.import_(file)


ATTEMPTS: list[int] = []


@step
def change(home: str, done: str, failed: str, reopened: str, memory: str, session: str) -> int:
    with Holdfast(home, durability="process") as hf:
        hf.tasks.complete(done, anyway="the other one fails")
        hf.tasks.fail(failed, "no")
        hf.tasks.reopen(reopened)
        hf.tasks.unlink(done, failed)
        hf.memory.withdraw(memory)
        hf.sessions.end(session)
    ATTEMPTS.append(1)
    if len(ATTEMPTS) == 1:
        raise OSError("cut off")
    return len(ATTEMPTS)


@workflow
def changes(home: str, ids: list[str]) -> int:
    return change(home, *ids)


@workflow
def starts(home: str) -> str:
    with Holdfast(home, durability="process") as hf:
        return hf.sessions.start("ann").id


def test_a_step_that_runs_again_changes_a_task_once(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that was cut off after it changed something finds that it did, and goes on."""
    ATTEMPTS.clear()
    tasks = [hf.tasks.create(name).id for name in ("done", "failed", "reopened")]
    hf.tasks.complete(tasks[2])
    hf.tasks.link(tasks[0], tasks[1])
    ids = [*tasks, hf.memory.remember("so").id, hf.sessions.start("bob").id]
    with pytest.raises(OSError, match="cut off"):
        hf.with_id("changes").run(changes, str(hf.home), ids)
    assert hf.resume("changes").result() == 2
    assert [hf.tasks.get(id).status for id in tasks] == ["completed", "failed", "pending"]
    assert [len(hf.tasks.events(id)) for id in tasks] == [2, 2, 3]
    with monkeypatch.context() as patch, pytest.raises(OSError, match="cut off"):
        patch.setattr(Sessions, "_of", lambda *_: (_ for _ in ()).throw(OSError("cut off")))
        hf.with_id("starts").run(starts, str(hf.home))
    started = hf.resume("starts").result()
    assert [one.id for one in hf.sessions.list() if one.actor == "ann"] == [started]


def test_the_task_in_progress_is_continued_in_a_new_process(tmp_path: Path) -> None:
    """After kill -9 in the middle of a session: the same task, its notes, its session; the claim goes on."""
    home = tmp_path / "home"
    script = """
import os, signal, sys
from holdfast import Holdfast, step, workflow
hf = Holdfast(sys.argv[1])
session = hf.sessions.start()
task = hf.tasks.create("kelp", body="grow")
hf.tasks.start(task.id)
hf.tasks.note(task.id, "in the sea", "decision")
hf.tasks.edit(task.id, body="grow, and harvest")
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", script, str(home)], check=False).returncode == -9
    with Holdfast(home) as hf:
        found = hf.tasks.resume()
        assert (found.task.name, found.task.body, found.task.status) == (
            "kelp",
            "grow, and harvest",
            "in_progress",
        )
        assert [note.text for note in found.notes] == ["in the sea"]
        assert found.task.session == hf.sessions.list()[0].id
        assert found.task.claim is not None and found.task.claim.number == 1
        done = hf.tasks.complete(found.task.id)
        assert done.completed_at is not None and done.duration_s is not None


def test_a_claim_that_was_found_dead_is_taken_once(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one takes it between the look and the commit: whoever looked is refused."""
    task = hf.tasks.create("a").id
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    hf.tasks.claim(task, holder=child.pid)
    child.kill()
    child.communicate()
    real = claiming.is_live

    def looks(tracker: Any, claim: Any) -> bool:
        found = real(tracker, claim)
        monkeypatch.setattr(claiming, "is_live", real)
        assert hf.tasks.claim(task).number == 2  # type: ignore[union-attr]
        return found

    monkeypatch.setattr(claiming, "is_live", looks)
    with pytest.raises(TaskHeld):
        hf.tasks.claim(task)
    assert hf.tasks.get(task).claim.number == 2  # type: ignore[union-attr]


def test_a_link_that_came_in_between_counts(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one adds the other half of a cycle between the look and the commit: this half is refused."""
    a, b = (hf.tasks.create(name).id for name in "ab")
    real = hf._store.is_linked

    def looks(*asked: Any) -> Any:
        found = real(*asked)
        monkeypatch.setattr(hf._store, "is_linked", real)
        assert hf.tasks.link(b, a)
        return found

    monkeypatch.setattr(hf._store, "is_linked", looks)
    with pytest.raises(LinkCycle):
        hf.tasks.link(a, b)


def test_one_of_many_processes_gets_a_task(tmp_path: Path) -> None:
    """Three processes, a few rounds; in full by `python -m tests.tracker.claim_race`."""
    claim_race.race(tmp_path / "home", 3, 5)


def test_every_task_is_completed_once_while_workers_are_killed(tmp_path: Path) -> None:
    """Three processes and four kills; in full as above."""
    claim_race.work_under_kills(tmp_path / "home", 3, 40, 4)


def test_a_cycle_closed_from_two_sides_at_once_is_refused_on_one(tmp_path: Path) -> None:
    """Two processes, a few rounds; in full as above."""
    claim_race.close_cycles(tmp_path / "home", 5)


def test_block_of_a_claim_gives_back_what_is_not_ended(hf: Holdfast) -> None:
    """Ended by its id or under its claim, a task stays ended; also in an event loop, where a block that
    raises gives it back with the error as the reason."""
    for name in ("by id", "under the claim", "raises"):
        hf.tasks.create(name)
    with hf.tasks.claim() as claim:
        hf.tasks.complete(claim.task.id)

    async def work() -> None:
        async with await hf.aio.tasks.claim() as claim:
            await claim.aio.renew(60)
            assert (await claim.aio.complete("done")).summary == "done"
        with pytest.raises(KeyError):
            async with await hf.aio.tasks.claim():
                raise KeyError("kelp")

    asyncio.run(work())
    assert [task.status for task in hf.tasks.list()] == ["completed", "completed", "pending"]
    (raised,) = hf.tasks.list(status="pending")
    assert hf.tasks.events(raised.id)[-1].data["reason"] == "KeyError: 'kelp'"


def test_values_of_a_wrong_type_are_refused_with_a_sentence(hf: Holdfast) -> None:
    """What programs pass by mistake: a `Task` for its id, a lease as text, a day as text."""
    task: Any = hf.tasks.create("kelp")
    lease: Any = "1h"
    due: Any = "2026-12-01"
    for call, said in [
        (lambda: hf.tasks.complete(task), "write task.id"),
        (lambda: hf.tasks.get(task), "write task.id"),
        (lambda: hf.tasks.create("wrack", needs=[task]), "write task.id"),
        (lambda: hf.tasks.create("wrack", parent=task), "write task.id"),
        (lambda: hf.tasks.link(task, "kelp"), "write task.id"),
        (lambda: hf.tasks.claim(lease=lease), "is no number of seconds"),
        (lambda: hf.tasks.create("wrack", due=due), "is no time"),
    ]:
        with pytest.raises(BadInput, match=said):
            call()


OPEN: dict[str, Holdfast] = {}


@workflow
def claim_twice() -> list[bool]:
    return [OPEN["hf"].tasks.claim() is not None for _ in range(2)]


def test_of_two_workers_of_a_run_one_gets_the_task(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second has read the list of ready tasks before the first took the only one: it gets none."""
    hf.tasks.create("only")
    stale = ready(hf._tracker)
    lists = [stale, stale, []]
    monkeypatch.setattr("holdfast.tracker.claiming.ready", lambda *_: lists.pop(0))
    monkeypatch.setitem(OPEN, "hf", hf)
    assert hf.run(claim_twice) == [True, False]


def test_tables_that_do_not_match_the_log_end_a_claim(hf: Holdfast) -> None:
    """A task that is listed as ready and is not: an error that names the repair, no endless search."""
    task = hf.tasks.create("a").id
    hf.tasks.complete(task)
    hf._store._db.execute("UPDATE main.tasks SET status = 'pending'")
    hf._store._db.execute("UPDATE main.task_readiness SET open = 1")
    assert [one.id for one in hf.tasks.ready()] == [task]
    with pytest.raises(StoreCorrupt, match="repair --rebuild"):
        hf.tasks.claim()
