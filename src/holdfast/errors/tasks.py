"""Errors of tasks, the links between them, and sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from holdfast.errors.base import HoldfastError, NotFound, Refused


class LinkCycle(Refused):
    """The link would let a task wait for itself. `path` is the way around: it begins and ends with the
    task."""

    code = "link_cycle"

    def __init__(self, kind: str, path: Sequence[str], names: Mapping[str, str]) -> None:
        shown = " → ".join(f"{one[:8]} ({names.get(one, '')})" for one in path)
        verb = "needs" if kind == "blocks" else "is a part of"
        super().__init__(
            f"that closes a cycle, in which each {verb} the next: {shown}; remove one of the links first"
        )
        self.kind = kind
        self.path = list(path)


class CheckFailed(Refused):
    """A check of a task failed: the task is not completed. `output` is the end of what the command
    printed."""

    code = "check_failed"

    def __init__(self, task: str, command: str, how: str, output: str) -> None:
        text = f":\n{output}" if output else "; it printed nothing"
        super().__init__(
            f"task {task[:8]} is not completed: its check `{command}` {how}; repair that, or pass "
            f"--unchecked REASON to leave the checks out{text}"
        )
        self.task = task
        self.command = command
        self.output = output


class TaskNotFound(NotFound, LookupError):
    code = "task_not_found"

    def __init__(self, task: str) -> None:
        super().__init__(f"there is no task {task!r}; `holdfast task list` shows them")
        self.task = task


class TaskDeleted(TaskNotFound):
    """`operation` deleted it. `final`: `gc` has freed its contents, so it cannot be brought back."""

    code = "task_deleted"

    def __init__(self, task: str, operation: str = "", *, final: bool = False, where: str = "") -> None:
        way = (
            "`holdfast gc` has made that final"
            if final
            else f"`holdfast undo {operation}` brings it back, until `holdfast gc` makes that final"
        )
        NotFound.__init__(self, f"{where}task {task} was deleted; {way}")
        self.task = task
        self.operation = operation
        self.final = final


class SessionNotFound(NotFound, LookupError):
    code = "session_not_found"

    def __init__(self, session: str, known: Sequence[str] = (), *, setting: bool = False) -> None:
        """`setting`: the settings name it; `known` are the newest sessions that there are."""
        why = f"there is no session {session!r}; `holdfast session list` shows them"
        if setting:
            there = f"the newest are {', '.join(known)}" if known else "it has none"
            why = (
                f"the setting `session` (HOLDFAST_SESSION) names {session!r}, and the store has no such "
                f"session ({there}); unset it, or begin one with `holdfast session start`"
            )
        super().__init__(why)
        self.session = session


class TaskHeld(HoldfastError):
    """The task is claimed: by `actor`, or the run `run`. `until` is when the lease ends, in
    microseconds; 0 for a run, which has the task until it ends. `pid` is the live process that holds the
    claim, where that is the reason; else 0."""

    code = "task_held"
    exit_code = 4

    def __init__(self, task: str, actor: str, number: int, until: int, run: str = "", pid: int = 0) -> None:
        if run:
            how = f"claimed by run {run} until that ends; `holdfast show {run}` shows it"
        else:
            claimed = f"claimed by {actor or 'unknown'} until {_moment(until)} (claim {number})"
            if pid:
                claimed = f"held by live process {pid} ({claimed})"
            how = (
                f"{claimed}; choose another task, or end that claim with "
                f"`holdfast task release {task[:8]} --number {number}`"
            )
        super().__init__(f"task {task[:8]} is {how}")
        self.task = task
        self.actor = actor
        self.number = number
        self.until = until
        self.run = run
        self.pid = pid


class ClaimLost(HoldfastError):
    """The claim `number` has ended, or was never made; 0 if the caller named none. `actor` has the task now,
    with the claim `last`; empty if none has it. `status` is that of the task. If it is completed or failed,
    `by` did that, `at` so many microseconds since 1970."""

    code = "claim_lost"
    exit_code = 4

    def __init__(
        self, task: str, number: int, last: int, actor: str, status: str, by: str = "", at: int = 0
    ) -> None:
        now = f"{actor} has it with claim {last}" if actor else f"it is not claimed now, and is {status}"
        if by and at:
            end = "completed" if status == "completed" else "recorded as failed"
            now = f"it was {end} by {by} at {_moment(at)}"
        what = f"claim {number} of task {task[:8]}"
        if by and not number:
            what = f"task {task[:8]} is {status} already, and nothing was recorded"
        elif not 0 < number <= last:
            what += " was never made"
        else:
            what += " has ended, and what was done under it does not count"
        super().__init__(f"{what}: {now}; `holdfast task show {task[:8]}` shows the task")
        self.task = task
        self.number = number
        self.last = last
        self.actor = actor
        self.status = status
        self.by = by
        self.at = at


def _moment(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1e6, UTC).astimezone():%Y-%m-%d %H:%M:%S}"
