"""Which snapshot of a run's files belongs to a point of its history, and whose change is whose.

Decision 0009: what lies between a snapshot and the `start` after it was changed by others; all other
differences are the run's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from holdfast.kernel.events import GitPosition
from holdfast.kernel.state import Saved, StepState

_BODIES = frozenset({"step", "command", "child"})
_AT_WORK = frozenset({"running", "in_doubt"})
_OWN = frozenset({"after", "checkpoint"})


def last(files: Sequence[Saved]) -> Saved | None:
    """As the run left its files, as far as that is recorded."""
    return files[-1] if files else None


def at_point(files: Sequence[Saved], steps: Mapping[str, StepState], point: StepState) -> Saved | None:
    """The snapshot of the files as they were when `point` had ended; None if nothing was recorded after it.

    A step without one of its own keeps its files: if it, or a step since the last snapshot, may have written
    any, the next snapshot counts.
    """
    own = [saved for saved in files if saved.key == point.key and saved.place in _OWN]
    if own:
        return own[-1]
    before = [saved for saved in files if saved.version <= point.version]
    if before and not _wrote(steps.values(), before[-1].version, point.version):
        return before[-1]
    return next((saved for saved in files if saved.version > point.version), None)


def _wrote(steps: Iterable[StepState], after: int, until: int) -> bool:
    return any(step.kind in _BODIES and after < step.version <= until for step in steps)


def is_elsewhere(files: Sequence[Saved], steps: Mapping[str, StepState]) -> bool:
    """Whether only steps that work in copies were at work since the last snapshot: what has changed in the
    root since belongs to others."""
    known = last(files)
    if known is None or not known.isolated:
        return False
    copies = {saved.key for saved in files if saved.isolated}
    return all(
        step.key in copies
        for step in steps.values()
        if step.kind in _BODIES and (step.version > known.version or step.status in _AT_WORK)
    )


def gaps(files: Sequence[Saved]) -> list[tuple[str, str]]:
    """Changes of others since the first of these: from which snapshot to which."""
    return [
        (earlier.snapshot, later.snapshot)
        for earlier, later in pairwise(files)
        if later.place == "start" and earlier.snapshot != later.snapshot
    ]


def since(files: Sequence[Saved], version: int) -> Sequence[Saved]:
    """Those after a version, and the last one before it: between the two lies a gap, or none."""
    before = sum(saved.version <= version for saved in files)
    return files[max(before - 1, 0) :]


def git_gaps(files: Sequence[Saved]) -> list[tuple[GitPosition, GitPosition]]:
    """The same for the repository, as far as it was looked at."""
    looked = [saved for saved in files if saved.git is not None]
    return [
        (earlier.git, later.git)
        for earlier, later in pairwise(looked)
        if later.place == "start" and earlier.git and later.git and earlier.git != later.git
    ]


def last_git(files: Sequence[Saved]) -> GitPosition | None:
    """Where the run left the repository, as far as that is recorded."""
    return next((saved.git for saved in reversed(files) if saved.git is not None), None)
