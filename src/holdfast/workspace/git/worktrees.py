"""Whose move it was, where several worktrees share the refs of a repository.

Branches, tags and the stash belong to all worktrees of a repository, HEAD and its reflog to one. A branch was
moved by the worktree whose HEAD was on it at that time. Any other ref counts as moved by a worktree if it is
at a new commit that this worktree's HEAD has reached and no other one has. What cannot be known counts as
another worktree's and stays, except for a deletion: undoing that loses nothing.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

import msgspec

from holdfast.errors import GitFailed
from holdfast.kernel.events import GitPosition
from holdfast.workspace.git.program import run
from holdfast.workspace.git.ref_list import GitRefs, Stashed, is_object

_BRANCHES = "refs/heads/"
_OF_WORKTREE = ("refs/bisect/", "refs/rewritten/", "refs/worktree/")
"""Refs that each worktree has for itself."""
_MOST_ENTRIES = "1000"
"""How many entries of a reflog at most are read."""
_SWITCH = re.compile(r"checkout: moving from (?P<source>.+) to (?P<target>.+)")
_RENAME = re.compile(r"Branch: renamed (?P<source>\S+) to (?P<target>\S+)")
_REBASED = re.compile(r"rebase \(?finish\)?: returning to (?P<target>\S+)")
_STASHED = re.compile(r"(?:WIP on|On) (?P<branch>.+?): ")


class Entry(NamedTuple):
    """An entry of a reflog."""

    value: str
    seconds: int
    message: str


class _Stay(NamedTuple):
    """HEAD was on this branch from one second to another one, both included."""

    branch: str
    since: float
    until: float


class GitWorktrees:
    """The worktree that `top` is in, whose own directory of git is `directory`, among all of its
    repository."""

    def __init__(self, top: bytes, directory: bytes) -> None:
        self._top = top
        self._directory = directory

    @cached_property
    def others(self) -> list[str]:
        """The names of the HEADs of the other worktrees. One whose files were removed counts until git
        prunes it."""
        own = os.path.realpath(self._directory)
        common, heads = own, []
        try:
            with open(os.path.join(own, b"commondir"), "rb") as file:
                common = os.path.join(own, file.read().removesuffix(b"\n"))
            heads.append("main-worktree/HEAD")
        except OSError:
            pass  # this is the main worktree
        try:
            names = sorted(os.listdir(os.path.join(common, b"worktrees")))
        except OSError:
            names = []
        this = os.path.basename(own) if heads else b""
        return heads + [f"worktrees/{os.fsdecode(name)}/HEAD" for name in names if name != this]

    def own(self, base: GitRefs, position: GitPosition, now: GitRefs) -> GitRefs:
        """`now` without what other worktrees did since `base`, as far as that can be known.

        A branch that this worktree and another one moved gets a value that it had in between: it is neither
        as it was nor as it is, so that neither is taken for the one that moved it.
        """
        if not self.others:
            return now
        judge = _Judge(self._top, self.others, base, position, now)
        refs = {ref: judge.own_value(ref) for ref in base.refs.keys() | now.refs.keys()}
        found = {ref: value for ref, value in refs.items() if value}
        return msgspec.structs.replace(now, refs=found, stash=judge.own_stash())


class _Judge:
    """Decides about one repository and one span of time."""

    def __init__(
        self, top: bytes, others: list[str], base: GitRefs, position: GitPosition, now: GitRefs
    ) -> None:
        self._top = top
        self._others = others
        self._base = base
        self._branch = position.branch
        self._now = now
        self._elsewhere = {*base.elsewhere, *now.elsewhere}

    def own_value(self, ref: str) -> str:
        before, after = self._base.refs.get(ref, ""), self._now.refs.get(ref, "")
        if before == after or ref.startswith(_OF_WORKTREE):
            return after
        if not after:
            return before if ref in self._base.elsewhere else after
        entries = list(_until(before, self._log(ref)))
        if not entries or entries[0].value != after:  # no reflog: only the last move is known
            entries = [Entry(after, 0, "")]
        owners = [self._is_own(ref, entry) for entry in entries]
        if all(owners):
            return after
        if not any(owners):
            return before
        return entries[owners.index(not owners[0])].value

    def _is_own(self, ref: str, entry: Entry) -> bool:
        if not entry.seconds and ref == self._branch:
            return True
        if entry in self._head or entry in self._heads_of_others:  # HEAD and its branch were moved as one
            return entry in self._head
        if entry.seconds and self._was_on(ref, entry.seconds):
            return True
        return ref not in self._elsewhere and entry.value in self._reached

    def _was_on(self, branch: str, seconds: int) -> bool:
        return any(stay.branch == branch and stay.since <= seconds <= stay.until for stay in self._stays)

    def own_stash(self) -> tuple[Stashed, ...]:
        before, after = self._base.stash, self._now.stash
        if before == after:
            return after
        new = [one for one in after if one not in before]
        stays = [one for one in before if one in after or self._branch_of(one) in self._elsewhere]
        return (*(one for one in new if self._branch_of(one) in self._visited), *stays)

    def _branch_of(self, one: Stashed) -> str:
        """The branch that an entry of the stash was made on, by its message; "" if that is not known."""
        found = _STASHED.match(one.message)
        return _full(found["branch"]) if found else ""

    @cached_property
    def _visited(self) -> set[str]:
        return {self._branch, *(stay.branch for stay in self._stays)} - self._elsewhere - {""}

    @cached_property
    def _head(self) -> list[Entry]:
        return self._log("HEAD")

    @cached_property
    def _heads_of_others(self) -> set[Entry]:
        return {entry for head in self._others for entry in self._log(head)}

    @cached_property
    def _stays(self) -> list[_Stay]:
        """Where the HEAD of this worktree was, the newest first."""
        found, branch, until = [], self._branch, math.inf
        for entry in self._head:
            moved = (
                _SWITCH.fullmatch(entry.message)
                or _RENAME.fullmatch(entry.message)
                or _REBASED.fullmatch(entry.message)
            )
            if moved:
                found.append(_Stay(branch or _full(moved["target"]), entry.seconds, until))
                branch, until = _full(moved.groupdict().get("source") or ""), entry.seconds
        return [*found, _Stay(branch, -math.inf, until)]

    @cached_property
    def _reached(self) -> set[str]:
        """The new objects that only the HEAD of this worktree has reached: commits, and tags of them."""
        changed = {
            value
            for ref, value in self._now.refs.items()
            if value != self._base.refs.get(ref) and is_object(value)
        }
        commits = self._commits(changed)
        mine = {entry.value for entry in self._head}
        theirs = {entry.value for entry in self._heads_of_others}
        own = (set(commits.values()) & mine) - theirs
        stays = [f"^{value}" for value in self._base.refs.values() if is_object(value)]
        asked = "\n".join([*own, *stays]).encode()
        new = run(self._top, "rev-list", "--ignore-missing", "--stdin", stdin=asked).decode() if own else ""
        own &= set(new.split())
        return {value for value, commit in commits.items() if commit in own}

    def _commits(self, objects: Iterable[str]) -> dict[str, str]:
        """The commits that these objects are, or are tags of."""
        asked = sorted(objects)
        said = "".join(f"{value}^{{commit}}\n" for value in asked).encode()
        answers = run(self._top, "cat-file", "--batch-check", stdin=said).decode().splitlines()
        named = zip(asked, answers, strict=True)
        return {value: answer.split(" ")[0] for value, answer in named if not answer.endswith(" missing")}

    def _log(self, ref: str) -> list[Entry]:
        """The reflog of a ref, the newest entry first; empty if it has none."""
        log = ("reflog", "show", "--no-show-signature", "--date=unix", "--format=%H%x00%gd%x00%gs")
        try:
            lines = run(self._top, *log, "-n", _MOST_ENTRIES, ref, "--").decode(errors="replace")
        except GitFailed:
            return []
        found = []
        for line in lines.splitlines():
            value, when, message = line.split("\0")
            seconds = when.rpartition("{")[2].rstrip("}")
            found.append(Entry(value, int(seconds) if seconds.isdigit() else 0, message))
        return found


def _until(value: str, entries: Iterable[Entry]) -> Iterator[Entry]:
    for entry in entries:
        if entry.value == value:
            return
        yield entry


def _full(branch: str) -> str:
    return branch if not branch or branch.startswith("refs/") else _BRANCHES + branch
