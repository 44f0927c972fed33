"""Kill -9 at every system call that changes a file, of a restore with changes of every kind.

A process that has the shim of the crash suite makes a tree, spoils it, and lists the calls of one undisturbed
restore: writes, syncs, renames, links, modes, in the tree and in the store. Then each call is struck in a
life of its own, before it, after it, and in the middle of it if it is a write. Whoever opens the workspace
next finds exactly the old files or exactly the new ones. Lives *in trouble* die on the way back from a call
that failed, or die again in the recovery. With `--power` the filesystem forgets at the last death what it
has not written, as in a power cut (`tests.crash.mounts`); with `--neighbour` somebody else syncs files of
theirs there all the time: then the names are on the disk that were given until then, and the contents are
not.

    python -m tests.workspace.kills --help      strikes here, and prints a line of JSON for each point
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.crash import mounts, shim
from tests.crash.mounts import Mount
from tests.crash.shim import Fault, Kind, Mode
from tests.workspace.trees import Gardener, look, values

from holdfast.errors import HoldfastError
from holdfast.workspace.fs import exchange
from holdfast.workspace.restoring.restore_plan import Plan
from holdfast.workspace.snapshots import scan_index
from holdfast.workspace.workspace import Workspace

ROOT = Path(__file__).parents[2]
EACH = 35
"""Of each kind of change, in directories that stay; a garden beside them adds directories that do not."""
KINDS = ("modified", "removed", "mode", "link", "directory", "added")
LEFTOVER = b".holdfast-restore-"
FILLING = Kind.WRITE | Kind.CREATE
_FAST = Path("/dev/shm")
_NEIGHBOUR_S = 0.002

Values = dict[bytes, tuple[int, bytes | None]]


@dataclass(frozen=True)
class Story:
    """A tree that a run has left, and the restore of it."""

    directory: Path
    to: str
    left: str
    changes: dict[str, int]
    old: Values = field(default_factory=dict)
    new: Values = field(default_factory=dict)
    calls: tuple[Kind, ...] = ()
    mount: Mount | None = None
    has_neighbour: bool = False


@dataclass(frozen=True)
class Point:
    """Where a life ends. With a second fault, so does the recovery from it."""

    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        return ", then ".join(str(fault) for fault in self.faults)


@dataclass
class Tally:
    """What came of some points."""

    calls: int = 0
    changes: dict[str, int] = field(default_factory=dict)
    struck: int = 0
    missed: int = 0
    """Lives that ended before their fault: they prove nothing."""
    found: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, line: dict[str, Any]) -> None:
        if "calls" in line:
            self.calls, self.changes = line["calls"], line["changes"]
        elif line["wrong"]:
            self.wrong.append(f"{line['point']}: {line['wrong']}")
        elif not line["struck"]:
            self.missed += 1
        else:
            self.struck += 1
            self.found[line["found"]] += 1


# Told by another process


def tell(*arguments: str) -> Iterator[dict[str, Any]]:
    """What a process with the shim prints. Raises `shim.Unavailable`."""
    command = [sys.executable, "-m", "tests.workspace.kills", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, env=shim.environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    assert process.returncode == 0, "the process that strikes failed; its standard error says why"


def tally(*arguments: str) -> Tally:
    found = Tally()
    for line in tell(*arguments):
        found.add(line)
    return found


# Told here


def make(
    directory: Path, seed: int, each: int, mount: Mount | None = None, has_neighbour: bool = False
) -> Story:
    """A story with at least `each` changes of every kind, told once without a fault."""
    template = directory / "template"
    root = template / "tree"
    (root / "garden").mkdir(parents=True)
    gardener = Gardener(root / "garden", seed, special=False)
    gardener.plant(40)
    _sow(root, each)
    workspace = Workspace(root, template / "store")
    to = workspace.snapshot().id
    _spoil(root, each)
    gardener.edit(40)
    left = workspace.snapshot().id
    changes = Counter(action.kind for action in workspace.plan(to, left).actions)
    workspace.close()
    story = Story(directory, to, left, dict(changes), values(look(root)))
    with _Scene(story) as scene:
        _live(scene, lambda: scene.workspace.apply(scene.plan), shim.RECORDING)
        calls = tuple(one.kind for one in shim.recorded())
        new = values(look(scene.workspace.root))
    assert new != story.old
    return replace(story, new=new, calls=calls, mount=mount, has_neighbour=has_neighbour)


def _sow(root: Path, each: int) -> None:
    """Directories that stay, so that what is in them is moved one by one."""
    for number in range(each):
        for kind in KINDS[:-1]:
            path = root / f"plain{number % 5}" / f"{kind}{number}"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"good {number}")


def _spoil(root: Path, each: int) -> None:
    for number in range(each):
        for kind in KINDS:
            path = root / f"plain{number % 5}" / f"{kind}{number}"
            match kind:
                case "modified" | "added":
                    path.write_text(f"bad {number}")
                case "mode":
                    path.chmod(0o600)
                case _:
                    path.unlink()
            if kind == "link":
                path.symlink_to("elsewhere")
            elif kind == "directory":
                path.mkdir()
                (path / "inside").write_text("bad")


class _Scene:
    """A fresh copy of the story's tree and store, and the plan of the restore."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self.place = story.directory / "scene"

    def __enter__(self) -> _Scene:
        shutil.copytree(self._story.directory / "template", self.place, symlinks=True)
        self.workspace = self.opened()
        self.plan: Plan = self.workspace.plan(self._story.to, self._story.left)
        if self._story.mount is not None:
            os.sync()
        return self

    @contextmanager
    def company(self) -> Iterator[None]:
        """The neighbour, if there is one: for their files the filesystem writes its journal to the disk."""
        if not self._story.has_neighbour:
            yield
            return
        pid = os.fork()
        if pid == 0:
            try:
                while True:
                    with (self._story.directory / "neighbour").open("w") as file:
                        file.write("theirs")
                        file.flush()
                        os.fsync(file.fileno())
                    time.sleep(_NEIGHBOUR_S)
            finally:
                os._exit(1)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def cut(self) -> None:
        """What was not synced is forgotten, where power can be cut."""
        if self._story.mount is not None:
            self.workspace.close()
            self._story.mount.cut()
            self._story.mount.restore()

    def __exit__(self, *_: object) -> None:
        self.workspace.close()
        for directory, _, _ in os.walk(os.fsencode(self.place)):
            os.chmod(directory, 0o700)
        shutil.rmtree(self.place)

    def opened(self) -> Workspace:
        return Workspace(self.place / "tree", self.place / "store")


def strike(story: Story, point: Point) -> tuple[int, str]:
    """One life and what follows → how many faults struck, and which files there were in the end."""
    with _Scene(story) as scene:
        struck = _live(scene, lambda: scene.workspace.apply(scene.plan), point.faults[0])
        for fault in point.faults[1:]:
            struck += _live(scene, lambda: scene.opened().recover(), fault)
        scene.cut()
        successor = scene.opened()
        successor.recover()
        found = values(look(successor.root))
        left_over = [path for path in found if LEFTOVER in path]
        assert not left_over, f"left over: {left_over[:5]}"
        successor.snapshot()
        successor.close()
    for name, expected in (("old", story.old), ("new", story.new)):
        if found == expected:
            return struck, name
    wrong = sorted(path for path in {*found, *story.new} if found.get(path) != story.new.get(path))
    raise AssertionError(f"neither old nor new: {wrong[:5]}")


def _live(scene: _Scene, act: Callable[[], object], fault: Fault) -> int:
    """A life in a process of its own → 1 if the fault struck."""
    with scene.company():
        return _live_alone(scene, act, fault)


def _live_alone(scene: _Scene, act: Callable[[], object], fault: Fault) -> int:
    shim.plan(fault, scene.place)
    pid = os.fork()
    if pid == 0:
        try:
            shim.arm()
            act()
            os._exit(0)
        except HoldfastError as error:
            if fault.spares or fault.until:
                os._exit(0)
            traceback.print_exception(error)
            os._exit(1)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL), f"a life ended with {code}"
    return int(shim.outcome().struck > 0)


def every(story: Story) -> list[Point]:
    """Each call, before and after it, and in the middle of it if it is a write."""
    points = []
    for at, kind in enumerate(story.calls, 1):
        for mode in (Mode.BEFORE, Mode.AFTER, *((Mode.TORN,) if kind is Kind.WRITE else ())):
            points.append(Point((Fault(mode, at, argument=2 * at),)))
    return points


def troubles(story: Story, chance: random.Random, count: int) -> list[Point]:
    """Killed again in the recovery, killed on the way back from a call that failed, or a call fails and
    nobody is killed, or the disk is full from there on."""
    last = len(story.calls)
    syncs = [at for at, kind in enumerate(story.calls, 1) if kind is Kind.SYNC]

    def killed(before: int) -> Fault:
        return Fault(chance.choice((Mode.BEFORE, Mode.AFTER)), chance.randint(1, before))

    def one() -> Point:
        at = chance.randint(1, last)
        match chance.randrange(4):
            case 0:
                return Point((killed(last), killed(last // 2)))
            case 1:
                at = chance.choice((at, chance.choice(syncs)))
                failed = Fault(Mode.EIO, at, until=at + chance.randint(1, last // 2))
                return Point((failed, *((killed(last // 2),) if chance.random() < 0.5 else ())))
            case 2:
                return Point((Fault(Mode.EIO, at),))
            case _:
                return Point((Fault(Mode.FULL, at, FILLING, argument=chance.randrange(1 << 10)),))

    return [one() for _ in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=EACH, help="so many changes of each kind")
    parser.add_argument("--sample", type=int, help="so many of all calls; without it, all of them")
    parser.add_argument("--troubles", type=int, default=0, help="so many lives in trouble")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), help="NUMBER OF: one of so many parts")
    parser.add_argument("--by-links", action="store_true", help="as on a filesystem without exchange")
    parser.add_argument(
        "--power", choices=mounts.MAKE, help="cut the power at the last death, on such a filesystem"
    )
    parser.add_argument("--neighbour", action="store_true", help="somebody else syncs files of theirs there")
    arguments = parser.parse_args()
    if arguments.by_links:
        exchange.exchange = lambda *_: False
    # What a copy of the tree holds is young; its times are as good as old ones, for nobody changes it.
    scan_index._MARGIN_NS = scan_index._COARSE_MARGIN_NS = -(10**12)
    chance = random.Random(arguments.seed)
    with _place(arguments.power) as (directory, mount):
        story = make(directory, arguments.seed, arguments.each, mount, arguments.neighbour)
        _say({"calls": len(story.calls), "changes": story.changes})
        points = every(story)
        chance.shuffle(points)
        points = points[: arguments.sample] + troubles(story, chance, arguments.troubles)
        number, of = arguments.part
        for point in points[number::of]:
            struck, found, wrong = 0, "", ""
            try:
                struck, found = strike(story, point)
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
            _say({"point": str(point), "struck": struck, "found": found, "wrong": wrong})


@contextmanager
def _place(power: str | None) -> Iterator[tuple[Path, Mount | None]]:
    """Where a story is told."""
    if power is None:
        with tempfile.TemporaryDirectory(dir=_FAST if _FAST.is_dir() else None) as made:
            yield Path(made), None
    else:
        with mounts.mounted(power) as mount:
            yield mount.point / "story", mount


def _say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
