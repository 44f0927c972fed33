"""A decision that is bound to the files that a person has seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.errors import GateError
from holdfast.kernel.file_history import last
from holdfast.operations.disk_usage import permitted
from holdfast.operations.holding import load
from holdfast.operations.operation_files import alone
from holdfast.operations.restoring import find
from holdfast.workspace.fs.beneath import shown

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine

_NAMED = 8  # so many paths are named, the others counted


@contextmanager
def unchanged(engine: Engine, run_id: str, snapshot: str) -> Iterator[None]:
    """The files of the run's workspace are those of the snapshot (its id, or the beginning of it), and no
    step works on them meanwhile.

    Raises `GateError`, which names the paths that differ; `SnapshotNotFound`; `Refused` if a step works on
    them for long.
    """
    _, wanted = find(engine, snapshot)
    known = last(load(engine, run_id).files)
    workspace = permitted(engine.files) if known is None else engine.files.of(known.root, known.mark)
    with alone(workspace), workspace.contents.hold():
        paths = [shown(change.path) for change in workspace.diff(wanted) if change.path]
        if paths:
            more = f" and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
            raise GateError(
                f"the files in {workspace.root} are not those of snapshot {wanted[:12]} any more: "
                f"{', '.join(paths[:_NAMED])}{more} changed since; look at them, then decide without the "
                f"snapshot, "
                "or with a newer one"
            )
        yield
