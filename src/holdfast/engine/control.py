"""Control signals: what stops a run from inside, whatever its code catches.

They derive from BaseException, so that an agent's `except Exception` cannot swallow them, and they
are sticky: once a run has one, every later step call in it raises it again. `error` is what
`result()` raises; `commands` is what the log will say of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import HoldfastError
from holdfast.kernel.commands import Command


class Control(BaseException):
    """The run stops here. Never caught by user code that behaves; never lost if it is."""

    yields = False
    """Whatever else stops the run says more than this."""

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
        """What runs is not let end: bodies that can be cancelled are."""
        super().__init__(str(error))

    def outranks(self, other: Control) -> bool:
        """Whether this one tells more: anything does than a park, and one with something to record than a
        mere interrupt."""
        if other.yields:
            return not self.yields
        return bool(self.commands) and not other.commands and not other.silent
