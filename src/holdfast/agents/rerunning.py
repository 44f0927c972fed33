"""Runs recorded commands again, in a copy of the files of a workspace."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.agents.observed import Keep, ObservedRun, OutputParts
from holdfast.engine.files.copied_links import CopiedLinks
from holdfast.engine.files.workspace_step import remove_copy
from holdfast.engine.processes.process import Exit, Process
from holdfast.engine.processes.tree_lock import drop_lock

if TYPE_CHECKING:
    from holdfast.agents.observed import Output
    from holdfast.engine.engine import Engine
    from holdfast.workspace import Workspace

_GRACE_S = 60.0
_TIMES = 10


class Rerun(msgspec.Struct, frozen=True):
    """How a command ended now. `late` is the limit that it passed, after which it was ended."""

    exit_code: int
    duration_s: float
    stdout: Output
    stderr: Output
    late: float = 0.0


class CopiedFiles:
    """A copy of the workspace `root` at the path `path`."""

    def __init__(self, engine: Engine, root: Path, path: Path) -> None:
        self._engine = engine
        self._root = root
        self.path = path

    def run(self, command: ObservedRun, cwd: str, keep: Keep) -> Rerun:
        """Run the command and wait for its end; at most ten times as long as it took, and a minute. Raises
        what starting it raises."""
        return _run(self._engine, command, self._words(command), self._inside(cwd), self.path.parent, keep)

    def _words(self, command: ObservedRun) -> tuple[list[str], dict[str, str]]:
        """Words that name the workspace name the copy. A program of a tree that is not saved, such as
        `.venv/bin/pytest`, is that of the workspace."""
        argv = [self._moved(word) for word in command.argv]
        where = self.path / argv[0]
        if "/" in argv[0] and where.is_relative_to(self.path) and not where.exists():
            program = self._root / where.relative_to(self.path)
            argv[0] = str(program) if program.exists() else argv[0]
        return argv, {name: self._moved(value) for name, value in command.env.items()}

    def _moved(self, word: str) -> str:
        root = str(self._root)
        return word.replace(f"{root}/", f"{self.path}/") if word != root else str(self.path)

    def _inside(self, cwd: str) -> str:
        path = Path(cwd).resolve()
        return str(self.path / path.relative_to(self._root)) if path.is_relative_to(self._root) else cwd


def run_in_place(engine: Engine, command: ObservedRun, cwd: str, keep: Keep) -> Rerun:
    """Run an idempotent command where it ran."""
    return _run(engine, command, (list(command.argv), command.env), cwd, engine.files.copies, keep)


@contextmanager
def copied(engine: Engine, workspace: Workspace, snapshot: str) -> Iterator[CopiedFiles]:
    """A copy of the files of a snapshot, which is removed at the end. Raises `SnapshotNotFound`."""
    from holdfast.workspace import Tree, Workspace

    path = _new_directory(engine)
    copy = Workspace(path, engine.files.directory)
    try:
        copy.put_into(snapshot)
        links = CopiedLinks(workspace.root, copy.root)
        links.lead_in(one for one, entry in Tree(copy.contents, snapshot).walk() if entry.is_link)
        yield CopiedFiles(engine, workspace.root, copy.root)
    finally:
        copy.forget()
        remove_copy(path)


def _new_directory(engine: Engine) -> Path:
    copies = engine.files.copies
    copies.mkdir(mode=0o700, exist_ok=True)
    path = copies / f"verify-{os.urandom(8).hex()}"
    path.mkdir(mode=0o700)
    return path


def _run(
    engine: Engine,
    command: ObservedRun,
    words: tuple[list[str], dict[str, str]],
    cwd: str,
    beside: Path,
    keep: Keep,
) -> Rerun:
    argv, env = words
    beside.mkdir(mode=0o700, exist_ok=True)
    locks = beside / f"lock-{os.urandom(8).hex()}"
    locks.mkdir(mode=0o700)
    lock = locks / "command.lock"
    outputs = {"stdout": OutputParts(keep), "stderr": OutputParts(keep)}
    limit = _GRACE_S + _TIMES * command.duration_s
    process: Process | None = None
    late = 0.0
    try:
        process = Process.start(
            argv,
            cwd=cwd,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(beside), **env},
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
        shutil.rmtree(locks, ignore_errors=True)
    return Rerun(end.code, end.duration_s, outputs["stdout"].output(), outputs["stderr"].output(), late)
