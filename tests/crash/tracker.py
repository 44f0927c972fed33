"""Tasks, links, sessions and memory: what the log tells of them, and what must hold whatever happened.

Shares no code with the product; docs/formats.md says what the events mean. `check_tracker` compares the
tables with the log, row for row, and checks the rules that no table shows:

    claim numbers of a task go up by one, and a task is completed once per claim number
    the end of a run and the move of its task are one commit
    an operation and what it did to tasks and memory are one commit, neither is there without the other
    what a run wrote in a part that was rewound does not count, and what it wrote in the live part does
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.crash.history import Event, RunHistory, canonical, require

TASK = "@task/"
OPERATION = "@op/"
_BESIDE = ("@store", "@links")
"""Streams that a commit may write to between the others."""
_ENDS = {"RunCompleted": "TaskCompleted", "RunFailed": "TaskFailed", "RunCancelled": "ClaimReleased"}


@dataclass
class TaskHistory:
    """A task, as the log tells it. `row` is its row in the tables."""

    row: dict[str, Any]
    events: list[Event]
    authored: dict[str, int] = field(default_factory=dict)
    """Run → the version of its last event here."""

    @property
    def settled(self) -> bool:
        return self.row["status"] == "completed" or bool(self.row["archived"])


@dataclass
class TrackerHistory:
    """The streams of tasks, links, sessions and memory, those that were deleted among them, and the tasks and
    memories that count."""

    streams: dict[str, list[Event]] = field(default_factory=dict)
    deleted: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    """Streams that were removed for good."""
    tasks: dict[str, TaskHistory] = field(default_factory=dict)
    memories: dict[str, dict[str, Any]] = field(default_factory=dict)

    def position(self, line: str) -> int | None:
        """Where the log has the first event that `wrote STREAM TYPE FIELD=VALUE` names: 0 if nowhere, None if
        the stream was removed for good."""
        _, stream, type, *wanted = line.split(" ")
        if stream in self.gone:
            return None
        fields = dict(one.split("=", 1) for one in wanted)
        for event in self.streams.get(stream, ()):
            if event.type == type and all(str(event.payload.get(k, "")) == v for k, v in fields.items()):
                return event.position
        return 0


def check_tracker(
    db: sqlite3.Connection, found: TrackerHistory, runs: Mapping[str, RunHistory], ids: Mapping[int, str]
) -> None:
    """Fold the streams into `found`, and check everything. Raises `Violation`."""
    for stream, events in found.streams.items():
        if stream.startswith(TASK) and stream not in found.deleted and events[0].type == "TaskCreated":
            found.tasks[stream] = _fold_task(stream, events)
    found.memories = _fold_memory(found.streams.get("@memory", ()))
    links = _fold_links(found)
    _check_tables(db, found, links, ids)
    _check_ends(found, runs)
    _check_operations(found, runs)
    _check_what_counts(found, runs)


# Tasks


def _fold_task(stream: str, events: Sequence[Event]) -> TaskHistory:
    task = TaskHistory({}, list(events))
    for event in events:
        payload = event.payload
        author = payload.get("author", {})
        if event.type != "TaskReverted" and author.get("run"):
            task.authored[author["run"]] = event.version
        _check_number(stream, task.row, event)
        _apply(task.row, event)
    return task


def _check_number(stream: str, row: Mapping[str, Any], event: Event) -> None:
    """Claims are numbered one after the other, and only the last of them can do something."""
    where, number = f"{stream}, version {event.version}, {event.type}", event.payload.get("number", 0)
    if event.type == "TaskClaimed":
        require(number == row["number"] + 1, f"{where}: claim {number} follows claim {row['number']}")
        require(row["status"] not in ("completed", "failed"), f"{where}: it was {row['status']}")
    elif event.type in ("TaskCompleted", "TaskFailed", "ClaimReleased", "ClaimRenewed"):
        held = row["claim"]["number"] if row["claim"] else 0
        require(number == held, f"{where}: under claim {number}; the task is held under {held}")
        require(row["status"] != "completed", f"{where}: it was completed already")


_NEW = {
    "body": "", "priority": 2, "labels": [], "assignee": "", "due": 0, "checks": [], "meta": {},
    "blocked": "", "summary": "", "evidence": None, "error": "", "unchecked": "", "archived": 0,
    "started_at": 0, "ended_at": 0, "claim": None, "number": 0, "status": "pending",
}  # fmt: skip
_REOPENED = ("summary", "evidence", "unchecked", "error", "archived", "started_at", "ended_at", "claim")
_JSON = ("labels", "checks", "meta", "evidence", "claim")


def _apply(row: dict[str, Any], event: Event) -> None:
    payload, time = event.payload, event.time
    if event.type == "TaskCreated":
        known = {name: payload[name] for name in _NEW if name in payload}
        session = payload.get("author", {}).get("session", "")
        row.update({**_NEW, **known, "name": payload["name"], "session": session, "created_at": time})
    elif event.type == "TaskEdited":
        row.update(payload["changes"])
    elif event.type == "TaskClaimed":
        claim = {name: payload.get(name, "") for name in ("actor", "session", "run")}
        more = {"until": payload.get("until", 0), "holder": payload.get("holder"), "at": time}
        row.update(status="in_progress", number=payload["number"], claim={**claim, **more})
        row["claim"]["number"] = payload["number"]
        row["session"] = payload.get("session") or row["session"]
        row["started_at"] = row["started_at"] or time
    elif event.type == "ClaimRenewed":
        row["claim"] = {**row["claim"], "until": payload["until"]}
    elif event.type == "ClaimReleased":
        row.update(status="pending", claim=None)
    elif event.type in ("TaskCompleted", "TaskFailed"):
        row.update(ended_at=time, started_at=row["started_at"] or time, claim=None)
        if event.type == "TaskFailed":
            row.update(status="failed", error=payload.get("why", ""))
        else:
            told = {name: payload.get(name, _NEW[name]) for name in ("summary", "evidence", "unchecked")}
            row.update(status="completed", error="", **told)
    elif event.type == "TaskBlocked":
        row["blocked"] = payload.get("reason", "")
    elif event.type == "TaskReopened":
        row.update({"status": "pending", **{name: _NEW[name] for name in _REOPENED}})
    elif event.type == "TaskArchived":
        row["archived"] = 1
    elif event.type == "TaskReverted":
        row.update({**payload["fields"], "archived": int(payload["fields"]["archived"])})
    else:
        require(event.type == "TaskNoted", f"an event of an unknown type: {event.type}")


# Links and memory


def _fold_links(found: TrackerHistory) -> dict[tuple[str, str, str], int]:
    """(kind, on, task) → the version of the link, between tasks that are there."""
    links: dict[tuple[str, str, str], int] = {}
    for event in found.streams.get("@links", ()):
        payload = event.payload
        key = (payload.get("kind", "blocks"), TASK + payload["on"], TASK + payload["task"])
        if event.type == "LinkAdded":
            links.setdefault(key, event.version)
        else:
            links.pop(key, None)
    for kind in ("blocks", "parent"):
        _check_acyclic([key[1:] for key in links if key[0] == kind], kind)
    return {key: version for key, version in links.items() if {*key[1:]} <= found.tasks.keys()}


def _check_acyclic(pairs: list[tuple[str, str]], kind: str) -> None:
    left = list(pairs)
    while left:
        needing = {task for _, task in left}
        kept = [pair for pair in left if pair[0] in needing]
        require(len(kept) < len(left), f"{kind} links close a cycle: {left}")
        left = kept


def _fold_memory(events: Sequence[Event]) -> dict[str, dict[str, Any]]:
    memories: dict[str, dict[str, Any]] = {}
    places: set[str] = set()
    for event in events:
        payload = event.payload
        if event.type == "Remembered":
            author = payload.get("author", {})
            if author.get("run"):
                place = canonical(
                    [author["run"], author.get("generation", 0), author["step"], payload["text"]]
                )
                require(place not in places, f"a step remembered twice: {place}")
                places.add(place)
            memories[payload["id"]] = {
                "version": event.version, "kind": payload["kind"], "text": payload["text"],
                "scope": payload.get("scope", "project"), "source": payload.get("source", ""),
                "cites": payload.get("cites", []), "supersedes": payload.get("supersedes", ""),
                "author": author, "run": author.get("run", ""), "at": event.time, "withdrawn": 0,
                "reason": "", "operation": "", "changed_at": 0,
            }  # fmt: skip
            continue
        withdrawn = int(event.type == "MemoryWithdrawn")
        row = memories[payload["id"]]
        require(row["withdrawn"] != withdrawn, f"@memory, version {event.version}: {event.type} twice")
        reason = payload.get("reason", "") if withdrawn else ""
        row.update(withdrawn=withdrawn, reason=reason, operation=payload.get("operation", ""))
        row["changed_at"] = event.time
    return memories


# The tables


def _check_tables(
    db: sqlite3.Connection,
    found: TrackerHistory,
    links: Mapping[tuple[str, str, str], int],
    ids: Mapping[int, str],
) -> None:
    _compare("tasks", _rows(db, "tasks", ids, _JSON), {name: one.row for name, one in found.tasks.items()})
    ready = {}
    for name, task in found.tasks.items():
        row = task.row
        needed = [on for kind, on, needing in links if kind == "blocks" and needing == name]
        ready[name] = {
            "priority": row["priority"],
            "open": int(row["status"] == "pending" and not row["blocked"] and not row["archived"]),
            "open_blockers": sum(not found.tasks[on].settled for on in needed),
        }
    _compare("task_readiness", _rows(db, "task_readiness", ids), ready)
    told = {
        (kind, ids.get(on, ""), ids.get(task, "")): version
        for kind, on, task, version in db.execute("SELECT kind, on_task, task, version FROM links")
    }
    require(told == links, f"table links does not match the log: {told.keys() ^ links.keys() or told}")
    memories = {}
    for row in _dicts(db, "memories", ("cites", "author")):
        require(ids.get(row.pop("stream")) == "@memory", f"memory {row['id']} of another stream")
        memories[row.pop("id")] = row
    _compare("memories", memories, found.memories)
    authored = {(run, ids.get(id, "")): version for run, id, version in db.execute("SELECT * FROM authored")}
    wrote = {(run, name): v for name, task in found.tasks.items() for run, v in task.authored.items()}
    require(authored == wrote, f"table authored does not match the log: {authored.items() ^ wrote.items()}")


def _dicts(db: sqlite3.Connection, table: str, parsed: Sequence[str]) -> Iterator[dict[str, Any]]:
    rows = db.execute(f"SELECT * FROM {table}")
    columns = [column[0] for column in rows.description]
    for values in rows:
        row = dict(zip(columns, values, strict=True))
        yield {name: json.loads(value) if name in parsed else value for name, value in row.items()}


def _rows(
    db: sqlite3.Connection, table: str, ids: Mapping[int, str], parsed: Sequence[str] = ()
) -> dict[str, Any]:
    return {ids.get(row.pop("stream"), "?"): row for row in _dicts(db, table, parsed)}


def _compare(table: str, rows: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    missing = rows.keys() ^ expected.keys()
    require(not missing, f"table {table} does not match the log: {sorted(missing)} on one side only")
    for name, row in rows.items():
        differing = {
            column: (row.get(column), expected[name].get(column))
            for column in row.keys() | expected[name].keys()
            if _plain(row.get(column)) != _plain(expected[name].get(column))
        }
        require(not differing, f"table {table} does not match the log at {name}: {differing}")


def _plain(value: Any) -> Any:
    """A claim, an author or a holder without the fields that have no value: events leave those out."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if one not in ("", 0, None)}
    return value


# Commits


def _check_ends(found: TrackerHistory, runs: Mapping[str, RunHistory]) -> None:
    """A run's end moves its task in the same commit: the next position."""
    claimed: dict[str, str] = {}
    for name, task in found.tasks.items():
        by_position = {event.position: event for event in task.events}
        for event in task.events:
            run = runs.get(event.payload.get("run", "")) if event.type == "TaskClaimed" else None
            if run is not None:
                claimed[run.id] = name
        for run_id in [run for run, task_name in claimed.items() if task_name == name]:
            for end in runs[run_id].events:
                if end.type not in _ENDS or not _held_by(task.events, run_id, end.position):
                    continue
                moved = by_position.get(end.position + 1)
                told = moved.type if moved else "nothing"
                require(told == _ENDS[end.type], f"{end.type} of run {run_id} goes with {told} of {name}")
        claim = task.row["claim"]
        run = runs.get(claim["run"]) if claim else None
        ended = run is not None and run.status in ("completed", "failed", "cancelled")
        require(not ended, f"{name} is held by a run that has ended")


def _held_by(events: Sequence[Event], run: str, position: int) -> bool:
    held = ""
    for event in events:
        if event.position > position:
            break
        if event.type == "TaskClaimed":
            held = event.payload.get("run", "")
        elif event.type in ("TaskCompleted", "TaskFailed", "ClaimReleased", "TaskReopened"):
            held = ""
        elif event.type == "TaskReverted":
            held = (event.payload["fields"].get("claim") or {}).get("run", "")
    return held == run


def _check_operations(found: TrackerHistory, runs: Mapping[str, RunHistory]) -> None:
    """What an operation says that it did to tasks and memory, the log has from the same commit, and nothing
    else names it."""
    done: dict[str, list[Event]] = {}
    place = {event.position: stream for stream, events in found.streams.items() for event in events}
    for stream, events in found.streams.items():
        if stream.startswith((TASK, "@memory", "@links")):
            for event in events:
                if event.payload.get("operation"):
                    done.setdefault(event.payload["operation"], []).append(event)
    for stream, events in found.streams.items():
        if not stream.startswith(OPERATION):
            continue
        begun, operation = events[0], stream.removeprefix(OPERATION)
        wrote = done.pop(operation, [])
        stages = {event.type: event.payload for event in events}
        memory = stages.get("MemoryApplied", {})
        if begun.payload.get("kind") != "edit":
            told = {*memory.get("withdrawn", ()), *memory.get("restored", ())}
            found_ids = {event.payload["id"] for event in wrote if "id" in event.payload}
            require(told == found_ids, f"{stream} says that it changed the memories {told}, not {found_ids}")
        moves = {(TASK + one["id"], one["after"]) for one in stages.get("TasksApplied", {}).get("moves", ())}
        for name, version in moves:
            there = [event for event in found.streams.get(name, ()) if event.version == version]
            require(there or name in found.gone, f"{stream}: {name} has no version {version}")
            wrote += there
        for run in runs.values():
            wrote += [event for event in run.events if event.payload.get("operation") == operation]
        positions = {event.position for event in (*events, *wrote)}
        between = {*range(min(positions), max(positions))} - positions
        foreign = [at for at in between if at in place and place[at] not in _BESIDE]
        require(not foreign, f"{stream} and what it did are several commits: {sorted(positions)}")
    lost = {one for one in done if OPERATION + one not in found.gone}
    require(not lost, f"tasks or memories were changed by operations that nobody recorded: {lost}")


def _check_what_counts(found: TrackerHistory, runs: Mapping[str, RunHistory]) -> None:
    """A memory of a run counts if and only if the live generation has the step that wrote it."""
    for id, row in found.memories.items():
        live = _is_live(row["author"], runs)
        if live is not None and not row["supersedes"] and (row["operation"] or not row["withdrawn"]):
            require(live != bool(row["withdrawn"]), f"memory {id} ({row['text']!r}): its step counts: {live}")
    for name, task in found.tasks.items():
        last = task.events[-1]
        if last.type == "TaskCompleted" and _is_live(last.payload.get("author", {}), runs) is False:
            require(False, f"{name} is completed by a step that was rewound")


def _is_live(author: Mapping[str, Any], runs: Mapping[str, RunHistory]) -> bool | None:
    """None if no run wrote it, or the step was cut off and will run again."""
    run, key = runs.get(author.get("run", "")), author.get("step", "")
    if run is None or not key:
        return None
    step, generation = run.step(key), author.get("generation", 0)
    if step is not None and step.status == "completed":
        return step.origin == generation
    return None if generation == run.generation else False
