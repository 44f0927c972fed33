"""One run in full, folded from its history when that is first used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from holdfast.clock import instant, optional_instant
from holdfast.counts import counted
from holdfast.kernel import events as e
from holdfast.kernel.evolve import fold
from holdfast.kernel.measures import as_data
from holdfast.kernel.state import UNSEEN
from holdfast.views.gate import Gate, decision_text
from holdfast.views.records import LogLine, RunError, RunInfo, StepInfo
from holdfast.views.run_input import RunInput, input_of
from holdfast.ways import VALUE, Way

if TYPE_CHECKING:
    from holdfast.engine.outside.records import LogEvent
    from holdfast.kernel.state import RunState, StepState
    from holdfast.store.budget_port import RunSpending
    from holdfast.store.port import Recorded
    from holdfast.views.deliver_record import DeliverRecord
    from holdfast.views.reader import Reader
    from holdfast.views.step_detail import StepDetail
    from holdfast.views.work import RunTask


DELIVER = ("holdfast.agents.deliver", "deliver")
"""Module and name of the workflow that delivers goals."""
PLAN_RUNNER = ("holdfast.plans.interpreter", "run_plan")
"""Module and name of the workflow that executes plans."""
_NAMED = 3  # so many steps are named, the others counted
_STRETCH_ENDS = (e.RunReleased, e.RunCompleted, e.RunFailed, e.RunCancelled)
OF_OTHERS = (
    e.CancelRequested,
    e.EvidenceVerified,
    e.FilesForgotten,
    e.GateDecided,
    e.GenerationRestored,
    e.PauseRequested,
    e.Rewound,
    e.RunPaused,
    e.RunReopened,
    e.SignalReceived,
    e.StepReopened,
    e.StepSettled,
)
"""Events that a process which does not execute the run may append."""


class RunDetail(RunInfo, frozen=True, dict=True):
    """A run, its steps in the order of their first start, its gates and its outcome.

    The history is read once, at the first use of what only it knows.
    """

    JSON: ClassVar = {
        **RunInfo.JSON,
        "result": "its result; values that plain JSON lacks are tagged, see [formats](formats.md)",
        "error": "null, or the error that ended it",
        "steps": "all steps, in the order of their first start, never folded",
        "gates": "all gates, in the order in which they were opened",
        "measured": "what all its steps used, in every generation, as a step's",
        "budget": "the budget that pays for its steps, or null for `default`",
        "spent": "what it spent: an object for each budget, with `budget`, `usd`, `tokens`, `seconds`, "
        "`steps`, and `unknown`, how often a price was unknown",
        "deliver": "the record of a delivery; null for any other run",
        "tasks": "the tasks that it worked on, an object for each: `task`, `number`, `name`, `status`",
    }

    @classmethod
    def of(cls, info: RunInfo, reader: Reader) -> RunDetail:
        made = cls(*(getattr(info, name) for name in info.__struct_fields__))
        made.__dict__["_reader"] = reader
        return made

    @property
    def _reader_of(self) -> Reader:
        reader: Reader = self.__dict__["_reader"]
        return reader

    @cached_property
    def recorded(self) -> Sequence[Recorded]:
        """The history."""
        return self._reader_of.history(self.id)

    @cached_property
    def state(self) -> RunState:
        state = fold(self.recorded)
        assert state is not None, "a run that the store lists has a history"
        return state

    def take_state(self) -> RunState:
        """The state, for a caller that folds more events into it; the next use here folds it again."""
        state = self.state
        del self.__dict__["state"]
        return state

    @cached_property
    def whole_input(self) -> RunInput | None:
        """The input of the run, also where it is stored beside the log."""
        created = self.recorded[0].event
        if self.input is not None or type(created) is not e.RunCreated:
            return self.input
        return input_of(created, lambda: self._reader_of.redactor, self._reader_of.blob)

    # What it consists of

    @cached_property
    def steps(self) -> list[StepInfo]:
        return [self.step_info(step) for step in self.state.steps.values() if step.kind not in UNSEEN]

    @cached_property
    def gates(self) -> list[Gate]:
        """All of them, in the order in which they were opened."""
        return [self.gate(step) for step in self.state.steps.values() if step.kind in ("approval", "signal")]

    def open_gates(self) -> list[Gate]:
        """The gates that the run waits at: its own, then those of its child runs."""
        found = [gate for gate in self.gates if gate.is_open]
        for child in self._reader_of.waiting_children(self.id):
            found += self._reader_of.detail(child).open_gates()
        return found

    def children(self) -> Iterator[RunDetail]:
        """The child runs, in the order of their steps. One of which nothing was written yet is left out."""
        for step in self.steps:
            child = self.beside(step.child) if step.child else None
            if child is not None:
                yield child

    def beside(self, run_id: str) -> RunDetail | None:
        """Another run at the same moment; None if it did not exist."""
        found = self._reader_of.run(run_id)
        return None if found is None else RunDetail.of(found, self._reader_of)

    @property
    def as_of(self) -> datetime | None:
        """The moment that it is shown at; None for now."""
        moment = self._reader_of.moment
        return None if moment is None else instant(moment.at)

    def events(self) -> list[LogEvent]:
        """Everything that has happened to it, in order."""
        return list(self._reader_of.events(self.id))

    def step(self, name: str) -> StepDetail:
        """One step: a key, a name, or the beginning of one. Raises as `hf.step` does."""
        return self._reader_of.step(self.id, name)

    @property
    def budget(self) -> str:
        """The budget that it was started with; empty for the default one."""
        return self.state.budget

    @cached_property
    def spending(self) -> list[RunSpending]:
        """Its spending in each budget until now; a rewind does not reduce it. Of a run in the past it is
        not known."""
        return [] if self._reader_of.moment is not None else self._reader_of.spending(self.id)

    @cached_property
    def tasks(self) -> tuple[RunTask, ...]:
        """The tasks that it worked on: the one that it was started for, and those that its code claimed."""
        created = self.recorded[0].event
        named = created.task if isinstance(created, e.RunCreated) else ""
        wrote = self._reader_of.authored_by(self.id)
        if not named and not wrote:
            return ()
        from holdfast.views.work import tasks_of

        return tasks_of(self._reader_of, self.id, named, wrote)

    @property
    def is_command(self) -> bool:
        """Whether the run is one command line, and no function."""
        return bool(self.state.code.argv)

    @property
    def is_plan(self) -> bool:
        """Whether the run executes a plan: its arguments are the plan and the inputs."""
        return (self.state.code.module, self.state.code.name) == PLAN_RUNNER

    @property
    def is_delivery(self) -> bool:
        """Whether the run delivers a goal: its arguments are the goal and the options."""
        return (self.state.code.module, self.state.code.name) == DELIVER

    @cached_property
    def deliver(self) -> DeliverRecord | None:
        """The record of a delivery; None for any other run."""
        if not self.is_delivery:
            return None
        from holdfast.views.deliver_record import DeliverRecord

        return DeliverRecord.of(self)

    @property
    def name(self) -> str:
        """The title of its code, or the workflow's name."""
        return self.redact(self.state.code.title) or self.workflow

    @property
    def place(self) -> str:
        """Where the workflow is, in words."""
        code = self.state.code
        if code.argv:
            return f"a command in {code.cwd}"
        return f"{code.script or code.module}:{code.name}"

    @property
    def version(self) -> int:
        """Of the last event."""
        return self.state.version

    @property
    def in_doubt(self) -> list[str]:
        """The steps of which it is not known whether they happened."""
        return [step.key for step in self.state.in_doubt()]

    def is_stray(self) -> bool:
        """Whether it is a child of a generation that was left: nothing waits for it."""
        return self._reader_of.is_stray(self.id)

    def just_settled(self) -> list[str]:
        """The steps that were settled since the run was last claimed."""
        found: list[str] = []
        for event, _, _ in reversed(self.recorded):
            if type(event) is e.RunClaimed:
                break
            if type(event) is e.StepSettled:
                found.append(event.key)
        return found[::-1]

    def executed_s(self) -> float:
        """How long it was executed: from each claim to its release or its end, or to the last event of its
        owner before a crash. What others write meanwhile, a rewind for instance, is no execution."""
        total, since, last = 0, 0, 0
        for event, _, at in self.recorded:
            kind = type(event)
            if kind is e.RunClaimed:
                total += last - since if since else 0
                since = last = at
            elif kind in _STRETCH_ENDS and since:
                total += at - since
                since = 0
            elif kind not in OF_OTHERS:
                last = at
        return (total + (last - since if since else 0)) / 1e6

    @property
    def moved(self) -> str | None:
        """For a run that is paused because it was rewound or forked: to which point, or from which run. None
        for any other."""
        if self.state.paused is not None:
            return None
        for event, _, _ in reversed(self.recorded):
            if type(event) is e.RunForked:
                return f"was forked from {event.origin}"
            if type(event) is e.Rewound:
                return f"was rewound to {self._reader_of.target_of(self.id, event.operation)}"
        return None

    # Its outcome

    @property
    def result(self) -> Any:
        """The run's result as JSON data (values that plain JSON lacks are tagged), None without one."""
        return self.data(self.state.result, self.state.blob)

    @property
    def error(self) -> RunError | None:
        failure = self.state.error
        if failure is None:
            return None
        return msgspec.structs.replace(self.failure(failure), steps=tuple(self.state.failed_steps))

    # What to do next

    def ways(self) -> list[Way]:
        """The commands with which a person can continue the run."""
        return list(self._ways())

    def _ways(self) -> Iterator[Way]:
        doubtful = self.in_doubt
        if doubtful and not self.ended:
            yield from self._ways_to_settle(doubtful)
        elif self.interrupted:
            yield self._resume(self._after_a_crash())
        elif self.status == "failed":
            again = _listed(self.state.failed_steps)
            if again:
                yield self._resume(f"tries {again} again")
            else:
                workflow = "runs the workflow again, with the recorded steps as they are"
                yield from self._ways_to_deliver() or [self._resume(workflow)]
        elif self.status == "needs_attention":
            yield self._resume("once that is fixed")
        elif self.status == "waiting":
            gates = self.open_gates()
            for gate in gates[:_NAMED]:
                yield from gate.ways()
            if len(gates) > _NAMED:
                yield self._show_all(f"names {counted(len(gates) - _NAMED, 'more gate')}")
            yield self._resume("continues then, unless a live process does")
        elif self.status in ("cancelled", "paused"):
            paused = self.state.paused
            if paused is not None and paused.budget:
                from holdfast.errors import BudgetReached

                yield BudgetReached.raise_(paused.budget, paused.short)
            yield self._resume("continues")
        elif self.owner_pid:
            hangs = f"only if process {self.owner_pid} hangs"
            yield Way("resume", self.id, {"take_over": True}, hangs)
        elif self.status == "pending":
            yield self._resume("continues, unless a live process does")
        elif self.status == "sleeping":
            yield self._resume("continues when it wakes, unless a live process does")

    def ways_back(self) -> list[Way]:
        """The same for what a command that has ended did to the files: it has no checkpoint to go back to."""
        if self.ended and self.is_command and self._changed_files():
            return [Way("rewind", self.id, {"to": "start"}, "rolls back what it did to the files")]
        return []

    def _resume(self, effect: str) -> Way:
        return Way("resume", self.id, {}, effect)

    def _ways_to_deliver(self) -> Sequence[Way]:
        """For a delivery that was rejected too often: the ways to rewind it, because `resume` would fail
        again."""
        if self.state.error is None or not self.is_delivery:
            return ()
        from holdfast.errors import NotDelivered
        from holdfast.kernel.failure import rebuild

        error = rebuild(self.state.error)
        return error.ways if isinstance(error, NotDelivered) else ()

    def _show_all(self, effect: str) -> Way:
        return Way("show", self.id, {"all": True}, effect)

    def _ways_to_settle(self, doubtful: Sequence[str]) -> Iterator[Way]:
        for key in doubtful[:_NAMED]:
            yield Way("settle", self.id, {"step": key, "done": VALUE}, "it happened, and this is its result")
            yield Way("settle", self.id, {"step": key, "retry": True}, "it did not happen: run it")
            yield Way("settle", self.id, {"step": key, "fail": ""}, "it failed")
        if len(doubtful) > _NAMED:
            yield self._show_all(f"names {len(doubtful) - _NAMED:,} more in doubt")

    def _after_a_crash(self) -> str:
        cut_off = [step.key for step in self.steps if step.status == "running" and step.effect == "once"]
        if not cut_off:
            return "continues where it stopped"
        it = "it" if len(cut_off) == 1 else "them"
        return f"{_listed(cut_off)} may have happened: unless a `verify` answers, you must settle {it}"

    def _changed_files(self) -> bool:
        """Whether the files or the git repository are other than the run first found them."""
        found = [
            (saved.snapshot, saved.git and (saved.git.refs, saved.git.head, saved.git.branch))
            for saved in self.state.files
        ]
        return bool(found) and found[0] != found[-1]

    # Parts of the history as views

    def gate(self, step: StepState) -> Gate:
        opening = self._openings[step.key, step.digest]
        outcome = "abandoned" if step.status == "abandoned" else step.outcome
        return Gate(
            self.id,
            step.key,
            step.kind,
            self.redact(step.name),
            step.digest,
            self.data(opening.show, opening.blob),
            instant(step.started_at),
            optional_instant(opening.until if outcome else step.due_at),
            outcome,
            self.redact(step.by),
            self.redact(step.comment),
            optional_instant(step.ended_at),
        )

    @cached_property
    def _openings(self) -> dict[tuple[str, str], e.GateOpened]:
        return {
            (event.key, event.digest): event for event, _, _ in self.recorded if type(event) is e.GateOpened
        }

    def step_info(self, step: StepState) -> StepInfo:
        note = self.redact(step.why) if step.why else ""
        if step.error is not None:
            note = self.failure(step.error).sentence
        elif step.outcome:
            note = self.redact(decision_text(step.outcome, step.by, step.comment))
        return StepInfo(
            step.key,
            self.redact(step.name),
            step.kind,
            step.effect,
            step.status,
            step.attempt,
            step.started_at,
            step.ended_at,
            step.due_at,
            step.child,
            note,
            step.outcome,
            step.measured,
        )

    def failure(self, failure: e.Failure) -> RunError:
        return RunError(
            failure.type_name,
            self.redact(failure.message),
            self.redact(failure.traceback),
            tuple(self.failure(member).sentence for member in failure.members),
        )

    def data(self, inline: msgspec.Raw, blob: str) -> Any:
        """A value of its history as JSON data, None without one."""
        data = self._reader_of.blob(blob) if blob else bytes(inline)
        return self._reader_of.redactor.redact_value(msgspec.json.decode(data)) if data else None

    def output(self) -> Iterator[LogLine]:
        """The output of its commands and steps, in every generation."""
        return self._reader_of.logs(self.id)

    def blob(self, name: str) -> bytes:
        """A value of its history that is stored beside the log."""
        return self._reader_of.blob(name)

    def redact(self, text: str) -> str:
        return self._reader_of.redactor.redact(text)

    def to_json(self) -> dict[str, Any]:
        error = self.error
        return {
            **super().to_json(),
            "input": msgspec.to_builtins(self.whole_input),
            "result": self.result,
            "error": None if error is None else error.to_json(),
            "steps": [step.to_json() for step in self.steps],
            "gates": [gate.to_json() for gate in self.gates],
            "measured": as_data(self.state.measured),
            "budget": self.budget or None,
            "spent": [
                {"budget": one.budget, **one.spent.texts(), "unknown": one.unknown} for one in self.spending
            ],
            "deliver": None if self.deliver is None else self.deliver.to_json(),
            "tasks": [task.to_json() for task in self.tasks],
        }


def _listed(keys: Sequence[str]) -> str:
    """The first of them by name, the others counted."""
    more = f" and {len(keys) - _NAMED:,} more" if len(keys) > _NAMED else ""
    return ", ".join(keys[:_NAMED]) + more
