"""Taking a run: create it or continue it, as its only owner.

Everything is decided on the state that the write transaction itself reads, so of two processes that
start one id at the same moment, one gets the run and the other gets `RunHeld`. Of two threads of
one process, one gets the run and the other is attached to it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.engine.outside import steering
from holdfast.engine.outside.unknown_run import gone, missing
from holdfast.engine.ownership import owners
from holdfast.engine.ownership.dead_owner import command_locks, last_seen_us, locks_up_to, wait_for_commands
from holdfast.engine.processes.tree_lock import stop_tree
from holdfast.errors import (
    HoldfastError,
    OwnershipLost,
    Refused,
    RunArchived,
    RunExists,
    RunHeld,
    RunPaused,
    StoreError,
    StoreInDoubt,
)
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.decide import decide
from holdfast.kernel.evolve import evolve, fold
from holdfast.kernel.state import RunState
from holdfast.store.port import NO_EVENTS, Append, Decision, NewEvent, Recorded, new_event

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.engine.runs.run import Run


class Claimed(NamedTuple):
    """A run that this process owns, with two exceptions in which there is nothing to execute: the run has
    ended (a cancel that its last owner died before may end it in this claim), or another thread of this
    process executes it; then `attached` is its handle."""

    state: RunState
    attached: Run[Any] | None = None
    forced: bool = False
    """The claim may take the run, and so its children, from a live owner."""
    was_live: bool = False
    """It did: until a moment ago a process worked in it."""
    keeps: bool = False
    """Earlier attempts' changes to the files are kept: the next one begins from the files as they are."""
    workflow: Any = None
    """The run's workflow, if the claim had to find it."""


def claim(
    engine: Engine,
    run_id: str,
    *,
    create: c.CreateRun | None = None,
    blobs: Sequence[tuple[str, bytes]] = (),
    reopen: bool = False,
    force: bool = False,
    durable: bool = True,
    known: RunState | None = None,
) -> Claimed:
    """Own the run `run_id`. `create` makes it if it is not there; `reopen` lets a failed one continue;
    `force` takes it from a live owner. `known` is the run as the caller has read it: only what was recorded
    since is read, and `known` changes. It is this thread's turn until the run is live."""
    if reopen:
        _look_at_owner(engine, run_id, force)
    owner = engine.owner_id  # born now if this is the first claim: not inside the transaction
    live = engine.claim_locks.take(run_id, lambda: engine.live.get(run_id))
    if live is not None:
        if create is not None:
            decide(live[0].state, create)  # RunExists, if these are other arguments
        return Claimed(live[0].state, live[1])
    try:
        claimed = _claim(engine, owner, run_id, _Wanted(create, blobs, reopen, force), durable, known)
    except Exception as error:
        if isinstance(error, StoreInDoubt):
            release_quietly(engine, run_id)
        engine.claim_locks.leave(run_id)
        raise
    if claimed.state.ended:
        engine.claim_locks.leave(run_id)
    return claimed


def check_creation(engine: Engine, create: c.CreateRun) -> None:
    """Raise `RunExists` or `RunArchived` if the run cannot be created, nor continued with these arguments and
    for this task, as the store is now."""
    state = now(engine, create.run_id)
    if state is None:
        error = gone(engine.store, create.run_id)
        if error is not None:
            raise error
        return
    decide(state, create)
    if create.task and create.task != state.task:
        raise RunExists(create.run_id, "another task")


def now(engine: Engine, run_id: str, known: RunState | None = None) -> RunState | None:
    """The state of the run, None if there is none; what came after `known` is folded into that."""
    return fold(engine.store.history(run_id, after=0 if known is None else known.version), known)


# A run whose id was minted a moment ago: no other process knows it, and nothing must be read.

ID_TAKEN = (OwnershipLost, RunArchived)
"""Errors of the store for the first append of a run whose id is or was taken."""


def claim_fresh(
    engine: Engine, run: Run[Any], create: c.CreateRun, blobs: Sequence[tuple[str, bytes]]
) -> Claimed:
    """If another run has the id, the run gets another one, and so does its handle."""
    while True:
        claimed, append = begin(engine, create, blobs)
        engine.claim_locks.take(create.run_id, lambda: None)
        try:
            engine.store.append(append)
        except Exception as error:
            _leave_fresh(engine, claimed, create.run_id, error)
            if not isinstance(error, ID_TAKEN):
                raise
            create = _with_another_id(engine, run, create)
        else:
            engine.report(append)
            return claimed


async def claim_fresh_soon(
    engine: Engine, run: Run[Any], create: c.CreateRun, blobs: Sequence[tuple[str, bytes]]
) -> Claimed:
    """The same in an event loop, and without a thread: fifty runs that start at once share a commit.
    A cancel that comes meanwhile gives the run back."""
    from holdfast.engine.execution.task_driver import submit

    while True:
        claimed, append = begin(engine, create, blobs)
        engine.claim_locks.take(create.run_id, lambda: None)
        cancelled = await submit(engine, engine.mailbox(), append)
        if append.error is None:
            break
        _leave_fresh(engine, claimed, create.run_id, append.error)
        if not isinstance(append.error, ID_TAKEN):
            raise append.error
        if cancelled is not None:
            raise cancelled
        create = _with_another_id(engine, run, create)
    engine.report(append)
    if cancelled is not None:
        give_back(engine, create.run_id, claimed)
        raise cancelled
    return claimed


def _with_another_id(engine: Engine, run: Run[Any], create: c.CreateRun) -> c.CreateRun:
    run.id = engine.mint_id()
    return msgspec.structs.replace(create, run_id=run.id)


def _leave_fresh(engine: Engine, claimed: Claimed, run_id: str, error: BaseException) -> None:
    """The claim failed; where it is not known whether it did, the run may be this process's in the log."""
    if isinstance(error, StoreInDoubt):
        engine.unreleased.add(run_id, claimed.state.epoch)
    engine.claim_locks.leave(run_id)


def begin(engine: Engine, create: c.CreateRun, blobs: Sequence[tuple[str, bytes]]) -> tuple[Claimed, Append]:
    """The run as it will be when the append is written."""
    at = engine.clock.now_us()
    state: RunState | None = None
    events: list[NewEvent] = []
    for command in (create, c.ClaimRun(create.run_id, engine.owner_id)):
        for event in decide(state, command):
            state = evolve(state, event, len(events) + 1, at)
            events.append(new_event(event, at))
    assert state is not None
    append = Append(create.run_id, state.epoch, events, blobs=blobs, begins="run")
    return Claimed(state), append


class _Wanted(NamedTuple):
    """How a run is to be claimed, as for `claim`."""

    create: c.CreateRun | None
    blobs: Sequence[tuple[str, bytes]]
    reopen: bool
    force: bool


def _claim(
    engine: Engine, owner: str, run_id: str, wanted: _Wanted, durable: bool, known: RunState | None
) -> Claimed:
    create, _, reopen, force = wanted
    while True:
        after = 0 if known is None else known.version
        state, known = fold(engine.store.history(run_id, after=after), known), None
        if state is None and create is None:
            raise missing(engine.store, run_id)
        dead = _make_sure_dead(engine, run_id, state, force)
        if wanted.create is not None and state is not None and not wanted.create.parent:
            _pause_as_asked(engine, run_id, state)
        if state is not None and state.cancel is not None and not state.ended:
            # Its last owner did not come to it. Children first: if this process dies too, the next does it.
            steering.cancel_children(engine, run_id, state.cancel.reason, state.cancel.by)
        ended_at = 0
        if state is not None and not force and (reopen or not state.ended):
            ended_at = wait_for_commands(command_locks(engine.home, run_id), run_id, state.epoch)
        if state is not None and state.files and settle_pending(engine, run_id):
            continue
        alive = force and dead != "" and owners.is_alive(engine.home, dead)
        seen_at = 0
        if state is not None and state.files and not alive:
            left = engine.unreleased.find(run_id, state.epoch)
            seen_at = last_seen_us(engine, dead, ended_at) if left is None else max(ended_at, left.at)
        attempt = _Attempt(engine, owner, run_id, state, dead, wanted, seen_at, alive)
        after = state.version if state is not None else 0
        version = engine.store.command(run_id, attempt.decide, after=after, durable=durable)
        if attempt.claimed is not None:
            attempt.report(version)
            if dead:
                owners.bury(engine.home, engine.store, dead)
            if force and state is not None and not attempt.claimed.state.ended:
                _end_commands(engine, owner, run_id, attempt.claimed.state.epoch)
            return attempt.claimed


def _pause_as_asked(engine: Engine, run_id: str, state: RunState) -> None:
    """Pause a run whose owner died before it came to do so: starting its id again does not undo that."""
    asked = state.pause
    if asked is not None and not state.ended:
        steering.pause(engine, run_id, asked.reason, asked.by, 0.0)


def _refuse_paused(run_id: str, state: RunState) -> None:
    """A pause holds until a person resumes the run. A rewind or a fork leaves it paused, too, and then its
    program is started again to continue."""
    if state.paused is not None:
        raise RunPaused(run_id, state.paused.reason, state.paused.by)


def _end_commands(engine: Engine, owner: str, run_id: str, epoch: int) -> None:
    """After a claim by force: end what the last owner's commands still do.

    Only now: that owner, if it is alive, can no longer record as a failure that its command was
    ended. A stopped one gives no orders itself, and its command would continue.
    """
    locks = command_locks(engine.home, run_id)
    for lock in locks_up_to(locks, epoch - 1):
        stop_tree(lock)
    try:
        wait_for_commands(locks, run_id, epoch - 1, "last")
    except RunHeld:
        release(engine, owner, run_id)
        raise


def give_back(engine: Engine, run_id: str, claimed: Claimed) -> None:
    """No caller waits for this claim any more: release the run, without waiting for the disk. The release is
    queued before anybody else can claim. What becomes of it shows later."""
    if claimed.attached is not None or claimed.state.ended:
        return
    released = decide(claimed.state, c.ReleaseRun(run_id, engine.owner_id))
    events = [new_event(event, engine.clock.now_us()) for event in released]
    epoch = claimed.state.epoch

    def done(append: Append) -> None:
        if append.error is not None:
            engine.unreleased.add(run_id, epoch)
        engine.note(append)

    engine.store.append_soon(Append(run_id, epoch, events), done)
    engine.claim_locks.leave(run_id)


def release(engine: Engine, owner: str, run_id: str, epoch: int | None = None) -> None:
    """Give back a run that was claimed and is not executed; nothing happens if it has another owner, or was
    claimed anew since this epoch."""

    def decide_now(recorded: Sequence[Recorded]) -> Decision:
        state = fold(recorded)
        if state is None or epoch not in (None, state.epoch):
            return NO_EVENTS
        events = decide(state, c.ReleaseRun(run_id, owner))
        at = engine.clock.now_us()
        return Decision("run", [new_event(event, at) for event in events])

    engine.report_up_to(run_id, engine.store.command(run_id, decide_now))


def release_quietly(engine: Engine, run_id: str) -> bool:
    """The same for a run that may be this owner's or not. The caller has its turn, and an error to raise.
    False if it could not be done: then it is done later."""
    try:
        release(engine, engine.owner_id, run_id)
        return True
    except HoldfastError:
        try:
            row = engine.store.run(run_id)
        except HoldfastError:
            return False
        if row is not None and engine.owns(row.owner):
            engine.unreleased.add(run_id, row.epoch)
        return False


def release_left(engine: Engine) -> None:
    """Release what could not be released before, or do what its owner was asked to meanwhile. What the store
    does not take now stays for the next time."""
    for run_id, left in engine.unreleased.all():
        try:
            recorded = list(engine.store.history(run_id))
            state = fold(recorded)
            if state is not None and state.epoch != left.epoch:
                _report_taken(engine, run_id, recorded, left.epoch)
            elif state is not None and engine.owns(state.owner):
                _release_left(engine, run_id, state)
        except StoreError:
            return
        except HoldfastError:
            continue  # a command of it is still being ended
        engine.unreleased.forget(run_id, left)


def _report_taken(engine: Engine, run_id: str, recorded: Sequence[Recorded], epoch: int) -> None:
    """Another owner has taken the run from this epoch: the last event of it that the callback gets."""
    for event, version, _ in recorded:
        if type(event) is e.RunClaimed and event.epoch > epoch:
            engine.report_up_to(run_id, version)
            return


def _release_left(engine: Engine, run_id: str, state: RunState) -> None:
    try:
        if state.cancel is not None:
            steering.cancel(engine, run_id, state.cancel.reason, state.cancel.by, 0.0)
        elif state.pause is not None:
            steering.pause(engine, run_id, state.pause.reason, state.pause.by, 0.0)
    except Refused:
        pass  # it has ended meanwhile
    release(engine, state.owner, run_id, state.epoch)


def _look_at_owner(engine: Engine, run_id: str, force: bool) -> None:
    """Before this process writes anything: an owner that was stopped in the middle of a write keeps
    all others from writing. Without force that raises `RunHeld` at once; with it, that write ends first."""
    row = engine.store.run(run_id)
    if row is None or not row.owner or engine.owns(row.owner):
        return
    if not owners.is_alive(engine.home, row.owner):
        return
    if not force:
        raise owners.held_by(engine.store, run_id, row.owner)
    owner = engine.store.owner(row.owner)
    if owner is not None and (owner.host, owner.boot) == (os.uname().nodename, owners.boot_id()):
        engine.store.release_stopped_writer(owner.pid)


def _make_sure_dead(engine: Engine, run_id: str, state: RunState | None, force: bool) -> str:
    """The id of the dead owner whose run this is. Raises `RunHeld` if it is alive, unless by force."""
    if state is None or not state.owner or state.ended or state.owner == engine.owner_id:
        return ""
    if not force and owners.is_alive(engine.home, state.owner):
        raise owners.held_by(engine.store, run_id, state.owner)
    return state.owner


@dataclass(slots=True)
class _Attempt:
    """One try to claim, decided inside the write transaction. `claimed` stays None if another owner
    came in between: then its liveness must be looked at first."""

    _engine: Engine
    _owner: str
    _run_id: str
    _state: RunState | None
    _dead: str
    _wanted: _Wanted
    _seen_at: int
    _alive: bool
    claimed: Claimed | None = None
    _events: list[NewEvent] = field(default_factory=list)

    def decide(self, recorded: Sequence[Recorded]) -> Decision:
        state = fold(recorded, self._state)
        if state is not None and state.owner not in ("", self._dead, self._owner) and not state.ended:
            return NO_EVENTS
        at = self._engine.clock.now_us()
        events = self._events = []

        def do(command: c.Command) -> None:
            nonlocal state
            for event in decide(state, command):
                state = evolve(state, event, (state.version if state else 0) + 1, at)
                events.append(new_event(event, at))

        created = state is None
        if self._wanted.create is not None:
            do(self._wanted.create)
            if state is not None and state.status == "paused" and not self._wanted.create.parent:
                _refuse_paused(self._run_id, state)
        if self._wanted.reopen:
            do(c.ReopenRun(self._run_id))
        assert state is not None
        if state.owner == self._owner:  # it could not be released: each execution has an epoch of its own
            do(c.ReleaseRun(self._run_id, self._owner))
        if not state.ended:
            forced = self._wanted.force and state.owner != ""
            do(c.ClaimRun(self._run_id, self._owner, self._dead, forced, self._seen_at))
        self.claimed = Claimed(state, forced=self._wanted.force, was_live=self._alive)
        return Decision("run", events, state.epoch, self._wanted.blobs if created else ())

    def report(self, version: int) -> None:
        """Hand what was written to the program's callback."""
        written = Append(self._run_id, 0, self._events)
        written.version = version
        self._engine.report(written)


def settle_pending(engine: Engine, run_id: str) -> bool:
    """Finish an operation on the run that was cut off, so that its files are restored before it continues.
    Returns True if one was finished: the run has changed then. Raises `Refused` if another process performs
    it."""
    for row in engine.store.operations(run=run_id, limit=1):
        if row.status == "begun":
            if engine.finish_operation(row.id):
                return True
            raise Refused(
                f"{row.kind} {row.id} of run {run_id} is under way in another process; try again when that "
                "has ended"
            )
    return False
