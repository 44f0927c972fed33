"""`replay`: does today's code still do what the history says? No body of a step runs, nothing is written.

The workflow's function is executed as in a resume, with the recorded results, up to the first call that
has none, and so is that of each child run. What it does between its steps, it does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from holdfast.engine.execution.call import Outcome
from holdfast.engine.execution.control import Control
from holdfast.engine.execution.execution import Execution
from holdfast.engine.execution.scope import Scope, current, live_runs
from holdfast.engine.runs import code as codes
from holdfast.engine.runs.recovery import load_code
from holdfast.errors import CodeNotFound, DivergenceError, HoldfastError, RunInterrupted
from holdfast.json_view import View
from holdfast.kernel.identity import Counters
from holdfast.kernel.state import OVER, RESUMABLE
from holdfast.operations.holding import load

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.engine.execution.delivery import Turn
    from holdfast.kernel.commands import Command
    from holdfast.kernel.state import RunState, StepState
    from holdfast.store.port import Append, NewEvent

IN_FLIGHT = RESUMABLE
"""Statuses of runs that can still be resumed, and so must match the code."""
_FOLLOWS = "what follows"
_LOOK_S = 0.05
_SOON_S = 1.0

Verdict = Literal["matches", "diverges", "unloadable"]


class Replay(View, frozen=True):
    """The findings of a replay.

    verdict  `matches`; `diverges`: `why` has both sides; `unloadable`: the code, or what it was called
             with, cannot be loaded
    calls    how many recorded calls the code made again, those of child runs too
    reached  the first call that is not recorded; empty if the function ended
    why      what diverges, in which child run, or the error with which the function ended
    """

    run_id: str
    workflow: str
    verdict: Verdict
    calls: int = 0
    reached: str = ""
    why: str = ""

    JSON: ClassVar = {
        "run": "the run",
        "workflow": "its workflow",
        "verdict": "`matches`, `diverges` or `unloadable`",
        "calls": "how many recorded calls the code made again",
        "reached": "the first call that is not recorded; null if the function ended",
        "why": "both sides of a divergence, why the code cannot be loaded, or the error with which the "
        "function ended",
    }
    JSON_FROM: ClassVar = {"run": "run_id"}
    JSON_NULL: ClassVar = ("reached", "why")


def replay(engine: Engine, run_id: str) -> Replay:
    """Check the run's live history, and those of its child runs, against the code as it is now. Blocks; not
    for a running event loop."""
    state = load(engine, run_id)
    found = _replay(engine, run_id, state)
    for child in (step.child for step in state.steps.values() if step.child):
        if found.verdict != "matches":
            break
        if engine.store.run(child) is not None:  # or it was archived, or its first event is still to come
            its = replay(engine, child)
            found = msgspec.structs.replace(found, calls=found.calls + its.calls)
            if its.verdict != "matches":
                why = f"in child run {child}: {its.why}"
                found = msgspec.structs.replace(found, verdict=its.verdict, reached="", why=why)
    return found


def _replay(engine: Engine, run_id: str, state: RunState) -> Replay:
    name = state.code.name
    alias = None
    try:
        workflow = load_code(engine, run_id, state.code)
        state.code = engine.location.now(state.code)
        alias = codes.enter(state.code, workflow)
        args, kwargs = engine.load_value(state.args, state.args_blob)
    except CodeNotFound as error:
        return Replay(run_id, name, "unloadable", why=error.why)
    except HoldfastError as error:
        return Replay(run_id, name, "unloadable", why=str(error))
    else:
        return _verdict(run_id, name, _play(engine, run_id, state, workflow, args, kwargs))
    finally:
        codes.leave(alias)


class _Reached(Control):
    """The history ends here: for this branch, not for the others."""


class _Playback(Execution):
    """A run of which only the history is played."""

    plays_back = True

    def __init__(self, engine: Engine, run_id: str, state: RunState, *, is_async: bool) -> None:
        super().__init__(engine, run_id, state, is_async=is_async)
        self.calls = 0
        self.reached: list[str] = []
        self.error: BaseException | None = None

    def recall(
        self,
        key: str,
        name: str,
        ordinal: int,
        digest: str,
        kind: str = "step",
        older: Callable[[], Iterable[str]] = tuple,
        arguments: Callable[[], bytes] = bytes,
    ) -> StepState | None:
        """The record of this call, if there is one."""
        past = super().recall(key, name, ordinal, digest, kind, older, arguments)
        self.calls += past is not None and past.status in OVER and not past.secret
        return past

    def reach(self, key: str) -> None:
        """A call without a recorded outcome is where the playback stops: the whole history is delivered."""
        raise self._reach(key)

    def note(self, command: Command, turn: Turn | None = None) -> None:  # noqa: ARG002
        """Nothing is written; an outcome is delivered all the same."""
        if turn is not None:
            self.delivery.place(turn)

    def make_append(
        self,
        events: Sequence[NewEvent],  # noqa: ARG002
        *,
        durable: bool = True,  # noqa: ARG002
        blobs: Sequence[tuple[str, bytes]] = (),  # noqa: ARG002
        ends: str = "",  # noqa: ARG002
        turn: Turn | None = None,  # noqa: ARG002
    ) -> Append:
        """Stop at anything that would be written: it is behind the end of the history."""
        raise self._reach(_FOLLOWS)

    def transact(
        self,
        make: Callable[[], Sequence[Command]],  # noqa: ARG002
        blobs: Sequence[tuple[str, bytes]] = (),  # noqa: ARG002
        *,
        obey: bool = False,  # noqa: ARG002
    ) -> None:
        raise self._reach(_FOLLOWS)

    def task_ended(self, counters: Counters | None, task: Any) -> None:
        """A branch that came to its own end must not have left out a call either."""
        super().task_ended(counters, task)
        if counters is None or task.cancelled() or task.exception() is not None:
            return
        ended = task.result()
        if not (isinstance(ended, Outcome) and ended.error is not None):
            self._look_for_more(lambda: self.check_all_visited(counters))

    def look_for_more(self, counters: Counters) -> None:
        """A function that ended must not have left out a call that the history has: neither of its own nor
        of a branch that is gone."""
        if self.reached:
            return
        if self.error is None:
            self._look_for_more(lambda: self.check_all_visited(counters))
        self._look_for_more(lambda: self.check_history_left(self.error))

    def _look_for_more(self, check: Callable[[], None]) -> None:
        try:
            if self.control is None:
                check()
        except Control:
            pass  # it is in self.control now

    def _reach(self, key: str) -> _Reached:
        self.reached.append(key)
        return _Reached(RunInterrupted(self.id, f"its history ends at {key}"), silent=True)


def _play(
    engine: Engine, run_id: str, state: RunState, workflow: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> _Playback:
    if workflow.is_async:
        return asyncio.run(_play_async(engine, run_id, state, workflow, args, kwargs))
    playback = _Playback(engine, run_id, state, is_async=False)
    scope = Scope(playback, Counters(), threading.get_ident())
    token = current.set(scope)
    live_runs.add(playback)
    try:
        workflow.fn(*args, **kwargs)
    except BaseException as error:
        _end(playback, error)
    finally:
        live_runs.discard(playback)
        current.reset(token)
    playback.look_for_more(scope.counters)
    return playback


async def _play_async(
    engine: Engine, run_id: str, state: RunState, workflow: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> _Playback:
    from holdfast.engine.execution.task_factory import NumberedTask, install_task_factory

    install_task_factory(asyncio.get_running_loop())
    playback = _Playback(engine, run_id, state, is_async=True)
    scope = Scope(playback, Counters(), threading.get_ident())
    live_runs.add(playback)
    playing = NumberedTask(run_id, 0, _play_function(playback, scope, workflow, args, kwargs))
    try:
        await _until_over(playback, playing)
    finally:
        live_runs.discard(playback)
    playback.look_for_more(scope.counters)
    return playback


async def _play_function(
    playback: _Playback, scope: Scope, workflow: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> None:
    assert playback.tasks_delivery is not None
    current.set(scope)
    try:
        playback.tasks_delivery.begin()
        await workflow.fn(*args, **kwargs)
    except BaseException as error:
        _end(playback, error)


async def _until_over(playback: _Playback, playing: asyncio.Task[None]) -> None:
    """Until the function has ended, or waits for what is not in the history."""
    delivery = playback.tasks_delivery
    assert delivery is not None
    while not playing.done() and delivery.replaying:
        await asyncio.wait([playing], timeout=_LOOK_S)
    await asyncio.wait([playing], timeout=_SOON_S)
    if not playing.done():
        if not playback.reached:
            playback.reached.append(_FOLLOWS)
        playing.cancel()
        await asyncio.wait([playing], timeout=_SOON_S)


def _end(playback: _Playback, error: BaseException) -> None:
    if isinstance(error, KeyboardInterrupt):
        raise error
    playback.error = error


def _verdict(run_id: str, workflow: str, playback: _Playback) -> Replay:
    control, error = playback.control, playback.error
    if control is not None:
        return Replay(run_id, workflow, "diverges", playback.calls, why=_both_sides(control.error))
    if playback.reached:
        return Replay(run_id, workflow, "matches", playback.calls, playback.reached[0])
    why = f"{type(error).__name__}: {error}" if error is not None else ""
    return Replay(run_id, workflow, "matches", playback.calls, why=why)


def _both_sides(error: HoldfastError) -> str:
    if isinstance(error, DivergenceError):
        return f"recorded is {error.recorded}, the code calls {error.called}"
    return str(error)
