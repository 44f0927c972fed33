"""The workspaces of a store: which root runs may work in, and where a run works."""

from __future__ import annotations

import logging
import shlex
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.directory_identity import DirectoryIdentity, is_moved_to, is_still_at
from holdfast.errors import BadWorkspace, NotTrusted
from holdfast.kernel.file_history import last
from holdfast.project import LARGEST_IGNORED, checked_workspace

if TYPE_CHECKING:
    from holdfast.engine.execution.call import Call, Outcome, Request
    from holdfast.engine.execution.execution import Execution
    from holdfast.kernel.state import RunState
    from holdfast.workspace.contents.content_store import Contents
    from holdfast.workspace.workspace import Workspace


class Files:
    """The workspaces of a store: `root` is the one that runs may work in, None if there is none."""

    def __init__(
        self,
        home: Path,
        root: Path | None,
        largest_ignored: int = LARGEST_IGNORED,
        is_own: Callable[[], bool] = lambda: True,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """`is_own` says whether the store is the user's own: only then are the roots that it names.
        `on_progress` is called with (entries, bytes) every now and then while a snapshot is taken."""
        self.directory = home / "workspace"
        self._home = home
        self._largest_ignored = largest_ignored
        self._open: dict[Path, Workspace] = {}
        self._lock = threading.Lock()
        self._warned: set[str] = set()
        self.on_progress = on_progress
        self.worked = False
        """Whether runs have worked on files here."""
        self._contents: Contents | None = None
        self._ask_own = is_own
        self._own: bool | None = None
        self._given: set[Path] = set()
        self.root, self.why_none = _permitted(root, home)

    def of(self, root: str | Path, mark: str = "") -> Workspace:
        """The workspace at `root`. One that is gone, or another directory by now, is where this project is,
        if that is the same directory: `mark` says which it was. Raises `BadWorkspace`; `NotTrusted` for a
        root that only a store from somewhere else names."""
        from holdfast.workspace.workspace import Workspace

        path = self._path(root, mark)
        if not self._is_permitted(path):
            raise NotTrusted(
                f"the store in {self._home} comes from somewhere else, and names {path} as the directory to "
                "work in; if that is meant, name it yourself: `export HOLDFAST_WORKSPACE="
                f"{shlex.quote(str(path))}`"
            )
        with self._lock:
            if path not in self._open:
                self._open[path] = Workspace(
                    path,
                    self.directory,
                    store=self._home,
                    largest_ignored=self._largest_ignored,
                    progress=self.on_progress,
                )
            return self._open[path]

    def permit(self, root: Path) -> None:
        """The user has named this directory himself."""
        self._given.add(root)

    def is_same(self, root: str, mark: str) -> bool:
        """Whether the directory that a mark was of is there, and may be worked in: at its place or, if it was
        moved, where this project is. The number of its device may be another one after a restart."""
        path = self._path(root, mark)
        if not self._is_permitted(path):
            return False
        return is_still_at(path, mark) if path == Path(root) else is_moved_to(path, mark)

    def _path(self, root: str | Path, mark: str) -> Path:
        path = Path(root)
        if self.root is not None and is_moved_to(self.root, mark) and not is_still_at(path, mark):
            return self.root
        return path

    def _is_permitted(self, path: Path) -> bool:
        if path == self.root or path in self._given:
            return True
        if self._own is None:
            self._own = self._ask_own()
        return self._own or (self.root is not None and _resolved(path) == self.root)

    @property
    def contents(self) -> Contents:
        """All that is kept of files, of whatever root."""
        from holdfast.workspace.contents.content_store import Contents

        with self._lock:
            if self._contents is None:
                self._contents = Contents(self.directory)
            return self._contents

    def root_of(self, state: RunState) -> Path | None:
        """The root that `of_run` would open; None if there is no workspace."""
        known = last(state.files)
        return self.root if known is None else self._path(known.root, known.mark)

    def of_run(self, state: RunState) -> Workspace:
        """Where a run works: where it began, or the root that is permitted now. Raises `BadWorkspace`."""
        self.worked = True
        known = last(state.files)
        if known is not None:
            return self.of(known.root, known.mark)
        if self.root is None:
            raise BadWorkspace(f"{self.why_none}; name one with the setting `workspace`")
        return self.of(self.root)

    def warn_once(self, text: str) -> None:
        """Log a warning that need not be repeated for every step."""
        if text not in self._warned:
            self._warned.add(text)
            logging.getLogger("holdfast").warning(text)

    def enter(self, call: Call) -> Generator[Request, Outcome | None, None]:
        """Before the body of a `workspace` step."""
        from holdfast.engine.files import workspace_step

        yield from workspace_step.enter(call)

    def leave(self, call: Call, outcome: Outcome) -> Generator[Request, Outcome | None, Outcome]:
        """After it, however it ended."""
        from holdfast.engine.files import workspace_step

        assert call.guard is not None
        return (yield from workspace_step.leave(call, call.guard, outcome))

    def take_due_checkpoint(self, run: Execution) -> None:
        """The checkpoint that the setting `checkpoint_every` asks for, if one is due."""
        from holdfast.engine.files.checkpoint_append import take_due

        take_due(run)

    async def take_due_checkpoint_soon(self, run: Execution) -> None:
        """The same, without blocking the event loop."""
        from holdfast.engine.files.checkpoint_append import take_due_soon

        await take_due_soon(run)

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


def _permitted(root: Path | None, store: Path) -> tuple[Path | None, str]:
    """The root without symlinks, or why there is none."""
    if root is None:
        return None, "no workspace is set"
    try:
        return checked_workspace(root, store), ""
    except BadWorkspace as error:
        return None, str(error)


def mark_of(root: Path) -> str:
    """Which directory it is, wherever it is moved. Raises `BadWorkspace` if it is gone."""
    try:
        return DirectoryIdentity.of(root).mark
    except OSError as error:
        raise BadWorkspace(f"the workspace {root} is not there ({error.strerror})") from error


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except OSError:
        return path
