"""The windows of a run on its files: from where it continues to where it stops, with snapshots at the edges.

A run takes part from its first checkpoint or `workspace` step on. Invariant (decision 0009): between a
snapshot and the `start` that follows it lies what others changed, everywhere else what the run did.
All of this waits for the disk.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from holdfast.engine.execution.control import Control
from holdfast.engine.files.workspaces import mark_of
from holdfast.errors import (
    ContentsDamaged,
    GitFailed,
    HoldfastError,
    NeedsAttention,
    RollbackRefused,
    SnapshotNotFound,
    StoreError,
    StoreFull,
)
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.file_history import is_elsewhere, last, last_git
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from holdfast.engine.execution.execution import Execution
    from holdfast.kernel.events import FilesPlace, GitPosition
    from holdfast.kernel.state import Saved
    from holdfast.store.port import Append
    from holdfast.workspace.git.repository import Repository
    from holdfast.workspace.workspace import Divided, Workspace

NAMED = 20
"""How many paths are named at most."""


def begin(run: Execution) -> None:
    """The run continues: what its last owner left and did not record, and what the files are now.
    What cannot be looked at stops the run: it could not be determined afterwards whose change is whose."""
    known = last(run.state.files)
    if known is None:
        return
    try:
        workspace = run.engine.files.of_run(run.state)
        with workspace.contents.hold():
            saved: list[e.FilesSaved] = []
            until = run.engine.clock.now_us() if run.was_live else run.state.seen_at
            if until and not is_elsewhere(run.state.files, run.state.steps):
                divided = divide(workspace, known.snapshot, until)
                now, base = divided.now, last_git(run.state.files)
                left = left_at(workspace, base, until)
                if divided.left != known.snapshot or left != base:
                    saved.append(save(workspace, divided.left, "stop", git=left))
            else:
                now = take(run, workspace)
            write(run, [*saved, save(workspace, now, "start", git=position_of(workspace))])
    except HoldfastError as error:
        raise unusable(run, error) from None
    run.engine.heartbeat.beat_for(run)


def take(run: Execution, workspace: Workspace) -> str:
    """Save all files as they are; warns of those that changed again and again meanwhile."""
    from holdfast.workspace.fs.beneath import shown

    snapshot = workspace.snapshot()
    for path in snapshot.unsettled[:NAMED]:
        run.engine.files.warn_once(
            f"{shown(path)} changed each time it was read: what is saved of it may be torn; a program that "
            "writes it all the time, a database for one, should stop for a checkpoint or be left out "
            "(.holdfastignore)"
        )
    return snapshot.id


@contextmanager
def look(run: Execution) -> Iterator[None]:
    """Around a look at the files and its record: no other step of this run looks meanwhile, and what bodies
    do that have not ended when it begins is for the next look."""
    with run.looking:
        begun = run.begun
        at_work = run.engine.flusher.is_busy(run)
        yield
        run.looked_after = None if at_work else begun


def may_have_written(run: Execution) -> bool:
    """Whether a body of this run was at work on the files since the last look."""
    return run.looked_after is not run.begun


def divide(workspace: Workspace, base: str, until_us: int) -> Divided:
    """The changes since `base` of a run that was last seen alive at that time.

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
    """Stop a run whose files cannot be looked at: that is for a person. A disk that is full is not: the run
    is released as it is, and continues when there is room."""
    if isinstance(error, StoreFull):
        return run.lose(error)
    if isinstance(error, RollbackRefused):
        reason = str(error)
        return run.stop(Control(NeedsAttention(run.id, reason), [c.AttendRun(error.code, reason)]))
    lost = isinstance(error, (ContentsDamaged, SnapshotNotFound))
    way = f"; {quoted(Way('fork', run.id, {'at': 'STEP'}))} makes a run that does without" if lost else ""
    reason = f"its files cannot be looked at: {error}{way}"
    return run.stop(Control(NeedsAttention(run.id, reason), [c.AttendRun(error.code, reason)]))


def save(
    workspace: Workspace, snapshot: str, place: FilesPlace, key: str = "", git: GitPosition | None = None
) -> e.FilesSaved:
    return e.FilesSaved(snapshot, place, str(workspace.root), key, git=git, mark=mark_of(workspace.root))


def write(run: Execution, saved: Sequence[e.FilesSaved]) -> None:
    """Append these snapshots. What the log cannot take stops the run as any lost append does: that it needs
    attention could not be written either."""
    entry = run.append_of([c.Record(one) for one in saved])
    try:
        run.engine.store.append(entry)
    except StoreError as error:
        raise run.lose(error) from None
    run.engine.report(entry)


class Seen(NamedTuple):
    """The files of a checkpoint."""

    snapshot: str = ""
    root: str = ""
    git: GitPosition | None = None
    mark: str = ""


@contextmanager
def stopping(run: Execution) -> Iterator[Sequence[c.Command]]:
    """The events to write at the end of a window; the snapshot is held until that is done. One that
    cannot be taken is left out: what the run did since the last one counts as that of others then."""
    silent = run.control is not None and run.control.silent
    known = last(run.state.files)
    if silent or not run.state.owner or known is None or not may_have_written(run):
        yield ()
        return
    with ExitStack() as held:
        saved: Sequence[c.Command] = ()
        try:
            workspace = run.engine.files.of_run(run.state)
            held.enter_context(workspace.contents.hold())
            snapshot, git = take(run, workspace), position_of(workspace)
            own = own_position(workspace, last_git(run.state.files), git)
            saved = (c.Record(save(workspace, snapshot, "stop", git=own)),)
            if own != git:  # the rest was done in other worktrees
                saved = (*saved, c.Record(save(workspace, snapshot, "start", git=git)))
        except HoldfastError as error:
            log = logging.getLogger("holdfast")
            log.warning("run %s stops without a snapshot of its files: %s", run.id, error)
        yield saved


@contextmanager
def at_checkpoint(run: Execution, append: Callable[[Seen], Append]) -> Iterator[Append]:
    """The append that `append` makes from a look at the files; without a root, from an empty `Seen`. The
    snapshot is held until the append is written. If the files cannot be saved, the run stops: it would
    continue without the checkpoint that it asked for."""
    if run.engine.files.root is None and not run.state.files:
        yield append(Seen())
        return
    with ExitStack() as held:
        with look(run):
            try:
                workspace = run.engine.files.of_run(run.state)
                held.enter_context(workspace.contents.hold())
                snapshot, git = take(run, workspace), position_of(workspace)
                theirs = of_others(workspace, run.state.files, git)
            except HoldfastError as error:
                raise unusable(run, error) from None
            if theirs:
                write(run, theirs)
            run.engine.heartbeat.beat_for(run)
            made = append(Seen(snapshot, str(workspace.root), git, mark_of(workspace.root)))
        yield made


def repository_of(workspace: Workspace) -> Repository:
    """The repository that the workspace is in, if there is one, and those in it as of the last snapshot."""
    from holdfast.workspace.git.repository import Repository

    return Repository(workspace.root, workspace.contents, workspace.nested_repositories())


def position_of(workspace: Workspace) -> GitPosition | None:
    """Where the repository stands that the workspace is in, also if there is none; None if there is one that
    git cannot read."""
    try:
        return repository_of(workspace).position()
    except GitFailed:
        return None


def own_position(
    workspace: Workspace, base: GitPosition | None, now: GitPosition | None
) -> GitPosition | None:
    """`now` without what other worktrees of the repository did since `base`; None if that is not known."""
    if base is None or now is None or base == now:
        return now
    try:
        return repository_of(workspace).own(base, now)
    except GitFailed:
        return None


def of_others(workspace: Workspace, files: Sequence[Saved], now: GitPosition | None) -> list[e.FilesSaved]:
    """To be written before a snapshot that has the repository at `now`: what other worktrees did to it since
    the last one."""
    known, base = last(files), last_git(files)
    own = own_position(workspace, base, now)
    if known is None or base is None or now is None or own is None or own == now:
        return []
    theirs = repository_of(workspace).with_edits(base, [(own, now)])
    return [save(workspace, known.snapshot, "start", git=theirs)]


def left_at(workspace: Workspace, base: GitPosition | None, until_us: int) -> GitPosition | None:
    """Where a run that was last seen alive then, and had found the repository at `base`, has left it; None if
    that is not known."""
    try:
        return None if base is None else repository_of(workspace).left_at(base, until_us * 1000)
    except GitFailed:
        return None
