"""Going on with runs that stopped: one by name, or every orphan."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from holdfast.engine import code as codes
from holdfast.engine.claim import Claimed, claim
from holdfast.engine.perform import Outcome
from holdfast.engine.run import Run
from holdfast.errors import CrashLoop, InDoubt, RunNotFound
from holdfast.kernel.evolve import fold

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine


def claim_to_resume(engine: Engine, run_id: str, found: list[Any], *, take_over: bool) -> Claimed:
    """Find the run's code first: a run that cannot be executed is not claimed."""
    state = fold(engine.store.history(run_id))
    if state is None:
        raise RunNotFound(run_id, engine.nearest(run_id))
    if state.status == "completed":
        return Claimed(state)
    doubtful = [step for step in state.in_doubt() if not step.verifiable]
    if doubtful:
        raise InDoubt(run_id, doubtful[0].key, doubtful[0].why)
    found.append(codes.load(state.code))
    return claim(engine, run_id, reopen=True, force=take_over)


def recover(engine: Engine) -> list[Run[Any]]:
    """Drive all orphans with bounded concurrency; one that crashes its owners over and over is left."""
    orphans = [
        row for row in engine.store.runs(status=("pending", "running", "sleeping"))
        if not row.parent and engine.is_interrupted(row)
    ]  # fmt: skip

    def drive_one(run_id: str) -> Run[Any]:
        run: Run[Any] = Run(engine, run_id)
        try:
            state = fold(engine.store.history(run_id))
            if state is not None and state.stalls >= engine.options.crash_loop_after:
                raise CrashLoop(run_id, state.stalls)
            run = engine.resume(run_id)
            run._ended.wait()
        except Exception as error:  # one run that cannot be read must not keep the others from going on
            run.finish(Outcome(None, error))
        return run

    if not orphans:
        return []
    with ThreadPoolExecutor(min(engine.options.recover_limit, len(orphans)), "holdfast-recover") as pool:
        return list(pool.map(drive_one, [row.id for row in orphans]))
