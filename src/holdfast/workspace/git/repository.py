"""A git repository: where it stands, and going back to where it stood.

Reading a position changes nothing in the repository. Going back moves refs, HEAD, the stash and the index,
never a file of the working tree: a restore does that. See `docs/decisions/0010-git-position.md`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from holdfast import typed_values
from holdfast.errors import ContentsDamaged, GitBusy, GitError
from holdfast.kernel.events import GitPosition
from holdfast.workspace.contents.content_store import Contents
from holdfast.workspace.contents.refs import Ref
from holdfast.workspace.git.head import read_head
from holdfast.workspace.git.index_file import GitIndex
from holdfast.workspace.git.nested import read_nested
from holdfast.workspace.git.program import run
from holdfast.workspace.git.ref_list import OURS, GitRefs, checked_out_elsewhere, parents, read_refs
from holdfast.workspace.git.ref_plan import (
    HEAD,
    GitKept,
    GitMove,
    GitPlan,
    GitPlanner,
    GitSteps,
    GitWhy,
    StashMove,
)
from holdfast.workspace.git.ref_times import GitTimes
from holdfast.workspace.git.unfinished import GitProgress
from holdfast.workspace.git.worktrees import GitWorktrees

NO_REPOSITORY = GitPosition("")
"""The position where there is none."""
_FIRST_BRANCH = "refs/heads/main"
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]*")
_encode = msgspec.json.Encoder(order="sorted").encode


@dataclass(frozen=True, slots=True)
class GitMoved:
    """The change that was made. Going from `after` to `before` undoes it."""

    before: GitPosition
    after: GitPosition
    steps: GitSteps


@dataclass(frozen=True, slots=True)
class _Look:
    """A position, with what it was made of."""

    worktrees: GitWorktrees
    position: GitPosition
    refs: GitRefs
    index: GitIndex
    progress: GitProgress


class Repository:
    """The repository that the directory `root` is in. Repositories in the directories `nested` beneath it are
    left alone; where their HEADs are is a part of a position."""

    def __init__(self, root: Path, contents: Contents, nested: Sequence[bytes] = ()) -> None:
        self._top = os.fsencode(root)
        self._nested = nested
        self._around = (root, *root.parents)
        self._contents = contents

    # Reading

    @property
    def exists(self) -> bool:
        """Whether there is a repository, readable or not. A bare one has no files, and is none here."""
        return any((path / ".git").exists() for path in self._around)

    @property
    def is_shared(self) -> bool:
        """Whether other worktrees share its refs. Raises GitFailed."""
        return self.exists and bool(GitWorktrees(self._top, read_head(self._top).directory).others)

    def position(self) -> GitPosition:
        """Where the repository stands; its refs and its index are kept from then on. Raises GitFailed.

        Hold `contents.hold()` around this and whatever refers to the position: nothing holds on to it before.
        """
        return self._look().position if self.exists else self._without_repository(self._heads())

    def _heads(self) -> dict[str, str]:
        return {path: head.place for path, head in read_nested(self._top, self._nested).items()}

    def _without_repository(self, heads: Mapping[str, str]) -> GitPosition:
        return msgspec.structs.replace(NO_REPOSITORY, nested=self._keep(heads) if heads else "")

    def _keep(self, value: object) -> str:
        with self._contents.writing() as batch:
            return batch.keep(_encode(value)).hex()

    def _look(self) -> _Look:
        head = read_head(self._top)
        refs = read_refs(self._top)
        worktrees = GitWorktrees(self._top, head.directory)
        if worktrees.others:
            refs = msgspec.structs.replace(refs, elsewhere=tuple(sorted(checked_out_elsewhere(self._top))))
        index = GitIndex(self._top, head.index, self._contents)
        progress = GitProgress(head.directory, self._contents)
        heads = self._heads()
        with self._contents.writing() as batch:
            kept_index, written_at = index.save(batch)
            kept_heads = batch.keep(_encode(heads)).hex() if heads else ""
            kept_refs, kept_progress = batch.keep(_encode(refs)).hex(), progress.save(batch)
        position = GitPosition(
            kept_refs, head.commit, head.branch, kept_index, written_at, head.busy, kept_progress, kept_heads
        )
        return _Look(worktrees, position, refs, index, progress)

    def own(self, base: GitPosition, now: GitPosition) -> GitPosition:
        """`now` without what other worktrees of the repository did since `base`. Raises GitFailed."""
        if not base.refs or not now.refs or base.refs == now.refs:
            return now
        worktrees = GitWorktrees(self._top, read_head(self._top).directory)
        refs = worktrees.own(self.refs(base), now, self.refs(now))
        return msgspec.structs.replace(now, refs=self._keep(refs))

    def left_at(self, base: GitPosition, until_ns: int) -> GitPosition:
        """Where a run that was at `base`, and was last seen alive at `until_ns`, left the repository.

        What was changed later, or by another worktree, belongs to others, and is as at `base`, or as git's
        own record of the ref has it for that time. A deletion has no time and counts as the run's: undoing it
        loses nothing. Raises GitFailed.
        """
        heads = self._heads_at(base, until_ns)
        if not self.exists:
            return self._without_repository(heads)
        seen, times = self._look(), GitTimes(self._top, until_ns)
        now, before = seen.position, self.refs(base)
        own = seen.worktrees.own(before, now, seen.refs)
        refs = GitRefs(
            times.refs(before, seen.refs, own),
            seen.refs.remote,
            times.stash(before, seen.refs) if own.stash == seen.refs.stash else own.stash,
            seen.refs.elsewhere,
        )
        branch, head = now.branch, now.head
        if (base.branch or base.head) != (now.branch or now.head) and times.is_later([HEAD]):
            branch, head = base.branch, base.head if base.branch else times.then(HEAD) or base.head
        head = refs.refs.get(branch, "") if branch else head
        nested = self._keep(heads) if heads else ""
        left = msgspec.structs.replace(now, head=head, branch=branch, nested=nested)
        if now.progress != base.progress and seen.progress.changed_ns() > times.until_ns:
            left = msgspec.structs.replace(left, busy=base.busy, progress=base.progress)
        if times.is_later_file(seen.index.path) and not (
            seen.index.same(base.index, now.index)
            or seen.index.says_what_is_in(head)
            or ((branch, head) == (now.branch, now.head) and _is_staged_before(seen, base, times))
        ):
            left = msgspec.structs.replace(left, index=base.index, index_time=base.index_time)
        return msgspec.structs.replace(left, refs=self._keep(refs))

    def _heads_at(self, base: GitPosition, until_ns: int) -> dict[str, str]:
        """The HEADs of nested repositories at that time: those that moved later are as at `base`."""
        before = self.nested(base)
        now = read_nested(self._top, self._nested).items()
        then = {path: before.get(path, "") if head.moved_ns > until_ns else head.place for path, head in now}
        return {path: place for path, place in then.items() if place}

    def nested(self, position: GitPosition) -> dict[str, str]:
        """Where the HEADs of nested repositories were, by the paths of these. Raises ContentsDamaged."""
        if not position.nested:
            return {}
        try:
            data = self._contents.read(Ref(bytes.fromhex(position.nested)))
            return msgspec.json.decode(data, type=dict[str, str])
        except msgspec.MsgspecError as exc:
            raise ContentsDamaged([position.nested]) from exc

    def nested_moved(self, to: GitPosition, left: GitPosition | None) -> tuple[GitKept, ...]:
        """The nested repositories that the run made, or whose HEADs it moved, and that are not back."""
        before, after, now = self.nested(to), self.nested(left or to), self._heads()
        return tuple(
            GitKept(path, GitWhy.NESTED if path in before else GitWhy.MADE)
            for path, place in sorted(now.items())
            if before.get(path) not in (place, after.get(path))
        )

    def refs(self, position: GitPosition) -> GitRefs:
        """The refs of a position. Raises ContentsDamaged."""
        if not position.refs:
            return GitRefs()
        try:
            return typed_values.decode(self._contents.read(Ref(bytes.fromhex(position.refs))), GitRefs)
        except msgspec.MsgspecError as exc:
            raise ContentsDamaged([position.refs]) from exc

    def with_edits(self, to: GitPosition, gaps: Iterable[tuple[GitPosition, GitPosition]]) -> GitPosition:
        """`to`, with what others did in the gaps of a run: from the first to the second of each pair.

        What changed in a gap (a ref, HEAD, the stash, the index) is as it was after the last such gap, so
        that a plan to this position undoes what the run did, and not what a person did in between.
        """
        index = self._index()
        refs, branch, head = self.refs(to), to.branch, to.head
        for before, after in gaps:
            refs = refs.with_edits(self.refs(before), self.refs(after))
            if (before.branch or before.head) != (after.branch or after.head):
                branch, head = after.branch, after.head
            if not index.same(before.index, after.index):
                to = msgspec.structs.replace(to, index=after.index, index_time=after.index_time)
            if (before.busy, before.progress) != (after.busy, after.progress):
                to = msgspec.structs.replace(to, busy=after.busy, progress=after.progress)
            if before.nested != after.nested:
                old, new = self.nested(before).items(), self.nested(after).items()
                edited = {**self.nested(to), **dict(new - old)}
                to = msgspec.structs.replace(to, nested=self._keep(edited))
        kept = self._keep(refs)
        head = refs.refs.get(branch, "") if branch else head
        return msgspec.structs.replace(to, refs=kept, branch=branch, head=head)

    # Going back

    def plan(self, to: GitPosition, left: GitPosition | None) -> GitPlan:
        """The plan that restores `to` in what the run did until `left`.

        Without `left`, because there was no repository that git could read, only what is gone comes back.
        Raises GitError if git refuses to look at the repository.
        """
        with self._contents.hold():
            self._mend()
            return self._plan(to, left)

    def _plan(self, to: GitPosition, left: GitPosition | None) -> GitPlan:
        seen = self._look()
        now = seen.position
        if not to.refs:  # there was none: the one that is there now becomes an empty one
            to = msgspec.structs.replace(to, branch=to.branch or now.branch or _FIRST_BRANCH)
        refs = (self.refs(to), self.refs(left) if left else GitRefs(), seen.refs)
        planner = GitPlanner(self._top, seen.index, seen.progress, (to, left, now), refs)
        steps = planner.run()
        nested = self.nested_moved(to, left)
        return GitPlan(to, left, now, replace(steps, kept=(*steps.kept, *nested)))

    def apply(self, plan: GitPlan, operation: str) -> GitMoved:
        """Do what a plan says; old tips stay reachable, as `refs/holdfast/<operation>/...`.

        Raises GitBusy, and changes nothing, if another git is at work or the plan would be another one now.
        The refs move together or not at all, by compare-and-swap; then HEAD, the stash, what is in progress,
        the index. After a
        crash, or a GitError on the way, a new plan to the same position has what is left to do, and applying
        it as the same operation finishes it: each stage is seen from what is there. To take all of it back
        then, keep the `now` of the first plan, which is the `before` of the whole.
        """
        if not _NAME.fullmatch(operation):
            raise ValueError(f"{operation!r} cannot be a part of the name of a ref")
        replacement = plan.to.index if plan.steps.index == "back" else None
        with (
            self._contents.hold(),
            self._index().locked(operation, replacement, plan.to.index_time) as lock,
        ):
            fresh = self._plan(plan.to, plan.left)
            if fresh.steps != plan.steps:
                raise GitBusy("the repository was changed since the plan was made; look at it again")
            steps, message = fresh.steps, f"holdfast: {operation}"
            self._move_refs(fresh, operation, message)
            if steps.head is not None:
                self._move_head(fresh, steps.head, message)
            if steps.stash is not None:
                self._move_stash(steps.stash)
            if steps.progress == "back":
                progress = GitProgress(read_head(self._top).directory, self._contents)
                progress.put(progress.kept(plan.to.progress))
            if replacement is not None:
                lock.put_back()
            return GitMoved(fresh.now, self._look().position, steps)

    def _move_refs(self, plan: GitPlan, operation: str, message: str) -> None:
        """In one transaction, or in two where a name that goes is in the way of one that comes."""
        steps = plan.steps
        kept = {move.ref.removeprefix("refs/"): move.before for move in steps.moves if move.before}
        if steps.head is not None and not plan.now.branch:
            kept[HEAD] = plan.now.head
        for one in steps.stash.drop if steps.stash else ():
            kept[f"stash/{one.commit}"] = one.commit
        lines = [f"update {OURS}{operation}/{name}\0{value}\0" for name, value in sorted(kept.items())]
        goes = {move.ref: _line(move) for move in steps.moves if not move.after}
        comes = {move.ref: _line(move) for move in steps.moves if move.after}
        if parents(goes) & comes.keys() or parents(comes) & goes.keys():
            self._transact([*lines, *goes.values()], message)
            self._transact([*comes.values()], message)
        else:
            self._transact([*lines, *goes.values(), *comes.values()], message)

    def _transact(self, lines: list[str], message: str) -> None:
        """Without the last word, if we die before it is said, git changes nothing."""
        if lines:
            said = "\0".join(["start", *lines, "prepare", "commit", ""]).encode()
            run(self._top, "update-ref", "--no-deref", "--stdin", "-z", "-m", message, stdin=said)

    def _move_head(self, plan: GitPlan, head: GitMove, message: str) -> None:
        if plan.to.branch:
            run(self._top, "symbolic-ref", "-m", message, HEAD, head.after)
        else:
            old = [] if plan.now.branch else [head.before]
            run(self._top, "update-ref", "--no-deref", "-m", message, HEAD, head.after, *old)

    def _move_stash(self, move: StashMove) -> None:
        """One entry after the other, as the list is the history of a ref, for which git has no transaction.
        A plan that is made on the way continues from there."""
        for one in move.drop:
            said = run(self._top, "stash", "drop", "stash@{0}").decode()
            dropped = said.rpartition("(")[2].rstrip(")\n")
            if dropped != one.commit:
                shown = run(self._top, "show", "-s", "--no-show-signature", "--format=%s", dropped)
                run(self._top, "stash", "store", "-m", shown.decode(errors="replace").strip(), dropped)
                raise GitError("others changed the stash meanwhile; it is as they left it")
        for one in move.store:
            run(self._top, "stash", "store", "-m", one.message, one.commit)

    def _index(self) -> GitIndex:
        return GitIndex(self._top, read_head(self._top).index, self._contents)

    def _mend(self) -> None:
        """Git takes a directory without `refs` for no repository at all; an empty one has no refs in it. And
        it takes an empty directory of something in progress for that. A lock of ours whose process died goes,
        too: perhaps nothing else is left to do."""
        own = os.path.join(self._top, b".git")
        if os.path.isfile(os.path.join(own, b"HEAD")) and os.path.isdir(os.path.join(own, b"objects")):
            os.makedirs(os.path.join(own, b"refs"), exist_ok=True)
        head = read_head(self._top)
        GitProgress(head.directory, self._contents).prune()
        GitIndex(self._top, head.index, self._contents).unlock()


def _is_staged_before(seen: _Look, base: GitPosition, times: GitTimes) -> bool:
    """Whether all that is staged and was not at `base` was staged before that time: a look at the repository
    writes the index anew, and not the objects that are staged."""
    staged = seen.index.objects(seen.position.index) - seen.index.objects(base.index)
    return bool(staged) and not times.is_later_object(staged)


def _line(move: GitMove) -> str:
    if not move.before:
        return f"create {move.ref}\0{move.after}"
    if not move.after:
        return f"delete {move.ref}\0{move.before}"
    return f"update {move.ref}\0{move.after}\0{move.before}"
