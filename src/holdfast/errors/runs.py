"""Errors of runs: their ids, their code, who holds them, and why they do not continue."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors.base import BadInput, HoldfastError, NotFound, Refused
from holdfast.ways import VALUE, Way, quoted

_LIST = quoted(Way("list"))


class BadRunId(BadInput, ValueError):
    code = "bad_run_id"


class EndedElsewhere(Refused):
    """The worker process that was to execute a run could not be started, or ended in the middle of it.
    `ended_with` is its exit code, negative for a signal."""

    code = "ended_elsewhere"
    ended_with = 1

    def __init__(self, why: str, ended_with: int) -> None:
        super().__init__(why)
        self.ended_with = ended_with


class OnceAgain(Refused):
    """The operation would repeat `once` steps that were done, or may have been."""

    code = "once_again"

    def __init__(self, run_id: str, steps: Sequence[str]) -> None:
        self.run_id = run_id
        self.steps = tuple(steps)
        listed = ", ".join(self.steps[:8]) + (f" and {len(steps) - 8} more" if len(steps) > 8 else "")
        super().__init__(f"run {run_id} would repeat `once` steps: {listed}; pass --rerun-once to allow it")


class PlanChanged(Refused):
    """An operation that was bound to its preview would do something else now."""

    code = "plan_changed"

    def __init__(self, plan: str, now: str = "", paths: Sequence[str] = ()) -> None:
        self.plan = plan
        self.now = now
        self.paths = tuple(paths)
        what = ", ".join(self.paths[:8]) if paths else "files, steps or refs"
        new = f" ({now[:12]})" if now else ""
        super().__init__(
            f"what would be done now is not plan {plan[:12]}: {what} changed since the preview. Nothing "
            f"was done; "
            f"preview it again with --dry-run, then pass the new plan{new}"
        )


class RunNotFound(NotFound, LookupError):
    code = "run_not_found"

    def __init__(self, run_id: str, nearest: Sequence[str] = ()) -> None:
        self.run_id = run_id
        self.nearest = tuple(nearest)
        hint = f"; nearest: {', '.join(self.nearest)}" if self.nearest else f"; {_LIST} shows all"
        super().__init__(f"no run has the id {run_id!r}{hint}")

    @property
    def ways(self) -> tuple[Way, ...]:
        return (Way("list"),)


class AmbiguousRunId(BadInput):
    code = "ambiguous_run_id"

    def __init__(self, prefix: str, matches: Sequence[str]) -> None:
        self.prefix = prefix
        self.matches = tuple(matches)
        super().__init__(
            f"{prefix!r} is the start of several runs: {', '.join(self.matches[:8])}; type more of it"
        )


class StepNotFound(NotFound, LookupError):
    code = "step_not_found"

    def __init__(self, run_id: str, step: str, nearest: Sequence[str] = ()) -> None:
        self.run_id = run_id
        self.step = step
        self.nearest = tuple(nearest)
        hint = f"; nearest: {', '.join(self.nearest)}" if self.nearest else ""
        super().__init__(f"run {run_id} has no step {step!r}{hint}")


class CodeNotFound(NotFound):
    code = "code_not_found"

    def __init__(self, workflow: str, why: str) -> None:
        self.workflow = workflow
        self.why = why
        super().__init__(f"{workflow} cannot be loaded: {why}")


class CodeClash(CodeNotFound):
    """One process cannot have the modules of both directories; `holdfast resume` starts one for each."""

    code = "code_clash"


class RunExists(HoldfastError):
    code = "run_exists"
    exit_code = 2

    def __init__(self, run_id: str, difference: str) -> None:
        self.run_id = run_id
        self.difference = difference
        super().__init__(f"run {run_id} exists with {difference}; choose another id, or start it as it was")


class RunArchived(HoldfastError):
    code = "run_archived"
    exit_code = 2

    def __init__(self, run_id: str, file: str = "") -> None:
        self.run_id = run_id
        self.file = file
        what = f"run {run_id} has ended and was archived"
        if file.startswith("before-repair-"):
            # The store may have been gone: then the report is all that is there.
            what = (
                f"the history of run {run_id} was lost; {file} has the report of the repair, and the files "
            )
            what += "that were left of the store"
        elif file:
            what += f" in {file}, which has its history"
        super().__init__(f"{what}; for a new run choose another id")


class RunDeleted(RunArchived):
    """`operation` deleted it. `final`: `gc` has freed its contents, so it cannot be brought back."""

    code = "run_deleted"

    def __init__(self, run_id: str, operation: str = "", *, final: bool = False) -> None:
        self.run_id = run_id
        self.file = ""
        self.operation = operation
        self.final = final
        way = (
            "`holdfast gc` has made that final"
            if final
            else f"`holdfast undo {operation}` brings it back, until `holdfast gc` makes that final"
        )
        HoldfastError.__init__(self, f"run {run_id} was deleted; {way}; for a new run choose another id")


class RunHeld(HoldfastError):
    code = "run_held"
    exit_code = 4

    def __init__(self, run_id: str, pid: int, host: str, way: str = "") -> None:
        self.run_id = run_id
        self.pid = pid
        self.host = host
        way = way or f"wait for it, stop it, or, if it hangs, {quoted(self.ways[0])}"
        super().__init__(f"run {run_id} is held by the live process {pid} on {host}; {way}")

    @property
    def ways(self) -> tuple[Way, ...]:
        return (Way("resume", self.run_id, {"take_over": True}, "takes it from a process that hangs"),)


class RunWaiting(HoldfastError):
    code = "run_waiting"
    exit_code = 5

    def __init__(self, run_id: str, what: str) -> None:
        self.run_id = run_id
        self.what = what
        super().__init__(f"run {run_id} waits: {what}")


class RunPaused(HoldfastError):
    code = "run_paused"
    exit_code = 7

    def __init__(self, run_id: str, reason: str, by: str = "") -> None:
        self.run_id = run_id
        self.reason = reason
        self.by = by
        who = f" by {by}" if by else ""
        why = f": {reason}" if reason else ""
        super().__init__(f"run {run_id} is paused{who}{why}; {quoted(self.ways[0])} continues")

    @property
    def ways(self) -> tuple[Way, ...]:
        return (Way("resume", self.run_id, {}, "continues"),)


class RunCancelled(HoldfastError):
    code = "run_cancelled"
    exit_code = 1

    def __init__(self, run_id: str, reason: str = "") -> None:
        self.run_id = run_id
        self.reason = reason
        super().__init__(f"run {run_id} was cancelled" + (f": {reason}" if reason else ""))


class RunInterrupted(HoldfastError):
    code = "run_interrupted"
    exit_code = 130

    def __init__(self, run_id: str, why: str = "its driver was stopped") -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} is interrupted: {why}; {quoted(self.ways[0])} continues")

    @property
    def ways(self) -> tuple[Way, ...]:
        return (Way("resume", self.run_id, {}, "continues"),)


class GateError(HoldfastError):
    code = "gate"
    exit_code = 2


class NeedsAttention(HoldfastError):
    """A person must decide before the run continues; the message says how."""

    code = "needs_attention"
    exit_code = 6

    def __init__(self, run_id: str, reason: str) -> None:
        self.run_id = run_id
        self.reason = reason
        super().__init__(f"run {run_id} needs attention: {reason}")

    @property
    def ways(self) -> tuple[Way, ...]:
        return (Way("resume", self.run_id, {}, "continues, once that is fixed"),)


class InDoubt(NeedsAttention):
    code = "in_doubt"

    def __init__(self, run_id: str, step: str, why: str) -> None:
        self.step = step
        done = Way("settle", run_id, {"step": step, "done": VALUE}).shell()
        super().__init__(
            run_id,
            f"step {step} {why}, so it may or may not have happened; look, then `{done} | --retry | --fail`",
        )

    @property
    def ways(self) -> tuple[Way, ...]:
        return tuple(
            Way("settle", self.run_id, {"step": self.step, outcome: value}, effect)
            for outcome, value, effect in (
                ("done", VALUE, "it happened, and this is its result"),
                ("retry", True, "it did not happen: run it"),
                ("fail", "", "it failed"),
            )
        )


class DivergenceError(NeedsAttention):
    code = "divergence"

    def __init__(self, run_id: str, recorded: str, called: str) -> None:
        self.recorded = recorded
        self.called = called
        super().__init__(
            run_id,
            f"the code no longer matches the history: recorded is {recorded}, the code calls {called}; "
            f"restore the code and {quoted(Way('resume', run_id))}",
        )


class CrashLoop(NeedsAttention):
    code = "crash_loop"

    def __init__(self, run_id: str, takeovers: int) -> None:
        self.takeovers = takeovers
        super().__init__(
            run_id,
            f"it was taken over {takeovers} times without progress, so recovery leaves it alone; "
            f"{quoted(Way('resume', run_id))} tries it again",
        )
