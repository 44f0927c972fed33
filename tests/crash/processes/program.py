"""A user's program, in as many processes as a story needs. What it does it says, in lines that outlive it.

    python program.py WORD ARGUMENTS...

A line is one write, appended to the file `CRASH_SIDE`: the monotonic time, which all processes share, the
pid, and words:

    began RUN KEY           a body begins
    ended RUN KEY TOKEN     it is about to return this; no other body ever returns the same
    cancelled RUN KEY       it was cancelled
    told RUN KEY TOKEN      the workflow has the step's value
    asleep RUN              a durable sleep is in the log
    failed RUN KEY          a failed attempt is, and another is due
    claimed RUN PIDS        the run is this process's, while these processes of a command lived
    result RUN VALUE        the caller has the run's result
    error CLASS CODE        the caller got this error

A body whose key is in `CRASH_HOLD` waits until the file `CRASH_SIDE.go` is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import holdfast
from holdfast import (
    Holdfast,
    LogEvent,
    Retry,
    RunHeld,
    command,
    gather,
    idempotency_key,
    parallel,
    sleep,
    step,
    timeout,
    workflow,
)
from holdfast.clock import SystemClock
from holdfast.errors import CrashLoop, HoldfastError, StepTimeout
from holdfast.store.sqlite.write_lock import WriteLock

SIDE = os.environ.get("CRASH_SIDE", os.devnull)
HELD = os.environ.get("CRASH_HOLD", "").split()
PATIENCE_S = 60.0
LIMB = str(Path(__file__).with_name("limb.py"))

_fd = os.open(SIDE, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
_tokens = itertools.count(1)


def say(*words: object) -> None:
    os.write(_fd, f"{time.monotonic_ns()} {os.getpid()} {' '.join(map(str, words))}\n".encode())


def until(there: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not there():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(0.002)


def let_go() -> bool:
    return os.path.exists(SIDE + ".go")


# Steps


@contextlib.contextmanager
def body() -> Iterator[tuple[bool, str]]:
    """Around what a step does: whether it is held, and what it is to return."""
    run, _, key = idempotency_key().split(":", 2)
    say("began", run, key)
    token = f"{os.getpid()}.{next(_tokens)}"
    try:
        yield key in HELD, token
    except asyncio.CancelledError:
        say("cancelled", run, key)
        raise
    say("ended", run, key, token)


def told(run: str, key: str, value: str) -> str:
    say("told", run, key, value.partition("~")[0])
    return value


@step
def work(n: int) -> str:
    with body() as (held, token):
        if held:
            until(let_go, f"{SIDE}.go")
        time.sleep(0.003 * (n % 4))
        return token


@step
async def awork(n: int) -> str:
    with body() as (held, token):
        while held and not let_go():
            await asyncio.sleep(0.002)
        await asyncio.sleep(0.003 * (n % 4))
        return token


@step(effect="once")
def send(n: int) -> str:
    with body() as (held, token):
        if held:
            until(let_go, f"{SIDE}.go")
        return token


def arrived(n: int) -> Any:
    """The bank's answer: whether that payment got there, by what was said of it."""
    run, _, key = idempotency_key().split(":", 2)
    words = f" ended {run} {key} "
    found = [line for line in Path(SIDE).read_text().splitlines() if words in line]
    return found[-1].rpartition(" ")[2] if found else holdfast.NOT_DONE


@step(effect="once", verify=arrived)
def pay(n: int) -> str:
    with body() as (_, token):
        time.sleep(0.002 * n)
        return token


@step
def large(n: int) -> str:
    """A result of two pages, behind its token."""
    with body() as (held, token):
        if held:
            until(let_go, f"{SIDE}.go")
        return token + "~" + random.Random(token).randbytes(1500).hex()


@step(retry=Retry(attempts=6, initial=0.4, factor=1.0, jitter=0))
def flaky(fails: int) -> str:
    with body() as (_, token):
        run, _, key = idempotency_key().split(":", 2)
        if Path(SIDE).read_text().count(f" began {run} {key}\n") <= fails:
            raise ConnectionError("not yet")
        return token


@step
def slow(seconds: float) -> str:
    with body() as (_, token):
        time.sleep(seconds)
        return token


# Workflows. Each gets the id of its run, to be able to say it.


@workflow
def chain(run: str, steps: int) -> str:
    return "+".join(told(run, f"work#{n + 1}", work(n)) for n in range(steps))


@workflow
def fan(run: str, steps: int) -> str:
    tokens = parallel(work, range(steps), limit=4)
    return "+".join(told(run, f"work#{n}", token) for n, token in enumerate(tokens, 1))


async def wave(run: str, n: int) -> str:
    return told(run, f"wave[{n}]/awork#1", await awork(n))


@workflow
async def tide(run: str, steps: int) -> str:
    return "+".join(await gather(*(wave(run, n) for n in range(1, steps + 1))))


@workflow
async def stream(run: str, steps: int) -> str:
    return "+".join([told(run, f"awork#{n + 1}", await awork(n)) for n in range(steps)])


@workflow
def post(run: str, steps: int) -> str:
    tokens = []
    for n in range(1, steps + 1):
        tokens.append(told(run, f"work#{n}", work(n)))
        tokens.append(told(run, f"send#{n}", send(n)))
    return "+".join(tokens)


@workflow
def bank(run: str, steps: int) -> str:
    tokens = []
    for n in range(1, steps + 1):
        tokens.append(told(run, f"pay#{n}", pay(n)))
        tokens.append(told(run, f"work#{n}", work(n)))
    return "+".join(tokens)


@workflow
def family(run: str, steps: int) -> str:
    tokens = []
    for n in range(1, steps + 1):
        child = f"{run}.chain-{n}"
        tokens.append(told(run, f"chain#{n}", chain(child, 3)))
    return "+".join(tokens)


@workflow
def bulk(run: str, steps: int) -> int:
    return sum(len(told(run, f"large#{n + 1}", large(n))) for n in range(steps))


async def half(run: str, steps: int, first: int) -> int:
    total = 0
    for n in range(first, steps, 2):
        total += len(told(run, f"half[{first + 1}]/large#{n // 2 + 1}", await large.aio(n)))
    return total


@workflow
async def abulk(run: str, steps: int) -> int:
    """The same from an event loop, two branches at once."""
    return sum(await gather(half(run, steps, 0), half(run, steps, 1)))


@workflow
def nap(run: str, seconds: float) -> str:
    before = told(run, "work#1", work(1))
    sleep(seconds)
    say("awake", run)
    return before + "+" + told(run, "work#2", work(2))


@workflow
async def anap(run: str, seconds: float) -> str:
    before = told(run, "awork#1", await awork(1))
    await sleep.aio(seconds)
    say("awake", run)
    return before + "+" + told(run, "awork#2", await awork(2))


@workflow
def stubborn(run: str, fails: int) -> str:
    return told(run, "flaky#1", flaky(fails))


@workflow
def bounded(run: str, seconds: float, takes: float) -> str:
    """A step within a time limit that it does not keep."""
    try:
        with timeout(seconds):
            return work(1) + "+" + slow(takes)
    except StepTimeout:
        return "late"


@workflow
def shell(run: str, limbs: str, effect: str) -> str:
    """A command with a family of processes; see `limb.py`."""
    before = told(run, "work#1", work(1))
    os.environ["CRASH_OWNER"] = str(os.getpid())
    argv = [sys.executable, "-I", "-S", LIMB, SIDE, run, limbs]
    command(argv, name="shell", effect=effect, check=True)  # type: ignore[arg-type]
    say("told", run, "shell#1", "-")
    return before


WORKFLOWS: dict[str, Any] = {
    one.name: one
    for one in (
        abulk, anap, bank, bounded, bulk, chain, family, fan, nap, post, shell, stream, stubborn, tide,
    )
}  # fmt: skip


# What is watched in the product


def stop_in_gate(where: str) -> None:
    """Stop this process at its nth passage of the write lock: `enter:N`, before anything is written, or
    `exit:N`, with the commit on the disk and nobody told. The gate stays shut."""
    side, _, number = where.partition(":")
    name = f"__{side}__"
    passage = getattr(WriteLock, name)
    left = itertools.count(int(number) - 1, -1)

    def stopping(self: WriteLock, *args: Any) -> None:
        if side == "enter":
            passage(self, *args)
        if next(left) == 0:
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # this thread, at once
        if side == "exit":
            passage(self, *args)

    setattr(WriteLock, name, stopping)


def watch_gate() -> None:
    """Say how long this process had to wait for the write lock, whenever that is longer than before."""
    enter = WriteLock.__enter__
    longest = [0.010]

    def watched(self: WriteLock) -> None:
        began = time.monotonic()
        enter(self)
        waited = time.monotonic() - began
        if waited > longest[0]:
            longest[0] = waited
            say("waited", round(waited * 1e6))

    WriteLock.__enter__ = watched  # type: ignore[method-assign]


class MovedClock(SystemClock):
    """The machine's clock, with a wall time that somebody moves by writing seconds into a file."""

    def now_us(self) -> int:
        try:
            moved = float(Path(SIDE + ".clock").read_text())
        except FileNotFoundError:
            moved = 0.0
        return super().now_us() + round(moved * 1e6)


# What a process does


def open_store() -> Holdfast:
    """With the wall time of the story, if it has one of its own."""
    return Holdfast(clock=MovedClock() if os.path.exists(SIDE + ".clock") else None, on_event=tell)


def tell(event: LogEvent) -> None:
    if event.type == "SleepStarted":
        say("asleep", event.run_id)
    elif event.type == "StepAttemptFailed":
        say("failed", event.run_id, event.data["key"])


def go(run: str, name: str, *args: Any) -> None:
    """Start the run, or continue it where it stopped."""
    with open_store() as hf:
        say("result", run, hf.with_id(run).run(WORKFLOWS[name], run, *args))


def resume(run: str) -> None:
    with open_store() as hf:
        say("result", run, hf.resume(run).result())


def inherit(run: str) -> None:
    """Take the run in the moment in which its owner dies, and look what lives of that one's command."""
    with open_store() as hf:
        say("ready")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                handle = hf.resume(run)
                break
            except RunHeld:
                if time.monotonic() > deadline:
                    raise
        say("claimed", run, *living_beside())
        say("result", run, handle.result())


def living_beside() -> list[int]:
    """Processes of commands that others have started."""
    beats = [line.split(" ") for line in Path(SIDE).read_text().split("\n") if " beat " in line]
    return [
        pid for pid in {int(words[1]) for words in beats if words[4] != str(os.getpid())} if _is_alive(pid)
    ]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def take_over(run: str) -> None:
    """Ask first: a live owner is not robbed, but named. Then take the run."""
    with open_store() as hf:
        try:
            result = hf.resume(run).result()
        except RunHeld as held:
            say("held", run, held.pid)
            result = hf.resume(run, take_over=True).result()
        say("result", run, result)


def turns() -> None:
    """One run before the story continues, one after."""
    with open_store() as hf:
        for turn in ("first", "second"):
            run = f"own-{turn}-{os.getpid()}"
            say("result", run, hf.with_id(run).run(chain, run, 4))
            if turn == "first":
                until(lambda: os.path.exists(SIDE + ".turn"), f"{SIDE}.turn")


def share(seed: int) -> None:
    """Start runs, three at a time, whoever else starts the same, until told to stop."""
    watch_gate()
    chance = random.Random(f"{seed} {os.getpid()}")
    known = {line.split(" ")[3] for line in Path(SIDE).read_text().split("\n") if " result " in line}
    left = (run for run in map(_shared, itertools.count()) if run not in known)
    window = list(itertools.islice(left, 6))
    with open_store() as hf:
        while not os.path.exists(SIDE + ".turn"):
            started = []
            for run in chance.sample(window, 3):
                with contextlib.suppress(RunHeld):
                    started.append(hf.with_id(run).start(WORKFLOWS[run.partition("-")[0]], run, 4))
            for one in started:
                say("result", one.id, one.result())
                window[window.index(one.id)] = next(left)


SHARED = ("chain", "tide", "bank", "fan", "stream", "family")


def _shared(number: int) -> str:
    return f"{SHARED[number % len(SHARED)]}-{number}"


def recover() -> None:
    """Continue whatever was left."""
    with open_store() as hf:
        for run in hf.recover():
            with contextlib.suppress(CrashLoop):
                say("result", run.id, run.result())
        for info in hf.runs():
            if not info.parent and info.status != "completed":
                say("result", info.id, hf.resume(info.id).result())


def main() -> None:
    where = os.environ.get("CRASH_STOP")
    if where:
        stop_in_gate(where)
    perform(globals(), *sys.argv[1:])


def perform(words: dict[str, Any], word: str, *arguments: str) -> None:
    """Do what the command line says; a HoldfastError is said, and gives its exit code."""
    try:
        words[word](*map(_parsed, arguments))
    except HoldfastError as error:
        say("error", type(error).__name__, error.code)
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    main()
