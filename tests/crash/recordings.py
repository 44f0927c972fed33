"""What is recorded for power cuts: lives of real code on the real engine, and what they do to the disk.

A script can be played again and again on one store: it continues where the last life stopped. The recorder is
a process of its own, because the VFS that records is the default of the whole process.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any, Literal

from tests.crash import workloads
from tests.crash.checker import Plan, RunPlan, canonical, digest
from tests.crash.disk import Mark, Recorder, Recording
from tests.crash.side import Side, body, here, speaking, told
from tests.crash.workloads import WORKLOADS

from holdfast import Holdfast, command, step, workflow

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0

Durability = Literal["full", "process"]


@dataclass(frozen=True)
class Script:
    name: str
    plan: Plan
    play: Callable[..., None]
    """(home, side, durability=None, settle=None): one life."""
    prepare: Callable[[Path], None] = lambda home: None
    """Makes what must be there before the first life."""


class Heard(Side):
    """A side in memory; each line is also given to `hear`."""

    def __init__(self, past: Sequence[str] = (), hear: Callable[[str], None] = lambda line: None) -> None:
        super().__init__(-1, past)
        self.lines: list[str] = []
        self._hear = hear

    def say(self, *words: str) -> None:
        line = " ".join(words)
        self._hear(line)
        self.lines.append(line)
        self.past.append(line)


# Scripts for the disk's sake, beside the workloads


@step
def load(n: int, size: int) -> str:
    with body():
        return f"{n:04}" * (size // 4)


def _size(n: int) -> int:
    return 40_000 if n % 25 == 11 else 1_200


@workflow
def haul(run_id: str, count: int) -> int:
    return sum(len(told(run_id, f"load#{n + 1}", load(n, _size(n)))) for n in range(count))


@workflow
def chatter(run_id: str, count: int) -> int:
    """A program prints so much, in commits that do not wait for the disk, that one of them makes the
    checkpoint."""
    total = sum(len(told(run_id, f"load#{n + 1}", load(n, 1_200))) for n in range(count))
    command(["sh", "-c", "yes 0123456789abcdef | head -c 1000000"], name="chat", effect="idempotent")
    here().say("told", run_id, "chat#1", "-")
    return total + sum(len(told(run_id, f"load#{count + n + 1}", load(n, 1_200))) for n in range(count))


def _plan(runs: dict[str, int]) -> Plan:
    return {
        run_id: RunPlan(
            tuple(f"load#{n + 1}" for n in range(count)), str(sum(_size(n) for n in range(count)))
        )
        for run_id, count in runs.items()
    }


@contextmanager
def _open(home: Path, side: Side, durability: Durability | None) -> Iterator[Holdfast]:
    with speaking(side), Holdfast(home, durability=durability) as hf:
        yield hf


def _play_one_by_one(
    runs: dict[str, int],
    home: Path,
    side: Side,
    durability: Durability | None = None,
    workflow: Any = haul,
    **_: Any,
) -> None:
    """The store is closed and opened between the runs."""
    for run_id, count in runs.items():
        with _open(home, side, durability) as hf:
            result = hf.with_id(run_id).run(workflow, run_id, count)
        side.say("result", run_id, digest(canonical(result)))


def _play_together(
    runs: dict[str, int], home: Path, side: Side, durability: Durability | None = None, **_: Any
) -> None:
    """Runs that share commits."""
    with _open(home, side, durability) as hf:
        started = {}
        for run_id, count in runs.items():
            started[run_id] = hf.with_id(run_id).start(haul, run_id, count)
            side.say("started", run_id)
        for run_id, run in started.items():
            side.say("result", run_id, digest(canonical(run.result())))


LONG = {"long": 150}
"""So much that the write-ahead log is checkpointed in the middle and begins anew."""
BERTHS = {"first": 5, "second": 12, "third": 3}
FLEET = {f"ship-{n}": 7 for n in range(4)}
CHATTY = {"chatty": 4}

SCRIPTS: dict[str, Script] = {
    **{
        name: Script(name, one.plan, partial(workloads.live, name), one.prepare)
        for name, one in WORKLOADS.items()
        if name != "shell" and one.steer is None  # what others do is no matter of the store's disk
    },
    "long": Script("long", _plan(LONG), partial(_play_one_by_one, LONG)),
    "reopened": Script("reopened", _plan(BERTHS), partial(_play_one_by_one, BERTHS)),
    "chatty": Script(
        "chatty",
        {
            "chatty": RunPlan(
                (*(f"load#{n}" for n in range(1, 9)), "chat#1"), str(8 * 1_200), silent=frozenset({"chat#1"})
            )
        },
        partial(_play_one_by_one, CHATTY, workflow=chatter),
    ),
    "together": Script("together", _plan(FLEET), partial(_play_together, FLEET)),
}


# Recording


class RecorderProcess:
    """Plays scripts in another process, one at a time, and gives what happened to the files."""

    def __init__(self) -> None:
        code = "from tests.crash.recordings import serve; serve()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> RecorderProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def record(
        self, script: str, home: Path, *, durability: Durability = "full", past: Sequence[str] = ()
    ) -> Recording:
        """Play the script in this home, from what is there to the end."""
        job = {"script": script, "home": str(home), "durability": durability, "past": list(past)}
        assert self._process.stdin is not None and self._process.stdout is not None
        watchdog = Timer(PATIENCE_S, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
            recording = pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError):
            raise RuntimeError(f"the recorder died, or hung for {PATIENCE_S:g} s, in {script}") from None
        finally:
            watchdog.cancel()
        assert isinstance(recording, Recording)
        return recording


def serve() -> None:
    """The recorder's process: a job is a line of standard input, a recording goes to standard output."""
    output = sys.stdout.buffer
    sys.stdout = sys.stderr
    recorder = Recorder()
    for line in sys.stdin:
        job = json.loads(line)
        home = Path(job["home"])
        recording = recorder.begin(home)
        side = Heard(job["past"], lambda text: recorder.recording.records.append(Mark(text)))
        SCRIPTS[job["script"]].play(home, side, durability=job["durability"])
        pickle.dump(recording, output)
        output.flush()
