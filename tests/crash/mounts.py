"""Power cuts under a whole application: real processes on ext4 and xfs, whose filesystem is shut down.

An image is mounted through a loop device, and a script runs on it in a process of its own. At a random line
it is stopped (SIGSTOP), so that everything it has said is known; then the filesystem is told to forget what
it has not written (FS_IOC_SHUTDOWN without a flush of its journal), unmounted and mounted again. What was
acknowledged must be there, and the script must continue to its end. With durability "process" some of it must
be missing, or this is no power cut.

Needs root, loop devices and mkfs; what is missing is said in the score.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from threading import Timer

from tests.crash.checker import Lives, Violation, check_rebuilt, check_store, whole_lines
from tests.crash.recordings import ROOT, SCRIPTS, Durability
from tests.crash.score import Budget, Score
from tests.crash.side import Side

CUTS = 8
CONTROLS = 4
MORE_CONTROLS = 8
CUT_SCRIPTS = ("long", "long", "post", "sequential", "together")
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}
OPTIONS = {"ext4": "rw", "xfs": "nouuid"}
"""Somebody else's mount namespace may still have the filesystem of a moment ago, shut down as it is."""
IMAGE_BYTES = 400 << 20
"""Sparse; xfs asks for 300 MB."""
PATIENCE_S = 60.0
FS_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = struct.pack("I", 2)


class CannotCut(Exception):
    """This machine cannot do it; the text says why."""


# A filesystem whose power can be cut


class Mount:
    """A fresh filesystem of a kind, mounted."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.point = directory / "mount"
        self._kind = kind
        self._number = 0
        self._image = directory / "image"
        self.point.mkdir()
        self._other = directory / "other"
        for image in (self._image, self._other):
            with image.open("wb") as file:
                file.truncate(IMAGE_BYTES)
        _system(*MAKE[kind], str(self._image))
        self._mount()

    def _mount(self) -> None:
        """Through a device of its own, which goes with the filesystem."""
        with _device(self._image) as device:
            _system("mount", "-o", OPTIONS[self._kind], device, str(self.point))

    def cut(self) -> None:
        """From now on nothing reaches the disk any more, and what did not is lost."""
        fd = os.open(self.point, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, FS_IOC_SHUTDOWN, NO_LOG_FLUSH)
        finally:
            os.close(fd)

    def restore(self) -> None:
        """The power is back, and every other time the disk is another device. Nobody may have a file open."""
        self._number += 1
        _system("umount", str(self.point))
        with _device(self._other) if self._number % 2 else nullcontext():
            self._mount()

    def close(self) -> None:
        _system("umount", str(self.point))


@contextmanager
def _device(image: Path) -> Iterator[str]:
    """A loop device; if it is mounted meanwhile, it stays until that is over."""
    device = _system("losetup", "--find", "--show", str(image))
    try:
        yield device
    finally:
        _system("losetup", "--detach", device)


def _system(*argv: str) -> str:
    """What the command says."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if done.returncode:
        raise OSError(f"{argv[0]} failed: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


@contextmanager
def mounted(kind: str) -> Iterator[Mount]:
    """A filesystem that was cut off and came back once. Raises `CannotCut` if that is not possible here."""
    if os.geteuid():
        raise CannotCut("only root can mount")
    if shutil.which(MAKE[kind][0]) is None:
        raise CannotCut(f"there is no {MAKE[kind][0]}")
    fast = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="mount-", dir=fast if fast.is_dir() else None) as directory:
        try:
            mount = Mount(kind, Path(directory))
        except OSError as error:
            raise CannotCut(str(error)) from None
        try:
            try:
                mount.cut()
                mount.restore()
            except OSError as error:
                raise CannotCut(f"{kind} cannot be shut down: {error}") from None
            yield mount
        finally:
            mount.close()


# Lives in processes of their own


class Life:
    """A script that plays in a process of its own; one that hangs is killed after a minute."""

    def __init__(
        self,
        script: str,
        home: Path,
        past: Sequence[str],
        durability: Durability = "full",
        settle: tuple[str, str] | None = None,
    ) -> None:
        job = {
            "script": script,
            "home": str(home),
            "past": [*past],
            "durability": durability,
            "settle": settle,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.crash.mounts import main; main()"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(job).encode())
        self._process.stdin.close()
        self._output = self._process.stdout.fileno()
        self._said = b""
        self._watchdog = Timer(PATIENCE_S, self._process.kill)
        self._watchdog.start()

    def finish(self) -> list[str]:
        """Let it play to its end."""
        self._hear(lambda: False)
        self._process.wait(PATIENCE_S)
        self.kill()
        return whole_lines(self._said)

    def stop_after(self, lines: int) -> list[str]:
        """Stop it after so many lines, or at its end; everything that it has said by then."""
        self._hear(lambda: self._said.count(b"\n") >= lines)
        self._process.send_signal(signal.SIGSTOP)
        self._wait_until_stopped()
        os.set_blocking(self._output, False)
        with suppress(BlockingIOError):
            self._hear(lambda: False)
        return whole_lines(self._said)

    def kill(self) -> None:
        self._watchdog.cancel()
        self._process.kill()
        self._process.wait(PATIENCE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _hear(self, enough: Callable[[], bool]) -> None:
        while not enough():
            data = os.read(self._output, 65536)
            if not data:
                return
            self._said += data

    def _wait_until_stopped(self) -> None:
        """All its threads: one may be inside a system call that cannot be stopped."""
        deadline = time.monotonic() + PATIENCE_S
        while not all(state in "TtZX" for state in self._states()):
            if time.monotonic() > deadline:
                raise TimeoutError("a process was not stopped")
            time.sleep(0.001)

    def _states(self) -> str:
        states = ""
        for task in Path(f"/proc/{self._process.pid}/task").glob("*/stat"):
            with suppress(FileNotFoundError, ProcessLookupError):
                states += task.read_text().rpartition(")")[2].split()[0]
        return states


def main() -> None:
    """One life; its job is on standard input, its lines go to standard output."""
    job = json.load(sys.stdin)
    settle = tuple(job["settle"]) if job["settle"] else None
    side = Side(sys.stdout.fileno(), job["past"])
    SCRIPTS[job["script"]].play(Path(job["home"]), side, durability=job["durability"], settle=settle)


# Cuts


def cut_once(
    mount: Mount, lives: Lives, script: str, lines: int, chance: random.Random, durability: Durability
) -> None:
    """A life, a cut after so many lines of it, and lives to the end. Raises `Violation`."""
    home = _fresh(mount)
    life = Life(script, home, (), durability)
    try:
        said = life.stop_after(lines)
        mount.cut()
    finally:
        life.kill()
    mount.restore()
    lives.add(said, check_store(home), cut=True)
    go_on(lives, script, home, said, chance)
    check_rebuilt(home)


def go_on(lives: Lives, script: str, home: Path, said: list[str], chance: random.Random) -> None:
    """Lives without faults, until the runs have ended."""
    settle: tuple[str, str] | None = None
    for _ in range(9):
        lines = Life(script, home, said, settle=settle).finish()
        said = [*said, *lines]
        lives.add(lines, check_store(home), cut=False)
        if lives.finish() == "completed":
            return
        step = next(line.split()[1] for line in lines if line.startswith("attention "))
        settle = (step, chance.choice(("done", "retry")))
    raise Violation(f"the run is not at its end after nine lives: {said[-1]!r}")


def run_on(kind: str, budget: Budget) -> Score:
    """Cuts and controls on one filesystem."""
    score = Score("power cut of a machine", f"{kind} on a loop device, shut down under a live process")
    chance = random.Random(f"{budget.seed} {kind}")
    try:
        with mounted(kind) as mount:
            for number in range(budget.of(CUTS)):
                _try_cut(score, mount, f"{kind}, seed {budget.seed}, cut {number}", chance)
            _try_controls(score, mount, f"{kind}, seed {budget.seed}", chance, budget.of(CONTROLS))
    except CannotCut as reason:
        score.skipped = str(reason)
    return score


def _try_cut(score: Score, mount: Mount, name: str, chance: random.Random) -> None:
    script = chance.choice(CUT_SCRIPTS)
    lines = chance.randint(1, _lines_of(script))
    lives = Lives(SCRIPTS[script].plan)
    try:
        cut_once(mount, lives, script, lines, chance, "full")
    except Exception as error:
        score.violations.append(f"{name} after {lines} lines of {script}: {type(error).__name__}: {error}")
    score.points += 1
    score.lost += lives.lost


def _try_controls(score: Score, mount: Mount, name: str, chance: random.Random, count: int) -> None:
    """So many lives whose steps do not wait for the disk. Their writes may reach it all the same, if another
    process syncs: if none of these lives lost anything, further ones are tried."""
    number = lost = 0
    while number < count or (not lost and number < count + MORE_CONTROLS):
        number += 1
        lines = chance.randint(20, _lines_of("long") // 2)
        lives = Lives(SCRIPTS["long"].plan)
        try:
            cut_once(mount, lives, "long", lines, chance, "process")
        except Exception as error:
            if not lives.lost:
                score.violations.append(f"{name}, control {number}: {type(error).__name__}: {error}")
        lost += lives.lost > 0
    score.notes = {'control: durability "process"': number, "of these lost something": lost}
    if not lost:
        score.violations.append(f'{name}: durability "process" lost nothing: this is no power cut')


def _lines_of(script: str) -> int:
    """About as many lines as it says: three for a step."""
    return 3 * sum(len(run.steps) for run in SCRIPTS[script].plan.values())


def _fresh(mount: Mount) -> Path:
    """A home that is not there yet: the store makes it, in a directory that is on the disk."""
    directory = Path(tempfile.mkdtemp(dir=mount.point))
    fd = os.open(mount.point, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    os.close(fd)
    return directory / "home"


def run(budget: Budget) -> list[Score]:
    """Both filesystems at once."""
    with ThreadPoolExecutor(len(MAKE)) as pool:
        return list(pool.map(partial(run_on, budget=budget), MAKE))
