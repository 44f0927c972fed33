"""One point's story: a life with a fault, a look, the lives that continue, and a look after each.

`python -m tests.crash.stories WORKLOAD ...`, started with the shim, tells stories: a JSON object per line in,
one out.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.crash import forks, shim
from tests.crash.checker import History, Lives, Violation, canonical, check_rebuilt, check_store, digest
from tests.crash.forks import Kill, Life
from tests.crash.history import require
from tests.crash.shim import Fault, Kind, Mode
from tests.crash.workloads import WORKLOADS, Way, Workload, commands_are_over

MOST_LIVES = 12
HERE = 0.95
"""So many of the lives that nobody kills are lived in the teller itself."""
BESIDE = 0.3
"""So many of the forked lives whose runs are steered are steered by another process."""
REBUILT = 0.05
"""After so many stories the tables are made anew and compared."""
READY = "ready\n"
_FAST = Path("/dev/shm")


@dataclass(frozen=True)
class Point:
    """Where the faults are: the first strikes the first life, the second the one after it."""

    workload: str
    faults: tuple[Fault, ...]
    seed: int
    tries: int = 1
    """How often a life begins the run again after an error of the store."""

    def to_dict(self) -> dict[str, Any]:
        return {"tell": "point", **asdict(self)}

    @classmethod
    def of(cls, found: dict[str, Any]) -> Point:
        faults = tuple(
            Fault(
                **{
                    **fault,
                    "mode": Mode(fault["mode"]),
                    "kinds": Kind(fault["kinds"]),
                    "counted": Kind(fault["counted"]),
                }
            )
            for fault in found["faults"]
        )
        return cls(found["workload"], faults, found["seed"], found["tries"])


@dataclass
class Verdict:
    """What came of a story."""

    struck: int = 0
    """How many of its faults struck. A point that struck nothing proves nothing."""
    where: list[str] = field(default_factory=list)
    violation: str = ""
    lost: int = 0
    notes: dict[str, int] = field(default_factory=dict)


class Story:
    """A store and its lives."""

    def __init__(self, workload: Workload, directory: Path, seed: int) -> None:
        self.workload = workload
        self.home = directory / "home"
        self.chance = random.Random(seed)
        self._commands = directory / "commands"
        prepared, self.now = _prepared(workload.name)
        if prepared is not None:
            shutil.copytree(prepared, self.home)
        self.lives = Lives(workload.plan, self.now)
        self.lines: list[str] = []
        self.struck: list[str] = []
        """Where its faults struck."""

    def live(
        self,
        fault: Fault | None = None,
        *,
        tries: int = 1,
        way: Way = "run",
        settle: tuple[str, str] | None = None,
        kill: Kill | None = None,
    ) -> Life:
        """One more life; everything is looked at after it."""
        heard = len(self._heard())
        how: dict[str, Any] = {
            "past": self.lines,
            "lines_of_commands": self._commands,
            "way": way,
            "tries": tries,
            "settle": settle,
        }
        if kill is None and (fault is None or fault.spares) and self.chance.random() < HERE:
            life = forks.live_here(self.workload.name, self.home, fault, **how)
        else:
            bystander = self.chance.random() < (0.5 if fault and fault.until else 0.1)
            steerer = self.workload.steer is not None and self.chance.random() < BESIDE
            beside = {"bystander": bystander, "steerer": steerer}
            life = _nursery().live(self.workload.name, self.home, fault, kill=kill, **beside, **how)
        require(commands_are_over(self.home), "a command outlived its owner")
        require(life.said("broken") is None, f"whoever steers was broken: {life.said('broken')}")
        life.lines = self._heard()[heard:] + life.lines
        self.lines += life.lines
        struck = fault is not None and life.fault is not None and bool(life.fault.struck)
        if struck and life.fault is not None:
            self.struck.append(f"{life.fault.file} {life.fault.kind.name}")
        self.now = check_store(self.home)
        cut = life.cut or bool(struck and life.said("attention"))
        self.lives.add(life.lines, self.now, cut=cut, tries=life.tries)
        return life

    def _heard(self) -> list[str]:
        return self._commands.read_text().splitlines() if self._commands.exists() else []


@contextmanager
def story(workload: str, seed: int) -> Iterator[Story]:
    with tempfile.TemporaryDirectory(prefix="crash-", dir=_FAST if _FAST.is_dir() else None) as directory:
        yield Story(WORKLOADS[workload], Path(directory), seed)


@cache
def _nursery() -> forks.Nursery:
    return forks.Nursery()


@cache
def _prepared(name: str) -> tuple[Path | None, History]:
    """What is there before the first life, made and looked at once."""
    directory = Path(tempfile.mkdtemp(prefix="crash-", dir=_FAST if _FAST.is_dir() else None))
    WORKLOADS[name].prepare(directory)
    if any(directory.iterdir()):
        return directory, check_store(directory)
    directory.rmdir()
    return None, History()


# Points


def tell_point(point: Point) -> Verdict:
    """Faults, then lives without faults until the run has ended."""
    verdict = Verdict()
    with story(point.workload, point.seed) as told:
        try:
            _tell(point, told, verdict)
        except Violation as violation:
            verdict.violation = f"{violation}; last lines: {[line[:80] for line in told.lines[-6:]]}"
            verdict.lost = told.lives.lost
        verdict.struck, verdict.where = len(told.struck), told.struck
    return verdict


def _tell(point: Point, told: Story, verdict: Verdict) -> None:
    faults = list(point.faults)
    settle: tuple[str, str] | None = None
    notes: Counter[str] = Counter()
    for number in range(MOST_LIVES):
        fault = faults[0] if faults else None
        way: Way = told.chance.choice(("run", "resume", "recover")) if number else "run"
        life = told.live(fault, tries=point.tries if fault else 1, way=way, settle=settle)
        if fault is not None and life.fault is not None and life.fault.struck:
            faults.pop(0)
            _check_struck(fault, life)
            notes[_how(life)] += 1
            continue
        _check_calm(life)
        step = life.said("attention")
        if step is None:
            break
        require(
            told.lives.finish() == "needs_attention", f"{step} is said to be in doubt, and no run shows it"
        )
        settle = (step, told.chance.choice(("retry", "done")))
        notes["settled"] += 1
    require(told.lives.finish() == "completed", "a run waits, and its caller was told of a result")
    _check_claims(told)
    if told.chance.random() < REBUILT:
        check_rebuilt(told.home)
    if told.chance.random() < 0.05:
        _check_calm(told.live())  # a run that has ended runs nothing
    verdict.notes = dict(notes)


def _check_struck(fault: Fault, life: Life) -> None:
    """A life with a fault in it ends as it should: by the kill, or as every program should end."""
    if fault.mode in (Mode.BEFORE, Mode.AFTER, Mode.TORN):
        require(life.killed and not life.hung, f"the life hung or lived on: status {life.status}")
        return
    if fault.mode == Mode.EIO and fault.until and life.killed and not life.hung:
        return
    _check_orderly(life)
    ended = [life.said(verb) for verb in ("result", "error", "attention")]
    require(any(ended), f"it did not end with a result or an error of the store: {life.lines[-1:]}")


def _check_claims(told: Story) -> None:
    """An error that says that nothing was written is right: the step that had ended and was not
    acknowledged is not in the log, so that it begins again before anybody has its value."""
    if not told.workload.in_line:
        return  # nobody knows of which step the error speaks
    doubtful = ""
    unwritten: set[str] = set()
    for line in told.lines:
        verb, *words = line.split(" ")
        place = " ".join(words[:2])
        if verb == "ended" and words[1] not in told.workload.plan[words[0]].once:
            doubtful = place
        elif verb in ("again", "error") and words[-1] == "unwritten" and doubtful:
            unwritten.add(doubtful)
        elif verb == "began":
            unwritten.discard(place)
            doubtful = ""
        elif verb == "told":
            require(
                place not in unwritten, f"{place} was in the log, though an error had said that it was not"
            )
            doubtful = ""


def _check_calm(life: Life) -> None:
    """A life without a fault brings its run to an end, or shows the step that is in doubt."""
    _check_orderly(life)
    require(life.said("error") is None, f"a life without a fault ended with {life.said('error')}")
    require(life.said("result") or life.said("attention"), f"it has no result: {life.lines[-1:]}")


def _check_orderly(life: Life) -> None:
    require(not life.hung, "it hung")
    require(life.status == 0, f"it died: status {life.status}")
    for verb in ("crash", "stopped"):
        require(life.said(verb) is None, f"{verb}: {life.said(verb)}")
    require(not life.stderr, f"it wrote to standard error: {life.stderr[-600:]!r}")


def _how(life: Life) -> str:
    if life.killed:
        return "killed"
    if life.said("result"):
        return "continued" if life.said("again") else "unharmed"
    return "in doubt" if life.said("attention") else f"ended {(life.said('error') or '? ?').split()[1]}"


# Aims: kills of the twenty-step script at a chosen moment of a chosen step

AIMS = ("in the body", "ended, not committed", "committed, not told", "acknowledged")


@dataclass(frozen=True)
class Aim:
    aim: str
    step: int
    after_s: float
    seed: int

    def to_dict(self) -> dict[str, Any]:
        return {"tell": "aim", **asdict(self)}

    def kill(self) -> Kill:
        place = f"sequential work#{self.step}"
        if self.aim == "in the body":
            return Kill(f"began {place}", self.after_s)
        if self.aim == "acknowledged":
            n = self.step - 1
            value = str(n) * (40_000 if n % 7 == 6 else 1)
            return Kill(f"told {place} {digest(canonical(value))}", self.after_s)
        return Kill(f"ended {place}", self.after_s, "write" if self.aim == AIMS[1] else "sync")


def tell_aim(aim: Aim) -> Verdict:
    """Where the kill fell, by log and lines, and whether the body was repeated: it may be only if the
    step was not in the log."""
    verdict = Verdict()
    with story("sequential", aim.seed) as told:
        try:
            life = told.live(kill=aim.kill())
            require(life.killed and not life.hung, f"it was not killed: {life.lines[-1:]}")
            where = _classify(life, told.now, f"work#{aim.step}")
            again = told.live(way=told.chance.choice(("run", "resume", "recover")))
            _check_calm(again)
            repeated = f"began sequential work#{aim.step}" in again.lines
            verdict.struck = 1
            verdict.notes = {where: 1, f"{where}: repeated": int(repeated)}
            require(
                repeated == (where in AIMS[:2]),
                f"killed {where}: the body ran {'again' if repeated else 'once'}",
            )
            require(told.lives.finish() == "completed", "it did not complete")
        except Violation as violation:
            verdict.violation = f"{violation}; last lines: {[line[:80] for line in told.lines[-6:]]}"
            verdict.lost = told.lives.lost
    return verdict


def _classify(life: Life, now: History, key: str) -> str:
    run = now.runs.get("sequential")
    step = run.step(key) if run else None
    if any(line.startswith(f"told sequential {key} ") for line in life.lines):
        return "acknowledged"
    if step is not None and step.status == "completed":
        return "committed, not told"
    return "ended, not committed" if f"ended sequential {key}" in life.lines else "in the body"


# The process that tells them


def measure(workload: str, reads: bool = False) -> list[list[Any]] | str:
    """The file operations of an undisturbed life, or its reads, in order: [kind, file]; or what is wrong
    with it although nobody disturbed it."""
    try:
        return _measure(workload, reads)
    except Violation as violation:
        return str(violation)


def _measure(workload: str, reads: bool) -> list[list[Any]]:
    with story(workload, 0) as told:
        life = told.live(Fault(Mode.RECORD, counted=Kind.READ if reads else shim.CHANGES))
        operations = [[one.kind.value, one.file] for one in shim.recorded()]
        _check_calm(life)
        require(told.lives.finish() == "completed", f"{workload} does not complete without any fault")
        return operations


def main() -> None:
    forks.prepare(sys.argv[1:])
    nursery = _nursery()
    sys.stdout.write(READY)
    sys.stdout.flush()
    for line in sys.stdin:
        asked = json.loads(line)
        kind = asked.pop("tell")
        answer: Any
        if kind == "measure":
            answer = measure(**asked)
        elif kind == "aim":
            answer = asdict(tell_aim(Aim(**asked)))
        else:
            answer = asdict(tell_point(Point.of(asked)))
        print(json.dumps(answer), flush=True)
    nursery.close()
    for name in sys.argv[1:]:
        if (directory := _prepared(name)[0]) is not None:
            shutil.rmtree(directory)


if __name__ == "__main__":
    main()
