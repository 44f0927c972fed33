"""Paths as git sees them: which it ignores and which it tracks.

Git is asked only about the few entries for which its answer matters, by one `git check-ignore` per repository
that stays for the length of a scan. Where there is no git, or it does not answer, nothing is ignored: a
snapshot then covers more, not less.
"""

from __future__ import annotations

import os
import re
import subprocess

from holdfast.errors import GitError
from holdfast.workspace.git import program

_FIELDS = 4


class Git:
    """The repositories of a tree: the one that it is in, and those nested in it."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._repositories: dict[bytes, _Repository] = {}

    def ignores(self, path: bytes) -> bool:
        repository, inner = self._of(path)
        return repository.ignores(inner)

    def tracks_beneath(self, path: bytes) -> bool:
        """Whether a directory holds something that is tracked."""
        repository, inner = self._of(path)
        return repository.tracks_beneath(inner)

    def state(self, directories: list[bytes]) -> str:
        """Changes with the files that git's answers about entries of these directories depend on."""
        files = set()
        for directory in directories:
            while True:
                base = os.path.join(self._root, directory)
                files |= {
                    os.path.join(base, name) for name in (b".gitignore", b".git/index", b".git/info/exclude")
                }
                if not directory:
                    break
                directory = os.path.dirname(directory)
        return repr([(path, _stamp(path)) for path in sorted(files) if os.path.lexists(path)])

    def close(self) -> None:
        for repository in self._repositories.values():
            repository.close()
        self._repositories.clear()

    def _of(self, path: bytes) -> tuple[_Repository, bytes]:
        """The repository that a path belongs to, and the path in it."""
        top = os.path.dirname(path)
        while top and not os.path.lexists(os.path.join(self._root, top, b".git")):
            top = os.path.dirname(top)
        repository = self._repositories.get(top)
        if repository is None:
            repository = self._repositories[top] = _Repository(os.path.join(self._root, top))
        return repository, path[len(top) + 1 :] if top else path


class _Repository:
    def __init__(self, top: bytes) -> None:
        self._top = top
        self._asked: subprocess.Popen[bytes] | None = None
        self._tracked: frozenset[bytes] | None = None
        self._silent = False

    def ignores(self, path: bytes) -> bool:
        if self._silent:
            return False
        try:
            return self._ask(path)
        except (OSError, ValueError):
            self._silent = True
            return False

    def _ask(self, path: bytes) -> bool:
        if self._asked is None:
            self._asked = subprocess.Popen(
                program.argv(self._top, "check-ignore", "-z", "--stdin", "--verbose", "--non-matching"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=program.environment(),
            )
        asked = self._asked
        assert asked.stdin is not None and asked.stdout is not None, "both are pipes"
        asked.stdin.write(path + b"\0")
        asked.stdin.flush()
        answer = bytearray()
        while answer.count(0) < _FIELDS:
            piece = os.read(asked.stdout.fileno(), 65536)
            if not piece:
                raise ValueError("git has nothing to say here")
            answer += piece
        pattern = bytes(answer).split(b"\0")[2]
        return bool(pattern) and not pattern.startswith(b"!")

    def tracks_beneath(self, path: bytes) -> bool:
        if self._tracked is None:
            self._tracked = self._tracked_directories()
        return path in self._tracked

    def _tracked_directories(self) -> frozenset[bytes]:
        try:
            listed = program.run(self._top, "ls-files", "-z")
        except GitError:
            return frozenset()
        found: set[bytes] = set()
        for directory in set(re.findall(rb"([^\0]+)/[^\0/]*\0", listed)):
            while directory and directory not in found:
                found.add(directory)
                directory = os.path.dirname(directory)
        return frozenset(found)

    def close(self) -> None:
        if self._asked is not None:
            self._asked.kill()
            self._asked.communicate()
            self._asked = None


def _stamp(path: bytes) -> tuple[int, int, int]:
    status = os.lstat(path)
    return status.st_mtime_ns, status.st_size, status.st_ino
