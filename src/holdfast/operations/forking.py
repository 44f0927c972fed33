"""`fork`: a new run that has already done what another one had done before a point.

Its history is a copy of the other's, event by event, with the times at which they happened. So a fork
stands by itself: what becomes of the other run does not concern it.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec

from holdfast.engine.files.workspaces import mark_of
from holdfast.engine.outside.unknown_run import gone, missing
from holdfast.errors import BadWorkspace, RunExists, StoreInDoubt, with_more
from holdfast.json_view import View
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.evolve import fold
from holdfast.kernel.generations import again
from holdfast.kernel.identity import check_run_id
from holdfast.kernel.state import OVER, UNSEEN
from holdfast.operations import operation_files as file_points
from holdfast.operations import points
from holdfast.operations.lineage import live
from holdfast.operations.plan_digest import digest_of, refuse_other, versions
from holdfast.operations.points import Point
from holdfast.operations.repeats import once_steps
from holdfast.store.port import NO_EVENTS, Decision, NewEvent, Recorded, Source, new_event

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.kernel.state import RunState, StepState
    from holdfast.store.port import Store
    from holdfast.workspace.workspace import Workspace


class Fork(View, frozen=True):
    """A run that was made from another, or would be.

    id      the new run's; in a dry run, empty unless it was chosen
    origin  the run that it was made from
    at      the point: a step, which runs again, a checkpoint, which is kept, `before:STEP`, `start` or `end`
    kept    the steps whose results it has from there
    files   where the files of the point were put, and how many; None if no directory was named
    once    `once` steps that the other run has done, or begun, in whatever generation, and that are not kept:
            they run again if this one comes to them
    made    False in a dry run
    plan    a digest of all this; with `plan=`, `fork` refuses to do anything else
    """

    id: str
    origin: str
    at: str
    kept: tuple[str, ...]
    once: tuple[str, ...]
    files: ForkedFiles | None = None
    made: bool = False
    plan: str = ""

    JSON: ClassVar = {
        "id": "the new run; null with `--dry-run` and no `--into`",
        "origin": "the run that it was made from",
        "at": "the point",
        "kept": "the steps whose results the new run has",
        "once": "the `once` steps that the other run did from there on: they run again in this one",
        "made": "false with `--dry-run`",
        "files": "with `--directory`, where its files are; else null",
        "plan": "a digest of what is done, or would be; `--plan` takes it",
    }
    JSON_NULL: ClassVar = ("id",)


class Replaced(NamedTuple):
    """Other arguments for a fork: what creates a run with them, and which steps of the old run count."""

    create: c.CreateRun
    blobs: Sequence[tuple[str, bytes]]
    keeps: Callable[[StepState], bool]


class ForkedFiles(View, frozen=True):
    """`as_of` is the moment of the other run that they are of."""

    directory: str
    as_of: str
    snapshot: str
    count: int

    JSON: ClassVar = {
        "directory": "where the files are",
        "as_of": "which moment of the other run they are of, in words",
        "snapshot": "the snapshot of that moment",
        "count": "how many files",
    }


def fork(
    engine: Engine,
    run_id: str,
    at: str | None,
    *,
    by: str,
    into: str | None = None,
    directory: Path | None = None,
    dry_run: bool = False,
    plan: str | None = None,
    replaced: Callable[[RunState], Replaced] | None = None,
) -> Fork:
    """A new run, paused, with what `run_id` had recorded before the step `at`, or up to the checkpoint;
    `before:STEP` is the moment in which a step or a checkpoint began, `start` that of the run; without
    `at`, all that it has done counts. `replaced` gives it other arguments, and says which of these steps
    count with them. With `directory`, which must be empty or not there, it works in that, on the files of
    the point.

    The other run may be executed meanwhile, and is not touched. Raises `StepNotFound` with the nearest
    names, `RunExists`, `BadWorkspace`; `PlanChanged` if `plan` is the digest of a preview, and something else
    would be done now.
    """
    if into is not None:
        check_run_id(into)
        _refuse_taken(engine.store, into)
    history = engine.store.load(run_id)
    state = fold(history)
    if state is None:
        raise missing(engine.store, run_id)
    point = Point("end", state.version) if at is None else points.resolve(engine.store, run_id, state, at)
    kept = _kept(state, point)
    other = None if replaced is None else replaced(state)
    if other is not None:
        kept = {key: step for key, step in kept.items() if other.keeps(step)}
    forked = Fork(
        id=into or "",
        origin=run_id,
        at=point.name,
        kept=tuple(step.key for step in kept.values() if step.kind not in UNSEEN),
        once=tuple(once_steps(engine.store, again(state, kept))),
    )
    with ExitStack() as held:
        moved = None
        if directory is not None:
            moved = _Moved.of(engine, run_id, state, point, directory, held)
            forked = msgspec.structs.replace(forked, files=moved.files)
        files = None if forked.files is None else forked.files.to_json()
        doing = [into, point.name, point.version, versions(kept.values()), forked.once, files]
        doing += [] if other is None else [other.create.digest]
        digest = digest_of("fork", run_id, doing)
        refuse_other(plan, digest)
        forked = msgspec.structs.replace(forked, plan=digest)
        if dry_run:
            return forked
        forked = msgspec.structs.replace(forked, id=into or _free_id(engine), made=True)
        if moved is not None:
            held.enter_context(moved.made(forked.id))
        return _make(engine, run_id, history, state, point, kept, forked, by, moved, other)


def _free_id(engine: Engine) -> str:
    """A minted id that no run has, or had."""
    while True:
        minted = engine.mint_id()
        if engine.store.run(minted) is None and gone(engine.store, minted) is None:
            return minted


def _refuse_taken(store: Store, run_id: str) -> None:
    """Before any file is made. What takes the id meanwhile is refused when the run is written."""
    if store.run(run_id) is not None:
        raise RunExists(run_id, "a history of its own")
    error = gone(store, run_id)
    if error is not None:
        raise error


def _make(
    engine: Engine,
    run_id: str,
    history: Sequence[Recorded],
    state: RunState,
    point: Point,
    kept: dict[str, StepState],
    forked: Fork,
    by: str,
    moved: _Moved | None,
    other: Replaced | None,
) -> Fork:
    new_id = forked.id
    now = engine.clock.now_us()
    # A child that is forked is a run of its own.
    created: Any = msgspec.structs.replace(history[0].event, parent="", parent_step="")
    if other is not None:
        new = other.create
        code = msgspec.structs.replace(state.code, title=new.code.title)
        created = msgspec.structs.replace(created, code=code, digest=new.digest, args=new.args, blob=new.blob)
    if moved is not None:
        created = msgspec.structs.replace(created, code=moved.code(created.code))
    events = [
        new_event(created, now),
        *_copied(history, state, point, kept, "" if moved is None else moved.files.directory),
        new_event(e.RunForked(run_id, point.name, point.version, by, ordered=not state.loose), now),
    ]
    if moved is not None:
        begins = msgspec.structs.replace(
            file_points.stopped(moved.workspace, moved.files.snapshot, 0), place="start"
        )
        events.append(new_event(begins, now))

    is_archived = False
    blobs = () if other is None else other.blobs

    def decide(recorded: Sequence[Sequence[Recorded]]) -> Sequence[Decision]:
        nonlocal is_archived
        origin, there = recorded
        if there:
            raise RunExists(new_id, "a history of its own")
        is_archived = not origin  # meanwhile, and its large values with it
        return NO_EVENTS, NO_EVENTS if is_archived else Decision("run", events, blobs=blobs)

    engine.store.command_all([Source(run_id, state.version - 1), Source(new_id)], decide)
    if is_archived:
        raise missing(engine.store, run_id)
    return forked


def _kept(state: RunState, point: Point) -> dict[str, StepState]:
    """The steps that had ended before the point; a checkpoint is itself among them, any other step is not."""
    last = point.version - (point.step is not None and point.step.kind != "checkpoint")
    return {key: step for key, step in state.steps.items() if step.version <= last and step.status in OVER}


class _Moved(NamedTuple):
    """The files of a point, on their way into a directory of the fork's own."""

    engine: Engine
    root: str
    files: ForkedFiles

    @classmethod
    def of(
        cls,
        engine: Engine,
        run_id: str,
        state: RunState,
        point: Point,
        directory: Path,
        held: ExitStack,
    ) -> _Moved:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise BadWorkspace(
                f"{directory} is there and not empty; name a new directory for the fork's files"
            )
        if point.step is not None and point.step.kind != "checkpoint":
            point = points.resolve(engine.store, run_id, state, f"{points.BEFORE}{point.name}")
        saved = file_points.point_of(run_id, state, point)
        contents = engine.files.contents
        held.enter_context(contents.hold())
        from holdfast.workspace.snapshots.snapshot import Tree

        tree = Tree(contents, saved.snapshot)
        count = sum(not entry.is_directory for _, entry in tree.walk())
        return cls(
            engine,
            saved.root,
            ForkedFiles(str(directory.resolve()), file_points.described(saved), saved.snapshot, count),
        )

    @contextmanager
    def made(self, run_id: str) -> Iterator[None]:
        """The files are there inside, where the run is written that works on them. If it is known that it is
        not, nothing of them is left; if that is not known, they stay."""
        directory = Path(self.files.directory)
        absent = [one for one in (directory, *directory.parents) if not one.exists()]
        done = None
        try:
            directory.mkdir(parents=True, exist_ok=True)
            done = self.workspace.put_into(self.files.snapshot)
            yield
        except BaseException as error:
            if done is not None and _is_in_doubt(error):
                way = (
                    f"the files of the fork stay in {directory}: run {run_id} works there if `holdfast show "
                    f"{run_id}` finds it, else remove them and fork again"
                )
                if isinstance(error, StoreInDoubt):
                    raise with_more(error, way) from error
                logging.getLogger("holdfast").warning("the fork was interrupted; %s", way)
                raise
            if done is not None:
                self.workspace.apply(self.workspace.plan(done.before, done.after))
            with suppress(OSError):  # others have put something there
                for one in absent:
                    one.rmdir()
            if isinstance(error, OSError):
                raise BadWorkspace(f"{directory} cannot be made: {error.strerror}") from error
            raise

    @property
    def workspace(self) -> Workspace:
        directory = Path(self.files.directory)
        self.engine.files.permit(directory)
        return self.engine.files.of(directory)

    def code(self, code: e.Code) -> e.Code:
        """Where the fork's code is, and where it works: in its own directory what was in the root."""
        moved = msgspec.structs.replace(
            code,
            cwd=self._inside(code.cwd),
            script=self._inside(code.script),
            directory=self._inside(code.directory),
        )
        root = self._inside(code.root)
        if root == code.root:
            return moved
        return msgspec.structs.replace(moved, root=root, mark=mark_of(Path(root)), home="")

    def _inside(self, path: str) -> str:
        if not path or not Path(path).is_relative_to(self.root):
            return path
        return str(Path(self.files.directory) / Path(path).relative_to(self.root))


def _is_in_doubt(error: BaseException) -> bool:
    """Whether what this ended may be in the log all the same: Ctrl-C comes at any moment of a commit."""
    return isinstance(error, StoreInDoubt) or not isinstance(error, Exception)


def _copied(
    history: Sequence[Recorded],
    state: RunState,
    point: Point,
    kept: dict[str, StepState],
    directory: str,
) -> Iterator[NewEvent]:
    """The events behind the kept steps, as of one generation; they follow the creation of the run. Their
    files are in `directory`, if there is one."""
    version = 1
    places: dict[int, int] = {}
    """Of signals: version there → version here."""
    copied: list[int] = []
    """The versions there of what was copied."""
    for event, there, at in live(history, state.generation):
        if there > point.version:
            break
        copy: Any = None
        if isinstance(event, e.SignalReceived) and there in state.signals:
            copy = event
            places[there] = version + 1
        elif isinstance(event, e.TimerFired):
            copy = msgspec.structs.replace(event, generation=0)
        elif isinstance(event, e.GateDecided) and event.key in kept:
            copy = msgspec.structs.replace(event, generation=0, signal=places.get(event.signal, 0))
        elif getattr(event, "key", "") in kept and not isinstance(event, (e.OutputCaptured, e.StepMeasured)):
            copy = msgspec.structs.replace(event, generation=0)
        if isinstance(copy, e.EvidenceWritten):
            copy = msgspec.structs.replace(copy, until=1 + bisect_right(copied, copy.until))
        if copy is not None:
            if directory and isinstance(copy, (e.FilesSaved, e.CheckpointTaken)):
                root, mark = (directory, mark_of(Path(directory))) if copy.snapshot else ("", "")
                copy = msgspec.structs.replace(copy, root=root, mark=mark, git=None)
            version += 1
            copied.append(there)
            yield new_event(copy, at)
