"""Doing an operation: files and state as one, whatever happens in between (decisions 0007 and 0009).

    mark ─▶ OperationBegun, FilesPlanned ─▶ the files ─▶ Rewound, FilesApplied, OperationDone ─▶ unmark
                                                         (and the parts: tasks, memory)
                                                 └────▶ the files back ─▶ OperationDropped ─▶ unmark

Without files it is the last transaction alone. Tasks and memory are parts of that transaction (`reversal`).
The log names an end only when the files are there already, and the mark (the operation's lock file) goes
only after that. So whatever cuts it off, an end in the log is
true of the files, and without one the mark stays until `cut_off` finishes the operation. An error of the
store is such a cut, and nothing is rolled back: what it was to write may be in the log all the same
(`StoreInDoubt`), or no other end can be written either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.engine.ownership.owners import bury
from holdfast.errors import HoldfastError, StoreError, StoreInDoubt, with_more
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.decide import decide
from holdfast.kernel.operation import KIND, OperationState, stream_of
from holdfast.kernel.state import RunState
from holdfast.operations import operation_files, operation_locks
from holdfast.operations.operation_files import FilesBack, Going
from holdfast.operations.repositories import GitBack
from holdfast.operations.reversal import Reversal, decide_parts, part_sources
from holdfast.store.port import NO_EVENTS, Append, Decision, NewEvent, Recorded, Source, new_event

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.workspace.workspace import Restored


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
    parts: Sequence[Reversal] = (),
) -> Performed | None:
    """Do what `command` and the parts say, on the run as `state` has it, and record the operation, in one
    transaction; before that, restore the files. None if the run has continued since, or the plan of a part no
    longer holds: then look again; the files are as they were."""
    operation = engine.clock.uuid().hex[:12]
    if going is None or going.is_idle:
        stages: list[e.Event] = [begun]
        if going is not None:
            now = going.plan.now
            stages += [*going.stages, going.applied(now, now)]
        written = complete(engine, operation, stages, begun.run, state, command, going, parts)
        return Performed.of(operation, going) if written else None
    with operation_locks.made(engine.home, operation) as mark:
        try:
            write(engine, operation, [begun, *going.stages])
        except StoreInDoubt as error:
            raise unfinished(error, operation, begun) from error
        except HoldfastError:
            mark.remove()
            raise
        moving = Moving(engine, operation, going)
        try:
            written = _carry_out(moving, begun.run, state, command, parts)
        except HoldfastError as error:
            if moving.is_dropped:
                mark.remove()
                raise
            raise unfinished(error, operation, begun) from error
        mark.remove()
        if not written:
            return None
        moving.note_rescued()
        return Performed.of(operation, going, moving.files)


def perform_parts(engine: Engine, begun: e.OperationBegun, parts: Sequence[Reversal]) -> str | None:
    """An operation on no run, in one transaction → its id; None if the plan of a part no longer holds."""
    operation = engine.clock.uuid().hex[:12]
    done = False

    def decide_now(recorded: Sequence[Sequence[Recorded]]) -> Sequence[Decision]:
        nonlocal done
        at = engine.clock.now_us()
        decided = decide_parts(parts, recorded[1:], operation, at)
        done = decided is not None
        if decided is None:
            return [NO_EVENTS] * len(recorded)
        events = [new_event(one, at) for one in (begun, *decided.stages, e.OperationDone())]
        return [Decision(KIND, events), *decided.decisions]

    engine.store.command_all([Source(stream_of(operation)), *part_sources(parts)], decide_now)
    return operation if done else None


def _carry_out(
    moving: Moving,
    run_id: str,
    state: RunState,
    command: c.RewindRun | c.RestoreGeneration | None,
    parts: Sequence[Reversal],
) -> bool:
    """Move and record it, or undo the move and record that: then False, or the error that hindered it."""
    try:
        moving.move()
        written = complete(
            moving.engine, moving.operation, moving.stages, run_id, state, command, moving.going, parts
        )
    except StoreError:
        raise
    except HoldfastError as error:
        moving.drop(str(error))
        raise
    if not written:
        moving.drop("the run has continued meanwhile, or a task or the memory was changed")
    return written


def unfinished(
    error: HoldfastError, operation: str, begun: e.OperationBegun | OperationState
) -> HoldfastError:
    """The same error, for an operation that it leaves without an end in the log."""
    return with_more(
        error,
        f"the outcome of {begun.kind} {operation} of run {begun.run} is not recorded, so its files stay as "
        "they are: fix the cause; the next command that opens the store or resumes the run finishes it or "
        "rolls it back",
    )


class Moving:
    """Files and repository of one operation, moved, or moved back."""

    def __init__(self, engine: Engine, operation: str, going: Going) -> None:
        self.engine = engine
        self.operation = operation
        self.going = going
        self.files: Restored | None = None
        self._git: e.GitApplied | None = None
        self.is_dropped = False

    def move(self, begun: OperationState | None = None, before: str = "") -> None:
        """Raises `HoldfastError`. Of an operation that had `begun` and was cut off, `before` is what the
        files were before it."""
        going = self.going
        self.files = going.apply()
        if before:
            self.files = replace(self.files, before=before)
        if going.git is not None:
            self._git = going.git.apply(self.operation)
            if begun is not None and begun.git_planned is not None:
                self._git = msgspec.structs.replace(self._git, before=begun.git_planned.now)

    @property
    def stages(self) -> list[e.Event]:
        done = self.files
        assert done is not None, "moved"
        moved: list[e.Event] = [self.going.applied(done.before, done.after, done.rescued or "")]
        return moved if self._git is None else [*moved, self._git]

    def note_rescued(self) -> str | None:
        """The log names what others wrote meanwhile, if there is something."""
        rescued = None if self.files is None else self.files.rescued
        self.going.workspace.rescues.noted(rescued)
        return rescued

    def drop(self, why: str) -> None:
        """Restore everything, then record that."""
        if self._git is not None and self.going.git is not None:
            self.going.git.take_back(self._git, self.operation)
        if self.files is not None:
            self.going.take_back(self.files)
        write(self.engine, self.operation, [e.OperationDropped(why)])
        self.is_dropped = True


def complete(
    engine: Engine,
    operation: str,
    stages: Sequence[e.Event],
    run_id: str,
    state: RunState,
    command: c.RewindRun | c.RestoreGeneration | None,
    going: Going | None,
    parts: Sequence[Reversal] = (),
) -> bool:
    """The last transaction of an operation; False if the run has continued since `state`, or the plan of a
    part no longer holds."""
    events: list[NewEvent] = []
    sources = [Source(run_id, state.version), Source(stream_of(operation))]
    done = False

    def decide_now(recorded: Sequence[Sequence[Recorded]]) -> Sequence[Decision]:
        nonlocal done
        events.clear()
        at = engine.clock.now_us()
        decided = decide_parts(parts, recorded[2:], operation, at)
        done = decided is not None and (command is None or not recorded[0])
        if not done or decided is None:
            return [NO_EVENTS] * len(recorded)
        ends: list[e.Event] = [*stages, *decided.stages]
        epoch = None
        if command is not None:
            (moved,) = decide(state, msgspec.structs.replace(command, operation=operation))
            assert isinstance(moved, (e.Rewound, e.GenerationRestored))
            left = [] if going is None or going.stop is None else [going.stop]
            found: list[e.Event] = []
            if going is not None and going.point and isinstance(moved, e.Rewound):
                after = next(one.after for one in stages if isinstance(one, e.FilesApplied))
                git = next((one.after for one in stages if isinstance(one, e.GitApplied)), None)
                found = operation_files.came_back(going, after, moved.generation, git)
            events[:] = [new_event(one, at) for one in (*left, moved, *found)]
            ends.append(e.StateApplied(state.generation, moved.generation))
            epoch = moved.epoch
        ends.append(e.OperationDone())
        own = Decision(KIND, [new_event(one, at) for one in ends])
        return [Decision("run", events, epoch), own, *decided.decisions]

    version = engine.store.command_all([*sources, *part_sources(parts)], decide_now)[0]
    if done and events:
        written = Append(run_id, 0, events)
        written.version = version
        engine.report(written)
    if done and command is not None and command.dead:
        bury(engine.home, engine.store, command.dead)
    return done


def write(engine: Engine, operation: str, stages: Sequence[e.Event]) -> None:
    """Write stages of the operation by themselves."""

    def decide_now(_: Sequence[Sequence[Recorded]]) -> Sequence[Decision]:
        at = engine.clock.now_us()
        return (Decision(KIND, [new_event(one, at) for one in stages]),)

    engine.store.command_all([Source(stream_of(operation))], decide_now)
