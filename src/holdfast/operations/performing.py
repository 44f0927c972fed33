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
from holdfast.operations import files, journal, points, repositories
from holdfast.operations.files import FilesBack, Going
from holdfast.operations.repositories import GitBack
from holdfast.project import explained
from holdfast.store.port import Append, Decision, NewEvent, Recorded, Source, new_event

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.workspace import Restored, Workspace

_NONE = (Decision(), Decision())


class Performed(NamedTuple):
    """An operation that was done, and what it did beside moving the state."""

    operation: str
    files: FilesBack | None
    git: GitBack | None

    @classmethod
    def of(cls, operation: str, going: Going | None, done: Restored | None = None) -> Performed:
        if going is None:
            return cls(operation, None, None)
        return cls(operation, going.report(done), None if going.git is None else going.git.report())


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
    if going is None or going.is_idle:
        stages: list[e.Event] = [begun]
        if going is not None:
            now = going.plan.now
            stages += [*going.stages, going.applied(now, now)]
        written = complete(engine, operation, stages, begun.run, state, command, going)
        return Performed.of(operation, going) if written else None
    with mark(engine, operation):
        _append(engine, operation, [begun, *going.stages])
        moving = _Moving(engine, operation, going)
        try:
            moving.move()
            written = complete(engine, operation, moving.stages, begun.run, state, command, going)
        except HoldfastError as error:
            moving.drop(str(error))
            raise
        if not written:
            moving.drop("the run has gone on meanwhile")
            return None
        moving.note_rescued()
        return Performed.of(operation, going, moving.files)


class _Moving:
    """Files and repository of one operation, moved, or taken back."""

    def __init__(self, engine: Engine, operation: str, going: Going) -> None:
        self._engine = engine
        self._operation = operation
        self._going = going
        self.files: Restored | None = None
        self._git: e.GitApplied | None = None

    def move(self, begun: OperationState | None = None, before: str = "") -> None:
        """Raises `HoldfastError`. Of an operation that had `begun` and was cut off, `before` is what the
        files were before it."""
        going = self._going
        self.files = going.apply()
        if before:
            self.files = replace(self.files, before=before)
        if going.git is not None:
            self._git = going.git.apply(self._operation)
            if begun is not None and begun.git_planned is not None:
                self._git = msgspec.structs.replace(self._git, before=begun.git_planned.now)

    @property
    def stages(self) -> list[e.Event]:
        done = self.files
        assert done is not None, "moved"
        moved: list[e.Event] = [self._going.applied(done.before, done.after, done.rescued or "")]
        return moved if self._git is None else [*moved, self._git]

    def note_rescued(self) -> str | None:
        """The log names what somebody wrote meanwhile, if there is something."""
        rescued = None if self.files is None else self.files.rescued
        self._going.workspace.rescues.noted(rescued)
        return rescued

    def drop(self, why: str) -> None:
        """Everything back to where it was."""
        if self._git is not None and self._going.git is not None:
            self._going.git.take_back(self._git, self._operation)
        if self.files is not None:
            self._going.take_back(self.files)
        _append(self._engine, self._operation, [e.OperationDropped(why)])


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
        done = command is None or not recorded[0]
        if not done:
            return _NONE
        at = engine.clock.now_us()
        ends: list[e.Event] = [*stages]
        epoch = None
        if command is not None:
            (moved,) = decide(state, msgspec.structs.replace(command, operation=operation))
            assert isinstance(moved, (e.Rewound, e.GenerationRestored))
            left = [] if going is None or going.stop is None else [going.stop]
            found: list[e.Event] = []
            if going is not None and going.point and isinstance(moved, e.Rewound):
                after = next(one.after for one in stages if isinstance(one, e.FilesApplied))
                found = files.came_back(going.workspace, going.point, after, moved.generation)
            events[:] = [new_event(one, at) for one in (*left, moved, *found)]
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
    if state is None or (begun.kind != "restore" and state.version != planned.version):
        why = "it was cut off, and the run has gone on since; its files were left as they are"
        _append(engine, operation, [e.OperationDropped(why)])
        return
    workspace = engine.files.of(planned.root, planned.mark)
    with files.alone(workspace), workspace.contents.hold():
        before = _before(workspace, planned)
        plan = workspace.plan(planned.to, planned.left, planned.only, theirs=planned.theirs)
        git = None if begun.git_planned is None else repositories.again(workspace, begun.git_planned)
        stop = files.stopped(workspace, planned.left, state.generation) if planned.died else None
        going = Going(workspace, plan, "", planned.version, stop, planned.partial, git, planned.point)
        moving = _Moving(engine, operation, going)
        moving.move(begun, before)
        try:
            command = _command(engine, begun, state)
            if complete(engine, operation, moving.stages, begun.run, state, command, going):
                _tell_of_rescued(operation, moving.note_rescued())
                return
            why = "it was cut off, and the run has gone on since"
        except HoldfastError as error:
            why = str(error)
        moving.drop(why)


def _tell_of_rescued(operation: str, rescued: str | None) -> None:
    if rescued:
        logging.getLogger("holdfast").warning(
            "operation %s was cut off, and is finished now; what somebody wrote meanwhile where it put files "
            "is saved: `holdfast workspace restore %s` brings that back", operation, rescued[:12],
        )  # fmt: skip


def _before(workspace: Workspace, planned: e.FilesPlanned) -> str:
    """The files as they were before the operation, with what somebody has done since it was cut off: an undo
    must not take that back."""
    now = workspace.snapshot().id
    after = workspace.outcome(planned.to, planned.left, planned.now, planned.only, theirs=planned.theirs)
    ways = [workspace.edits([(begin, now)]) for begin in (planned.now, after)]
    return workspace.edited(planned.now, min(ways, key=len))


def _command(
    engine: Engine, begun: OperationState, state: RunState
) -> c.RewindRun | c.RestoreGeneration | None:
    """What was asked for, and allowed, when it began."""
    dead = state.owner if state.owner and not is_alive(engine.home, state.owner) else ""
    if begun.kind == "rewind":
        return points.resolve(engine.store, begun.run, state, begun.to).rewind(begun.run, dead, True)
    if begun.kind == "undo":
        undone = journal.find(engine.store, begun.undoes)
        if undone.opened >= 0:
            return c.RestoreGeneration(begun.run, undone.left, undone.opened, dead=dead, rerun_once=True)
    return None
