"""`replay`: does today's code still do what the history says? No body of a step runs, nothing is written.

The workflow's function is executed as in a resume, with the recorded results, up to the first call that
has none. What it does between its steps, it does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from holdfast.engine import code as codes
from holdfast.engine import step as steps
from holdfast.engine.control import Control
from holdfast.engine.execution import Execution
from holdfast.engine.scope import Scope, current
from holdfast.errors import CodeNotFound, DivergenceError, HoldfastError, RunInterrupted
from holdfast.kernel.identity import Counters
from holdfast.operations.holding import load

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.kernel.commands import Command
    from holdfast.kernel.state import RunState, StepState
    from holdfast.store.port import Append, NewEvent

IN_FLIGHT = ("pending", "running", "waiting", "sleeping", "paused", "needs_attention", "failed")
"""What can still be resumed, and so must match the code that it will be resumed with."""
_RECORDED = frozenset({"completed", "failed"})

Verdict = Literal["matches", "diverges", "unloadable"]


class Replay(msgspec.Struct, frozen=True):
    """What a replay found.

    verdict  `matches`; `diverges`: `why` has both sides; `unloadable`: the code, or what it was called
             with, cannot be loaded
    calls    how many recorded calls the code made again
    reached  the first call that is not recorded; empty if the function ended
    why      what diverges, or the error with which the function ended
    """

    run_id: str
    workflow: str
    verdict: Verdict
    calls: int = 0
    reached: str = ""
    why: str = ""


def replay(engine: Engine, run_id: str) -> Replay:
    """Check the run's live history against the code as it is now. Blocks; not for a running event loop."""
    state = load(engine, run_id)
    name = state.code.name
    alias = None
    try:
        workflow = codes.load(state.code)
        alias = codes.enter(state.code)
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

    def __init__(self, engine: Engine, run_id: str, state: RunState, *, is_async: bool) -> None:
        super().__init__(engine, run_id, state, is_async=is_async)
        self.calls = 0
        self.reached: list[str] = []
        self.error: BaseException | None = None

    def recall(self, key: str, name: str, ordinal: int, digest: str, kind: str = "step") -> StepState | None:
        """What the history has of this call. One that it has no outcome of is where the playback stops."""
        past = super().recall(key, name, ordinal, digest, kind)
        if past is None or past.status not in _RECORDED or past.secret:
            raise self._reach(key)
        self.calls += 1
        return past

    def append(
        self,
        events: Sequence[NewEvent],  # noqa: ARG002
        *,
        durable: bool = True,  # noqa: ARG002
        blobs: Sequence[tuple[str, bytes]] = (),  # noqa: ARG002
    ) -> Append:
        """Whatever is to be written is behind the end of the history."""
        raise self._reach("what follows")

    def transact(
        self,
        make: Callable[[], Sequence[Command]],  # noqa: ARG002
        blobs: Sequence[tuple[str, bytes]] = (),  # noqa: ARG002
    ) -> None:
        raise self._reach("what follows")

    def _reach(self, key: str) -> _Reached:
        self.reached.append(key)
        return _Reached(RunInterrupted(self.id, f"its history ends at {key}"), silent=True)


def _play(
    engine: Engine, run_id: str, state: RunState, workflow: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> _Playback:
    if workflow.is_async:
        import asyncio

        return asyncio.run(_play_async(engine, run_id, state, workflow, args, kwargs))
    playback = _Playback(engine, run_id, state, is_async=False)
    scope = Scope(playback, Counters(), threading.get_ident())
    token = current.set(scope)
    steps.live_runs.add(playback)
    try:
        workflow.fn(*args, **kwargs)
    except BaseException as error:
        _end(playback, error)
    finally:
        steps.live_runs.discard(playback)
        current.reset(token)
    _look_for_more(playback, scope)
    return playback


async def _play_async(
    engine: Engine, run_id: str, state: RunState, workflow: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> _Playback:
    import asyncio

    from holdfast.engine.scope import install_task_factory

    install_task_factory(asyncio.get_running_loop())
    playback = _Playback(engine, run_id, state, is_async=True)
    scope = Scope(playback, Counters(), threading.get_ident())
    token = current.set(scope)
    steps.live_runs.add(playback)
    try:
        await workflow.fn(*args, **kwargs)
    except BaseException as error:
        _end(playback, error)
    finally:
        steps.live_runs.discard(playback)
        current.reset(token)
    _look_for_more(playback, scope)
    return playback


def _end(playback: _Playback, error: BaseException) -> None:
    if isinstance(error, KeyboardInterrupt):
        raise error
    playback.error = error


def _look_for_more(playback: _Playback, scope: Scope) -> None:
    """A function that ended must not have left out a call that the history has."""
    if playback.control is None and not playback.reached:
        try:
            playback.check_all_visited(scope.counters.ordinal)
        except Control:
            pass  # it is in playback.control now


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
