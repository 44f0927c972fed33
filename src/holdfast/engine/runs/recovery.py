"""Continuing runs that stopped: one by name, or every one that no process executes and that can."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.engine.execution.call import Outcome
from holdfast.engine.outside import steering
from holdfast.engine.outside.unknown_run import missing
from holdfast.engine.ownership.owners import is_alive
from holdfast.engine.ownership.unreleased import is_held
from holdfast.engine.runs import code as codes
from holdfast.engine.runs.claim import Claimed, claim, now, settle_pending
from holdfast.engine.runs.run import Run
from holdfast.errors import CodeClash, CodeNotFound, CrashLoop, InDoubt, RunPaused
from holdfast.kernel.evolve import fold
from holdfast.kernel.state import OPEN
from holdfast.store.port import RunFilter, RunRow
from holdfast.thread_pool import ThreadPool
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from holdfast.engine.engine import AnyWorkflow, Engine
    from holdfast.kernel.events import Code
    from holdfast.kernel.state import RunState


def claim_to_resume(
    engine: Engine,
    run_id: str,
    *,
    take_over: bool,
    keep_files: bool = False,
    known: RunState | None = None,
) -> Claimed:
    """Find the run's code first: a run that cannot be executed is not claimed. `known` is its state at some
    version; what came after that is folded into it."""
    state = now(engine, run_id, known)
    if state is None:
        raise missing(engine.store, run_id)
    if state.files and settle_pending(engine, run_id):
        state = fold(engine.store.history(run_id))
        assert state is not None, "a run that an operation was on"
    if state.status == "completed":
        return Claimed(state)
    doubtful = [step for step in state.in_doubt() if not step.verifiable]
    if doubtful:
        raise InDoubt(run_id, doubtful[0].key, doubtful[0].why)
    workflow = load_code(engine, run_id, state.code)
    claimed = claim(engine, run_id, reopen=True, force=take_over, known=state)
    return claimed._replace(keeps=keep_files, workflow=workflow)


def load_code(engine: Engine, run_id: str, code: Code) -> AnyWorkflow:
    """The run's workflow, from where its project is now. Raises `CodeNotFound`, and `CodeClash` with the
    command that resumes the run in a process of its own."""
    now = engine.location.now(code)
    try:
        return codes.load(now)
    except CodeClash as error:
        way = f"{quoted(Way('resume', run_id))} resumes run {run_id} in a process of its own"
        raise CodeClash(error.workflow, f"{error.why}; {way}") from None
    except CodeNotFound as error:
        gone = gone_path(now)
        if not gone:
            raise
        raise CodeNotFound(error.workflow, _not_there(run_id, code, gone)) from None


def check_code(run_id: str, code: Code) -> None:
    """Raises `CodeClash` if the outcome of an ended run would be of classes of other code in this process."""
    try:
        codes.check(code)
    except CodeClash as error:
        raise CodeClash(
            error.workflow, f"{error.why}; {quoted(Way('show', run_id))} shows the result"
        ) from None


def check_directory(run_id: str, code: Code, now: Code) -> None:
    """Raises `CodeNotFound` if the directory that the run works in is gone: its relative paths would mean
    something else anywhere else."""
    if now.cwd and not Path(now.cwd).is_dir():
        also = f", nor {now.cwd}, where it would be now" if now.cwd != code.cwd else ""
        raise CodeNotFound(
            code.name if code.argv else f"{code.script or code.module}:{code.name}",
            f"its working directory {code.cwd} does not exist{also}; make it again, or say where its project "
            f"is now: {quoted(Way('resume', run_id, {'root': 'DIR'}))}",
        )


def gone_path(code: Code) -> str:
    """The missing part of the code's place: its file, or the directory of its module; empty if both exist."""
    path = "" if code.argv else code.place
    return "" if not path or Path(path).exists() else path


def _not_there(run_id: str, code: Code, gone: str) -> str:
    recorded = code.place
    also = f", nor {gone}, where it would be now" if gone != recorded else ""
    kind = "file" if code.script else "directory"
    return (
        f"the {kind} {recorded} does not exist{also}; restore it, or say where its project is now: "
        f"{quoted(Way('resume', run_id, {'root': 'DIR'}))}"
    )


def ready(engine: Engine) -> list[str]:
    """The runs that no process owns and that can continue, the oldest first; of a family, only its eldest."""
    found = engine.store.ready_runs(engine.clock.now_us())
    return list(
        dict.fromkeys(engine.ancestry.eldest(parent) if parent else run_id for run_id, parent in found)
    )


def orphans(engine: Engine) -> list[str]:
    """The runs that name an owner and are not executed, because it is dead, or is this very process and
    could not release them; the oldest first, and of a family, only its eldest."""
    named = engine.store.owners_named(OPEN)
    others = [owner for owner in named if not (engine.unreleased and engine.owns(owner))]
    living = tuple(owner for owner in others if is_alive(engine.home, owner))
    rows = engine.store.find_runs(RunFilter(orphaned=OPEN, live=("", *living)))
    rows = [row for row in rows if not (engine.owns(row.owner) and _is_held(engine, row))]
    strays = set(engine.store.strays([row.id for row in rows if row.parent]))
    found = [row for row in reversed(rows) if row.id not in strays]
    return list(dict.fromkeys(engine.ancestry.eldest(row.parent) if row.parent else row.id for row in found))


def check_unasked(engine: Engine, run_id: str) -> None:
    """Before a program continues a run of its own accord. One that kills its owners over and over is left
    to a person; one whose owner died before it could pause is paused. Raises `CrashLoop`, `RunPaused`."""
    state = fold(engine.store.history(run_id))
    if state is None:
        return
    if state.stalls >= engine.options.crash_loop_after:
        raise CrashLoop(run_id, state.stalls)
    asked = state.pause
    if asked is not None and steering.pause(engine, run_id, asked.reason, asked.by, 0.0) == "paused":
        raise RunPaused(run_id, asked.reason)


def recover(engine: Engine) -> list[Run[Any]]:
    """Drive them all with bounded concurrency."""

    def drive_one(run_id: str) -> Run[Any]:
        run: Run[Any] = Run(engine, run_id)
        try:
            check_unasked(engine, run_id)
            run = engine.resume(run_id)
            run.rested.wait()
        except Exception as error:  # one run that cannot be read must not keep the others from continuing
            run.finish(Outcome(None, error))
        return run

    if not engine.options.resume:
        return []
    found = [
        run_id for run_id in dict.fromkeys([*orphans(engine), *ready(engine)]) if _goes_on(engine, run_id)
    ]
    if not found:
        return []
    with ThreadPool(min(engine.options.recover_limit, len(found)), "holdfast-recover") as pool:
        return list(pool.map(drive_one, found))


def _goes_on(engine: Engine, run_id: str) -> bool:
    """Whether it is for a program to continue it, and not for a person or for its live owner."""
    row = engine.store.run(run_id)
    if row is None or row.status not in OPEN:
        return False
    return not _is_held(engine, row)


def _is_held(engine: Engine, row: RunRow) -> bool:
    return is_held(engine, row.id, row.owner, row.epoch)
