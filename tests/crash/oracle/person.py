"""Decides the gates of random programs, at random moments, from a thread or a process of its own."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

from tests.crash.oracle.async_player import gate_name
from tests.crash.oracle.programs import Program

from holdfast import GateError, Holdfast, HoldfastError, StoreError

LOOK_S = 0.002


class Person:
    """Looks at the open gates again and again. What it decides is written in the gate's name."""

    def __init__(self, hf: Holdfast, program: Program, seed: str) -> None:
        self._hf = hf
        self._chance = random.Random(seed)
        self._due: dict[tuple[str, str], float] = {}
        self._early = [gate_name(one) for one in program.top.walk() if one["early"]]
        self._sent: set[tuple[str, str]] = set()
        self._stop = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self.work, name="oracle-person", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def work(self) -> None:
        while not self._stop.wait(LOOK_S):
            try:
                self._look()
            except (HoldfastError, StoreError):
                pass  # the run was faster, or is over

    def _look(self) -> None:
        for run in self._hf.runs():
            if run.status in ("completed", "failed"):
                continue
            self._send_early(run.id)
            for gate in self._hf.steps(run.id):
                if gate.status == "waiting" and gate.kind in ("approval", "signal"):
                    self._decide_in_time(run.id, gate.key, gate.kind, gate.name)

    def _decide_in_time(self, run_id: str, key: str, kind: str, name: str) -> None:
        answer = name.partition("-")[0]
        if answer == "never":
            return
        now = time.monotonic()
        due = self._due.setdefault((run_id, key), now + self._chance.choice((0, 0.001, 0.004, 0.008)))
        if now < due:
            return
        try:
            self._decide(run_id, key, kind, name, answer)
        except GateError:
            pass  # the code gave it up

    def _decide(self, run_id: str, key: str, kind: str, name: str, answer: str) -> None:
        if kind == "signal":
            if (run_id, name) not in self._sent and not self._has_signal(run_id, name):
                self._sent.add((run_id, name))
                self._hf.signal(run_id, name, f"value-{name}", by="person")
        elif answer == "yes":
            self._hf.approve(run_id, key, by="person")
        else:
            self._hf.reject(run_id, key, by="person")

    def _send_early(self, run_id: str) -> None:
        """Some signals come before the code waits for them."""
        for name in list(self._early):
            if self._chance.random() < 0.3:
                self._early.remove(name)
                if "." not in run_id and not self._has_signal(run_id, name):
                    self._sent.add((run_id, name))
                    self._hf.signal(run_id, name, f"value-{name}", by="person")

    def _has_signal(self, run_id: str, name: str) -> bool:
        """Whether it was sent in an earlier life."""
        events = self._hf.events(run_id)
        return any(one.type == "SignalReceived" and one.data.get("name") == name for one in events)


def attend(home: Path, program: Program, seed: str) -> None:
    """The work of a process that decides until it is killed."""
    while not (home / "holdfast.db").exists():
        time.sleep(0.001)
    Person(Holdfast(home, durability="process"), program, seed).work()
