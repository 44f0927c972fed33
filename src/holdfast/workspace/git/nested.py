"""Repositories inside the workspace: where their HEADs are, so that an attempt that moved one is known.

They are neither rolled back nor otherwise touched. Their files are read without git, because there can be
many of them; only a repository whose refs are in a table is asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from holdfast.errors import GitFailed
from holdfast.workspace.fs.beneath import shown
from holdfast.workspace.git.head import read_head

_SYMBOLIC = "ref: "


class NestedHead(NamedTuple):
    """`place` has the branch, if HEAD is on one, and the commit."""

    place: str
    moved_ns: int
    """When HEAD last moved, as far as that is known; else 0."""


def read_nested(root: bytes, paths: Iterable[bytes]) -> dict[str, NestedHead]:
    """The HEADs of the repositories in these directories; of one that cannot be read, nothing."""
    found = {}
    for path in paths:
        try:
            found[shown(path)] = _read(os.path.join(root, path))
        except (OSError, ValueError, GitFailed):
            continue
    return found


def _read(top: bytes) -> NestedHead:
    own = os.path.join(top, b".git")
    if os.path.isfile(own):
        own = os.path.join(top, _text(own).removeprefix("gitdir: ").encode(errors="surrogateescape"))
    common = own
    if os.path.exists(os.path.join(own, b"commondir")):
        common = os.path.join(own, os.fsencode(_text(os.path.join(own, b"commondir"))))
    log = os.path.join(own, b"logs", b"HEAD")
    moved_ns = os.stat(log).st_ctime_ns if os.path.exists(log) else 0
    if os.path.exists(os.path.join(common, b"reftable")):
        head = read_head(top)
        return NestedHead(f"{head.branch} {head.commit}", moved_ns)
    place = _text(os.path.join(own, b"HEAD"))
    if not place.startswith(_SYMBOLIC):
        return NestedHead(f" {place}", moved_ns)
    branch = place.removeprefix(_SYMBOLIC)
    return NestedHead(f"{branch} {_commit(common, branch)}", moved_ns)


def _commit(common: bytes, branch: str) -> str:
    """ "" before the first one."""
    try:
        return _text(os.path.join(common, os.fsencode(branch)))
    except FileNotFoundError:
        pass
    try:
        packed = _text(os.path.join(common, b"packed-refs"))
    except FileNotFoundError:
        return ""
    lines = (line.split(" ") for line in packed.splitlines() if line[:1] not in "#^")
    return next((words[0] for words in lines if words[1:] == [branch]), "")


def _text(path: bytes) -> str:
    with open(path, "rb") as file:
        return os.fsdecode(file.read().removesuffix(b"\n"))
