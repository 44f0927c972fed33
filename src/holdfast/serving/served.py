"""The reports of `hf.serve`: each run that is taken, and at the end how many were served."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec


class Taken(msgspec.Struct, frozen=True):
    """A run that a serving process has just claimed, as it was before the claim.

    run_id     the run
    workflow   its workflow, redacted
    pid        the process that has it now
    status     its status before
    owner      the owner that it named, which is dead; empty if it was released
    owner_pid  the process of that owner; None if the store no longer knows it
    """

    run_id: str
    workflow: str
    pid: int
    status: str
    owner: str = ""
    owner_pid: int | None = None

    JSON: ClassVar = {
        "run": "the run",
        "workflow": "its workflow",
        "pid": "the process that has it now",
        "status": "its status before",
        "owner": "the dead owner that it named, or null",
        "owner_pid": "the process of that owner; null if it is not known",
    }

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run_id,
            "workflow": self.workflow,
            "pid": self.pid,
            "status": self.status,
            "owner": self.owner or None,
            "owner_pid": self.owner_pid,
        }


class Served(msgspec.Struct, frozen=True):
    """The result of serving a store.

    count    how often a run was brought to its end, to where it waits, or could not be executed
    stopped  whether serving ended because it was stopped, and not because nothing was left to do
    """

    count: int
    stopped: bool

    JSON: ClassVar = {
        "count": "how often a run was brought to its end, to where it waits, or could not be executed",
        "stopped": "true: serving was stopped; false: nothing was left to do",
    }

    def to_json(self) -> dict[str, Any]:
        return {"count": self.count, "stopped": self.stopped}
