"""A delivery on its way: the stages in order, and the ways back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from holdfast.agents.deliver import prompts
from holdfast.agents.deliver.bound_approval import Answer, Question, ask, diff_text
from holdfast.agents.deliver.notes import note, remember_decision, task_id
from holdfast.agents.deliver.options import DeliverOptions, Role
from holdfast.agents.deliver.policies import decide
from holdfast.agents.deliver.read_only import Undone, undo_writes
from holdfast.agents.deliver.stages import Progress
from holdfast.agents.deliver.verifying import CheckResult, changed_by_checks, find_checks, run_checks
from holdfast.agents.protocol import Job, Outcome
from holdfast.agents.working import work
from holdfast.engine.execution.call import Call
from holdfast.engine.execution.scope import Scope, current
from holdfast.engine.primitives.branch import branch
from holdfast.engine.primitives.checkpoint import checkpoint
from holdfast.engine.primitives.snapshot import changes, snapshot
from holdfast.engine.primitives.step import step
from holdfast.errors import NotDelivered
from holdfast.plans.analyzer import CACHE, analyze
from holdfast.plans.task_words import words_of

if TYPE_CHECKING:
    from holdfast.engine.primitives.gates import Automatic
    from holdfast.workspace.snapshots.file_diff import FileDiff

_LIKELY = 12
_MOST_PROMPT = 60_000
"""Characters of a difference that a prompt has."""


class _Plan(NamedTuple):
    """A plan as the planner made it: `made_on` is the snapshot that it was made on."""

    text: str
    files: tuple[str, ...]
    made_on: str
    round: int
    rolled_back: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()


class _Judged(NamedTuple):
    """The answer of a role that judges, and what was rolled back of its changes."""

    text: str
    approved: bool
    session: str
    undone: Undone


def title_of(goal: str, options: DeliverOptions = DeliverOptions()) -> str:  # noqa: B008
    """The title of the run: the goal on one line."""
    return " ".join(goal.split())[:200]


@step(name="analyze")
def _analyze(goal: str) -> list[str]:
    """The files that are likely to matter, the most likely first."""
    call = current.get()
    assert isinstance(call, Call)
    engine = call.execution.engine
    root = engine.files.of_run(call.execution.state).root
    return [one.path for one in analyze(root, goal, limit=_LIKELY, cache=engine.home / CACHE).files]


class Delivery:
    """One goal on its way."""

    def __init__(self, goal: str, options: DeliverOptions) -> None:
        self._goal = goal
        self._options = options
        self._progress = Progress()
        self._remarks: list[str] = []
        """For the agents, beside what the history of the run tells them."""
        self._sent_back = {"plan": 0, "implementation": 0, "review": 0, "verification": 0}

    async def run(self) -> dict[str, Any]:
        self._progress.enter("pending")
        roles = {role: self._options.agent(role) for role in ("planner", "developer", "reviewer", "verifier")}
        await checkpoint.aio("workflow_start", request=self._goal, task=task_id(), agents=roles)
        plan, base = await self._approved_plan()
        files, verified = await self._implemented(plan, base)
        self._progress.enter("completed")
        await note("file", "\n".join(files))
        return {"files": files, "verified": verified, "retries": dict(self._sent_back)}

    # Planning

    async def _approved_plan(self) -> tuple[_Plan, str]:
        """A plan that a person approved, and the snapshot that its implementation begins from."""
        likely = await _analyze.aio(self._goal)
        before, reason = "", ""
        while True:
            self._progress.enter("planning")
            plan = await self._plan(likely, before, reason)
            self._progress.enter("plan_awaiting_approval")
            answer = await self._ask_plan(plan)
            while answer.approved:
                self._progress.enter("plan_approved")
                await note("plan", plan.text)
                base = await snapshot.aio()
                drift = await self._drift(plan, answer.snapshot, base)
                if not drift:
                    return plan, base
                self._progress.enter("plan_awaiting_approval")
                answer = await self._ask_plan(plan, drift)
            before, reason = plan.text, answer.reason
            await self._back("plan", self._options.rounds, f"the plan was rejected: {reason}")

    async def _plan(self, likely: Sequence[str], before: str, reason: str) -> _Plan:
        made_on = await snapshot.aio()
        prompt = prompts.to_plan(self._goal, likely, before, reason)
        outcome, undone = await self._read_only("planner", "plan", prompt, likely)
        number = self._sent_back["plan"] + 1
        files = words_of(outcome.text).files
        plan = _Plan(outcome.text, files, made_on, number, tuple(undone.files), tuple(undone.commits))
        await checkpoint.aio(
            "after_planning",
            round=number, plan=plan.text, digest=_digest(plan.text), files=list(files), snapshot=made_on,
            session=outcome.session, rolled_back=undone.files, commits=undone.commits,
        )  # fmt: skip
        return plan

    async def _ask_plan(self, plan: _Plan, drift: Sequence[FileDiff] = ()) -> Answer:
        async def show(question: Question) -> str:
            moved = plan.made_on != question.snapshot
            now = await changes.aio(plan.made_on, question.snapshot) if moved else []
            drifted = [one for one in now if one.path in plan.files]
            return "\n\n".join(_plan_lines(plan, question, drifted))

        def policy() -> Automatic | None:
            changed = plan.rolled_back or plan.commits
            return None if changed else decide(self._options.policies, "plan", plan.files, None)

        answer = await ask("plan", f"the plan for: {title_of(self._goal)}", show, policy, drift)
        await self._decided("plan", answer, plan.text)
        return answer

    async def _drift(self, plan: _Plan, approved_on: str, now: str) -> list[FileDiff]:
        """The changes to files that the plan names since it was approved: the run may have been stopped
        in between."""
        if now == approved_on:
            return []
        found = await changes.aio(approved_on, now)
        others = [one.path for one in found if one.path not in plan.files]
        if others:
            self._remarks.append(f"others changed {_listed(others)} after the plan was approved")
        return [one for one in found if one.path in plan.files]

    # Implementing

    async def _implemented(self, plan: _Plan, base: str) -> tuple[list[str], bool | None]:
        """The changed files, and whether commands or the verifier found them right; None if nothing did."""
        reason = ""
        while True:
            self._progress.enter("implementing")
            await self._implement(plan, base, reason)
            self._progress.enter("implementation_awaiting_approval")
            answer, found = await self._ask_implementation(base)
            if not answer.approved:
                reason = answer.reason
                why = f"the implementation was rejected: {reason}"
                await self._back("implementation", self._options.rounds, why)
                continue
            self._progress.enter("reviewing")
            reason = await self._review(plan, found)
            if reason:
                await self._back("review", self._options.retries, f"the review has objections: {reason}")
                continue
            self._progress.enter("verifying")
            verified, reason = await self._verify(found)
            if reason:
                await self._back("verification", self._options.retries, reason)
                continue
            answer, found = await self._still_approved(base, answer, found)
            if answer.approved:
                return [one.path for one in found], verified
            reason = answer.reason
            why = f"the implementation was rejected: {reason}"
            await self._back("implementation", self._options.rounds, why)

    async def _implement(self, plan: _Plan, base: str, reason: str) -> None:
        """Let the developer work. `base` is the snapshot that the implementation began from."""
        attempt = sum(self._sent_back[one] for one in ("implementation", "review", "verification")) + 1
        await checkpoint.aio(
            "start_implementation",
            attempt=attempt, reason=reason, plan=_digest(plan.text), snapshot=base,
        )  # fmt: skip
        prompt = prompts.to_implement(self._goal, plan.text, reason)
        outcome, _ = await self._work("developer", "implement", prompt, plan.files)
        after = outcome.changes or await snapshot.aio()
        found = await changes.aio(base, after)
        await checkpoint.aio(
            "after_implementation",
            attempt=attempt, text=outcome.text, files=[one.path for one in found], lines=_lines(found),
            snapshot=after, session=outcome.session,
        )  # fmt: skip

    async def _ask_implementation(
        self, base: str, changed: Sequence[FileDiff] = ()
    ) -> tuple[Answer, list[FileDiff]]:
        """The answer, and the differences that were shown last."""
        found: list[FileDiff] = []

        async def show(question: Question) -> str:
            found[:] = await changes.aio(base, question.snapshot)
            return "\n\n".join(_implementation_lines(found, question))

        def policy() -> Automatic | None:
            paths = [one.path for one in found]
            return decide(self._options.policies, "implementation", paths, _lines(found))

        title = f"the implementation of: {title_of(self._goal)}"
        answer = await ask("implementation", title, show, policy, changed)
        await self._decided("implementation", answer, _listed([one.path for one in found]))
        return answer, found

    async def _still_approved(
        self, base: str, answer: Answer, found: list[FileDiff]
    ) -> tuple[Answer, list[FileDiff]]:
        """Ask again if files were changed, removed or added since the approval. Files that the checks add,
        such as a report or a cache, are no reason to ask."""
        now = await snapshot.aio()
        if now == answer.snapshot:
            return answer, found
        since = await changes.aio(answer.snapshot, now)
        if any(one.change == "added" for one in since):
            made = await changed_by_checks()
            since = [one for one in since if one.change != "added" or one.path not in made]
        if not since:
            return answer, found
        self._progress.enter("implementation_awaiting_approval")
        return await self._ask_implementation(base, since)

    # Reviewing and verifying

    async def _review(self, plan: _Plan, found: Sequence[FileDiff]) -> str:
        """The objections; empty if there are none."""
        prompt = prompts.to_review(self._goal, plan.text, diff_text(found, _MOST_PROMPT))
        judged = await self._judged("reviewer", "review", prompt)
        await checkpoint.aio(
            "after_review",
            verdict="approved" if judged.approved else "changes", text=judged.text, session=judged.session,
            rolled_back=judged.undone.files, commits=judged.undone.commits,
        )  # fmt: skip
        await note("review", judged.text)
        return "" if judged.approved else judged.text

    async def _verify(self, found: Sequence[FileDiff]) -> tuple[bool | None, str]:
        """Whether it is verified, None if nothing could verify it; and why not."""
        lines = list(self._options.checks) or await find_checks.aio()
        results = await run_checks(lines, self._options.check_timeout_s)
        failed = [one for one in results if not one.passed]
        text, session, undone = "", "", Undone([], [])
        verdict: bool | None = not failed if results else None
        if not failed and self._options.verifier:
            prompt = prompts.to_verify(self._goal, diff_text(found, _MOST_PROMPT), results)
            judged = await self._judged("verifier", "verify", prompt)
            text, session, verdict, undone = judged.text, judged.session, judged.approved, judged.undone
        await checkpoint.aio(
            "after_verification",
            passed=verdict, checks=msgspec.to_builtins(results), text=text, session=session,
            rolled_back=undone.files, commits=undone.commits,
        )  # fmt: skip
        await note("verification", _verification(results, text))
        if verdict is not False:
            return verdict, ""
        if failed:
            return False, "\n".join(f"{one.sentence}\n{one.output}" for one in failed)
        return False, f"the verifier has objections: {text}"

    async def _judged(self, role: Role, kind: str, prompt: str) -> _Judged:
        """The answer of a role that judges. One without a verdict is asked for."""
        undone = Undone([], [])
        for _ in range(self._options.retries + 1):
            outcome, wrote = await self._read_only(role, kind, prompt)
            undone = Undone([*undone.files, *wrote.files], [*undone.commits, *wrote.commits])
            verdict = prompts.verdict(outcome.text)
            if verdict is not None:
                return _Judged(outcome.text, verdict == "approved", outcome.session, undone)
            prompt = f"{prompt}\n\n{prompts.NO_VERDICT}"
        times = self._options.retries + 1
        raise self._failed(f"the {role} gave no verdict in {times} answers")

    # Agents

    async def _read_only(
        self, role: Role, kind: str, prompt: str, paths: Sequence[str] = ()
    ) -> tuple[Outcome, Undone]:
        """The outcome of work that only reads, and what it changed all the same."""
        outcome, path = await self._work(role, kind, prompt, paths, changes_files=False)
        undone = await undo_writes(path)
        if undone.files:
            self._remarks.append(f"the {role} changed {_listed(undone.files)}, which was rolled back")
        self._remarks += [f"the {role} changed the repository: {one}" for one in undone.commits]
        return outcome, undone

    async def _work(
        self, role: Role, kind: str, prompt: str, paths: Sequence[str] = (), *, changes_files: bool = True
    ) -> tuple[Outcome, str]:
        """Let the agent of a role work; its outcome, and the beginning of the keys of its steps."""
        job = Job(
            goal=self._goal, prompt=prompt, kind=kind, history=tuple(self._remarks), paths=tuple(paths),
            changes_files=changes_files,
        )  # fmt: skip
        with branch(role):
            path = _scope().counters.path
            return await work.aio(self._options.agent(role), job, role=role), path

    # Decisions

    async def _decided(self, gate: Literal["plan", "implementation"], answer: Answer, what: str) -> None:
        """Keep a decision: for the agents, and for later sessions."""
        by = f" by {answer.decision.by}" if answer.decision.by else ""
        comment = f": {answer.decision.comment}" if answer.decision.comment else ""
        said = f"the {gate} was {answer.decision.outcome}{by}{comment}"
        first = what.strip().partition("\n")[0]
        await remember_decision(f"{title_of(self._goal)}: {said} ({first})", gate)

    async def _back(
        self,
        where: Literal["plan", "implementation", "review", "verification"],
        most: int,
        why: str,
    ) -> None:
        """Count what is sent back. Raises `NotDelivered` if that was the last time."""
        self._sent_back[where] += 1
        self._remarks.append(why)
        if self._sent_back[where] > most:
            raise self._failed(f"{why.partition(chr(10))[0]}; that was round {self._sent_back[where]}")

    def _failed(self, why: str) -> NotDelivered:
        """Its point is where the last round began: before the planner worked, or before the developer did."""
        run = _scope().execution
        is_plan = self._progress.stage == "plan_awaiting_approval"
        keys = iter([*reversed(run.state.steps)])
        key = _next_of(keys, "after_planning" if is_plan else "start_implementation")
        # A plan is made on the snapshot before it: rewound to there, the planner is asked again.
        point = f"before:{_next_of(keys, 'snapshot')}" if is_plan else key
        return NotDelivered(run.id, self._progress.stage, why, point)


def _next_of(keys: Iterator[str], name: str) -> str:
    """The next key of a step with this name that the workflow itself has called."""
    return next(key for key in keys if key.partition("#")[0] == name)


def _plan_lines(plan: _Plan, question: Question, drift: Sequence[FileDiff]) -> list[str]:
    found = [*_changed_lines(question), plan.text.rstrip()]
    found.append(f"files: {', '.join(plan.files) or 'none are named'}")
    if plan.rolled_back:
        found.append(f"the planner changed files, which was rolled back: {', '.join(plan.rolled_back)}")
    found += [f"the planner changed the repository: {one}" for one in plan.commits]
    known = {one.path for one in question.changed}
    earlier = [one for one in drift if one.path not in known]
    if earlier:
        found.append(f"changed in these files since the plan was made:\n{diff_text(earlier)}")
    found.append(f"made on {_files_of(plan.made_on)}")
    if plan.made_on != question.snapshot:
        found.append(f"shown on {_files_of(question.snapshot)}")
    return found


def _implementation_lines(found: Sequence[FileDiff], question: Question) -> list[str]:
    lines = _lines(found)
    # Runs that wait were asked with this very text: other words would be another question.
    count = "" if lines is None else f", {lines} lines"
    files = "1 file" if len(found) == 1 else f"{len(found)} files"
    shown = f"{files}{count}, shown on {_files_of(question.snapshot)}"
    return [*_changed_lines(question), diff_text(found) or "no file differs", shown]


def _changed_lines(question: Question) -> list[str]:
    """The text of a gate; if it is asked again, the changes come first."""
    if not question.changed:
        return []
    return [f"It is asked again: files changed since it was approved.\n{diff_text(question.changed)}"]


def _files_of(snapshot: str) -> str:
    """A snapshot in words; the whole id, so that what is shown stands for the files."""
    return f"the files of snapshot {snapshot}"


def _lines(found: Sequence[FileDiff]) -> int | None:
    """How many lines were added and removed; None if a file is compared as a whole."""
    total = 0
    for one in found:
        counted = one.lines()
        if counted is None:
            return None
        total += sum(counted)
    return total


def _verification(results: Sequence[CheckResult], text: str) -> str:
    ran = [one.sentence for one in results] or ["no command verifies it; --check names one"]
    return "\n".join([*ran, *([text] if text else [])])


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
    return ", ".join(paths[:5]) + more if paths else "nothing"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _scope() -> Scope:
    scope = current.get()
    assert type(scope) is Scope
    return scope
