"""`undo`: take an operation back, also an undo. The generation that it left is the live one again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from holdfast.errors import BadInput, Refused
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.generations import again_if_restored, only_here
from holdfast.kernel.operation import begin, refuse_unknown
from holdfast.kernel.state import UNSEEN
from holdfast.operations import operation_log
from holdfast.operations.cut_off import make_way
from holdfast.operations.deleting import DeletionReversal, counted, items_json, reversal
from holdfast.operations.holding import load, look
from holdfast.operations.operation_files import FilesBack, to_before
from holdfast.operations.performing import Performed, perform, perform_parts
from holdfast.operations.plan_digest import digest_of, refuse_other, versions
from holdfast.operations.quota import refuse_forgotten
from holdfast.operations.repeats import let_go_family, once_steps, refuse_again
from holdfast.operations.repositories import GitBack
from holdfast.operations.reversal import PartBack, PartKept, Reversal, digest_fields
from holdfast.operations.tracked_parts import parts_of_undo, plans_of
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.kernel.state import RunState, StepState
    from holdfast.store.port import OperationRow, Store


class Undo(msgspec.Struct, frozen=True):
    """The effects of an undo, done or planned.

    undoes      the operation that is reversed, and its kind
    generation  the one that is live again, and `status` what the run is in it
    left        the steps that were recorded since in the generation that is left: they no longer count
    once        the `once` steps that the one that is restored does not know to be done, and would do again
    operation   what `undo` reverses next; empty in a dry run
    files       what becomes of the files, and `git` of the repository; None if the operation moved none
    plan        a digest of what is done, or would be: with `plan=`, `undo` refuses to do anything else
    items       of a deletion, what is there again, or deleted again; `status` says which
    tasks       what becomes of tasks, and `memory` of what was remembered

    Of an operation on a task or the memory, `run_id` and `status` are empty and `generation` is -1.
    """

    run_id: str
    undoes: str
    kind: str
    generation: int
    status: str
    left: tuple[str, ...]
    once: tuple[str, ...]
    operation: str = ""
    files: FilesBack | None = None
    git: GitBack | None = None
    plan: str = ""
    items: tuple[e.DeletedItem, ...] = ()
    tasks: PartBack = PartBack()
    memory: PartBack = PartBack()

    JSON: ClassVar = {
        "run": "the run; null if the operation was on a task or the memory",
        "undoes": "the operation that is undone",
        "kind": "its kind",
        "generation": "the one that is live again; null without a run",
        "status": "the status of the run in it; of a deletion, `restored` or `deleted`; else null",
        "left": "the steps recorded since, which no longer count",
        "once": "the `once` steps that were done since and would run again",
        "operation": "what the next `undo` reverses; null with `--dry-run`",
        "files": "what becomes of the files; null if the operation moved none",
        "git": "what becomes of the repository; null if the operation moved nothing there",
        "plan": "a digest of what is done, or would be; `--plan` takes it",
        "items": "of a deletion, what is there again or deleted again, as in `delete`",
        "tasks": "what becomes of tasks",
        "memory": "what becomes of the memory",
    }

    @property
    def summary(self) -> str:
        """Of a deletion: how many runs, tasks and events are there again, or deleted again."""
        return counted(self.items)

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run_id or None,
            "undoes": self.undoes,
            "kind": self.kind,
            "generation": None if self.generation < 0 else self.generation,
            "status": self.status or None,
            "left": list(self.left),
            "once": list(self.once),
            "operation": self.operation or None,
            "files": None if self.files is None else self.files.to_json(),
            "git": None if self.git is None else self.git.to_json(),
            "plan": self.plan,
            "items": items_json(self.items),
            "tasks": self.tasks.to_json(),
            "memory": self.memory.to_json(),
        }


def undo(
    engine: Engine,
    operation: str | None = None,
    *,
    by: str,
    files: bool = True,
    partial: bool = False,
    rerun_once: bool = False,
    dry_run: bool = False,
    plan: str | None = None,
) -> Undo:
    """Undo an operation, or without one the last that `by` did; without `files`, those are left as
    they are.

    Raises `Refused` if another operation on that run came after it; without an operation, if `by` has changed
    a task since in a way that is no operation (a claim, a release, a note, an import); if the files that it
    replaced are not kept any more, or if only a newer holdfast knows its kind; `RunHeld`, `OnceAgain`;
    `PlanChanged` if `plan` is the digest of a preview, and something else would be done now.
    """
    if operation is None:
        row = operation_log.last_of(engine.store, by)
        operation_log.refuse_later(engine.store, row)
    else:
        row = operation_log.find(engine.store, operation)
    refuse_unknown(row.id, row.kind)
    deletion = reversal(engine.store, row.id)
    if deletion is not None:
        return _undo_deletion(engine, row, deletion, by, dry_run=dry_run, plan=plan)
    if not row.run:
        return _undo_edit(engine, row, by=by, dry_run=dry_run, plan=plan)
    if not dry_run:
        make_way(engine, row.run)
        row = operation_log.find(engine.store, row.id)
    undone = operation_log.state_of(engine.store, row.id)
    if not files and row.opened < 0:
        raise BadInput(f"operation {row.id} moved nothing but files: leave --no-files out")
    while True:
        state = load(engine, row.run)
        if row.opened >= 0:
            _refuse_stale(engine, row, state)
        elif row.status != "done" or not operation_log.Standing(engine.store).has(row):
            raise Refused(f"operation {row.id} has nothing that could be undone")
        if files and undone.planned is not None:
            what, way = f"the files of before {row.kind} {row.id}", "`--no-files` undoes the rest"
            refuse_forgotten(engine, row.run, undone.planned.version, what, way if row.opened >= 0 else "")
        steps = only_here(state, row.left) if row.opened >= 0 else []
        parts = parts_of_undo(engine.store, row, undone, by, state, steps) if row.opened >= 0 else ()
        planned = _with_parts(_plan(engine, row, state, steps), parts)
        if dry_run:
            dead = look(engine, state)
        else:
            dead = let_go_family(engine, row.run, state, steps)
            refuse_again(row.run, planned.once, rerun_once)
        with (
            to_before(engine, state, undone, dead, partial=partial, dry_run=dry_run)
            if files
            else nullcontext()
        ) as going:
            doing = [row.id, planned.generation, planned.status, versions(steps), planned.once]
            digest = digest_of("undo", row.run, [*doing, *digest_fields(parts)], going)
            planned = msgspec.structs.replace(planned, plan=digest)
            refuse_other(plan, planned.plan)
            if dry_run:
                return msgspec.structs.replace(planned, **Performed.of("", going)._asdict())
            if going is not None and plan is not None:
                going.bound = planned.plan
            begun = begin("undo", row.run, by, undoes=row.id)
            command = c.RestoreGeneration(
                row.run, row.left, row.opened, dead=dead.owner, rerun_once=rerun_once
            )
            done = perform(engine, begun, state, command if row.opened >= 0 else None, going, parts)
        if done is not None:
            return msgspec.structs.replace(planned, **done._asdict())


def _undo_deletion(
    engine: Engine,
    row: OperationRow,
    deletion: DeletionReversal | None,
    by: str,
    *,
    dry_run: bool,
    plan: str | None,
) -> Undo:
    """Undo what deleted runs or tasks, or brought them back."""
    while deletion is not None:
        status = "restored" if deletion.restores else "deleted"
        doing = [row.id, deletion.deletion, status, sorted(deletion.streams)]
        digest = digest_of("undo", row.run, doing, None)
        refuse_other(plan, digest)
        done = Undo(row.run, row.id, row.kind, 0, status, (), (), plan=digest, items=deletion.items)
        if dry_run:
            return done
        operation = engine.clock.uuid().hex[:12]
        if deletion.perform(engine, operation, row.id, by):
            return msgspec.structs.replace(done, operation=operation)
        deletion = reversal(engine.store, row.id)
    raise AssertionError(f"operation {row.id} deleted nothing")


def _undo_edit(engine: Engine, row: OperationRow, *, by: str, dry_run: bool, plan: str | None) -> Undo:
    """Undo what was done to a task or to the memory from outside every run."""
    while True:
        undone = operation_log.state_of(engine.store, row.id)
        parts = parts_of_undo(engine.store, row, undone, by)
        planned = _with_parts(Undo("", row.id, row.kind, -1, "", (), ()), parts)
        if not planned.tasks.changes and not planned.memory.changes:
            kept = [*planned.tasks.kept, *planned.memory.kept]
            raise Refused(
                f"operation {row.id} has nothing that could be undone{_why(kept)}{_first(engine.store, row)}"
            )
        digest = digest_of("undo", "", [row.id, *digest_fields(parts)])
        planned = msgspec.structs.replace(planned, plan=digest)
        refuse_other(plan, digest)
        if dry_run:
            return planned
        done = perform_parts(engine, begin("undo", "", by, row.to, row.id), parts)
        if done is not None:
            return msgspec.structs.replace(planned, operation=done)


def _why(kept: Sequence[PartKept]) -> str:
    if not kept:
        return ""
    one = kept[0]
    return f": {one.id}: {one.why}" if one.why.startswith("its ") else f": {one.id} was {one.why}"


def _first(store: Store, row: OperationRow) -> str:
    """The later operation on the same task or memory that can be undone first; empty if there is none."""
    standing = operation_log.Standing(store)
    for later in store.operations(run=""):
        if later.id == row.id:
            break
        if later.to == row.to and standing.has(later):
            return f"; {quoted(Way('undo', arguments={'operation': later.id}))} undoes what came after it"
    return ""


def _with_parts(planned: Undo, parts: Sequence[Reversal]) -> Undo:
    tasks, memory = plans_of(parts)
    return msgspec.structs.replace(planned, tasks=tasks, memory=memory)


def _refuse_stale(engine: Engine, row: OperationRow, state: RunState) -> None:
    """Only what made the live generation live can be undone: what came after it comes first."""
    if state.generation == row.opened and row.left in state.past:
        return
    for later in engine.store.operations(run=row.run):
        if later.opened == state.generation and later.id != row.id:
            raise Refused(
                f"operation {row.id} is not the last one on run {row.run}: {later.kind} {later.id} came "
                f"after it; {quoted(Way('undo', arguments={'operation': later.id}))} undoes that first"
            )
    raise Refused(f"operation {row.id} has nothing that could be undone")


def _plan(engine: Engine, row: OperationRow, state: RunState, steps: list[StepState]) -> Undo:
    if row.opened < 0:
        return Undo(row.run, row.id, row.kind, state.generation, state.status, (), ())
    return Undo(
        run_id=row.run,
        undoes=row.id,
        kind=row.kind,
        generation=row.left,
        status=state.past[row.left].status,
        left=tuple(step.key for step in steps if step.kind not in UNSEEN),
        once=tuple(once_steps(engine.store, again_if_restored(state, row.left))),
    )
