"""Reads one store: everything that leaves it passes the redactor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.clock import instant, microseconds, optional_instant
from holdfast.engine.outside.records import LogEvent
from holdfast.engine.outside.unknown_run import gone, missing
from holdfast.engine.ownership.owners import is_alive, lock_path
from holdfast.errors import AmbiguousRunId, RunNotFound, StepNotFound
from holdfast.kernel.identity import check_run_id, matches
from holdfast.kernel.state import RESUMABLE, STOPPED, UNFINISHED
from holdfast.store.rows import OwnerRow, RunFilter, RunRow, StepRow
from holdfast.views.records import LogLine, RunInfo, RunPage, StepInfo
from holdfast.views.run_input import RunInput, input_of, title_of

if TYPE_CHECKING:
    from holdfast.kernel.events import RunCreated
    from holdfast.kernel.measures import Measured
    from holdfast.redaction import Redactor
    from holdfast.store.budget_port import RunSpending
    from holdfast.store.port import Store
    from holdfast.store.statistics import Statistics
    from holdfast.store.submission import Recorded
    from holdfast.views.gate import Gate
    from holdfast.views.past import At, Moment
    from holdfast.views.run_detail import RunDetail
    from holdfast.views.step_detail import StepDetail

_MANY = 100
_TASK = "@task/"


class Reader:
    """Reads one store. Knows who is alive, so that an interrupted run shows as such."""

    moment: Moment | None = None
    """None: as the store is now."""

    def __init__(self, store: Store, home: Path, redactor: Callable[[], Redactor]) -> None:
        """`redactor` is called for the first text that needs it: loading its patterns takes longer than
        reading a list of runs."""
        self._store = store
        self._home = home
        self._open_redactor = redactor
        self._opened_redactor: Redactor | None = None
        self._alive: dict[str, bool] = {}

    @property
    def redactor(self) -> Redactor:
        if self._opened_redactor is None:
            self._opened_redactor = self._open_redactor()
        return self._opened_redactor

    def runs(
        self, *, status: Sequence[str] = (), resumable: bool | None = None, limit: int | None = None
    ) -> list[RunInfo]:
        """Runs, the newest first. Resumable: those that `resume` would continue, not those that are live."""
        self._alive.clear()
        if resumable:
            return self._find(self._resumable(status), limit)
        found = self._find(RunFilter(status=tuple(status)), limit if resumable is None else None)
        if resumable is None:
            return found
        return [run for run in found if not self.is_resumable(run)][:limit]

    def page(
        self,
        *,
        status: Sequence[str] = (),
        resumable: bool = False,
        workflow: str | None = None,
        parent: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> RunPage:
        """The newest runs that fit, and how many fit.

        status        any of these; `interrupted` is no status of the store, and can be asked for too
        resumable     those that `resume` would continue
        workflow      a pattern with `*`, `?` and `[...]`
        parent        the children of that run; empty: runs that are no children
        since, until  runs that changed since, that were created before
        """
        self._alive.clear()
        which = self._resumable(status) if resumable else self._of_status(status)
        if which is None:
            return RunPage([], 0)
        which = msgspec.structs.replace(
            which,
            workflow=workflow,
            parent=parent,
            changed_since=None if since is None else microseconds(since),
            created_before=None if until is None else microseconds(until),
        )
        found = self._find(which, limit)
        whole = limit is None or len(found) < limit
        return RunPage(found, len(found) if whole else self._store.count_runs(which))

    def _find(self, which: RunFilter | None, limit: int | None) -> list[RunInfo]:
        if which is None:
            return []
        found = self._infos(self._store.find_runs(which, limit))
        # An owner that started after the live ones were listed is not among them: its runs are not orphans.
        return [
            run for run in found if run.status in which.status or not which.orphaned or run.owner_pid is None
        ]

    def _of_status(self, status: Sequence[str]) -> RunFilter:
        stored = tuple(one for one in status if one != "interrupted")
        if len(stored) == len(status):
            return RunFilter(status=stored)
        orphaned = tuple(one for one in UNFINISHED if one not in stored)
        return RunFilter(status=stored, orphaned=orphaned, live=self._living(orphaned), parked=False)

    def _resumable(self, status: Sequence[str]) -> RunFilter | None:
        """None where nothing of these statuses can be resumed."""
        every = not status or "interrupted" in status
        orphaned = tuple(one for one in UNFINISHED if every or one in status)
        stopped = tuple(one for one in STOPPED if not status or one in status)
        if not orphaned and not stopped:
            return None
        return RunFilter(status=stopped, orphaned=orphaned, live=self._living(orphaned))

    def _living(self, status: Sequence[str]) -> tuple[str, ...]:
        """The owners of such runs that live: looked up once each, however many runs they have."""
        named = self._store.owners_named(status) if status else []
        if len(named) > _MANY:  # most of them are dead: an owner without a lock file need not be checked
            there = _with_a_lock_file(self._home)
            named = [owner for owner in named if owner in there]
        return tuple(owner for owner in named if self._is_alive(owner))

    def wants(self, runs: Sequence[RunInfo]) -> dict[str, str]:
        """Run → what it waits for, of those that wait at a gate of their own."""
        waiting = [run.id for run in runs if run.status == "waiting"]
        found: dict[str, str] = {}
        for run_id, kind, name in self._store.open_gates(waiting) if waiting else ():
            what = self._shown(name) if kind == "approval" else f"signal {name}"
            found[run_id] = f"{found[run_id]}, {what}" if run_id in found else what
        return found

    @staticmethod
    def is_resumable(run: RunInfo) -> bool:
        return run.status in RESUMABLE and (run.status not in UNFINISHED or run.owner_pid is None)

    def find(self, text: str) -> str:
        """The id that `text` is, or is the only possible beginning of. A child's id begins with its parent's,
        so children are considered only if no other run matches. `#42` is a short number, and `42` is one if
        no id begins so. Raises `RunNotFound` with the nearest ids, `RunArchived`, `AmbiguousRunId`."""
        if text.startswith("#"):
            return self._numbered(text)
        if self._store.run(text) is not None:
            return text
        matches = self._store.run_ids(text, 9, parent="") if text else []
        if text and not matches:
            matches = self._store.run_ids(text, 9)
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise AmbiguousRunId(text, matches)
        if text.isdecimal() and gone(self._store, text) is None:
            return self._numbered(text)
        raise missing(self._store, text)

    def _numbered(self, text: str) -> str:
        """The run with this short number."""
        from holdfast.kernel.naming import number_of

        number = number_of(text)
        name = None if number is None else self._store.numbered(number)
        if name is not None and name.startswith(_TASK):
            error = RunNotFound(text)
            task = name.removeprefix(_TASK)
            error.args = (f"{text} is no run but task {task}; `holdfast task show {task}` shows it",)
            raise error
        if name is None or name.startswith("@"):
            raise RunNotFound(text)
        if self._store.run(name) is None:
            raise missing(self._store, name)
        return name

    def known(self, run_id: str) -> str:
        """The id itself, if there is such a run."""
        if self._store.run(check_run_id(run_id)) is None:
            raise missing(self._store, run_id)
        return run_id

    def run(self, run_id: str) -> RunInfo | None:
        self._alive.clear()
        row = self._store.run(run_id)
        return None if row is None else self._infos([row])[0]

    def info(self, run_id: str) -> RunInfo:
        """The same, or `RunNotFound`."""
        found = self.run(run_id)
        if found is None:
            raise RunNotFound(run_id)
        return found

    def detail(self, run_id: str) -> RunDetail:
        """A run with its history, which is read when it is first used. Raises `RunNotFound`."""
        from holdfast.views.run_detail import RunDetail

        return RunDetail.of(self.info(run_id), self)

    def past(self, run_id: str, at: At) -> RunDetail:
        """The same as it was at an earlier moment. Raises as `past.resolve` does."""
        from holdfast.views.past import PastReader, resolve
        from holdfast.views.unknown_point import explained

        with explained(self):
            moment = resolve(self._store, run_id, at)
        return PastReader(self._store, self._home, lambda: self.redactor, moment).detail(run_id)

    def step(self, run_id: str, text: str) -> StepDetail:
        """The step that `text` names. Raises as `step_detail.find` does."""
        from holdfast.views import step_detail

        return step_detail.find(self, self.detail(run_id), text)

    def gates(self, run_id: str | None = None) -> list[Gate]:
        """The open gates of a run and of its child runs; without a run, of all that wait."""
        if run_id is not None:
            return self.detail(run_id).open_gates()
        waiting = [run for run in self.runs(status=("waiting",)) if run.id in self.wants([run])]
        return [gate for run in waiting for gate in self.detail(run.id).gates if gate.is_open]

    def history(self, run_id: str) -> Sequence[Recorded]:
        return self._store.load(run_id)

    def authored_by(self, run_id: str) -> list[str]:
        """The streams of tasks, and of links, that the run has written to."""
        return self._store.authored_by([run_id])

    def number_of(self, stream: str) -> int:
        """The short number of a task, by its stream."""
        row = self._store.task(stream.removeprefix(_TASK))
        return 0 if row is None else row.place

    def blob(self, name: str) -> bytes:
        """A value that is stored beside the log."""
        return self._store.blob(name)

    def waiting_children(self, run_id: str) -> list[str]:
        return [row.id for row in self._store.runs(status=("waiting",), parent=run_id)]

    def is_stray(self, run_id: str) -> bool:
        """Whether it is a child of a generation that was left."""
        return bool(self._store.strays([run_id]))

    def target_of(self, run_id: str, operation: str) -> str:
        """The point to which an operation has moved a run."""
        return next((row.to for row in self._store.operations(run=run_id) if row.id == operation), "")

    def live_owners(self) -> list[OwnerRow]:
        return [owner for owner in self._store.owners() if is_alive(self._home, owner.id)]

    def pulse(self) -> int:
        """A number that changes with every commit."""
        return self._store.pulse()

    def steps(self, run_id: str, named: str | None = None) -> list[StepInfo]:
        rows, measured = self._store.steps(run_id), self._measured(run_id)
        found = [
            _step_info(row, measured.get(row.key, ()), self.redactor.redact)
            for row in rows
            if named is None or matches(row.key, named)
        ]
        if named is not None and not found:
            from holdfast.spelling import nearest
            from holdfast.views.unknown_point import missing as missing_point

            near = nearest(named, [row.key for row in rows])
            raise missing_point(self, StepNotFound(run_id, named, near), "step")
        return found

    def spending(self, run_id: str) -> list[RunSpending]:
        """The amounts that a run has spent, by budget."""
        return self._store.run_spending(run_id)

    def _measured(self, run_id: str) -> dict[str, tuple[Measured, ...]]:
        """The usage of the steps of the live history. Most runs have measured nothing: only the history of
        one that has is folded."""
        if not any(True for _ in self._store.entries(run_id, type="StepMeasured")):
            return {}
        from holdfast.kernel.evolve import fold

        state = fold(self._store.load(run_id))
        return {} if state is None else {key: step.measured for key, step in state.steps.items()}

    def events(self, run_id: str, after: int = 0) -> Iterator[LogEvent]:
        for entry in self._store.entries(run_id, after=after):
            data = self.redactor.redact_value(msgspec.json.decode(entry.payload))
            yield LogEvent(entry.stream, entry.version, entry.type, instant(entry.at), data)

    def logs(self, run_id: str, step: str | None = None, after: int = 0) -> Iterator[LogLine]:
        """The output of the run's commands and steps, in order."""
        for entry in self._store.entries(run_id, after=after, type="OutputCaptured"):
            data: dict[str, Any] = msgspec.json.decode(entry.payload)
            if step is None or matches(data["key"], step):
                text = self.redactor.redact(data["text"])
                at = instant(entry.at)
                yield LogLine(data["key"], data["attempt"], data["source"], text, at, entry.version)

    def statistics(self, since: datetime | None = None) -> Statistics:
        """Statistics of the runs that changed since then."""
        found = self._store.statistics(0 if since is None else microseconds(since))
        replace = msgspec.structs.replace
        return replace(
            found,
            workflows=[replace(one, workflow=self._shown(one.workflow)) for one in found.workflows],
            failing=[replace(one, workflow=self._shown(one.workflow)) for one in found.failing],
        )

    def _infos(self, rows: Sequence[RunRow]) -> list[RunInfo]:
        created = dict(self._store.creations([row.id for row in rows])) if rows else {}
        return [self._info(row, created.get(row.id)) for row in rows]

    def _info(self, row: RunRow, created: RunCreated | None) -> RunInfo:
        given = None if created is None else input_of(created, lambda: self.redactor)
        workflow = self._shown(row.workflow)
        alive = bool(row.owner) and self._is_alive(row.owner)
        owner = self._store.owner(row.owner) if alive else None
        return RunInfo(
            row.id,
            workflow,
            row.status,
            self._shown(row.reason),
            row.status in UNFINISHED and not alive and not _is_parked(row),
            owner.pid if owner else None,
            row.generation,
            row.parent,
            instant(row.created_at),
            instant(row.updated_at),
            optional_instant(row.ended_at),
            self._title(workflow, created, given),
            given,
            row.owner,
            self._shown(row.stage),
            row.number,
        )

    def _title(self, workflow: str, created: RunCreated | None, given: RunInput | None) -> str:
        if created is not None and created.code.title:
            return self._shown(created.code.title)
        return title_of(workflow, created is not None and bool(created.code.argv), given)

    def _shown(self, text: str) -> str:
        # A function's name holds no secret; a command line may.
        return text if not text or text.replace(".", "").isidentifier() else self.redactor.redact(text)

    def _is_alive(self, owner: str) -> bool:
        known = self._alive.get(owner)
        if known is None:
            known = self._alive[owner] = is_alive(self._home, owner)
        return known


def _is_parked(row: RunRow) -> bool:
    """No process executes it or was cut off in it: it waits for its time, or for a person to continue it."""
    return row.status in ("sleeping", "pending") and not row.owner


def _with_a_lock_file(home: Path) -> set[str]:
    """The owners that may be alive."""
    directory = lock_path(home, "any").parent
    return {path.stem for path in directory.iterdir()} if directory.is_dir() else set()


def _step_info(row: StepRow, measured: tuple[Measured, ...], redact: Callable[[str], str]) -> StepInfo:
    # Only the name of an approval, its title, may contain values; other names are those of the code.
    return StepInfo(
        row.key,
        redact(row.name) if row.kind == "approval" else row.name,
        row.kind,
        row.effect,
        row.status,
        row.attempt,
        row.started_at,
        row.ended_at,
        row.due_at,
        row.child,
        measured=measured,
    )
