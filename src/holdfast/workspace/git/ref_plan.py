"""The plan of a restore in git, ref by ref, before anything is done.

As with files, three positions decide about each ref: `to`, the one to go back to; `left`, as the run left the
repository; `now`. What is now as the run left it goes back; what others moved since stays, named.

HEAD goes back only to where it was, commit included, and the index only with it: otherwise the index of one
commit would lie upon another, and the next commit would undo the work of others. The files of a merge or a
rebase in progress go back as one, with HEAD. Nothing at all is moved while another process has begun one, and
no ref goes back over commits that a remote has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

from holdfast.kernel.events import GitPosition
from holdfast.workspace.git.index_file import GitIndex
from holdfast.workspace.git.program import run
from holdfast.workspace.git.ref_list import (
    STASH,
    GitRefs,
    Stashed,
    checked_out_elsewhere,
    is_object,
    is_symbolic,
    missing,
    parents,
)
from holdfast.workspace.git.unfinished import GitProgress, is_on_the_way

HEAD = "HEAD"
INDEX = "index"
IndexFate: TypeAlias = Literal["same", "back", "kept"]


class GitWhy(Enum):
    """Why a ref, HEAD, the stash or the index is kept as it is."""

    YOURS = "changed by others, not by the run"
    CONFLICT = "changed by the run and by others since"
    PUSHED = "a remote has commits that would be dropped"
    MISSING = "what it was then is no longer in the repository"
    BROKEN = "damaged; remove it and go back again"
    SYMBOLIC = "a symbolic ref"
    ELSEWHERE = "checked out in another worktree"
    OCCUPIED = "another ref is in the way of its name"
    REMOTE = "follows a remote; git fetch brings it back"
    AWAY = "its branch is not where it was then"
    HEAD = "HEAD stays on it"
    BUSY = "something is in progress; end it and go back again"
    UNFINISHED = "was in progress then, which cannot be brought back"
    NESTED = "a repository inside the workspace, whose HEAD the run moved; go back there with git"
    MADE = "a repository inside the workspace, which the run made; remove it if it is not needed"


_HARMLESS = (GitWhy.YOURS, GitWhy.REMOTE, GitWhy.SYMBOLIC)
"""Refs that the run did not change, or that no later command depends on."""


@dataclass(frozen=True, slots=True)
class GitMove:
    """A ref from object to object, "" for none; for HEAD also a branch."""

    ref: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class GitKept:
    """An item that stays as it is, though it differs from `to`: a ref, `HEAD`, `index`, or the name of an
    operation in progress."""

    ref: str
    why: GitWhy
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PushedCommit:
    """A commit that going back would drop, and a remote-tracking ref that has it."""

    commit: str
    subject: str
    remote: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A ref that does not go back, because of commits that were pushed; newest first."""

    ref: str
    commits: tuple[PushedCommit, ...]
    revert: str
    """The command that reverts them by new commits; "" if the ref did not exist then."""


@dataclass(frozen=True, slots=True)
class StashMove:
    """Entries that leave the stash, newest first, and entries that return to it, oldest first."""

    drop: tuple[Stashed, ...]
    store: tuple[Stashed, ...]


@dataclass(frozen=True, slots=True)
class GitSteps:
    """The actions to take."""

    moves: tuple[GitMove, ...]
    head: GitMove | None
    stash: StashMove | None
    index: IndexFate
    kept: tuple[GitKept, ...]
    refused: tuple[Refusal, ...]
    progress: IndexFate = "same"
    """The plan for a merge, rebase, cherry-pick, revert or bisect that is or was in progress."""

    @property
    def blocked(self) -> tuple[GitKept, ...]:
        """The run's changes that cannot be rolled back: without these, the rest would be half of it."""
        return tuple(one for one in self.kept if one.why not in _HARMLESS)

    @property
    def moves_anything(self) -> bool:
        return bool(self.moves or self.head or self.stash or "back" in (self.index, self.progress))


@dataclass(frozen=True, slots=True)
class GitPlan:
    """The actions of `Repository.apply`."""

    to: GitPosition
    left: GitPosition | None
    now: GitPosition
    steps: GitSteps


class GitPlanner:
    """Decides about one repository; asks git what it needs to know, and changes nothing."""

    def __init__(
        self,
        top: bytes,
        index: GitIndex,
        progress: GitProgress,
        positions: tuple[GitPosition, GitPosition | None, GitPosition],
        refs: tuple[GitRefs, GitRefs, GitRefs],
    ) -> None:
        self._top = top
        self._index = index
        self._progress = progress
        self._to, self._left, self._now = positions
        self._to_refs, self._left_refs, self._now_refs = refs
        self._moves: dict[str, GitMove] = {}
        self._kept: dict[str, GitKept] = {}
        self._refused: list[Refusal] = []

    def run(self) -> GitSteps:
        self._compare_refs()
        head = self._head()
        stash = self._stash()
        index = self._fate_of_index()
        progress = self._fate_of_progress()
        if progress == "kept" and self._now.busy:
            return self._nothing(head, stash, index)
        self._keep_what_cannot_be()
        self._keep_pushed(head)
        head = self._settle_head(head)
        if index == "back" and not self._is_back(head):
            self._keep(INDEX, GitWhy.AWAY)
            index = "kept"
        if progress == "back" and not self._is_back(head):
            self._keep(self._now.busy or self._to.busy, GitWhy.AWAY)
            progress = "kept"
        moves = tuple(self._moves[ref] for ref in sorted(self._moves))
        return GitSteps(moves, head, stash, index, self._kept_in_order(), tuple(self._refused), progress)

    # What the three positions say

    def _compare_refs(self) -> None:
        to, left, now = self._to_refs.refs, self._left_refs.refs, self._now_refs.refs
        for ref in to.keys() | now.keys():
            self._compare(ref, to.get(ref, ""), left.get(ref, ""), now.get(ref, ""))
        for ref in self._to_refs.remote.keys() - self._now_refs.remote.keys():
            self._keep(ref, GitWhy.REMOTE)

    def _compare(self, ref: str, to: str, left: str, now: str) -> None:
        if to == now:
            return
        if now != left:
            self._keep(ref, GitWhy.YOURS if left == to else GitWhy.CONFLICT)
        elif is_symbolic(to) or is_symbolic(now):
            self._keep(ref, GitWhy.SYMBOLIC)
        elif all(is_object(value) for value in (to, now) if value):
            self._moves[ref] = GitMove(ref, now, to)
        else:
            self._keep(ref, GitWhy.BROKEN)

    def _head(self) -> GitMove | None:
        to, now = _place(self._to), _place(self._now)
        left = _place(self._left) if self._left else ""
        if to == now:
            return None
        if now != left:
            self._keep(HEAD, GitWhy.YOURS if left == to else GitWhy.CONFLICT)
            return None
        return GitMove(HEAD, now, to)

    def _stash(self) -> StashMove | None:
        to, left, now = self._to_refs.stash, self._left_refs.stash, self._now_refs.stash
        if to == now:
            return None
        on_the_way = _ends_with(left, now) or _ends_with(to, now)
        if not on_the_way or len(now) < _shared(left, to):
            self._keep(STASH, GitWhy.YOURS if left == to else GitWhy.CONFLICT)
            return None
        stays = _shared(now, to)
        move = StashMove(now[: len(now) - stays], tuple(reversed(to[: len(to) - stays])))
        if missing(self._top, {one.commit for one in move.store}):
            self._keep(STASH, GitWhy.MISSING)
            return None
        return move

    def _fate_of_index(self) -> IndexFate:
        to, now = self._to.index, self._now.index
        left = self._left.index if self._left else ""
        if self._index.same(to, now):
            return "same"
        if not self._index.same(left, now):
            self._keep(INDEX, GitWhy.YOURS if self._index.same(left, to) else GitWhy.CONFLICT)
        elif not self._index.is_whole(to):
            self._keep(INDEX, GitWhy.MISSING)
        else:
            return "back"
        return "kept"

    def _fate_of_progress(self) -> IndexFate:
        """`kept` if another party began, continued or ended it, or if its files were not recorded."""
        to, now = self._to, self._now
        if (to.progress, to.busy) == (now.progress, now.busy) and _is_recorded(now):
            return "same"
        left = self._progress.kept(self._left.progress if self._left else "")
        files = (left, self._progress.kept(to.progress), self._progress.kept(now.progress))
        if _is_recorded(to) and _is_recorded(now) and is_on_the_way(*files):
            return "back"
        if to.busy not in ("", now.busy):
            self._keep(to.busy, GitWhy.UNFINISHED)
        return "kept"

    # What stands against it

    def _nothing(self, head: GitMove | None, stash: StashMove | None, index: IndexFate) -> GitSteps:
        """While something is in progress: all that would have moved is kept."""
        would = [*self._moves]
        would += [name for name, move in ((HEAD, head), (STASH, stash)) if move is not None]
        would += [INDEX] if index == "back" else []
        for ref in would:
            self._keep(ref, GitWhy.BUSY, self._now.busy)
        fate: IndexFate = "same" if index == "same" else "kept"
        return GitSteps((), None, None, fate, self._kept_in_order(), (), "kept")

    def _keep_what_cannot_be(self) -> None:
        gone = missing(self._top, {move.after for move in self._moves.values() if move.after})
        elsewhere = checked_out_elsewhere(self._top) if self._moves else {}
        for move in list(self._moves.values()):
            if move.after in gone:
                self._keep(move.ref, GitWhy.MISSING, move.after)
            elif move.ref in elsewhere:
                self._keep(move.ref, GitWhy.ELSEWHERE, elsewhere[move.ref])
        there = {*self._now_refs.refs, *self._now_refs.remote} - self._moves.keys()
        there |= {move.ref for move in self._moves.values() if move.after}
        directories = parents(there)
        for move in list(self._moves.values()):
            if not move.before and (move.ref in directories or not there.isdisjoint(parents([move.ref]))):
                self._keep(move.ref, GitWhy.OCCUPIED)

    def _keep_pushed(self, head: GitMove | None) -> None:
        """Commits that no ref would have any more, were not with a remote at `to`, and are now.

        What a remote has is what its remote-tracking refs say, now or when the run left: offline there is
        nothing else to know it by.
        """
        tips = {move.ref: move.before for move in self._moves.values() if move.before}
        if head is not None and not self._now.branch:
            tips[HEAD] = self._now.head
        known = set(self._to_refs.remote.values())
        fresh = {
            commit: ref
            for refs in (self._left_refs.remote, self._now_refs.remote)
            for ref, commit in refs.items()
            if commit not in known
        }
        if not tips or not fresh:
            return
        stays = [
            f"^{value}" for value in {*known, *self._final_refs().values(), self._to.head} if is_object(value)
        ]
        pushed = self._commits(fresh, stays)
        for ref, tip in tips.items():
            asked = "\n".join([tip, *stays]).encode()
            dropped = run(self._top, "rev-list", "--ignore-missing", "--stdin", stdin=asked).decode().split()
            commits = tuple(pushed[commit] for commit in dropped if commit in pushed)
            if commits:
                self._keep(ref, GitWhy.PUSHED, commits[0].remote)
                before = self._to.head if ref == HEAD else self._to_refs.refs.get(ref, "")
                revert = f"git revert --no-edit {before[:12]}..{tip[:12]}" if before else ""
                self._refused.append(Refusal(ref, commits, revert))

    def _commits(self, tips: Mapping[str, str], stays: Sequence[str]) -> dict[str, PushedCommit]:
        log = ("log", "--no-show-signature", "--encoding=UTF-8", "--source", "--ignore-missing", "--stdin")
        asked = "\n".join([*tips, *stays]).encode()
        found = {}
        for line in (
            run(self._top, *log, "--format=%H %S %s", stdin=asked).decode(errors="replace").splitlines()
        ):
            commit, source, subject = line.split(" ", 2)
            found[commit] = PushedCommit(commit, subject, tips[source])
        return found

    # HEAD, once the refs are decided

    def _settle_head(self, head: GitMove | None) -> GitMove | None:
        """HEAD goes where it was, if that is the same commit; if it stays, so does the branch it is on."""
        if head is not None:
            if HEAD in self._kept:
                head = None
            elif self._to.branch and self._final_refs().get(self._to.branch, "") != self._to.head:
                self._keep(HEAD, GitWhy.AWAY, self._to.branch)
                head = None
            elif not self._to.branch and missing(self._top, {self._to.head}):
                self._keep(HEAD, GitWhy.MISSING, self._to.head)
                head = None
        if head is None and _place(self._now) != _place(self._to) and self._now.branch in self._moves:
            self._keep(self._now.branch, GitWhy.HEAD)
        return head

    def _is_back(self, head: GitMove | None) -> bool:
        """Whether HEAD will be at the commit where it was."""
        if head is None and _place(self._now) != _place(self._to):
            return False
        return not self._to.branch or self._final_refs().get(self._to.branch, "") == self._to.head

    def _final_refs(self) -> dict[str, str]:
        moved = {move.ref: move.after for move in self._moves.values()}
        return {**self._now_refs.refs, **moved}

    def _keep(self, ref: str, why: GitWhy, detail: str = "") -> None:
        self._moves.pop(ref, None)
        self._kept[ref] = GitKept(ref, why, detail)

    def _kept_in_order(self) -> tuple[GitKept, ...]:
        return tuple(self._kept[ref] for ref in sorted(self._kept))


def _place(position: GitPosition) -> str:
    """Where HEAD is: a branch, or a commit if it is detached."""
    return position.branch or position.head


def _is_recorded(position: GitPosition) -> bool:
    """Whether the files of what is in progress are known, if something is."""
    return not position.busy or bool(position.progress)


def _shared(one: Sequence[Stashed], other: Sequence[Stashed]) -> int:
    """How many of the oldest entries two stashes have in common."""
    count = 0
    for left, right in zip(reversed(one), reversed(other), strict=False):
        if left != right:
            break
        count += 1
    return count


def _ends_with(stash: Sequence[Stashed], oldest: Sequence[Stashed]) -> bool:
    return _shared(stash, oldest) == len(oldest)
