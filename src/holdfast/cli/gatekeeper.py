"""The foreground when its run is parked at a gate: at a terminal it asks, elsewhere it leaves.

The person at the terminal is only one who may decide: while the question stands, the store is looked at,
and a decision from anywhere else ends it.
"""

from __future__ import annotations

import os
import select
import sys
from typing import TYPE_CHECKING

from holdfast.cli.drawing.question import Question
from holdfast.cli.drawing.terminal import clean, complain, err, say
from holdfast.errors import GateError
from holdfast.views.records import PARKED

if TYPE_CHECKING:
    from holdfast.cli.drawing.progress import Progress
    from holdfast.handle import Holdfast
    from holdfast.views.gate import Gate

_LOOK_EVERY_S = 0.1


class Gatekeeper:
    """One for each run in the foreground; only its main thread uses it."""

    def __init__(self, hf: Holdfast, progress: Progress, run_id: str) -> None:
        self._hf = hf
        self._progress = progress
        self._run_id = run_id
        self.asks = _at_a_terminal()
        self._question: Question | None = None
        self._announced: set[tuple[str, str]] = set()
        self._pulse: int | None = None
        self.is_parked = False

    def read(self, pipe: int) -> bytes:
        """The input from the pipe; meanwhile decisions of this person and of others are followed."""
        while self._question is not None:
            ready, _, _ = select.select([pipe, sys.stdin], [], [], _LOOK_EVERY_S)
            if pipe in ready:
                break
            if ready:
                self._take_input(os.read(sys.stdin.fileno(), 4096), pipe)
            elif (pulse := self._hf.pulse()) != self._pulse:
                self._pulse = pulse
                self.look()
        return os.read(pipe, 64)

    def look(self) -> None:
        """The run was released, or something was written: ask what is open now, or stop asking."""
        run = self._hf.get(self._run_id)
        self.is_parked = run.status in PARKED and not run.owner
        gates = []
        if run.status == "waiting" and self.is_parked:
            if not self.asks:
                self._leave()
                return
            gates = run.open_gates()
        self._ask(gates)

    def close(self) -> None:
        """The run is not followed any more: no answer is waited for."""
        if self._question is not None:
            self._report_decided(self._question.gate)
            self._question = None

    def _leave(self) -> None:
        self._hf.stop("it waits")

    # The question

    def _ask(self, gates: list[Gate]) -> None:
        for gate in gates:
            if gate.kind == "signal" and (gate.run_id, gate.key) not in self._announced:
                self._announced.add((gate.run_id, gate.key))
                command = gate.ways()[0].shell()
                say(f"waits for {clean(gate.wants)}: `{command}` from another terminal; Ctrl-C leaves it")
        asked = self._question.gate if self._question is not None else None
        approvals = [gate for gate in gates if gate.kind == "approval"]
        if asked is not None:
            if any((gate.run_id, gate.key) == (asked.run_id, asked.key) for gate in approvals):
                return
            self._report_decided(asked)
        if approvals:
            if asked is None:
                self._progress.suspend()
            self._question = Question(approvals[0])
        elif asked is not None:
            self._question = None
            self._progress.go_on()

    def _report_decided(self, asked: Gate) -> None:
        """The question is left as it stands; if another person was faster, it is said who."""
        err.offer("\n")
        for gate in self._hf.get(asked.run_id).gates:
            if gate.key == asked.key and not gate.is_open:
                say([(clean(gate.decision), "bold"), " meanwhile"])

    def _take_input(self, data: bytes, pipe: int) -> None:
        assert self._question is not None
        answer = self._question.take(data, pipe)
        if answer == "later":
            self._question = None
            self._leave()
        elif answer is not None:
            gate, comment = self._question.gate, self._question.comment
            self._question = None
            try:
                decide = self._hf.approve if answer == "approved" else self._hf.reject
                decide(gate.run_id, gate.key, gate.digest, comment=comment)
            except GateError as error:
                complain(str(error))
            self._progress.go_on()
            self.look()


def _at_a_terminal() -> bool:
    """Whether a person sees a question and can answer it: not a job in the background."""
    try:
        return err.is_terminal and sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False
