"""What the foreground does when its run is parked at a gate: at a terminal it asks, elsewhere it leaves.

The person at the terminal is only one who may decide: while the question stands, the store is looked at,
and a decision from anywhere else ends it.
"""

from __future__ import annotations

import os
import select
import sys
from typing import TYPE_CHECKING

from holdfast.cli.detail import Detail
from holdfast.cli.gates import GateView
from holdfast.cli.question import Question
from holdfast.cli.terminal import clean, complain, err, say
from holdfast.engine.outside import steering
from holdfast.errors import GateError

if TYPE_CHECKING:
    from holdfast.cli.access import Opened
    from holdfast.cli.progress import Progress
    from holdfast.engine.engine import Engine

_LOOK_EVERY_S = 0.1


class Gatekeeper:
    """One for each run in the foreground; only its main thread uses it."""

    def __init__(self, opened: Opened, engine: Engine, progress: Progress, run_id: str) -> None:
        self._opened = opened
        self._engine = engine
        self._progress = progress
        self._run_id = run_id
        self.asks = _at_a_terminal()
        self._question: Question | None = None
        self._told: set[tuple[str, str]] = set()
        self._pulse: int | None = None
        self.is_parked = False

    def read(self, pipe: int) -> bytes:
        """What comes through the pipe; meanwhile the person is heard, and so is whoever decides instead."""
        while self._question is not None:
            ready, _, _ = select.select([pipe, sys.stdin], [], [], _LOOK_EVERY_S)
            if pipe in ready:
                break
            if ready:
                self._hear(os.read(sys.stdin.fileno(), 4096), pipe)
            elif (pulse := self._opened.store.pulse()) != self._pulse:
                self._pulse = pulse
                self.look()
        return os.read(pipe, 64)

    def look(self) -> None:
        """The run was released, or something was written: ask what is open now, or stop asking."""
        row = self._opened.store.run(self._run_id)
        self.is_parked = row is not None and row.status in ("waiting", "sleeping") and not row.owner
        gates = []
        if row is not None and row.status == "waiting" and self.is_parked:
            if not self.asks:
                self._leave()
                return
            gates = Detail(self._opened, self._run_id).open_gates()
        self._ask(gates)

    def close(self) -> None:
        """The run is not followed any more: no answer is waited for."""
        if self._question is not None:
            self._tell_decided(self._question.gate)
            self._question = None

    def _leave(self) -> None:
        self._engine.stop("it waits")

    # The question

    def _ask(self, gates: list[GateView]) -> None:
        for gate in gates:
            if gate.kind == "signal" and (gate.run_id, gate.key) not in self._told:
                self._told.add((gate.run_id, gate.key))
                command = next(gate.ways())[0]
                say(f"waits for {clean(gate.wants)}: `{command}` from another terminal; Ctrl-C leaves it")
        asked = self._question.gate if self._question is not None else None
        approvals = [gate for gate in gates if gate.kind == "approval"]
        if asked is not None:
            if any((gate.run_id, gate.key) == (asked.run_id, asked.key) for gate in approvals):
                return
            self._tell_decided(asked)
        if approvals:
            if asked is None:
                self._progress.suspend()
            self._question = Question(approvals[0])
        elif asked is not None:
            self._question = None
            self._progress.go_on()

    def _tell_decided(self, asked: GateView) -> None:
        """The question is left as it stands; if somebody else was faster, it is said who."""
        err.offer("\n")
        for gate in Detail(self._opened, asked.run_id).gates():
            if gate.key == asked.key and not gate.is_open:
                say([(clean(gate.decision()), "bold"), " meanwhile"])

    def _hear(self, data: bytes, pipe: int) -> None:
        assert self._question is not None
        answer = self._question.hear(data, pipe)
        if answer == "later":
            self._question = None
            self._leave()
        elif answer is not None:
            gate, comment = self._question.gate, self._question.comment
            self._question = None
            try:
                steering.decide_gate(
                    self._engine, gate.run_id, answer, gate.key, gate.digest, steering.user(), comment
                )
            except GateError as error:
                complain(str(error))
            self._progress.go_on()
            self.look()


def _at_a_terminal() -> bool:
    """Whether somebody sees a question and can answer it: not a job in the background."""
    try:
        return err.is_terminal and sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False
