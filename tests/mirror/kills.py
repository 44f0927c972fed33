"""Kill -9 at every system call by which a drain changes a file, and a full disk from each of them on.

A process that has the shim of the crash suite makes a project whose mirror is behind: new tasks, an ended
one, a memory, runs, two of them of a checklist, and a month of the history that is due to be compressed. It
lists the calls of one undisturbed drain. Then each call is struck in a life of its own: before it, after it,
in the middle of it if it is a write, or the disk is full from there on. A look at it finds each file old
or new, and the next drain comes to the same files as the undisturbed one.

    python -m tests.mirror.kills [--sample N]      strikes here, and prints a line of JSON
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.crash import shim
from tests.crash.shim import Fault, Kind, Mode
from tests.mirror.project import Project, look, survey

from holdfast.mirror import sealed_text

ROOT = Path(__file__).parents[2]
FILLING = Kind.WRITE | Kind.CREATE
_FAST = Path("/dev/shm")


def told(*arguments: str) -> dict[str, Any]:
    """What a process with the shim found. Raises `shim.Unavailable`."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.mirror.kills", *arguments],
        cwd=ROOT,
        env=shim.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


class Story:
    """A project whose mirror is behind, and the files before and after a drain."""

    def __init__(self, directory: Path) -> None:
        self.project = Project(directory)
        self.mirror, self.behind = self.project.mirror, directory / "behind"
        with self.project.opened() as hf:
            self.project.work(hf)
            self.project.check_off(hf, "c1")
        self.project.clock.advance(timedelta(days=70))
        with self.project.opened(drains=False) as hf:
            self.project.note(hf, "t2", "decision", "use kelp")
            self.project.complete(hf, "t2", "done")
            self.project.create(hf, "t3", "the next task")
            self.project.claim(hf, "t3")
            self.project.remember(hf, "m3", "a third decision")
            hf.with_id("r2").run(survey)
            hf.approve("c1")
            hf.resume("c1").result()
            self.project.check_off(hf, "c2")
        shutil.copytree(self.mirror, self.behind)
        self.old = look(self.mirror)
        self._live(shim.RECORDING)
        self.calls = [one.kind for one in shim.recorded()]
        self.new = look(self.mirror)
        assert self.old != self.new

    def strike(self, fault: Fault) -> str:
        """One life → which files it left: `old`, `new` or `between`."""
        shutil.rmtree(self.mirror)
        shutil.copytree(self.behind, self.mirror, copy_function=shutil.copy2)
        self._live(fault)
        assert shim.outcome().struck, "the life ended before its fault"
        left = look(self.mirror)
        self._check(left)
        self.project.drain()
        found = look(self.mirror)
        assert found == self.new, sorted(
            name for name in {*found, *self.new} if found.get(name) != self.new.get(name)
        )
        assert not list(self.mirror.rglob("tmp-*")), "left over"
        return "old" if left == self.old else "new" if left == self.new else "between"

    def _check(self, left: dict[str, bytes]) -> None:
        """Each file is old or new; files of lines may also be on the way from one to the other."""
        for name, content in left.items():
            versions = [self.old.get(name), self.new.get(name)]
            if name.endswith(".jsonl"):
                longest = max(filter(None, versions), key=len)
                assert longest.startswith(content) and content.startswith(self.old.get(name, b"")), name
            elif not Path(name).name.startswith("tmp-"):
                assert content in versions, f"{name} is neither old nor new"
        for path in self.mirror.rglob("previous/*.*"):
            assert sealed_text.state_of(path.name, path.read_bytes()) == "own", f"{path} is torn"
        assert not set(self.old) - set(left) - (set(self.old) - set(self.new)), "a file is gone"

    def _live(self, fault: Fault) -> None:
        """A drain in a process of its own."""
        shim.plan(fault, self.mirror)
        pid = os.fork()
        if pid == 0:
            try:
                logging.disable()  # the warning of a full disk
                with self.project.opened():
                    shim.arm()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, -signal.SIGKILL), f"a life ended with {code}"


def faults(calls: list[Kind]) -> Iterator[Fault]:
    for at, kind in enumerate(calls, 1):
        yield Fault(Mode.BEFORE, at)
        yield Fault(Mode.AFTER, at)
        if kind is Kind.WRITE:
            yield Fault(Mode.TORN, at, argument=2 * at)
        if kind & FILLING:
            yield Fault(Mode.FULL, at, FILLING, argument=at)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, help="so many of all faults, evenly; without it, all")
    sample = parser.parse_args().sample
    with tempfile.TemporaryDirectory(dir=_FAST if _FAST.is_dir() else None) as directory:
        story = Story(Path(directory))
        every = list(faults(story.calls))
        chosen = every if sample is None else every[:: max(1, len(every) // sample)]
        found: Counter[str] = Counter()
        wrong = []
        for fault in chosen:
            try:
                found[story.strike(fault)] += 1
            except AssertionError as error:
                wrong.append(f"{fault}: {error}")
    print(json.dumps({"calls": len(story.calls), "struck": len(chosen), "found": found, "wrong": wrong}))


if __name__ == "__main__":
    if shim.is_loaded():
        main()
    else:
        print(json.dumps(told(*sys.argv[1:])))
