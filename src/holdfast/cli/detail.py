"""One run with everything that can be said of it, folded from its history; all of it redacted."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.cli.gates import GateView, decision_text
from holdfast.cli.steps import HIDDEN, StepView
from holdfast.clock import instant
from holdfast.engine.inputs import input_of
from holdfast.errors import RunNotFound
from holdfast.kernel import events as e
from holdfast.kernel.evolve import fold

if TYPE_CHECKING:
    from holdfast.cli.access import Opened
    from holdfast.engine.records import RunInfo
    from holdfast.kernel.state import RunState, StepState
    from holdfast.redaction import Redactor


_NAMED = 3  # so many steps are named, the others counted


_STRETCH_ENDS = (e.RunReleased, e.RunCompleted, e.RunFailed, e.RunCancelled)
_OF_OTHERS = (
    e.CancelRequested,
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


class Detail:
    """A run, its steps in the order of their first start, and its outcome; `recorded` is its history."""

    def __init__(self, opened: Opened, run_id: str) -> None:
        info = opened.run(run_id)
        recorded = opened.store.load(info.id)
        state = fold(recorded)
        if state is None:
            raise RunNotFound(run_id)
        self.info: RunInfo = info
        self.state: RunState = state
        self._redactor: Redactor = opened.reading.redactor
        self._opened = opened
        self._openings = {
            (event.key, event.digest): event for event, _, _ in recorded if type(event) is e.GateOpened
        }
        self.recorded = recorded
        if info.input is None and type(recorded[0].event) is e.RunCreated:  # it is stored beside the log
            given = input_of(recorded[0].event, lambda: self._redactor, opened.store.blob)
            self.info = msgspec.structs.replace(info, input=given)
        self.steps = [self.view(step) for step in state.steps.values() if step.kind not in HIDDEN]

    @property
    def status(self) -> str:
        return "interrupted" if self.info.interrupted else self.info.status

    def just_settled(self) -> list[str]:
        """The steps whose doubt was settled since somebody last executed the run."""
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
            elif kind not in _OF_OTHERS:
                last = at
        return (total + (last - since if since else 0)) / 1e6

    def is_stray(self) -> bool:
        """Whether it is a child of a generation that was left: nothing waits for it."""
        return bool(self._opened.store.strays([self.info.id]))

    @property
    def place(self) -> str:
        """Where the workflow is, in words."""
        code = self.state.code
        if code.argv:
            return f"a command in {code.cwd}"
        return f"{code.script or code.module}:{code.name}"

    def result(self) -> Any:
        """The run's result as JSON data (values that plain JSON lacks are tagged), None without one."""
        return self.data(self.state.result, self.state.blob)

    def data(self, inline: msgspec.Raw, blob: str) -> Any:
        """A value of its history as JSON data, None without one."""
        data = self._opened.store.blob(blob) if blob else bytes(inline)
        return self._redactor.redact_value(msgspec.json.decode(data)) if data else None

    def gates(self) -> list[GateView]:
        """All of them, in the order in which they were opened."""
        return [self.gate(step) for step in self.state.steps.values() if step.kind in ("approval", "signal")]

    def gate(self, step: StepState) -> GateView:
        opening = self._openings[step.key, step.digest]
        redact = self.redact
        outcome = "abandoned" if step.status == "abandoned" else step.outcome
        return GateView(
            self.info.id,
            step.key,
            step.kind,
            redact(step.name),
            step.digest,
            self.data(opening.show, opening.blob),
            instant(step.started_at),
            _at(opening.until if outcome else step.due_at),
            outcome,
            redact(step.by),
            redact(step.comment),
            _at(step.ended_at),
        )

    def open_gates(self) -> list[GateView]:
        """What the run waits for at the moment: its own gates, then those of its child runs."""
        found = [gate for gate in self.gates() if gate.is_open]
        for child in self._opened.store.runs(status=("waiting",), parent=self.info.id):
            found += Detail(self._opened, child.id).open_gates()
        return found

    def error(self) -> dict[str, Any] | None:
        failure = self.state.error
        if failure is None:
            return None
        return self.error_fields(failure) | {"steps": list(self.state.failed_steps)}

    def error_fields(self, failure: e.Failure) -> dict[str, Any]:
        """The stable fields of an error in JSON."""
        return {
            "type": failure.type_name,
            "message": self.redact(failure.message),
            "traceback": self.redact(failure.traceback),
            "members": [self.sentence(member) for member in failure.members],
        }

    def redact(self, text: str) -> str:
        return self._redactor.redact(text)

    def sentence(self, failure: e.Failure) -> str:
        """An error as Python writes its last line."""
        name = failure.type_name.removeprefix("holdfast.errors.")
        return self.redact(f"{name}: {failure.message}" if failure.message else name)

    def ways_on(self) -> Iterator[tuple[str, str]]:
        """(command, what it does) for each way in which a person can move the run on."""
        run_id, status = self.info.id, self.info.status
        resume = f"holdfast resume {run_id}"
        doubtful = self.state.in_doubt()
        if doubtful and not self.state.ended:
            for step in doubtful[:_NAMED]:
                settle = f"holdfast settle {run_id} {shlex.quote(step.key)}"
                yield f"{settle} --done VALUE", "it happened, and this is its result"
                yield f"{settle} --retry", "it did not happen: run it"
                yield f"{settle} --fail", "it failed"
            if len(doubtful) > _NAMED:
                yield f"holdfast show {run_id} --all", f"names {len(doubtful) - _NAMED:,} more in doubt"
        elif self.info.interrupted:
            cut_off = [step.key for step in self.steps if step.status == "running" and step.effect == "once"]
            if cut_off:
                keys = _listed(cut_off)
                it = "it" if len(cut_off) == 1 else "them"
                yield resume, f"{keys} may have happened: unless a `verify` tells, you must settle {it}"
            else:
                yield resume, "goes on where it stopped"
        elif status == "failed":
            again = _listed(self.state.failed_steps)
            yield (
                resume,
                f"tries {again} again"
                if again
                else "runs the workflow again, with the recorded steps as they are",
            )
        elif status == "needs_attention":
            yield resume, "once that is put right"
        elif status == "waiting":
            gates = self.open_gates()
            for gate in gates[:_NAMED]:
                yield from gate.ways()
            if len(gates) > _NAMED:
                yield f"holdfast show {run_id} --all", f"names {len(gates) - _NAMED:,} more gates"
            yield resume, "goes on then, unless a live process does"
        elif status in ("cancelled", "paused"):
            yield resume, "goes on"
        elif self.info.owner_pid:
            yield f"{resume} --take-over", f"only if process {self.info.owner_pid} hangs"
        elif status == "pending":
            yield resume, "goes on, unless a live process does"
        elif status == "sleeping":
            yield resume, "goes on when it wakes, unless a live process does"

    def ways_back(self) -> Iterator[tuple[str, str]]:
        """The same for what a command that has ended did to the files: it has no checkpoint to go back to."""
        if self.state.ended and self.state.code.argv and self._changed_files():
            yield f"holdfast rewind {self.info.id} --to start", "takes back what it did to the files"

    def _changed_files(self) -> bool:
        """Whether the files or the git repository are other than the run first found them."""
        found = [
            (saved.snapshot, saved.git and (saved.git.refs, saved.git.head, saved.git.branch))
            for saved in self.state.files
        ]
        return bool(found) and found[0] != found[-1]

    def view(self, step: StepState) -> StepView:
        note = self.redact(step.why) if step.why else ""
        if step.error is not None:
            note = self.sentence(step.error)
        elif step.outcome:
            note = self.redact(decision_text(step.outcome, step.by, step.comment))
        return StepView(
            step.key,
            step.name,
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
        )


def run_fields(run: RunInfo) -> dict[str, Any]:
    """The stable fields of a run in JSON."""
    return {
        "id": run.id,
        "workflow": run.workflow,
        "status": run.status,
        "interrupted": run.interrupted,
        "reason": run.reason,
        "parent": run.parent or None,
        "owner_pid": run.owner_pid,
        "created_at": run.created_at.isoformat(),
        "updated_at": run.updated_at.isoformat(),
        "completed_at": run.completed_at.isoformat() if run.completed_at else None,
        "title": run.title,
        "input": msgspec.to_builtins(run.input),
    }


def step_fields(step: StepView) -> dict[str, Any]:
    """The stable fields of a step in JSON."""
    return {
        "key": step.key,
        "name": step.name,
        "kind": step.kind,
        "effect": step.effect,
        "status": step.status,
        "attempt": step.attempt,
        "started_at": step.started.isoformat() if step.started else None,
        "ended_at": step.ended.isoformat() if step.ended else None,
        "due_at": step.due.isoformat() if step.due else None,
        "child": step.child or None,
        "note": step.note or None,
    }


def _listed(keys: Sequence[str]) -> str:
    """The first of them by name, the others counted."""
    more = f" and {len(keys) - _NAMED:,} more" if len(keys) > _NAMED else ""
    return ", ".join(keys[:_NAMED]) + more


def _at(us: int) -> datetime | None:
    return instant(us) if us else None
