"""`hf.aio`: the methods of a Holdfast that do I/O, as coroutines. Written by `tools/async_handle.py`: change
the façade, and write it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from holdfast.coroutines import AsyncNamespace, Coroutines
from holdfast.facade.maintenance import ARCHIVE_AFTER
from holdfast.facade.steering import PATIENCE_S, UNSET
from holdfast.facade.tasks import DAY_S, LEASE_S

if TYPE_CHECKING:
    import builtins
    import os
    import threading
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta
    from decimal import Decimal
    from typing import IO, Any

    from holdfast.agents.deliver.policies import Policy
    from holdfast.agents.learning.skill_file import SkillFault
    from holdfast.engine.execution.step_options import Seconds
    from holdfast.engine.outside.records import LogEvent
    from holdfast.engine.runs.run import Run
    from holdfast.facade.claim import Claim
    from holdfast.facade.serving import OnReplayed, OnServed
    from holdfast.operations.archiving import Archive
    from holdfast.operations.checkpoints import CheckpointInfo
    from holdfast.operations.deleting import Deletion
    from holdfast.operations.disk_usage import Coverage, FilesVerified, Usage
    from holdfast.operations.forking import Fork
    from holdfast.operations.operation_log import OperationInfo
    from holdfast.operations.quota import Collected
    from holdfast.operations.repairing.report import RepairReport
    from holdfast.operations.replaying import Replay
    from holdfast.operations.restoring import Restored
    from holdfast.operations.rewinding import Rewind
    from holdfast.operations.undoing import Undo
    from holdfast.plans.analyzer import Analysis
    from holdfast.plans.model import Plan
    from holdfast.serving.resumption import Resumption
    from holdfast.serving.served import Served, Taken
    from holdfast.store.port import OwnerRow
    from holdfast.store.sqlite.backup import Backup, Progress
    from holdfast.tracker.exchange import Imported
    from holdfast.views.audit import Audit, Repaired
    from holdfast.views.budget import Budget
    from holdfast.views.check import Check
    from holdfast.views.evidence import Evidence, EvidenceInfo, Verification
    from holdfast.views.feed import FeedPage
    from holdfast.views.gate import Gate
    from holdfast.views.learning import CandidateStats, SkillInfo, SkillStats
    from holdfast.views.memory import Memory
    from holdfast.views.mirror import MirrorImport, MirrorRebuilt, MirrorStatus
    from holdfast.views.records import LogLine, RunInfo, RunPage, StepInfo
    from holdfast.views.restored_backup import RestoredBackup
    from holdfast.views.run_statistics import RunStatistics
    from holdfast.views.search_hit import SearchPage
    from holdfast.views.session import WorkSession
    from holdfast.views.statistics import Statistics
    from holdfast.views.step_detail import StepDetail
    from holdfast.views.task import Task, TaskDetail, TaskEvent, TaskNode
    from holdfast.views.trusted import Granted, TrustRecord
    from holdfast.workspace.snapshots.file_diff import FileDiff


class AsyncTasks(AsyncNamespace):
    """`hf.aio.tasks`: the methods of `hf.tasks` as coroutines."""

    async def get(self, id: str, *, at: int | datetime | str | None = None) -> Task:
        """A task by its id; with `at`, as it was at a version or a time. Raises `TaskNotFound`."""
        return await self._call(self._namespace.get, id, at=at)

    async def find(self, text: str) -> str:
        """The id that a person means: a whole id, or its beginning of at least four characters. `#42` is the
        task with that short number; so is `42`, if no id begins so. Raises `TaskNotFound`, and `BadInput`
        if several begin so."""
        return await self._call(self._namespace.find, text)

    async def list(
        self,
        status: str | Sequence[str] | None = None,
        label: str | None = None,
        assignee: str | None = None,
        session: str | None = None,
        limit: int | None = None,
        archived: bool = False,
        blocked: bool = False,
    ) -> builtins.list[Task]:
        """Tasks, the most urgent first, of equally urgent ones the oldest. `archived` adds those that are.
        `blocked` leaves only open ones that are blocked or need an open task."""
        return await self._call(
            self._namespace.list, status, label, assignee, session, limit, archived, blocked
        )

    async def ready(
        self, limit: int | None = 50, label: str | None = None, assignee: str | None = None
    ) -> builtins.list[Task]:
        """Tasks that can be claimed now, the most urgent first: pending, not blocked, without an open task
        that they need; and those whose claim is dead. With `label`, those that have it; with `assignee`,
        those for that person or agent, or for no one."""
        return await self._call(self._namespace.ready, limit, label, assignee)

    async def show(self, id: str, *, at: int | datetime | str | None = None) -> TaskDetail:
        """A task with its links and notes; with `at`, as it was at a version or a time (without an offset,
        the time here). Raises `TaskNotFound`, and `NotFound` if the task has no such moment."""
        return await self._call(self._namespace.show, id, at=at)

    async def events(self, id: str) -> builtins.list[TaskEvent]:
        """The history of a task, event by event. Raises `TaskNotFound`."""
        return await self._call(self._namespace.events, id)

    async def tree(self, id: str) -> builtins.list[TaskNode]:
        """A task and all that are parts of it, each before its own parts. Raises `TaskNotFound`."""
        return await self._call(self._namespace.tree, id)

    async def current(self) -> Task | None:
        """The task that the caller claimed last in the session of this process, or else in any, without
        those that another live process holds: what `resume` continues. None if there is none."""
        return await self._call(self._namespace.current)

    async def create(
        self,
        name: str,
        *,
        body: str = "",
        needs: Sequence[str] = (),
        parent: str | None = None,
        discovered_from: str | None = None,
        priority: int = 2,
        labels: Sequence[str] = (),
        assignee: str = "",
        due: datetime | None = None,
        checks: Sequence[str] = (),
        meta: dict[str, Any] | None = None,
    ) -> Task:
        """Create a task with its links, in one commit."""
        return await self._call(
            self._namespace.create,
            name,
            body=body,
            needs=needs,
            parent=parent,
            discovered_from=discovered_from,
            priority=priority,
            labels=labels,
            assignee=assignee,
            due=due,
            checks=checks,
            meta=meta,
        )

    async def edit(
        self,
        id: str,
        *,
        name: str | None = None,
        body: str | None = None,
        priority: int | None = None,
        labels: Sequence[str] | None = None,
        assignee: str | None = None,
        due: datetime | None = None,
        checks: Sequence[str] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Task:
        """Change fields of a task; what they were is recorded. Those that are None stay as they are."""
        return await self._call(
            self._namespace.edit,
            id,
            name=name,
            body=body,
            priority=priority,
            labels=labels,
            assignee=assignee,
            due=due,
            checks=checks,
            meta=meta,
        )

    async def claim(
        self,
        id: str | None = None,
        *,
        lease: float = LEASE_S,
        holder: int | None = None,
        label: str | None = None,
        assignee: str | None = None,
    ) -> Claim | None:
        """Claim a task, or without an id the most urgent one that is ready, of those with a `label` if one
        is given, and of those for an `assignee` or for no one if one is given; None if none is."""
        return await self._call(
            self._namespace.claim, id, lease=lease, holder=holder, label=label, assignee=assignee
        )

    async def start(self, id: str, *, lease: float = DAY_S) -> TaskDetail:
        """Claim a task for a person, in their open session or, in the same commit, a new one; returns it
        with links and notes."""
        return await self._call(self._namespace.start, id, lease=lease)

    async def resume(self, id: str | None = None, *, lease: float = DAY_S) -> TaskDetail:
        """Continue the caller's task that was in progress, or the one that is named, in a new process: its
        claim is renewed, or made again if it has ended. Raises `NotFound` if no task of the caller is in
        progress, `TaskHeld` if another live process, or another actor, holds the claim."""
        return await self._call(self._namespace.resume, id, lease=lease)

    async def renew(self, id: str, number: int | None = None, *, lease: float = LEASE_S) -> Task:
        """Let the lease of a claim end so many seconds from now. Without `number`, that of the caller's own
        claim. Raises `ClaimLost` if the task was claimed again since."""
        return await self._call(self._namespace.renew, id, number, lease=lease)

    async def release(self, id: str, number: int | None = None, *, reason: str = "") -> Task:
        """Give a claim up: the task is pending again. Without `number`, the caller's own claim."""
        return await self._call(self._namespace.release, id, number, reason=reason)

    async def complete(
        self,
        id: str,
        number: int | None = None,
        *,
        summary: str = "",
        evidence: Any = None,
        unchecked: str | None = None,
        anyway: str | None = None,
    ) -> Task:
        """Complete a task, after its checks have succeeded. Without `number`, under the caller's own claim,
        or none. `unchecked` leaves the checks out, and says why; `anyway` says why it counts as completed
        although a task that it needs is open."""
        return await self._call(
            self._namespace.complete,
            id,
            number,
            summary=summary,
            evidence=evidence,
            unchecked=unchecked,
            anyway=anyway,
        )

    async def fail(self, id: str, why: str, number: int | None = None) -> Task:
        """Record a task as failed, with the reason. It still holds up what needs it."""
        return await self._call(self._namespace.fail, id, why, number)

    async def block(self, id: str, reason: str) -> Task:
        """Block a task, with a reason: it is not ready until `unblock`."""
        return await self._call(self._namespace.block, id, reason)

    async def unblock(self, id: str) -> Task:
        """Remove the reason that blocks a task."""
        return await self._call(self._namespace.unblock, id)

    async def reopen(self, id: str, reason: str = "") -> Task:
        """Make a task that is completed, failed or archived pending again."""
        return await self._call(self._namespace.reopen, id, reason)

    async def note(self, id: str, text: str, kind: str = "note") -> Task:
        """Add a note to a task. `kind` is `note`, `decision`, `scope`, `file`, `plan`, `review`,
        `verification` or `log`."""
        return await self._call(self._namespace.note, id, text, kind)

    async def archive(self, id: str, reason: str = "") -> Task:
        """Take a task out of the lists. It no longer holds up what needs it; `reopen` brings it back."""
        return await self._call(self._namespace.archive, id, reason)

    async def link(self, id: str, on: str, kind: str = "blocks") -> bool:
        """Link a task to another: with `blocks` it needs `on`, with `parent` it is a part of it; also
        `discovered-from` and `related`. Returns False if it is linked so already. Raises `LinkCycle`,
        which names the cycle."""
        return await self._call(self._namespace.link, id, on, kind)

    async def unlink(self, id: str, on: str, kind: str = "blocks") -> None:
        """Remove a link. Raises `NotFound` if there is none."""
        return await self._call(self._namespace.unlink, id, on, kind)

    async def export(self, path: str | os.PathLike[str] | IO[bytes]) -> int:
        """Write all tasks with their histories and links to a file, a JSON object on each line; returns how
        many lines. The file is replaced as a whole or not at all; one that is open is written to."""
        return await self._call(self._namespace.export, path)

    async def import_(self, path: str | os.PathLike[str] | IO[bytes]) -> Imported:
        """Import tasks from a file that `export` wrote, or with an object like `{"name": "..."}` on each
        line; `path` may be an open file. The whole file is checked first: `BadInput` names a wrong line,
        and nothing is imported."""
        return await self._call(self._namespace.import_, path)


class AsyncSessions(AsyncNamespace):
    """`hf.aio.sessions`: the methods of `hf.sessions` as coroutines."""

    async def start(self, actor: str | None = None) -> WorkSession:
        """Begin a session of `actor`, or of the user."""
        return await self._call(self._namespace.start, actor)

    async def end(self, id: str | None = None, summary: str = "") -> WorkSession:
        """End a session, or the one that this process works in. Raises `SessionNotFound`, and `Refused` if
        it has ended."""
        return await self._call(self._namespace.end, id, summary)

    async def get(self, id: str) -> WorkSession:
        """A session by its id. Raises `SessionNotFound`."""
        return await self._call(self._namespace.get, id)

    async def find(self, text: str) -> str:
        """The id that a person means: a whole id, or its beginning of at least four characters."""
        return await self._call(self._namespace.find, text)

    async def list(self, limit: int | None = None) -> list[WorkSession]:
        """Sessions, the newest first."""
        return await self._call(self._namespace.list, limit)


class AsyncMemoryNamespace(AsyncNamespace):
    """`hf.aio.memory`: the methods of `hf.memory` as coroutines."""

    async def remember(
        self,
        text: str,
        *,
        kind: str = "fact",
        scope: str = "project",
        source: str = "",
        cites: Sequence[str] = (),
        supersedes: str | None = None,
    ) -> Memory:
        """Keep a decision, a pattern or a fact for later sessions. Its text is redacted when recorded."""
        return await self._call(
            self._namespace.remember,
            text,
            kind=kind,
            scope=scope,
            source=source,
            cites=cites,
            supersedes=supersedes,
        )

    async def withdraw(self, id: str, why: str = "") -> Memory:
        """A memory, named by its id or the beginning of it, no longer counts. It is kept, and `recall` shows
        it only with `every`. `undo` restores it."""
        return await self._call(self._namespace.withdraw, id, why)

    async def recall(
        self,
        query: str = "",
        *,
        kind: str | None = None,
        scope: str | None = None,
        at: str | datetime | None = None,
        every: bool = False,
        limit: int | None = 20,
    ) -> builtins.list[Memory]:
        """The memories in which every word of `query` occurs, also inside a longer word, the newest first."""
        return await self._call(
            self._namespace.recall, query, kind=kind, scope=scope, at=at, every=every, limit=limit
        )

    async def list(
        self, *, kind: str | None = None, scope: str | None = None, every: bool = False
    ) -> builtins.list[Memory]:
        """All memories of that kind and scope, the newest first; `every` one, also those that are superseded
        or withdrawn."""
        return await self._call(self._namespace.list, kind=kind, scope=scope, every=every)

    async def get(self, id: str) -> Memory:
        """One memory, by its id or the beginning of it. Raises `NotFound` with the nearest ids."""
        return await self._call(self._namespace.get, id)


class AsyncEvidenceNamespace(AsyncNamespace):
    """`hf.aio.evidence`: the methods of `hf.evidence` as coroutines."""

    async def list(self, run_id: str | None = None) -> builtins.list[EvidenceInfo]:
        """The evidence of a run in the order of its milestones, or of all runs, the oldest run first.
        Evidence of a generation that was left does not count. Raises `RunNotFound`."""
        return await self._call(self._namespace.list, run_id)

    async def get(self, run_id: str, milestone: str | None = None) -> Evidence:
        """The evidence of a milestone, with its document; without `milestone`, of the last one. A name that
        was reached several times is the last of them; a key, such as `tests-pass#1`, names each. Raises
        `EvidenceNotFound`."""
        return await self._call(self._namespace.get, run_id, milestone)

    async def verify(
        self, run_id: str, milestone: str | None = None, *, at: str = "now", by: str | None = None
    ) -> builtins.list[Verification]:
        """Run the commands of a milestone again, or those of all milestones of the run, and compare exit
        codes and normalised output. The outcome is recorded: evidence whose commands were all equal is
        `reproduced`."""
        return await self._call(self._namespace.verify, run_id, milestone, at=at, by=by)

    async def export(self, run_id: str, directory: str | os.PathLike[str]) -> builtins.list[str]:
        """Write the documents of a run into a directory, which is made: one Markdown file for each
        milestone, `index.json`, and the images that they name in `images/`. Files of these names are
        replaced. Returns the paths. Raises `EvidenceNotFound`."""
        return await self._call(self._namespace.export, run_id, directory)


class AsyncBudgetNamespace(AsyncNamespace):
    """`hf.aio.budgets`: the methods of `hf.budgets` as coroutines."""

    async def set(
        self,
        name: str,
        *,
        usd: str | Decimal | int | None = None,
        tokens: int | str | None = None,
        seconds: str | Decimal | float | None = None,
        steps: int | str | None = None,
        parent: str | None = None,
    ) -> Budget:
        """Make a budget, or change these limits and leave the others; "none" removes a limit, or the parent.
        0 lets nothing begin. Raises `NotFound` for a parent that is not there, `BadInput` if a budget
        would be its own parent."""
        return await self._call(
            self._namespace.set, name, usd=usd, tokens=tokens, seconds=seconds, steps=steps, parent=parent
        )

    async def raise_(
        self,
        name: str,
        *,
        usd: str | Decimal | int | None = None,
        tokens: int | str | None = None,
        seconds: str | Decimal | float | None = None,
        steps: int | str | None = None,
    ) -> Budget:
        """Add to the limits of a budget; `resume` continues a run that it had stopped. Raises `NotFound`,
        and `BadInput` for a unit that has no limit and for an amount that is not more than 0."""
        return await self._call(
            self._namespace.raise_, name, usd=usd, tokens=tokens, seconds=seconds, steps=steps
        )

    async def get(self, name: str) -> Budget:
        """A budget by its name. Raises `NotFound`."""
        return await self._call(self._namespace.get, name)

    async def list(self) -> list[Budget]:
        """All budgets, by name."""
        return await self._call(self._namespace.list)


class AsyncRouterNamespace(AsyncNamespace):
    """`hf.aio.router`: the methods of `hf.router` as coroutines."""

    async def stats(self, kind: str | None = None) -> builtins.list[CandidateStats]:
        """The outcomes of each candidate, by kind of work and name; of one kind if it is named. `value` and
        `share` are those of our router, also where another is registered."""
        return await self._call(self._namespace.stats, kind)


class AsyncSkillsNamespace(AsyncNamespace):
    """`hf.aio.skills`: the methods of `hf.skills` as coroutines."""

    async def list(self) -> builtins.list[SkillInfo]:
        """The skills that can be chosen, by name."""
        return await self._call(self._namespace.list)

    async def show(self, name: str) -> SkillInfo:
        """One skill, with its text. Raises `NotFound` with the nearest names."""
        return await self._call(self._namespace.show, name)

    async def check(self) -> builtins.list[SkillFault]:
        """The faults of SKILL.md files, each with its file and line; empty if there are none."""
        return await self._call(self._namespace.check)

    async def stats(self, kind: str | None = None) -> builtins.list[SkillStats]:
        """How work ended with each text of each skill, by kind of work; of one kind if it is named. An
        edited SKILL.md is another text."""
        return await self._call(self._namespace.stats, kind)


class AsyncHoldfast(Coroutines):
    """Coroutines, each of which calls the method of the same name in a thread."""

    async def deliver(
        self,
        goal: str,
        *,
        run_id: str | None = None,
        task: str | None = None,
        agent: str = "",
        planner: str = "",
        developer: str = "",
        reviewer: str = "",
        verifier: str = "",
        checks: Sequence[str] = (),
        rounds: int | None = None,
        retries: int | None = None,
        check_timeout: Seconds | None = None,
        policies: Sequence[Policy] = (),
        yes: bool = False,
        plan: str | os.PathLike[str] | None = None,
        budget: str = "",
        max_usd: Decimal | None = None,
    ) -> Run[dict[str, Any]]:
        """Start a run that plans, implements, reviews and verifies a goal, with an approval of the plan and
        one of the difference; durable when this returns. An id that exists resumes that run."""
        return await self._call(
            self._holdfast.deliver,
            goal,
            run_id=run_id,
            task=task,
            agent=agent,
            planner=planner,
            developer=developer,
            reviewer=reviewer,
            verifier=verifier,
            checks=checks,
            rounds=rounds,
            retries=retries,
            check_timeout=check_timeout,
            policies=policies,
            yes=yes,
            plan=plan,
            budget=budget,
            max_usd=max_usd,
        )

    async def recover(self) -> list[Run[Any]]:
        """Drive every run whose owner is dead to its end, a few at a time. Opening alone never does."""
        return await self._call(self._holdfast.recover)

    async def serve(
        self,
        *,
        follow: bool = False,
        python: str | None = None,
        root: str | os.PathLike[str] | None = None,
        on_started: Callable[[str], None] | None = None,
        on_served: OnServed | None = None,
        on_taken: Callable[[Taken], None] | None = None,
        on_note: Callable[[str], None] | None = None,
        stdout: IO[Any] | int | None = None,
        stop: threading.Event | None = None,
    ) -> Served:
        """Resume every run that can continue without a person: interrupted ones, those whose gate was
        decided, whose signal came or whose sleep is over. Failed runs, and those that wait for a person,
        are left alone."""
        return await self._call(
            self._holdfast.serve,
            follow=follow,
            python=python,
            root=root,
            on_started=on_started,
            on_served=on_served,
            on_taken=on_taken,
            on_note=on_note,
            stdout=stdout,
            stop=stop,
        )

    async def replay(
        self,
        run_id: str | None = None,
        *,
        python: str | None = None,
        root: str | os.PathLike[str] | None = None,
        on_note: Callable[[str], None] | None = None,
        on_progress: OnReplayed | None = None,
    ) -> list[Replay]:
        """Check the history of a run against the code as it is now, without running a step; without a run,
        of all that can be resumed, the oldest first."""
        return await self._call(
            self._holdfast.replay, run_id, python=python, root=root, on_note=on_note, on_progress=on_progress
        )

    async def resumption(
        self,
        run_id: str,
        *,
        python: str | None = None,
        root: str | os.PathLike[str] | None = None,
        passed_on: bool = False,
        on_note: Callable[[str], None] | None = None,
    ) -> Resumption:
        """The process that can resume this run alone: its interpreter and its working directory.
        `passed_on`: this process was started for this run, and is not replaced. Raises `CodeNotFound` if
        that directory is gone, `NotFound` if `python` cannot be used."""
        return await self._call(
            self._holdfast.resumption, run_id, python=python, root=root, passed_on=passed_on, on_note=on_note
        )

    async def approve(
        self,
        run_id: str,
        gate: str | None = None,
        digest: str | None = None,
        by: str | None = None,
        comment: str | None = None,
        *,
        snapshot: str | None = None,
    ) -> str:
        """Approve what a run shows; returns the gate's identity. `gate` is needed if several are open;
        `digest`, or its first characters, is that of what you have seen; `snapshot` that of the files: if
        the workspace differs from it now, `GateError` names the paths. Raises `GateError`."""
        return await self._call(self._holdfast.approve, run_id, gate, digest, by, comment, snapshot=snapshot)

    async def reject(
        self,
        run_id: str,
        gate: str | None = None,
        digest: str | None = None,
        by: str | None = None,
        comment: str | None = None,
    ) -> str:
        """Reject what a run shows; as `approve` otherwise."""
        return await self._call(self._holdfast.reject, run_id, gate, digest, by, comment)

    async def signal(self, run_id: str, name: str, value: Any = None, *, by: str | None = None) -> bool:
        """Give a run the value that its `wait_for(name)` waits for; returns whether one did. Otherwise it is
        kept for the next one."""
        return await self._call(self._holdfast.signal, run_id, name, value, by=by)

    async def pause(
        self, run_id: str, reason: str = "", *, by: str | None = None, patience: float = PATIENCE_S
    ) -> str:
        """Stop a run at its next step boundary, until it is resumed; returns its status, which is `paused`
        unless its owner took longer than `patience` seconds to get there."""
        return await self._call(self._holdfast.pause, run_id, reason, by=by, patience=patience)

    async def cancel(
        self, run_id: str, reason: str = "", *, by: str | None = None, patience: float = PATIENCE_S
    ) -> str:
        """End a run, the commands and async steps that run in it, and its child runs; returns its status,
        which is `cancelled` unless its owner took longer than `patience` seconds to end it. What it had
        reserved in budgets is charged."""
        return await self._call(self._holdfast.cancel, run_id, reason, by=by, patience=patience)

    async def settle(
        self,
        run_id: str,
        step: str,
        *,
        done: Any = UNSET,
        retry: bool = False,
        fail: str | None = None,
        by: str | None = None,
    ) -> str:
        """Settle a step in doubt: `done=VALUE`, `retry=True` or `fail="why"`; returns the step's key. For a
        command, VALUE is a `CommandResult` or a dict with its `exit_code`; raises `BadInput` for another."""
        return await self._call(self._holdfast.settle, run_id, step, done=done, retry=retry, fail=fail, by=by)

    async def rewind(
        self,
        run_id: str,
        to: str,
        *,
        only: Sequence[str] | None = None,
        keep: Sequence[str] | None = None,
        theirs: bool = False,
        files: bool = True,
        partial: bool = False,
        git: bool = False,
        rerun_once: bool = False,
        dry_run: bool = False,
        plan: str | None = None,
        by: str | None = None,
    ) -> Rewind:
        """Go back to the checkpoint or step `to`, which is kept: what was recorded after it no longer
        counts, and runs again, with other idempotency keys, when the run is resumed. The files of the
        workspace are restored with it, except those that another person or program changed. `undo`
        reverses it."""
        return await self._call(
            self._holdfast.rewind,
            run_id,
            to,
            only=only,
            keep=keep,
            theirs=theirs,
            files=files,
            partial=partial,
            git=git,
            rerun_once=rerun_once,
            dry_run=dry_run,
            plan=plan,
            by=by,
        )

    async def undo(
        self,
        operation: str | None = None,
        *,
        files: bool = True,
        partial: bool = False,
        rerun_once: bool = False,
        dry_run: bool = False,
        plan: str | None = None,
        by: str | None = None,
    ) -> Undo:
        """Undo an operation, also an undo, with its files; without its id, your own last one. The other
        arguments are those of `rewind`."""
        return await self._call(
            self._holdfast.undo,
            operation,
            files=files,
            partial=partial,
            rerun_once=rerun_once,
            dry_run=dry_run,
            plan=plan,
            by=by,
        )

    async def redo(
        self,
        *,
        files: bool = True,
        partial: bool = False,
        rerun_once: bool = False,
        dry_run: bool = False,
        plan: str | None = None,
        by: str | None = None,
    ) -> Undo:
        """Undo your last undo that still stands."""
        return await self._call(
            self._holdfast.redo,
            files=files,
            partial=partial,
            rerun_once=rerun_once,
            dry_run=dry_run,
            plan=plan,
            by=by,
        )

    async def fork(
        self,
        run_id: str,
        at: str | None = None,
        into: str | None = None,
        *,
        directory: str | os.PathLike[str] | None = None,
        plan_file: str | os.PathLike[str] | None = None,
        dry_run: bool = False,
        plan: str | None = None,
        by: str | None = None,
    ) -> Fork:
        """A new run, paused, that has the results of all that `run_id` had done before the step `at`, or up
        to and with the checkpoint `at`. Its id is `into`, or a new one; `resume` starts it."""
        return await self._call(
            self._holdfast.fork,
            run_id,
            at,
            into,
            directory=directory,
            plan_file=plan_file,
            dry_run=dry_run,
            plan=plan,
            by=by,
        )

    async def restore(
        self,
        snapshot: str,
        *,
        only: Sequence[str] = (),
        partial: bool = False,
        dry_run: bool = False,
        by: str | None = None,
    ) -> Restored:
        """Restore the files to a snapshot, named by its id or the beginning of it. Files that are
        overwritten are saved first, and `undo` restores them."""
        return await self._call(
            self._holdfast.restore, snapshot, only=only, partial=partial, dry_run=dry_run, by=by
        )

    async def delete(
        self, *ids: str, with_task: bool = False, dry_run: bool = False, by: str | None = None
    ) -> Deletion:
        """Delete runs and tasks by their ids. A run is deleted with its child runs, its output and its saved
        files, a task with its links: no method and no command finds them any more. Either all are deleted
        or none. The log keeps a record of who deleted what, without its contents. `undo` restores
        everything until `gc` makes the deletion final; the ids are not assigned again."""
        return await self._call(self._holdfast.delete, *ids, with_task=with_task, dry_run=dry_run, by=by)

    async def find(self, text: str) -> str:
        """The id that `text` is, or is the only possible beginning of. `#42` is the run with that short
        number; so is `42`, if no id begins so. Raises `RunNotFound` with the nearest ids, `RunArchived`,
        `AmbiguousRunId`."""
        return await self._call(self._holdfast.find, text)

    async def ids(self, beginning: str, limit: int = 100) -> list[str]:
        """The ids of runs that begin so, at most `limit` of them."""
        return await self._call(self._holdfast.ids, beginning, limit)

    async def has(self, run_id: str) -> bool:
        """Whether there is a run with this id."""
        return await self._call(self._holdfast.has, run_id)

    async def plan(self, run_id: str) -> Plan | None:
        """The plan that a run executes, redacted; None if it is no run of a plan."""
        return await self._call(self._holdfast.plan, run_id)

    async def plan_changes(self, run_id: str) -> list[str]:
        """The differences between a run's plan and its file, one line for each step. The run continues with
        the plan that it was started with. Empty if the file is the same, or gone."""
        return await self._call(self._holdfast.plan_changes, run_id)

    async def runs(
        self,
        status: str | Sequence[str] | None = None,
        resumable: bool | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        """Runs, the newest first. `resumable`: those that `resume` would continue, or those it would not."""
        return await self._call(self._holdfast.runs, status, resumable, limit)

    async def page(
        self,
        *,
        status: str | Sequence[str] | None = None,
        resumable: bool = False,
        workflow: str | None = None,
        parent: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> RunPage:
        """The newest runs that fit, and how many fit."""
        return await self._call(
            self._holdfast.page,
            status=status,
            resumable=resumable,
            workflow=workflow,
            parent=parent,
            since=since,
            until=until,
            limit=limit,
        )

    async def waits(self, runs: Sequence[RunInfo]) -> dict[str, str]:
        """Run → what it waits for, in words, of those that wait at a gate of their own."""
        return await self._call(self._holdfast.waits, runs)

    async def steps(self, run_id: str, named: str | None = None) -> list[StepInfo]:
        """A run's steps, in the order in which they were last changed; those of one name, or raise
        `NotFound` with the nearest names."""
        return await self._call(self._holdfast.steps, run_id, named)

    async def step(self, run_id: str, step: str) -> StepDetail:
        """One step: its arguments, attempts, output and result. `step` is a key, a name, or the beginning of
        one. Raises `NotFound` with the nearest names, `BadInput` if several are meant."""
        return await self._call(self._holdfast.step, run_id, step)

    async def gates(self, run_id: str | None = None) -> list[Gate]:
        """The open gates of a run and of its child runs, or of all runs that wait: what each shows, its
        digest, and since when it is open."""
        return await self._call(self._holdfast.gates, run_id)

    async def events(self, run_id: str, after: int = 0) -> list[LogEvent]:
        """Everything that happened to a run, in order; what came after the version `after`."""
        return await self._call(self._holdfast.events, run_id, after)

    async def logs(self, run_id: str, step: str | None = None, after: int = 0) -> list[LogLine]:
        """The output of the commands and steps of a run after the version `after`, redacted."""
        return await self._call(self._holdfast.logs, run_id, step, after)

    async def owners(self) -> list[OwnerRow]:
        """The live processes that execute runs of this store."""
        return await self._call(self._holdfast.owners)

    async def checkpoints(self, run_id: str, *, every: bool = False) -> list[CheckpointInfo]:
        """The named points to which the run can be rewound, in order; `every` one, also those of generations
        that were left, whose `live` is False."""
        return await self._call(self._holdfast.checkpoints, run_id, every=every)

    async def operations(self, run_id: str | None = None, limit: int | None = None) -> list[OperationInfo]:
        """Operations on runs, which can be undone, the newest first."""
        return await self._call(self._holdfast.operations, run_id, limit)

    @overload
    async def stats(self, /, since: datetime | None = None, *, run_id: None = None) -> Statistics: ...

    @overload
    async def stats(self, /, since: None = None, *, run_id: str) -> RunStatistics: ...

    @overload
    async def stats(
        self, /, since: datetime | None = None, *, run_id: str | None = None
    ) -> Statistics | RunStatistics: ...

    async def stats(
        self, since: datetime | None = None, *, run_id: str | None = None
    ) -> Statistics | RunStatistics:
        """Counts of runs, durations, steps and attempts, of runs that changed since then; with `run_id`,
        what that run has used: time, attempts, tokens, money, bytes and files, by step and in all."""
        return await self._call(self._holdfast.stats, since, run_id=run_id)

    async def diff(self, run_id: str, a: str, b: str | None = None) -> list[FileDiff]:
        """The changes of the files from `a` to `b`, or to the files on disk. Each is a checkpoint, a step
        (as it left the files), `before:STEP`, or `disk`."""
        return await self._call(self._holdfast.diff, run_id, a, b)

    async def analyze(self, text: str, limit: int = 10) -> Analysis:
        """Analyze the text of a task, without a model: its keywords, the files it names, patterns to search
        for, and the `limit` files that are most likely to matter."""
        return await self._call(self._holdfast.analyze, text, limit)

    async def search(
        self,
        query: str = "",
        *,
        within: str | Sequence[str] = ("tasks", "runs", "memory", "events"),
        status: str | Sequence[str] | None = None,
        kind: str | Sequence[str] | None = None,
        since: datetime | None = None,
        withdrawn: bool = False,
        limit: int = 20,
        after: str = "",
        on_progress: Progress | None = None,
    ) -> SearchPage:
        """Find the items that have all words of the query, the best first; without a query, the newest."""
        return await self._call(
            self._holdfast.search,
            query,
            within=within,
            status=status,
            kind=kind,
            since=since,
            withdrawn=withdrawn,
            limit=limit,
            after=after,
            on_progress=on_progress,
        )

    async def feed(
        self, after: str = "", limit: int = 1000, types: Sequence[str] | None = None, wait_s: float = 0.0
    ) -> FeedPage:
        """A page of the events of all streams, in the order of the log, redacted. It has only what is on the
        disk for good."""
        return await self._call(self._holdfast.feed, after, limit, types, wait_s)

    async def backup(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        force: bool = False,
        files: bool | None = None,
        on_progress: Progress | None = None,
    ) -> Backup:
        """Copy the store while runs continue, verify the copy, and return the `Backup`, which is a path. The
        files that runs have saved are in it, unless `files` or the setting `backup_files` says otherwise."""
        return await self._call(
            self._holdfast.backup, path, force=force, files=files, on_progress=on_progress
        )

    async def backups(
        self, directory: str | os.PathLike[str] | None = None, *, on_progress: Progress | None = None
    ) -> list[Backup]:
        """The backups in `directory`, or in the backup directory, the newest first. Each file is read from
        its beginning to its end: `fault` says which cannot be relied on. Raises `NotFound` if there is no
        such directory."""
        return await self._call(self._holdfast.backups, directory, on_progress=on_progress)

    async def archive(
        self,
        older_than: datetime | timedelta = ARCHIVE_AFTER,
        *,
        failed: bool = False,
        directory: str | os.PathLike[str] | None = None,
        dry_run: bool = False,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Archive:
        """Move runs that ended, with their child runs, out of the store into a new file. It is whole, and
        read back, before anything is removed; the log keeps a record of each run."""
        return await self._call(
            self._holdfast.archive,
            older_than,
            failed=failed,
            directory=directory,
            dry_run=dry_run,
            on_progress=on_progress,
        )

    async def verify(self, *, on_progress: Progress | None = None) -> Audit:
        """Check every event against its hash, and every head and table against the log. Returns how much
        there is, and each place that does not verify. `on_progress` is called once, with how many events
        there are."""
        return await self._call(self._holdfast.verify, on_progress=on_progress)

    async def repair(self, *, on_progress: Progress | None = None) -> Repaired:
        """Rebuild all tables from the log, then verify the whole store."""
        return await self._call(self._holdfast.repair, on_progress=on_progress)

    async def du(self) -> Usage:
        """How much the store takes on the disk: the log, what is saved of files, backups."""
        return await self._call(self._holdfast.du)

    async def gc(self, quota: float | None = None, *, dry_run: bool = False) -> Collected:
        """Make deletions final, so that `undo` no longer brings back what they deleted, and remove what is
        saved of files and no snapshot in the log needs any more. Beyond the quota (in MB; the setting
        `workspace_quota_mb` if it is not given), the snapshots of ended runs go too, the oldest first:
        those runs can no longer be rewound with their files. Waits until no process saves files. With
        `dry_run` nothing is removed; returns what would be."""
        return await self._call(self._holdfast.gc, quota, dry_run=dry_run)

    async def coverage(self) -> Coverage:
        """The coverage of a snapshot of the workspace: what it holds, what it leaves out, and why."""
        return await self._call(self._holdfast.coverage)

    async def verify_files(self) -> FilesVerified:
        """Read all that is saved of files, and check that every snapshot of the log is whole."""
        return await self._call(self._holdfast.verify_files)

    async def doctor(self) -> list[Check]:
        """Check the store and the machine under it."""
        return await self._call(self._holdfast.doctor)

    async def mirror_status(self) -> MirrorStatus:
        """Whether the mirror shows all of the log, and which of its files were edited, are torn or missing,
        or were kept aside. Changes nothing."""
        return await self._call(self._holdfast.mirror_status)

    async def mirror_rebuild(self) -> MirrorRebuilt:
        """Make all files of the mirror again from the log. Files that are not as holdfast wrote them are
        kept aside. Raises `Refused` if there is no mirror, `StoreError` if it cannot be written."""
        return await self._call(self._holdfast.mirror_rebuild)

    async def mirror_import(self, file: str | os.PathLike[str], *, apply: bool = False) -> MirrorImport:
        """The changes in an edited `current.json`, session file or `memory.json` that the store does not
        have: names, texts and statuses of tasks, decisions, files, memories. With `apply` it is recorded,
        one change after the other; one that is refused, as it would be by hand, is named in `refused`,
        and the others are recorded. Nothing is removed because a file leaves it out. Raises `NotFound`,
        `BadInput`."""
        return await self._call(self._holdfast.mirror_import, file, apply=apply)

    async def prime(self, limit: int = 4000) -> str:
        """The state of the project for the start of a session, in at most `limit` characters: the project's
        type, tasks in progress and ready, runs that wait or stopped and how to continue them, the latest
        decisions and patterns, open sessions. Equal state gives equal text; what does not fit is counted.
        In workflow code it is a recorded step: a resumed run gets the same text."""
        return await self._call(self._holdfast.prime, limit)

    async def restore_backup(
        self,
        file: str | os.PathLike[str],
        home: str | os.PathLike[str] | None,
        *,
        on_progress: Progress | None = None,
    ) -> RestoredBackup:
        """Verify a backup and make it the store in `home` (None: the project's own); the store that is there
        is kept aside. The mirror is made again, so that it shows nothing else than the restored store.
        `file` is a path, or the name of one that `backups` gives."""
        return await self._call(self._holdfast.restore_backup, file, home, on_progress=on_progress)

    async def repair_store(
        self,
        home: str | os.PathLike[str] | None,
        *,
        dry_run: bool = False,
        backup: str | os.PathLike[str] | None = None,
        on_progress: Progress | None = None,
    ) -> RepairReport:
        """Examine the store in `home` (None: the project's own), which need not open any more, and mend it
        from what the database, its write-ahead log, backups, archives and the mirror still hold. What is
        changed is kept in a directory that the report names. With `dry_run`, only examine it. `backup` is
        one more copy: a backup as `restore_backup` takes it, or a journal of a mirror."""
        return await self._call(
            self._holdfast.repair_store, home, dry_run=dry_run, backup=backup, on_progress=on_progress
        )

    async def trust(self, directory: str | os.PathLike[str] | None = None) -> Granted:
        """Allow the settings of a project, or a store, that came from somewhere else: `directory`, or the
        project of the working directory. If its settings or its database change, it needs trust again.
        Raises `NotFound` if there is nothing that needs trust."""
        return await self._call(self._holdfast.trust, directory)

    async def untrust(self, directory: str | os.PathLike[str] | None = None) -> list[str]:
        """Undo `trust` for `directory`, which need not exist any more, or for the project of the working
        directory; returns what is no longer trusted. Raises `NotFound` if it was not."""
        return await self._call(self._holdfast.untrust, directory)

    async def trusted(self) -> list[TrustRecord]:
        """Every project and store that the user trusts, and whether each is still what was trusted."""
        return await self._call(self._holdfast.trusted)

    @property
    def tasks(self) -> AsyncTasks:
        """The methods of `hf.tasks` as coroutines."""
        return AsyncTasks(self._holdfast.tasks)

    @property
    def sessions(self) -> AsyncSessions:
        """The methods of `hf.sessions` as coroutines."""
        return AsyncSessions(self._holdfast.sessions)

    @property
    def memory(self) -> AsyncMemoryNamespace:
        """The methods of `hf.memory` as coroutines."""
        return AsyncMemoryNamespace(self._holdfast.memory)

    @property
    def evidence(self) -> AsyncEvidenceNamespace:
        """The methods of `hf.evidence` as coroutines."""
        return AsyncEvidenceNamespace(self._holdfast.evidence)

    @property
    def budgets(self) -> AsyncBudgetNamespace:
        """The methods of `hf.budgets` as coroutines."""
        return AsyncBudgetNamespace(self._holdfast.budgets)

    @property
    def router(self) -> AsyncRouterNamespace:
        """The methods of `hf.router` as coroutines."""
        return AsyncRouterNamespace(self._holdfast.router)

    @property
    def skills(self) -> AsyncSkillsNamespace:
        """The methods of `hf.skills` as coroutines."""
        return AsyncSkillsNamespace(self._holdfast.skills)
