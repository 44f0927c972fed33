"""A notice for the caller of a run that waits at a gate: a script that blocks there looks hung."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine

logger = logging.getLogger("holdfast")


def say_what_it_waits_for(engine: Engine, run_id: str) -> bool:
    """Log the open gates of the run and the commands that answer them. The log record goes to stderr unless
    the program has configured logging. Returns whether there was an open gate."""
    try:
        row = engine.store.run(run_id)
        lines = list(_lines(engine, run_id)) if row is not None and row.status == "waiting" else []
    except HoldfastError:
        return False  # the caller gets this error from the run itself
    for line in lines:
        logger.warning(line)
    return bool(lines)


def _lines(engine: Engine, run_id: str) -> Iterator[str]:
    for _, kind, name in engine.store.open_gates([run_id]):
        if kind == "approval":
            how = f"`holdfast approve {run_id}` or `holdfast reject {run_id}`"
            yield f"run {run_id} waits for the approval of {name!r}: {how}"
        else:
            yield f"run {run_id} waits for the signal {name!r}: `holdfast signal {run_id} {name} VALUE`"
