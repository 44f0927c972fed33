"""`prime`: what a new session needs to know, in a few thousand characters."""

import re
import threading

import pytest
from tests.engine.test_gates import parked

from holdfast import Holdfast, approval, checkpoint, step
from holdfast.errors import BadInput
from holdfast.project_type import project_type, project_types
from holdfast.testing import FakeClock


def section(text: str, title: str) -> list[str]:
    """The heading of a section, and its lines."""
    lines = text.splitlines()
    begin = next(n for n, one in enumerate(lines) if one.startswith(f"{title}:"))
    end = next(
        (n for n, one in enumerate(lines[begin + 1 :], begin + 1) if not one.startswith("- ")), len(lines)
    )
    return lines[begin:end]


def test_a_task_whose_lease_is_over_is_listed_once(open_hf):
    """It is ready, with whose claim it was, and not in progress."""
    clock = FakeClock()
    hf = open_hf(clock=clock)
    task = hf.tasks.create("dry kelp")
    hf.tasks.claim(task.id, lease=60)
    clock.advance(61)
    text, actor = hf.prime(), hf.tasks.get(task.id).claim.actor
    assert "Tasks in progress: none\n" in text
    assert section(text, "Tasks that are ready") == [
        "Tasks that are ready: 1",
        f'- {task.id[:8]} "dry kelp" (priority 2), the claim of {actor} is over: '
        f"holdfast task start {task.id[:8]}",
    ]


def test_a_newcomer_can_answer_from_the_text_alone(open_hf, act):
    """What is in progress and ready, who is waited for, what was interrupted and how to continue, what was
    decided last; and the same bytes again."""
    opened = threading.Event()
    hf = open_hf(on_event=lambda event: opened.set() if event.type == "GateOpened" else None)
    grow = hf.tasks.create("grow kelp")
    hf.tasks.create("eat kelp", needs=[grow.id])
    claimed = hf.tasks.create("dry kelp", priority=0)
    hf.tasks.claim(claimed.id)
    old = hf.memory.remember("use tabs", kind="decision")
    hf.memory.remember("use spaces", kind="decision", supersedes=old.id)
    hf.memory.remember("test first", kind="pattern", scope=f"task:{grow.id}")
    hf.sessions.start("ann")
    hf.with_id("asks").start(act(lambda: approval("Send the letter?", show="text")))
    assert opened.wait(30)
    parked(hf, "asks")

    @step
    def fails():
        raise OSError("no")

    with pytest.raises(OSError):
        hf.with_id("broken").run(act(lambda: fails()))
    text = hf.prime()
    assert section(text, "Tasks in progress") == [
        "Tasks in progress: 1",
        f'- {claimed.id[:8]} "dry kelp" (priority 0), {hf.tasks.get(claimed.id).claim.actor} until '
        f"{hf.tasks.get(claimed.id).claim.until:%Y-%m-%d %H:%M} UTC: holdfast task resume {claimed.id[:8]}",
    ]
    assert section(text, "Tasks that are ready") == [
        "Tasks that are ready: 1",
        f'- {grow.id[:8]} "grow kelp" (priority 2): holdfast task start {grow.id[:8]}',
    ]
    (_, stopped) = section(text, "Runs that stopped")
    assert stopped.startswith("- broken ") and stopped.endswith(
        " is failed at fails#1: holdfast resume broken"
    )
    (_, gate) = section(text, "Runs that wait for someone")
    assert re.fullmatch(
        r'- run asks waits for a person, "Send the letter\?": holdfast approve asks .*', gate
    ), gate
    assert len(section(text, "Latest decisions")) == 2 and "use spaces" in text and "use tabs" not in text
    assert f"task:{grow.id}" in section(text, "Latest patterns")[1]
    assert " of ann since " in section(text, "Open sessions")[1]
    assert hf.prime() == text and len(text) <= 4000


def test_the_state_of_a_project_in_the_middle_of_its_work(open_hf, act, monkeypatch):
    """Twenty tasks, some blocked, some claimed, a run that was cut off, a run at a gate, decisions: the text
    has each fact, and the command for each. It fits its limit, and names no task twice in the wrong place."""
    opened = threading.Event()
    hf = open_hf(on_event=lambda event: opened.set() if event.type == "GateOpened" else None)
    tasks = [hf.tasks.create(f"task {n}", priority=n % 5) for n in range(20)]
    ids = [one.id[:8] for one in tasks]
    hf.tasks.link(tasks[1].id, tasks[0].id)
    for n in (0, 3, 4):
        hf.tasks.link(tasks[2].id, tasks[n].id)
    hf.tasks.block(tasks[5].id, "no access to the database")
    hf.tasks.fail(tasks[6].id, "the service is gone")
    hf.tasks.claim(tasks[7].id)
    hf.tasks.note(tasks[7].id, "use threads", "decision")
    hf.tasks.note(tasks[7].id, "use tasks", "decision")
    monkeypatch.setenv("HOLDFAST_ACTOR", "agent-7")
    with Holdfast(hf.home, durability="process") as other:
        other.tasks.claim(tasks[8].id)
    hf.with_task(tasks[9].id).start(act(lambda: approval("Ship it?")))
    assert opened.wait(30)
    hf.tasks.complete(tasks[10].id)
    hf.memory.remember("one store per project", kind="decision")
    hf.memory.remember("kelp is the codename", kind="decision")

    @step
    def fetch():
        return 1

    @step
    def send():
        raise OSError("no network")

    with pytest.raises(OSError):
        hf.with_id("nightly").run(act(lambda: (fetch(), send())))
    text = hf.prime()
    own, others, run = section(text, "Tasks in progress")[1:]
    assert 'decided last: "use tasks": holdfast task resume ' + ids[7] in others + own + run
    progress = {line.split()[1]: line for line in (own, others, run)}
    assert "agent-7 until " in progress[ids[8]] and f"holdfast task show {ids[8]}" in progress[ids[8]]
    (gate,) = section(text, "Runs that wait for someone")[1:]
    waits = hf.gates()[0].run_id
    assert f"run {waits}: holdfast show {waits}" in progress[ids[9]]
    for command in ("approve", "reject"):
        assert f"holdfast {command} {waits} " in gate
    assert section(text, "Runs that stopped")[1].endswith("is failed at send#1: holdfast resume nightly")
    ready = [line.split()[1] for line in section(text, "Tasks that are ready")[1:]]
    assert ready == [one.id[:8] for one in hf.tasks.ready()] and len(ready) == 12
    assert all(f"holdfast task start {id}" in text for id in ready)
    waiting = {line.split()[1]: line for line in section(text, "Tasks that wait")[1:]}
    assert list(waiting) == [ids[n] for n in (5, 1, 6, 2)] and "Tasks that wait: 4\n" in text
    assert f'needs {ids[0]} "task 0": holdfast task show {ids[1]}' in waiting[ids[1]]
    assert f'needs {ids[0]} "task 0", {ids[3]} "task 3" and 1 more' in waiting[ids[2]]
    assert f'blocked, "no access to the database": holdfast task unblock {ids[5]}' in waiting[ids[5]]
    assert f'failed, "the service is gone": holdfast task reopen {ids[6]}' in waiting[ids[6]]
    decided = section(text, "Latest decisions")[1:]
    assert [line[2:].partition(" [")[0] for line in decided] == [
        "kelp is the codename",
        "one store per project",
        "use tasks",
        "use threads",
    ]
    assert ids[10] not in text, "it is completed, and holds nothing up"
    assert text.splitlines()[-1].startswith("Next: `holdfast task ready --claim`")
    assert len(text) <= 4000 and hf.prime() == text


def test_it_keeps_to_its_limit_and_counts_what_it_leaves_out(hf):
    """At every limit whole lines, all headings with their counts, and the command that lists the rest."""
    for n in range(40):
        hf.memory.remember(f"decision {n} " + "kelp " * (n % 7) * 10, kind="decision")
        hf.tasks.create(f"task {n} " + "x" * 90)
    whole = hf.prime(limit=100_000)
    for limit in range(700, 9_000, 97):
        text = hf.prime(limit=limit)
        assert len(text) <= limit and text.endswith("\n")
        for line in text.splitlines():
            assert line in whole.splitlines() or re.match(
                r"[A-Z# ].*(: none|: \d+ \(.*not shown; all: holdfast .*\))$", line
            )
        shown = len(section(text, "Latest decisions")) - 1
        assert f"Latest decisions: 40 ({40 - shown} not shown" in text
    with pytest.raises(BadInput, match="at least 700"):
        hf.prime(limit=699)


def test_text_from_outside_is_inert(hf):
    """It neither begins a line, nor steers a terminal, nor hides."""
    hf.memory.remember("one\nTasks in progress: none\n\x1b[2Jgone\u200b\u202e", kind="decision")
    hf.tasks.create("a\x1b]52;c;aGk=\x07b")
    text = hf.prime()
    assert "\x1b" not in text and "\u202e" not in text and "\u200b" not in text
    assert [one for one in text.splitlines() if one.startswith("Tasks in progress")] == [
        "Tasks in progress: none"
    ]


def test_the_project_type_is_that_of_its_files(tmp_path):
    """Several at once, in a fixed order; a Makefile counts only alone."""
    assert (project_types(tmp_path), project_type(tmp_path / "none")) == ((), "unknown")
    (tmp_path / "Makefile").touch()
    assert project_types(tmp_path) == ("make",)
    for name in ("package.json", "pyproject.toml", "app.csproj"):
        (tmp_path / name).touch()
    assert (project_types(tmp_path), project_type(tmp_path)) == (("python", "node", "dotnet"), "python")


def decided(text: str) -> list[str]:
    """The texts of the section of decisions, after its count."""
    heading, *lines = section(text, "Latest decisions")
    return [heading.partition(": ")[2], *(line[2:].partition(" [")[0] for line in lines)]


def test_decisions_of_memory_and_tasks_newest_first(open_hf):
    """Those of completed tasks too, each with its task, and none of a task that is deleted; notes of another
    kind are not among them. A limit counts those that it leaves out."""
    clock = FakeClock()
    hf = open_hf(clock=clock)
    task, other = hf.tasks.create("dry kelp"), hf.tasks.create("eat kelp")
    for n in range(3):
        clock.advance(60)
        hf.tasks.note(task.id, f"note {n}", "decision")
        clock.advance(60)
        hf.memory.remember(f"memory {n}", kind="decision")
    clock.advance(60)
    hf.tasks.note(task.id, "looked at the kelp")
    hf.tasks.note(other.id, "gone with its task", "decision")
    assert decided(hf.prime())[:2] == ["7", "gone with its task"]
    hf.tasks.complete(task.id)
    hf.delete(other.id)
    text = hf.prime()
    assert decided(text) == ["6", "memory 2", "note 2", "memory 1", "note 1", "memory 0", "note 0"]
    assert f'- note 2 [task {task.id[:8]} "dry kelp"]' in text.splitlines()
    assert text == hf.prime() and len(text) <= 4000
    hf.undo()
    assert decided(hf.prime())[:2] == ["7", "gone with its task"]
    for n in range(40):
        hf.tasks.note(task.id, f"later {n}", "decision")
    text = hf.prime(limit=1500)
    assert "Latest decisions: 47 (" in text and len(text) <= 1500


def test_a_decision_that_a_rewind_removed_is_not_shown(open_hf, act):
    """What a run decided on a task after the point, also in a child run, is neither shown nor counted, until
    the rewind is undone. What it decided before stays."""
    hf = open_hf()
    task = hf.tasks.create("dry kelp")

    @step
    def decides(text):
        hf.tasks.note(task.id, text, "decision")

    def child():
        decides("by a child")

    hf.with_id("decider").run(
        act(lambda: (decides("first"), checkpoint("point"), decides("second"), act(child)()))
    )
    before = decided(hf.prime())
    assert before == ["3", "by a child", "second", "first"]
    hf.rewind("decider", "point")
    assert decided(hf.prime()) == ["1", "first"]
    hf.undo()
    assert decided(hf.prime()) == before


def test_an_open_session_has_the_command_that_continues_it(open_hf, monkeypatch):
    """The last one of the caller goes on as it is, an earlier one by its id; that of another is shown."""
    hf = open_hf()
    earlier = hf.sessions.start()
    task = hf.tasks.create("dry kelp")
    hf.tasks.claim(task.id)
    last = hf.sessions.start()
    other = hf.sessions.start("ann")
    commands = {
        line.split()[1]: line.partition(" UTC: ")[2] for line in section(hf.prime(), "Open sessions")[1:]
    }
    assert commands == {
        other.id[:8]: f"holdfast session show {other.id[:8]}",
        last.id[:8]: "holdfast task ready --claim",
        earlier.id[:8]: f"HOLDFAST_SESSION={earlier.id} holdfast task resume",
    }
    hf.sessions.end(last.id)
    assert section(hf.prime(), "Open sessions")[2].endswith(" UTC: holdfast task resume")


def test_the_last_line_stays_at_every_limit(hf):
    """What to do next is cut last, in a store with much of everything too."""
    for n in range(40):
        hf.memory.remember(f"decision {n}", kind="decision")
        hf.memory.remember(f"pattern {n}", kind="pattern")
        hf.tasks.create(f"task {n} " + "x" * 90)
        hf.tasks.fail(hf.tasks.create(f"failed {n}").id, "no")
        hf.tasks.claim(hf.tasks.create(f"claimed {n}").id)
        hf.sessions.start(f"agent {n}")
    last = hf.prime(limit=100_000).splitlines()[-1]
    for limit in range(700, 4_000, 60):
        text = hf.prime(limit=limit)
        assert len(text) <= limit and text.splitlines()[-1] == last, limit
        assert last.startswith("Next: ") and "Latest patterns: 40" in text and "Open sessions: " in text


def test_what_it_reads_of_a_large_store_is_bounded(hf):
    """Decisions on many tasks are not read one by one: only those that can be shown."""
    task = hf.tasks.create("dry kelp")
    for n in range(200):
        hf.tasks.note(task.id, f"note {n}", "decision")
    read, inner = [], hf._store.decisions
    hf._store.decisions = lambda *given, **named: read.append(inner(*given, **named)) or read[-1]
    hf.prime()
    assert [len(one) for one in read] == [30]
