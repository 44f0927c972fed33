"""What every scenario is made of: lives of one program on one store, notes of what its bodies did, a verdict.

A scenario is a script. Called without arguments it plays itself in a temporary directory, and its last line is
the verdict: `ok: ...`, `partly: ...` or `failed: ...`. Called as `SCRIPT LIFE HOME` it is one life, a process of its own that may be
killed. The standard library only: the scripts run in the environments of the products.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

LIFE_TIMEOUT_S = 60


@dataclass(frozen=True)
class Verdict:
    """`ok`: the failure did not happen. `failed`: it did. `partly`: it did, and there is another form or setting,
    documented by the product, in which it did not. `how` is what was seen."""

    outcome: Literal["ok", "partly", "failed"]
    how: str


def verdict(how: str, *, plain: bool, other: bool = False) -> Verdict:
    """`plain`: whether the plain form went well; `other`: whether the product's other documented form did."""
    return Verdict("ok" if plain else "partly" if other else "failed", how)


class Scene:
    """The directory that all lives share."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._notes = home / "notes"

    def note(self, text: str) -> None:
        """Written by any life, kept through a kill."""
        with self._notes.open("a") as notes:
            notes.write(text + "\n")

    def notes(self, beginning: str = "") -> list[str]:
        """What was noted so far, of the notes that begin so."""
        text = self._notes.read_text() if self._notes.exists() else ""
        return [line for line in text.splitlines() if line.startswith(beginning)]

    def wait_for(self, beginning: str, count: int = 1, timeout_s: float = 30) -> bool:
        """Whether there are `count` such notes within the time."""
        deadline = time.monotonic() + timeout_s
        while len(self.notes(beginning)) < count:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True

    def must(self, beginning: str, count: int = 1) -> None:
        """The scenario cannot continue without these notes."""
        if not self.wait_for(beginning, count):
            raise TimeoutError(f"nobody noted {beginning!r} {count} times; notes: {self.notes()}")

    def told(self, beginning: str, count: int = 1) -> list[str]:
        """The rest of the `count` notes that begin so. Without them there is no verdict: the scenario itself broke."""
        found = [line.removeprefix(beginning) for line in self.notes(beginning)]
        if len(found) != count:
            raise AssertionError(
                f"noted {beginning!r} {len(found)} times instead of {count}; notes: {self.notes()}"
            )
        return found

    def body(self, name: str, until: str) -> str:
        """A step's body that continues until somebody notes `until`."""
        self.note(f"began {name}")
        self.must(until)
        self.note(f"ended {name}")
        return f"done {name}"

    async def wait_async(self, beginning: str) -> None:
        """`must`, for coroutines."""
        while not self.notes(beginning):
            await asyncio.sleep(0.005)

    def start(self, life: str, *arguments: str) -> subprocess.Popen[bytes]:
        """A life of this script, in a process of its own; its output goes to `life.log`."""
        with (self.home / "life.log").open("a") as log:
            command = [sys.executable, sys.argv[0], life, str(self.home), *arguments]
            _started.append(subprocess.Popen(command, stdout=log, stderr=log))
        return _started[-1]

    def live(self, life: str, *arguments: str) -> None:
        """A whole life, however it ends."""
        self.start(life, *arguments).wait(LIFE_TIMEOUT_S)

    def live_beside(self, life: str, *arguments: str, sign: str, count: int) -> subprocess.Popen[bytes]:
        """Start a life and wait until it ends, or until there are `count` notes that begin with `sign`."""
        process = self.start(life, *arguments)
        deadline = time.monotonic() + LIFE_TIMEOUT_S
        while process.poll() is None and len(self.notes(sign)) < count and time.monotonic() < deadline:
            time.sleep(0.005)
        return process

    def die_once(self) -> None:
        """End this process as `kill -9` does, in the first life only; what is being written has a moment."""
        if not self.notes("died"):
            time.sleep(0.5)
            self.note("died")
            os.kill(os.getpid(), signal.SIGKILL)


_started: list[subprocess.Popen[bytes]] = []


def times(count: int) -> str:
    """A count in words."""
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def this() -> Scene:
    """The scene of this life, for bodies at the top level of a script."""
    return Scene(Path(sys.argv[2]))


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def play(judge: Callable[[Scene], Verdict], **lives: Callable[..., None]) -> None:
    """What a scenario's script calls at its end."""
    if len(sys.argv) > 2:
        lives[sys.argv[1]](Scene(Path(sys.argv[2])), *sys.argv[3:])
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-failures-") as home:
        scene = Scene(Path(home))
        try:
            found = judge(scene)
        except BaseException:
            for log in sorted(scene.home.rglob("life.log")):
                sys.stderr.write(log.read_text())
            raise
        finally:
            for process in _started:
                kill(process)
        print(f"{found.outcome}: {found.how}")
