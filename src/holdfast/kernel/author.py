"""The author of an event of the tracker: the actor, and the run, step or session that it acted in."""

from __future__ import annotations

import msgspec


class Author(msgspec.Struct, frozen=True, omit_defaults=True):
    """The author of an event on a task, a link, a session or the memory.

    by           a person, or the name that an agent works under
    session      the session it belongs to; empty if there is none
    run          the run that wrote it, from its code or from the body of a step; empty if no run did
    generation   the run's live generation then
    step         the key of the step
    run_version  the version of the run then: whatever the run's log says of this event comes after it. A
                 rewind that keeps the run up to version V keeps this event only if `run_version < V` and the
                 step is among those that are kept
    """

    by: str = ""
    session: str = ""
    run: str = ""
    generation: int = 0
    step: str = ""
    run_version: int = 0

    @property
    def place(self) -> tuple[str, str, int]:
        """Which step of which run: the same when that runs again."""
        return self.run, self.step, self.generation

    def is_step_of(self, other: Author) -> bool:
        """Whether both wrote from the same step of a run: a step that runs again after a crash, or is tried
        again, finds what it has done already."""
        return bool(self.run and self.step) and self.place == other.place


NOBODY = Author()
