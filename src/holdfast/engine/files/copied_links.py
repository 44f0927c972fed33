"""Symbolic links in the copy of an isolated step.

A link that leads into the workspace by an absolute path, or out of it and in again, would lead from the copy
into the workspace itself: what the step writes through it would not be isolated. So it leads into the copy
there. Before the changes of the copy are looked at, each that is still there gets its own text again,
and a link that the step itself made into its copy leads to the same place of the workspace.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


class CopiedLinks:
    """The links of one copy. `left` are those that could not be changed, and lead into the workspace."""

    def __init__(self, root: Path, copy: Path) -> None:
        self._root = os.fsencode(root)
        self._copy = os.fsencode(copy)
        self._changed: dict[bytes, tuple[bytes, bytes]] = {}
        """Path in the tree → its own text, its text in the copy."""
        self.left: list[bytes] = []

    def lead_in(self, paths: Iterable[bytes]) -> None:
        """Let the links at these paths of the tree lead into the copy where they led into the workspace."""
        for path in paths:
            here = os.path.join(self._copy, path)
            if _within(self._copy, os.path.realpath(here)) is not None:
                continue
            inner = _within(self._root, os.path.realpath(here))
            if inner is None:
                inner = _within(self._root, os.path.realpath(os.path.join(self._root, path)))
            if inner is None:
                continue
            text, new = os.readlink(here), os.path.join(self._copy, inner)
            if _replace(here, new):
                self._changed[path] = text, new
            else:
                self.left.append(path)

    def lead_back(self) -> None:
        """Give the links their own text again, and those made here one that holds in the workspace."""
        for parent, directories, files in os.walk(self._copy):
            for name in (*directories, *files):
                here = os.path.join(parent, name)
                if os.path.islink(here):
                    self._lead_back(here)

    def _lead_back(self, here: bytes) -> None:
        text = os.readlink(here)
        own, new = self._changed.get(os.path.relpath(here, self._copy), (b"", b""))
        if new and text == new:
            _replace(here, own)
        elif text == self._copy or text.startswith(self._copy + b"/"):
            _replace(here, self._root + text[len(self._copy) :])


def _within(directory: bytes, path: bytes) -> bytes | None:
    """Where in the directory a path without links is; None if it is not. By what the directories are, not by
    how they are called: a mount may give one several names."""
    try:
        wanted = os.stat(directory)
    except OSError:
        return None
    inner: list[bytes] = []
    while True:
        try:
            if os.path.samestat(os.stat(path), wanted):
                return os.path.join(b"", *reversed(inner))
        except OSError:
            pass  # it is yet to be made
        parent, name = os.path.split(path)
        if parent == path or not name:
            return None
        inner.append(name)
        path = parent


def _replace(path: bytes, text: bytes) -> bool:
    """Give the link another text, as one; False if its directory cannot be written."""
    temporary = os.path.join(os.path.dirname(path), b".holdfast-link-" + os.urandom(4).hex().encode())
    try:
        os.symlink(text, temporary)
        try:
            os.rename(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
    except OSError:
        return False
    return True
