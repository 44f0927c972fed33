"""The files of an operation: what would be restored, and restoring it (decision 0009)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from holdfast.engine.files.file_windows import divide, left_at, position_of
from holdfast.engine.files.workspaces import mark_of
from holdfast.errors import BadInput, Refused
from holdfast.kernel import events as e
from holdfast.kernel.file_history import at_point, gaps, is_elsewhere, last, last_git, since
from holdfast.kernel.operation import OperationState
from holdfast.kernel.state import Saved
from holdfast.operations import repositories
from holdfast.operations.holding import Dead
from holdfast.operations.repositories import GitBack, GitGoing
from holdfast.workspace.fs.beneath import shown

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.kernel.state import RunState
    from holdfast.operations.points import Point
    from holdfast.workspace.restoring.restore_plan import Plan
    from holdfast.workspace.workspace import Restored, Workspace

_PATIENCE_S = 10.0


class FileChange(msgspec.Struct, frozen=True):
    """A path that is restored: `added`, `removed`, `modified`, `mode` or `type`."""

    path: str
    change: str


class FileKept(msgspec.Struct, frozen=True):
    """A path that stays as it is, and why. `conflict`: the run and another both changed it since, and
    `theirs` restores it too."""

    path: str
    why: str
    conflict: bool = False


class FilesBack(msgspec.Struct, frozen=True):
    """The effects of an operation on the files, done or planned.

    root      the workspace
    snapshot  what they go back to, and `as_of` which moment of the run that is
    changes   the paths that are restored
    kept      the paths that differ and stay, with the reason
    before    the snapshot of all files just before; empty in a dry run
    rescued   a snapshot of what others wrote at the last moment, in `rescued_paths` and nowhere else; empty
              if none did
    """

    root: str
    snapshot: str
    as_of: str
    changes: tuple[FileChange, ...]
    kept: tuple[FileKept, ...]
    before: str = ""
    rescued: str = ""
    rescued_paths: tuple[str, ...] = ()

    JSON: ClassVar = {
        "root": "the workspace",
        "snapshot": "what the files are restored to",
        "as_of": "which moment of the run that is, in words",
        "changes": "the paths that are restored: `path`, and `change` (`added`, `removed`, `modified`, "
        "`mode` or "
        "`type`)",
        "kept": "the paths that differ and stay: `path`, `why`",
        "before": "the snapshot of all files just before; null in a dry run",
        "rescued": "a snapshot of what was written while this ran; null if nothing was",
        "rescued_paths": "the paths in it",
    }

    def to_json(self) -> dict[str, Any]:
        return {
            "root": self.root,
            "snapshot": self.snapshot,
            "as_of": self.as_of,
            "changes": [{"path": one.path, "change": one.change} for one in self.changes],
            "kept": [{"path": one.path, "why": one.why} for one in self.kept],
            "before": self.before or None,
            "rescued": self.rescued or None,
            "rescued_paths": list(self.rescued_paths),
        }


class Going(msgspec.Struct):
    """Files on their way back. `stop` is what a dead owner left, to be recorded with the operation."""

    workspace: Workspace
    plan: Plan
    as_of: str
    version: int
    stop: e.FilesSaved | None = None
    partial: bool = False
    git: GitGoing | None = None
    point: str = ""
    """The snapshot of the point itself, without what others did since; empty for none."""
    left_out: tuple[bytes, ...] = ()
    """Paths that stay because others would have to go for them."""
    git_stays: GitBack | None = None
    """The run's changes to the repository that stay, because `git` was not asked for."""
    point_git: e.GitPosition | None = None
    """Where the repository stood at the point."""
    left_git: e.GitPosition | None = None
    """Where the run left a repository that stays: a later `--git` still undoes that."""
    now_git: e.GitPosition | None = None
    """Where that repository is now."""
    bound: str = ""
    """The digest of the preview to which the operation is bound; empty if it is to none."""

    @property
    def is_idle(self) -> bool:
        """Nothing is to be moved."""
        return not self.plan.actions and (self.git is None or not self.git.moves)

    @property
    def stages(self) -> list[e.Event]:
        """The events to record before anything is moved."""
        return [self.planned] if self.git is None else [self.planned, self.git.planned]

    @property
    def planned(self) -> e.FilesPlanned:
        plan = self.plan
        return e.FilesPlanned(
            str(self.workspace.root),
            plan.to,
            plan.left,
            plan.now,
            self.version,
            plan.only,
            plan.theirs,
            self.partial,
            self.point,
            self.stop is not None,
            mark_of(self.workspace.root),
            plan.keep,
        )

    def note_git(self, point: e.GitPosition | None, left: e.GitPosition | None) -> None:
        """Where the repository stood at the point, and where the run left it."""
        self.point_git = point
        if self.git is None:
            self.left_git, self.now_git = left, position_of(self.workspace)

    def applied(self, before: str, after: str, rescued: str = "") -> e.FilesApplied:
        root = self.workspace.root
        return e.FilesApplied(str(root), before, after, rescued, mark_of(root))

    def report(self, done: Restored | None = None) -> FilesBack:
        actions = self.plan.actions if done is None else done.actions
        kept = self.plan.kept if done is None else done.kept
        from holdfast.workspace.restoring.restore_plan import Why

        stays = [
            FileKept(shown(one.path), one.detail or one.why.value, one.why is Why.CONFLICT) for one in kept
        ]
        stays += [FileKept(shown(path), "others are in its place now") for path in self.left_out]
        return FilesBack(
            root=str(self.workspace.root),
            snapshot=self.plan.to,
            as_of=self.as_of,
            changes=tuple(FileChange(shown(one.path), one.kind) for one in actions),
            kept=tuple(stays),
            before="" if done is None else done.before,
            rescued="" if done is None else done.rescued or "",
            rescued_paths=() if done is None else self._rescued(done),
        )

    def _rescued(self, done: Restored) -> tuple[str, ...]:
        if done.rescued is None:
            return ()
        walk = self.workspace.tree(done.rescued).walk()
        return tuple(sorted(shown(path) for path, entry in walk if not entry.is_directory))

    def refuse_unmatched(self) -> None:
        """Raises `BadInput` for patterns that no file matches, of those that are there or would come back:
        they are mistyped, and would be taken for done."""
        plan = self.plan
        if plan.only and not plan.actions and not plan.kept:
            self._refuse_unmatched(plan.only)
        if plan.keep:
            self._refuse_unmatched(plan.keep)

    def _refuse_unmatched(self, patterns: tuple[str, ...]) -> None:
        from holdfast.workspace.restoring.restore_plan import selects

        plan, matches = self.plan, selects(patterns)
        trees = (self.workspace.tree(one) for one in (plan.now, plan.to))
        if not any(matches(path) for tree in trees for path, _ in tree.walk()):
            listed = ", ".join(map(repr, patterns))
            raise BadInput(
                f"no file in {self.workspace.root} matches {listed}, and none that would come back; nothing "
                "was done"
            )

    def apply(self) -> Restored:
        """Raises `ContentsDamaged`, `RestoreUndone`, `PlanChanged`: then nothing has changed."""
        return self.workspace.apply(self.plan, partial=self.partial, bound=self.bound)

    def take_back(self, done: Restored) -> None:
        self.workspace.apply(self.workspace.plan(done.before, done.after))


def refuse_pattern(only: Sequence[str]) -> None:
    """Raises `BadWorkspace` for patterns that lead out of the workspace, before anything else is done."""
    if only:
        from holdfast.workspace.restoring.restore_plan import selects

        selects(only)


def saved_at(state: RunState, point: Point) -> Saved | None:
    """The snapshot that belongs to a point; None if nothing is known of files from it on.

    That of the moment before a step is what its first attempt found; else the last one before that moment,
    else the first there is.
    """
    if point.step is not None:
        return at_point(state.files, state.steps, point.step)
    found = [one for one in state.files if one.place == "before" and one.key == point.before]
    earlier = [one for one in state.files if one.version <= point.version]
    return next(iter(found[:1] or earlier[-1:] or state.files[:1]), None)


def point_of(run_id: str, state: RunState, point: Point) -> Saved:
    """The same. Raises `Refused` if the run has none."""
    found = saved_at(state, point)
    if found is None:
        raise Refused(
            f"run {run_id} has no snapshot of its files at {point.name}: they are saved at checkpoints and "
            "around `workspace` steps"
        )
    return found


def described(saved: Saved) -> str:
    """Which moment a snapshot is of, for people."""
    if saved.place == "checkpoint":
        return f"at {saved.key}"
    if saved.place == "taken_back":
        return f"before {saved.key}"
    if saved.key:
        return f"{saved.place} {saved.key}"
    return "when the run continued" if saved.place == "start" else "when the run stopped"


@contextmanager
def to_point(
    engine: Engine,
    state: RunState,
    point: Point,
    dead: Dead,
    *,
    only: tuple[str, ...] = (),
    keep: tuple[str, ...] = (),
    theirs: bool = False,
    partial: bool = False,
    git: bool = False,
    dry_run: bool = False,
) -> Iterator[Going | None]:
    """The files of a point, on their way; None if nothing is known of files after it. What is planned stays
    in the content store until the block ends."""
    target = saved_at(state, point)
    if target is None:
        yield None
        return
    workspace = engine.files.of(target.root, target.mark)
    with alone(workspace, dry_run), workspace.contents.hold():
        left, stop = _left(state, dead, workspace)
        later = since(state.files, target.version)
        yours = workspace.edits(gaps(later))
        plan = workspace.plan(target.snapshot, left, only, keep=keep, theirs=theirs, yours=yours)
        going = Going(workspace, plan, described(target), state.version, stop, partial, None, target.snapshot)
        left_git = last_git(later) if stop is None else stop.git
        if git:
            going.git = repositories.to_position(workspace, target, later, left_git)
        going.note_git(target.git, left_git)
        if not git and not only:
            going.git_stays = repositories.stays(workspace, target, later, left_git)
        yield going


@contextmanager
def to_before(
    engine: Engine,
    state: RunState,
    operation: OperationState,
    dead: Dead,
    *,
    partial: bool = False,
    dry_run: bool = False,
) -> Iterator[Going | None]:
    """The files as they were before an operation, on their way; None if it moved none."""
    done, planned = operation.applied, operation.planned
    if done is None or planned is None:
        yield None
        return
    workspace = engine.files.of(done.root, done.mark)
    with alone(workspace, dry_run), workspace.contents.hold():
        left, stop = done.after, None
        later = _after(operation, done, planned, state.files)
        if len(later) > 1:
            left, stop = _left(state, dead, workspace)
        yours = workspace.edits(gaps(later))
        plan = workspace.plan(done.before, left, planned.only, yours=yours)
        back = repositories.to_before(workspace, operation, later, dead)
        yield Going(workspace, plan, f"before {operation.kind}", state.version, stop, partial, back)


def _after(
    operation: OperationState, done: e.FilesApplied, planned: e.FilesPlanned, saved: Sequence[Saved]
) -> list[Saved]:
    """The files as an operation left them, and what the run has recorded of them since.

    A rewind begins its generation with snapshots of its own, up to a `start` (`came_back`): what lies between
    them belonged to others before it, and is no reason to keep anything from going back to that.
    """
    later = [one for one in saved if one.version > planned.version]
    own = 0
    if operation.opened >= 0 and planned.point:
        own = next(n for n, one in enumerate(later, 1) if one.place == "start")
    git = None if operation.git_applied is None else operation.git_applied.after
    return [Saved(planned.version, done.after, done.root, "stop", git=git), *later[own:]]


def _left(state: RunState, dead: Dead, workspace: Workspace) -> tuple[str, e.FilesSaved | None]:
    """As the run left its files. One that died did not record it: it is added, and to be recorded."""
    known = last(state.files)
    assert known is not None, "a run that has a point has a last one"
    if not dead.seen_at or is_elsewhere(state.files, state.steps):
        return known.snapshot, None
    left = divide(workspace, known.snapshot, dead.seen_at).left
    git = left_at(workspace, last_git(state.files), dead.seen_at)
    return left, stopped(workspace, left, state.generation, git)


def stopped(
    workspace: Workspace, snapshot: str, generation: int, git: e.GitPosition | None = None
) -> e.FilesSaved:
    root = workspace.root
    return e.FilesSaved(snapshot, "stop", str(root), generation=generation, git=git, mark=mark_of(root))


def came_back(going: Going, after: str, generation: int, git: e.GitPosition | None = None) -> list[e.Event]:
    """For the generation that a rewind opens: its files are those of the point, and what differs from that is
    theirs. `git` is where the repository went; if it stays, what the run did to it comes between."""
    workspace, point = going.workspace, going.point
    found = [stopped(workspace, point, generation, going.point_git)]
    if going.left_git is not None:
        found.append(stopped(workspace, point, generation, going.left_git))
    start = stopped(workspace, after, generation, going.now_git if git is None else git)
    return [*found, msgspec.structs.replace(start, place="start")]


@contextmanager
def alone(workspace: Workspace, dry_run: bool = False) -> Iterator[None]:
    """No step works on these files. Raises `Refused` if one does for long."""
    with ExitStack() as held:
        deadline = time.monotonic() + _PATIENCE_S
        while not dry_run and not workspace.try_to_work(held):
            if time.monotonic() > deadline:
                raise Refused(
                    f"a step of another run works on the files in {workspace.root} now; wait for its end, or "
                    "pause that run"
                )
            time.sleep(0.05)
        yield
