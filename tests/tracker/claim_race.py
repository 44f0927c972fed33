"""Processes that claim tasks at once, and are killed: `python -m tests.tracker.claim_race` runs it in full.

rounds of N processes for one task: one winner each
workers that claim from many tasks under random kills: every task completed once
holders that are killed, or whose lease ends: their claim is free at once, and what they do under it refused
"""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from holdfast import Holdfast
from holdfast.errors import TaskHeld

WORKER = """
import os, sys
from holdfast import Holdfast
with Holdfast(sys.argv[1], durability="process") as hf:
    while True:
        claim = hf.tasks.claim(holder=os.getpid())
        if claim is None:
            break
        claim.complete(f"by {os.getpid()}")
        print(claim.task.id, flush=True)
"""
RACER = """
import os, sys
from holdfast import Holdfast
from holdfast.errors import HoldfastError
with Holdfast(sys.argv[1], durability="process") as hf:
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            print(hf.tasks.claim(line.strip()).number, flush=True)
        except HoldfastError as error:
            print(error.code, flush=True)
"""


def race(home: Path, processes: int, rounds: int) -> None:
    """In each round all processes claim one new task: one gets it, all others are told that it is held."""
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(processes)
    ]
    try:
        assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * processes  # type: ignore[union-attr]
        with Holdfast(home, durability="process") as hf:
            for number in range(rounds):
                task = hf.tasks.create(f"round {number}").id
                for racer in racers:
                    racer.stdin.write(task + "\n")  # type: ignore[union-attr]
                    racer.stdin.flush()  # type: ignore[union-attr]
                answers = sorted(racer.stdout.readline().strip() for racer in racers)  # type: ignore[union-attr]
                assert answers == ["1", *["task_held"] * (processes - 1)], answers
                assert hf.tasks.get(task).attempts == 1
    finally:
        for racer in racers:
            racer.communicate("")


def work_under_kills(home: Path, processes: int, tasks: int, kills: int, seed: int = 0) -> int:
    """Workers complete all tasks while some of them are killed: each task is completed once, none is lost.
    Returns how many were at work when they were killed."""
    chance = random.Random(seed)
    with Holdfast(home, durability="process") as hf:
        made = {hf.tasks.create(f"task {number}", priority=number % 5).id for number in range(tasks)}
        workers = [_worker(home) for _ in range(processes)]
        left, killed = kills, 0
        while workers:
            # What a worker prints are tasks that it completed: kills fall between any two of them.
            outputs = {worker.stdout: worker for worker in workers}
            for output in select.select(list(outputs), [], [])[0]:
                worker = outputs[output]
                printed = os.read(output.fileno(), 1 << 16)
                if printed and (not left or chance.random() > 2 * kills / tasks):
                    continue
                left -= bool(printed)
                worker.send_signal(signal.SIGKILL)
                worker.communicate()
                workers.remove(worker)
                if printed:
                    killed += worker.returncode == -signal.SIGKILL
                    workers.append(_worker(home))
        completed = [
            event for task in made for event in hf.tasks.events(task) if event.type == "TaskCompleted"
        ]
        assert len(completed) == tasks, (len(completed), tasks)
        assert {task.status for task in hf.tasks.list(("completed",))} == {"completed"}
        assert hf.tasks.ready() == []
        assert len(hf.tasks.list(("completed",))) == tasks
        assert list(hf._store.verify()) == []
    return killed


def _worker(home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WORKER, str(home)], stdout=subprocess.PIPE, text=True)


LINKER = """
import sys
from holdfast import Holdfast
from holdfast.errors import HoldfastError
with Holdfast(sys.argv[1], durability="process") as hf:
    print("ready", flush=True)
    for line in sys.stdin:
        a, b = line.split()
        try:
            print(hf.tasks.link(a, b), flush=True)
        except HoldfastError as error:
            print(error.code, flush=True)
"""


def close_cycles(home: Path, rounds: int) -> None:
    """Two processes each add one half of a cycle at once: one of them is refused."""
    linkers = [
        subprocess.Popen(
            [sys.executable, "-c", LINKER, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        assert [one.stdout.readline() for one in linkers] == ["ready\n"] * 2  # type: ignore[union-attr]
        with Holdfast(home, durability="process") as hf:
            for _ in range(rounds):
                a, b = (hf.tasks.create(name).id for name in "ab")
                for linker, pair in zip(linkers, ((a, b), (b, a)), strict=True):
                    linker.stdin.write(" ".join(pair) + "\n")  # type: ignore[union-attr]
                    linker.stdin.flush()  # type: ignore[union-attr]
                answers = sorted(one.stdout.readline().strip() for one in linkers)  # type: ignore[union-attr]
                assert answers == ["True", "link_cycle"], answers
    finally:
        for linker in linkers:
            linker.communicate("")


HOLDER = """
import os, sys
from holdfast import Holdfast
from holdfast.errors import HoldfastError
with Holdfast(sys.argv[1], durability="process") as hf:
    for line in sys.stdin:
        task, what = line.split()
        try:
            if what == "hold":
                print(hf.tasks.claim(task, holder=os.getpid()).number, flush=True)
            elif what == "lease":
                print(hf.tasks.claim(task, lease=0.001).number, flush=True)
            else:
                print(hf.tasks.complete(task, int(what)).status, flush=True)
        except HoldfastError as error:
            print(error.code, flush=True)
"""


def take_over(home: Path, rounds: int) -> None:
    """The claim of a live process is never taken, that of a dead one at the first attempt; who completes a
    task under a claim that was taken over is refused."""
    late = _holder(home)
    try:
        with Holdfast(home, durability="process") as hf:
            for number in range(rounds):
                _take_from_the_dead(home, hf, hf.tasks.create(f"dead {number}").id)
                _refuse_the_late(hf, late, hf.tasks.create(f"late {number}").id)
            assert list(hf._store.verify()) == []
    finally:
        late.communicate("")


def _take_from_the_dead(home: Path, hf: Holdfast, task: str) -> None:
    holder = _holder(home)
    try:
        assert _asked(holder, task, "hold") == "1"
        try:
            hf.tasks.claim(task)
        except TaskHeld:
            pass
        else:
            raise AssertionError("the claim of a live process was taken")
    finally:
        holder.kill()
        holder.communicate()
    began = time.monotonic()
    claim = hf.tasks.claim(task)
    assert claim is not None and claim.number == 2
    assert time.monotonic() - began < 1.0, "the claim of a dead process was not free within a second"
    claim.complete()


def _refuse_the_late(hf: Holdfast, late: subprocess.Popen[str], task: str) -> None:
    assert _asked(late, task, "lease") == "1"
    claim = None
    while claim is None:
        try:
            claim = hf.tasks.claim(task)
        except TaskHeld:
            continue  # the lease has not ended
    assert _asked(late, task, "1") == "claim_lost"
    claim.complete("by the second")
    assert _asked(late, task, "1") in ("claim_lost", "refused")
    assert hf.tasks.get(task).summary == "by the second"


def _holder(home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _asked(process: subprocess.Popen[str], task: str, what: str) -> str:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{task} {what}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        race(Path(place) / "a", 8, 200)
        print("8 processes, 200 rounds: one winner each")
        close_cycles(Path(place) / "b", 200)
        print("200 cycles closed from two sides at once: one side refused each time")
        work_under_kills(Path(place) / "c", 16, 1000, 100)
        print("16 processes, 1,000 tasks, 100 kills: each completed once")
        take_over(Path(place) / "d", 20)
        print("20 takeovers from the dead and from the late")
