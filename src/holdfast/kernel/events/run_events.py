"""Events of a run as a whole: its creation, its owners, requests from outside, its generations, its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from holdfast.kernel.events.event import NOTHING, Event, Failure

Waits = Literal["", "waiting", "sleeping", "pending"]


class Code(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a workflow's code is: a function in a module, a function in a script, or one command. A script
    that was started as a module (`python -m pkg.mod`) has both.

    `directory` is what a module was imported from, empty for one that was installed into the interpreter.
    `root` is the root of its project, `mark` says which directory that was, and `home` is where the store was
    inside it, if it was: so the code is found again in a project that was moved or copied. `title` is what
    people see instead of `name`; the code is always found by its name.
    """

    name: str
    module: str = ""
    script: str = ""
    argv: tuple[str, ...] = ()
    cwd: str = ""
    interpreter: str = ""
    root: str = ""
    mark: str = ""
    home: str = ""
    directory: str = ""
    title: str = ""

    @property
    def place(self) -> str:
        """The path that must exist for the code to be found: its script, or the directory of its module."""
        return self.script or ("" if self.argv else self.directory) or self.cwd


class RunCreated(Event, frozen=True, gc=False):
    code: Code
    digest: str
    args: msgspec.Raw = NOTHING
    blob: str = ""
    parent: str = ""
    parent_step: str = ""
    task: str = ""
    """The task that the run was started for: the run's end moves it."""
    budget: str = ""
    """The budget that pays for its steps; empty for the default one."""


class RunClaimed(Event, frozen=True, gc=False):
    """An owner took the run; every earlier epoch is fenced off from here on."""

    owner: str
    epoch: int
    took_over: str = ""
    forced: bool = False
    seen_at: int = 0
    """The last sign of life of the one that it was taken over from, in microseconds; 0 if not known."""
    ordered: bool = False
    """This owner delivers outcomes to the code in the order of the log."""


class RunReleased(Event, frozen=True, gc=False):
    """Its driver let it go. `waits` says that a child run waits or sleeps, and it for that; or that it can be
    continued (`pending`), whatever else of it waits."""

    owner: str
    reason: str = ""
    waits: Waits = ""


class RunReopened(Event, frozen=True, gc=False):
    """A failed or cancelled run continues."""


class RunNeedsAttention(Event, frozen=True, gc=False):
    """A person must decide: `cause` is the error code, `step` the place, `reason` the sentence."""

    cause: str
    reason: str
    step: str = ""


class RunCompleted(Event, frozen=True, gc=False):
    result: msgspec.Raw = NOTHING
    blob: str = ""


class RunFailed(Event, frozen=True, gc=False):
    """`steps` are the steps whose errors ended the run: what `resume` tries again."""

    error: Failure
    steps: tuple[str, ...] = ()


class RunCancelled(Event, frozen=True, gc=False):
    """It was ended. `seen_at` is when its owner was last seen alive, if that was dead."""

    reason: str = ""
    by: str = ""
    seen_at: int = 0


class CancelRequested(Event, frozen=True, gc=False):
    """A person wants the run to end; its owner ends it when it reads this."""

    reason: str = ""
    by: str = ""


class PauseRequested(Event, frozen=True, gc=False):
    """A person wants the run to stop at its next step boundary."""

    reason: str = ""
    by: str = ""


class RunPaused(Event, frozen=True, gc=False):
    """No process continues it before a person resumes it. `seen_at` as in `RunCancelled`.

    budget  the budget that stopped it; empty if none did
    short   by how much that is short, by unit; 0 if it is not known
    """

    reason: str = ""
    by: str = ""
    seen_at: int = 0
    budget: str = ""
    short: Mapping[str, str | int | None] = {}


class SignalReceived(Event, frozen=True, gc=False):
    """Kept until a `wait_for` of that name takes it."""

    name: str
    value: msgspec.Raw = NOTHING
    blob: str = ""
    by: str = ""


class Rewound(Event, frozen=True, gc=False):
    """A new generation opens; what its parent recorded after `version` no longer counts. The owner
    before is fenced off by `epoch`; `operation` is what it is a part of."""

    generation: int
    parent: int
    version: int
    epoch: int = 0
    operation: str = ""


class GenerationRestored(Event, frozen=True, gc=False):
    """A generation that was put aside is the live one again, as it was left; the one that was live is
    put aside."""

    generation: int
    epoch: int = 0
    operation: str = ""


class RunForked(Event, frozen=True, gc=False):
    """All that this run has recorded so far is a copy of what `origin` had recorded at `version`, before
    or up to its step `step`. It continues when a person resumes it."""

    origin: str
    step: str
    version: int
    by: str = ""
    ordered: bool = False
    """The order of the outcomes in the copy is the order in which the code of `origin` received them."""


RUN_ENDS: Final = ("RunCompleted", "RunFailed", "RunCancelled")
"""Types of the events that end a run."""


FENCING: Final = (RunClaimed, Rewound, GenerationRestored)
"""Events with an epoch: from there on every earlier owner is refused."""
