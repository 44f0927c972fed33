"""The process of a command step: started under a supervisor, ended with the run, waited for."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.engine.execution.call import Call
from holdfast.engine.execution.command_output import CommandOutput, OnLine
from holdfast.engine.execution.perform import doubt
from holdfast.engine.execution.thread_driver import look_for_takeover
from holdfast.engine.ownership.dead_owner import command_locks
from holdfast.engine.primitives.command_line import CommandLine
from holdfast.engine.processes.process import NO_OUTPUT, Exit, NoThread, Process, SupervisorLost
from holdfast.engine.processes.tree_lock import drop_lock, tree_is_dead
from holdfast.errors import StepTimeout, StoreError
from holdfast.project import explained
from holdfast.redaction import revealed

if TYPE_CHECKING:
    from holdfast.engine.execution.execution import Execution


_GRACE_S = 2.0
_HURRY_S = 0.4
"""Between SIGTERM and SIGKILL: when a run stops, and when it is cancelled."""
_FROM_OUTSIDE = ("signalled", "supervisor_lost")


def execute(
    call: Call, line: CommandLine, timeout_s: float | None, output_limit: int, on_line: OnLine | None
) -> Exit:
    """Start the program, keep its output, and wait for its whole tree. Raises what stops the run, if that
    ended the program; and `StepTimeout`."""
    run = call.execution
    argv = tuple(map(revealed, line.argv))
    added = {name: revealed(value) for name, value in line.env.items()}
    locks = command_locks(run.engine.home, run.id)
    # The epoch: what a stale owner still has to clear away is never the lock of the next one.
    lock = locks / f"{run.epoch}-{hashlib.sha256(call.key.encode()).hexdigest()[:16]}.lock"
    output = CommandOutput(call, output_limit, on_line)
    started: list[Process] = []
    try:
        with explained(locks):
            locks.mkdir(mode=0o700, parents=True, exist_ok=True)
        where = _directory(call, line.cwd)
        around = {} if call.guard is None else call.guard.environment
        process = Process.start(
            argv,
            cwd=where,
            # Some programs work where PWD says: in a worker, or in a copy, that would be another directory.
            env={**os.environ, "PWD": where, **around, **added},
            lock_path=lock,
            stdin=None if line.stdin is None else revealed(line.stdin).encode(),
            on_output=output.take,
            on_quiet=output.flush,
            on_start=started.append,
            redactor=run.engine.redactor,
        )
        end = _wait(call, process, timeout_s)
    except SupervisorLost:
        end = Exit(-signal.SIGKILL, "supervisor_lost", 0.0, NO_OUTPUT, NO_OUTPUT)
    except NoThread as error:
        why = f"no thread for command {call.key}: {error}"
        raise run.stop(doubt(call, f"was ended: {why}")) if _is_once(call) else run.interrupt(why) from None
    except BaseException as error:
        if started:
            _end(started[0])
        if isinstance(error, StoreError):  # its lock cannot be had: no failure of the command
            raise run.lose(error) from None
        raise
    finally:
        if all(process.ended for process in started):
            output.close()
        _clear(lock)
    from_outside = end.reason in _FROM_OUTSIDE
    if from_outside:  # who takes a run over ends its commands: then that is what stops this run
        look_for_takeover(run)
    if run.control is not None:
        # It was ended because the run stops: what it had done by then is not known.
        raise run.stop(doubt(call, "was cancelled while it ran")) if _is_once(call) else run.control
    if from_outside and _is_once(call):
        raise run.stop(doubt(call, "was ended from outside"))
    output.end_lines()
    return end


def _directory(call: Call, cwd: str | None) -> str:
    """Where it runs; an isolated one in the same place of its copy."""
    where = directory_of(call.execution, cwd)
    return where if call.guard is None else call.guard.inside(where)


def directory_of(run: Execution, cwd: str | None) -> str:
    """Where a command of a run works that names `cwd`."""
    return cwd or run.state.code.cwd or os.getcwd()


def _clear(lock: Path) -> None:
    """Remove the lock if its tree is dead; if that is not known, the next claim of the run looks again."""
    try:
        if tree_is_dead(lock):
            drop_lock(lock)
    except StoreError:
        pass


def _wait(call: Call, process: Process, timeout_s: float | None) -> Exit:
    run = call.execution
    limit = _limit(call, timeout_s)

    def end() -> None:
        hurry = run.control is not None and run.control.at_once
        process.terminate(_HURRY_S if hurry else _GRACE_S)

    run.on_stop.append(end)
    try:
        if run.control is not None:
            end()
        return process.wait(limit)
    except TimeoutError:
        if process.ended:
            raise  # it is the program's own, from `on_output`
        raise StepTimeout(call.key, limit or 0.0) from None
    finally:
        run.on_stop.remove(end)


def _end(process: Process) -> None:
    """End the whole tree and wait for it. An interrupt of that kills the tree, and waits too."""
    process.terminate()
    try:
        process.join()
    except BaseException:
        process.kill()
        process.join()
        raise


def _is_once(call: Call) -> bool:
    return call.spec.effect == "once"


def _limit(call: Call, timeout_s: float | None) -> float | None:
    """Seconds that the command has, by its own timeout and the deadline of the block it is in."""
    if not call.deadline:
        return timeout_s
    left = call.deadline.left_s(call.execution.engine.clock)
    return left if timeout_s is None else min(timeout_s, left)
