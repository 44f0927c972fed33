"""The input of `prime`: tasks, gates, runs, memory and sessions, the most important first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.project_type import project_types
from holdfast.store.port import MemoryFilter
from holdfast.store.tracker_port import TaskFilter
from holdfast.views.left_decisions import left_decisions
from holdfast.views.memory import Memory
from holdfast.views.prime import Section, compose, line, quoted, short
from holdfast.views.task import Task
from holdfast.ways import Way

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.facade.tracking import Tracking
    from holdfast.kernel.author import Author
    from holdfast.store.tracker_port import DecisionRow
    from holdfast.views.reader import Reader
    from holdfast.views.session import WorkSession

_MOST = 30
"""How many entries of a section can be shown; all are counted."""
_MOST_NEEDED = 2
_STOPPED = ("interrupted", "needs_attention", "paused", "failed")


def prime(hf: Tracking, limit: int) -> str:
    root = hf._place.root
    made_with = ", ".join(project_types(root)) or "unknown type"
    head = line(f"# {root.name or root}: project ({made_with}), tracked by holdfast")
    sections = [
        _in_progress(hf),
        _gates(hf._reader),
        _stopped(hf._reader),
        _ready(hf),
        _waiting(hf),
        _decisions(hf),
        _patterns(hf),
        _sessions(hf),
    ]
    return compose(head, sections, limit, _NEXT)


_NEXT = (
    "Next: `holdfast task ready --claim` claims the most urgent task; "
    '`holdfast task note ID "..." --kind decision` and `holdfast remember "..." --kind decision` write '
    'decisions down; `holdfast task complete ID --summary "..."` completes a task'
)


def _in_progress(hf: Tracking) -> Section:
    """Tasks whose claim still holds; one whose claim is dead is ready."""
    from holdfast.tracker.claiming import lapsed

    free = lapsed(hf._tracker)
    found = [Task.of(row) for row in hf._store.claimed_tasks(workable=False) if row.id not in free]
    return Section(
        "Tasks in progress",
        tuple(_working(hf, one) for one in found[:_MOST]),
        len(found),
        "holdfast task list --status in_progress",
    )


def _working(hf: Tracking, task: Task) -> str:
    """The line of a task in progress, with its last decision. The caller can resume a task of their own."""
    state = hf._tracker.load(task.id)
    decisions = [one.text for one in state.notes if one.kind == "decision"]
    decided = f", decided last: {quoted(decisions[-1])}" if decisions else ""
    held, id = task.claim, task.id[:8]
    if held is None:
        return line(f"{_named(task)}{decided}: holdfast task start {id}")
    if held.run:
        return line(f"{_named(task)}, run {held.run}{decided}: holdfast show {held.run}")
    until = "" if held.until is None else f" until {held.until:%Y-%m-%d %H:%M} UTC"
    action = "resume" if held.actor == hf._tracker.actor().by else "show"
    return line(f"{_named(task)}, {held.actor}{until}{decided}: holdfast task {action} {id}")


def _lapsed(task: Task) -> str:
    """A note that names the dead claim of a task that is ready; empty if it has none."""
    held = task.claim
    return "" if held is None else f", the claim of {f'run {held.run}' if held.run else held.actor} is over"


def _ready(hf: Tracking) -> Section:
    from holdfast.tracker.claiming import count_ready

    found = hf.tasks.ready(_MOST)
    lines = tuple(line(f"{_named(one)}{_lapsed(one)}: holdfast task start {one.id[:8]}") for one in found)
    return Section("Tasks that are ready", lines, count_ready(hf._tracker), "holdfast task ready")


def _waiting(hf: Tracking) -> Section:
    """Tasks that are not ready, and why: what they need, what blocks them, how they failed."""
    found = hf._store.waiting_tasks(_MOST)
    needed = _needed(hf, [row.id for row in found if row.open_blockers])
    lines = tuple(line(_why(Task.of(row), needed.get(row.id, []))) for row in found)
    count = len(found) if len(found) < _MOST else hf._store.count_waiting_tasks()
    return Section("Tasks that wait", lines, count, "holdfast task list --status pending --status failed")


def _why(task: Task, needed: list[str]) -> str:
    id = task.id[:8]
    if task.status == "failed":
        return f"{_named(task)} failed, {quoted(task.error)}: holdfast task reopen {id}"
    if task.blocked:
        return f"{_named(task)} is blocked, {quoted(task.blocked)}: holdfast task unblock {id}"
    more = f" and {len(needed) - _MOST_NEEDED} more" if len(needed) > _MOST_NEEDED else ""
    return f"{_named(task)} needs {', '.join(needed[:_MOST_NEEDED])}{more}: holdfast task show {id}"


def _needed(hf: Tracking, ids: list[str]) -> dict[str, list[str]]:
    """The open tasks that each of these needs, by id and name."""
    links = [one for one in hf._store.links(ids) if one.kind == "blocks" and one.task in ids] if ids else []
    rows = hf._store.tasks(TaskFilter(ids=tuple({one.on for one in links}))) if links else []
    open_tasks = {
        row.id: f"{row.id[:8]} {quoted(row.fields.name)}" for row in rows if row.fields.status != "completed"
    }
    found: dict[str, list[str]] = {}
    for one in links:
        if one.on in open_tasks:
            found.setdefault(one.task, []).append(open_tasks[one.on])
    return found


def _named(task: Task) -> str:
    return f"{task.id[:8]} {quoted(task.name)} (priority {task.priority})"


def _gates(reader: Reader) -> Section:
    found = reader.gates(None)
    lines = []
    for gate in found[:_MOST]:
        who = "a person" if gate.kind == "approval" else "a signal"
        answers = " or ".join(way.shell() for way in gate.ways())
        run = reader.run(gate.run_id)
        then = f", then {Way('resume', gate.run_id).shell()}" if run is None or run.owner_pid is None else ""
        lines.append(line(f"run {gate.run_id} waits for {who}, {quoted(gate.title)}: {answers}{then}"))
    return Section("Runs that wait for someone", tuple(lines), len(found), "holdfast gates")


def _stopped(reader: Reader) -> Section:
    page = reader.page(status=_STOPPED, parent="", limit=_MOST)
    lines = []
    for run in page.runs:
        action = "show" if run.status == "needs_attention" else "resume"
        status = run.shown_status.replace("_", " ")
        place = _place(reader, run.id)
        lines.append(line(f"{run.id} {quoted(run.title)} is {status}{place}: {Way(action, run.id).shell()}"))
    return Section("Runs that stopped", tuple(lines), page.total, "holdfast list --resumable")


def _place(reader: Reader, run_id: str) -> str:
    """The step at which a run stopped, or after which."""
    steps = reader.steps(run_id)
    last = max(steps, key=lambda one: (one.started_us, one.ended_us), default=None)
    if last is None:
        return ""
    where = "after" if last.status == "completed" else "at"
    return f" {where} {short(last.key, 60)}"


def _decisions(hf: Tracking) -> Section:
    """Those of the memory and those that were noted on tasks, the newest first."""
    found = hf._store.memories(MemoryFilter(kind="decision"))
    lines = [(one.at, _remembered(Memory.of(one, hf._reader.redactor))) for one in found[:_MOST]]
    noted, count = _noted(hf)
    lines += [(one.at, _note(one, hf._reader.redactor.redact)) for one in noted]
    lines.sort(key=lambda one: one[0], reverse=True)
    return Section(
        "Latest decisions",
        tuple(line for _, line in lines[:_MOST]),
        len(found) + count,
        "holdfast recall --kind decision --limit 0, holdfast task show ID",
    )


def _noted(hf: Tracking) -> tuple[list[DecisionRow], int]:
    """The last decisions among the notes of tasks, and how many there are. A part of a run that a rewind has
    left decided nothing; only the runs of which there may be such a part are read."""
    store = hf._store
    runs = store.runs_that_left_decisions()
    left = set(left_decisions(store, store.decisions(runs=runs), runs)) if runs else set()
    found = [one for one in store.decisions(_MOST + len(left)) if one not in left]
    return found[:_MOST], store.count_decisions() - len(left)


def _note(one: DecisionRow, redact: Callable[[str], str]) -> str:
    return f"{short(redact(one.text))} [task {one.task[:8]} {quoted(redact(one.name))}]"


def _patterns(hf: Tracking) -> Section:
    found = hf._store.memories(MemoryFilter(kind="pattern"))
    lines = tuple(_remembered(Memory.of(one, hf._reader.redactor)) for one in found[:_MOST])
    return Section("Latest patterns", lines, len(found), "holdfast recall --kind pattern --limit 0")


def _remembered(memory: Memory) -> str:
    return f"{short(memory.text)} {_origin(memory)}"


def _origin(memory: Memory) -> str:
    scope = "" if memory.scope == "project" else f", {memory.scope}"
    return f"[{memory.id[:8]}{line(scope)}]"


def _sessions(hf: Tracking) -> Section:
    found = [one for one in hf.sessions.list() if one.is_open]
    me, own = hf._tracker.actor(), hf.tasks.current()
    working = "" if own is None else own.session
    lines = []
    for one in found[:_MOST]:
        who = f"{one.id[:8]} of {one.actor} since {one.started_at:%Y-%m-%d %H:%M} UTC"
        lines.append(line(f"{who}: {_continued(one, me, working)}"))
    return Section("Open sessions", tuple(lines), len(found), "holdfast session list")


def _continued(session: WorkSession, me: Author, working: str) -> str:
    """The command that continues a session: `working` is the one whose task `task resume` continues."""
    if session.actor != me.by:
        return f"holdfast session show {session.id[:8]}"
    command = "holdfast task resume" if working == session.id else "holdfast task ready --claim"
    return command if session.id == me.session else f"HOLDFAST_SESSION={session.id} {command}"
