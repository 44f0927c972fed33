"""Where a run's code is now: its project may have been moved or copied since the run began.

A run records whole paths: its script, its working directory, its interpreter. It also records the root of its
project, and which directory that was. If the project is somewhere else now, every recorded path inside the
old root is looked for at the same place inside the new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast import project
from holdfast.directory_identity import DirectoryIdentity, is_moved_to, is_still_at
from holdfast.kernel.events import Code


class _Move(NamedTuple):
    was: Path
    now: Path

    def path(self, recorded: str) -> str:
        """Where that path is now; one outside the old root is where it was."""
        if not recorded or not Path(recorded).is_relative_to(self.was):
            return recorded
        return str(self.now / Path(recorded).relative_to(self.was))


class Location:
    """Finds the code of a store's runs. `root` is the project that this process works for, None if that is
    not known. `given` is the directory that the caller says the project is in now (`--root`); with
    `only_missing` it counts only for runs whose own project is gone: others of the store may be elsewhere."""

    def __init__(
        self, home: Path, root: Path | None, given: Path | None = None, *, only_missing: bool = False
    ) -> None:
        self.home = home.resolve()
        self._root = root
        self._recorded = self._describe()
        self.given = given
        self.only_missing = only_missing

    @property
    def root(self) -> Path | None:
        """The directory of the project that this process works for."""
        return self._root

    def look_in(self, root: Path | None, *, only_missing: bool = False) -> None:
        """From now on the project is where the caller says; None: where it is found."""
        self.given, self.only_missing = root, only_missing

    def record(self, code: Code) -> Code:
        """The code of a new run, with its project."""
        root, mark, home = self._recorded
        return msgspec.structs.replace(code, root=root, mark=mark, home=home) if root else code

    def now(self, code: Code) -> Code:
        """The same code where it is now; unchanged if its project is where it was, or cannot be found."""
        if code.root and code.root == self._recorded[0] and self.given is None:
            return code
        move = self._move(code)
        if move is None or move.was == move.now:
            return code
        interpreter = move.path(code.interpreter)
        return msgspec.structs.replace(
            code,
            script=move.path(code.script),
            cwd=move.path(code.cwd),
            directory=move.path(code.directory),
            interpreter=interpreter if Path(interpreter).exists() else code.interpreter,
            root=str(move.now),
        )

    def _describe(self) -> tuple[str, str, str]:
        if self._root is None:
            return "", "", ""
        here = DirectoryIdentity.find(self._root)
        if here is None:
            return "", "", ""
        inside = self.home.is_relative_to(self._root) and self.home != self._root
        return str(self._root), here.mark, str(self.home.relative_to(self._root)) if inside else ""

    def _move(self, code: Code) -> _Move | None:
        if not code.root:
            return self._guess(code)
        was = Path(code.root)
        if self.given is not None and not (self.only_missing and was.is_dir()):
            return _Move(was, self.given) if _is_inside(code, was) else _by_ending(code, self.given)
        around = self._around(code.home)
        if around is not None:
            move = _Move(was, around)
            # A copy of the store alone may lie in a directory of the same name: the code is where it was.
            if Path(move.path(code.place)).exists() or not Path(code.place).exists():
                return move
        if is_still_at(was, code.mark) or self._root is None:
            return None
        if is_moved_to(self._root, code.mark) or (not was.exists() and project.owns(self._root, self.home)):
            return _Move(was, self._root)
        return None

    def _around(self, inside: str) -> Path | None:
        """The project that this store lies in, if it lay in its project before: it went along."""
        parts = Path(inside).parts
        if not parts or self.home.parts[-len(parts) :] != parts:
            return None
        return Path(*self.home.parts[: -len(parts)])

    def _guess(self, code: Code) -> _Move | None:
        """For a run that has no root on record: an old root had the name of the project."""
        path = Path(code.place)
        if path.exists():
            return None
        if self.given is not None:
            return _by_ending(code, self.given)
        if self._root is None or not (
            self.home.is_relative_to(self._root) or project.owns(self._root, self.home)
        ):
            return None
        names = {self._root.name, self.home.name.rpartition("-")[0]}
        found = [move for move in _endings(path, self._root) if move.was.name in names]
        return found[0] if len(found) == 1 else None


def _is_inside(code: Code, root: Path) -> bool:
    return Path(code.place).is_relative_to(root)


def _by_ending(code: Code, now: Path) -> _Move | None:
    """The longest ending of the recorded path that is in `now`."""
    return next(_endings(Path(code.place), now), None)


def _endings(path: Path, now: Path) -> Iterator[_Move]:
    for was in reversed((path, *path.parents)):
        if (now / path.relative_to(was)).exists():
            yield _Move(was, now)
