"""Control signals, which stop a run from inside even if its code catches exceptions.

They derive from BaseException, so that an agent's `except Exception` cannot swallow them, and they
are sticky: once a run has one, every later step call in it raises it again. `result()` raises `error`;
`commands` are recorded in the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import HoldfastError, StoreError
from holdfast.kernel.commands import Command, DoubtStep, PauseRun


class Control(BaseException):
    """The run stops here. Never caught by user code that behaves; never lost if it is."""

    yields = False
    """Whether any other control signal outranks this one."""

    def __init__(
        self,
        error: HoldfastError,
        commands: Sequence[Command] = (),
        *,
        silent: bool = False,
        at_once: bool = False,
    ) -> None:
        self.error = error
        self.commands = tuple(commands)
        self.silent = silent
        """Nothing more may be written: another owner has the run, or the store is gone."""
        self.at_once = at_once or silent
        """Running bodies are not awaited: those that can be cancelled are cancelled."""
        super().__init__(str(error))

    @property
    def rank(self) -> int:
        """A lost owner or store, then a cancel, what needs a person, a pause, a mere interrupt, a park."""
        if self.silent:
            return 5
        if self.at_once:
            return 4
        if self.commands:
            return 2 if isinstance(self.commands[-1], PauseRun) else 3
        return 0 if self.yields else 1

    def outranks(self, other: Control) -> bool:
        return self.rank > other.rank

    def remember(self, other: Control) -> None:
        """Merge another signal that also stops the run: its steps in doubt are recorded in any case."""
        doubts = [one for one in other.commands if isinstance(one, DoubtStep)]
        self.commands = (*doubts, *self.commands)
        self.add_cause(other.error)

    def add_cause(self, other: HoldfastError) -> None:
        """Attach a failure of the store as the cause of this error: a child run may have lost an append while
        its parent was being paused, and the caller gets the pause."""
        failed = other if isinstance(other, StoreError) else other.__cause__
        if isinstance(failed, StoreError) and failed is not self.error and self.error.__cause__ is None:
            self.error.__cause__ = failed
