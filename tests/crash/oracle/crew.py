"""Processes that try programs side by side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait

from tests.crash.oracle.lives import Place, warm_up
from tests.crash.oracle.mutated_trials import MutatedTrial
from tests.crash.oracle.programs import Program, make
from tests.crash.oracle.trials import Trial


@dataclass(frozen=True)
class Task:
    """What to try."""

    kind: str
    """`async`, `def` or `mutated`."""
    seed: int
    loop: str = "asyncio"
    anyio: bool = False
    fault: str = ""
    """The name of a planted fault; see `faults`."""
    most_kills: int | None = None
    """Try no more kills of the first life than that; None: all."""

    def program(self, number: int) -> Program:
        colour = self.kind
        if colour == "mutated":
            colour = "def" if number % 3 == 2 else "async"
        return make(colour, self.seed, number, anyio=self.anyio)

    def command(self, number: int) -> str:
        """The command line that tries one program again."""
        words = ["python -m tests.crash.oracle", f"--kind {self.kind}", f"--seed {self.seed}"]
        words += [f"--loop {self.loop}"] * (self.loop != "asyncio") + ["--anyio"] * self.anyio
        words += [f"--fault {self.fault}"] * bool(self.fault)
        return " ".join([*words, f"--only-program {number}", "--times 10", "--verbose"])


@dataclass(frozen=True)
class Tried:
    """What a program showed."""

    number: int
    program: str
    lives: int
    kills: int
    seconds: float
    what: str = ""
    """Which kind of violation; empty if all is well."""
    text: str = ""
    details: str = ""


def try_all(task: Task, numbers: list[int], jobs: int) -> Iterator[Tried]:
    """Try the programs with these numbers; the results come as they are found."""
    ends = [_start(task, numbers[first::jobs]) for first in range(min(jobs, len(numbers)))]
    readers = {end: pid for pid, end in ends}
    while readers:
        for end in wait(list(readers)):
            assert isinstance(end, Connection)
            try:
                yield end.recv()
            except EOFError:
                os.waitpid(readers.pop(end), 0)
                end.close()


def _start(task: Task, numbers: list[int]) -> tuple[int, Connection]:
    ours, theirs = Pipe(duplex=False)
    pid = os.fork()
    if pid:
        theirs.close()
        return pid, ours
    try:
        ours.close()
        _work(task, numbers, theirs.send)
    except BrokenPipeError:
        pass
    finally:
        os._exit(0)


def _work(task: Task, numbers: list[int], send: Callable[[Tried], None]) -> None:
    warm_up(task.program(0))
    place = Place()
    try:
        for number in numbers:
            send(try_one(task, number, place))
            place.clear()
    finally:
        place.close()


def try_one(task: Task, number: int, place: Place) -> Tried:
    program = task.program(number)
    began = time.monotonic()
    kind = MutatedTrial if task.kind == "mutated" else Trial
    verdict = kind(place, program, loop=task.loop, fault=task.fault, most_kills=task.most_kills).run()
    tried = Tried(number, str(program), verdict.lives, verdict.kills, time.monotonic() - began)
    if not verdict.violations:
        return tried
    first = verdict.violations[0]
    text = f"{verdict.trail}: {first.what}: {first.text}"
    return Tried(*_fields(tried), first.what, text, verdict.details)


def _fields(tried: Tried) -> tuple[int, str, int, int, float]:
    return tried.number, tried.program, tried.lives, tried.kills, tried.seconds
