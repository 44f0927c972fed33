"""Doing an operation: files and state as one, whatever happens in between (decisions 0007 and 0009).

    mark ─▶ OperationBegun, FilesPlanned ─▶ the files ─▶ Rewound, FilesApplied, OperationDone ─▶ unmark

Without files it is the last transaction alone. A mark that nobody holds is of an operation that was cut off:
it is finished by whoever opens the store next. Doing it twice is harmless, because a path that is as it
should be is not touched.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.engine.ownership import is_alive
from holdfast.errors import HoldfastError
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.decide import decide
from holdfast.kernel.evolve import fold
from holdfast.kernel.operation import KIND, OperationState, stream_of
from holdfast.kernel.operation import fold as fold_operation
from holdfast.kernel.state import RunState
from holdfast.operations import files, journal
from holdfast.operations.files import FilesBack, Going
from holdfast.project import explained
from holdfast.store.port import Append, Decision, NewEvent, Recorded, Source, new_event

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.workspace import Restored

_NONE = (Decision(), Decision())


class Performed(NamedTuple):
    operation: str
    files: FilesBack | None


def perform(
    engine: Engine,
    begun: e.OperationBegun,
    state: RunState,
    command: c.RewindRun | c.RestoreGeneration | None,
    going: Going | None = None,
) -> Performed | None:
    """Do what `command` says, on the run as `state` has it, and record the operation, in one transaction;
    before that, put the files back. None if the run has gone on since: then look again, and the files are as
    they were."""
    operation = engine.clock.uuid().hex[:12]
    if going is None or not going.plan.actions:
        written = complete(engine, operation, [begun], begun.run, state, command, going)
        report = None if going is None else going.report()
        return Performed(operation, report) if written else None
    with mark(engine, operation):
        _append(engine, operation, [begun, going.planned])
        try:
            done = going.apply()
        except HoldfastError as error:
            _append(engine, operation, [e.OperationDropped(str(error))])
            raise
        moved = files.applied(str(going.workspace.root), done)
        try:
            written = complete(engine, operation, [moved], begun.run, state, command, going)
        except HoldfastError as error:
            _drop(engine, operation, going, done, str(error))
            raise
        if not written:
            _drop(engine, operation, going, done, "the run has gone on meanwhile")
            return None
        return Performed(operation, going.report(done))


def complete(
    engine: Engine,
    operation: str,
    stages: Sequence[e.Event],
    run_id: str,
    state: RunState,
    command: c.RewindRun | c.RestoreGeneration | None,
    going: Going | None,
) -> bool:
    """The last transaction of an operation; False if the run has gone on since `state`."""
    events: list[NewEvent] = []
    sources = [Source(run_id, state.version), Source(stream_of(operation))]
    done = False

    def decide_now(recorded: Sequence[Sequence[Recorded]]) -> Sequence[Decision]:
        nonlocal done
        events.clear()
        done = not recorded[0]
        if not done:
            return _NONE
        at = engine.clock.now_us()
        ends: list[e.Event] = [*stages]
        epoch = None
        if command is not None:
            (moved,) = decide(state, msgspec.structs.replace(command, operation=operation))
            assert isinstance(moved, (e.Rewound, e.GenerationRestored))
            left = [] if going is None or going.stop is None else [going.stop]
            events[:] = [new_event(one, at) for one in (*left, moved)]
            ends.append(e.StateApplied(state.generation, moved.generation))
            epoch = moved.epoch
        ends.append(e.OperationDone())
        return Decision(events, epoch), Decision([new_event(one, at) for one in ends], kind=KIND)

    version = engine.store.command_all(sources, decide_now)[0]
    if done and events:
        written = Append(run_id, 0, events)
        written.version = version
        engine.tell(written)
    return done


def _append(engine: Engine, operation: str, stages: Sequence[e.Event]) -> None:
    """Write stages of the operation by themselves."""

    def decide_now(_: Sequence[Sequence[Recorded]]) -> Sequence[Decision]:
        at = engine.clock.now_us()
        return (Decision([new_event(one, at) for one in stages], kind=KIND),)

    engine.store.command_all([Source(stream_of(operation))], decide_now)


def _drop(engine: Engine, operation: str, going: Going, done: Restored, why: str) -> None:
    """The state cannot follow the files: they go back to where they were."""
    going.take_back(done)
    _append(engine, operation, [e.OperationDropped(why)])


# The mark of an operation under way: locked by whoever does it. One that nobody holds was cut off.


def marks(home: Path) -> Path:
    return home / "operations"


@contextmanager
def mark(engine: Engine, operation: str) -> Iterator[None]:
    directory = marks(engine.home)
    with explained(directory):
        directory.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(directory / operation, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
        (directory / operation).unlink(missing_ok=True)
    except HoldfastError:  # anything else leaves the mark: whoever comes next looks at it
        (directory / operation).unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)


def recover(engine: Engine) -> None:
    """Finish the operations that were cut off in the middle; what cannot be finished is taken back, and what
    can be neither waits until it can."""
    try:
        paths = sorted(marks(engine.home).iterdir())
    except OSError:
        return
    for path in paths:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _finish(engine, path.name)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            continue  # somebody is doing it
        except HoldfastError as error:
            log = logging.getLogger("holdfast")
            log.warning("operation %s was cut off and cannot be finished yet: %s", path.name, error)
        finally:
            os.close(fd)


def _finish(engine: Engine, operation: str) -> None:
    begun = fold_operation(engine.store.load(stream_of(operation)))
    if begun is None or begun.status != "begun" or begun.planned is None:
        return
    planned = begun.planned
    state = fold(engine.store.history(begun.run))
    workspace = engine.files.of(planned.root)
    with workspace.contents.hold():
        plan = workspace.plan(planned.to, planned.left, planned.only, theirs=planned.theirs)
        going = Going(workspace, plan, "", planned.version, None, planned.partial)
        done = going.apply()
        done = replace(done, before=planned.now)
        command = None if state is None else _command(engine, begun, state)
        try:
            moved = [files.applied(planned.root, done)]
            unmoved = state is not None and state.version == planned.version
            if state and unmoved and complete(engine, operation, moved, begun.run, state, command, None):
                return
            why = "it was cut off, and the run has gone on since"
        except HoldfastError as error:
            why = str(error)
        _drop(engine, operation, going, done, why)


def _command(
    engine: Engine, begun: OperationState, state: RunState
) -> c.RewindRun | c.RestoreGeneration | None:
    """What was asked for, and allowed, when it began."""
    dead = state.owner if state.owner and not is_alive(engine.home, state.owner) else ""
    if begun.kind == "rewind":
        return c.RewindRun(begun.run, begun.to, dead=dead, rerun_once=True)
    if begun.kind == "undo":
        undone = journal.find(engine.store, begun.undoes)
        if undone.opened >= 0:
            return c.RestoreGeneration(begun.run, undone.left, undone.opened, dead=dead, rerun_once=True)
    return None
