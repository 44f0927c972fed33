"""`delete`: runs and tasks leave every view. A run goes with its child runs, the operations on it and what
they name; a task with its links and the operations on it.

One transaction sets the streams aside and records the operation, so a crash leaves everything or nothing.
Contents are kept until `gc` makes the deletion final; until then `undo` brings everything back.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import msgspec

from holdfast import counts
from holdfast.engine.outside.unknown_run import missing
from holdfast.errors import Refused
from holdfast.kernel import events as e
from holdfast.kernel import links
from holdfast.kernel import task as tasks
from holdfast.kernel.evolve import fold
from holdfast.kernel.operation import KIND, begin, stream_of
from holdfast.kernel.task_rules import held_by
from holdfast.operations import operation_log
from holdfast.operations.cut_off import make_way
from holdfast.operations.holding import let_go, refuse_live
from holdfast.store.port import NO_EVENTS, Decision, Recorded, Source, new_event
from holdfast.tracker.claiming import lives
from holdfast.tracker.linking import cycle_with
from holdfast.tracker.tracker import missing as missing_task
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.store.port import RunRow, Store


_RUN: Final = "run"
_TASK: Final = "task"


class Deletion(msgspec.Struct, frozen=True):
    """The result of a deletion, done or planned.

    items      the runs, each followed by its child runs, and the tasks; without any of their contents
    events     how many events they have
    operation  what `undo` reverses; empty in a dry run
    """

    items: tuple[e.DeletedItem, ...]
    events: int
    operation: str = ""

    JSON: ClassVar = {
        "items": "what was deleted, or with `--dry-run` would be: `kind` (`run` or `task`), `id`, `number`, "
        "`title`, `events` (how many it had), and `parent` (the run that it is a child of, or null)",
        "events": "how many events they have",
        "operation": "what `undo` reverses, until `gc` makes the deletion final; null with `--dry-run`",
    }

    @property
    def summary(self) -> str:
        """How many runs, tasks and events it is, in words."""
        return counted(self.items)

    def to_json(self) -> dict[str, Any]:
        return {
            "items": items_json(self.items),
            "events": self.events,
            "operation": self.operation or None,
        }


def items_json(items: Sequence[e.DeletedItem]) -> list[dict[str, Any]]:
    return [
        {
            "kind": one.kind,
            "id": one.id,
            "number": one.number,
            "title": one.title,
            "events": one.events,
            "parent": one.parent or None,
        }
        for one in items
    ]


class _Plan(NamedTuple):
    """The items, and the version of every stream that goes with them."""

    items: tuple[e.DeletedItem, ...]
    heads: dict[str, int | None]

    @property
    def events(self) -> int:
        return sum(one.events for one in self.items)


def delete(
    engine: Engine,
    run_ids: Sequence[str],
    task_ids: Sequence[str] = (),
    *,
    by: str,
    with_task: bool = False,
    dry_run: bool = False,
) -> Deletion:
    """Delete these runs with their child runs, and these tasks, all or none, as one operation. `with_task`:
    also the tasks that the runs have worked on.

    Raises `RunHeld` if a process executes one of the runs, `TaskHeld` if one of the tasks is claimed,
    `Refused` for a child run whose parent is not deleted with it, and `unknown_run.missing` or
    `tracker.missing` for an unknown one.
    """
    while True:
        if not dry_run:
            for run_id in run_ids:
                make_way(engine, run_id)
        plan = _plan(engine, run_ids, task_ids, with_task=with_task)
        _refuse_held(engine, plan, waits=not dry_run)
        if dry_run:
            return Deletion(plan.items, plan.events)
        operation = engine.clock.uuid().hex[:12]
        begun = begin("delete", _first_run(plan.items), by, _summary(plan.items))
        if _commit(engine, plan, operation, begun):
            return Deletion(plan.items, plan.events, operation)


def _first_run(items: Sequence[e.DeletedItem]) -> str:
    """The run that an operation is said to be of; empty if there is none."""
    return next((one.id for one in items if one.kind == _RUN), "")


def _commit(engine: Engine, plan: _Plan, operation: str, begun: e.OperationBegun) -> bool:
    """Delete and record it; False if one of the runs has continued since: then look again."""
    at = engine.clock.now_us()
    stages = (begun, e.ItemsDeleted(plan.items, tuple(plan.heads)), e.OperationDone())
    return engine.store.delete(plan.heads, operation, at, *_recording(operation, stages, at))


def _recording(operation: str, stages: Sequence[e.Event], at: int) -> Any:
    """The streams beside those that are deleted or restored, and what is decided for them."""

    def decide(_: Sequence[Sequence[Recorded]]) -> Sequence[Decision]:
        return [Decision(KIND, [new_event(one, at) for one in stages])]

    return [Source(stream_of(operation))], decide


def _plan(
    engine: Engine, run_ids: Sequence[str], task_ids: Sequence[str], *, with_task: bool = False
) -> _Plan:
    rows: dict[str, RunRow] = {}
    for run_id in run_ids:
        rows |= {row.id: row for row in _family(engine.store, run_id)}
    for run_id in run_ids:
        parent = rows[run_id].parent
        if parent and parent not in rows and engine.store.run(parent) is not None:
            raise Refused(
                f"run {run_id} is a child of run {parent}, whose history needs it; "
                f"{quoted(Way('delete', parent))} deletes both"
            )
    titles = dict(engine.store.creations(list(rows)))
    items = [
        e.DeletedItem(
            _RUN, row.id, _title(engine, row, titles.get(row.id)), row.number, row.version, row.parent
        )
        for row in rows.values()
    ]
    heads: dict[str, int | None] = {row.id: row.version for row in rows.values()}
    for run_id in rows:
        heads |= dict.fromkeys(_operations_on(engine.store, run_id))
    for task in dict.fromkeys((*task_ids, *(_tasks_of(engine.store, rows) if with_task else ()))):
        found = engine.store.task(task)
        if found is None:
            raise missing_task(engine.store, task)
        items.append(e.DeletedItem(_TASK, task, found.fields.name, found.place, found.version))
        heads[tasks.stream_of(task)] = found.version
        heads |= dict.fromkeys(_edits_of(engine.store, task))
    return _Plan(tuple(items), heads)


def _tasks_of(store: Store, runs: Container[str]) -> list[str]:
    """The tasks that these runs have worked on."""
    claims = store.events_of(("TaskClaimed",))
    found = [stream for stream, event in claims if isinstance(event, tasks.TaskClaimed) and event.run in runs]
    return [task for task in map(tasks.task_of, dict.fromkeys(found)) if store.task(task) is not None]


def _title(engine: Engine, row: RunRow, created: e.RunCreated | None) -> str:
    """The title or name of its code; what it was started with is content."""
    title = "" if created is None else created.code.title
    return engine.redactor.redact(title or row.workflow)


def _family(store: Store, run_id: str) -> Iterator[RunRow]:
    """The run and its child runs, to any depth, also those of generations that were left."""
    row = store.run(run_id)
    if row is None:
        raise missing(store, run_id)
    yield row
    for child in reversed(store.runs(parent=run_id)):
        yield from _family(store, child.id)


def _operations_on(store: Store, run_id: str) -> Iterator[str]:
    """The streams of the operations on a run: they name its steps and files. Those that deleted it or brought
    it back stay: they are the record of that."""
    kept: set[str] = set()
    for row in reversed(store.operations(run=run_id)):
        if row.kind == "delete" or row.undoes in kept:
            kept.add(row.id)
        else:
            yield stream_of(row.id)


def _edits_of(store: Store, task: str) -> Iterator[str]:
    """The streams of the operations on a task, and of those that undid them."""
    found: set[str] = set()
    for row in reversed(store.operations(run="")):
        if (row.kind == "edit" and row.to == f"task {task}") or row.undoes in found:
            found.add(row.id)
            yield stream_of(row.id)


def _refuse_held(engine: Engine, plan: _Plan, *, waits: bool) -> None:
    """Raises `RunHeld` for a run that a process executes, `TaskHeld` for a claimed task,
    unless that is a run which goes with it. `waits` for the commands of a dead owner to end."""
    runs = {item.id for item in plan.items if item.kind == _RUN}
    for item in plan.items:
        if item.kind == _TASK:
            task = engine.store.task(item.id)
            claim = None if task is None else task.fields.claim
            if claim is not None and claim.run not in runs and lives(engine.store, engine.clock, claim):
                raise held_by(item.id, claim)
            continue
        row = engine.store.run(item.id)
        if row is not None and row.owner:
            state = fold(engine.store.history(item.id))
            if state is not None and waits:
                let_go(engine, item.id, state)
            elif state is not None:
                refuse_live(engine, item.id, state)


def _summary(items: Sequence[e.DeletedItem]) -> str:
    """The deleted items, in words."""
    heads = [one.id if one.kind == _RUN else f"task {one.id[:8]}" for one in _heads(items)]
    named = ", ".join(heads[:3]) + (", ..." if len(heads) > 3 else "")
    return f"{named} ({counted(items)})"


def counted(items: Sequence[e.DeletedItem]) -> str:
    """How many runs, tasks and events they are, in words."""
    parts = []
    for kind in (_RUN, _TASK):
        count = sum(one.kind == kind for one in items)
        parts += [counts.counted(count, kind)] if count else []
    return ", ".join([*parts, counts.counted(sum(one.events for one in items), "event")])


def _heads(items: Sequence[e.DeletedItem]) -> list[e.DeletedItem]:
    """Those that are not children of others among them."""
    ids = {one.id for one in items}
    return [one for one in items if one.parent not in ids]


# Taking it back


class _LinksChanged(Exception):
    """Tasks were linked since the links were looked at."""


class DeletionReversal(NamedTuple):
    """How an operation that deleted, or that brought back what was deleted, is undone."""

    deletion: str
    items: tuple[e.DeletedItem, ...]
    streams: tuple[str, ...]
    restores: bool
    """Whether undoing it brings the items back; else it deletes them again."""

    def perform(self, engine: Engine, operation: str, undoes: str, by: str) -> bool:
        """Do it in one transaction with its record; False if something changed meanwhile: then look again."""
        begun = begin("undo", _first_run(self.items), by, undoes=undoes)
        if not self.restores:
            runs, again = (
                [one.id for one in _heads(self.items) if one.kind == kind] for kind in (_RUN, _TASK)
            )
            plan = _plan(engine, runs, again)
            _refuse_held(engine, plan, waits=True)
            return _commit(engine, plan, operation, begun)
        at = engine.clock.now_us()
        stages = (begun, e.ItemsRestored(self.deletion), e.OperationDone())
        also, decide = _recording(operation, stages, at)
        back = {one.id: one.title for one in self.items if one.kind == _TASK}
        if not back:
            return engine.store.restore(self.streams, operation, at, also, decide)
        version, cycle = cycle_with(engine.store, back)
        if cycle is not None:
            raise cycle

        def decide_both(recorded: Sequence[Sequence[Recorded]]) -> Sequence[Decision]:
            if recorded[1]:
                raise _LinksChanged
            return [*decide(recorded[:1]), NO_EVENTS]

        try:
            return engine.store.restore(
                self.streams, operation, at, [*also, Source(links.STREAM, version)], decide_both
            )
        except _LinksChanged:
            return False


def reversal(store: Store, operation: str) -> DeletionReversal | None:
    """None if the operation neither deleted nor brought back. Raises `Refused` if there is nothing to undo
    any more: `gc` has freed the contents, or the operation is undone already."""
    state = operation_log.state_of(store, operation)
    if state.deleted is None and not state.restored:
        return None
    row = operation_log.find(store, operation)
    if not operation_log.Standing(store).has(row):
        if state.deleted is not None and all(_is_final(store, one) for one in state.deleted.streams):
            raise Refused(f"what operation {operation} deleted is gone: `holdfast gc` has freed its contents")
        raise Refused(f"operation {operation} has nothing that could be undone")
    if state.deleted is not None:
        return DeletionReversal(operation, state.deleted.items, state.deleted.streams, True)
    deleted = operation_log.state_of(store, state.restored).deleted
    assert deleted is not None, "an operation that is restored has deleted"
    return DeletionReversal(state.restored, deleted.items, deleted.streams, False)


def _is_final(store: Store, stream: str) -> bool:
    found = store.deleted(stream)
    return found is not None and found.final


# Making it final


def make_final(engine: Engine) -> int:
    """Remove what was deleted, one operation at a time; how many operations that were. They cannot be undone
    any more."""
    done = 0
    for one in engine.store.deletions():
        done += engine.store.purge(one.streams, engine.clock.now_us())
    if done:
        engine.store.sweep()
    return done
