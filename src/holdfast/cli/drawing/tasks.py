"""Tasks as a person reads them: a line each, or one with all that belongs to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from holdfast.cli.drawing import moments
from holdfast.cli.drawing.columns import left_out
from holdfast.cli.drawing.rows import block, hanging, row, rows
from holdfast.cli.drawing.terminal import Line, Piece, cells, clean, fit, out, pad, typed
from holdfast.clock import instant
from holdfast.counts import counted

if TYPE_CHECKING:
    from holdfast.views.task import Task, TaskClaim, TaskDetail, TaskEvent, TaskNode
    from holdfast.views.work import TaskRun

STYLES = {"pending": "", "in_progress": "cyan", "completed": "green", "failed": "red"}
SHORT = 8
"""How many characters of an id are shown on a terminal; four that are unique are enough to type."""
_BODY_LINES = 12
_URGENT = {0: "red", 1: "yellow"}


_NUMBER = 4
_NARROWEST = 8
_WIDEST_NAME = 48
"""So wide is the column of names in a pipe; a longer name sticks out of it."""


def short(id: str) -> str:
    """The id as it is shown: its beginning on a terminal, whole in a pipe."""
    return id[:SHORT] if out.is_terminal else id


def listed(tasks: Sequence[Task]) -> Iterator[Line]:
    """A line for each task: aligned and coloured on a terminal, plain and whole in a pipe."""
    return _for_people(tasks) if out.is_terminal else _for_programs(tasks)


def _for_programs(tasks: Sequence[Task]) -> Iterator[Line]:
    table = [("ID", "STATUS", "PRIORITY", "UPDATED", "TOOK", "NUMBER", "NAME", "REMARK")]
    for task in tasks:
        took = "-" if task.duration_s is None else f"{task.duration_s:.3f}s"
        about = (str(task.priority), moments.utc(task.updated_at), took, f"#{task.number}")
        table.append((task.id, _status(task), *about, clean(task.name), clean(_remark(task))))
    last = len(table[0]) - 1
    widths = [max(cells(line[n]) for line in table) for n in range(last)]
    widths[-1] = min(widths[-1], _WIDEST_NAME)
    for line in table:
        yield "  ".join([*(pad(line[n], widths[n]) for n in range(last)), line[last]]).rstrip()


def _status(task: Task) -> str:
    """The state of a task in a word, for programs."""
    return _state(task).replace(" ", "_")


class _Columns(NamedTuple):
    """How wide the columns of a list are; `age` is 0 where there is no room for it, and `has_id` false: the
    number stays, and names the task as well."""

    number: int
    state: int
    age: int
    has_id: bool
    room: int

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> Self:
        state = max(len(_state(task)) for task in tasks)
        age = max(len(moments.ago(task.updated_at)) for task in tasks)
        number = max(_NUMBER, *(len(f"#{task.number}") for task in tasks))
        room = out.width - (SHORT + 1) - (number + 2) - (state + 2) - 4 - (age + 2)
        out_of_it = left_out(room, (age + 2, SHORT + 1))
        room += (age + 2 if out_of_it > 0 else 0) + (SHORT + 1 if out_of_it > 1 else 0)
        return cls(number, state, age if out_of_it == 0 else 0, out_of_it < 2, max(room, _NARROWEST))


def _for_people(tasks: Sequence[Task]) -> Iterator[Line]:
    if tasks:
        columns = _Columns.of(tasks)
        for task in tasks:
            yield _line(task, columns)


def _line(task: Task, columns: _Columns, indent: str = "") -> Line:
    """One task in one line."""
    state = _state(task).ljust(columns.state)
    age = f"{moments.ago(task.updated_at).rjust(columns.age)}  " if columns.age else ""
    name = fit(clean(task.name), max(columns.room - len(indent), _NARROWEST))
    pieces: list[Piece] = [
        (f"{short(task.id)} " if columns.has_id else "", "bold"),
        (f"#{task.number}".ljust(columns.number), "dim"),
        "  ",
        (state, "yellow" if task.blocked else STYLES[task.status]),
        "  ",
        (f"P{task.priority}", _URGENT.get(task.priority, "dim")),
        "  ",
        (age, "dim"),
        indent,
        name,
    ]
    left = columns.room - len(indent) - cells(name) - 2
    remark = _remark(task)
    if remark and left > 6:
        pieces.append((f"  {fit(clean(remark), left)}", "dim"))
    return pieces


def _state(task: Task) -> str:
    if task.archived:
        return "archived"
    if task.blocked and task.status == "pending":
        return "blocked"
    return task.status.replace("_", " ")


def _remark(task: Task) -> str:
    """The remarks of a list on a task: who has it, why it is blocked, its labels."""
    said = []
    if task.claim is not None:
        said.append(_claim(task.claim, brief=True))
    elif task.blocked:
        said.append(task.blocked)
    elif task.open_blockers and task.status == "pending":
        said.append(f"needs {counted(task.open_blockers, 'open task')}")
    elif task.assignee:
        said.append(f"for {task.assignee}")
    if task.labels:
        said.append(" ".join(f"#{label}" for label in task.labels))
    return "  ".join(said)


def _claim(claim: TaskClaim, *, brief: bool = False) -> str:
    if claim.run:
        return f"run {claim.run}"
    over = claim.until is not None and claim.until <= datetime.now(UTC)
    until = "" if claim.until is None else f"until {claim.until.astimezone():%Y-%m-%d %H:%M}"
    if brief:
        return f"{claim.actor}, lease over" if over else claim.actor
    process = f", process {claim.pid}" if claim.pid else ""
    return f"{claim.actor}, claim {claim.number}{process}, {'lease over' if over else until}"


def detail(found: TaskDetail, *, whole: bool = False) -> Iterator[Line]:
    """A task with its links and notes."""
    task = found.task
    head: list[Piece] = [("task ", "dim"), (short(task.id), "bold"), (f"  #{task.number}  ", "dim")]
    yield from hanging(head, clean(task.name))
    said: list[Piece] = [(_state(task), "yellow" if task.blocked else STYLES[task.status])]
    if task.claim is not None:
        said.append((f"  {clean(_claim(task.claim))}", ""))
    if task.completed_at is not None:
        took = moments.between(task.started_at, task.completed_at)
        said.append((f"  {_when(task.completed_at)}, after {took}", "dim"))
    yield row("status", said)
    if task.blocked:
        yield from rows("blocked", task.blocked, "yellow")
    about = [f"priority {task.priority}", *([f"for {task.assignee}"] if task.assignee else [])]
    about += [f"due {moments.stamp(task.due)}"] if task.due else []
    about += [f"#{label}" for label in task.labels]
    about += [counted(task.attempts, "attempt")] if task.attempts > 1 else []
    yield from rows("about", ", ".join(map(clean, about)), "dim")
    if task.body:
        yield from block("body", task.body, None if whole else _BODY_LINES, "--all shows all")
    yield from _linked(found)
    for n, run in enumerate(found.runs):
        yield row("runs" if n == 0 else "", _run(run))
    for command in task.checks:
        yield from rows("check", clean(command))
    for note in found.notes:
        yield from rows(note.kind[:9], clean(f"{note.text}  ({note.by}, {_when(note.at)})"))
    if task.summary:
        yield from rows("summary", clean(task.summary), "green")
    if task.error:
        yield from rows("error", clean(task.error), "red")
    if task.unchecked:
        yield from rows("unchecked", clean(task.unchecked), "yellow")


def _run(run: TaskRun) -> list[Piece]:
    if not run.status:
        return [clean(run.run), ("  no longer there", "dim")]
    return [clean(run.run), (f"  #{run.number}", "dim"), f"  {run.status.replace('_', ' ')}"]


def _linked(found: TaskDetail) -> Iterator[Line]:
    seen = ""
    for link in sorted(found.links, key=lambda link: _ORDER.index(link.relation)):
        name = _RELATIONS[link.relation]
        pieces: list[Piece] = [
            (short(link.task), "bold"),
            "  ",
            (link.status.replace("_", " "), STYLES[link.status]),
            "  ",
            clean(link.name),
        ]
        yield row("" if name == seen else name, pieces)
        seen = name


_RELATIONS = {
    "parent": "part of",
    "needs": "needs",
    "needed-by": "needed by",
    "child": "parts",
    "discovered-from": "found in",
    "discovered": "led to",
    "related": "related",
}
_ORDER = list(_RELATIONS)


def tree(nodes: Sequence[TaskNode]) -> Iterator[Line]:
    """A task and its parts, each indented below what it is a part of."""
    columns = _Columns.of([node.task for node in nodes])
    for node in nodes:
        indent = "  " * node.depth
        if out.is_terminal:
            yield _line(node.task, columns, indent)
        else:
            task = node.task
            said = (task.id, _status(task), f"#{task.number}", clean(task.name), clean(_remark(task)))
            yield f"{indent}{'  '.join(said)}".rstrip()


def history(events: Sequence[TaskEvent]) -> Iterator[Line]:
    """The events of a task, one line each."""
    kind = max(len(event.type) for event in events)
    by = max(len(event.by) for event in events)
    for event in events:
        data = {name: value for name, value in event.data.items() if name != "author"}
        run = (event.data.get("author") or {}).get("run")
        said = ", ".join(f"{name}={_value(name, value)}" for name, value in data.items())
        when = moments.stamp(event.at) if out.is_terminal else moments.utc(event.at)
        room = max(out.width - kind - by - len(when) - 12, 20)
        text = clean(f"{said}{f'  (run {run})' if run else ''}")
        yield [
            (f"{event.version:>3}  ", "dim"),
            event.type.ljust(kind),
            f"  {clean(event.by).ljust(by)}  ",
            (when, "dim"),
            f"  {fit(text, room) if out.is_terminal else text}",
        ]


_INSTANTS = frozenset({"until", "due", "started_at", "ended_at", "at"})


def _value(name: str, value: Any) -> str:
    """A field of an event. An instant, which the log has in microseconds, is a time."""
    if name in _INSTANTS and isinstance(value, int) and value > 0:
        at = instant(value)
        return moments.stamp(at) if out.is_terminal else moments.utc(at)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name!r}: {_value(name, one)}" for name, one in value.items()) + "}"
    return repr(value)


def ways(*commands: tuple[str, str]) -> Iterator[Line]:
    """The next actions: commands to copy, and what each does."""
    widest = max(cells(typed(command)) for command, _ in commands)
    for command, effect in commands:
        yield ["  ", (typed(command).ljust(widest), "cyan"), (f"  {effect}", "dim")]


def _when(at: datetime) -> str:
    return moments.ago(at) if out.is_terminal else moments.utc(at)
