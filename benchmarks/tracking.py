"""How the figures of the tracker are measured: a store with many tasks and links, one task that many need, and the mirror.

python benchmarks/tracking.py [DIRECTORY]    # every command's time and memory; the store is made there, and kept
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import searching
import workflows
from holdfast import Holdfast
from holdfast.kernel import links
from holdfast.mirror.draining import Drained, Mirror
from holdfast.store.port import Decision, new_event
from peers.workload import STEPS

TASKS = 100_000
GROUP = 10
DEPENDENTS = 10_000
CALLS = 30
BURST = 1_000
_END = 1 << 62
_WATCHED = """
import resource, subprocess, sys, time
began = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Runs a command from a small process: one begins with the memory of the process that starts it."""
SLICE_STEPS = 30
COMMANDS = (
    ("task", "ready"),
    ("task", "list"),
    ("task", "list", "--json"),
    ("task", "show", str(uuid.UUID(int=1, version=4))),
    ("task", "tree", str(uuid.UUID(int=0, version=4))),
    ("search", "kelp"),
    ("search", "harb*"),
    ("prime",),
    ("list",),
    ("stats",),
)


class Tracking:
    """Stores that are made when they are first needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def ready(self) -> float:
        """Milliseconds of `hf.tasks.ready` among 100,000 tasks with 200,000 links."""
        with self._many() as hf:
            return median_ms(hf.tasks.ready)

    def create(self) -> float:
        """Milliseconds of `hf.tasks.create` with a link, on the disk when it returns."""
        with self._many() as hf:
            return median_ms(lambda: hf.tasks.create("a new task", needs=[_id(0)]))

    def claim_next(self) -> float:
        """Milliseconds of `hf.tasks.claim` without an id."""
        with self._many() as hf:
            return median_ms(hf.tasks.claim)

    def link(self) -> float:
        """Milliseconds of `hf.tasks.link` to a task at the end of a chain."""
        with self._many() as hf:
            new = iter([hf.tasks.create("to be linked").id for _ in range(CALLS)])
            return median_ms(lambda: hf.tasks.link(next(new), _id(GROUP - 1)))

    def search(self) -> float:
        """Milliseconds of `hf.search` among 100,000 tasks: the slowest of four kinds of query."""
        return searching.slowest(self._many_home())

    def memory(self) -> float:
        """Megabytes of the command that needs the most."""
        return max(_command(self._many_home(), *words)[1] for words in COMMANDS)

    def complete(self) -> float:
        """Milliseconds of the completion of a task that 10,000 others need."""
        home = self._directory / "dependents"
        if not home.exists():
            make(home, DEPENDENTS + 1, [links.LinkAdded(_id(n + 1), _id(0)) for n in range(DEPENDENTS)])
        with Holdfast(home) as hf:
            began = time.perf_counter()
            hf.tasks.complete(_id(0))
            took = (time.perf_counter() - began) * 1000
            assert len(hf.tasks.ready(limit=DEPENDENTS)) == DEPENDENTS
            hf.tasks.reopen(_id(0))
            return took

    def list_growth(self) -> float:
        """The time of `holdfast list` with 1,000,000 events in the store, divided by that with 10,000."""
        return self._growth("list")

    def show_growth(self) -> float:
        """The same for `holdfast show`, of a run of 1,000 steps in both."""
        return self._growth("show", "run-0000000")

    def burst(self) -> float:
        """How many files of the mirror are replaced while 1,000 tasks are created in one process."""
        replaced = 0
        drain = Mirror.drain

        def counted(mirror: Mirror) -> Drained:
            nonlocal replaced
            done = drain(mirror)
            replaced += done.replaced
            return done

        Mirror.drain = counted  # type: ignore[method-assign, assignment]
        try:
            with self._mirrored() as hf:
                for n in range(BURST):
                    hf.tasks.create(f"task {n}")
        finally:
            Mirror.drain = drain  # type: ignore[method-assign]
        assert replaced
        return replaced

    def mirror_cost(self) -> float:
        """The time of a step with the mirror on, divided by that with it off: two runs in turns."""
        with self._mirrored() as on, Holdfast(self._fresh("unmirrored")) as off:
            off.run(workflows.sequential, STEPS)
            on.run(workflows.sequential, STEPS)
            off_s = 0.0

            def others() -> None:
                nonlocal off_s
                began = time.perf_counter()
                off.run(workflows.sequential, SLICE_STEPS)
                off_s += time.perf_counter() - began

            slices = 100
            on_s = 0.0
            others()
            for _ in range(slices):
                began = time.perf_counter()
                on.run(workflows.sequential, SLICE_STEPS)
                on_s += time.perf_counter() - began
                others()
            return (on_s / slices) / (off_s / (slices + 1))

    def _growth(self, *words: str) -> float:
        few, many = (
            searching.events(self._directory, count)
            for count in (searching.FEW_EVENTS, searching.MANY_EVENTS)
        )
        return _command(many, *words)[0] / _command(few, *words)[0]

    @contextmanager
    def _many(self) -> Iterator[Holdfast]:
        with Holdfast(self._many_home()) as hf:
            yield hf

    def _many_home(self) -> Path:
        home = self._directory / "tracked"
        if not home.exists():
            make(home, TASKS, _links())
            with Holdfast(home) as hf:
                hf.search("kelp")
        return home

    def _fresh(self, name: str) -> Path:
        return self._directory / f"{name}-{uuid.uuid4().hex[:8]}"

    @contextmanager
    def _mirrored(self) -> Iterator[Holdfast]:
        home = self._fresh("mirrored")
        os.environ["HOLDFAST_MIRROR_DIR"] = str(home / "mirror")
        try:
            hf = Holdfast(home)
        finally:
            del os.environ["HOLDFAST_MIRROR_DIR"]
        with hf:
            yield hf


def make(home: Path, tasks: int, added: list[links.LinkAdded]) -> None:
    """A store with so many tasks and these links, written many to a commit."""
    with Holdfast(home, durability="process") as hf:
        for append in searching.task_appends(tasks):
            hf._store.append_soon(append, lambda _: None)
        while hf._store.task(_id(tasks - 1)) is None:
            time.sleep(0.01)
        for at in range(0, len(added), 10_000):
            events = [new_event(one, tasks) for one in added[at : at + 10_000]]
            decided = Decision(links.KIND, events)
            hf._store.command(links.STREAM, lambda _, decided=decided: decided, after=_END)  # type: ignore[misc]


def median_ms(call: Callable[[], object]) -> float:
    """The median of some calls, after one that does not count."""
    times = []
    for _ in range(CALLS):
        began = time.perf_counter()
        assert call()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times[1:])


def _id(n: int) -> str:
    return str(uuid.UUID(int=n, version=4))


def _links() -> list[links.LinkAdded]:
    """Two for each task. Tasks are in groups: the first is ready, and each of the others needs the one before it and is a part of
    the first."""
    found = []
    for n in range(TASKS):
        first = n - n % GROUP
        if n == first:
            other = _id((first + TASKS - GROUP) % TASKS)
            found += [links.LinkAdded(_id(n), other, kind) for kind in ("discovered-from", "related")]
        else:
            found.append(links.LinkAdded(_id(n), _id(n - 1)))
            found.append(links.LinkAdded(_id(n), _id(first), "parent"))
    return found


def _command(home: Path, *words: str) -> tuple[float, float]:
    """Milliseconds and megabytes of a command, from exec to exit, the second time it is run."""
    command = [str(Path(sys.executable).with_name("holdfast")), *words]
    environ = {**os.environ, "HOLDFAST_HOME": str(home)}
    subprocess.run(command, env=environ, check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-c", _WATCHED, *command], env=environ, check=True, capture_output=True
    )
    took, kilobytes = map(float, done.stdout.split())
    return took * 1000, kilobytes / 1024


if __name__ == "__main__":
    tracked = Tracking(Path(sys.argv[1]))
    for words in COMMANDS:
        took, megabytes = _command(tracked._many_home(), *words)
        print(f"holdfast {' '.join(words)}: {took:.0f} ms, {megabytes:.0f} MB", flush=True)
