"""The reports of `hf.serve`: each run that is taken, and at the end how many were served."""

from __future__ import annotations

from typing import ClassVar

from holdfast.json_view import View


class Taken(View, frozen=True):
    """A run that a serving process has just claimed, as it was before the claim. `owner` is empty if it was
    released. `JSON` says what each field is."""

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
    JSON_FROM: ClassVar = {"run": "run_id"}
    JSON_NULL: ClassVar = ("owner",)


class Served(View, frozen=True):
    """The result of serving a store."""

    count: int
    stopped: bool

    JSON: ClassVar = {
        "count": "how often a run was brought to its end, to where it waits, or could not be executed",
        "stopped": "true: serving was stopped; false: nothing was left to do",
    }
