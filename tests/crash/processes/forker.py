"""A user's program that forks, with a Holdfast open and runs under way: `python forker.py WORD ARGUMENTS...`

Its lines are those of `program.py`, and:

    forked                  the parent has forked
    child NAME              a child lives, and does as this function of this module
    refused WHAT            what it inherited was refused to it, or a Holdfast of its own
    used WHAT               it was not
    closed                  the parent has closed its Holdfast
    hangs PID               a child had to be killed
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from pathlib import Path

import program
from program import SIDE, body, chain, let_go, perform, say, told, until, work

from holdfast import Holdfast, step, workflow
from holdfast.errors import StoreClosed

CHILD_S = 5.0
inherited: Holdfast
"""The parent's, as its children have it."""

# Children


def exits() -> None:
    os._exit(0)


def ends() -> None:
    """As a program ends: Python takes itself apart, and every object in it."""
    sys.exit(0)


def lingers() -> None:
    """The same, later."""
    until(lambda: os.path.exists(SIDE + ".turn"), f"{SIDE}.turn")
    sys.exit(0)


def becomes() -> None:
    """Another program; it must not be found to hold anything."""
    os.execv("/bin/sleep", ["sleep", "60"])


def lasts() -> None:
    until(let_go, f"{SIDE}.go")
    os._exit(0)


def uses() -> None:
    """What it inherited is refused to it, whatever it tries."""
    for name, attempt in (
        ("run", lambda: inherited.with_id("stolen").run(chain, "stolen", 2)),
        ("resume", lambda: inherited.resume("main", take_over=True).result()),
        ("get", lambda: inherited.get("main")),
        ("runs", lambda: inherited.runs()),
    ):
        try:
            attempt()
            say("used", name)
        except StoreClosed:
            say("refused", name)
    inherited.close()
    os._exit(0)


def owns() -> None:
    """Holdfasts of its own, on the store that it inherited and on another one: SQLite could not serve them,
    with threads in the parent at the moment of the fork."""
    for name, home in (("own", None), ("elsewhere", f"{SIDE}.{os.getpid()}")):
        try:
            Holdfast(home).close()
            say("used", name)
        except StoreClosed:
            say("refused", name)
    os._exit(0)


def renews() -> None:
    """Another program, with a Holdfast of its own."""
    os.environ.pop("CRASH_HOLD", None)
    os.execv(sys.executable, [sys.executable, program.__file__, "turns"])


# Parents


def fork(way: str, child: str) -> int:
    """The pid of a child that does as it is called."""
    if way == "fork":
        pid = os.fork()
        if pid == 0:
            say("child", child)
            globals()[child]()
        return pid
    process = multiprocessing.get_context("fork").Process(target=_as_process, args=(child,))
    process.start()
    assert process.pid is not None
    return process.pid


def _as_process(child: str) -> None:
    say("child", child)
    globals()[child]()


def go(run: str, name: str, *args: str) -> None:
    with Holdfast() as hf:
        say("result", run, hf.with_id(run).run(globals()[name], run, *args))


def resume(run: str) -> None:
    with Holdfast() as hf:
        say("result", run, hf.resume(run).result())


@step
def forks(way: str, child: str) -> str:
    """Fork in the body of a step, which continues when it is let go."""
    with body() as (held, token):
        if not let_go():
            fork(way, child)
        if held:
            until(let_go, f"{SIDE}.go")
        return token


@workflow
def inside(run: str, way: str, child: str) -> str:
    before = told(run, "work#1", work(1))
    return before + "+" + told(run, "forks#1", forks(way, child))


def beside(way: str, child: str, end: str) -> None:
    """Fork with a live run in another thread, whose second step is held. `end`: what then becomes of this
    Holdfast, or `wait` to be killed."""
    global inherited
    with Holdfast() as hf:
        inherited = hf
        run = hf.with_id("main").start(chain, "main", 4)
        until(lambda: _has_begun("main work#2"), "the held step")
        fork(way, child)
        say("forked")
        if end == "wait":
            until(lambda: False, "being killed")
        if end == "close":
            threading.Timer(0.05, lambda: Path(SIDE + ".go").touch()).start()
            hf.close()
            say("closed")
            until(lambda: os.path.exists(SIDE + ".turn"), f"{SIDE}.turn")
            return
        say("result", "main", run.result())


def busily(way: str, child: str, times: int) -> None:
    """Fork again and again while four runs commit all the time; every child ends within its time, unless
    it is to last."""
    global inherited
    with Holdfast() as hf:
        inherited = hf
        runs = [hf.with_id(f"busy-{n}").start(chain, f"busy-{n}", 4 * times) for n in range(4)]
        for _ in range(times):
            pid = fork(way, child)
            if child != "lasts":
                _reap(pid)
        say("forked")
        for run in runs:
            say("result", run.id, run.result())


def _reap(pid: int) -> None:
    """Wait for the end of a child; one that hangs is killed, and said to."""
    deadline = time.monotonic() + CHILD_S
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            say("hangs", pid)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return
        time.sleep(0.001)


def _has_begun(what: str) -> bool:
    return f" began {what}\n" in Path(SIDE).read_text()


if __name__ == "__main__":
    perform(globals(), *sys.argv[1:])
