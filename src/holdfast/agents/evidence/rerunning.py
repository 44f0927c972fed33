"""Runs recorded commands again, in a copy of the files of a workspace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast import file_lock
from holdfast.agents.evidence.observed import Keep, ObservedRun, OutputParts
from holdfast.engine.files.copied_links import CopiedLinks
from holdfast.engine.files.workspace_step import remove_copy
from holdfast.engine.processes.process import Exit, Process
from holdfast.engine.processes.tree_lock import drop_lock

if TYPE_CHECKING:
    from holdfast.agents.evidence.observed import Output
    from holdfast.engine.engine import Engine
    from holdfast.workspace.workspace import Workspace

_PREFIX = "verify-"
_GRACE_S = 60.0
_TIMES = 10


class Rerun(msgspec.Struct, frozen=True):
    """How a command ended now. `late` is the limit that it passed, after which it was ended."""

    exit_code: int
    duration_s: float
    stdout: Output
    stderr: Output
    late: float = 0.0


class Rerunner:
    """Runs commands of the workspace `root` in a copy of it, `copy`. Without a workspace they run where they
    ran; those must be idempotent."""

    def __init__(
        self, engine: Engine, place: Path, root: Path | None = None, copy: Path | None = None
    ) -> None:
        self._engine = engine
        self._place = place
        self._root = root
        self.copy = copy

    def run(self, command: ObservedRun, cwd: str, keep: Keep) -> Rerun:
        """Run the command and wait for its end; at most ten times as long as it took, and a minute. Raises
        what starting it raises."""
        argv, env = list(command.argv), command.env
        if self.copy is not None and self._root is not None:
            argv, env = self._words(command, self._root, self.copy)
            path = Path(cwd).resolve()
            if path.is_relative_to(self._root):
                cwd = str(self.copy / path.relative_to(self._root))
        return _run(self._engine, argv, env, cwd, command.duration_s, self._place, keep)

    @staticmethod
    def _words(command: ObservedRun, root: Path, copy: Path) -> tuple[list[str], dict[str, str]]:
        """Words that name the workspace name the copy. A program of a tree that is not saved, such as
        `.venv/bin/pytest`, is that of the workspace."""

        def moved(word: str) -> str:
            return str(copy) if word == str(root) else word.replace(f"{root}/", f"{copy}/")

        argv = [moved(word) for word in command.argv]
        program = copy / argv[0]
        if "/" in argv[0] and program.is_relative_to(copy) and not program.exists():
            own = root / program.relative_to(copy)
            argv[0] = str(own) if own.exists() else argv[0]
        return argv, {name: moved(value) for name, value in command.env.items()}


@contextmanager
def rerunner(engine: Engine, workspace: Workspace | None = None, snapshot: str = "") -> Iterator[Rerunner]:
    """For commands of a workspace, in a copy of the files of a snapshot, which is removed at the end. Raises
    `SnapshotNotFound`."""
    with _place(engine) as place:
        if workspace is None:
            yield Rerunner(engine, place)
            return
        from holdfast.workspace.snapshots.snapshot import Tree
        from holdfast.workspace.workspace import Workspace

        path = place / "files"
        path.mkdir(mode=0o700)
        copy = Workspace(path, engine.files.directory)
        try:
            copy.put_into(snapshot)
            links = CopiedLinks(workspace.root, copy.root)
            links.lead_in(one for one, entry in Tree(copy.contents, snapshot).walk() if entry.is_link)
            yield Rerunner(engine, place, workspace.root, copy.root)
        finally:
            copy.forget()


@contextmanager
def _place(engine: Engine) -> Iterator[Path]:
    """A directory of one verification, locked as long as that lives. What a killed one left is removed."""
    copies = engine.files.copies
    copies.mkdir(mode=0o700, exist_ok=True)
    for lock in copies.glob(f"{_PREFIX}*.lock"):
        with file_lock.tried(lock) as is_left:
            if is_left:
                remove_copy(lock.with_suffix(""))
                lock.unlink(missing_ok=True)
    place = copies / f"{_PREFIX}{os.urandom(8).hex()}"
    lock = place.with_suffix(".lock")
    with file_lock.held(lock):
        try:
            place.mkdir(mode=0o700)
            yield place
        finally:
            remove_copy(place)
            lock.unlink(missing_ok=True)


def _run(
    engine: Engine,
    argv: list[str],
    env: dict[str, str],
    cwd: str,
    took_s: float,
    place: Path,
    keep: Keep,
) -> Rerun:
    lock = place / "locks" / "command.lock"
    lock.parent.mkdir(mode=0o700, exist_ok=True)
    outputs = {"stdout": OutputParts(keep), "stderr": OutputParts(keep)}
    limit = _GRACE_S + _TIMES * took_s
    process: Process | None = None
    late = 0.0
    try:
        process = Process.start(
            argv,
            cwd=cwd,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(place), **env},
            lock_path=lock,
            on_output=lambda source, text: outputs[source].take(text),
            redactor=engine.redactor,
        )
        try:
            end: Exit = process.wait(limit)
        except TimeoutError:
            late = limit
            process.terminate()
            end = process.wait()
    finally:
        if process is not None and not process.ended:
            process.kill()
            process.join()
        drop_lock(lock)
    return Rerun(end.code, end.duration_s, outputs["stdout"].output(), outputs["stderr"].output(), late)
