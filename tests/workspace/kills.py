"""Kill -9 at every call that changes something, of a restore with changes of every kind.

A child process carries out the restore and dies at one operation, before it or after it. Whoever opens the
workspace next finds the old files or the new ones. The operations are the calls of `os` that change a file or
a directory; what lies between two of them changes nothing.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.workspace.trees import Gardener, look, values

from holdfast.workspace import Plan, Workspace, storage

CHANGES_AT_LEAST = 200
OPERATIONS = (
    "rename replace link symlink unlink remove rmdir mkdir fchmod chmod write pwrite fsync fdatasync"
).split()
FILLING = ("open", "write", "mkdir", "symlink", "link")
"""Those that need room on the disk."""
LEFTOVER = b".holdfast-restore-"

Values = dict[bytes, tuple[int, bytes | None]]


@dataclass(frozen=True)
class Story:
    """A tree that a run has left, and the restore of it."""

    directory: Path
    to: str
    left: str
    old: Values
    new: Values
    changes: int
    operations: int


class Striking:
    """Counts operations. At number `at`, before or after it, the process dies; or, with `error`, it fails if
    it needs room on the disk, and if that is `lasting` so do all that follow."""

    def __init__(self, at: int = 0, *, after: bool = False, error: int = 0, lasting: bool = False) -> None:
        self.count = 0
        self._at = at
        self._after = after
        self._error = error
        self._lasting = lasting

    def __enter__(self) -> Striking:
        self._real = {name: getattr(os, name) for name in (*OPERATIONS, "open")}
        self._sync = storage.sync_filesystem
        self._filling = {self._real[name] for name in FILLING}
        for name in OPERATIONS:
            setattr(os, name, self._wrapped(self._real[name]))
        os.open = self._opening
        storage.sync_filesystem = self._wrapped(lambda fd: None)
        return self

    def __exit__(self, *_: object) -> None:
        for name, real in self._real.items():
            setattr(os, name, real)
        storage.sync_filesystem = self._sync

    def _opening(self, path: Any, flags: int, *rest: Any, **named: Any) -> int:
        real = self._real["open"]
        if not flags & os.O_CREAT or (named.get("dir_fd") is None and os.path.lexists(path)):
            return real(path, flags, *rest, **named)
        return self._wrapped(real)(path, flags, *rest, **named)

    def _wrapped(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*positional: Any, **named: Any) -> Any:
            self.count += 1
            struck = self.count == self._at or (self._lasting and self.count >= self._at > 0)
            if struck and self._error and real in self._filling:
                raise OSError(self._error, os.strerror(self._error))
            if struck and not self._error and not self._after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*positional, **named)
            if struck and not self._error:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call


def make(directory: Path, seed: int = 0) -> Story:
    """A story with at least 200 changes of every kind, told once without a kill."""
    template = directory / "template"
    root = template / "tree"
    root.mkdir(parents=True)
    gardener = Gardener(root, seed, special=False)
    gardener.plant(150)
    workspace = Workspace(root, template / "store")
    to = workspace.snapshot().id
    changes = 0
    while changes < CHANGES_AT_LEAST:
        gardener.edit(60)
        left = workspace.snapshot().id
        changes = len(workspace.plan(to, left).actions)
    workspace.close()
    old = values(look(root))
    story = Story(directory, to, left, old, {}, changes, 0)
    with scene(story) as (workspace, plan), Striking() as striking:
        workspace.apply(plan)
        new = values(look(workspace.root))
    assert new != old
    return Story(directory, to, left, old, new, changes, striking.count)


class scene:
    """A fresh copy of the story's tree and store, and the plan of the restore."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._place = story.directory / "scene"

    def __enter__(self) -> tuple[Workspace, Plan]:
        _clear(self._place)
        shutil.copytree(self._story.directory / "template", self._place, symlinks=True)
        self._workspace = Workspace(self._place / "tree", self._place / "store")
        return self._workspace, self._workspace.plan(self._story.to, self._story.left)

    def __exit__(self, *_: object) -> None:
        self._workspace.close()
        _clear(self._place)


def kill_at(story: Story, at: int, *, after: bool, again: int = 0) -> str:
    """One life that ends at operation `at`, and if `again` a recovery that ends there → what came of it."""
    with scene(story) as (workspace, plan):
        _die(lambda: workspace.apply(plan), Striking(at, after=after))
        if again:
            _die(
                lambda: Workspace(workspace.root, workspace.root.parent / "store").recover(), Striking(again)
            )
        successor = Workspace(workspace.root, workspace.root.parent / "store")
        successor.recover()
        found = values(look(workspace.root))
        assert not [path for path in found if LEFTOVER in path], (at, after, again)
        assert successor.snapshot().id
        successor.close()
    if found == story.old:
        return "old"
    if found == story.new:
        return "new"
    wrong = sorted(path for path in {*found, *story.new} if found.get(path) != story.new.get(path))
    raise AssertionError(f"killed at {at} (after: {after}, again: {again}): neither old nor new: {wrong[:5]}")


def points(story: Story, chance: random.Random) -> Iterator[tuple[int, bool, int]]:
    """(operation, after it, operation of the recovery): all operations in random order, then pairs."""
    singles = [(at, after, 0) for at in range(1, story.operations + 1) for after in (False, True)]
    chance.shuffle(singles)
    yield from singles
    while True:
        yield chance.randint(1, story.operations), chance.random() < 0.5, chance.randint(1, story.operations)


def _die(act: Callable[[], object], striking: Striking) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            with striking:
                act()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL)


def _clear(place: Path) -> None:
    if place.exists():
        for directory, _, _ in os.walk(os.fsencode(place)):
            os.chmod(directory, 0o700)
        shutil.rmtree(place)
