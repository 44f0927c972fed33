"""The shim in this process: how it is built, loaded and told what to do (see `shim.c`)."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
_LIBRARY = "CRASH_SHIM"


class Mode(IntEnum):
    """What a fault does to the operation that it strikes."""

    RECORD = 0
    """Nothing: list the operations."""
    BEFORE = 1
    """Kill the process before it."""
    AFTER = 2
    """Kill the process after it, before anybody is told."""
    TORN = 3
    """Do a part of a write, then kill the process."""
    EIO = 4
    """Let it fail, after a part of it; at `until`, if that is not 0, kill the process."""
    FULL = 5
    """From here on there is no room on the disk: until `until`, or for ever."""
    SHORT = 6
    """Do a part of a write and say so."""
    DELAY = 7
    """Wait `argument` microseconds first."""


class Kind(IntFlag):
    WRITE = 1
    SYNC = 2
    TRUNCATE = 4
    CREATE = 8
    RENAME = 16
    UNLINK = 32
    READ = 64
    MODE = 128


CHANGES = Kind.WRITE | Kind.SYNC | Kind.TRUNCATE | Kind.CREATE | Kind.RENAME | Kind.UNLINK | Kind.MODE
FILES = ("other", "database", "wal", "shm", "lock")


class Unavailable(Exception):
    """The shim cannot be used on this machine; the text says why."""


@dataclass(frozen=True)
class Fault:
    """One fault: strikes the first operation of `kinds` whose number is `at` or more."""

    mode: Mode
    at: int = 0
    kinds: Kind = CHANGES
    until: int = 0
    argument: int = 0
    """Of TORN, EIO, FULL and SHORT: where a write is cut (odd: at a sector). Of DELAY: microseconds."""
    counted: Kind = CHANGES

    @property
    def spares(self) -> bool:
        """Whether the process lives on."""
        return self.mode in (Mode.FULL, Mode.SHORT) or (self.mode == Mode.EIO and not self.until)

    def __str__(self) -> str:
        extra = f" until {self.until}" if self.until else ""
        return f"{self.mode.name} at operation {self.at}{extra}, argument {self.argument}"


@dataclass(frozen=True)
class Operation:
    kind: Kind
    file: str
    size: int


RECORDING = Fault(Mode.RECORD)


def library() -> Path:
    """The built shim, in a cache outside the tree. Raises `Unavailable`."""
    if sys.platform != "linux":
        raise Unavailable("the shim needs Linux (LD_PRELOAD, /proc)")
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        raise Unavailable("no C compiler (cc) to build the shim with")
    mark = hashlib.sha256(SOURCE.read_bytes() + compiler.encode()).hexdigest()[:16]
    built = _cache() / f"crash-shim-{mark}.so"
    if not built.exists():
        _compile(compiler, built)
    return built


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    directory = Path(base, "holdfast-tests")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        directory = Path(tempfile.gettempdir(), f"holdfast-tests-{os.getuid()}")
        directory.mkdir(mode=0o700, exist_ok=True)
    return directory


def _compile(compiler: str, built: Path) -> None:
    """By way of a name of its own: several processes may do this at once."""
    half = built.with_suffix(f".{os.getpid()}")
    argv = [*compiler.split(), "-O2", "-shared", "-fPIC", "-o", str(half), str(SOURCE), "-ldl"]
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"the shim does not compile: {done.stderr.strip()[:500]}")
    half.rename(built)


def environment() -> dict[str, str]:
    """The environment of a process that has the shim."""
    path = str(library())
    return {**os.environ, "LD_PRELOAD": path, _LIBRARY: path}


def is_loaded() -> bool:
    return _LIBRARY in os.environ


class _Record(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_ubyte), ("file", ctypes.c_ubyte), ("bytes", ctypes.c_ushort))


class _Plan(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_long) for name in ("mode", "at", "until", "argument", "counted", "kinds")),
        *((name, ctypes.c_long) for name in ("count", "struck", "struck_kind", "struck_file", "strikes")),
        ("root", ctypes.c_char * 256),
        ("records", _Record * 16384),
    )


@cache
def _loaded() -> tuple[ctypes.CDLL, _Plan]:
    library = ctypes.CDLL(os.environ[_LIBRARY])
    library.shim_plan.restype = ctypes.POINTER(_Plan)
    return library, library.shim_plan().contents


def plan(fault: Fault, root: Path) -> None:
    """What happens from now on to operations beneath `root`, in processes that are armed: this one, and
    children that are forked from it. Counting begins anew."""
    page = _loaded()[1]
    page.mode, page.at, page.until, page.argument = fault.mode, fault.at, fault.until, fault.argument
    page.counted, page.kinds = fault.counted, fault.kinds
    page.count = page.struck = page.struck_kind = page.struck_file = page.strikes = 0
    page.root = os.fsencode(root.resolve())


def arm() -> None:
    """From here on, in this process, in all its threads."""
    _loaded()[0].shim_arm()


def disarm() -> None:
    _loaded()[0].shim_disarm()


@dataclass(frozen=True)
class Outcome:
    """What came of a plan, read after the death of the process that was armed."""

    operations: int
    struck: int
    kind: Kind
    file: str
    strikes: int


def outcome() -> Outcome:
    page = _loaded()[1]
    return Outcome(page.count, page.struck, Kind(page.struck_kind), FILES[page.struck_file], page.strikes)


def recorded() -> Sequence[Operation]:
    """The operations that RECORD has listed."""
    page = _loaded()[1]
    return [
        Operation(Kind(one.kind), FILES[one.file], one.bytes)
        for one in page.records[: min(page.count, len(page.records))]
    ]
