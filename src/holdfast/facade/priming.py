"""The input of `prime`: tasks, gates, runs, memory and sessions, the most important first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.project_type import project_types
from holdfast.store.port import MemoryFilter
from holdfast.views.memory import Memory
from holdfast.views.prime import Section, compose, line, quoted, short
from holdfast.ways import Way

if TYPE_CHECKING:
    from holdfast.facade.tracking import Tracking
    from holdfast.views.reader import Reader
    from holdfast.views.task import Task

_MOST = 30
"""So many entries of a section can be shown; all are counted."""
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
        _memories(hf, "decision", "Latest decisions"),
        _memories(hf, "pattern", "Latest patterns"),
        _sessions(hf),
    ]
    return compose(head, sections, limit)


def _in_progress(hf: Tracking) -> Section:
    found = hf.tasks.list("in_progress")
    return Section(
        "Tasks in progress",
        tuple(_working(one) for one in found[:_MOST]),
        len(found),
        "holdfast task list --status in_progress",
    )


def _working(task: Task) -> str:
    held = task.claim
    who = "" if held is None else f", run {held.run}" if held.run else f", {held.actor}"
    return line(f"{_named(task)}{who}: holdfast task show {task.id[:8]}")


def _ready(hf: Tracking) -> Section:
    from holdfast.tracker.claiming import count_ready

    found = hf.tasks.ready(_MOST)
    lines = tuple(line(f"{_named(one)}: holdfast task start {one.id[:8]}") for one in found)
    return Section("Tasks that are ready", lines, count_ready(hf._tracker), "holdfast task ready")


def _named(task: Task) -> str:
    return f"{task.id[:8]} {quoted(task.name)} (priority {task.priority})"


def _gates(reader: Reader) -> Section:
    found = reader.gates(None)
    lines = []
    for gate in found[:_MOST]:
        who = "a person" if gate.kind == "approval" else "a signal"
        lines.append(
            line(f"run {gate.run_id} waits for {who}, {quoted(gate.title)}: {gate.ways()[0].shell()}")
        )
    return Section("Runs that wait for someone", tuple(lines), len(found), "holdfast gates")


def _stopped(reader: Reader) -> Section:
    page = reader.page(status=_STOPPED, parent="", limit=_MOST)
    lines = []
    for run in page.runs:
        action = "show" if run.status == "needs_attention" else "resume"
        status = run.shown_status.replace("_", " ")
        lines.append(line(f"{run.id} {quoted(run.title)} is {status}: {Way(action, run.id).shell()}"))
    return Section("Runs that stopped", tuple(lines), page.total, "holdfast list --resumable")


def _memories(hf: Tracking, kind: str, title: str) -> Section:
    found = hf._store.memories(MemoryFilter(kind=kind))
    shown = [Memory.of(one, hf._reader.redactor) for one in found[:_MOST]]
    lines = tuple(f"{short(one.text)} {_origin(one)}" for one in shown)
    return Section(title, lines, len(found), f"holdfast recall --kind {kind} --limit 0")


def _origin(memory: Memory) -> str:
    scope = "" if memory.scope == "project" else f", {memory.scope}"
    return f"[{memory.id[:8]}{line(scope)}]"


def _sessions(hf: Tracking) -> Section:
    found = [one for one in hf.sessions.list() if one.is_open]
    lines = tuple(
        line(f"{one.id[:8]} of {one.actor} since {one.started_at:%Y-%m-%d %H:%M} UTC")
        for one in found[:_MOST]
    )
    return Section("Open sessions", lines, len(found), "holdfast session list")
