"""`workspace` steps: alone on their files, and each attempt from the same files.

    lock ─▶ roll back an earlier attempt ─▶ `before` ─▶ BODY ─▶ `after` ─▶ record ─▶ unlock

An attempt is rolled back with what it did to the git repository (`git_rollback`), if that counts as its own.
`before` goes to the log with the intent, `after` with the result, or earlier with an append of another step.
An isolated step works in a copy instead; only to bring its changes into the root does it need the lock.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import stat
import threading
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.engine.execution.call import Body, Call, Outcome, Pause, Request
from holdfast.engine.execution.control import Control
from holdfast.engine.execution.scope import current
from holdfast.engine.files import file_windows, git_rollback
from holdfast.engine.files.copied_links import CopiedLinks
from holdfast.engine.files.git_rollback import Attempt, RolledBack
from holdfast.errors import BadInput, BadWorkspace, HoldfastError, StoreError, WorkspaceConflict
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.file_history import last, last_git
from holdfast.workspace.fs.beneath import shown

if TYPE_CHECKING:
    from holdfast.kernel.events import GitPosition
    from holdfast.kernel.state import Saved
    from holdfast.workspace.workspace import Workspace

INSIDE = "HOLDFAST_STEP_ROOT"
"""Set for a command that works on that root: another such step in there would wait for it for ever."""
_LOCK_AT_FIRST_S = 0.02
_LOCK_AT_MOST_S = 0.5
_LONG_S = 5.0
_LONG_HERE_S = 30.0
"""Steps of one process take turns as a matter of course; one that waits for the step around it never ends."""


def enter(call: Call) -> Generator[Request, Outcome | None, None]:
    """Before a `workspace` step: have its files alone, as an earlier attempt found them."""
    run = call.execution
    try:
        guard = call.guard = Guard(call)
        if not guard.isolated or call.key in {saved.key for saved in run.state.files}:
            yield from _alone(call, guard)
        entered = yield Body(lambda *_, **__: guard.enter(), None)
    except HoldfastError as error:
        raise file_windows.unusable(run, error) from None
    assert entered is not None
    if isinstance(entered.error, HoldfastError):
        raise file_windows.unusable(run, entered.error) from None
    if entered.error is not None:
        raise entered.error


def leave(call: Call, guard: Guard, outcome: Outcome) -> Generator[Request, Outcome | None, Outcome]:
    """After its body, however that ended: what it has made of the files."""
    if isinstance(outcome.error, Control) or not isinstance(outcome.error, (Exception, type(None))):
        return outcome  # the run stops, and says what the files are then
    if guard.isolated and outcome.error is None:
        yield from _alone(call, guard)
    failed = outcome.error is not None
    left = yield Body(lambda *_, **__: guard.leave(failed), None)
    assert left is not None
    return outcome if left.error is None or failed else left


def _alone(call: Call, guard: Guard) -> Generator[Request, Outcome | None, None]:
    """Wait until no other process works on the files, without holding a thread."""
    clock = call.execution.engine.clock
    began, pause = clock.monotonic(), _LOCK_AT_FIRST_S
    while not guard.lock(clock.monotonic() - began):
        yield Pause(None, pause)  # by real time: the work on them takes that, whatever the run's clock says
        pause = min(pause * 1.5, _LOCK_AT_MOST_S)


class Guard:
    """One attempt of a `workspace` step. `close` lets go of everything, however it ended."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._run = call.execution
        self._spec = call.spec
        self._workspace: Workspace = self._run.engine.files.of_run(self._run.state)
        self._root = str(self._workspace.root)
        if not self.isolated and (os.environ.get(INSIDE) == self._root or self._is_inside_another()):
            raise BadWorkspace(
                f"step {call.key} works on {self._root}, and so does the step that runs it and waits for it: "
                "isolate it, or give it the effect idempotent"
            )
        self._before = ""
        self._git: GitPosition | None = None
        self._copy: Workspace | None = None
        self._links: CopiedLinks | None = None
        self._lock = ExitStack()
        self._locked = False
        self._hold = ExitStack()
        self._has_warned = False
        self._rescued: str | None = None
        """Files that were written during a restore and saved aside, until the log names them."""

    def _is_inside_another(self) -> bool:
        """Whether a step of this process that has these files alone runs the run of this one."""
        around = self._run.around
        while isinstance(around, Call):
            if around.guard is not None and around.guard._root == self._root and not around.guard.isolated:
                return True
            around = around.execution.around
        return False

    @property
    def isolated(self) -> bool:
        return self._spec.isolate == "copy"

    @property
    def path(self) -> Path:
        """Where the step's files are."""
        return self._workspace.root if self._copy is None else self._copy.root

    @property
    def environment(self) -> dict[str, str]:
        """Variables for the command. In a copy, git must not find the repository around it."""
        if self._copy is None:
            return {INSIDE: self._root}
        return {"GIT_CEILING_DIRECTORIES": str(self._copy.root.parent)}

    def inside(self, where: str) -> str:
        """The same directory among the step's files; one outside the workspace stays what it is."""
        path = Path(where).resolve()
        if self._copy is None or not path.is_relative_to(self._workspace.root):
            return where
        return str(self._copy.root / path.relative_to(self._workspace.root))

    def lock(self, waited_s: float) -> bool:
        """Take the lock of these files, if no other process has it; never waits. A long wait is reported."""
        if not self._locked:
            self._locked = self._workspace.try_to_work(self._lock)
        who = self._workspace.worker()
        ours = who == os.getpid()
        if not self._locked and waited_s > (_LONG_HERE_S if ours else _LONG_S) and not self._has_warned:
            self._has_warned = True
            does = "another step of this process does" if ours else f"process {who} does"
            logging.getLogger("holdfast").warning(
                "step %s has waited for %d s to work on %s: %s", self._call.key, waited_s, self._root, does
            )
        return self._locked

    def begun(self) -> None:
        """The log names the snapshots that were taken: they need not be held any more."""
        self._hold.close()
        self._note_rescued()

    def _note_rescued(self) -> None:
        self._workspace.rescues.noted(self._rescued)
        self._rescued = None

    def close(self) -> None:
        self._hold.close()
        if self._run.control is None:
            self._note_rescued()
        self._lock.close()
        if self._copy is not None:  # a cut-off attempt; removing many files takes a while
            try:
                threading.Thread(target=self._drop_copy, name="holdfast-copy", daemon=True).start()
            except RuntimeError:  # no thread is left, or the interpreter ends
                self._drop_copy()

    # Before the body

    def enter(self) -> None:
        """Raises `HoldfastError`: then the body must not run."""
        self._hold.enter_context(self._workspace.contents.hold())
        self._tidy_git()
        self._run.engine.heartbeat.beat_for(self._run)
        with file_windows.look(self._run):
            self._look_before()
        if self.isolated:
            self._make_copy()

    def _look_before(self) -> None:
        now, git = file_windows.take(self._run, self._workspace), file_windows.position_of(self._workspace)
        self._note(self._of_others(now, git))
        attempt = self._earlier_attempt()
        if attempt is not None:
            taken = self._take_back(attempt)
            self._note([taken])
            now, git = taken.snapshot, taken.git
        self._before, self._git = now, git
        before = file_windows.save(self._workspace, now, "before", self._call.key, git)
        self._note([replace(before, isolated=self.isolated)])

    def _note(self, saved: Sequence[e.FilesSaved]) -> None:
        for one in saved:
            self._run.note(c.Record(one))

    def _of_others(self, now: str, git: GitPosition | None) -> list[e.FilesSaved]:
        """Changes of others since the last snapshot of the run: all changes, if nothing of the run
        was at work in the root; else only what other worktrees did to the repository."""
        files = self._run.state.files
        known = last(files)
        if file_windows.may_have_written(self._run) or known is None:
            return file_windows.of_others(self._workspace, files, git)
        if known.snapshot == now and not self._moved_on(git):
            return []
        return [file_windows.save(self._workspace, now, "start", git=git)]

    def _tidy_git(self) -> None:
        """A git that was killed with an earlier attempt has left its locks: the next one would fail at them
        for ever."""
        if not self.isolated and any(one.key == self._call.key for one in self._run.state.files):
            git_rollback.remove_locks(self._workspace)

    def _moved_on(self, git: GitPosition | None) -> bool:
        """Whether the repository is elsewhere than the run knows it to be. The index is not compared: it
        also changes by `git status`."""
        known = last_git(self._run.state.files)
        if git is None or known is None:
            return False
        return replace(git, index="", index_time=0) != replace(known, index="", index_time=0)

    @property
    def _owns_git(self) -> bool:
        """Whether what happens to the repository counts as the step's: not in a copy, where there is none,
        and not if the step says that it writes something else."""
        if self.isolated or not self._spec.writes:
            return not self.isolated
        from holdfast.workspace.restoring.restore_plan import selects

        return selects(self._spec.writes)(b".git/HEAD")

    def _earlier_attempt(self) -> Attempt | None:
        """The attempt to roll back, if there is one and its changes are not to be kept."""
        key = self._call.key
        attempt = _last_attempt(self._run.state.files, key, self.isolated)
        if attempt is None or attempt[0].version <= self._run.keeps_until:
            return None
        return Attempt(self._run.id, key, *attempt)

    def _take_back(self, attempt: Attempt) -> e.FilesSaved:
        """Roll back what the last attempt did: what differs between its `before` and how it left the files,
        where the step says that it writes. Every later change stays.

        The repository comes first: what cannot be rolled back there leaves the files as they are."""
        git = RolledBack()
        if self._owns_git:
            git = git_rollback.roll_back(self._workspace, attempt)
        plan = self._workspace.plan(attempt.before.snapshot, attempt.left.snapshot, self._spec.writes)
        done = self._workspace.apply(plan)
        self._rescued = done.rescued
        position = file_windows.position_of(self._workspace)
        taken = file_windows.save(self._workspace, done.after, "taken_back", attempt.key, position)
        kept = tuple(shown(one.path) for one in done.kept[: file_windows.NAMED])
        return replace(
            taken, instead_of=done.before, changes=len(done.actions), kept=kept,
            rescued=done.rescued or "", refs=git.names[: file_windows.NAMED], tips=git.tips,
        )  # fmt: skip

    def _make_copy(self) -> None:
        from holdfast.workspace.snapshots.snapshot import Tree
        from holdfast.workspace.workspace import Workspace

        name = hashlib.sha256(f"{self._run.id}/{self._call.key}".encode()).hexdigest()[:16]
        copies = self._run.engine.files.copies
        copies.mkdir(mode=0o700, exist_ok=True)
        path = copies / name
        remove_copy(path)  # of an attempt that was cut off
        path.mkdir(mode=0o700)
        self._copy = Workspace(path, self._run.engine.files.directory)
        self._copy.put_into(self._before)
        tree = Tree(self._copy.contents, self._before)
        self._links = CopiedLinks(self._workspace.root, self._copy.root)
        self._links.lead_in(one for one, entry in tree.walk() if entry.is_link)
        for one in self._links.left:
            self._run.engine.files.warn_once(
                f"step {self._call.key} is not isolated behind the link {shown(one)}: it leads into "
                f"{self._root}, and its directory cannot be written"
            )

    def _drop_copy(self) -> None:
        copy, self._copy = self._copy, None
        if copy is not None:
            copy.forget()
            remove_copy(copy.root)

    # After it

    def leave(self, failed: bool) -> None:
        """Look at what the body has done. What a failed one did in a copy is left there. Raises
        `HoldfastError`."""
        if self._call.overdue is not None:
            self._call.overdue.join()  # it took too long, and still writes
        self._hold.enter_context(self._workspace.contents.hold())
        if self._copy is None:
            with file_windows.look(self._run):
                self._look_after()
        elif not failed:
            if self._links is not None:
                self._links.lead_back()
            done = self._copy.snapshot().id
            with file_windows.look(self._run):
                self._bring_back(done)
        self._drop_copy()

    def _look_after(self) -> None:
        if self._spec.writes:
            from holdfast.workspace.restoring.restore_plan import selects

            writes = selects(self._spec.writes)
            divided = self._workspace.divide(self._before, lambda path, _: writes(path))
            self._saved(divided.left, divided.now)
        else:
            now = file_windows.take(self._run, self._workspace)
            self._saved(now, now)

    def _bring_back(self, done: str) -> None:
        """The changes that made `done` of the copy, into the root, as one. Raises `WorkspaceConflict` if
        one of these paths was changed meanwhile; then nothing is brought."""
        from holdfast.workspace.restoring.restore_plan import Why

        plan = self._workspace.plan(done, self._before)
        clashes = [kept.path for kept in plan.kept if kept.why not in (Why.YOURS, Why.UNKNOWN)]
        if clashes:
            raise WorkspaceConflict(self._call.key, [shown(path) for path in clashes])
        git = file_windows.position_of(self._workspace)
        # Cut off from here to the record of the result, it must be undone before it runs again.
        brings = file_windows.save(self._workspace, done, "brought", self._call.key)
        file_windows.write(self._run, [*self._of_others(plan.now, git), brings])
        brought = self._workspace.apply(plan)
        self._rescued = brought.rescued
        after = file_windows.save(self._workspace, brought.after, "after", self._call.key, git)
        self._note([replace(after, rescued=self._rescued or "", isolated=True)])

    def _saved(self, ours: str, now: str) -> None:
        git = file_windows.position_of(self._workspace)
        own = file_windows.own_position(self._workspace, self._git, git) if self._owns_git else self._git
        after = file_windows.save(self._workspace, ours, "after", self._call.key, own)
        self._note([replace(after, rescued=self._rescued or "")])
        if now != ours or git != own:  # the rest is not the run's
            self._note([file_windows.save(self._workspace, now, "start", git=git)])


def _last_attempt(saved: Sequence[Saved], key: str, isolated: bool) -> tuple[Saved, Saved] | None:
    """The files before the last attempt of a step, and as it left them; None if there is nothing of it.

    An isolated one has changed files only if its changes were being brought into the root.
    """
    own = [n for n, one in enumerate(saved) if one.key == key and one.place == "before"]
    if not own:
        return None
    for one in saved[own[-1] :]:
        ended = one.key == key and one.place in ("brought", "after")
        if ended or (one.place == "stop" and not isolated):
            return saved[own[-1]], one
    return None


def remove_copy(directory: Path) -> None:
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


def workspace_path() -> Path:
    """Where the files of the step are whose body asks: the workspace, or the copy that it works in."""

    inside = current.get()
    if not isinstance(inside, Call) or inside.guard is None:
        raise BadInput("workspace_path() is known only inside the body of a step with effect='workspace'")
    return inside.guard.path
