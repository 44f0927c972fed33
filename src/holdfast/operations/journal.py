"""The journal of operations: what was done to runs, by whom, and whether it can be taken back.

An operation is a stream of its own, written in the transaction that does what it says (decision 0007): a
crash leaves both or neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from holdfast.clock import instant
from holdfast.errors import BadInput, NotFound
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.decide import decide
from holdfast.kernel.operation import KIND, stream_of
from holdfast.kernel.state import RunState
from holdfast.store.port import Append, Decision, NewEvent, OperationRow, Recorded, Source, Store, new_event

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine

_NONE = (Decision(), Decision())


class OperationInfo(msgspec.Struct, frozen=True):
    """An operation as `hf.operations()` and `op log` give it.

    to       the step that a rewind went back to
    undoes   the operation that an undo took back
    status   `done`, or `begun` if it was cut off
    stands   what it did still holds, and `undo` can take it back
    """

    id: str
    kind: str
    run_id: str
    by: str
    to: str
    undoes: str
    status: str
    stands: bool
    at: datetime


def log(store: Store, *, run_id: str | None = None, limit: int | None = None) -> list[OperationInfo]:
    """Operations, the newest first."""
    return [_info(store, row) for row in store.operations(run=run_id, limit=limit)]


def _info(store: Store, row: OperationRow) -> OperationInfo:
    run = store.run(row.run)
    stands = run is not None and run.generation == row.opened
    return OperationInfo(
        row.id, row.kind, row.run, row.by, row.to, row.undoes, row.status, stands, instant(row.begun_at)
    )


def find(store: Store, text: str) -> OperationRow:
    """The operation whose id this is, or the beginning of it."""
    found = store.operations(prefix=text, limit=9) if text else []
    if len(found) == 1:
        return found[0]
    if found:
        exact = [row for row in found if row.id == text]
        if exact:
            return exact[0]
        listed = ", ".join(row.id for row in found[:8])
        raise BadInput(f"{text!r} is the start of several operations: {listed}; type more of it")
    raise NotFound(f"there is no operation {text!r}; `holdfast op log` lists them")


def last_of(store: Store, person: str) -> OperationRow:
    """The last operation of a person, an undo too."""
    found = store.operations(by=person, limit=1)
    if not found:
        raise NotFound(
            f"{person} has done nothing that can be taken back; `holdfast op log` lists all operations"
        )
    return found[0]


def perform(
    engine: Engine,
    begun: e.OperationBegun,
    state: RunState,
    command: c.RewindRun | c.RestoreGeneration,
) -> str | None:
    """Do what `command` says, on the run as `state` has it, and record the operation, in one
    transaction. Returns the operation's id; None if the run has gone on since: then look again."""
    operation = engine.clock.uuid().hex[:12]
    sources = [Source(begun.run, state.version), Source(stream_of(operation))]
    events: list[NewEvent] = []

    def decide_now(recorded: Sequence[Sequence[Recorded]]) -> Sequence[Decision]:
        events.clear()
        if recorded[0]:
            return _NONE
        at = engine.clock.now_us()
        (moved,) = decide(state, msgspec.structs.replace(command, operation=operation))
        assert isinstance(moved, (e.Rewound, e.GenerationRestored))
        events.append(new_event(moved, at))
        stages = (begun, e.StateApplied(state.generation, moved.generation), e.OperationDone())
        return Decision(events, moved.epoch), Decision([new_event(one, at) for one in stages], kind=KIND)

    version = engine.store.command_all(sources, decide_now)[0]
    if not events:
        return None
    written = Append(begun.run, 0, events)
    written.version = version
    engine.tell(written)
    return operation
