"""The quota of saved files: which runs give up their snapshots when there is no room.

What is given up cannot be had again, so a quota takes the oldest, and never the last way back: the newest run
of a workspace keeps its files however much they take.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from holdfast.errors import HoldfastError, Refused
from holdfast.json_view import View
from holdfast.kernel import events as e
from holdfast.kernel.evolve import fold
from holdfast.kernel.state import ENDED
from holdfast.operations.deleting import make_final
from holdfast.operations.disk_usage import counted_bytes, named, sweep, unneeded
from holdfast.sizes import amount
from holdfast.store.port import Decision, Recorded, new_event

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.store.port import RunRow, Store


class Collected(View, frozen=True):
    """The result of `gc`, done or planned.

    removed    how many contents were removed, and `freed` how many bytes
    forgotten  runs that have ended whose snapshots had to go because of the quota
    damaged    what could not be read, and was left
    over       how many bytes are over the quota still: what is left may not go
    final      how many deletions were made final: `undo` can no longer bring back what they deleted
    unneeded   in a dry run, how many contents no snapshot needs; then nothing is removed, and `forgotten` are
               the runs that may go, the oldest first, until the rest fits. Else None
    """

    removed: int
    freed: int
    forgotten: tuple[str, ...]
    damaged: tuple[str, ...]
    over: int = 0
    unneeded: int | None = None
    final: int = 0

    JSON: ClassVar = {
        "removed": "how many contents were removed; 0 with `--dry-run`",
        "freed": "how many bytes that freed; 0 with `--dry-run`",
        "forgotten": "ended runs whose snapshots went because of the quota; with `--dry-run`, those that "
        "would, the oldest first, until the rest fits",
        "damaged": "what could not be read, and was left",
        "over": "how many bytes are over the quota",
        "final": "how many deletions were made final, or with `--dry-run` would be: `undo` no longer brings "
        "back what they deleted",
        "unneeded": "with `--dry-run`: how many contents no snapshot needs; else null",
    }


def preview(engine: Engine, quota: int = 0) -> Collected:
    """The plan of `collect`. Writes nothing."""
    over = max(counted_bytes(engine) - quota, 0) if quota else 0
    forgotten = tuple(expendable(engine)) if over else ()
    return Collected(0, 0, forgotten, (), over, unneeded(engine), len(engine.store.deletions()))


def collect(engine: Engine, quota: int = 0) -> Collected:
    """Make deletions final, and remove what `sweep` does. Beyond the quota, the snapshots of `expendable`
    runs go too, the oldest first: those runs can no longer be rewound with their files."""
    forgotten: list[str] = []
    final = make_final(engine)
    swept = sweep(engine)
    removed, freed = swept.removed, swept.freed_bytes
    while quota and counted_bytes(engine) > quota:
        more = [run_id for run_id in expendable(engine)[: max(1, len(forgotten))] if _forget(engine, run_id)]
        if not more:
            break
        forgotten += more
        swept = sweep(engine)
        removed, freed = removed + swept.removed, freed + swept.freed_bytes
    over = max(counted_bytes(engine) - quota, 0) if quota else 0
    return Collected(removed, freed, tuple(forgotten), swept.damaged, over, final=final)


def _forget(engine: Engine, run_id: str) -> bool:
    """Say so first: what is not named any more is removed next. False for a run that continues again: it is
    left alone."""
    forgotten = False

    def decide(recorded: Sequence[Recorded]) -> Decision:
        nonlocal forgotten
        state = fold(recorded)
        forgotten = state is not None and state.ended
        return Decision("run", [new_event(e.FilesForgotten(), engine.clock.now_us())] if forgotten else [])

    engine.store.command(run_id, decide)
    return forgotten


def forgotten_at(engine: Engine, run_id: str) -> int:
    """The version of the run up to which its snapshots were given up; 0 if none were."""
    return max((one.version for one in engine.store.entries(run_id, type="FilesForgotten")), default=0)


def refuse_forgotten(engine: Engine, run_id: str, version: int, what: str, way: str = "") -> None:
    """Raises `Refused` if the snapshots that the run had at that version were given up; `way` says how to do
    without."""
    if version < forgotten_at(engine, run_id):
        raise Refused(
            f"{what} are gone: `gc` gave up the files of run {run_id}, because there was no room "
            f"(`workspace_quota_mb`)" + (f"; {way}" if way else "")
        )


def keep_to(engine: Engine, quota: int) -> None:
    """After runs have ended: collect if they left more than the quota, and log what went. What cannot be done
    now, the next one does."""
    log = logging.getLogger("holdfast")
    try:
        if engine.files.contents.du().bytes <= quota:
            return
        done = collect(engine, quota)
    except HoldfastError as error:
        log.warning("saved files take more than their quota: %s", error)
        return
    if done.removed:
        runs = f"; no more files to go back to in: {', '.join(done.forgotten)}" if done.forgotten else ""
        log.info("saved files were over their quota: %s freed%s", amount(done.freed), runs)


def expendable(engine: Engine) -> list[str]:
    """Runs whose snapshots may go, the oldest first: their family has ended, it is not the newest of its
    workspace, nothing is being done to it, and no `undo` is about it."""
    rows = {stream: row for stream in named(engine) if (row := engine.store.run(stream)) is not None}
    heads = {stream: _head(engine.store, row) for stream, row in rows.items()}
    kept = _last_ones(engine, heads) | _operated(engine.store)
    gone = [
        row
        for stream, row in rows.items()
        if row.status in ENDED and heads[stream].status in ENDED and not {stream, heads[stream].id} & kept
    ]
    return [row.id for row in sorted(gone, key=lambda row: (heads[row.id].updated_at, row.updated_at))]


def _head(store: Store, row: RunRow) -> RunRow:
    """The run that a child run is of, to any depth."""
    while row.parent and (parent := store.run(row.parent)) is not None:
        row = parent
    return row


def _last_ones(engine: Engine, heads: Mapping[str, RunRow]) -> set[str]:
    """The run of each workspace that ended last."""
    found: dict[str, RunRow] = {}
    places = {
        stream: event.mark or event.root
        for stream, event in engine.store.events_of(("FilesSaved", "CheckpointTaken"))
        if isinstance(event, (e.FilesSaved, e.CheckpointTaken)) and event.snapshot
    }
    for stream, head in heads.items():
        place = places.get(stream, "")
        newest = found.get(place)
        if head.status in ENDED and (newest is None or head.updated_at > newest.updated_at):
            found[place] = head
    return {head.id for head in found.values()}


def _operated(store: Store) -> set[str]:
    """The runs of operations that are under way, and of what each person did last."""
    found: set[str] = set()
    people: set[str] = set()
    for row in store.operations():
        if row.status == "begun" or row.by not in people:
            found.add(row.run)
        people.add(row.by)
    return found
