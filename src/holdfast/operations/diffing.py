"""`diff`: what changed in the files between two moments of a run, or since one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import Refused
from holdfast.operations import operation_files, points
from holdfast.operations.holding import load
from holdfast.operations.quota import refuse_forgotten
from holdfast.workspace.fs.beneath import shown
from holdfast.workspace.snapshots.file_diff import FileDiff

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.kernel.state import RunState
    from holdfast.redaction import Redactor
    from holdfast.workspace.snapshots.changes import Change
    from holdfast.workspace.workspace import Workspace

DISK = "disk"


class Differing(msgspec.Struct):
    """The differences, path by path; the texts are made when they are asked for."""

    workspace: Workspace
    redactor: Redactor
    before: str
    after: str
    names: tuple[str, str]
    changes: list[Change]

    def diffs(self) -> Iterator[FileDiff]:
        for change in self.changes:
            yield FileDiff(shown(change.path), change.kind, self._text(change))

    def _text(self, change: Change) -> str:
        return self.workspace.text_diff(change, self.redactor.redact)


def diff(engine: Engine, run_id: str, a: str, b: str | None = None) -> list[FileDiff]:
    """The changes from `a` to `b`, or to the files on disk."""
    with differing(engine, run_id, a, b) as found:
        return list(found.diffs())


@contextmanager
def differing(engine: Engine, run_id: str, a: str, b: str | None = None) -> Iterator[Differing]:
    """A moment is a checkpoint, a step (as it left the files), `before:STEP`, `start`, or `disk`. Raises
    `StepNotFound`; `Refused` for a moment without a snapshot."""
    state = load(engine, run_id)
    if not state.files:
        refuse_forgotten(engine, run_id, 0, "the snapshots")
        raise Refused(
            f"run {run_id} has no snapshots of files: they are taken at checkpoints and around "
            "`workspace` steps"
        )
    workspace = engine.files.of(state.files[-1].root, state.files[-1].mark)
    with workspace.contents.hold():
        sides = [_moment(engine, run_id, state, workspace, text) for text in (a, b or DISK)]
        (before, first), (after, second) = sides
        changes = [change for change in workspace.diff(before, after) if change.path]
        yield Differing(workspace, engine.redactor, before, after, (first, second), changes)


def _moment(engine: Engine, run_id: str, state: RunState, workspace: Workspace, text: str) -> tuple[str, str]:
    """(snapshot, how people call it)."""
    if text == DISK and not any(step.name == DISK for step in state.steps.values()):
        return workspace.snapshot().id, "the files on the disk"
    point = points.resolve(engine.store, run_id, state, text)
    refuse_forgotten(engine, run_id, point.version, f"the files of {point.name}")
    saved = operation_files.point_of(run_id, state, point)
    taken = operation_files.described(saved)
    asked = point.name if text != points.START else "the start"
    if taken in (f"at {asked}", f"after {asked}", asked.replace(points.BEFORE, "before ")):
        return saved.snapshot, taken
    return saved.snapshot, f"{asked} (files {taken})"
