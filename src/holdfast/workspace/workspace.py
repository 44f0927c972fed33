"""A workspace: a directory whose files can be saved and restored."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast import file_lock
from holdfast.errors import ContentsDamaged, PlanChanged, RestoreUndone, WorkspaceError
from holdfast.project import LARGEST_IGNORED, checked_workspace
from holdfast.workspace.contents import store_files
from holdfast.workspace.contents.content_store import Contents
from holdfast.workspace.contents.refs import Ref
from holdfast.workspace.fs import beneath
from holdfast.workspace.fs.workspace_identity import Identity
from holdfast.workspace.restoring.moves import journal_of
from holdfast.workspace.restoring.rescues import Rescues
from holdfast.workspace.restoring.restore import Disturbed, Restore, Rewritten
from holdfast.workspace.restoring.restore_journal import JournalFile, Phase
from holdfast.workspace.restoring.restore_plan import Kept, Plan, Planner, Why
from holdfast.workspace.snapshots import changes, scan_index, snapshot, snapshot_edit
from holdfast.workspace.snapshots.changes import Change
from holdfast.workspace.snapshots.coverage import Coverage
from holdfast.workspace.snapshots.listing import Entry
from holdfast.workspace.snapshots.scan import Progress, Scan
from holdfast.workspace.snapshots.scan_index import Index, Sightings, signature
from holdfast.workspace.snapshots.snapshot import Snapshot, Tree
from holdfast.workspace.snapshots.snapshot_edit import NO_EDITS, Edits

_MOMENT_S = 10.0
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore."""

    before: str
    """The snapshot of all files just before it: going back to it takes the restore back."""
    actions: tuple[Change, ...]
    kept: tuple[Kept, ...]
    rescued: str | None
    """A snapshot of what others wrote while it ran, or while one before it did that was never reported; it is
    not in the tree. `Workspace.rescues.noted` confirms that a log names it."""
    unreachable: tuple[bytes, ...]
    """Paths in directories that others moved away while it ran."""
    after: str
    """The snapshot of the files after the restore."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """How an interrupted restore ended."""

    finished: bool
    """The files are the new ones; otherwise they are the old ones."""
    rescued: str | None
    unreachable: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Divided:
    """`left` has only the changes that are ours, `now` has all."""

    left: str
    now: str


class Workspace:
    """The files beneath `root`; everything that is kept of them lies in `directory`, a part of `store`.

    Several processes may use the same workspace and the same directory at once. Raises BadWorkspace for a
    root that no tool should put files back into.
    """

    def __init__(
        self,
        root: Path,
        directory: Path,
        *,
        store: Path | None = None,
        largest_ignored: int = LARGEST_IGNORED,
        progress: Progress | None = None,
    ) -> None:
        self._store = store or directory
        self.root = checked_workspace(root, self._store)
        self._directory = directory
        self._largest_ignored = largest_ignored
        self._progress = progress
        self.contents = Contents(directory)
        self._identity = Identity(self.root, directory)
        name = self._identity.name
        self._index_path = directory / f"index-{name}"
        self._lock_path = directory / f"restore-{name}.lock"
        self._work_path = directory / f"work-{name}.lock"
        self._journal = JournalFile(directory / f"restore-{name}")
        self.rescues = Rescues(self.contents, directory, name)
        self._index: Index | None = None
        self._seen: Sightings | None = None
        self._mutex = threading.RLock()

    def close(self) -> None:
        self.contents.close()

    # Saving

    def snapshot(self) -> Snapshot:
        """Save all covered files → the snapshot, which lasts from then on.

        Hold `contents.hold()` around this and whatever refers to the snapshot: nothing holds on to it before.
        """
        with self._undisturbed(), self.contents.hold():
            return self._snapshot()

    def _snapshot(self) -> Snapshot:
        root = os.fsencode(self.root)
        began = time.monotonic()
        generation = self.contents.generation
        old, self._index = (
            self._index or scan_index.load(self._index_path),
            None,
        )  # a scan that fails spoils it
        known = None
        if old is not None and (old.generation != generation or Ref(old.snapshot) not in self.contents):
            known = self.contents.here
        try:
            rules = Coverage(root, self._store, self._largest_ignored)
            try:
                with self.contents.writing() as batch:
                    scan = Scan(root, rules, batch, old, known, self._progress)
                    seen = scan.run()
                    if seen.fresh or old is None:
                        ref = snapshot.write(batch.put, Entry(seen.root[0], Ref(seen.records[0].listing)))
                    else:
                        ref = Ref(old.snapshot)
                git_state = scan.git_state(seen.records)
            finally:
                rules.close()
        except OSError as exc:
            raise WorkspaceError(f"the workspace {self.root} cannot be read ({exc.strerror or exc})") from exc
        if seen.fresh or old is None:
            self._index = scan_index.make(seen.root, generation, rules.digest, git_state, ref, seen.records)
            with store_files.errors_of(self._directory):
                scan_index.save(self._index_path, self._index)
        else:
            self._index = old
        self._seen = Sightings(self._index, began)
        return snapshot.describe(ref, seen.records, seen.unsettled)

    def nested_repositories(self) -> list[bytes]:
        """The directories of git repositories beneath the root, as the last snapshot saw them."""
        seen = self._index or scan_index.load(self._index_path)
        records = () if seen is None else seen.records
        return [record.path for record in records if record.path and b".git" in record.uncovered]

    # Comparing

    def diff(self, before: str, after: str | None = None) -> Iterator[Change]:
        """The differences between two snapshots, or between one and the files as they are."""
        return changes.between(self.tree(before), self.tree(after or self.snapshot().id))

    def text_diff(self, change: Change, redact: Callable[[str], str] = str) -> str:
        """One change as a unified diff of what `redact` leaves of both sides."""
        return changes.unified(self.contents, change, redact)

    def edits(self, pairs: Iterable[tuple[str, str]]) -> dict[bytes, Entry | None]:
        """The entry of each path after the changes of each pair, first to second; the last counts."""
        return {
            change.path: change.after
            for before, after in pairs
            for change in changes.between(self.tree(before), self.tree(after))
        }

    def edited(self, base: str, edits: Edits) -> str:
        """A snapshot that is `base` but for `edits`."""
        return snapshot_edit.edited(self.contents, self.tree(base), edits, self.tree(base))

    def outcome(
        self,
        to: str,
        left: str,
        now: str,
        only: Sequence[str] = (),
        *,
        keep: Sequence[str] = (),
        theirs: bool = False,
    ) -> str:
        """The files as they would be after such a plan, had they been `now`."""
        plan = self._plan(to, left, now, tuple(only), theirs, keep=tuple(keep))
        edits = {action.path: action.after for action in plan.actions}
        return snapshot_edit.edited(self.contents, self.tree(now), edits, self.tree(to))

    def divide(self, base: str, is_ours: Callable[[bytes, os.stat_result | None], bool]) -> Divided:
        """Take a snapshot, and separate our changes since `base` from others: `is_ours` is asked of each
        path, with its status if it is still there."""
        with self.contents.hold():
            now = self.snapshot().id
            ours = {
                change.path: change.after
                for change in changes.between(self.tree(base), self.tree(now))
                if is_ours(change.path, self._status(change.path))
            }
            left = snapshot_edit.edited(self.contents, self.tree(base), ours, self.tree(now))
            return Divided(left, now)

    def _status(self, path: bytes) -> os.stat_result | None:
        try:
            return os.lstat(os.path.join(os.fsencode(self.root), path))
        except OSError:
            return None

    # Putting back

    def plan(
        self,
        to: str,
        left: str,
        only: Sequence[str] = (),
        *,
        keep: Sequence[str] = (),
        theirs: bool = False,
        yours: Edits = NO_EDITS,
    ) -> Plan:
        """The plan that restores the snapshot `to` in what the run did until `left`.

        `only` restricts it to paths that match, as in .gitignore; those that match `keep` stay as they are.
        What the run and others both changed
        is kept, unless `theirs`; so is what others did before the run's last change (`yours`): it goes
        back to that. Saves all files first, and changes none.
        """
        with self.contents.hold():
            now = self.snapshot().id
            if theirs or not yours:
                return self._plan(to, left, now, tuple(only), theirs, keep=tuple(keep))
            kept = snapshot_edit.edited(self.contents, self.tree(to), yours, self.tree(now))
            return self._plan(kept, left, now, tuple(only), theirs, frozenset(yours), tuple(keep))

    def _plan(
        self,
        to: str,
        left: str,
        now: str,
        only: tuple[str, ...],
        theirs: bool,
        yours: frozenset[bytes] = frozenset(),
        keep: tuple[str, ...] = (),
    ) -> Plan:
        planner = Planner(
            self.contents,
            *(self.tree(one) for one in (to, left, now)),
            only=only,
            keep=keep,
            theirs=theirs,
            folds_case=_folds_case(self.root),
        )
        actions, kept = planner.run()
        stays = [Kept(path, Why.YOURS) for path in sorted(yours) if planner.is_back(path)]
        return Plan(to, left, now, only, theirs, actions, (*kept, *stays), yours, keep)

    def apply(self, plan: Plan, *, partial: bool = False, bound: str = "") -> Restored:
        """Do what a plan says; if files changed since, what it would say now. `bound` is the digest of the
        operation that may do this and nothing else.

        All of it or nothing: after a crash the next one who uses the workspace finishes or undoes it.
        Raises ContentsDamaged, before anything has changed, if a content is missing or damaged, unless it may
        be `partial`; RestoreUndone if it could not be done and was rolled back; PlanChanged if it is `bound`
        and would do something else now.
        """
        with self._exclusively(), self.contents.hold():
            self._recover()
            now = plan.now if self._is_still(plan) else self._snapshot().id
            for _ in range(_ATTEMPTS):
                if now != plan.now:
                    fresh = self._plan(plan.to, plan.left, now, plan.only, plan.theirs, plan.yours, plan.keep)
                    if bound and (changed := dict(plan.doing).items() ^ dict(fresh.doing).items()):
                        paths = sorted({beneath.shown(path) for path, _ in changed})
                        raise PlanChanged(bound, paths=paths)
                    plan = fresh
                try:
                    return self._apply(plan, partial)
                except Rewritten as exc:
                    rewritten = exc
                    now = self._snapshot_with(plan)
            raise RestoreUndone(_cause(rewritten), []) from rewritten

    def _snapshot_with(self, plan: Plan) -> str:
        """A snapshot for which all files that a plan would take away are read, whatever their times say."""
        assert self._index is not None, "a snapshot was just taken"
        scan_index.distrust(
            self._index, (one.path for one in plan.actions if one.before and one.before.is_file)
        )
        return self._snapshot().id

    def _apply(self, plan: Plan, partial: bool) -> Restored:
        """Do what a plan says that was made for the files as they are. Raises Rewritten if they are not."""
        if plan.damaged and not partial:
            raise ContentsDamaged([beneath.shown(path) for path in plan.damaged])
        if not plan.actions:
            return Restored(plan.now, (), plan.kept, self.rescues.add({}), (), plan.now)
        with self._open_root() as root:
            restore = self._begin(root, plan)
            self._carry_out(restore, partial)
            damaged = set(restore.damaged)
            done = tuple(action for action in plan.actions if action.path not in damaged)
            after = self._after(plan, done)
            rescued = self.rescues.add(restore.rescued)
            return Restored(plan.now, done, plan.kept, rescued, tuple(restore.unreachable), after)

    def recover(self) -> Recovered | None:
        """Finish or undo the restore that a crash interrupted; None if there was none.

        Every other method does this first, so calling it is only needed for its report.
        """
        with self._exclusively(), self.contents.hold():
            return self._recover()

    def _after(self, plan: Plan, done: tuple[Change, ...]) -> str:
        """The snapshot that the files are when a plan, or some of its actions, are done."""
        if done == plan.actions and not plan.kept and not plan.only:
            return plan.to
        edits = {action.path: action.after for action in done}
        return snapshot_edit.edited(self.contents, self.tree(plan.now), edits, self.tree(plan.to))

    def _is_still(self, plan: Plan) -> bool:
        """Whether the snapshot of a plan was taken a moment ago, and every path that it would touch is as it
        was: another look at all files would find nothing more."""
        seen = self._seen
        if seen is None or seen.index.snapshot != bytes.fromhex(plan.now) or plan.kept:
            return False
        if time.monotonic() - seen.since > _MOMENT_S or seen.index.generation != self.contents.generation:
            return False
        root = os.fsencode(self.root)
        for action in plan.actions:
            try:
                there = signature(os.lstat(os.path.join(root, action.path)))
            except (FileNotFoundError, NotADirectoryError):
                there = None
            except OSError:
                return False
            if there != (seen.of(action.path) if action.before else None):
                return False
        return True

    def _begin(self, root: int, plan: Plan) -> Restore:
        assert self._seen is not None, "a snapshot was just taken"
        journal = journal_of(plan.actions, self._seen, secrets.token_hex(4))
        return Restore(root, self.contents, self._journal, journal)

    def _carry_out(self, restore: Restore, partial: bool) -> None:
        try:
            self._identity.record()
            restore.stage(partial=partial)
            restore.apply()
        except (ContentsDamaged, Disturbed, OSError) as exc:
            with self._getting_on():
                restore.give_up()
            if isinstance(exc, ContentsDamaged) or (isinstance(exc, Rewritten) and not restore.unreachable):
                raise
            unreachable = [beneath.shown(path) for path in restore.unreachable]
            raise RestoreUndone(_cause(exc), unreachable) from exc
        with self._getting_on():
            restore.tidy()

    @contextmanager
    def _getting_on(self) -> Iterator[None]:
        """A failure inside leaves the journal, and the next opening continues from there."""
        try:
            yield
        except OSError as exc:
            raise WorkspaceError(
                f"a restore of {self.root} can be neither finished nor undone yet "
                f"({_cause(exc)}); put that right and try again"
            ) from exc

    def _recover(self) -> Recovered | None:
        journal = self._journal.read()
        if journal is None:
            return None
        with self._open_root() as root:
            restore = Restore(root, self.contents, self._journal, journal)
            with self._getting_on():
                self._identity.record()
                restore.recover()
            finished = restore.journal.phase is Phase.DONE
            return Recovered(finished, self.rescues.add(restore.rescued), tuple(restore.unreachable))

    @contextmanager
    def _open_root(self) -> Iterator[int]:
        """The root, if it is still the directory that this workspace was opened with."""
        try:
            fd = os.open(self.root, beneath.FLAGS)
        except OSError as exc:
            raise WorkspaceError(f"the workspace {self.root} is gone ({exc.strerror}); open it anew") from exc
        try:
            if not self._identity.is_of(os.fstat(fd)):
                raise WorkspaceError(f"the workspace {self.root} is another directory now; open it anew")
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        """No other process restores or looks at these files."""
        with self._mutex, file_lock.held(self._lock_path):
            yield

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """No restore runs, and none is left half done."""
        with self._mutex:
            while True:
                with file_lock.held(self._lock_path, shared=True):
                    if not self._journal.exists():
                        yield
                        return
                self.recover()

    # Working

    def try_to_work(self, until: ExitStack) -> bool:
        """Lock these files until the stack is closed; False if another process has the lock."""
        with store_files.errors_of(self._directory), ExitStack() as stack:
            if not stack.enter_context(file_lock.tried(self._work_path)):
                return False
            self._work_path.write_text(str(os.getpid()))
            until.push(stack.pop_all())
            return True

    def worker(self) -> int:
        """The process that works on these files, or did so last; 0 if it is not known."""
        try:
            return int(self._work_path.read_text())
        except (OSError, ValueError):
            return 0

    def forget(self) -> None:
        """Remove what was noted about these files; the contents stay. For a root that is not used again."""
        self.close()
        for path in (self._index_path, self._lock_path, self._work_path):
            path.unlink(missing_ok=True)
        self.rescues.forget()
        self._identity.forget()

    def put_into(self, snapshot_id: str) -> Restored:
        """Make this workspace, empty or not, what the snapshot is; what is in the way goes."""
        with self.contents.hold():
            now = self.snapshot().id
            return self.apply(self._plan(snapshot_id, now, now, (), False))

    # Care

    def tree(self, snapshot_id: str) -> Tree:
        """The files of a snapshot. Raises SnapshotNotFound."""
        return Tree(self.contents, snapshot_id)


def _folds_case(root: Path) -> bool:
    """Whether names that differ only in case are the same here, judged by the root's own."""
    other = root.with_name(root.name.swapcase())
    return other.name != root.name and other.exists() and other.samefile(root)


def _cause(exc: Exception) -> str:
    if isinstance(exc, OSError) and exc.strerror:
        name = exc.filename
        return f"{exc.strerror}: {beneath.shown(os.fsencode(name))}" if name else exc.strerror
    return str(exc)
