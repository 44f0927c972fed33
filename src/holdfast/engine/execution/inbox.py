"""Messages of others for a run that this process executes: decisions, signals, requests, a new owner.

The follower reads them from the log. A transaction of the run (`Execution.transact`) reads them earlier,
perhaps in the same commit: the state must include them there, or a gate and its decision would miss each
other. They take effect when that commit is on the disk. Until then no gate counts as decided, and nothing is
stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from holdfast.errors import OwnershipLost
from holdfast.kernel import events as e
from holdfast.kernel.evolve import evolve
from holdfast.store.port import Recorded

if TYPE_CHECKING:
    from holdfast.engine.execution.execution import Execution

MESSAGES: Final = ("RunClaimed", "GateDecided", "SignalReceived", "CancelRequested", "PauseRequested")


class Inbox:
    """Thread-safe. One per execution."""

    def __init__(self, run: Execution) -> None:
        self._run = run
        self._unsure: set[str] = set()
        """Gates that are decided by events of a transaction, read or written, that is not acknowledged
        yet."""
        self.on_message: list[Callable[[], None]] = []
        """Called when there is something new that the run may wait for, from any thread."""

    def receive(self, recorded: Sequence[Recorded]) -> None:
        """Process messages from the log. Those that were processed before, and the run's own events, change
        nothing."""
        self.obey(self.take_in(recorded, sure=True))
        self.wake()

    def wake(self) -> None:
        """Wake all waiters of this run: each looks again."""
        for wake in list(self.on_message):
            wake()

    def take_in(self, recorded: Sequence[Recorded], *, sure: bool) -> list[e.Event]:
        """Fold decisions and signals into the run's state; returns the other messages, for `obey`."""
        requests: list[e.Event] = []
        run = self._run
        with run.lock:
            state = run.state
            for event, version, at in recorded:
                if type(event) is e.GateDecided:
                    gate = state.steps.get(event.key)
                    if gate is None or gate.status != "waiting" or event.generation != state.generation:
                        continue
                    if not sure:
                        self._unsure.add(event.key)
                elif type(event) is not e.SignalReceived:
                    requests.append(event)
                    continue
                elif version in state.signals:
                    continue
                evolve(state, event, version, at)
        return requests

    def obey(self, requests: Sequence[e.Event]) -> None:
        run = self._run
        for event in requests:
            if self.is_taken(event):
                run.lose(OwnershipLost(run.id))
            elif type(event) is e.CancelRequested:
                run.cancel(event.reason, event.by)
            elif type(event) is e.PauseRequested:
                run.pause(event.reason, event.by)

    def is_taken(self, event: e.Event) -> bool:
        """Whether this says that the run is another owner's."""
        return type(event) is e.RunClaimed and event.epoch > self._run.epoch

    # Gates, as far as the run's code may know

    def is_open(self, key: str) -> bool:
        return self._run.state.steps[key].status == "waiting" or key in self._unsure

    def open_gates(self) -> list[str]:
        with self._run.lock:
            return [*(gate.key for gate in self._run.state.open_gates()), *self._unsure]

    def doubt(self, events: Iterable[e.Event]) -> None:
        """Mark the gates that these events of the run decide: they are folded next, and on the disk later."""
        self._unsure.update(event.key for event in events if type(event) is e.GateDecided)

    def doubts(self) -> set[str]:
        return set(self._unsure)

    def settle(self, doubts: set[str]) -> None:
        """A transaction is on the disk: the gates that were in doubt when it was decided no longer are."""
        if doubts:
            self._unsure.difference_update(doubts)
            self.wake()
