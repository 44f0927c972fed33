"""Lives of a program's run: forks of a warm process that open a store, execute, and end without closing it.

A real process death leaves nothing behind but files. `Life.until` gives what a life had reported when it was
killed at one of its commits."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import io
import json
import logging
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.oracle import async_player, def_player, steps, wal, witness
from tests.crash.oracle.learning import HANDLERS
from tests.crash.oracle.person import Person, attend
from tests.crash.oracle.programs import Program
from tests.crash.oracle.witness import Witness

from holdfast import DivergenceError, Holdfast, NeedsAttention

LIMIT_S = 40.0
"""A replay in which a lock goes to another branch begins again ten times, a second or more each, before it is
a divergence."""
AT_ONCE = 4
"""Lives that a worker lets run beside each other: most of their time is waiting."""
ENGINE_PATIENCE_S = 1.0


@dataclass(frozen=True)
class Plan:
    """How a life is to be lived."""

    program: Program
    home: Path
    seed: str
    loop: str = "asyncio"
    kill_at: int | None = None
    """SIGKILL at this line of its report."""
    replays: bool = False
    """Let `replay` execute the code once more at the end."""
    audits: bool = False
    outside: bool = False
    """The person who decides is another process."""
    prepare: Callable[[], None] | None = None
    """Called in the process before it opens the store: to plant a fault."""


@dataclass
class Life:
    """What a life reported, and what it left."""

    plan: Plan
    lines: list[list[Any]] = field(default_factory=list)
    stderr: str = ""
    hung: bool = False
    killed: bool = False
    status: int = 0
    """As `waitpid` gives it."""
    commits: list[int] = field(default_factory=list)
    log: list[wal.Logged] = field(default_factory=list)
    born_at: int = 0
    """Size of the write-ahead log when it began."""
    past: list[wal.Logged] = field(default_factory=list)
    """The log when it began."""

    def of(self, kind: str) -> list[list[Any]]:
        return [line for line in self.lines if line[0] == kind]

    def until(self, size: int) -> Life:
        """The same life, killed just before the commit after `size`: what it had reported by then."""
        later = [one for one in self.commits if one > size]
        end = later[0] if later else None
        lines = [line for line in self.lines if end is None or line[1] < end]
        cut = [
            line for line in lines if line[0] in ("see", "body", "verify", "settled") and not _replayed(line)
        ]
        return Life(self.plan, cut, killed=True, commits=self.commits, born_at=self.born_at, past=self.past)


def _replayed(line: list[Any]) -> bool:
    return line[0] == "see" and line[3] >= 1000


class Place:
    """A directory in memory for the stores of one worker, with a template of an empty store."""

    def __init__(self) -> None:
        shared = Path("/dev/shm")
        self.root = Path(tempfile.mkdtemp(prefix="oracle-", dir=shared if shared.is_dir() else None))
        self._made = 0
        self.template = self.root / "template"
        Holdfast(self.template, durability="process").close()

    def new(self) -> Path:
        self._made += 1
        return self.root / f"home{self._made}"

    def empty_store(self) -> Path:
        home = self.new()
        wal.copy_until(self.template, 0, home)
        return home

    def clear(self) -> None:
        """Remove every store but the template."""
        for one in self.root.iterdir():
            if one != self.template:
                shutil.rmtree(one, ignore_errors=True) if one.is_dir() else one.unlink(missing_ok=True)

    def close(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


# In the process that forks


def live_all(plans: Sequence[Plan]) -> list[Life]:
    """Live them, a few at a time; in the order of the plans."""
    found: dict[int, Life] = {}
    under_way: dict[int, _Process] = {}
    waiting = list(enumerate(plans))
    while waiting or under_way:
        while waiting and len(under_way) < AT_ONCE:
            place, plan = waiting.pop(0)
            begun = _Process(place, plan)
            under_way[begun.fd] = begun
        for fd in _ended(under_way):
            over = under_way.pop(fd)
            over.collect()
            found[over.place] = over.life
    return [found[place] for place in range(len(plans))]


def _ended(under_way: dict[int, _Process]) -> list[int]:
    """Wait until some have ended; end those that take too long."""
    first = min(one.deadline for one in under_way.values())
    ended = select.select(list(under_way), [], [], max(0.0, first - time.monotonic()))[0]
    if ended:
        return ended
    late = [fd for fd, one in under_way.items() if one.deadline <= time.monotonic()]
    for fd in late:
        under_way[fd].life.hung = True
        os.kill(under_way[fd].pid, signal.SIGKILL)
    return late


class _Process:
    """A life under way."""

    def __init__(self, place: int, plan: Plan) -> None:
        self.place = place
        self.life = Life(plan)
        self.life.commits = wal.commits(plan.home)
        self.life.born_at = self.life.commits[-1] if self.life.commits else 0
        self.life.past = wal.events(plan.home) if self.life.commits else []
        _lines_of(plan.home).unlink(missing_ok=True)
        self._person = 0
        if plan.outside:
            self._person = _fork(lambda: attend(plan.home, plan.program, plan.seed))
        self.fd, alive = os.pipe()
        self.pid = _fork(lambda: _live(plan))
        os.close(alive)  # only the life has it now: the end of the life is the end of the pipe
        self.deadline = time.monotonic() + LIMIT_S + 5

    def collect(self) -> None:
        """Read what the dead process left."""
        life, home = self.life, self.life.plan.home
        os.close(self.fd)
        life.status = os.waitpid(self.pid, 0)[1]
        if self._person:
            os.kill(self._person, signal.SIGKILL)
            os.waitpid(self._person, 0)
        killed = os.WIFSIGNALED(life.status) and os.WTERMSIG(life.status) == signal.SIGKILL
        life.killed = killed or life.hung
        text = _lines_of(home).read_bytes() if _lines_of(home).exists() else b""
        life.lines = [json.loads(line) for line in text.split(b"\n")[:-1]]
        life.stderr = _errors_of(home).read_text(errors="replace") if _errors_of(home).exists() else ""
        life.hung = life.hung or bool(life.of("hang"))
        life.commits = wal.commits(home)
        life.log = wal.events(home)


def _fork(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _lines_of(home: Path) -> Path:
    return home.with_suffix(".lines")


def _errors_of(home: Path) -> Path:
    return home.with_suffix(".errors")


def warm_up(program: Program) -> None:
    """Live once here, so that all that a life imports is there. Leaves no thread."""
    import holdfast.operations.replaying  # noqa: F401

    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory, "home")
        hf = Holdfast(home, durability="process", handlers=HANDLERS)
        _choose(program)
        witness.take(Witness(Path(directory, "lines"), home / wal.DATABASE))
        person = Person(hf, program, "warm")
        person.start()
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(Exception):
            _execute(Plan(program, home, "warm"), hf)
        person.stop()
        hf.close()
    deadline = time.monotonic() + 5
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(0.001)
    gc.collect()
    gc.freeze()


# In the fork


def _live(plan: Plan) -> None:
    os.dup2(os.open(_errors_of(plan.home), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    faulthandler.enable()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    random.seed(plan.seed)
    junk = [[object() for _ in range(random.randrange(50))] for _ in range(random.randrange(300))]
    del junk[:: random.choice((2, 3))]  # other addresses in every life
    steps.SCALE = random.choice((0.5, 1.0, 1.0, 1.6))
    if plan.prepare is not None:
        plan.prepare()
    _shorten_patience()
    _choose(plan.program)
    reports = Witness(_lines_of(plan.home), plan.home / wal.DATABASE, plan.kill_at)
    witness.take(reports)
    threading.Thread(target=_watch, args=(reports,), daemon=True).start()
    hf = Holdfast(plan.home, durability="process", handlers=HANDLERS)
    _forbid_checkpoints(hf)
    person = _person(plan, hf)
    _execute(plan, hf)
    if person is not None:
        person.stop()
    _report_faults(plan, hf)
    if plan.replays:
        _replay(plan, hf)


def _shorten_patience() -> None:
    with contextlib.suppress(ImportError):
        from holdfast.engine.execution import delivery  # type: ignore[attr-defined]

        if hasattr(delivery, "PATIENCE_S"):
            delivery.PATIENCE_S = ENGINE_PATIENCE_S


def _forbid_checkpoints(hf: Holdfast) -> None:
    """Every commit of a life must stay in the write-ahead log."""
    store: Any = hf._store
    with store._write_lock:
        store._writer()  # the first write would make the connection, and set another value
    store._db.execute("PRAGMA wal_autocheckpoint=0")


def _choose(program: Program) -> None:
    if any(one.kind.startswith("any_") for one in program.top.walk()):
        from tests.crash.oracle import anyio_player  # noqa: F401
    async_player.set_program(program)
    def_player.set_program(program)


def _person(plan: Plan, hf: Holdfast) -> Person | None:
    if plan.outside or not plan.program.has_gates:
        return None
    own = random.random() < 0.5
    its = Holdfast(plan.home, durability="process") if own else hf
    if own:
        _forbid_checkpoints(its)
    person = Person(its, plan.program, f"{plan.seed} person")
    person.start()
    return person


def _execute(plan: Plan, hf: Holdfast) -> None:
    """Bring the runs of the program to their ends; settle what is in doubt."""
    left = ["p", "q"] if plan.program.twin else ["p"]
    for _ in range(12):
        outcomes = dict(zip(left, _play(plan, hf, left), strict=True))
        for name, outcome in outcomes.items():
            _report_end(name, outcome)
        left = [name for name, outcome in outcomes.items() if _needs_person(outcome)]
        if not left or not _settle(hf):
            return


def _needs_person(outcome: Any) -> bool:
    return isinstance(outcome, NeedsAttention) and not _is_divergence(outcome)


def _is_divergence(outcome: Any) -> bool:
    """Of the run, or of a child run that stopped it."""
    return isinstance(outcome, DivergenceError) or "no longer matches" in str(outcome)


def _settle(hf: Holdfast) -> int:
    """Let every step in doubt run again; returns how many."""
    count = 0
    for run in hf.runs():
        for one in hf.steps(run.id):
            if one.status == "in_doubt":
                witness.here().write("settled", run.id, one.key)
                hf.settle(run.id, one.key, retry=True, by="oracle")
                count += 1
    return count


def _report_end(name: str, outcome: Any) -> None:
    if not isinstance(outcome, BaseException):
        witness.here().write("end", name, "result", outcome)
        return
    how = "error"
    if isinstance(outcome, NeedsAttention):
        how = "divergence" if _is_divergence(outcome) else "attention"
    elif isinstance(outcome, async_player.FAILURES):
        how = "failure"
    witness.here().write("end", name, how, f"{type(outcome).__name__}: {outcome}")


def _play(plan: Plan, hf: Holdfast, names: list[str]) -> list[Any]:
    if plan.program.colour == "def":
        return [_outcome(hf, name, def_player.played_def) for name in names]
    if plan.loop == "asyncio" and len(names) == 1 and random.random() < 0.25:
        return [_outcome(hf, names[0], async_player.played_async)]
    with asyncio.Runner(loop_factory=loop_factory(plan.loop)) as runner:
        return runner.run(_together(hf, names))


def loop_factory(loop: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if loop == "uvloop":
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
        return factory
    return asyncio.new_event_loop


def _outcome(hf: Holdfast, name: str, flow: Any) -> Any:
    """Execute the run in this thread. One that a person has settled is resumed by its name."""
    try:
        if any(run.id == name and run.status == "needs_attention" for run in hf.runs()):
            return hf.resume(name).result()
        return hf.with_id(name).run(flow)
    except Exception as error:
        return error


async def _together(hf: Holdfast, names: list[str]) -> list[Any]:
    noise = asyncio.create_task(_noise()) if random.random() < 0.3 else None
    try:
        return await asyncio.gather(*(_awaited(hf, name) for name in names))
    finally:
        if noise is not None:
            noise.cancel()


async def _awaited(hf: Holdfast, name: str) -> Any:
    try:
        runs = await hf.aio.runs()
        if any(run.id == name and run.status == "needs_attention" for run in runs):
            return await hf.resume(name)
        return await hf.with_id(name).start(async_player.played_async)
    except Exception as error:
        return error


async def _noise() -> None:
    """A task of another program on the same loop."""
    while True:
        await asyncio.sleep(random.choice((0, 0, 0.0003, 0.001)))


def _report_faults(plan: Plan, hf: Holdfast) -> None:
    if plan.audits:
        witness.here().write("faults", [str(one) for one in hf._store.verify()])


def _replay(plan: Plan, hf: Holdfast) -> None:
    """Execute the code against the whole log with `replay`."""
    from holdfast.operations.replaying import replay

    if plan.loop == "uvloop":
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    reports = witness.here()
    reports.replaying()
    for name in ("p", "q") if plan.program.twin else ("p",):
        found = replay(hf._engine, name)
        reports.write("replay", name, found.verdict, found.why or found.reached)


def _watch(reports: Witness) -> None:
    """End a life that takes too long, and report where its tasks and threads are."""
    time.sleep(LIMIT_S)
    faulthandler.dump_traceback(file=sys.stderr)
    with contextlib.suppress(RuntimeError):
        for line in _task_lines():
            print(line, file=sys.stderr)
    sys.stderr.flush()
    reports.write("hang", "no end")
    os._exit(7)


def _task_lines() -> Iterator[str]:
    for task in list(asyncio.tasks._all_tasks):  # type: ignore[attr-defined]
        code = [(one.f_code, one.f_lineno) for one in reversed(task.get_stack())]
        places = [f"{Path(one.co_filename).name}:{line} {one.co_name}" for one, line in code]
        yield f"task {task.get_name()}: {' < '.join(places[:6])}{_failure(task)}"


def _failure(task: asyncio.Task[Any]) -> str:
    """Of a task that has failed: whatever waits for its work waits for ever."""
    error = task.exception() if task.done() and not task.cancelled() else None
    return "" if error is None else f" raised {error!r}, after {error.__context__!r}"
