"""The digest of what an operation would do: a preview names it, and the operation can be bound to it.

It covers the operation and its point, the steps that no longer count (with the versions of their events),
each path that changes with its content before and after, and each ref that moves. Two previews with the same
digest would do the same. What stays as it is does not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.errors import BadInput, PlanChanged

if TYPE_CHECKING:
    from holdfast.kernel.state import StepState
    from holdfast.operations.operation_files import Going
    from holdfast.workspace.snapshots.listing import Entry

_LEAST: Final = 8
"""How many characters of a digest must be given."""


def digest_of(kind: str, run_id: str, fields: Iterable[Any], going: Going | None = None) -> str:
    """`fields` are JSON data that say what is done beside moving files and refs."""
    doing = [kind, run_id, [*fields], *([] if going is None else _moves(going))]
    return sha256(msgspec.json.encode(doing)).hexdigest()


def versions(steps: Iterable[StepState]) -> list[tuple[str, int]]:
    """Which records of steps, not only which steps: one that has run again since has another."""
    return [(step.key, step.version) for step in steps]


def refuse_other(plan: str | None, digest: str) -> None:
    """Raise `PlanChanged` if `plan`, or the beginning of it, is not the digest of what would be done now."""
    if plan is None:
        return
    if len(plan) < _LEAST:
        raise BadInput(f"{plan!r} is too short for a plan; give at least {_LEAST} characters of its digest")
    if not digest.startswith(plan.lower()):
        raise PlanChanged(plan, digest)


def _moves(going: Going) -> list[Any]:
    paths = [(path.hex(), *map(_entry, sides)) for path, sides in going.plan.doing]
    return [str(going.workspace.root), paths, None if going.git is None else going.git.doing]


def _entry(entry: Entry | None) -> Any:
    return None if entry is None else (entry.mode, entry.ref.hex())
