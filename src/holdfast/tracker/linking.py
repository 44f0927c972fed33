"""Linking tasks without a cycle, also where two processes link at once.

All links are one stream. The store says, for a version of it, whether a link would close a cycle; the link is
written only if that version is still the last. If others have linked meanwhile, the store is asked again.
What a person links or unlinks is an operation in the same commit; the event names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from holdfast.errors import BadInput, LinkCycle, NotFound, TaskNotFound
from holdfast.kernel import events as e
from holdfast.kernel import links, operation
from holdfast.kernel import task as tasks
from holdfast.kernel.events import Event
from holdfast.store.port import END, NO_EVENTS, Decision, Recorded, Source, Store, new_event
from holdfast.store.tracker_port import LinkRow
from holdfast.tracker.edit_record import link_decision
from holdfast.tracker.tracker import Tracker


def link(tracker: Tracker, task: str, on: str, kind: str = "blocks") -> bool:
    """Link a task to another; returns False if it was linked so already. Raises `LinkCycle`, which names the
    cycle, `TaskNotFound`, and `BadInput` for a task on itself."""
    author = tracker.author()
    event = links.add(task, on, kind, author)
    for one in (task, on):
        if tracker.store.task(tasks.check_id(one)) is None:
            raise TaskNotFound(one)
    while True:
        version, closes = tracker.store.is_linked(on, task, kind)
        if closes and kind in links.ACYCLIC:
            path = _path(tracker, on, task, kind)
            if not path:
                continue  # one of the links was removed in between
            rows = [tracker.store.task(one) for one in path]
            raise LinkCycle(kind, [task, *path], {row.id: row.fields.name for row in rows if row})
        if LinkRow(task, on, kind) in tracker.store.links_of(task)[1]:
            return tracker.has_done(links.STREAM, author, partial(_is_like, event))
        if kind == "parent":
            _refuse_second_parent(tracker, task)
        if _write(tracker, event, version):
            return True


def unlink(tracker: Tracker, task: str, on: str, kind: str = "blocks") -> None:
    """Remove a link. Raises `NotFound` if there is none."""
    links.check_kind(kind)
    author = tracker.author()
    event = links.LinkRemoved(task, on, kind, author)
    if LinkRow(task, on, kind) not in tracker.store.links_of(task)[1]:
        if tracker.has_done(links.STREAM, author, partial(_is_like, event)):
            return
        raise NotFound(
            f"task {task[:8]} has no link of kind {kind!r} to {on}; `holdfast task show {task[:8]}` has all"
        )
    _write(tracker, event, END)


def _write(tracker: Tracker, event: links.LinkAdded | links.LinkRemoved, version: int) -> bool:
    """Append a change of a link, and the operation if a person made it, unless others have changed links
    after that version; whether it was written."""
    made = tracker.clock.uuid().hex[:12]
    named = event if event.author.run else msgspec.structs.replace(event, operation=made)
    moved = (e.LinkMove(event.task, event.on, event.kind),)
    is_added = isinstance(event, links.LinkAdded)
    stage = e.LinksApplied(added=moved) if is_added else e.LinksApplied(removed=moved)
    written = False

    def decide(recorded: Sequence[Sequence[Recorded]]) -> list[Decision]:
        nonlocal written
        written = not recorded[0]
        if not written:
            return [NO_EVENTS] * len(recorded)
        at = tracker.clock.now_us()
        own = Decision(links.KIND, [new_event(named, at)])
        return [own, link_decision(event.task, stage, event.author, at)]

    tracker.store.command_all([Source(links.STREAM, version), Source(operation.stream_of(made))], decide)
    return written


def _is_like(event: Event, other: Event) -> bool:
    return type(event) is type(other) and _row_of(event) == _row_of(other)


def _row_of(event: Event) -> LinkRow | None:
    """The link that an event is about."""
    if isinstance(event, links.LinkAdded | links.LinkRemoved):
        return LinkRow(event.task, event.on, event.kind)
    return None


def _refuse_second_parent(tracker: Tracker, task: str) -> None:
    for one in tracker.store.links_of(task)[1]:
        if one.kind == "parent":
            raise BadInput(
                f"task {task[:8]} has a parent already, {one.on}; remove that link first with "
                f"`holdfast task unlink {task[:8]} {one.on} --kind parent`"
            )


def append_links(tracker: Tracker, events: Sequence[Event], version: int) -> bool:
    """Append these events if no other one came after that version; whether they were."""
    written = False

    def decide(newer: Sequence[Recorded]) -> Decision:
        nonlocal written
        written = not newer
        at = tracker.clock.now_us()
        return Decision(links.KIND, [new_event(one, at) for one in events]) if written else NO_EVENTS

    tracker.store.command(links.STREAM, decide, after=version)
    return written


def _path(tracker: Tracker, start: str, end: str, kind: str) -> list[str]:
    """The shortest chain of links from one task to another; empty if there is none."""
    came: dict[str, str] = {start: ""}
    frontier = [start]
    while frontier and end not in came:
        found = [one for task in frontier for one in tracker.store.links_of(task)[1] if one.kind == kind]
        frontier = []
        for one in found:
            if one.on not in came:
                came[one.on] = one.task
                frontier.append(one.on)
    return _chain(came, start, end)


def _chain(came: Mapping[str, str], start: str, end: str) -> list[str]:
    """The chain to `end`, where `came` has the task before each; empty if it was not reached."""
    if end not in came:
        return []
    path = [end]
    while path[-1] != start:
        path.append(came[path[-1]])
    return path[::-1]


def cycle_with(store: Store, back: Mapping[str, str]) -> tuple[int, LinkCycle | None]:
    """The version of the links, and the cycle that they would close if deleted tasks were there again:
    what they were linked to may have been linked otherwise since. `back` has their names by id."""
    version = store.is_linked("", "", "blocks")[0]
    found: dict[LinkRow, None] = {}
    for event, *_ in store.load(links.STREAM):
        row = _row_of(event)
        if row is not None and (row.task in back or row.on in back):
            if isinstance(event, links.LinkAdded):
                found[row] = None
            else:
                found.pop(row, None)
    known = {one: one in back or store.task(one) is not None for row in found for one in row[:2]}
    again = [row for row in found if known[row.task] and known[row.on]]
    every = [*store.all_links(), *again] if again else []
    for kind in links.ACYCLIC:
        on: dict[str, list[str]] = {}
        for row in every:
            if row.kind == kind:
                on.setdefault(row.task, []).append(row.on)
        for row in again:
            path = _way(on, row.on, row.task) if row.kind == kind else []
            if path:
                rows = [store.task(one) for one in path]
                names = {one.id: one.fields.name for one in rows if one is not None}
                return version, LinkCycle(kind, [row.task, *path], {**back, **names})
    return version, None


def _way(on: Mapping[str, Sequence[str]], start: str, end: str) -> list[str]:
    """A chain of links from one task to another; empty if there is none."""
    came, left = {start: ""}, [start]
    while left and end not in came:
        task = left.pop()
        for one in on.get(task, ()):
            if one not in came:
                came[one] = task
                left.append(one)
    return _chain(came, start, end)
