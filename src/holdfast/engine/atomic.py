"""`workspace` steps: alone on their files, and each attempt from the same files.

    lock ─▶ take back an earlier attempt ─▶ `before` ─▶ BODY ─▶ `after` ─▶ record ─▶ unlock

The intent goes to the log with `before`, the result with `after`. An isolated step works in a copy instead;
only to bring its changes into the root does it need the lock.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.engine import files
from holdfast.engine.scope import current
from holdfast.errors import BadInput, StoreError, WorkspaceConflict
from holdfast.kernel import commands as c
from holdfast.kernel.files import gaps

if TYPE_CHECKING:
    from holdfast.engine.perform import Call
    from holdfast.workspace import Workspace

LOCK_EVERY_S = 0.02
_NAMED = 20


class Guard:
    """One attempt of a `workspace` step. `close` lets go of everything, however it ended."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._run = call.execution
        self._spec = call.spec
        self._workspace: Workspace = files.workspace_of(self._run.engine, self._run.state)
        self._root = str(self._workspace.root)
        self._before = ""
        self._copy: Workspace | None = None
        self._held = ExitStack()
        self._locked = False
        self.saved: list[c.Command] = []
        """What goes to the log with the end of the attempt."""

    @property
    def isolated(self) -> bool:
        return self._spec.isolate == "copy"

    @property
    def path(self) -> Path:
        """Where the step's files are."""
        return self._workspace.root if self._copy is None else self._copy.root

    def inside(self, where: str) -> str:
        """The same directory among the step's files; one outside the workspace stays what it is."""
        path = Path(where).resolve()
        if self._copy is None or not path.is_relative_to(self._workspace.root):
            return where
        return str(self._copy.root / path.relative_to(self._workspace.root))

    def lock(self) -> bool:
        """Be the only one who works on these files, if nobody does; never waits."""
        if not self._locked:
            self._locked = self._workspace.try_to_work(self._held)
        return self._locked

    def close(self) -> None:
        self._held.close()
        if self._copy is not None:
            self._copy.close()
            _remove(self._copy.root)

    # Before the body

    def enter(self) -> list[c.Command]:
        """What goes to the log with the intent. Raises `HoldfastError`: then the body must not run."""
        self._held.enter_context(self._workspace.contents.hold())
        commands: list[c.Command] = []
        if self.isolated:
            self._before = self._workspace.snapshot().id
            self._make_copy()
        else:
            commands += self._take_back()
            self._before = self._workspace.snapshot().id
        commands.append(c.SaveFiles(self._before, "before", self._root, self._call.key))
        self._run.engine.heart.beat_for(self._run)
        return commands

    def _take_back(self) -> Sequence[c.Command]:
        """Roll back what an earlier attempt did, from its own `before` on. What somebody else changed since,
        stays."""
        state, key = self._run.state, self._call.key
        began = [n for n, one in enumerate(state.files) if one.place == "before" and one.key == key]
        if not began:
            return ()
        since = state.files[began[0] :]
        plan = self._workspace.plan(
            since[0].snapshot, since[-1].snapshot, yours=self._workspace.edits(gaps(since))
        )
        done = self._workspace.apply(plan)
        kept = tuple(os.fsdecode(one.path) for one in done.kept[:_NAMED])
        return (c.SaveFiles(done.after, "taken_back", self._root, key, done.before, len(done.actions), kept),)

    def _make_copy(self) -> None:
        from holdfast.workspace import Workspace

        name = hashlib.sha256(f"{self._run.id}/{self._call.key}".encode()).hexdigest()[:16]
        copies = self._run.engine.files.copies
        copies.mkdir(mode=0o700, exist_ok=True)
        path = copies / name
        _remove(path)  # of an attempt that was cut off
        path.mkdir(mode=0o700)
        self._copy = Workspace(path, self._run.engine.files.directory)
        self._copy.put_into(self._before)

    # After it

    def leave(self, failed: bool) -> None:
        """Look at what the body has done. What a failed one did in a copy is left there. Raises
        `HoldfastError`."""
        self.saved = self._left(failed)

    def _left(self, failed: bool) -> list[c.Command]:
        if self._copy is not None:
            return [] if failed else self._bring_back(self._copy)
        if self._spec.writes:
            from holdfast.workspace.plan import selects

            writes = selects(self._spec.writes)
            divided = self._workspace.divide(self._before, lambda path, _: writes(path))
            return self._saved(divided.left, divided.now)
        now = self._workspace.snapshot().id
        return self._saved(now, now)

    def _bring_back(self, copy: Workspace) -> list[c.Command]:
        """The changes of the copy, into the root, as one. Raises `WorkspaceConflict` if somebody changed one
        of these paths meanwhile; then nothing is brought."""
        from holdfast.workspace.plan import Why

        done = copy.snapshot().id
        plan = self._workspace.plan(done, self._before)
        clashes = [kept.path for kept in plan.kept if kept.why not in (Why.YOURS, Why.UNKNOWN)]
        if clashes:
            raise WorkspaceConflict(self._call.key, [os.fsdecode(path) for path in clashes])
        applied = self._workspace.apply(plan)
        return self._saved(done, applied.after)

    def _saved(self, ours: str, now: str) -> list[c.Command]:
        saved: list[c.Command] = [c.SaveFiles(ours, "after", self._root, self._call.key)]
        if now != ours:  # the rest is somebody else's
            saved.append(c.SaveFiles(now, "start", self._root))
        files.saved(self._run, self._call)
        return saved


def _remove(directory: Path) -> None:
    """Remove a copy, read-only directories and all."""
    if not directory.exists():
        return
    try:
        directory.chmod(stat.S_IRWXU)
        for parent, names, _ in os.walk(directory):
            for name in names:
                path = Path(parent, name)
                if not path.is_symlink():
                    path.chmod(stat.S_IRWXU)
        shutil.rmtree(directory)
    except OSError as error:
        raise StoreError(f"the copy {directory} cannot be removed: {error.strerror}") from error


def check_files(what: str, effect: str, writes: Sequence[str], isolate: str | None) -> None:
    """Options that only a `workspace` step can keep."""
    if isolate not in (None, "copy"):
        raise BadInput(f"{what}: isolate={isolate!r} is not known; use 'copy'")
    if effect != "workspace" and (writes or isolate):
        raise BadInput(f"{what}: writes and isolate are for effect='workspace'")
    if isinstance(writes, str):
        raise BadInput(f"{what}: writes takes a list of patterns, ['src/**']")


def workspace_path() -> Path:
    """Where the files of the step are whose body asks: the workspace, or the copy that it works in."""
    from holdfast.engine.perform import Call

    inside = current.get()
    if not isinstance(inside, Call) or inside.guard is None:
        raise BadInput("workspace_path() is known only inside the body of a step with effect='workspace'")
    return inside.guard.path
