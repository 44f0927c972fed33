"""All refs of a repository and its stash, as git lists them.

Git is asked, its files are not read: refs can be loose, packed or in a table, of this worktree or of all.
Refs whose names are not UTF-8 are left alone, and so are ours, `refs/holdfast/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from holdfast.workspace.git.program import complete, run

OURS = "refs/holdfast/"
STASH = "refs/stash"
_REMOTE = ("refs/remotes/", "refs/prefetch/")
_SYMBOLIC = "ref: "
_BROKEN = "broken"


class Stashed(msgspec.Struct, frozen=True, array_like=True):
    """An entry of the stash, which is a list that git keeps as the history of one ref."""

    commit: str
    message: str


class GitRefs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Objects by the full names of refs. `remote` are those that follow a remote; `stash` is newest first;
    `elsewhere` are the branches that other worktrees are on."""

    refs: dict[str, str] = {}
    remote: dict[str, str] = {}
    stash: tuple[Stashed, ...] = ()
    elsewhere: tuple[str, ...] = ()

    def with_edits(self, before: GitRefs, after: GitRefs) -> GitRefs:
        """These refs, and what differs between the other two as `after` has it. `remote` stays: it says what
        was pushed at this position."""
        refs = dict(self.refs)
        for ref in before.refs.keys() | after.refs.keys():
            value = after.refs.get(ref, "")
            if value != before.refs.get(ref, ""):
                refs.pop(ref, None)
                refs |= {ref: value} if value else {}
        stash = self.stash if before.stash == after.stash else after.stash
        return GitRefs(refs, self.remote, stash, after.elsewhere)


def read_refs(top: bytes) -> GitRefs:
    """Raises GitFailed."""
    done = complete(top, "for-each-ref", "--format=%(objectname) %(refname) %(symref)")
    refs, remote = {}, {}
    for line in (*_lines(done.stdout), *_broken(done.stderr)):
        value, name, target = line.split(" ")
        if name.startswith(_REMOTE):
            if not target:
                remote[name] = value
        elif not name.startswith(OURS):
            refs[name] = _SYMBOLIC + target if target else value
    top_of_stash = refs.pop(STASH, "")
    return GitRefs(refs, remote, _stash(top, top_of_stash) if top_of_stash else ())


def is_symbolic(value: str) -> bool:
    return value.startswith(_SYMBOLIC)


def is_object(value: str) -> bool:
    return value not in ("", _BROKEN) and not is_symbolic(value)


def missing(top: bytes, objects: set[str]) -> set[str]:
    """Which of them are not in the repository."""
    asked = "\n".join(sorted(objects)).encode()
    answers = run(top, "cat-file", "--batch-check", stdin=asked) if objects else b""
    return {line.split(" ")[0] for line in _lines(answers) if line.endswith(" missing")}


def checked_out_elsewhere(top: bytes) -> dict[str, str]:
    """Branches that other worktrees are on → where these are."""
    answer = run(top, "for-each-ref", "--format=%(refname) %(HEAD) %(worktreepath)", "refs/heads")
    found = {}
    for line in _lines(answer):
        name, _, rest = line.partition(" ")
        if rest[:1] != "*" and rest[2:]:
            found[name] = rest[2:]
    return found


def parents(refs: Iterable[str]) -> set[str]:
    """The directories that refs would be in, were they files: no other ref can have such a name."""
    found: set[str] = set()
    for ref in refs:
        parent = ref.rpartition("/")[0]
        while parent and parent not in found:
            found.add(parent)
            parent = parent.rpartition("/")[0]
    return found


def _stash(top: bytes, newest: str) -> tuple[Stashed, ...]:
    log = ("reflog", "show", "--no-show-signature", "--encoding=UTF-8", "--format=%H %gs", STASH)
    listed = run(top, *log).decode(errors="replace").splitlines()
    return tuple(Stashed(*line.split(" ", 1)) for line in listed) or (Stashed(newest, "WIP"),)


def _broken(warnings: bytes) -> Iterator[str]:
    for name in re.findall(r"warning: ignoring broken ref (\S+)", warnings.decode(errors="replace")):
        yield f"{_BROKEN} {name} "


def _lines(answer: bytes) -> Iterator[str]:
    for line in answer.split(b"\n"):
        try:
            text = line.decode()
        except UnicodeDecodeError:
            continue
        if text:
            yield text
