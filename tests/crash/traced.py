"""Kills and I/O errors by strace: a second way to the same points, which does not depend on the shim.

strace stops a process at the Nth call of a kind and kills it there, or lets the call fail. A life is a whole
process, so there are few points, chosen at random.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.crash.checker import Lives, Violation, check_rebuilt, check_store
from tests.crash.history import require
from tests.crash.lives import said_of, whole_lines
from tests.crash.score import Budget, Score
from tests.crash.workloads import UNTRACKED, WORKLOADS, commands_are_over

ROOT = Path(__file__).parents[2]
CALLS = {"pwrite64": 60, "fdatasync": 8, "unlink": 3, "ftruncate": 2}
"""A system call → about how many the shortest undisturbed life makes."""
Point = tuple[str, str, int]
"""A workload, a system call, and which of its calls."""
_KILL = Score("kill by strace", "SIGKILL at a system call")
_FAIL = Score("EIO by strace", "a system call fails")


def run(budget: Budget) -> list[Score]:
    scores = [Score(_KILL.kind, _KILL.what), Score(_FAIL.kind, _FAIL.what)]
    reason = _missing()
    if reason:
        for score in scores:
            score.skipped = reason
        return scores
    chance = random.Random(f"{budget.seed} strace")
    for score, count in zip(scores, (budget.of(20), budget.of(10)), strict=True):
        for _ in range(3):  # a call that another thread makes is not always counted
            points = [_choose(chance) for _ in range(count - score.points)]
            _try(score, points)
    return scores


def _try(score: Score, points: Sequence[Point]) -> None:
    what = "signal=SIGKILL" if score.kind == _KILL.kind else "error=EIO"
    with ThreadPoolExecutor(2) as pool:
        told = pool.map(lambda point: _tell(point, what), points)
        for point, (struck, lost, violation) in zip(points, told, strict=True):
            if not struck:
                score.notes["missed"] = score.notes.get("missed", 0) + 1
                continue
            score.points += 1
            score.lost += lost
            if violation:
                name, call, number = point
                score.violations.append(f"{score.kind}: {name}, {call} number {number}: {violation}")


def _choose(chance: random.Random) -> Point:
    name, call = chance.choice(sorted(UNTRACKED)), chance.choice(sorted(CALLS))
    return name, call, chance.randrange(1, CALLS[call] + 1)


def _missing() -> str:
    """Why strace cannot be used here."""
    if not shutil.which("strace"):
        return "strace is not installed"
    tried = subprocess.run(
        ["strace", "-f", "-qq", "-o", os.devnull, "-e", "inject=fsync:error=EIO:when=1", "true"],
        capture_output=True,
        text=True,
    )
    return f"strace cannot trace here: {tried.stderr.strip()[:200]}" if tried.returncode else ""


def _tell(point: Point, what: str) -> tuple[bool, int, str]:
    """(struck, acknowledged things lost, violation) of a life with that fault and those after it."""
    name, call, number = point
    workload = WORKLOADS[name]
    inject = ["-e", f"trace={call}", "-e", f"inject={call}:{what}:when={number}"]
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory, "home")
        home.mkdir()
        workload.prepare(home)
        lives = Lives(workload.plan, check_store(home))
        try:
            status, lines, errors = _live(name, Path(directory), inject)
            if not status and "INJECTED" not in Path(directory, "trace").read_text():
                return False, 0, ""
            if not what.startswith("signal"):
                _check_orderly(status, lines, errors)
            cut = status != 0 or bool(said_of(lines, "error") or said_of(lines, "attention"))
            lives.add(lines, check_store(home), cut=cut)
            _finish(name, Path(directory), lives)
        except Violation as violation:
            return True, lives.lost, str(violation)
    return True, 0, ""


def _finish(name: str, directory: Path, lives: Lives) -> None:
    """Lives without faults until the run has ended."""
    settle: list[str] = []
    for _ in range(4):
        status, lines, errors = _live(name, directory, None, settle)
        _check_orderly(status, lines, errors)
        require(not said_of(lines, "error"), f"a life without a fault ended with {said_of(lines, 'error')}")
        lives.add(lines, check_store(directory / "home"), cut=False)
        doubtful = said_of(lines, "attention")
        if lives.finish() == "completed":
            check_rebuilt(directory / "home")
            return
        require(doubtful, "a run waits, and nobody was told")
        settle = ["--settle", doubtful[0], "retry"]
    raise Violation("it does not come to an end")


def _check_orderly(status: int, lines: list[str], errors: str) -> None:
    require(status == 0 and not errors, f"status {status}: {errors[-600:]}")
    for verb in ("crash", "stopped"):
        require(not said_of(lines, verb), f"{verb}: {said_of(lines, verb)}")


def _live(
    name: str, directory: Path, inject: list[str] | None, settle: list[str] | None = None
) -> tuple[int, list[str], str]:
    """One life; its exit status, what it said, and its standard error."""
    past, commands = directory / "past", directory / "commands"
    before = commands.read_text().splitlines() if commands.exists() else []
    past.touch()
    life = [sys.executable, "-m", "tests.crash.workloads", name, str(directory / "home")]
    life += ["--past", str(past), "--commands", str(commands), *(settle or ())]
    strace = ["strace", "-f", "-qq", "-o", str(directory / "trace"), *inject] if inject else []
    ended = subprocess.run([*strace, *life], cwd=ROOT, capture_output=True, timeout=60)
    require(commands_are_over(directory / "home"), "a command outlived its owner")
    lines = whole_lines(ended.stdout)
    if commands.exists():
        lines = commands.read_text().splitlines()[len(before) :] + lines
    with past.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
    return ended.returncode, lines, ended.stderr.decode(errors="replace")
