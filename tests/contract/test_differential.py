"""The SQLite store and the oracle are given the same random work, and nothing readable may differ."""

import hashlib
import itertools
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import HoldfastError, OwnershipLost
from holdfast.kernel import budget as b
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.amounts import Amounts
from holdfast.kernel.decide import decide
from holdfast.kernel.evolve import evolve, fold
from holdfast.kernel.state import RunState
from holdfast.store.oracle import OracleStore
from holdfast.store.port import STORE_STREAM, Append, Companion, Decision, Recorded, Source, new_event
from holdfast.store.sqlite.commit import Command
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.histories import whole_feed
from holdfast.testing.strategies import commands_for, fitting, moved

RUNS = ("r", "s")
BESIDE = ("@budget/a", "@budget/b")
BROKEN = "@broken"
"""A companion on this stream raises."""


class Foreign(NamedTuple):
    """A command from outside, decided in the transaction."""

    command: c.Command


class Owned(NamedTuple):
    """What the owner decides on its state and appends: one command or several, or a rewind."""

    commands: Sequence[c.Command | int]
    stale: bool = False
    blob: bool = False
    beside: Sequence[str] = ()
    """The streams of its companions."""


class Hot(NamedTuple):
    """A step of the hot path."""

    key: str
    stale: bool = False
    beside: Sequence[str] = ()


Work = tuple[str, Foreign | Owned | Hot]


class Batch(NamedTuple):
    work: Sequence[Work]
    durable: bool
    via: int
    """Which of two stores on the same files: the other one is what another process would be."""


def work_for(run: str) -> st.SearchStrategy[Work]:
    commands = commands_for(run)
    stale = st.integers(0, 9).map(lambda n: n == 0)
    streams = st.sampled_from([*BESIDE * 3, BROKEN, *RUNS])
    beside = st.just(()) | st.lists(streams, max_size=3)
    owned = st.builds(
        Owned,
        st.lists(commands | st.integers(0, 9), max_size=3),
        stale,
        st.integers(0, 4).map(lambda n: n == 0),
        beside,
    )
    hot = st.builds(Hot, st.integers(1, 40).map(lambda n: f"h#{n}"), stale, beside)
    # A rewind leaves the run without an owner, and nothing executes before the next claim.
    rewind = st.builds(Owned, st.tuples(st.integers(0, 9)), stale, st.booleans(), beside)
    claim = st.builds(c.ClaimRun, st.just(run), st.just("ann"), st.just("bob"), st.booleans())
    foreign = st.builds(Foreign, claim), st.builds(Foreign, commands)
    return st.tuples(st.just(run), st.one_of(*foreign, owned, owned, rewind, hot, hot, hot))


BATCHES = st.builds(
    Batch,
    st.lists(st.one_of(*map(work_for, RUNS)), min_size=1, max_size=5),
    st.booleans(),
    st.sampled_from([0, 0, 0, 1]),
)
STEPS = st.lists(BATCHES | st.sampled_from(["rebuild", "reopen", "verify", "aside"]), min_size=8, max_size=16)


class Twins:
    """Both stores. Every submission is made on the oracle first, one by one; SQLite gets the same
    submissions as one batch."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.oracle = OracleStore()
        self.stores = [SqliteStore(home, durability="full"), SqliteStore(home, durability="full")]
        self.time = itertools.count(1)
        for run in RUNS:
            create = (c.CreateRun(run, e.Code("flow"), "d"), c.ClaimRun(run, "ann"))
            batch = Batch([(run, Foreign(command)) for command in create], True, 0)
            self.submit(batch)

    def close(self) -> None:
        for store in self.stores:
            store.close()

    def submit(self, batch: Batch) -> None:
        submissions: list[Append | Command] = []
        outcomes = []
        for run, work in batch.work:
            submission, outcome = self._first(run, work, batch.durable)
            submissions.append(submission)
            outcomes.append(outcome)
        if len(submissions) == 1:
            try:
                self.stores[batch.via]._group.submit(submissions[0])
            except HoldfastError:
                pass
        else:
            self.stores[batch.via]._commit(submissions)
        assert [_outcome(one) for one in submissions] == outcomes

    def _first(self, run: str, work: Foreign | Owned | Hot, durable: bool):
        """Submit on the oracle; returns a fresh submission of the same and what became of it."""
        at = next(self.time)
        if isinstance(work, Foreign):
            decision = _decision(work.command, at)
            command, twin = (Command([Source(run)], lambda read: [decision(read[0])], durable) for _ in "12")
            try:
                command.versions = [self.oracle.command(run, decision, durable=durable)]
            except HoldfastError as error:
                command.error = error
            return twin, _outcome(command)
        state = fold(self.oracle.load(run))
        assert state is not None
        make = self._hot if isinstance(work, Hot) else self._owned
        append, twin = (make(run, state, work, at, durable) for state in (state, fold(self.oracle.load(run))))
        for one in (append, twin):
            one.also = [Companion(Source(stream), _counted(stream, at)) for stream in work.beside]
        try:
            self.oracle.append(append)
        except HoldfastError as error:
            append.error = error
        return twin, _outcome(append)

    def _owned(self, run: str, state: RunState, work: Owned, at: int, durable: bool) -> Append:
        epoch = state.epoch - work.stale
        events = []
        for command in work.commands:
            if isinstance(command, (c.CreateRun, c.ClaimRun, c.RewindRun, c.RestoreGeneration)):
                continue  # an owner's append never claims: the epoch would not move with it
            try:
                rewind = isinstance(command, int)
                decided = [moved(state, command)] if rewind else decide(state, fitting(state, command))
            except HoldfastError:
                continue
            for event in decided:
                state = evolve(state, event, state.version + 1, at)
                events.append(new_event(event, at))
        data = f"{run} {at}".encode()
        blobs = [(hashlib.sha256(data).hexdigest(), data)] if work.blob else []
        return Append(run, epoch, events, durable=durable, blobs=blobs)

    def _hot(self, run: str, state: RunState, work: Hot, at: int, durable: bool) -> Append:
        if work.key in state.steps or not state.owner:
            return Append(run, state.epoch - work.stale, (), durable=durable)
        ran = e.StepRan(work.key, "h", at - 1, generation=state.generation)
        return Append(run, state.epoch - work.stale, [new_event(ran, at)], durable=durable)

    def compare(self) -> None:
        store = self.stores[0]
        assert store.runs() == self.oracle.runs()
        for run in RUNS:
            assert store.run(run) == self.oracle.run(run)
            assert store.steps(run) == self.oracle.steps(run)
            assert store.load(run, output=True) == self.oracle.load(run, output=True)
            assert store.load(run, after=3) == self.oracle.load(run, after=3)
        for now in (0, 50, 1 << 60):
            assert store.ready_runs(now) == self.oracle.ready_runs(now)
            assert store.next_due(now) == self.oracle.next_due(now)
            assert store.open_gates(RUNS) == self.oracle.open_gates(RUNS)
        assert store.run_ids("", 9) == self.oracle.run_ids("", 9)
        feeds = [whole_feed(one, limit=7) for one in (store, self.oracle)]
        for stream in (*RUNS, *BESIDE, STORE_STREAM):
            mine, right = ([entry[1:] for entry in feed if entry.stream == stream] for feed in feeds)
            assert mine == right
        for hash, data in self.oracle.blobs.items():
            assert store.blob(hash) == data
        assert store.budgets() == self.oracle.budgets()
        for run in RUNS:
            assert store.budgets_holding(run) == self.oracle.budgets_holding(run)
            assert store.run_spending(run) == self.oracle.run_spending(run)
        for family in ("router", "skills"):
            assert store.outcome_sums(family) == self.oracle.outcome_sums(family)

    def set_aside(self) -> None:
        """Delete a run with its owner at work, and restore it."""
        row = self.oracle.run("s")
        version, epoch = row.version, row.epoch
        for one in (self.oracle, self.stores[1]):
            assert one.delete({"s": version}, "op", 1)
        self.compare()
        self.verify()
        for store in self.stores:
            with pytest.raises(OwnershipLost):  # also if it remembers the head
                store.append(Append("s", epoch, [new_event(e.StepRan("late#1", "late", 1), 1)]))
        self.stores[1].rebuild()
        for one in (self.oracle, self.stores[1]):
            assert one.restore(["s"], "op", 1)

    def verify(self) -> None:
        assert list(self.stores[1].verify()) == list(self.oracle.verify()) == []


def _decision(command: c.Command, at: int) -> Callable[[Sequence[Recorded]], Decision]:
    def decide_now(recorded: Sequence[Recorded]) -> Decision:
        state = fold(recorded)
        events = decide(state, fitting(state, command))
        epochs = [event.epoch for event in events if isinstance(event, e.FENCING)]
        return Decision("run", [new_event(event, at) for event in events], epochs[0] if epochs else None)

    return decide_now


def _counted(stream: str, at: int) -> Callable[[Sequence[Recorded]], Decision]:
    """Record how many events the companion saw: on a budget with one of its events, on a run with one that
    says nothing of its state."""

    def decide_now(recorded: Sequence[Recorded]) -> Decision:
        if stream == BROKEN:
            raise LookupError(stream)
        if stream in BESIDE:
            return Decision("budget", [new_event(_booked(at, len(recorded)), at)])
        counted = e.OutputCaptured("a#1", 1, "stdout", str(len(recorded)))
        return Decision("run", [new_event(counted, at)])

    return decide_now


def _booked(at: int, seen: int) -> e.Event:
    """One of the events of a budget, with what the companion saw in it. Few ids: reservations are taken anew,
    ended twice, and ended without having been made."""
    turn, kind = divmod(at, 6)
    id, amounts = f"{turn % 2}", Amounts(f"0.{at}", seen, f"{at}.5", 1)
    every = (
        b.BudgetReserved(id, RUNS[turn % 2], "a#1", at, amounts, at % 3, "ann", at % 4),
        b.BudgetSettled(id, amounts, unknown=turn % 3 == 0),
        b.BudgetSet(amounts, ("", "b")[turn % 2], "ann"),
        b.BudgetReserved(id, RUNS[turn % 2], "a#2", 1, Amounts(tokens=seen)),
        b.BudgetSettled(id, Amounts()),
        b.BudgetReleased(id),
    )
    return every[kind]


def _outcome(submission: Append | Command):
    if submission.error:
        return type(submission.error)
    if isinstance(submission, Append):
        return submission.version if submission.events else ""
    return list(submission.versions)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_sqlite_and_the_oracle_agree(steps):
    """Random commands, alone and in batches, of owners and of others, hot and plain, stale and good,
    through two stores on the same files, with rebuilds, reopenings and deletions between: the same outcomes,
    and the same rows, events, feeds, blobs, budgets and outcomes after each."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as home:
        twins = Twins(Path(home))
        try:
            for step in steps:
                if step == "rebuild":
                    twins.stores[0].rebuild()
                elif step == "reopen":
                    twins.stores[1].close()
                    twins.stores[1] = SqliteStore(Path(home))
                elif step == "aside":
                    twins.set_aside()
                elif step == "verify":
                    twins.verify()
                else:
                    twins.submit(step)
                twins.compare()
            twins.verify()
        finally:
            twins.close()
