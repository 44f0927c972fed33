"""Claiming tasks: one holder at a time, however many ask, and none that is dead.

Whether a claim's holder lives is looked at before the command; inside the transaction the claim must be the
one that was looked at. The blockers of the task are read in the same transaction: a task that needs
something open is not claimed, even if that was opened a moment ago.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from holdfast.clock import Clock
from holdfast.errors import BadInput, NotFound, Refused, StoreCorrupt, TaskHeld, TaskNotFound
from holdfast.kernel import task as tasks
from holdfast.kernel import task_rules
from holdfast.kernel.author import Author
from holdfast.kernel.state import ENDED
from holdfast.kernel.task import ClaimState, Holder, TaskState
from holdfast.process_identity import boot_id, started_ticks
from holdfast.store.port import NO_EVENTS, Decision, Recorded, Source, Store, new_event
from holdfast.store.tracker_port import TaskFilter, TaskRow
from holdfast.tracker.blockers import blockers, open_of, sources
from holdfast.tracker.sessions import NewSession, new_session
from holdfast.tracker.tracker import Tracker

LEASE_S = 3600.0
_LOOKED_AT = 16
"""How many ready tasks are tried before the list is read again: others take the first ones meanwhile."""
_FRUITLESS = 20
"""How many times in a row the same tasks may be ready and not claimable: others may claim and release them
between a look and a claim."""


def is_live(tracker: Tracker, claim: ClaimState) -> bool:
    """Whether a claim still holds: `lives`."""
    return lives(tracker.store, tracker.clock, claim)


def lives(store: Store, clock: Clock, claim: ClaimState) -> bool:
    """Whether a claim still holds. That of a run does until the run has ended or is deleted; any other one,
    and that of a run that is not in the log yet, until its lease is over, and if it names a process, only
    while that lives."""
    if claim.run:
        run = store.run(claim.run)
        if run is not None:
            return run.status not in ENDED
        if store.deleted(claim.run) is not None:
            return False
    if claim.until <= clock.now_us():
        return False
    holder = claim.holder
    if holder is None:
        return True
    return holder.boot == boot_id() and started_ticks(holder.pid) == holder.started


def ready(
    tracker: Tracker, limit: int | None = None, label: str | None = None, assignee: str | None = None
) -> list[TaskRow]:
    """Tasks that can be claimed now, the most urgent first: pending ones, and those whose claim is dead. With
    `label`, those that have it; with `assignee`, those for them or for no one."""
    found = tracker.store.ready_tasks(limit, label, assignee)
    dead = [
        row
        for row in _dead(tracker)
        if (label is None or label in row.fields.labels)
        and (assignee is None or row.fields.assignee in ("", assignee))
    ]
    if dead:
        found = sorted([*dead, *found], key=lambda row: (row.fields.priority, row.created_at))
    return found[:limit]


def count_ready(tracker: Tracker) -> int:
    """How many tasks can be claimed now."""
    return tracker.store.count_ready_tasks() + len(_dead(tracker))


def lapsed(tracker: Tracker) -> set[str]:
    """The ids of tasks in progress whose claim is dead: they can be claimed."""
    return {row.id for row in _dead(tracker)}


def _dead(tracker: Tracker) -> list[TaskRow]:
    """Tasks whose claim is dead."""
    return [row for row in tracker.store.claimed_tasks() if _is_free(tracker, row)]


def _is_free(tracker: Tracker, row: TaskRow) -> bool:
    claim = row.fields.claim
    return claim is None or not is_live(tracker, claim)


def claim_next(
    tracker: Tracker,
    *,
    lease_s: float = LEASE_S,
    pid: int | None = None,
    label: str | None = None,
    assignee: str | None = None,
) -> tuple[str, TaskState] | None:
    """Claim the most urgent task that is ready, with the `label` and for the `assignee` or no one, if these
    are given; None if there is none.
    A step that runs again after a crash gets the task that it had claimed."""
    lease_of(lease_s)
    author = tracker.author()
    for row in tracker.store.claimed_tasks(workable=False) if author.run else ():
        if row.fields.claim is not None and row.fields.claim.run == author.run:
            state = tracker.load(row.id)
            if author.is_step_of(state.moved):
                return row.id, state
    before: list[str] = []
    rounds = 0
    while True:
        found = ready(tracker, _LOOKED_AT, label, assignee)
        ids = [row.id for row in found]
        rounds = rounds + 1 if ids == before else 0
        if rounds > _FRUITLESS:
            raise StoreCorrupt(
                f"task {ids[0]} is listed as ready and cannot be claimed: the tables do not match the log; "
                "`holdfast repair --rebuild` makes them again"
            )
        before = ids
        for row in found:
            try:
                return row.id, claim(tracker, row.id, lease_s=lease_s, pid=pid, shared=False)
            except (TaskHeld, Refused, NotFound):
                continue  # another process was faster
        if not found:
            return None


def claim(
    tracker: Tracker,
    task: str,
    *,
    lease_s: float = LEASE_S,
    pid: int | None = None,
    run: str = "",
    shared: bool = True,
    with_session: bool = False,
) -> TaskState:
    """Claim one task: for the author until the lease ends, for a process until its death, or for a run until
    its end. A run that has the task gets its claim again, without `shared` only from the step that made it:
    of the workers of a run, one gets the task. `with_session` begins a session of the author in the commit of
    the claim, if none is open. Raises `TaskNotFound`, `TaskHeld`, and `Refused` if it is
    done, blocked, or needs what is open."""
    holder = None if pid is None else _holder(pid)
    lease_us = lease_of(lease_s)
    author = tracker.author()
    if not run and holder is None:
        run = author.run  # what a run claims, it has until it ends
    begun = new_session(tracker) if with_session and not author.session else None
    if begun is not None:
        author = msgspec.structs.replace(author, session=begun.id)
    while True:
        state = tracker.load(task)
        held = state.fields.claim
        free = held.number if held is not None and not is_live(tracker, held) else 0
        version, needed = blockers(tracker, task)
        made = _Claiming(tracker, author, task, needed, free, lease_us, holder, run, shared, begun)
        whole = [Source(tasks.stream_of(task)), *sources(version, needed)]
        tracker.store.command_all(whole if begun is None else [*whole, begun.source], made.decide)
        if made.after is not None:
            return made.after


@dataclass(slots=True)
class _Claiming:
    """One attempt at a claim; `after` stays None if links were added since they were read."""

    _tracker: Tracker
    _author: Author
    _task: str
    _needed: Sequence[str]
    _free: int
    _lease_us: int
    _holder: Holder | None
    _run: str
    _shared: bool
    _session: NewSession | None = None
    after: TaskState | None = None

    def decide(self, recorded: Sequence[Sequence[Recorded]]) -> list[Decision]:
        own, newer, *others = recorded[: 2 + len(self._needed)]
        nothing = [NO_EVENTS] * len(recorded)
        if newer:
            return nothing
        state = tasks.fold(own)
        if state is None:
            raise TaskNotFound(self._task)
        now = self._tracker.clock.now_us()
        until = now + self._lease_us
        author = self._author
        held = state.fields.claim
        is_own = held is not None and self._run and held.run == self._run
        if is_own and (self._shared or author.is_step_of(state.moved)):
            self.after = state  # the run has it; or its step runs again after a crash
            return nothing
        if state.fields.status in tasks.ENDED and author.is_step_of(state.moved):
            self.after = state  # the step has claimed and ended it, and runs again
            return nothing
        event = task_rules.claim(
            self._task,
            state,
            author,
            now=now,
            until=until,
            run=self._run,
            holder=self._holder,
            free=self._free,
        )
        for one in open_of(self._needed, others):
            raise Refused(
                f"task {self._task[:8]} needs {one}; complete that first, or "
                f"`holdfast task unlink {self._task[:8]} {one.id[:8]}`"
            )
        self.after = tasks.evolve(state, event, state.version + 1, now)
        claimed = [Decision(tasks.KIND, [new_event(event, now)]), *nothing[1:]]
        if self._session is not None:
            claimed[-1] = self._session.decide(recorded[-1], now)
        return claimed


def held_by_process(tracker: Tracker, claim: ClaimState) -> int:
    """The pid of another process that lives and holds a claim; 0 if none does."""
    holder = claim.holder
    if claim.run or holder is None or holder.pid == os.getpid() or not is_live(tracker, claim):
        return 0
    return holder.pid


def to_resume(tracker: Tracker) -> str:
    """The task that the author claimed last, in the session of this process or else in any, and that no other
    process holds. Raises `NotFound`, which names the tasks that others have in progress, and `TaskHeld` if
    other processes hold all tasks of the author."""
    author = tracker.actor()
    rows = tracker.store.tasks(TaskFilter(status=("in_progress",)))
    held = [(row, row.fields.claim) for row in rows if row.fields.claim and not row.fields.claim.run]
    own = [(row, claim) for row, claim in held if claim.actor == author.by]
    if not own:
        raise _none_in_progress(held)
    free = [(row, claim) for row, claim in own if not held_by_process(tracker, claim)]
    here = [(row, claim) for row, claim in free if author.session and row.session == author.session]
    row, claim = max(here or free or own, key=lambda one: one[1].at)
    if not free:
        raise task_rules.held_by(row.id, claim, held_by_process(tracker, claim))
    return row.id


def _none_in_progress(others: Sequence[tuple[TaskRow, ClaimState]]) -> NotFound:
    if not others:
        return NotFound("no task is in progress; `holdfast task ready` lists those that can be started")
    named = ", ".join(
        f"{row.id[:8]} ({row.fields.name}) of {claim.actor or 'unknown'}" for row, claim in others[:_NAMED]
    )
    more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
    return NotFound(
        f"no task of yours is in progress; in progress are {named}{more}; `holdfast task ready` lists those "
        "that can be started"
    )


_NAMED = 5


def lease_of(seconds: float) -> int:
    """A lease in microseconds. Raises `BadInput`."""
    if not isinstance(seconds, (int, float)):
        raise BadInput(f"lease={seconds!r} is no number of seconds; an hour is 3600")
    if not math.isfinite(seconds) or seconds <= 0:
        raise BadInput(f"a lease of {seconds!r} seconds is none; give a number more than 0")
    return min(int(seconds * 1e6), _LONGEST_US)


_LONGEST_US = 100 * 365 * 86_400 * 1_000_000


_UNTIL_RECORDED_S = 60.0
"""How long a claim for a run holds without the run: its first event follows at once."""


def claim_for_run(tracker: Tracker, task: str, run: str) -> None:
    """Claim a task for a run that is about to be started, unless the run has it, or has moved it, already.
    If the process dies before the run is in the log, the claim is free."""
    state = tracker.load(task)
    if state.moved.run == run and state.fields.claim is None:
        return  # the run has ended: starting it again gives its outcome
    claim(tracker, task, lease_s=_UNTIL_RECORDED_S, pid=os.getpid(), run=run)


def _holder(pid: int) -> Holder:
    started = started_ticks(pid)
    if started is None:
        raise BadInput(f"there is no process {pid} that could hold a claim")
    return Holder(pid, started, boot_id())
