"""A filter of runs as the queries take it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.kernel.state import FINAL
from holdfast.store.rows import RunFilter

_CHILDREN: Final = "(SELECT * FROM runs INDEXED BY runs_by_parent WHERE parent = ?6 AND parent <> '')"
"""`?6` is the parent in what `values` gives."""


def table(*status: Sequence[str], parent: str | None = None) -> str:
    """The smallest table that has all runs of these statuses, and of this parent."""
    if parent:
        return _CHILDREN
    wanted = {one for some in status for one in some}
    return "open_runs" if wanted and wanted.isdisjoint(FINAL) else "runs"


def values(which: RunFilter) -> tuple[Any, ...]:
    """The first eight values of `find_runs` and `count_runs`."""
    by_status = which.status or which.orphaned
    return (
        array(which.status) if by_status else None,
        array(which.orphaned),
        array(which.live),
        which.parked,
        None if which.workflow is None else glob(which.workflow),
        which.parent,
        which.changed_since,
        which.created_before,
    )


def array(texts: Sequence[str]) -> str:
    return msgspec.json.encode(list(texts)).decode()


def glob(pattern: str) -> str:
    """The pattern as a GLOB of SQLite: `[!a]` becomes `[^a]`, and a bracket without its end matches
    itself."""
    written, at = "", 0
    while at < len(pattern):
        letter, at = pattern[at], at + 1
        if letter != "[":
            written += letter
            continue
        inverted = pattern[at : at + 1] in ("!", "^") and at < len(pattern)
        start = at + inverted
        end = pattern.find("]", start + 1)  # right after the opening one it is a letter of the set
        if end < 0:
            written += "[[]"
            continue
        written += f"[{'^' * inverted}{pattern[start:end]}]"
        at = end + 1
    return written
