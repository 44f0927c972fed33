"""Ignore files: what a person asks to leave out, in any directory, as `.gitignore` has it."""

from __future__ import annotations

import os

import pathspec

from holdfast.workspace.fs import beneath
from holdfast.workspace.fs.lock_safe_open import beginning

IGNORE_FILE = b".holdfastignore"
_LARGEST = 1024 * 1024


class IgnoreFiles:
    """The ignore files of a tree. Of two that have something to say, the inner one decides."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._rules: dict[bytes, pathspec.GitIgnoreSpec] = {}
        self._inner_first: dict[bytes, list[bytes]] = {}

    def add(self, directory: bytes) -> None:
        """Read the ignore file of a directory. One that cannot be read, is no regular file or larger than any
        that a person wrote says nothing."""
        text = beginning(os.path.join(self._root, directory, IGNORE_FILE), _LARGEST + 1)
        if text is not None and len(text) <= _LARGEST:
            self.learn(directory, text)

    def learn(self, directory: bytes, text: bytes) -> None:
        """Use `text` as the ignore file of a directory."""
        self._rules[directory] = pathspec.GitIgnoreSpec.from_lines(os.fsdecode(text).splitlines())
        self._inner_first.clear()

    def ignores(self, path: bytes, is_directory: bool) -> bool:
        """Whether an entry is left out, supposed that its directory is not."""
        if not self._rules:
            return False
        for directory in self._about(beneath.split(path)[0]):
            inner = path[len(directory) + 1 :] if directory else path
            said = self._rules[directory].check_file(os.fsdecode(inner) + ("/" if is_directory else ""))
            if said.include is not None:
                return said.include
        return False

    def _about(self, directory: bytes) -> list[bytes]:
        """The directories whose ignore files speak of what is in `directory`, the innermost first."""
        found = self._inner_first.get(directory)
        if found is None:
            found = self._inner_first[directory] = []
            outer = directory
            while True:
                if outer in self._rules:
                    found.append(outer)
                if not outer:
                    break
                outer, _ = beneath.split(outer)
        return found
