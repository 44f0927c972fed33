"""Kill -9 at every call that changes something, of a restore with changes of every kind.

A child process carries out the restore and dies at one operation, before it or after it. Whoever opens the
workspace next finds the old files or the new ones. The operations are the calls of `os` that change a file or
a directory; what lies between two of them changes nothing.
"""

from __future__ import annotations

import errno
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

from holdfast.errors import RestoreUndone
from holdfast.workspace import Plan, Workspace, storage

CHANGES_AT_LEAST = 200
PLAIN = 90
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
    applying: tuple[int, int] = (0, 0)
    """The operations between which contents move into their places."""


class Striking:
    """Counts operations. At number `at`, before or after it, the process dies. From number `full` on there is
    no room on the disk: for the first operation that needs some, or if that is `lasting` for all."""

    def __init__(self, at: int = 0, *, after: bool = False, full: int = 0, lasting: bool = False) -> None:
        self.count = 0
        self.marks: list[int] = []
        """When the journal changed its phase: its only writes in place."""
        self._at = at
        self._after = after
        self._full = full
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
            if real is self._real["pwrite"]:
                self.marks.append(self.count)
            if 0 < self._full <= self.count and real in self._filling:
                self._full *= self._lasting
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self.count == self._at and not self._after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*positional, **named)
            if self.count == self._at:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call


def make(directory: Path, seed: int = 0) -> Story:
    """A story with at least 200 changes of every kind, told once without a kill."""
    template = directory / "template"
    root = template / "tree"
    root.mkdir(parents=True)
    gardener = Gardener(root, seed, special=False)
    gardener.plant(80)
    _sow(root)
    workspace = Workspace(root, template / "store")
    to = workspace.snapshot().id
    _spoil(root)
    changes = 0
    while changes < CHANGES_AT_LEAST:
        gardener.edit(30)
        left = workspace.snapshot().id
        changes = len(workspace.plan(to, left).actions)
    workspace.close()
    old = values(look(root))
    story = Story(directory, to, left, old, {}, changes, 0)
    with scene(story) as (workspace, plan), Striking() as striking:
        workspace.apply(plan)
        new = values(look(workspace.root))
    assert new != old
    applying, done = striking.marks
    return Story(directory, to, left, old, new, changes, striking.count, (applying, done))


def _sow(root: Path) -> None:
    """Directories that stay, so that their files are moved one by one."""
    for number in range(PLAIN):
        path = root / f"plain{number % 5}" / f"file{number}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"good {number}")


def _spoil(root: Path) -> None:
    for number in range(PLAIN):
        path = root / f"plain{number % 5}" / f"file{number}"
        match number % 6:
            case 0 | 1:
                path.write_text(f"bad {number}")
            case 2:
                path.unlink()
            case 3:
                path.chmod(0o600)
            case 4:
                path.unlink()
                path.symlink_to("elsewhere")
            case 5:
                path.unlink()
                path.mkdir()
                (path / "inside").write_text("bad")
        path.with_name(f"new{number}").write_text("bad")


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


@dataclass(frozen=True)
class Point:
    """Where a life ends: at operation `at`, before or after it. If `full`, while it takes back what it could
    not finish for lack of room from there on. If `again`, so does the recovery, at that one of its own."""

    at: int
    after: bool
    full: int = 0
    again: int = 0


def kill_at(story: Story, point: Point) -> str:
    """One life and what follows → which files there were in the end."""
    with scene(story) as (workspace, plan):
        _die(lambda: workspace.apply(plan), Striking(point.at, after=point.after, full=point.full))
        if point.again:
            _die(Workspace(workspace.root, workspace.root.parent / "store").recover, Striking(point.again))
        successor = Workspace(workspace.root, workspace.root.parent / "store")
        successor.recover()
        found = values(look(workspace.root))
        assert not [path for path in found if LEFTOVER in path], point
        assert successor.snapshot().id
        successor.close()
    if found == story.old:
        return "old"
    if found == story.new:
        return "new"
    wrong = sorted(path for path in {*found, *story.new} if found.get(path) != story.new.get(path))
    raise AssertionError(f"{point}: neither old nor new: {wrong[:5]}")


def points(story: Story, chance: random.Random) -> Iterator[Point]:
    """All operations in random order, then lives that end while something else goes wrong."""
    singles = [Point(at, after) for at in range(1, story.operations + 1) for after in (False, True)]
    chance.shuffle(singles)
    yield from singles
    while True:
        yield trouble(story, chance)


def trouble(story: Story, chance: random.Random) -> Point:
    """Killed again in the recovery, or killed on the way back, or both."""
    again = chance.choice((0, chance.randint(1, story.operations // 2)))
    if chance.random() < 0.3:
        return Point(chance.randint(1, story.operations), chance.random() < 0.5, again=again)
    first, last = story.applying
    full = chance.randint(first + 1, last)
    return Point(chance.randint(full, full + last - first), chance.random() < 0.5, full, again)


def _die(act: Callable[[], object], striking: Striking) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            with striking:
                act()
            os._exit(0)
        except RestoreUndone:
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
