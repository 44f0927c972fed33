"""`rewind`: go back to a point of a run's history. What was recorded after it will run again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec

from holdfast.errors import BadInput
from holdfast.json_view import View
from holdfast.kernel.generations import again, following, up_to
from holdfast.kernel.operation import begin
from holdfast.kernel.state import GATES, UNSEEN
from holdfast.operations import points
from holdfast.operations.cut_off import make_way
from holdfast.operations.holding import load, look
from holdfast.operations.operation_files import FilesBack, point_of, refuse_pattern, to_point
from holdfast.operations.performing import Performed, perform
from holdfast.operations.plan_digest import digest_of, refuse_other, versions
from holdfast.operations.quota import refuse_forgotten
from holdfast.operations.repeats import let_go_family, once_steps, refuse_again
from holdfast.operations.repositories import GitBack
from holdfast.operations.reversal import PartBack, Reversal, digest_fields
from holdfast.operations.tracked_parts import parts_of_rewind, plans_of

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.kernel.state import RunState, StepState
    from holdfast.operations.points import Point


class Rewind(View, frozen=True):
    """The effects of a rewind, done or planned.

    to          the step that it goes back to, and keeps; or `before:STEP`, or `start`
    generation  the one that it opens
    again       the steps after that point: they run again if the run still comes to them
    decisions   the gates among them that were decided: they wait again
    once        the `once` steps that were done after it, or may have been, and would run again: in whatever
                generation, those of child runs too
    children    the child runs that no longer count
    operation   what `undo` reverses; empty in a dry run, and if `only` names files that need no change
    files       what becomes of the files; None if the run has no snapshot of that point
    git         what becomes of the repository; None unless that was asked for
    git_stays   what the run did to it and stays; None if that is nothing, or if it was asked to go back
    plan        a digest of what is done, or would be: with `plan=`, `rewind` refuses to do anything else
    tasks       what becomes of the tasks that the run changed after that point
    memory      what becomes of what it remembered after it
    """

    run_id: str
    to: str
    generation: int
    again: tuple[str, ...]
    decisions: tuple[str, ...]
    once: tuple[str, ...]
    children: tuple[str, ...]
    operation: str = ""
    files: FilesBack | None = None
    git: GitBack | None = None
    git_stays: GitBack | None = None
    plan: str = ""
    tasks: PartBack = PartBack()
    memory: PartBack = PartBack()

    JSON: ClassVar = {
        "run": "the run",
        "to": "the step that it goes back to and keeps",
        "generation": "the one that is opened",
        "again": "the steps after that point, in order",
        "decisions": "the gates among them that were decided",
        "once": "the `once` steps among them that were done, or may have been; of child runs as `pay#1 of "
        "r.child-1`",
        "children": "the child runs that no longer count",
        "operation": "what `undo` reverses; null with `--dry-run`, and if `--only` names files that need "
        "no change",
        "files": "what becomes of the files; null if the run has none at that point",
        "git": "with `--git`, what becomes of the repository; else null",
        "git_stays": "without `--git`, what the run did to the repository and stays; null if that is nothing",
        "plan": "a digest of what is done, or would be; `--plan` takes it",
        "tasks": "what becomes of the tasks that the run changed since",
        "memory": "what becomes of what the run remembered since",
    }
    JSON_FROM: ClassVar = {"run": "run_id"}
    JSON_NULL: ClassVar = ("operation",)


def rewind(
    engine: Engine,
    run_id: str,
    to: str,
    *,
    by: str,
    only: Sequence[str] = (),
    keep: Sequence[str] = (),
    theirs: bool = False,
    files: bool = True,
    partial: bool = False,
    git: bool = False,
    rerun_once: bool = False,
    dry_run: bool = False,
    plan: str | None = None,
) -> Rewind:
    """Go back to the checkpoint or step `to`, the moment `before:STEP`, or the `start`, with the files; the
    run is paused after. With `only`, the run stays where it is, and of its files those that match go back;
    files that match `keep` stay as they are.

    Raises `PlanChanged` if `plan` is the digest of a preview, and something else would be done now; `RunHeld`
    if a process executes the run, `OnceAgain` if `once` steps would run again and `rerun_once` does not say
    that they may, `StepNotFound` with the nearest names, `ContentsDamaged` if a saved file cannot be read and
    `partial` does not say that the rest will do.
    """
    refuse_pattern([*only, *keep])
    if keep and not files:
        raise BadInput("no file goes back without the files: leave one of --keep and --no-files out")
    if git and not files:
        raise BadInput("the repository goes back with the files: leave one of --git and --no-files out")
    if not dry_run:
        make_way(engine, run_id)
    while True:
        state = load(engine, run_id)
        point = points.resolve(engine.store, run_id, state, to)
        if files:
            way = "" if only or git else "`--no-files` goes back without them"
            refuse_forgotten(engine, run_id, point.version, f"the files of {point.name}", way)
        planned = _plan(engine, run_id, state, point, selective=bool(only))
        parts = () if only else parts_of_rewind(engine, run_id, state, point, by)
        planned = planned.with_parts(parts)
        if dry_run:
            dead = look(engine, state)
        else:
            dead = let_go_family(engine, run_id, state, planned.steps)
            refuse_again(run_id, planned.rewind.once, rerun_once)
        if only or git:
            point_of(run_id, state, point)
        with (
            to_point(
                engine,
                state,
                point,
                dead,
                only=tuple(only),
                keep=tuple(keep),
                theirs=theirs,
                partial=partial,
                git=git,
                dry_run=dry_run,
            )
            if files
            else nullcontext()
        ) as going:
            if going is not None:
                going.refuse_unmatched()
            kind = "restore" if only else "rewind"
            digest = digest_of(kind, run_id, [*planned.doing(point), *digest_fields(parts)], going)
            refuse_other(plan, digest)
            if going is not None and plan is not None:
                going.bound = digest
            done: Performed | None
            if dry_run or (only and going is not None and going.is_idle and going.stop is None):
                done = Performed.of("", going)
            else:
                begun = begin(kind, run_id, by, point.name)
                command = point.rewind(run_id, dead.owner, rerun_once)
                done = perform(engine, begun, state, None if only else command, going, parts)
        if done is not None:
            stays = None if going is None else going.git_stays
            return msgspec.structs.replace(planned.rewind, plan=digest, git_stays=stays, **done._asdict())


class _Plan(NamedTuple):
    rewind: Rewind
    steps: list[StepState]

    def with_parts(self, parts: Sequence[Reversal]) -> _Plan:
        tasks, memory = plans_of(parts)
        return self._replace(rewind=msgspec.structs.replace(self.rewind, tasks=tasks, memory=memory))

    def doing(self, point: Point) -> list[Any]:
        """The changes of the state, as JSON data."""
        done = self.rewind
        return [point.name, point.version, done.generation, versions(self.steps), done.once, done.children]


def _plan(engine: Engine, run_id: str, state: RunState, point: Point, *, selective: bool) -> _Plan:
    if selective:
        return _Plan(Rewind(run_id, point.name, state.generation, (), (), (), ()), [])
    kept = up_to(state.steps, point.version)
    left = [step for step in state.steps.values() if step.key not in kept]
    steps = [step for step in left if step.kind not in UNSEEN]
    rewind = Rewind(
        run_id=run_id,
        to=point.name,
        generation=following(state),
        again=tuple(step.key for step in steps),
        decisions=tuple(step.key for step in steps if step.kind in GATES and step.status == "completed"),
        once=tuple(once_steps(engine.store, again(state, kept))),
        children=tuple(step.child for step in steps if step.child),
    )
    return _Plan(rewind, steps)
