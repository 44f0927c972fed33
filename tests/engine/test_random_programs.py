"""Random programs: crashed at random appends and resumed, they end as if nothing had happened.

A program is a tree of statements. It is executed once without a crash, and once in several lives, each
of which dies after some appends. Both must end with the same result or error, and no body may
run again whose step's end had been acknowledged. In gated programs a person decides, signals, pauses and
cancels meanwhile, from a Holdfast of their own.
"""

import asyncio
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import (
    GateError,
    Holdfast,
    Retry,
    RunCancelled,
    RunPaused,
    StoreError,
    approval,
    gather,
    idempotency_key,
    parallel,
    sleep,
    step,
    uuid,
    wait_for,
    workflow,
)
from holdfast.errors import Refused
from holdfast.testing import FakeClock


class Planned(Exception):
    """What a program raises by its plan."""


@dataclass(frozen=True)
class Work:
    """A step that fails `failures` times before it succeeds, with `attempts` tries."""

    name: int
    failures: int = 0
    attempts: int = 1
    caught: bool = True
    keyed: bool = False


@dataclass(frozen=True)
class Draw:
    """A recorded value, handed to a step: another one in replay would be a divergence."""


@dataclass(frozen=True)
class Sleep:
    seconds: int


@dataclass(frozen=True)
class Gate:
    """An approval or a signal. What the person does first, `pause` or `cancel`, the program survives."""

    kind: str
    approves: bool
    before: str

    @property
    def title(self) -> str:
        return f"{'yes' if self.approves else 'no'}-{self.before}"


@dataclass(frozen=True)
class Race:
    """A step beside a wait that comes to nothing: the code gives the wait up when the step has ended."""

    kind: str
    work: Work
    caught: bool = False


@dataclass(frozen=True)
class Branches:
    programs: tuple[tuple[Any, ...], ...]
    caught: bool
    limit: int


@dataclass(frozen=True)
class Child:
    program: tuple[Any, ...]
    caught: bool
    other: bool = False
    """It has the other colour than its parent."""


works = st.builds(
    Work, st.integers(0, 99), st.integers(0, 2), st.integers(1, 3), st.booleans(), st.booleans()
)
leaves = st.one_of(works, works, works, st.builds(Draw), st.builds(Sleep, st.integers(0, 9)))

gates = st.builds(
    Gate,
    st.sampled_from(["approval", "signal"]),
    st.booleans(),
    st.sampled_from(["", "", "", "pause", "cancel"]),
)


races = st.builds(Race, st.sampled_from(["approval", "signal"]), works)


def deeper(statements: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    programs = st.lists(statements, max_size=3).map(tuple)
    several = st.lists(programs, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Branches, several, st.booleans(), st.integers(1, 3)),
        st.builds(Child, programs, st.booleans(), st.booleans()),
    )


programs = st.lists(st.recursive(leaves, deeper, max_leaves=8), max_size=5).map(tuple)
gated = st.lists(st.recursive(st.one_of(leaves, gates), deeper, max_leaves=6), max_size=4).map(tuple)
racing = st.lists(st.recursive(st.one_of(leaves, gates, races), deeper, max_leaves=6), max_size=4).map(tuple)


@dataclass
class World:
    """What is acknowledged, and how often each body began: what the store must agree with."""

    ended: set[str] = field(default_factory=set)
    failures: Counter[str] = field(default_factory=Counter)
    bodies: Counter[str] = field(default_factory=Counter)
    again: list[str] = field(default_factory=list)
    raised: Counter[str] = field(default_factory=Counter)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def told(self, event: Any) -> None:
        key = f"{event.run_id}:0:{event.data.get('key')}"
        with self.changed:
            if event.type in ("StepRan", "StepCompleted", "StepFailed"):
                self.ended.add(key)
            elif event.type == "StepAttemptFailed":
                self.failures[key] += 1
                self.changed.notify_all()
            elif event.type == "StepReopened":
                # A failed child whose parent was cancelled, and is resumed, is reopened with it.
                self.ended.discard(key)
                self.changed.notify_all()

    def begin(self, work: Work) -> int:
        key = idempotency_key()
        with self.changed:
            # A thread that tells of this run may be in the middle of it: then the last failure is not told
            # yet. One that a crash or a pause kept from the log never is.
            self.changed.wait_for(lambda: self.failures[key] >= self.raised[key], 0.3)
            self.raised[key] = self.failures[key]
            self.bodies[key] += 1
            self.changed.wait_for(lambda: key not in self.ended, 0.3)
            if key in self.ended:
                self.again.append(key)
            if self.failures[key] < min(work.failures, work.attempts):
                self.raised[key] += 1
                raise Planned(f"{work.name} failed")
        return work.name


world = World()
RETRIES = {n: Retry(attempts=n, initial=0.5) for n in (1, 2, 3)}
DO = {n: step(name="do", retry=retry)(lambda work: world.begin(_work(work))) for n, retry in RETRIES.items()}


def _work(fields: tuple[Any, ...]) -> Work:
    return Work(*fields)


def _fields(work: Work) -> tuple[Any, ...]:
    return (work.name, work.failures, work.attempts, work.caught, work.keyed)


async def _ado(work: tuple[Any, ...]) -> int:
    await asyncio.sleep(0)
    return world.begin(_work(work))


ADO = {n: step(name="do", retry=retry)(_ado) for n, retry in RETRIES.items()}


@step
def use(value: Any) -> str:
    return "used"


# Children find their programs here: they are no arguments, so that any tree can be one.
_children: list[tuple[Any, ...]] = []


@workflow
def subprogram(n: int) -> Any:
    return play(_children[n])


@workflow
async def asubprogram(n: int) -> Any:
    return await aplay(_children[n])


@workflow
def program() -> Any:
    return play(_children[0])


@workflow
async def aprogram() -> Any:
    return await aplay(_children[0])


def described(error: BaseException) -> Any:
    if isinstance(error, BaseExceptionGroup):
        return [described(one) for one in error.exceptions]
    return f"{type(error).__name__}({error})"


def play_branch(branch: tuple[str, tuple[Any, ...]]) -> list[Any]:
    path, statements = branch
    return play(statements, path)


def branches_of(one: Branches, path: str) -> list[tuple[str, tuple[Any, ...]]]:
    """Each with a path of its own: a key is unique in the whole run."""
    return [(f"{path}{number}.", program) for number, program in enumerate(one.programs)]


def play(statements: tuple[Any, ...], path: str = "") -> list[Any]:
    results: list[Any] = []
    for place, one in enumerate(statements):
        try:
            if isinstance(one, Work):
                chosen = DO[one.attempts]
                results.append((chosen.with_key(f"{path}{place}") if one.keyed else chosen)(_fields(one)))
            elif isinstance(one, Draw):
                results.append(use(uuid()))
            elif isinstance(one, Sleep):
                results.append(sleep(one.seconds))
            elif isinstance(one, Gate):
                results.append(approval(one.title).outcome if one.kind == "approval" else wait_for(one.title))
            elif isinstance(one, Race):  # the code of a `def` workflow gives up no wait
                results.append(DO[one.work.attempts](_fields(one.work)))
            elif isinstance(one, Branches):
                branches = branches_of(one, f"{path}{place}-")
                results.append(parallel(play_branch, branches, limit=one.limit))
            else:
                child = asubprogram if one.other else subprogram
                results.append(child.sync(_children.index(one.program)))
        except (Planned, ExceptionGroup) as error:
            if not one.caught:
                raise
            results.append(described(error))
    return results


async def aplay(statements: tuple[Any, ...], path: str = "") -> list[Any]:
    results: list[Any] = []
    for place, one in enumerate(statements):
        try:
            if isinstance(one, Work):
                chosen = ADO[one.attempts]
                results.append(
                    await (chosen.with_key(f"{path}{place}") if one.keyed else chosen)(_fields(one))
                )
            elif isinstance(one, Draw):
                results.append(await use.aio(uuid()))
            elif isinstance(one, Sleep):
                results.append(await sleep.aio(one.seconds))
            elif isinstance(one, Gate) and one.kind == "approval":
                results.append((await approval.aio(one.title)).outcome)
            elif isinstance(one, Gate):
                results.append(await wait_for.aio(one.title))
            elif isinstance(one, Race):
                results.append(await race(one))
            elif isinstance(one, Branches):
                branches = [aplay(rest, its) for its, rest in branches_of(one, f"{path}{place}-")]
                results.append(list(await gather(*branches, limit=one.limit)))
            else:
                child = subprogram if one.other else asubprogram
                results.append(await child.aio(_children.index(one.program)))
        except (Planned, ExceptionGroup) as error:
            if not one.caught:
                raise
            results.append(described(error))
    return results


async def race(one: Race) -> Any:
    left = approval.aio("left") if one.kind == "approval" else wait_for.aio("left")
    waits = asyncio.ensure_future(left)
    try:
        return await ADO[one.work.attempts](_fields(one.work))
    finally:
        waits.cancel()
        await asyncio.wait([waits])


def collect(statements: tuple[Any, ...]) -> None:
    for one in statements:
        if isinstance(one, Child):
            _children.append(one.program)
            collect(one.program)
        elif isinstance(one, Branches):
            for branch in one.programs:
                collect(branch)


def has_gates(statements: tuple[Any, ...]) -> bool:
    return any(
        isinstance(one, Gate)
        or (isinstance(one, Child) and has_gates(one.program))
        or (isinstance(one, Branches) and any(map(has_gates, one.programs)))
        for one in statements
    )


def outcome(hf: Holdfast, flow: Any) -> Any:
    stopped = False
    while True:
        try:
            return hf.resume("p").result() if stopped else hf.with_id("p").run(flow)
        except (Planned, ExceptionGroup) as error:
            return ("failed", described(error))
        except (RunPaused, RunCancelled):
            stopped = True


class Person:
    """Sees every open gate, and decides it."""

    def __init__(self, home: Path) -> None:
        self._hf = Holdfast(home, durability="process")
        self._stop = threading.Event()
        self._stopped: set[tuple[str, str]] = set()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def leave(self) -> None:
        self._stop.set()
        self._thread.join()
        self._hf.close()

    def _work(self) -> None:
        while not self._stop.wait(0.01):
            for run in self._hf.runs():
                for gate in self._hf.steps(run.id):
                    if gate.status == "waiting" and run.status not in ("paused", "cancelled"):
                        try:
                            self._decide(run.id, gate)
                        except (GateError, Refused):
                            pass  # the run was faster

    def _decide(self, run_id: str, gate: Any) -> None:
        answer, _, before = gate.name.partition("-")
        if answer == "left":
            return
        if before and (run_id, gate.key) not in self._stopped:
            self._stopped.add((run_id, gate.key))
            getattr(self._hf, before)("p", patience=1.0)
        elif gate.kind == "signal":
            self._hf.signal(run_id, gate.name, answer)
        elif answer == "yes":
            self._hf.approve(run_id, gate.key)
        else:
            self._hf.reject(run_id, gate.key)


def live(home: Path, flow: Any, deaths: list[int], crashes: Any) -> tuple[Any, World]:
    """The program's end after these deaths."""
    global world
    world = World()
    clock = FakeClock()
    person = Person(home) if any(map(has_gates, _children)) else None
    try:
        return _live(home, flow, deaths, crashes, clock), world
    finally:
        if person is not None:
            person.leave()


def _live(home: Path, flow: Any, deaths: list[int], crashes: Any, clock: FakeClock) -> Any:
    for appends in deaths:
        hf = Holdfast(home, durability="process", clock=clock, on_event=world.told)
        try:
            crashes.arm(hf, appends)
            return outcome(hf, flow)
        except StoreError:
            pass
        finally:
            crashes.bury(hf)
    with Holdfast(home, durability="process", clock=clock, on_event=world.told) as hf:
        return outcome(hf, flow)


def check(statements: tuple[Any, ...], deaths: list[int], flow: Any, crashes: Any) -> None:
    _children[:] = [statements]
    collect(statements)
    with tempfile.TemporaryDirectory() as home:
        calm, once = live(Path(home, "calm"), flow, [], crashes)
        assert once.again == []
        crashed, often = live(Path(home, "crashed"), flow, deaths, crashes)
        assert crashed == calm
        assert often.again == [], "an acknowledged step ran again"
        assert often.ended == once.ended
        with Holdfast(Path(home, "crashed"), durability="process") as hf:
            assert list(hf._store.verify()) == []
            before = often.bodies.copy()
            assert outcome(hf, flow) == calm
            assert often.bodies == before, "the finished run ran something"


quiet = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
deaths = st.lists(st.integers(0, 9), max_size=4)


@quiet
@given(programs, deaths)
def test_sync_programs(crashes, statements, deaths):
    """`def` workflows with `parallel`, retries, values, sleeps, keys, errors caught or not, children."""
    check(statements, deaths, program, crashes)


@quiet
@given(programs, deaths)
def test_async_programs(crashes, statements, deaths):
    """The same programs as `async def` workflows with `gather`."""
    check(statements, deaths, aprogram, crashes)


@settings(quiet, max_examples=12)
@given(gated, deaths)
def test_gated_sync_programs(crashes, statements, deaths):
    """With gates, signals, pauses and cancels, in branches and in children."""
    check(statements, deaths, program, crashes)


@settings(quiet, max_examples=20)
@given(racing, deaths)
def test_gated_async_programs(crashes, statements, deaths):
    """The same as `async def` workflows, and waits that these give up."""
    check(statements, deaths, aprogram, crashes)
