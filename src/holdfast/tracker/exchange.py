"""Tasks as a file: a JSON object on each line, out and in.

The first line is `{"holdfast": "tasks", "format": 1}`. A task is `{"task": ID, "name", "status", "events":
[...]}`: its whole history, so that what is read in is what was written out. A link is `{"link": [TASK, ON,
KIND]}`. A line from elsewhere needs no id and no events: `{"name": "..."}` with the fields of `create`; its
`due` is a date, or microseconds.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import msgspec

from holdfast.clock import microseconds, read_date
from holdfast.errors import BadInput, HoldfastError
from holdfast.json_input import WRAPPED_LEVELS, read_json
from holdfast.kernel import events as e
from holdfast.kernel import links, task_rules
from holdfast.kernel import task as tasks
from holdfast.kernel.author import Author
from holdfast.store.port import NO_EVENTS, Decision, NewEvent, Recorded, Source, new_event
from holdfast.store.tracker_port import LinkRow, TaskFilter
from holdfast.tracker.linking import append_links
from holdfast.tracker.tracker import Tracker, missing

_FORMAT = {"holdfast": "tasks", "format": 1}
_AT_ONCE = 500
"""How many tasks are one commit."""
_ALL = 1 << 62


class NotTaken(msgspec.Struct, frozen=True):
    """A task that was changed here and in the file, and stays as it is here; `fields` are those that are
    different in the file."""

    task: str
    name: str
    fields: tuple[str, ...]


class Imported(msgspec.Struct, frozen=True):
    """The result of an import: tasks that are new, tasks that got events they lacked, tasks that stay as
    they are here, links that are new. `checks` counts the commands that come along: they run
    when their task is completed. `not_taken` names those of `kept` that are different in the file."""

    created: int
    extended: int
    kept: int
    links: int
    checks: int = 0
    not_taken: tuple[NotTaken, ...] = ()


def lines(tracker: Tracker) -> Iterator[bytes]:
    """All tasks, archived ones too, and all links."""
    encode = msgspec.json.encode
    yield encode(_FORMAT)
    for row in tracker.store.tasks(TaskFilter(archived=True)):
        events = [
            {"type": entry.type, "at": entry.at, "payload": msgspec.Raw(entry.payload.encode())}
            for entry in tracker.store.entries(tasks.stream_of(row.id))
        ]
        yield encode({"task": row.id, "name": row.fields.name, "status": row.fields.status, "events": events})
    for link in tracker.store.all_links():
        yield encode({"link": list(link)})


def export(tracker: Tracker, file: IO[bytes]) -> int:
    """Write all tasks and links; returns how many lines."""
    count = 0
    for line in lines(tracker):
        file.write(line + b"\n")
        count += 1
    return count


class _Line(msgspec.Struct, frozen=True):
    task: str
    events: list[NewEvent]
    is_new: bool = False
    """It has no id in the file. If its task is here, the step that reads the file has made it, and runs again
    after a crash."""
    number: int = 0
    """Which line of the file it is."""


def import_(tracker: Tracker, source: Path | IO[bytes]) -> Imported:
    """Read a file in. The whole file is checked before anything is written: `BadInput` names the first wrong
    line. A task that is here already gets the events that it lacks, if its history here is the beginning of
    that in the file; otherwise it stays as it is, and `not_taken` names it. Raises `TaskDeleted`, with the
    line, for one that was deleted here."""
    file = str(source if isinstance(source, Path) else getattr(source, "name", "the file"))
    found, wanted = _read(tracker, source, file)
    known = set(tracker.store.task_ids("", _ALL))
    for one in found:
        if one.task not in known and tracker.store.deleted(tasks.stream_of(one.task)) is not None:
            raise missing(tracker.store, one.task, f"line {one.number} of {file} is wrong: ")
    _refuse_unknown(file, wanted, known | {one.task for one in found})
    _refuse_wrong(file, [*tracker.store.all_links(), *(link for _, link in wanted)])
    counts = [0, 0, 0]
    changed: set[str] = set()
    left: dict[str, NotTaken] = {}
    for start in range(0, len(found), _AT_ONCE):
        some = found[start : start + _AT_ONCE]

        def decide(recorded: Sequence[Sequence[Recorded]], some: list[_Line] = some) -> list[Decision]:
            decisions = [_added(one, here, counts, left) for one, here in zip(some, recorded, strict=True)]
            changed.update(one.task for one, made in zip(some, decisions, strict=True) if made.events)
            return decisions

        tracker.store.command_all([Source(tasks.stream_of(one.task)) for one in some], decide)
    created, extended, kept = counts
    added = _import_links(tracker, file, [link for _, link in wanted])
    rows = tracker.store.tasks(TaskFilter(archived=True)) if changed else []
    checks = sum(len(row.fields.checks) for row in rows if row.id in changed)
    return Imported(created, extended, kept, added, checks, tuple(left.values()))


def _added(one: _Line, here: Sequence[Recorded], counts: list[int], left: dict[str, NotTaken]) -> Decision:
    """The events of the file that the store lacks. A task that has other events here goes into `left`."""
    there = [(e.type_of(old.event), old.at, e.encode(old.event)) for old in here]
    theirs = [(new.type, new.at, e.encode(e.decode(new.type, new.payload))) for new in one.events]
    if there and one.is_new:
        counts[0] += 1
        return NO_EVENTS
    if theirs[: len(there)] != there or len(theirs) == len(there):
        counts[2] += 1
        if there[: len(theirs)] != theirs:
            _leave(one, here, left)
        return NO_EVENTS
    counts[1 if there else 0] += 1
    return Decision(tasks.KIND, one.events[len(there) :])


def _leave(one: _Line, here: Sequence[Recorded], left: dict[str, NotTaken]) -> None:
    """Note in which fields the task in the file is not the one that is here."""
    ours, theirs = tasks.fold(here), None
    for version, new in enumerate(one.events, 1):
        theirs = tasks.evolve(theirs, e.decode(new.type, new.payload), version, new.at)
    assert ours is not None
    assert theirs is not None
    fields = [
        name
        for name in ours.fields.__struct_fields__
        if getattr(ours.fields, name) != getattr(theirs.fields, name)
    ]
    if any(note not in ours.notes for note in theirs.notes):
        fields.append("notes")
    if fields:
        left[one.task] = NotTaken(one.task, ours.fields.name, tuple(fields))


def _import_links(tracker: Tracker, file: str, wanted: Sequence[LinkRow]) -> int:
    """Add the links that are not there, in one commit; how many. If others link meanwhile, look again."""
    author = tracker.author()
    while True:
        version = tracker.store.is_linked("", "", "blocks")[0]
        here = tracker.store.all_links()
        _refuse_wrong(file, [*here, *wanted])
        missing = dict.fromkeys(wanted)
        for link in here:
            missing.pop(link, None)
        if not missing:
            return 0
        new = [links.add(link.task, link.on, link.kind, author) for link in missing]
        if append_links(tracker, new, version):
            return len(new)


def _read(
    tracker: Tracker, source: Path | IO[bytes], file: str
) -> tuple[list[_Line], list[tuple[int, LinkRow]]]:
    found: list[_Line] = []
    wanted: list[tuple[int, LinkRow]] = []
    seen: set[str] = set()
    author = tracker.author()
    try:
        with nullcontext(source) if not isinstance(source, Path) else source.open("rb") as lines:
            for number, text in enumerate(lines, 1):
                if not text.strip():
                    continue
                try:
                    line = read_json(text, WRAPPED_LEVELS)
                    if not isinstance(line, dict):
                        raise BadInput("it is no JSON object")
                    if "holdfast" in line:
                        _check_head(line)
                    elif "link" in line:
                        wanted.append((number, _link(line["link"])))
                    else:
                        one = _task(tracker, line, number, author)
                        if one.task in seen:
                            raise BadInput(f"task {one.task} is in the file twice")
                        seen.add(one.task)
                        found.append(one)
                except (HoldfastError, msgspec.MsgspecError, UnicodeDecodeError) as error:
                    raise BadInput(
                        f"line {number} of {file} is wrong: {error}; nothing was read in"
                    ) from None
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from None
    return found, wanted


def _check_head(line: dict[str, Any]) -> None:
    if line.get("holdfast") != "tasks":
        raise BadInput("the file has no tasks")
    if line.get("format") != 1:
        raise BadInput(f"format {line.get('format')!r} is of a newer holdfast; upgrade holdfast")


def _link(value: Any) -> LinkRow:
    if not isinstance(value, list) or len(value) != 3 or not all(isinstance(one, str) for one in value):
        raise BadInput("a link is [TASK, ON, KIND]")
    added = links.add(*value)
    return LinkRow(added.task, added.on, added.kind)


def _task(tracker: Tracker, line: dict[str, Any], number: int, author: Author) -> _Line:
    id = line.get("task") or tracker.new_id(author, f"line {number} {line}")
    if not isinstance(id, str) or not _is_uuid(id):
        raise BadInput(f"{id!r} is no UUID")
    if "events" not in line:
        fields = {name: value for name, value in line.items() if name != "task"}
        if isinstance(fields.get("due"), str):
            fields["due"] = _due(fields["due"])
        made = task_rules.create(tracker.redacted(fields), author)
        return _Line(id, [new_event(made, tracker.clock.now_us())], not line.get("task"), number)
    events = []
    state = None
    for version, one in enumerate(line["events"], 1):
        event, at = _event(tracker, version, one)
        state = tasks.evolve(state, event, version, at)
        if state is None:
            raise BadInput("its first event is no TaskCreated")
        task_rules.check_state(state)
        events.append(new_event(event, at))
    if not events:
        raise BadInput("it has no events")
    return _Line(id, events, number=number)


def _due(text: str) -> int:
    """Microseconds; a line from elsewhere may have the date as `task create --due` takes it."""
    try:
        return microseconds(read_date(text))
    except ValueError:
        raise BadInput(
            f"due {text!r:.60} is no date; write 2026-01-31, 2026-01-31T12:00, or microseconds"
        ) from None


def _event(tracker: Tracker, version: int, one: Any) -> tuple[e.Event, int]:
    """An event of a task, redacted, and its time. Only events of tasks: those of the store delete streams."""
    if not isinstance(one, dict) or not isinstance(one.get("at"), int):
        raise BadInput(f"event {version} has no time `at`")
    task_rules.check_time("time", one["at"])
    type = str(one.get("type"))
    if type not in _TYPES:
        raise BadInput(f"event {version} is a {type}, which is no event of a task that this version knows")
    payload = msgspec.json.encode(tracker.redacted(one.get("payload")))
    event = e.decode(type, payload.decode())
    if isinstance(event, (tasks.TaskClaimed, tasks.ClaimRenewed)):
        task_rules.check_time("lease", event.until)
    return event, one["at"]


_TYPES = frozenset(one.__name__ for one in tasks.EVENTS)


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _refuse_unknown(file: str, wanted: Iterable[tuple[int, LinkRow]], known: set[str]) -> None:
    for number, link in wanted:
        for one in (link.task, link.on):
            if one not in known:
                raise BadInput(
                    f"line {number} of {file} is wrong: there is no task {one} in the file or in the store; "
                    "nothing was read in"
                )


def _refuse_wrong(file: str, all_links: Sequence[LinkRow]) -> None:
    """Raise if the links of the file and those of the store do not fit."""
    _refuse_cycle(file, all_links)
    parents: dict[str, str] = {}
    for link in all_links:
        if link.kind == "parent" and parents.setdefault(link.task, link.on) != link.on:
            raise BadInput(
                f"{file} gives task {link.task} a second parent, {link.on}; it has {parents[link.task]}; "
                "nothing was linked"
            )


def _refuse_cycle(file: str, all_links: Iterable[LinkRow]) -> None:
    """Raise if the links of the file and those of the store close a cycle."""
    for kind in links.ACYCLIC:
        on: dict[str, list[str]] = {}
        waits: dict[str, int] = {}
        for link in set(all_links):
            if link.kind == kind:
                on.setdefault(link.on, []).append(link.task)
                waits[link.task] = waits.get(link.task, 0) + 1
                waits.setdefault(link.on, 0)
        free = [task for task, count in waits.items() if not count]
        done = 0
        while free:
            done += 1
            for task in on.get(free.pop(), ()):
                waits[task] -= 1
                if not waits[task]:
                    free.append(task)
        if done < len(waits):
            left = sorted(task for task, count in waits.items() if count)
            raise BadInput(
                f"the links of kind {kind!r} in {file} close a cycle with those that are here, among "
                f"{', '.join(left[:5])}; nothing was read in"
            )
