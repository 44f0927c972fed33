"""Scripts of user code on the real engine, each with its plan: what must be in the log when it has ended.

A life opens the store, runs the workload's run under its fixed id, and says what it does: lines into a pipe,
which outlive it. `tests.crash.lives` reads them.

    live("once", home, Side(fd))                      in this process, such as a fork
    python -m tests.crash.workloads once HOME         in a process of its own, lines on standard output

The lines of the lives before (`Side.past`) are the outside world: so a step can be flaky for its first calls,
and a `verify` hook can ask whether a call arrived.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import select
import sqlite3
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tests.crash import chores, metered, steered
from tests.crash.checker import (
    APPLICATION_ID,
    GENESIS,
    LOG_OF_STREAMS,
    RUN_COLUMNS,
    STEP_COLUMNS,
    Plan,
    RunPlan,
    canonical,
    chain,
    digest,
)
from tests.crash.companions import accompany
from tests.crash.fold import Fold
from tests.crash.history import Event
from tests.crash.side import Side, body, here, speaking, told

import holdfast
from holdfast import Holdfast, Retry, Run, command, gather, parallel, sleep, step, workflow
from holdfast.errors import HoldfastError, InDoubt, RunPaused, StoreError

LONG_S = 1.4 * float(os.environ.get("HOLDFAST_FLUSH_AFTER_MS", 5)) / 1000
"""A body that takes so long has its beginning in the log before its result."""


# The workloads


@step
def work(n: int, chance: float = 0.0) -> str:
    with body():
        if n == 11:
            time.sleep(LONG_S)
        return str(n) * (40_000 if n % 7 == 6 else 1)


@workflow
def sequential() -> int:
    """Twenty steps, two of them with a value too large for the log, and a recorded value."""
    chance = holdfast.random()
    here().say("value", "sequential", "random#1", digest(canonical(chance)))
    return sum(len(told("sequential", f"work#{n + 1}", work(n, chance))) for n in range(20))


@step
def mill(n: int) -> int:
    with body():
        if n % 4 == 3:
            time.sleep(LONG_S)
        return n * n


def branch(n: int) -> int:
    first = told("fan", f"branch[{n}]/mill#1", mill(n))
    return told("fan", f"branch[{n}]/mill#2", mill(first))


@workflow
def fan() -> int:
    """Fan-out over threads: a step over items, then a function with steps of its own."""
    squares = parallel(mill, range(4), limit=2)
    for n, square in enumerate(squares, 1):
        told("fan", f"mill#{n}", square)
    return sum(squares) + sum(parallel(branch, range(1, 4)))


@step
async def fetch(n: int) -> int:
    with body():
        await asyncio.sleep(LONG_S if n == 2 else 0)
        return n + 1


@step
def weigh(n: int) -> int:
    with body():
        return n * 10


async def tide(n: int) -> int:
    fetched = told("tides", f"tide[{n}]/fetch#1", await fetch(n))
    return told("tides", f"tide[{n}]/weigh#1", await weigh.aio(fetched))


@workflow
async def tides() -> int:
    """An async workflow: branches in one event loop, with `def` steps in threads."""
    first = told("tides", "fetch#1", await fetch(0))
    return first + sum(await gather(*(tide(n) for n in range(1, 5))))


@step(retry=Retry(attempts=9, initial=0.001, jitter=0))
def flaky(n: int) -> int:
    with body() as calls:
        if calls <= 2:
            raise ConnectionError(f"call {calls} is refused")
        return n


@step(retry=Retry(attempts=3, initial=0.001, jitter=0))
def hopeless() -> None:
    with body():
        raise ConnectionError("nobody is there")


@workflow
def storm() -> int:
    """Steps that fail and are tried again, and a durable sleep."""
    total = told("storm", "flaky#1", flaky(1))
    sleep(0.001)
    try:
        hopeless()
    except ConnectionError as error:
        here().say("told", "storm", "hopeless#1", "-")
        total += len(str(error))
    return total + told("storm", "flaky#2", flaky(2))


@step(effect="once")
def send(n: int) -> int:
    with body():
        return n


def arrived(n: int) -> Any:
    """The service's answer: whether the call of `pay(n)` had ended there."""
    if not here().count("ended", "post", f"pay#{n}"):
        return holdfast.NOT_DONE
    here().say("happened", "post", f"pay#{n}")
    return n


@step(effect="once", verify=arrived)
def pay(n: int) -> int:
    with body():
        if n == 2:
            time.sleep(LONG_S)
        return n


@workflow
def post() -> int:
    """Steps that must not happen twice: some that a person must settle, some that can be asked for."""
    total = 0
    for n in range(1, 4):
        total += len(told("post", f"work#{n}", work(n)))
        total += told("post", f"send#{n}", send(n))
        total += told("post", f"pay#{n}", pay(n))
    return total


@workflow
def leaf(n: int) -> int:
    run = f"tree.leaf-{n}"
    return told(run, "mill#1", mill(n)) + told(run, "mill#2", mill(n + 1))


@workflow
def tree() -> int:
    """Runs inside a run."""
    total = told("tree", "leaf#1", leaf(1))
    total += told("tree", "mill#1", mill(5))
    return total + told("tree", "leaf#2", leaf(2))


@workflow
def shell() -> str:
    """Commands: one that must not happen twice, one that may. A fault strikes the run's own process, never
    the supervisor or the command: they start unarmed."""
    lines = os.fspath(here().lines_of_commands)
    said = command(_script("say#1", "printf hello"), name="say", env={"LINES_TO": lines})
    here().say("told", "shell", "say#1", "-")
    command(_script("true#1", "true"), name="true", env={"LINES_TO": lines}, effect="idempotent")
    here().say("told", "shell", "true#1", "-")
    return said.stdout + told("shell", "work#1", work(1))


def _script(key: str, what: str) -> list[str]:
    # One write each, appended: whole lines, also if the shell is killed between them.
    say = 'echo "%s shell ' + key + '" >> "$LINES_TO"'
    return ["sh", "-c", f"{say % 'began'}; {what}; {say % 'ended'}"]


@workflow
def spending() -> int:
    """Steps whose appends have companions on other streams: alone, in one batch, failed, with a blob."""
    total = sum(len(told("spending", f"work#{n}", work(n + 3))) for n in range(1, 5))
    squares = parallel(mill, range(6), limit=3)
    for n, square in enumerate(squares, 1):
        told("spending", f"mill#{n}", square)
    return total + sum(squares) + told("spending", "flaky#1", flaky(1))


@workflow
def heritage() -> int:
    """A run that the first version of the store began."""
    return sum(told("heritage", f"mill#{n}", mill(n)) for n in range(1, 9))


# Their plans


@dataclass(frozen=True)
class Workload:
    name: str
    workflow: Any
    plan: Plan
    prepare: Callable[[Path], None] = lambda home: None
    """Makes what is there before the first life, in an empty directory."""
    steer: steered.Steer | None = None
    """What somebody outside does to its runs, if they need that."""
    play: Callable[[Holdfast, steered.Attend], Any] | None = None
    """What a life does with the store, if that is more than to bring the run to its end."""
    enter: Callable[[Holdfast], None] = lambda hf: None
    """Called with the store that a life has opened, before anything runs."""
    in_line: bool = True
    """One thing after the other: an error of the store speaks of the last one."""

    @property
    def run_id(self) -> str:
        return self.name


def _keys(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}#{n}" for n in range(1, count + 1))


def _new_store(home: Path) -> None:
    """A store that was opened before: its making is the business of other workloads."""
    Holdfast(home).close()


def _old_store(home: Path) -> None:
    """A store of the first version: a run that has ended and one that was cut off half way."""
    from tests.crash import workloads  # whatever this module is called here, the store knows it by this name

    with tempfile.TemporaryDirectory() as newer:
        workloads.live("tree", Path(newer), Side(None))
        half = Side(None)
        half.hooks["told heritage mill#4 " + digest("16")] = _stop
        workloads.live("heritage", Path(newer), half)
        _downgrade(Path(newer, "holdfast.db"), home / "holdfast.db")


def _stop() -> None:
    raise KeyboardInterrupt


def _downgrade(newer: Path, older: Path) -> None:
    """Write the log of a store again as the first version did: every step as two events, every step a row."""
    script = Path(holdfast.__file__).parent / "store" / "sqlite" / "migrations" / "0001_initial.sql"
    with closing(sqlite3.connect(newer)) as source, closing(sqlite3.connect(older)) as target:
        target.execute("PRAGMA page_size=4096")
        target.execute("PRAGMA journal_mode=WAL")
        target.executescript(script.read_text())
        target.execute(f"PRAGMA application_id={APPLICATION_ID}")
        target.execute("PRAGMA user_version=1")
        target.executemany("INSERT INTO meta VALUES (?, ?)", source.execute("SELECT * FROM meta"))
        names = dict(source.execute("SELECT id, name FROM streams").fetchall())
        kinds = dict(source.execute("SELECT id, kind FROM streams").fetchall())
        logs: dict[int, list[Event]] = {id: [] for id in names}
        heads = dict.fromkeys(names, GENESIS)
        for id, type, at, text in source.execute(
            "SELECT stream, type, time, payload FROM events ORDER BY position"
        ):
            for kind, time_of, payload in _as_first_written(type, at, text):
                version = len(logs[id]) + 1
                heads[id] = chain(heads[id], names[id], version, kind, time_of, payload)
                row = (id, version, kind, time_of, payload, heads[id])
                target.execute(
                    "INSERT INTO events (stream, version, type, time, payload, hash, synced) "
                    "VALUES (?, ?, ?, ?, ?, ?, 1)",
                    row,
                )
                logs[id].append(Event(0, version, kind, time_of, json.loads(payload), heads[id], 1))
        for id, events in logs.items():
            _write_tables(target, id, names[id], kinds[id], events)
        target.commit()


def _as_first_written(type: str, at: int, text: str) -> Iterator[tuple[str, int, str]]:
    """(type, time, payload) of the events that the first version would have written."""
    if type == "RunReleased":
        return  # it died
    if type != "StepRan":
        yield type, at, text
        return
    payload = json.loads(text)
    began = {name: payload[name] for name in ("key", "name", "digest", "ordinal", "args") if name in payload}
    yield "StepStarted", payload["started_at"], canonical(began)
    yield (
        "StepCompleted",
        at,
        canonical({name: payload[name] for name in ("key", "result") if name in payload}),
    )


def _write_tables(db: sqlite3.Connection, id: int, name: str, kind: str, events: list[Event]) -> None:
    run = None if name == LOG_OF_STREAMS else Fold(name, {}).fold(events)
    last = events[-1]
    epoch = run.epoch if run else 0
    head = (id, name, kind, last.version, last.hash, epoch, last.time)
    db.execute("INSERT INTO streams VALUES (?, ?, ?, ?, ?, ?, ?)", head)
    if run is None:
        return
    row = (id, *(getattr(run, column) for column in RUN_COLUMNS[:-2]))
    db.execute(f"INSERT INTO runs VALUES ({','.join('?' * len(row))})", row)
    for one in run.steps.values():
        row = (id, *(getattr(one, column) for column in STEP_COLUMNS))
        db.execute(f"INSERT INTO steps VALUES ({','.join('?' * len(row))})", row)


_LEAVES = {f"tree.leaf-{n}": RunPlan(_keys("mill", 2), str(n * n + (n + 1) * (n + 1))) for n in (1, 2)}
_TREE = {
    "tree": RunPlan(("leaf#1", "mill#1", "leaf#2"), str(5 + 25 + 13), silent=frozenset({"leaf#1", "leaf#2"})),
    **_LEAVES,
}

WORKLOADS: dict[str, Workload] = {
    one.name: one
    for one in (
        Workload(
            "sequential",
            sequential,
            {"sequential": RunPlan(_keys("work", 20), str(9 + 40_000 + 2 * 9 + 80_000), marks=("random#1",))},
        ),
        Workload(
            "fan",
            fan,
            {
                "fan": RunPlan(
                    (*_keys("mill", 4), *(f"branch[{n}]/mill#{m}" for n in (1, 2, 3) for m in (1, 2))),
                    str(0 + 1 + 4 + 9 + 1 + 16 + 81),
                )
            },
            prepare=_new_store,
            in_line=False,
        ),
        Workload(
            "tides",
            tides,
            {
                "tides": RunPlan(
                    ("fetch#1", *(f"tide[{n}]/{name}#1" for n in range(1, 5) for name in ("fetch", "weigh"))),
                    str(1 + 20 + 30 + 40 + 50),
                )
            },
            in_line=False,
        ),
        Workload(
            "storm",
            storm,
            {
                "storm": RunPlan(
                    ("flaky#1", "sleep#1", "hopeless#1", "flaky#2"),
                    str(1 + len("nobody is there") + 2),
                    failures={"flaky#1": range(3), "flaky#2": range(3), "hopeless#1": range(3, 4)},
                    fails=frozenset({"hopeless#1"}),
                    silent=frozenset({"sleep#1"}),
                )
            },
            prepare=_new_store,
        ),
        Workload(
            "post",
            post,
            {
                "post": RunPlan(
                    (*_keys("work", 3), *_keys("send", 3), *_keys("pay", 3)),
                    str(3 + 6 + 6),
                    once=frozenset({*_keys("send", 3), *_keys("pay", 3)}),
                )
            },
            prepare=_new_store,
        ),
        Workload("tree", tree, _TREE, prepare=_new_store),
        Workload(
            "shell",
            shell,
            {"shell": RunPlan(("say#1", "true#1", "work#1"), '"hello1"', once=frozenset({"say#1"}))},
            prepare=_new_store,
            in_line=False,
        ),
        Workload(
            "spending",
            spending,
            {
                "spending": RunPlan(
                    (*_keys("work", 4), *_keys("mill", 6), "flaky#1"),
                    str(3 + 40_000 + 55 + 1),
                    failures={"flaky#1": range(3)},
                )
            },
            prepare=_new_store,
            enter=accompany,
            in_line=False,
        ),
        Workload(
            metered.RUN,
            metered.metered,
            metered.PLAN,
            prepare=metered.begin,
            play=metered.spend,
            in_line=False,
        ),
        Workload(
            "heritage",
            heritage,
            {"heritage": RunPlan(_keys("mill", 8), str(sum(n * n for n in range(1, 9)))), **_TREE},
            prepare=_old_store,
        ),
        *(
            Workload(name, flow, plan, prepare, steer, play, in_line=False)
            for name, flow, plan, prepare, steer, play in (
                ("asks", steered.asks, steered.ASKS, _new_store, steered.answer_asks, None),
                ("calls", steered.calls, steered.CALLS, _new_store, steered.answer_calls, None),
                ("helm", steered.helm, steered.HELM, _new_store, steered.steer_helm, None),
                (
                    "turns",
                    steered.turns,
                    steered.TURNS,
                    steered.begin_turns,
                    steered.answer_turns,
                    steered.take_turns,
                ),
            )
        ),
        *(
            Workload(name, flow, plan, prepare, None, play, chores.enter, in_line=False)
            for name, flow, plan, prepare, play in (
                ("chores", chores.chores, chores.CHORES, _new_store, chores.do_chores),
                ("errand", chores.errand, chores.ERRAND, chores.begin_errand, chores.run_errand),
                ("riddance", chores.riddance, chores.RIDDANCE, chores.begin_riddance, chores.get_rid),
            )
        ),
    )
}
TRACKED = ("chores", "errand", "riddance")
"""Those on tasks and memory, which are a kind of their own (`tests.crash.tasks`)."""
UNTRACKED = tuple(name for name in WORKLOADS if name not in TRACKED)


# A life

Way = Literal["run", "resume", "recover"]


def live(
    name: str,
    home: Path,
    side: Side,
    *,
    way: Way = "run",
    tries: int = 1,
    settle: tuple[str, str] | None = None,
    durability: Literal["full", "process"] | None = None,
    steered_here: bool = True,
) -> None:
    """One life of a workload: open the store, continue the run, say how it ended, close.

        result RUN DIGEST       the run's result
        attention STEP          a step is in doubt
        again CLASS CODE        a StoreError ended a try; there are `tries` in all, with the same Holdfast
                                once it is open. A third word, `unwritten`: it says that nothing of the
                                last commit was written. So does one in a child run whose parent was
                                being paused, and is resumed by the same try
        error CLASS CODE        a StoreError ended the last one, or a recorded value could not be read
        stopped CLASS CODE      another HoldfastError did
        crash TEXT              anything else: a defect

    `way` is how a run that exists continues; `settle` says first what became of a step: `done` or `retry`;
    `steered_here` says whether this life also does what its runs need from outside.
    """
    with speaking(side):
        hf: Holdfast | None = None
        try:
            for left in reversed(range(tries)):
                try:
                    if hf is None:
                        hf = Holdfast(home, durability=durability)
                        WORKLOADS[name].enter(hf)
                    _go(hf, WORKLOADS[name], way, settle, steered_here)
                    break
                except StoreError as error:
                    side.say("again" if left else "error", *_words(error))
            if hf is not None:
                hf.close()
        except InDoubt as error:
            side.say("attention", error.step)
        except HoldfastError as error:
            of_the_store = isinstance(error, StoreError) or "cannot be read" in str(error)
            side.say("error" if of_the_store else "stopped", *_words(error))
        except BaseException:
            side.say("crash", traceback.format_exc()[-700:].replace("\n", " | "))
        finally:
            if hf is not None:
                hf.close()


def steer(name: str, home: Path, side: Side, stop: int) -> None:
    """Do what a workload's runs need from outside, until the descriptor `stop` is closed at its other end,
    and then once more: also what was left by a life that is dead."""
    step = WORKLOADS[name].steer
    assert step is not None
    try:
        with speaking(side), Holdfast(home) as hf:
            while not select.select([stop], [], [], steered.LOOK_S)[0]:
                step(hf)
            step(hf)
    except BaseException:
        side.say("broken", traceback.format_exc()[-700:].replace("\n", " | "))


def _words(error: HoldfastError) -> list[str]:
    claims = ["unwritten"] if "nothing of the last commit was written" in str(error) else []
    return [type(error).__name__, error.code, *claims]


def _go(
    hf: Holdfast, workload: Workload, way: Way, settle: tuple[str, str] | None, steered_here: bool
) -> None:
    run_id = workload.run_id
    if settle is not None:
        _settle(hf, run_id, *settle)
    if workload.steer is None and workload.play is None:
        result = _result(hf, workload, way)
    else:
        steer = workload.steer if steered_here else None
        wait = partial(steered.attend, hf, steer=steer)
        result = workload.play(hf, wait) if workload.play else wait(_begun(hf, workload, way))
    here().say("result", run_id, digest(canonical(result)))


def _begun(hf: Holdfast, workload: Workload, way: Way) -> Run[Any]:
    """A handle on the run; a `recover` would wait for what nobody steers. One that the steerer had paused
    when a life before this one ended is resumed."""
    if way != "run" and any(run.id == workload.run_id for run in hf.runs()):
        return hf.resume(workload.run_id)
    try:
        return hf.with_id(workload.run_id).start(workload.workflow)
    except RunPaused:
        return hf.resume(workload.run_id)


def _result(hf: Holdfast, workload: Workload, way: Way) -> Any:
    run_id = workload.run_id
    known = way != "run" and any(run.id == run_id for run in hf.runs())
    if known and way == "recover":
        known = any(run.id == run_id for run in hf.recover())
    if known:
        return hf.resume(run_id).result()
    return hf.with_id(run_id).run(workload.workflow)


def _settle(hf: Holdfast, run_id: str, key: str, outcome: str) -> None:
    """Unless a life before this one did."""
    if any(one.key == key and one.status == "in_doubt" for one in hf.steps(run_id)):
        if outcome == "retry":
            hf.settle(run_id, key, retry=True)
        else:
            hf.settle(run_id, key, done=_done(key))


def _done(key: str) -> Any:
    """What that step returns when it is done."""
    if key == "say#1":
        return holdfast.CommandResult(("sh",), 0, "hello", "", 0.0)
    return int(key.partition("#")[2])


def commands_are_over(home: Path, patience_s: float = 10.0) -> bool:
    """Wait until the process trees of a dead owner's commands are dead: what they say after that, they
    said in the life before."""
    deadline = time.monotonic() + patience_s
    for lock in home.glob("commands/*/*.lock"):
        while _is_locked(lock):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)
    return True


def _is_locked(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description="One life of a workload; its lines on standard output.")
    parser.add_argument("name", choices=WORKLOADS)
    parser.add_argument("home", type=Path)
    parser.add_argument("--past", type=Path, help="a file with the lines of the lives before")
    parser.add_argument("--commands", type=Path, help="a file to which commands append their lines")
    parser.add_argument("--way", choices=("run", "resume", "recover"), default="run")
    parser.add_argument("--tries", type=int, default=1)
    parser.add_argument("--settle", nargs=2, metavar=("STEP", "OUTCOME"))
    given = parser.parse_args()
    past = given.past.read_text().splitlines() if given.past else []
    settle = tuple(given.settle) if given.settle else None
    from tests.crash import workloads

    side = Side(sys.stdout.fileno(), past, given.commands)
    workloads.live(given.name, given.home, side, way=given.way, tries=given.tries, settle=settle)


if __name__ == "__main__":
    main()
