"""The files of runs: which root is permitted, and the snapshots at the edges of a run's windows.

A run takes part from its first checkpoint or `workspace` step on. Invariant (decision 0009): between a
snapshot and the `start` that follows it lies what somebody else changed, everywhere else what the run did.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.engine.control import Control
from holdfast.errors import BadWorkspace, HoldfastError, NeedsAttention
from holdfast.kernel import commands as c
from holdfast.kernel.files import last

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.engine.execution import Execution
    from holdfast.engine.perform import Call
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
        self._contents: Contents | None = None
        self.root, self.why_none = _permitted(root, self.directory)

    def of(self, root: str | Path) -> Workspace:
        """The workspace at `root`; one that was moved away is where this project is now."""
        from holdfast.workspace import Workspace

        path = Path(root)
        if not path.is_dir() and self.root is not None:
            path = self.root
        with self._lock:
            if path not in self._open:
                self._open[path] = Workspace(path, self.directory, largest_ignored=self._largest_ignored)
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
        return self.of(known.root).root if known is not None else self.root

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
    from holdfast.workspace.workspace import checked_root

    try:
        return checked_root(root, directory), ""
    except BadWorkspace as error:
        return None, str(error)


# The edges of a window. All of it waits for the disk.


def workspace_of(engine: Engine, state: RunState) -> Workspace:
    """Where the run works: where it began, or the root that is permitted now. Raises `BadWorkspace`."""
    known = last(state.files)
    if known is not None:
        return engine.files.of(known.root)
    if engine.files.root is None:
        raise BadWorkspace(f"{engine.files.why_none}; name one with Holdfast(workspace=...) or --workspace")
    return engine.files.of(engine.files.root)


def begin(run: Execution) -> None:
    """The run goes on: what its last owner left, if that one died, and what the files are now. What cannot be
    looked at stops the run: nobody could tell afterwards whose change is whose."""
    known = last(run.state.files)
    if known is None:
        return
    try:
        workspace = workspace_of(run.engine, run.state)
        with workspace.contents.hold():
            root = str(workspace.root)
            commands: list[c.Command] = []
            if run.state.seen_at or run.forced:
                until = run.state.seen_at if not run.forced else run.engine.clock.now_us()
                divided = divide(workspace, known.snapshot, until)
                commands.append(c.SaveFiles(divided.left, "stop", root))
                now = divided.now
            else:
                now = workspace.snapshot().id
            _write(run, [*commands, c.SaveFiles(now, "start", root)])
    except HoldfastError as error:
        raise run.stop(unusable(run, error)) from None
    run.engine.heart.beat_for(run)


def divide(workspace: Workspace, base: str, until_us: int) -> Divided:
    """What a run that was last seen alive then has done since `base`. A deletion has no time: it is the
    run's, because putting a file back loses nothing."""
    until_ns = until_us * 1000
    return workspace.divide(base, lambda _, status: status is None or status.st_ctime_ns <= until_ns)


def unusable(run: Execution, error: HoldfastError) -> Control:
    reason = f"its files cannot be looked at: {error}"
    return Control(NeedsAttention(run.id, reason), [c.AttendRun(error.code, reason)])


def _write(run: Execution, commands: Sequence[c.Command]) -> None:
    entry = run.entry(commands)
    run.engine.store.append(entry)
    run.engine.tell(entry)


@contextmanager
def stopping(run: Execution) -> Iterator[Sequence[c.Command]]:
    """What is to be written with the end of a window; the snapshot is held until that is done. One that
    cannot be taken is left out: what the run did since the last one counts as somebody else's then."""
    silent = run.control is not None and run.control.silent
    if silent or not run.state.owner or not run.state.files or not run.unsaved:
        yield ()
        return
    with ExitStack() as held:
        saved: Sequence[c.Command] = ()
        try:
            workspace = workspace_of(run.engine, run.state)
            held.enter_context(workspace.contents.hold())
            saved = (c.SaveFiles(workspace.snapshot().id, "stop", str(workspace.root)),)
        except HoldfastError as error:
            log = logging.getLogger("holdfast")
            log.warning("run %s stops without a snapshot of its files: %s", run.id, error)
        yield saved


@contextmanager
def at_checkpoint(run: Execution) -> Iterator[tuple[str, str]]:
    """(snapshot, root) for a checkpoint, held until it is written; empty if there is no root. Files that
    cannot be saved stop the run: it would go on without the way back that it asked for."""
    if run.engine.files.root is None and not run.state.files:
        yield "", ""
        return
    with ExitStack() as held:
        try:
            workspace = workspace_of(run.engine, run.state)
            held.enter_context(workspace.contents.hold())
            snapshot = workspace.snapshot().id
        except HoldfastError as error:
            raise run.stop(unusable(run, error)) from None
        run.engine.heart.beat_for(run)
        saved(run)
        yield snapshot, str(workspace.root)


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
