"""Every error holdfast raises, in one tree.

HoldfastError
├── BadInput                the request itself is wrong (usage)
│   ├── BadArguments        arguments that do not fit a signature
│   ├── BadRunId            an id outside [A-Za-z0-9._-]{1,128}
│   ├── AmbiguousRunId      the beginning of more than one id
│   ├── Refused             a command that does not fit the run's state
│   │   ├── OnceAgain       `once` steps that were done would run again
│   │   ├── PlanChanged     what would be done now is not what was previewed
│   │   ├── LinkCycle       a link between tasks would close a cycle
│   │   ├── CheckFailed     a check of a task failed, so it is not completed
│   │   └── EndedElsewhere  the worker process of a run could not be started, or ended in the middle
│   ├── PlanFaults          a plan file with faults
│   ├── BadExpression       an expression of a plan that cannot be read, or has no value
│   ├── SettingsError       a setting that is unknown or has a wrong value
│   ├── NotTrusted          settings, a store or code from somewhere else, or that others can change
│   ├── Pushed              going back would drop commits that a remote has
│   ├── BadWorkspace        a directory that cannot be a workspace, or a path outside it
│   └── WrongColour         a blocking call inside an event loop, or the reverse
├── NotFound                something named is not there
│   ├── RunNotFound         no run has that id
│   ├── StepNotFound        the run has no such step
│   ├── CodeNotFound        the workflow of a run cannot be imported
│   │   └── CodeClash       its modules would mix with those of other code in this process
│   ├── TaskNotFound        no task has that id
│   │   └── TaskDeleted     the id was that of a task that was deleted
│   ├── SessionNotFound     no session has that id
│   ├── EvidenceNotFound    the run has no evidence, or none of that milestone
│   ├── SnapshotNotFound    no snapshot has that id
│   ├── ProgramNotFound     a command names no program
│   └── AgentNotFound       no agent has that name or role
├── RunExists               the id is taken by a run with other arguments
├── RunArchived             the id was that of a run that was archived
│   └── RunDeleted          the id was that of a run that was deleted
├── RunHeld                 another live process executes the run
├── TaskHeld                another has claimed the task
├── ClaimLost               the claim has ended, or the task was claimed again since
├── RunWaiting              the run waits: for a person, a signal or a time
├── RunPaused               the run was paused
│   ├── AllFailed           all candidates for a piece of work failed
│   └── BudgetReached       a budget has not enough left for the next step
├── RunCancelled            the run was cancelled
├── RunInterrupted          the run stopped without an end; it can be resumed
├── GateError               a decision that does not fit its gate
├── NeedsAttention          a person must decide before the run continues
│   ├── InDoubt             a `once` step was cut off; its outcome is unknown
│   ├── DivergenceError     the code no longer matches the history
│   └── CrashLoop           taken over again and again without progress
├── StepError               a step failed; stands in for a class that cannot be rebuilt
├── CommandFailed           a command ended with a code other than 0
├── NotApproved             an approval of a plan was rejected, or not answered in time
├── NotDelivered            a delivery was sent back as often as it may be
├── StepTimeout             a step took longer than its limit
├── ToolFailed              a tool could not do what it was asked for
├── AgentFailed             an agent reported that it could not do its job
├── ModelFailed             a model provider refused a request, or did not answer
├── WorkspaceError          files could not be saved or put back
│   ├── ContentsDamaged     a saved content is missing or not what it was
│   ├── WorkspaceConflict   a step in a copy and others changed the same files
│   ├── GitError            the git repository cannot be moved
│   │   ├── GitFailed       git ended with an error
│   │   ├── GitBusy         another process is at work in the repository
│   │   └── RollbackRefused  what an attempt did to the repository cannot be rolled back
│   └── RestoreUndone       a restore failed, and the files are as they were before it
├── NotStorable             a value that JSON with tags cannot carry
├── DetachedStep            a step was called outside the run it belongs to (also a warning)
├── ArgumentChanged         a step changed its argument, which is a copy (a warning)
├── NotAwaited              a workflow ended without having awaited what it called
└── StoreError              the store cannot be used
    ├── StoreVanished       its file is gone from under a live process
    ├── StoreHeld           a live process uses it, so it cannot be replaced
    ├── StoreCorrupt        it is damaged, or its chain does not verify
    ├── StoreForeign        the file is a database, but not ours
    ├── StoreNewer          a newer holdfast wrote it
    ├── StoreFull           no room on the disk
    ├── StoreReadOnly       no permission to write
    ├── StoreOnNetwork      network filesystems cannot keep the promise
    ├── StoreInDoubt        an I/O error hid whether a commit took place
    ├── StoreClosed         used after close, or in a forked child
    ├── Resync              a feed cursor of another history of the store
    └── OwnershipLost       another owner has taken the run over

Each class has a stable `code` for programs and the `exit_code` of the CLI. A message is one
sentence that names the thing, says what happened and what to do next.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, ClassVar

from holdfast.ways import VALUE, Way, quoted


def not_text(text: str) -> str:
    """The sentence on a name with bytes that are not UTF-8, which Python passes on as lone surrogates."""
    shown = text if len(text) <= 200 else f"{text[:200]}..."
    return f"{shown!r} has bytes that are not UTF-8, and the log keeps only text: name it otherwise"


_LIST = quoted(Way("list"))


class HoldfastError(Exception):
    """The root: catch it to catch everything that holdfast itself raises."""

    code: ClassVar[str] = "holdfast"
    exit_code: ClassVar[int] = 70

    @property
    def ways(self) -> tuple[Way, ...]:
        """The ways to continue, as data; the message names the same as command lines."""
        return ()


def told(error: HoldfastError, more: str) -> HoldfastError:
    """Another error of the same kind that says more. The one that was raised may be that of others too, who
    shared a commit."""
    fuller = type(error).__new__(type(error))
    fuller.__dict__.update(vars(error))
    fuller.args = (f"{error}; {more}",)
    return fuller


class BadInput(HoldfastError):
    code = "bad_input"
    exit_code = 2


class BadArguments(BadInput, TypeError):
    code = "bad_arguments"


class BadRunId(BadInput, ValueError):
    code = "bad_run_id"


class Refused(BadInput):
    """The command does not fit the run's state."""

    code = "refused"


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
        super().__init__(
            f"run {run_id} would do again what is to be done once: {listed}; if that is meant, say so with "
            "--rerun-once"
        )


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


class PlanFaults(BadInput):
    """A plan file cannot run. `faults` has all that is wrong with it, in the order of its lines."""

    code = "plan_faults"

    def __init__(self, plan: str, faults: Sequence[Any]) -> None:
        self.plan = plan
        self.faults = tuple(faults)
        count = f"{len(self.faults)} faults" if len(self.faults) != 1 else "a fault"
        super().__init__(f"{plan} has {count}: {'; '.join(map(str, self.faults[:20]))}")


class BadExpression(BadInput):
    """An expression of a plan that cannot be read, or has no value."""

    code = "bad_expression"


class SettingsError(BadInput):
    code = "bad_setting"


class NotTrusted(BadInput):
    """A file or store came from somewhere else, or others can change it."""

    code = "not_trusted"
    exit_code = 9


class BadWorkspace(BadInput):
    code = "bad_workspace"


class WrongColour(BadInput, RuntimeError):
    code = "wrong_colour"


class Pushed(Refused):
    """Going back would drop commits that a remote has."""

    code = "pushed"

    def __init__(self, ref: str, commits: Sequence[str], revert: str) -> None:
        self.ref = ref
        self.commits = tuple(commits)
        self.revert = revert
        more = f" and {len(self.commits) - 5} more" if len(self.commits) > 5 else ""
        way = f"`{revert}` takes them back with new commits; " if revert else ""
        super().__init__(
            f"{ref} cannot go back: a remote has {', '.join(self.commits[:5])}{more}. Nothing was done; "
            f"{way}without --git the rewind leaves the repository as it is"
        )


class NotFound(HoldfastError):
    code = "not_found"
    exit_code = 3


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


class TaskNotFound(NotFound, LookupError):
    code = "task_not_found"

    def __init__(self, task: str) -> None:
        super().__init__(f"there is no task {task!r}; `holdfast task list` shows them")
        self.task = task


class TaskDeleted(TaskNotFound):
    """`operation` deleted it. `final`: `gc` has freed its contents, so it cannot be brought back."""

    code = "task_deleted"

    def __init__(self, task: str, operation: str = "", *, final: bool = False) -> None:
        way = (
            "`holdfast gc` has made that final"
            if final
            else f"`holdfast undo {operation}` brings it back, until `holdfast gc` makes that final"
        )
        NotFound.__init__(self, f"task {task} was deleted; {way}")
        self.task = task
        self.operation = operation
        self.final = final


class SessionNotFound(NotFound, LookupError):
    code = "session_not_found"

    def __init__(self, session: str) -> None:
        super().__init__(f"there is no session {session!r}; `holdfast session list` shows them")
        self.session = session


class EvidenceNotFound(NotFound, LookupError):
    code = "evidence_not_found"

    def __init__(self, run_id: str, milestone: str = "", nearest: Sequence[str] = ()) -> None:
        self.run_id = run_id
        self.milestone = milestone
        self.nearest = tuple(nearest)
        if not milestone or not nearest:
            why = f"run {run_id} has no evidence: its code has reached no `milestone(...)`"
        else:
            why = f"run {run_id} has no milestone {milestone!r}; it has: {', '.join(self.nearest)}"
        super().__init__(why)


class SnapshotNotFound(NotFound, LookupError):
    code = "snapshot_not_found"

    def __init__(self, snapshot: str, restored_from: str = "") -> None:
        self.snapshot = snapshot
        self.restored_from = restored_from
        why = (
            f"there is no snapshot {snapshot!r}: the store was restored from the backup {restored_from}, "
            f"which holds no files; restore one that does ({quoted(Way('backup list'))}), or go back with "
            "--no-files"
        )
        super().__init__(
            why
            if restored_from
            else f"there is no snapshot {snapshot!r}, or {quoted(Way('gc'))} has removed it; "
            f"{quoted(Way('show', 'RUN', {'events': True}))} names those of a run"
        )


class ProgramNotFound(NotFound):
    code = "program_not_found"

    def __init__(self, program: str, hint: str = "") -> None:
        self.program = program
        super().__init__(f"no program {program!r} on the PATH{hint}")


class AgentNotFound(NotFound):
    """No agent is configured under that name or for that role. The message has lines to copy."""

    code = "agent_not_found"


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
            what = f"the history of run {run_id} was lost, and {file} keeps the damaged store"
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


class TaskHeld(HoldfastError):
    """The task is claimed: by `actor`, or the run `run`. `until` is when the lease ends, in
    microseconds; 0 for a run, which has the task until it ends."""

    code = "task_held"
    exit_code = 4

    def __init__(self, task: str, actor: str, number: int, until: int, run: str = "") -> None:
        if run:
            how = f"claimed by run {run} until that ends; `holdfast show {run}` shows it"
        else:
            moment = datetime.fromtimestamp(until / 1e6, UTC).astimezone()
            how = (
                f"claimed by {actor or 'nobody'} until {moment:%Y-%m-%d %H:%M:%S} (claim {number}); choose "
                f"another task, or end that claim with `holdfast task release {task[:8]} --number {number}`"
            )
        super().__init__(f"task {task[:8]} is {how}")
        self.task = task
        self.actor = actor
        self.number = number
        self.until = until
        self.run = run


class ClaimLost(HoldfastError):
    """The claim `number` has ended. `actor` has the task now, with the claim `last`; empty if none has
    it. `status` is that of the task."""

    code = "claim_lost"
    exit_code = 4

    def __init__(self, task: str, number: int, last: int, actor: str, status: str) -> None:
        now = f"{actor} has it with claim {last}" if actor else f"nobody has it, and it is {status}"
        super().__init__(
            f"claim {number} of task {task[:8]} has ended, and what was done under it does not count: {now}; "
            f"`holdfast task show {task[:8]}` shows the task"
        )
        self.task = task
        self.number = number
        self.last = last
        self.actor = actor
        self.status = status


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


class AllFailed(RunPaused):
    """Raised by `router.failover`; the reason names each candidate and why it failed."""

    code = "all_failed"


class BudgetReached(RunPaused):
    """The run is paused before a step that its budget cannot pay. Raise the budget and resume: the step is
    tried again, and nothing that is recorded runs twice.

    budget  its name, or that of a parent of the one that pays
    unit    `usd`, `tokens`, `seconds` or `steps`; the other fields are amounts of it
    needed  None if the step does not say: then nothing is left
    short   by how much each unit is short; 0 if that is not known
    """

    code = "budget_reached"
    exit_code = 7

    def __init__(
        self,
        run_id: str,
        budget: str,
        *,
        unit: str,
        limit: str | int | None,
        spent: str | int | None,
        reserved: str | int | None,
        needed: str | int | None,
        step: str,
        short: Mapping[str, str | int | None],
    ) -> None:
        self.budget = budget
        self.unit = unit
        self.limit = limit
        self.spent = spent
        self.reserved = reserved
        self.needed = needed
        self.step = step
        self.short = dict(short)
        needs = "more" if needed is None else needed
        super().__init__(
            run_id,
            f"budget {budget} is reached: {step} needs {needs} {unit}; of its {limit}, {spent} are spent and "
            f"{reserved} reserved; {quoted(self._raise(budget, self.short))} raises it",
        )

    def of_parent(self, run_id: str) -> BudgetReached:
        """The same for the run that waits for this one."""
        return BudgetReached(
            run_id, self.budget, unit=self.unit, limit=self.limit, spent=self.spent, reserved=self.reserved,
            needed=self.needed, step=self.step, short=self.short,
        )  # fmt: skip

    @staticmethod
    def _raise(budget: str, short: Mapping[str, str | int | None]) -> Way:
        more = {unit: amount if Decimal(amount or 0) else VALUE for unit, amount in short.items()}
        return Way("budget raise", "", {"name": budget, **more}, "raises the budget")

    @property
    def ways(self) -> tuple[Way, ...]:
        return (Way("resume", self.run_id, {}, "continues"), self._raise(self.budget, self.short))


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
        return (Way("resume", self.run_id, {}, "continues, once that is put right"),)


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


class StepError(HoldfastError):
    """A step failed with an error whose own class cannot be rebuilt from data.

    It keeps what is known: the original class's name, the message and the attributes.
    """

    code = "step_failed"
    exit_code = 1

    def __init__(self, type_name: str, message: str, attributes: Mapping[str, Any] | None = None) -> None:
        self.type_name = type_name
        self.message = message
        self.attributes: dict[str, Any] = dict(attributes or {})
        super().__init__(type_name, message, self.attributes)

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}" if self.message else self.type_name


class CommandFailed(HoldfastError):
    code = "command_failed"
    exit_code = 1

    def __init__(self, program: str, exit_code: int, output: str = "") -> None:
        self.program = program
        self.returncode = exit_code
        self.output = output
        super().__init__(program, exit_code, output)

    def __str__(self) -> str:
        how = (
            f"was ended by signal {-self.returncode}"
            if self.returncode < 0
            else f"ended with code {self.returncode}"
        )
        last = self.output.strip().splitlines()[-1:] if self.output else []
        return f"{self.program} {how}" + (f": {last[0]}" if last else "")


class NotApproved(HoldfastError):
    """An approval of a plan was rejected, or not answered in time. `key` is that of its gate: a rewind to
    it asks again."""

    code = "not_approved"
    exit_code = 1

    def __init__(self, run_id: str, key: str, why: str) -> None:
        self.run_id = run_id
        self.key = key
        self.why = why
        super().__init__(run_id, key, why)

    @property
    def ways(self) -> tuple[Way, ...]:
        return (Way("rewind", self.run_id, {"to": f"before:{self.key}"}, "asks again"),)

    def __str__(self) -> str:
        return f"{self.why}; {quoted(self.ways[0])} asks again"


class NotDelivered(HoldfastError):
    """A delivery was sent back as often as its bounds allow, or a role gave no verdict. `point` is where a
    rewind lets it be tried once more."""

    code = "not_delivered"
    exit_code = 1

    def __init__(self, run_id: str, stage: str, why: str, point: str) -> None:
        self.run_id = run_id
        self.stage = stage
        self.why = why
        self.point = point
        super().__init__(run_id, stage, why, point)

    @property
    def ways(self) -> tuple[Way, ...]:
        return (Way("rewind", self.run_id, {"to": self.point}, "goes back to before that round"),)

    def __str__(self) -> str:
        return f"{self.why}; {quoted(self.ways[0])} goes back to before that round, and the files with it"


class StepTimeout(HoldfastError, TimeoutError):
    code = "step_timeout"
    exit_code = 1

    def __init__(self, step: str, seconds: float, scope: str = "attempt") -> None:
        self.step = step
        self.seconds = seconds
        self.scope = scope
        super().__init__(step, seconds, scope)

    def __str__(self) -> str:
        return f"step {self.step}: the {self.scope} took longer than {self.seconds:g} s"


class ToolFailed(HoldfastError):
    """A tool could not do what it was asked for, and has changed nothing. The message is written for the
    model or
    person that called it: it names the fault and what to call instead."""

    code = "tool_failed"
    exit_code = 1


class AgentFailed(HoldfastError):
    """An agent reported that it could not do its job; `resume` lets it try again. `agent` is its name, `why`
    its own message."""

    code = "agent_failed"
    exit_code = 1

    def __init__(self, agent: str, why: str) -> None:
        self.agent = agent
        self.why = why
        super().__init__(agent, why)

    def __str__(self) -> str:
        return f"agent {self.agent} failed: {self.why}"


class ModelFailed(HoldfastError):
    """A model provider refused a request, or did not answer. `status` is that of HTTP, 0 if there was none;
    `temporary` says that the same request may succeed later."""

    code = "model_failed"
    exit_code = 1

    def __init__(
        self,
        model: str,
        why: str,
        status: int = 0,
        retry_after_s: float | None = None,
        *,
        temporary: bool = False,
    ) -> None:
        self.model = model
        self.why = why
        self.status = status
        self.retry_after_s = retry_after_s
        self.temporary = temporary
        super().__init__(model, why, status)

    def __str__(self) -> str:
        if self.status == 404:
            return f"{self.model} does not exist (404: {self.why}); name another model"
        if self.status in (401, 403):
            return f"{self.model} refuses the key ({self.status}: {self.why}); check the key"
        return f"{self.model} failed ({f'{self.status}: ' if self.status else ''}{self.why})"


class WorkspaceError(HoldfastError):
    code = "workspace"
    exit_code = 8


class ContentsDamaged(WorkspaceError):
    """Saved contents are missing or damaged; nothing was changed on their account."""

    code = "contents_damaged"

    def __init__(self, what: Sequence[str]) -> None:
        self.what = tuple(what)
        more = f" and {len(self.what) - 8} more" if len(self.what) > 8 else ""
        super().__init__(
            f"saved contents are missing or damaged: {', '.join(self.what[:8])}{more}; "
            f"{quoted(Way('workspace verify'))} checks all"
        )


class WorkspaceConflict(WorkspaceError):
    code = "workspace_conflict"

    def __init__(self, step: str, paths: Sequence[str]) -> None:
        self.step = step
        self.paths = tuple(paths)
        some = ", ".join(self.paths[:5]) + (f" and {len(self.paths) - 5} more" if len(self.paths) > 5 else "")
        super().__init__(
            f"step {step} worked in a copy, and somebody else changed the same files meanwhile: {some}; "
            "nothing of it was brought back: resume the run to do it again"
        )


class GitError(WorkspaceError):
    code = "git"


class GitFailed(GitError):
    """`output` is what git had printed until then."""

    code = "git_failed"

    def __init__(self, command: str, reason: str, output: bytes = b"") -> None:
        self.command = command
        self.reason = reason
        self.output = output
        super().__init__(f"git {command} failed: {reason}; put that right and try again")


class GitBusy(GitError):
    """Nothing was changed: it can be tried again."""

    code = "git_busy"
    exit_code = 4


class RollbackRefused(GitError):
    """An attempt that was cut off, or failed, changed the repository, and that cannot be rolled back; or what
    it changed is `unknown`, for a reason. Nothing was changed."""

    code = "rollback_refused"
    exit_code = 6

    def __init__(self, run_id: str, step: str, kept: Sequence[str], unknown: str = "") -> None:
        self.run_id = run_id
        self.step = step
        self.kept = tuple(kept)
        self.unknown = unknown
        some = ", ".join(self.kept[:5]) + (f" and {len(self.kept) - 5} more" if len(self.kept) > 5 else "")
        what = f"changed the git repository, and this cannot be rolled back: {some}"
        if unknown:
            what = f"may have changed the git repository, and this cannot be rolled back: {unknown}"
        super().__init__(
            f"the earlier attempt of step {step} {what}. "
            "Nothing was changed: put the repository right with git if need be, then "
            f"{quoted(Way('resume', run_id, {'keep_files': True}))} runs the step again on the files and the "
            "repository as they are"
        )


class RestoreUndone(WorkspaceError):
    code = "restore_undone"

    def __init__(self, why: str, unreachable: Sequence[str] = ()) -> None:
        self.why = why
        self.unreachable = tuple(unreachable)
        rest = (
            f", except what can no longer be reached: {', '.join(self.unreachable[:8])}"
            if unreachable
            else ""
        )
        super().__init__(f"the restore failed ({why}); the files are as they were before it{rest}")


class NotStorable(HoldfastError, TypeError):
    """A value that cannot be stored so that it comes back equal and of the same type."""

    code = "not_storable"
    exit_code = 1

    def __init__(self, path: str, why: str, where: str = "") -> None:
        self.path = path
        self.why = why
        self.where = where
        super().__init__(path, why, where)

    def __str__(self) -> str:
        place = f"{self.where} at {self.path}" if self.where else self.path
        return f"{place} cannot be stored: {self.why}"


class DetachedStep(HoldfastError, RuntimeWarning):
    code = "detached_step"
    exit_code = 2


class ArgumentChanged(HoldfastError, RuntimeWarning):
    code = "argument_changed"
    exit_code = 2


class NotAwaited(HoldfastError):
    code = "not_awaited"
    exit_code = 2


class StoreError(HoldfastError):
    code = "store"
    exit_code = 8


class StoreVanished(StoreError):
    code = "store_vanished"


class StoreHeld(StoreError):
    code = "store_held"
    exit_code = 4

    def __init__(self, home: object, pid: int = 0, host: str = "") -> None:
        self.home = home
        self.pid = pid
        self.host = host
        who = f"the live process {pid}" + (f" on {host}" if host else "") if pid else "another live process"
        super().__init__(f"the store in {home} is in use by {who}; wait for it or stop it, then try again")


class StoreCorrupt(StoreError):
    code = "store_corrupt"

    @property
    def ways(self) -> tuple[Way, ...]:
        return (Way("repair", "", {"dry_run": True}, "says what is damaged, and what can be saved"),)


class StoreForeign(StoreError):
    code = "store_foreign"


class StoreNewer(StoreError):
    code = "store_newer"


class StoreFull(StoreError):
    code = "store_full"


class StoreReadOnly(StoreError):
    code = "store_read_only"


_KINDS: dict[int, type[StoreError]] = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), StoreReadOnly),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), StoreFull),
}


def store_error_for(error: OSError) -> type[StoreError]:
    """The class that fits an error of the operating system: StoreFull, StoreReadOnly or StoreError."""
    return _KINDS.get(error.errno or 0, StoreError)


class StoreOnNetwork(StoreError):
    code = "store_on_network"


class StoreInDoubt(StoreError):
    code = "store_in_doubt"


class StoreClosed(StoreError):
    code = "store_closed"


class Resync(StoreError):
    """The cursor is of another history of this store (a restored backup): start from the beginning."""

    code = "resync"


class OwnershipLost(StoreError):
    code = "ownership_lost"
    exit_code = 4

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} was taken over by another owner; this process no longer writes to it")
