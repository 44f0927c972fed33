"""`workspace restore`: the files of a snapshot, also those that others changed since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from holdfast.errors import SnapshotNotFound
from holdfast.json_view import View
from holdfast.kernel.file_history import last
from holdfast.kernel.naming import find_id
from holdfast.kernel.operation import begin, fold, stream_of
from holdfast.operations import fragments
from holdfast.operations.cut_off import make_way
from holdfast.operations.disk_usage import named, permitted
from holdfast.operations.holding import load
from holdfast.operations.operation_files import FilesBack, Going, alone, refuse_pattern
from holdfast.operations.performing import perform

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.kernel.state import RunState


class Restored(View, frozen=True):
    """The restored files; `operation` is the id for `undo`, empty if nothing changed."""

    files: FilesBack
    operation: str = ""

    JSON: ClassVar = {
        "operation": "what `undo` reverses; null if nothing changed",
        "files": "what becomes of the files: see below",
    }
    JSON_NULL: ClassVar = ("operation",)


def restore(
    engine: Engine,
    snapshot: str,
    *,
    by: str,
    only: Sequence[str] = (),
    partial: bool = False,
    dry_run: bool = False,
) -> Restored:
    """The files as a snapshot has them. One of what was rescued, or rolled back, changes the paths that it
    stands for and no others; but the latter holds all files, and with `only` gives any of them.

    Raises `SnapshotNotFound`, `ContentsDamaged`, `RestoreUndone`.
    """
    refuse_pattern(only)
    run_id, found = find(engine, snapshot)
    if not dry_run:
        make_way(engine, run_id)
    while True:
        state = load(engine, run_id)
        with _going(engine, found, state, tuple(only), partial=partial) as going:
            going.refuse_unmatched()
            if dry_run or going.is_idle:  # an operation that changes nothing would be the one to undo next
                return Restored(going.report())
            begun = begin("restore", run_id, by, found[:12])
            done = perform(engine, begun, state, None, going)
        if done is not None:
            return Restored(done.files or going.report(), done.operation)


@contextmanager
def _going(
    engine: Engine, snapshot: str, state: RunState, only: tuple[str, ...], *, partial: bool
) -> Iterator[Going]:
    """The files of a snapshot on their way, also those that others changed since."""
    known = last(state.files)
    workspace = permitted(engine.files) if known is None else engine.files.of(known.root, known.mark)
    with alone(workspace), workspace.contents.hold():
        now, to, as_of = workspace.snapshot().id, snapshot, "as it was saved"
        left_out: tuple[bytes, ...] = ()
        edits = fragments.of(engine, workspace, snapshot, whole=bool(only))
        if edits is not None:
            to, left_out = fragments.fit(workspace, now, edits)
            as_of = "in what was rescued or rolled back"
        plan = workspace.plan(to, now, only)
        yield Going(workspace, plan, as_of, state.version, None, partial, left_out=left_out)


def find(engine: Engine, text: str) -> tuple[str, str]:
    """(run, snapshot) that `text` is the id of, or the beginning of it. Raises `SnapshotNotFound`."""
    found = {one: stream for stream, ids in named(engine).items() for one in sorted(ids)}
    snapshot = find_id(text, list(found), "snapshots", lambda: SnapshotNotFound(text))
    stream = found[snapshot]
    operation = fold(engine.store.load(stream)) if stream.startswith(stream_of("")) else None
    return stream if operation is None else operation.run, snapshot
