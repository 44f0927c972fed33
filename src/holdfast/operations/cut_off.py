"""Operations that were cut off: by a kill, by Ctrl-C, by a store that could not be written.

    the log says   the files are    what is done
    nothing        the old ones     it never began: the mark goes
    done, dropped  as the log says  the mark goes
    begun          either           it is done again: a path that is as it should be is not touched; what
                                    cannot be done is undone; what can be neither waits, with its mark

An end is in the log only after the files are there (`performing`), so that they need no second look: what has
become of them since belongs to others. Each outcome is logged as a warning.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from holdfast.engine.ownership.owners import is_alive
from holdfast.errors import HoldfastError, NotTrusted, StoreError
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.evolve import fold
from holdfast.kernel.file_history import last_git
from holdfast.kernel.generations import only_here
from holdfast.kernel.operation import OperationState, refuse_unknown, stream_of
from holdfast.kernel.operation import fold as fold_operation
from holdfast.operations import operation_files, operation_locks, operation_log, points, repositories
from holdfast.operations.operation_files import Going
from holdfast.operations.performing import Moving, complete, unfinished, write
from holdfast.operations.tracked_parts import parts_of_rewind, parts_of_undo
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.engine.engine import Engine
    from holdfast.kernel.state import RunState
    from holdfast.operations.reversal import Reversal
    from holdfast.store.port import Recorded
    from holdfast.workspace.workspace import Workspace

logger = logging.getLogger("holdfast")


def recover(engine: Engine) -> None:
    """Finish every operation that has a mark and no process; report what hinders one."""
    for operation in operation_locks.listed(engine.home):
        try:
            settle(engine, operation)
        except HoldfastError as error:
            logger.warning("%s", error)


def make_way(engine: Engine, run_id: str) -> None:
    """Before another operation on a run: the last one comes to its end first. Raises `StoreError` if that
    cannot be written. If its files hinder it, a warning is logged, and the new one is the way out."""
    for row in engine.store.operations(run=run_id, limit=1):
        if row.status == "begun":
            try:
                settle(engine, row.id)
            except StoreError:
                raise
            except HoldfastError as error:
                logger.warning("%s", error)


def settle(engine: Engine, operation: str) -> bool:
    """Bring an operation that was cut off to an end that the log names, with a mark or without; False if
    another process is at it now. Raises what hinders it: then it waits."""
    if not operation_locks.exists(engine.home, operation) and not _is_begun(engine, operation):
        return True
    with operation_locks.held(engine.home, operation) as mark:
        if mark is None:
            return not _is_begun(engine, operation)
        begun = fold_operation(engine.store.load(stream_of(operation)))
        if begun is not None:
            try:
                _end(engine, operation, begun)
            except HoldfastError as error:
                raise unfinished(error, operation, begun) from error
        mark.remove()
        return True


def _is_begun(engine: Engine, operation: str) -> bool:
    state = fold_operation(engine.store.load(stream_of(operation)))
    return state is not None and state.status == "begun"


def _end(engine: Engine, operation: str, begun: OperationState) -> None:
    what = f"{begun.kind} {operation} of run {begun.run}"
    if begun.status == "dropped":
        logger.warning("%s was cut off after it was undone: nothing was left to do", what)
    elif begun.status == "done":
        logger.warning("%s was cut off after it was done: nothing was left to do", what)
        if begun.applied is not None and begun.applied.rescued:
            _warn_of_rescued(what, begun.applied.rescued)
    else:
        refuse_unknown(operation, begun.kind)
        why = _finish(engine, operation, begun)
        if why:
            logger.warning("%s was cut off, and is dropped: %s", what, why)
        else:
            logger.warning("%s was cut off, and is finished now", what)


def _finish(engine: Engine, operation: str, begun: OperationState) -> str:
    """Do it again → why it was dropped instead; empty if it was not."""
    planned = begun.planned
    history = engine.store.load(begun.run)
    state = fold(history)
    if planned is None or state is None or _is_overtaken(engine, operation, begun, history):
        why = "the run has continued since; its files were left as they are"
        write(engine, operation, [e.OperationDropped(why)])
        return why
    _refuse_other_root(engine, planned)
    workspace = engine.files.of(planned.root, planned.mark)
    with operation_files.alone(workspace), workspace.contents.hold():
        before = _before(workspace, planned)
        why = "something else was recorded for the run since, so its files are as they were before"
        if begun.kind == "restore" or state.version == planned.version:
            try:
                moving = _moved(engine, operation, begun, planned, workspace, state, before)
                command = _command(engine, begun, state)
                stages, going = moving.stages, moving.going
                parts = _parts(engine, begun, state)
                if complete(engine, operation, stages, begun.run, state, command, going, parts):
                    rescued = moving.note_rescued()
                    if rescued:
                        _warn_of_rescued(f"{begun.kind} {operation} of run {begun.run}", rescued)
                    return ""
            except StoreError:
                raise
            except HoldfastError as error:
                why = f"{error}; its files are as they were before"
        _take_back(workspace, operation, begun, before)
        write(engine, operation, [e.OperationDropped(why)])
        return why


def _refuse_other_root(engine: Engine, planned: e.FilesPlanned) -> None:
    """Files are moved only in the directory that they were planned for: this project's, or any if the store
    is the user's own: a store from elsewhere could name any directory."""
    if not engine.files.is_same(planned.root, planned.mark):
        raise NotTrusted(
            f"its files are those of {planned.root}, which is not this project's workspace, or another "
            "directory than it was; a new `holdfast rewind` of the run decides what becomes of it"
        )


def _is_overtaken(engine: Engine, operation: str, begun: OperationState, history: Sequence[Recorded]) -> bool:
    """Whether the run was executed or moved since: then its files are what came of that."""
    newest = engine.store.operations(run=begun.run, limit=1)
    if newest and newest[0].id != operation:
        return True
    assert begun.planned is not None
    since = (one.event for one in history if one.version > begun.planned.version)
    return begun.kind != "restore" and any(isinstance(one, e.RunClaimed) for one in since)


def _moved(
    engine: Engine,
    operation: str,
    begun: OperationState,
    planned: e.FilesPlanned,
    workspace: Workspace,
    state: RunState,
    before: str,
) -> Moving:
    plan = workspace.plan(planned.to, planned.left, planned.only, keep=planned.keep, theirs=planned.theirs)
    git = None if begun.git_planned is None else repositories.again(workspace, begun.git_planned)
    left = None if begun.git_planned is None else begun.git_planned.left
    stop = operation_files.stopped(workspace, planned.left, state.generation, left) if planned.died else None
    going = Going(workspace, plan, "", planned.version, stop, planned.partial, git, planned.point)
    if begun.kind == "rewind":
        target = operation_files.saved_at(state, points.resolve(engine.store, begun.run, state, begun.to))
        going.note_git(None if target is None else target.git, None if stop else last_git(state.files))
    moving = Moving(engine, operation, going)
    moving.move(begun, before)
    return moving


def _take_back(workspace: Workspace, operation: str, begun: OperationState, before: str) -> None:
    """Files and repository to where they were before it, however far it had come."""
    if begun.git_planned is not None:
        repositories.take_back(workspace, begun.git_planned, operation)
    workspace.apply(workspace.plan(before, workspace.snapshot().id))


def _warn_of_rescued(what: str, rescued: str) -> None:
    logger.warning(
        "%s: what was written meanwhile where it put files is saved: %s brings that back",
        what, quoted(Way("workspace restore", arguments={"snapshot": rescued[:12]})),
    )  # fmt: skip


def _before(workspace: Workspace, planned: e.FilesPlanned) -> str:
    """The files as they were before the operation, with what others have done since it was cut off: an undo
    must not undo that."""
    now = workspace.snapshot().id
    after = workspace.outcome(
        planned.to, planned.left, planned.now, planned.only, keep=planned.keep, theirs=planned.theirs
    )
    ways = [workspace.edits([(begin, now)]) for begin in (planned.now, after)]
    return workspace.edited(planned.now, min(ways, key=len))


def _parts(engine: Engine, begun: OperationState, state: RunState) -> tuple[Reversal, ...]:
    """Tasks and memory, as they are now."""
    if begun.kind == "rewind":
        point = points.resolve(engine.store, begun.run, state, begun.to)
        return parts_of_rewind(engine, begun.run, state, point, begun.by)
    if begun.kind == "undo":
        undone = operation_log.find(engine.store, begun.undoes)
        if undone.opened >= 0:
            did = operation_log.state_of(engine.store, undone.id)
            return parts_of_undo(engine.store, undone, did, begun.by, state, only_here(state, undone.left))
    return ()


def _command(
    engine: Engine, begun: OperationState, state: RunState
) -> c.RewindRun | c.RestoreGeneration | None:
    """The options with which it began."""
    dead = state.owner if state.owner and not is_alive(engine.home, state.owner) else ""
    if begun.kind == "rewind":
        return points.resolve(engine.store, begun.run, state, begun.to).rewind(begun.run, dead, True)
    if begun.kind == "undo":
        undone = operation_log.find(engine.store, begun.undoes)
        if undone.opened >= 0:
            return c.RestoreGeneration(begun.run, undone.left, undone.opened, dead=dead, rerun_once=True)
    return None
