"""A run that this process executes: its state, and how its events are written to the store.

Invariant: the state in memory is never behind what was acknowledged, and callers see only what was
acknowledged. Only the owner's process has an execution. When another owner takes the run, the store refuses
the epoch of this one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from holdfast.engine.execution.control import Control
from holdfast.engine.execution.delivery import Delivery, Turn
from holdfast.engine.execution.inbox import MESSAGES, Inbox
from holdfast.engine.execution.parking import Parked, Waiting
from holdfast.engine.execution.scope import InsideStep, current
from holdfast.engine.execution.unawaited import Unawaited
from holdfast.errors import (
    AgentNotFound,
    BadInput,
    DivergenceError,
    HoldfastError,
    NeedsAttention,
    NotTrusted,
    OwnershipLost,
    RunCancelled,
    RunInterrupted,
    RunPaused,
    SettingsError,
    StoreCorrupt,
    StoreError,
)
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.decide import decide
from holdfast.kernel.evolve import evolve
from holdfast.kernel.identity import Counters, scope_of
from holdfast.kernel.state import GATES, PARKED, RunState, StepState
from holdfast.store.port import Append, Decision, Fate, NewEvent, Recorded, new_event

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.engine.execution.crew import Crew
    from holdfast.engine.execution.mailbox import Waiter
    from holdfast.engine.execution.task_delivery import TaskDelivery
    from holdfast.engine.execution.thread_delivery import ThreadDelivery


_STEPS = ("step", "child", "command")
_DONE = (c.RunStep, c.CompleteStep)
_INTERRUPTS = (KeyboardInterrupt, SystemExit, GeneratorExit)
_LONGEST_ERROR = 300
"""Characters of an error of the code that the reason of a divergence names."""


class Birth:
    """The first events of a run that is not known outside before its result (`run()` without an id). Like the
    beginning of a step, they are written with the run's first append, or alone if that takes long. This saves
    one commit per run."""

    __slots__ = ("append", "execution", "since", "taken")

    in_root = False

    def __init__(self, execution: Execution, append: Append) -> None:
        self.execution = execution
        self.append = append
        self.since = execution.engine.clock.monotonic()
        self.taken = False

    def flush(self, done: Callable[[Append], None]) -> None:
        """Write them alone, without waiting for the disk, if no append has taken them."""
        run = self.execution
        with run.taking:
            if not self.taken:
                run.engine.store.append_soon(run.make_append((), durable=False), done)


class OutcomeAppend(Append):
    """An append that records an outcome which the code waits for."""

    __slots__ = ("turn",)

    turn: Turn


class Execution:
    """Thread-safe. One per run and process."""

    plays_back = False
    """Only the history is executed: no call does anything new."""

    def __init__(
        self,
        engine: Engine,
        run_id: str,
        state: RunState,
        *,
        is_async: bool,
        birth: Append | None = None,
        forced: bool = False,
        was_live: bool = False,
        keeps_files: bool = False,
    ) -> None:
        self.engine = engine
        self.id = run_id
        self.state = state
        state.code = engine.location.now(state.code)
        self.epoch = state.epoch
        self.claimed_at = state.version
        """Older messages were for earlier owners of the run."""
        self.is_async = is_async
        self.thread = threading.get_ident()
        around = current.get()
        self.around = around if isinstance(around, InsideStep) else None
        """The step whose body runs this run, if any: they wait for each other."""
        self.forced = forced
        """Taken from a live owner by force: what it left half done is taken the same way."""
        self.was_live = was_live
        """Taken from a live owner, which worked in it until a moment ago."""
        self.keeps_until = state.version if keeps_files else 0
        """Attempts of `workspace` steps up to this version of the log are not rolled back."""
        self.mailbox = engine.mailbox() if is_async else None
        self.control: Control | None = None
        self.stopping = threading.Event()
        """Set with `control`: it wakes the waiters inside this run."""
        self.on_stop: list[Callable[[], None]] = []
        self.left_behind: list[Crew] = []
        """Threads of `parallel` that a second Ctrl-C did not wait for. Until they have ended, this process
        keeps the run: a process that resumed it would run the same steps beside them."""
        self.left_by: BaseException | None = None
        self.unordered: list[str] = []
        """Branches of `asyncio.as_completed`, in a run that an older holdfast has begun."""
        self._resumed = bool(state.steps)
        self.inbox = Inbox(self)
        self.keyed: dict[str, object] = {}
        """Calls under way whose key the user chose: identity → call."""
        self.patches: dict[str, bool] = {}
        """The answers of `patched` in this execution."""
        self.under_way = 0
        """Calls of an async run that are between their beginning and their record."""
        self.unawaited = Unawaited()
        self.steps_begun = 0
        self.task_number = 0
        """The number of the last task that the code of an async run has created."""
        self.begun = object()
        """Another one with each body that begins and may change files."""
        self.looked_after: object = self.begun
        """The one whose body, and all before it, had ended when the files were last looked at; None if some
        had not."""
        self.looking = threading.Lock()
        """Held from a look at the files until it is recorded. Otherwise a concurrent step of this run would
        record the change as an edit by another program."""
        self.introduced = False
        """Whether the follower has passed on what was written before it was live."""
        self.over = False
        """The function has ended: no step begins any more, and running ones finish."""
        self.all_ended: Waiter | None = None
        self.tasks_delivery: TaskDelivery | None = None
        self.threads_delivery: ThreadDelivery | None = None
        """The delivery of a run is one of these."""
        self.delivery: Delivery = self._delivery()
        self._old_keys: dict[str, list[str]] | None = None
        self._keys_made: set[str] = set()
        """Keys of the user's choice under which this execution has made a call."""
        self.lock = threading.Lock()
        """Guards the state."""
        self._fate = Fate()
        self.taking = threading.Lock()
        """Held while an intent is taken, and until it is queued if it is written alone, so that the outcome
        of the step is always queued after it."""
        self._riding: list[NewEvent] = []
        """Recorded values and ended sleeps: they wait for the next append of this run."""
        self._last_fired: e.TimerFired | None = None
        """The last of `_riding`, if it is that."""
        self.birth = None if birth is None else Birth(self, birth)
        self._waiting: Waiting | None = None
        self.checkpoint_every = engine.options.checkpoint_every
        self._checkpoint_taken = ""
        self._steps_done = 0 if not self.checkpoint_every else _count_done(state)

    @property
    def waiting(self) -> Waiting:
        """The waits of this run's branches."""
        if self._waiting is None:
            with self.lock:
                if self._waiting is None:
                    self._waiting = Waiting(self)
        return self._waiting

    def _delivery(self) -> Delivery:
        if self.is_async:
            import asyncio

            from holdfast.engine.execution.task_delivery import TaskDelivery

            self.tasks_delivery = TaskDelivery(self, asyncio.get_running_loop())
            return self.tasks_delivery
        from holdfast.engine.execution.thread_delivery import ThreadDelivery

        self.threads_delivery = ThreadDelivery(self)
        return self.threads_delivery

    # From command to events

    def record(self, command: c.Command, at: int) -> list[NewEvent]:
        """Decide and evolve: what the caller must append now."""
        with self.lock:
            return [new_event(event, at) for event in self._record(command, at)]

    def _record(self, command: c.Command, at: int, *, sure: bool = True) -> Sequence[e.Event]:
        state = self.state
        events = decide(state, command)
        if not sure:
            self.inbox.doubt(events)
        for event in events:
            evolve(state, event, state.version, at)
        if self.checkpoint_every and type(command) in _DONE:
            self._steps_done += 1
        return events

    def note(self, command: c.Command, turn: Turn | None = None) -> None:
        """Record without an append: the events are written with the next append of the run. For an outcome,
        `turn` gets its place in the order here."""
        at = self.engine.clock.now_us()
        with self.lock:
            for event in self._record(command, at):
                self._ride(event, at)
            if turn is not None:
                self.delivery.place(turn)

    def _ride(self, event: e.Event, at: int) -> None:
        """Queue an event for the next append. Consecutive timers of a scope, as of code that polls, are one
        event."""
        before, self._last_fired = self._last_fired, None
        if type(event) is e.TimerFired:
            self._last_fired = event
            if before is not None and (before.scope, before.last + 1) == (event.scope, event.first):
                self._riding.pop()
                self._last_fired = event = msgspec.structs.replace(event, first=before.first)
        self._riding.append(new_event(event, at))

    def append_of(
        self,
        commands: Sequence[c.Command],
        *,
        before: Sequence[NewEvent] = (),
        durable: bool = True,
        blobs: Sequence[tuple[str, bytes]] = (),
        ends: str = "",
    ) -> Append:
        """An `Append` of the events of these commands, after the events `before`. The caller submits it."""
        at = self.engine.clock.now_us()
        events = [*before, *(event for command in commands for event in self.record(command, at))]
        return self.make_append(events, durable=durable, blobs=blobs, ends=ends)

    def make_append(
        self,
        events: Sequence[NewEvent],
        *,
        durable: bool = True,
        blobs: Sequence[tuple[str, bytes]] = (),
        ends: str = "",
        turn: Turn | None = None,
    ) -> Append:
        """An `Append` of these events, which the caller submits. `ends` is the call whose outcome it records,
        `turn` the turn that waits for it."""
        if ends and turn is None and (self.threads_delivery is None or self.threads_delivery.crews):
            turn = self.delivery.turn(ends)
        kind = Append if turn is None else OutcomeAppend
        companions = self.engine.companions if self.state.task else None
        also = () if companions is None else companions(self.id, self.state, events)
        append = kind(
            self.id,
            self.epoch,
            events,
            durable=durable,
            blobs=blobs,
            seal=self.seal,
            fate=self._fate,
            also=also,
        )
        if turn is not None:
            append.turn = turn  # type: ignore[attr-defined]
        return append

    def transact(
        self,
        make: Callable[[], Sequence[c.Command]],
        blobs: Sequence[tuple[str, bytes]] = (),
        *,
        obey: bool = False,
    ) -> None:
        """Execute the commands that `make` returns in a transaction of the store, after the inbox has read
        what others wrote before. So a gate and its decision cannot miss each other. Waits for the disk.

        Requests in the inbox are obeyed when they are on the disk; with `obey`, for a run whose code no
        longer runs, at once, so that `make` sees what stops the run."""
        store, inbox = self.engine.store, self.inbox
        written: list[NewEvent] = []
        doubts: set[str] = set()
        requests: list[e.Event] = []

        def decide_now(recorded: Sequence[Recorded]) -> Decision:
            requests[:] = inbox.take_in(recorded, sure=False)
            if obey:
                inbox.obey(requests)
            if any(map(inbox.is_taken, requests)):
                raise OwnershipLost(self.id)
            if self.control is not None and self.control.silent:
                raise self.control.error
            commands = make()
            at = self.engine.clock.now_us()  # not before the time that `make` used
            with self.lock:
                written[:] = [
                    new_event(event, at)
                    for command in commands
                    for event in self._record(command, at, sure=False)
                ]
            doubts.update(inbox.doubts())
            return Decision("run", written, None, blobs)

        try:
            if self._riding or self.birth is not None:
                riding = self.make_append(())  # goes first
                store.append(riding)
                self.engine.report(riding)
            after = self.state.version
            version = store.command(self.id, decide_now, after=after, types=MESSAGES, fate=self._fate)
        except Exception as error:
            raise self.lose(error) from None
        except BaseException as error:
            self.interrupted(error)
            raise
        inbox.settle(doubts)
        if not obey:
            inbox.obey(requests)
        append = Append(self.id, self.epoch, written)
        append.version = version
        self.engine.report(append)

    def release_parked(self, parked: Parked, saved: Sequence[c.Command] = ()) -> Control:
        """Release a parked run, as ready to continue if one of its waits has ended meanwhile. Returns the
        signal that stopped it: a pause that was requested meanwhile takes effect instead. A cancel is left to
        the caller; if the process dies before it, the next owner finds the request."""
        stopped: Control | None = None

        def release() -> Sequence[c.Command]:
            nonlocal stopped
            stopped = self.control
            now = self.engine.clock.now_us()
            steps = self.state.steps
            over = [_ending(step, now) for step in steps.values() if _is_due(step, now)]
            asked = () if stopped is None else stopped.commands
            others = [one for one in asked if not isinstance(one, c.CancelRun)]
            decided = any(steps[key].status != "waiting" for key in parked.gates)
            is_ready = decided or 0 < parked.until <= now or len(others) < len(asked)
            waits: e.Waits = "pending" if is_ready else parked.waits
            return (*saved, *over, *others, c.ReleaseRun(self.id, self.engine.owner_id, waits=waits))

        self.transact(release, obey=True)
        return stopped or parked

    def forget_lost(self) -> BaseException | None:
        """The error of a lost append, if there is one; clears it. Only a release may follow, because it
        depends on no earlier event."""
        error = self._fate.error
        if error is not None:
            self._fate = Fate()
            self._riding, self._last_fired = [], None
        return error

    def forget_birth(self) -> None:
        """Drop the first events of the run: an append has them now, or the run has ended unrecorded."""
        birth = self.birth
        if birth is not None:
            self.engine.flusher.unwatch(birth)
            birth.taken = True
            self.birth = None

    def seal(self, append: Append) -> None:
        """Put the noted events, and the first events of the run, before those of the append. Called under the
        queue's lock."""
        outcome = type(append) is OutcomeAppend
        if self._riding or outcome:
            with self.lock:
                riding, self._riding, self._last_fired = self._riding, [], None
                if outcome:
                    self.delivery.place(append.turn)  # type: ignore[attr-defined]
            append.events = (*riding, *append.events)
        if self.birth is not None:
            first = self.birth.append
            self.forget_birth()
            append.begins, append.events = first.begins, (*first.events, *append.events)
            append.blobs = (*first.blobs, *append.blobs)

    def due_checkpoint(self) -> str:
        """The key of the checkpoint that is due after so many steps, given out once; empty if none is."""
        with self.lock:
            number = self._steps_done // self.checkpoint_every
            key = f"auto@{number * self.checkpoint_every}"
            if not number or key == self._checkpoint_taken or key in self.state.steps:
                return ""
            self._checkpoint_taken = key
            return key

    # Values

    def value_of(self, step: StepState) -> Any:
        """The recorded value; one that cannot be read stops the run, whatever its code catches."""
        return self._read(f"the recorded result of {step.key}", step.result, step.blob, step.key)

    def arguments(self) -> Any:
        """The arguments of the run: (args, kwargs)."""
        return self._read("what it was started with", self.state.args, self.state.args_blob)

    def _read(self, what: str, inline: msgspec.Raw, blob: str, step: str = "") -> Any:
        """Read a value. If it is damaged, or its class is gone, the run needs attention. If the store cannot
        be read now, the run is released as it is."""
        try:
            return self.engine.load_value(inline, blob)
        except HoldfastError as error:
            if isinstance(error, StoreError) and not isinstance(error, StoreCorrupt):
                raise self.lose(error) from None
            reason = f"{what} cannot be read: {error}"
            attend = c.AttendRun(error.code, reason, step)
            raise self.stop(Control(NeedsAttention(self.id, reason), [attend])) from None

    # History

    def recall(
        self,
        key: str,
        name: str,
        ordinal: int,
        digest: str,
        kind: str = "step",
        older: Callable[[], Iterable[str]] = tuple,
        arguments: Callable[[], bytes] = bytes,
    ) -> StepState | None:
        """The record of this call, if there is one. A call that does not match it stops the run. `older`
        gives the other digests that it may have, `arguments` its arguments by name, as JSON."""
        if self.control is not None:
            raise self.control
        unwinding = sys.exception()
        if unwinding is not None and isinstance(unwinding, _INTERRUPTS) and not self._closes(unwinding):
            # A step in a `finally` that runs because of Ctrl-C would be recorded out of its place.
            raise self.interrupted(unwinding)
        if self.over:  # saves a call for each step
            self.refuse_after_end(key)
        past = self.state.steps.get(key)
        if past is None:
            if not ordinal:
                self._keys_made.add(key)
            if self._resumed and ordinal:
                scope = scope_of(key)
                other = self.state.order.get((scope, ordinal))
                if other is not None:
                    self.diverge(other, f"{key} ({name}) in its place", other)
            return None
        if past.kind != kind:
            self.diverge(f"{key} as a {past.kind}", f"{key} as a {kind}", key)
        if past.ordinal != ordinal:
            here = self.state.order.get((scope_of(key), ordinal))
            self.diverge(
                f"{here or 'nothing'} as call {ordinal} of its scope",
                f"{key}, recorded as call {past.ordinal}",
                key,
            )
        if digest and past.digest != digest and past.digest not in older():
            if key in self._keys_made:
                raise BadInput(
                    f"{key} is called again with other arguments: a key names one call in the whole run"
                )
            self._diverge_by_arguments(past, arguments())
        if not ordinal:
            self._keys_made.add(key)
        delivery = self.delivery
        if delivery.replaying:
            if self.unordered:
                self._refuse_unordered(past)
            delivery.visit(past)
        return past

    def _closes(self, unwinding: BaseException) -> bool:
        """Whether the code closes one of its own generators. A coroutine that Python destroys has no task."""
        if type(unwinding) is not GeneratorExit:
            return False
        if not self.is_async:
            return True
        import asyncio

        try:
            return asyncio.current_task() is not None
        except RuntimeError:  # no loop runs any more
            return False

    def _diverge_by_arguments(self, past: StepState, present: bytes) -> None:
        from holdfast.engine.execution.changed_arguments import describe

        history = self.engine.store.history(self.id)
        sides = describe(self.id, past, present, history, self.engine.redactor)
        self.diverge(sides.recorded, sides.called, past.key)

    def _refuse_unordered(self, past: StepState) -> None:
        """Older versions numbered the branches of `asyncio.as_completed` by chance: a result that its
        arguments do not distinguish may belong to another branch."""
        if past.version > self.state.loose:
            return
        branch = next((path for path in self.unordered if past.key.startswith(path)), "")
        family = branch.rpartition("[")[0]
        for other in self.state.steps.values() if branch else ():
            same = (other.name, other.digest) == (past.name, past.digest)
            if same and other.key.startswith(family) and not other.key.startswith(branch):
                self.diverge(
                    f"{past.key} and {other.key}, by an older holdfast that numbered them by chance",
                    past.key,
                    past.key,
                )

    def refuse_after_end(self, key: str) -> None:
        """Stop a task that calls this, or still waits for it, after the function of the run has ended."""
        if self.over:
            why = f"its function has ended, and {key} is called by a task it left behind"
            raise Control(RunInterrupted(self.id, why), silent=True)

    def refuse_twin(self, key: str, name: str, digest: str) -> None:
        """Diverge if a new call equals a recorded one that the code has not made: the step was renamed."""
        twin = self.delivery.twin(name, digest)
        if twin:
            self.diverge(f"{twin}, with the same arguments", f"{key} instead", twin)

    def reach(self, key: str) -> None:
        """Called before a call without a recorded outcome does anything."""

    async def give_up_again(self, key: str) -> NoReturn:
        """The code gave up this wait when it was executed before: wait until it does so again."""
        import asyncio

        from holdfast.engine.execution.task_driver import until_stopped

        try:
            await until_stopped(self)
        except asyncio.CancelledError as cancel:
            if self.tasks_delivery is not None and not self.is_stopping():
                later = await self.tasks_delivery.replayed(key)
                self.deliver_gate(key)
                if later is not None:
                    raise later from cancel  # as `task_driver.abandonable`
            raise cancel

    def deliver_gate(self, key: str, turn: Turn | None = None) -> bool:
        """Record that the code receives the outcome of a gate, unless the log has that; returns whether it
        was new."""
        step = self.state.steps[key]
        if step.delivered or step.kind not in GATES:
            return False
        self.note(c.Record(e.OutcomeDelivered(key)), turn)
        return True

    def own_key(self, path: str, name: str, chosen: str) -> str:
        """The identity of a call whose key the user chose: one in the whole run. Older runs have one in each
        branch: theirs is taken if it is the branch's own, or the only one."""
        key = f"{name}@{chosen}"
        if not self.state.loose or key in self.state.steps:
            return key
        if self._old_keys is None:
            self._old_keys = {}
            for known, step in self.state.steps.items():
                if not step.ordinal and "/" in known:
                    self._old_keys.setdefault(known.rpartition("/")[2], []).append(known)
        old = self._old_keys.get(key, ())
        if path + key in old or len(old) > 1:
            return path + key
        return old[0] if old else key

    def refuse_given_up(self, key: str) -> None:
        """Diverge if the wait was given up: code that no longer runs in tasks cannot do that."""
        if self.state.steps[key].status == "abandoned":
            self.diverge(f"{key}, which was given up", f"{key} in a workflow that waits for it", key)

    def check_all_visited(self, counters: Counters) -> None:
        """At the end of the function, or of a branch: the history must not hold a call that it never made."""
        ordinal = counters.ordinal + 1
        left = self.state.order.get((counters.path, ordinal))
        if left is not None:
            what = "branch" if counters.path else "function"
            self.diverge(f"{left} as call {ordinal}", f"nothing more: the {what} has ended", left)
        if not counters.path:
            self.check_history_left()

    def check_history_left(self, error: BaseException | None = None) -> None:
        """The function has ended, perhaps with this error: it must have asked for all that is recorded. An
        error of the machine or its settings only stops the run, which can be resumed once that is fixed."""
        key = self.delivery.left() if self.delivery.replaying else ""
        if not key:
            return
        if isinstance(error, (NotTrusted, SettingsError, AgentNotFound)):
            self._forget_noted()
            raise self.stop(Control(error))
        how = "" if error is None else f" with {self._described(error)}"
        self.diverge(key, f"it nowhere: the function has ended{how}", key, error)

    def _described(self, error: BaseException) -> str:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return self.engine.redactor.redact(text)[:_LONGEST_ERROR]

    def diverge(self, recorded: str, called: str, step: str, cause: BaseException | None = None) -> None:
        error = DivergenceError(self.id, recorded, called)
        error.__cause__ = cause
        self._forget_noted()
        self.stop(Control(error, [c.AttendRun("divergence", error.reason, step)]))
        raise self.control or error

    def _forget_noted(self) -> None:
        """Drop the noted events of code that has diverged from the history."""
        with self.lock:
            self._riding, self._last_fired = [], None

    # Others

    def is_stopping(self) -> bool:
        """Whether it stops, or a run above it does, which stops it a moment later."""
        run = self
        while run.control is None:
            above = self.engine.live.get(run.state.parent)
            if above is None:
                return False
            run = above[0]
        return True

    def stop_with(self, parent: Control) -> None:
        """Stop because the parent run stops: cancel or interrupt this run as the parent was."""
        if isinstance(parent.error, RunCancelled):
            self.cancel(parent.error.reason, "")
        elif parent.at_once or isinstance(parent.error, RunInterrupted):
            self.interrupt("its parent run was stopped")

    def cancel(self, reason: str, by: str) -> Control:
        """Make the run end, without waiting for what runs in it."""
        command = c.CancelRun(self.id, reason, by)
        return self.stop(Control(RunCancelled(self.id, reason), [command], at_once=True))

    def pause(self, reason: str, by: str) -> Control:
        return self.stop(Control(RunPaused(self.id, reason), [c.PauseRun(self.id, reason, by)]))

    # Stopping

    def stop(self, control: Control) -> Control:
        """Make the run stop at its next step boundary. The first signal stays, unless one outranks it."""
        with self.lock:
            before = self.control
            if before is None or control.outranks(before):
                self.control = control
                if before is not None and not control.silent:
                    control.remember(before)
            else:
                if before.commands:
                    before.remember(control)
                control = before
            urgent = before is None or (control.at_once and not before.at_once)
        if urgent:
            self.stopping.set()
            for wake in list(self.on_stop):
                wake()
        return control

    def end_call(self) -> None:
        """A call of an async run has ended: a function that has ended may wait for the last one."""
        self.under_way -= 1
        if self.all_ended is not None and not self.under_way:
            self.all_ended.finish()

    def task_ended(self, counters: Counters | None, task: Any) -> None:  # noqa: ARG002
        """A task whose scope has these counters is done. What stops the run ends its tasks with it: asyncio
        need not warn that their errors were never retrieved."""
        if self.tasks_delivery is not None:
            self.tasks_delivery.tasks.discard(task)
        if self.control is not None and not task.cancelled():
            task.exception()

    def lose(self, error: BaseException) -> Control:
        """Stop the run because an append was refused or failed: nothing may be built on it. Returns the
        signal of this error, even if another one that stops the run outranks it."""
        if isinstance(error, HoldfastError):
            silent = isinstance(error, OwnershipLost) or not isinstance(error, StoreError)
            lost = Control(error, silent=silent)
        else:
            lost = Control(StoreError(f"the store failed: {error!r}"), silent=True)
        self.stop(lost)
        return lost

    def interrupt(self, why: str) -> Control:
        return self.stop(Control(RunInterrupted(self.id, why)))

    def leave_behind(self, crew: Crew, by: BaseException) -> None:
        """Stop without waiting for these threads, because of a second Ctrl-C."""
        self.left_behind.append(crew)
        self.left_by = by
        self.interrupted(by)

    def interrupted(self, by: BaseException) -> Control:
        """Stop the run because Ctrl-C, `sys.exit` or a cancel was raised in it."""
        error = RunInterrupted(self.id, f"it was interrupted ({type(by).__name__})")
        error.__cause__ = by
        return self.stop(Control(error))


def _is_due(step: StepState, now: int) -> bool:
    """Whether the time of a gate or a sleep is over although no branch has reached it in this execution. If
    it stayed open, the run would be ready again each time it is released."""
    return step.status in PARKED and 0 < step.due_at <= now


def _ending(step: StepState, now: int) -> c.Command:
    return c.Record(e.SleepEnded(step.key)) if step.status == "sleeping" else c.ExpireGate(step.key, now)


def _count_done(state: RunState) -> int:
    return sum(step.status == "completed" and step.kind in _STEPS for step in state.steps.values())
