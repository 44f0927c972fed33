"""The coverage of a snapshot, and the reason for each path left out.

Everything is covered but: what is git's and holdfast's own, what cannot be restored (pipes, sockets,
devices), what a `.holdfastignore` names, trees that a tool makes anew, other filesystems mounted inside, and
ignored files that are very large.

Trees that a tool makes anew are known by their name or by a mark inside; build trees only if git ignores them
as well, because `build` is also what people call a directory of sources. Whatever git tracks is covered.
"""

from __future__ import annotations

import os
import stat
from hashlib import sha256
from pathlib import Path

from holdfast.project import DATABASE, POINTER_DIRECTORY
from holdfast.workspace.fs import beneath
from holdfast.workspace.fs.lock_safe_open import beginning
from holdfast.workspace.git.tracked import Git
from holdfast.workspace.snapshots.ignore_files import IgnoreFiles

REMADE = frozenset(
    b"node_modules __pycache__ .mypy_cache .pytest_cache .ruff_cache .hypothesis .tox .nox .gradle "
    b".terraform .parcel-cache .turbo .import_linter_cache".split()
)
"""Directories that are left out by their name alone."""
BUILT = frozenset(
    b"build dist target out bin obj .next .nuxt .svelte-kit .venv venv env .eggs coverage vendor Pods "
    b"DerivedData _build .cache".split()
)
"""Directories that are left out if git ignores them."""
_TAG = b"Signature: 8a477f597d28d172789f06886806bc55"
_SQLITE = b"SQLite format 3\0"
_MARK, _OUR_MARK = slice(68, 72), b"hold"
"""Where a database says which program it is of, and what ours say."""
_GUARD = b"write.lock"
_KINDS = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}

GIT_OWN = "git's own"
OURS = "holdfast's own"
BY_RULE = "named in .holdfastignore"
TREE = "made anew by a tool"
TOO_LARGE = "ignored and large"
UNREADABLE = "no permission to read"
ELSEWHERE = "another filesystem"


class Coverage:
    """The rules of one workspace, as they are while one scan runs."""

    def __init__(self, root: bytes, store: Path, largest_ignored: int) -> None:
        self._root = root
        self._largest_ignored = largest_ignored
        self._device = os.stat(root).st_dev
        self._store = _identity(os.fsencode(store))
        self._git = Git(root)
        self._ignoring = IgnoreFiles(root)
        self.digest = sha256(repr((largest_ignored, sorted(REMADE), sorted(BUILT))).encode()).hexdigest()

    def close(self) -> None:
        self._git.close()

    def git_state(self, directories: list[bytes]) -> str:
        """Changes when git's answers about entries of these directories may have changed."""
        return self._git.state(directories) if directories else ""

    def has_ignore_file(self, directory: bytes) -> None:
        """The rules of a directory's ignore file hold from here on. Outer directories come first."""
        self._ignoring.add(directory)

    def reason_against(self, path: bytes, name: bytes, status: os.stat_result) -> str | None:
        """Why an entry is not covered; None if it is."""
        kind = stat.S_IFMT(status.st_mode)
        if kind in _KINDS:
            return _KINDS[kind]
        if name == b".git":
            return GIT_OWN
        if path == POINTER_DIRECTORY.encode() or (status.st_dev, status.st_ino) == self._store:
            return OURS
        is_directory = kind == stat.S_IFDIR
        if self._ignoring.ignores(path, is_directory):
            return BY_RULE
        if is_directory:
            return self._reason_against_directory(path, name, status)
        if kind == stat.S_IFREG and status.st_size > self._largest_ignored and self._git.ignores(path):
            return TOO_LARGE
        return None

    def is_suspect(self, name: bytes, status: os.stat_result) -> bool:
        """Whether git's rules decide about an entry."""
        if stat.S_ISDIR(status.st_mode):
            return name in REMADE or name in BUILT
        return status.st_size > self._largest_ignored

    def _reason_against_directory(self, path: bytes, name: bytes, status: os.stat_result) -> str | None:
        if status.st_dev != self._device:
            return ELSEWHERE
        if self._is_store(path) and not self._git.tracks_beneath(path):
            return OURS  # another store: it is for those who use it to go back in it
        remade = name in REMADE or self._is_marked(path) or (name in BUILT and self._git.ignores(path))
        return TREE if remade and not self._git.tracks_beneath(path) else None

    def _is_store(self, path: bytes) -> bool:
        """Known by its database: a file of that name can be anybody's. While a store is young, the mark of
        its database is still in SQLite's log; what guards its writing is there from the first moment."""
        base = os.path.join(self._root, path)
        database = os.path.join(base, DATABASE.encode())
        if not os.path.lexists(database):
            return False
        header = beginning(database, _MARK.stop)
        if header is None or not header.startswith(_SQLITE):
            return False
        return header[_MARK] == _OUR_MARK or os.path.lexists(os.path.join(base, _GUARD))

    def _is_marked(self, path: bytes) -> bool:
        """A virtual environment, or a cache by the convention of CACHEDIR.TAG."""
        base = os.path.join(self._root, path)
        if os.path.lexists(os.path.join(base, b"pyvenv.cfg")):
            return True
        return beginning(os.path.join(base, b"CACHEDIR.TAG"), len(_TAG)) == _TAG


def why_unread(exc: OSError) -> str:
    """The reason to leave out what cannot be read. Raises the error if it says nothing about that file."""
    if exc.errno in beneath.EXHAUSTED:
        raise exc
    if isinstance(exc, PermissionError):
        return UNREADABLE
    return f"cannot be read: {exc.strerror or exc}"


def _identity(path: bytes) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
