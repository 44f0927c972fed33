"""How a run ends: what the end of its function means for the log, and the outcome of a run that has ended.

`conclude` does no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.engine.execution.call import Outcome
from holdfast.engine.execution.control import Control
from holdfast.engine.execution.execution import Execution
from holdfast.engine.execution.parking import Parked
from holdfast.engine.execution.scope import Scope
from holdfast.engine.runs import code as codes
from holdfast.errors import CodeClash, CodeNotFound, NotStorable, RunCancelled
from holdfast.kernel import commands as c
from holdfast.kernel.failure import as_recorded, rebuild, steps_behind
from holdfast.kernel.state import RunState

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine


class Ending(NamedTuple):
    """The end of a run: the command to record, and the outcome for `result()`."""

    commands: Sequence[c.Command]
    outcome: Outcome
    blobs: Sequence[tuple[str, bytes]] = ()
    final: bool = False
    """The run ends or is halted with this: if it cannot be written, it is not."""

    @property
    def cancel(self) -> c.CancelRun | None:
        """The cancel that ends it, if one does."""
        return next((one for one in self.commands if isinstance(one, c.CancelRun)), None)

    def unwritten(self, error: BaseException) -> Outcome:
        """The outcome when writing failed. What stopped a run says more than that its release failed."""
        return Outcome(None, error if self.final else self.outcome.error or error)


def conclude(execution: Execution, scope: Scope, outcome: Outcome) -> Ending:
    """The end that follows from this return value or exception."""
    error = outcome.error
    if execution.control is None and (error is None or isinstance(error, Exception)):
        try:
            if error is None:
                execution.check_all_visited(scope.counters)
            execution.check_history_left(error)
        except Control:
            pass  # it is in execution.control now
    control = execution.control or (error if isinstance(error, Control) else None)
    release = c.ReleaseRun(execution.id, execution.engine.owner_id)
    lost = None if control is None else execution.forget_lost()
    if isinstance(control, Parked) and lost is None:
        return Ending((), Outcome(None, control))
    if control is not None:
        commands = control.commands if lost is None else ()
        final = any(isinstance(one, (c.CancelRun, c.PauseRun, c.AttendRun)) for one in control.commands)
        raised = control.error if lost is None or not final else lost
        return Ending(() if control.silent else (*commands, release), Outcome(None, raised), final=final)
    if error is None:
        try:
            where = f"the result of workflow {execution.state.code.name}"
            value, blob, blobs = execution.engine.store_value(outcome.value, where)
            return Ending((c.CompleteRun(value, blob),), outcome, blobs, final=True)
        except NotStorable as not_storable:
            error = not_storable
    if not isinstance(error, Exception):
        return Ending((release,), Outcome(None, execution.interrupted(error).error))
    failed = steps_behind(error)
    failure, error = as_recorded(error, execution.engine.redactor)
    return Ending((c.FailRun(failure, failed),), Outcome(None, error), final=True)


def ended(engine: Engine, run_id: str, state: RunState) -> Outcome:
    """The outcome of a run that has ended before. If it is of a class of the run's script, that is loaded."""
    from holdfast.engine.runs.recovery import check_code, load_code

    recorded, state.code = state.code, engine.location.now(state.code)
    try:
        if _names_classes(state):
            check_code(run_id, state.code)
        return _ended(engine, run_id, state)
    except CodeClash:
        raise
    except CodeNotFound:
        if not state.code.script:
            raise
        load_code(engine, run_id, recorded)
        return _ended(engine, run_id, state)


def failed_at(state: RunState) -> int:
    """When a run failed whose error is noted as a recorded one; 0 for every other run. The error of a child
    run is raised inside its parent."""
    return state.ended_at if state.status == "failed" and not state.parent else 0


def _names_classes(state: RunState) -> bool:
    """Whether the outcome may be of a class that a module of the run's code has."""
    if state.error is not None:
        return not state.error.type.startswith("builtins:")
    return bool(state.blob) or b'"$' in bytes(state.result)


def _ended(engine: Engine, run_id: str, state: RunState) -> Outcome:
    alias = codes.enter(state.code)
    try:
        if state.status == "completed":
            return Outcome(engine.load_value(state.result, state.blob))
        if state.status == "failed":
            assert state.error is not None
            return Outcome(None, rebuild(state.error))
        return Outcome(None, RunCancelled(run_id, state.reason))
    finally:
        codes.leave(alias)
