"""The files of runs: which root is permitted, and the snapshots at the edges of a run's windows.

A run takes part from its first checkpoint or `workspace` step on. Invariant (decision 0009): between a
snapshot and the `start` that follows it lies what somebody else changed, everywhere else what the run did.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.engine.control import Control
from holdfast.errors import BadWorkspace, ContentsDamaged, HoldfastError, NeedsAttention, SnapshotNotFound
from holdfast.kernel import commands as c
from holdfast.kernel.files import last, last_git
from holdfast.project import checked_workspace

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.engine.execution import Execution
    from holdfast.engine.perform import Call
    from holdfast.kernel.events import FilesPlace, GitPosition
    from holdfast.kernel.state import RunState
    from holdfast.workspace import Contents, Divided, Workspace

BEAT_S = 0.5
LARGEST_IGNORED = 10 * 1024 * 1024


class Files:
    """The workspaces of a store: `root` is the one that runs may work in, None if there is none."""

    def __init__(self, home: Path, root: Path | None, largest_ignored: int = LARGEST_IGNORED) -> None:
        self.directory = home / "workspace"
        self._home = home
        self._largest_ignored = largest_ignored
        self._open: dict[Path, Workspace] = {}
        self._lock = threading.Lock()
        self._said: set[str] = set()
        self.on_progress: Callable[[int, int], None] | None = None
        """Told (entries, bytes) while a snapshot is taken, every now and then."""
        self._contents: Contents | None = None
        self.root, self.why_none = _permitted(root, self.directory)

    def of(self, root: str | Path, mark: str = "") -> Workspace:
        """The workspace at `root`. One that is gone is where this project is now, if that is the same
        directory: `mark` says which it was. Raises `BadWorkspace`."""
        from holdfast.workspace import Workspace

        path = Path(root)
        if not path.is_dir() and self.root is not None and mark and mark_of(self.root) == mark:
            path = self.root
        with self._lock:
            if path not in self._open:
                self._open[path] = Workspace(
                    path, self.directory, largest_ignored=self._largest_ignored, progress=self._progress
                )
            return self._open[path]

    @property
    def contents(self) -> Contents:
        """All that is kept of files, of whatever root."""
        from holdfast.workspace import Contents

        with self._lock:
            if self._contents is None:
                self._contents = Contents(self.directory)
            return self._contents

    def root_of(self, state: RunState) -> Path | None:
        """Where a run works: where it began, or the root that is permitted now."""
        known = last(state.files)
        return self.of(known.root, known.mark).root if known is not None else self.root

    def _progress(self, entries: int, size: int) -> None:
        if self.on_progress is not None:
            self.on_progress(entries, size)

    def say_once(self, text: str) -> None:
        """A warning that need not be repeated for every step."""
        if text not in self._said:
            self._said.add(text)
            logging.getLogger("holdfast").warning(text)

    @property
    def copies(self) -> Path:
        """Where isolated steps have their copies."""
        return self._home / "copies"

    def close(self) -> None:
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()
            if self._contents is not None:
                self._contents.close()


def _permitted(root: Path | None, directory: Path) -> tuple[Path | None, str]:
    """The root without symlinks, or why there is none."""
    if root is None:
        return None, "no workspace is set"
    try:
        return checked_workspace(root, directory), ""
    except BadWorkspace as error:
        return None, str(error)


def mark_of(root: Path) -> str:
    """Which directory it is, wherever it is moved."""
    status = root.stat()
    return f"{status.st_dev:x}-{status.st_ino:x}"


# The edges of a window. All of it waits for the disk.


def workspace_of(engine: Engine, state: RunState) -> Workspace:
    """Where the run works: where it began, or the root that is permitted now. Raises `BadWorkspace`."""
    known = last(state.files)
    if known is not None:
        return engine.files.of(known.root, known.mark)
    if engine.files.root is None:
        raise BadWorkspace(f"{engine.files.why_none}; name one with the setting `workspace`")
    return engine.files.of(engine.files.root)


def begin(run: Execution) -> None:
    """The run goes on: what its last owner left, where that one did not say so, and what the files are now.
    What cannot be looked at stops the run: nobody could tell afterwards whose change is whose."""
    known = last(run.state.files)
    if known is None:
        return
    try:
        workspace = workspace_of(run.engine, run.state)
        with workspace.contents.hold():
            commands: list[c.Command] = []
            until = run.engine.clock.now_us() if run.robbed else run.state.seen_at or run.state.let_go_at
            divided = divide(workspace, known.snapshot, until)
            if divided.left != known.snapshot:
                commands.append(save(workspace, divided.left, "stop"))
            git = position_of(workspace) if last_git(run.state.files) is not None else None
            write(run, [*commands, save(workspace, divided.now, "start", git=git)])
    except HoldfastError as error:
        raise run.stop(unusable(run, error)) from None
    run.engine.heart.beat_for(run)


def divide(workspace: Workspace, base: str, until_us: int) -> Divided:
    """What a run that was last seen alive then has done since `base`.

    A deletion has no time: it is the run's, because putting a file back loses nothing. A directory that was
    moved here later came with all that is in it, whatever the times of that are.
    """
    until_ns = until_us * 1000
    moved: list[bytes] = []

    def is_ours(path: bytes, status: os.stat_result | None) -> bool:
        if status is None:
            return True
        if any(path.startswith(directory) for directory in moved):
            return False
        later = status.st_ctime_ns > until_ns
        if later and stat.S_ISDIR(status.st_mode) and status.st_mtime_ns <= until_ns:
            moved.append(path + b"/")
        return not later

    return workspace.divide(base, is_ours)


def unusable(run: Execution, error: HoldfastError) -> Control:
    lost = isinstance(error, (ContentsDamaged, SnapshotNotFound))
    way = f"; `holdfast fork {run.id} --at STEP` makes a run that does without" if lost else ""
    reason = f"its files cannot be looked at: {error}{way}"
    return Control(NeedsAttention(run.id, reason), [c.AttendRun(error.code, reason)])


def save(
    workspace: Workspace, snapshot: str, place: FilesPlace, key: str = "", git: GitPosition | None = None
) -> c.SaveFiles:
    return c.SaveFiles(snapshot, place, str(workspace.root), key, git=git, mark=mark_of(workspace.root))


def write(run: Execution, commands: Sequence[c.Command]) -> None:
    entry = run.entry(commands)
    run.engine.store.append(entry)
    run.engine.tell(entry)


@contextmanager
def stopping(run: Execution) -> Iterator[Sequence[c.Command]]:
    """What is to be written with the end of a window; the snapshot is held until that is done. One that
    cannot be taken is left out: what the run did since the last one counts as somebody else's then."""
    silent = run.control is not None and run.control.silent
    known, in_git = last(run.state.files), last_git(run.state.files) is not None
    if silent or not run.state.owner or known is None or not (run.unsaved or in_git):
        yield ()
        return
    with ExitStack() as held:
        saved: Sequence[c.Command] = ()
        try:
            workspace = workspace_of(run.engine, run.state)
            held.enter_context(workspace.contents.hold())
            snapshot = workspace.snapshot().id if run.unsaved else known.snapshot
            git = position_of(workspace) if in_git else None
            saved = (save(workspace, snapshot, "stop", git=git),)
        except HoldfastError as error:
            log = logging.getLogger("holdfast")
            log.warning("run %s stops without a snapshot of its files: %s", run.id, error)
        yield saved


@contextmanager
def at_checkpoint(run: Execution) -> Iterator[tuple[str, str, GitPosition | None, str]]:
    """(snapshot, root, git position, mark) for a checkpoint, held until it is written; empty if there is no
    root. Files that cannot be saved stop the run: it would go on without the way back that it asked for."""
    if run.engine.files.root is None and not run.state.files:
        yield "", "", None, ""
        return
    with ExitStack() as held:
        try:
            workspace = workspace_of(run.engine, run.state)
            held.enter_context(workspace.contents.hold())
            snapshot, git = workspace.snapshot().id, position_of(workspace)
        except HoldfastError as error:
            raise run.stop(unusable(run, error)) from None
        run.engine.heart.beat_for(run)
        saved(run)
        yield snapshot, str(workspace.root), git, mark_of(workspace.root)


def position_of(workspace: Workspace) -> GitPosition | None:
    """Where the repository stands that the workspace is in; None if it is in none that git can read."""
    root = workspace.root
    if not any((path / ".git").exists() for path in (root, *root.parents)):
        return None
    from holdfast.workspace.repository import NoPosition, Repository

    found = Repository(root, workspace.contents).position()
    return None if isinstance(found, NoPosition) else found


def saved(run: Execution, call: Call | None = None) -> None:
    """A snapshot was taken: nothing has changed since, unless a body beside `call` is still at it."""
    run.unsaved = run.engine.flusher.is_busy(run, call)


class Heart:
    """Says, as long as runs with files are executed here, that their owner is alive: after a crash, what
    changed later than that was not theirs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._runs: set[str] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def beat_for(self, run: Execution) -> None:
        self._engine.beat()
        with self._lock:
            self._runs.add(run.id)
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="holdfast-heart", daemon=True)
                self._thread.start()

    def _beat(self) -> None:
        while True:
            threading.Event().wait(BEAT_S)
            with self._lock:
                self._runs &= self._engine.live.keys()
                if not self._runs or self._engine.closing:
                    self._thread = None
                    return
            self._engine.beat()
