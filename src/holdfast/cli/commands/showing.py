"""`holdfast show`: one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import access, options
from holdfast.cli.commands.listing import STYLES
from holdfast.cli.drawing import moments
from holdfast.cli.drawing.failures import error_rows
from holdfast.cli.drawing.gates import heading, shown_lines
from holdfast.cli.drawing.rows import INDENT, broken, row, rows, width
from holdfast.cli.drawing.scopes import Folding
from holdfast.cli.drawing.steps import Look, plainly, shown_status, tree
from holdfast.cli.drawing.terminal import Line, Piece, cells, clean, fit, out, typed, wrap
from holdfast.cli.drawing.values import compact_text, data_text
from holdfast.cli.selection import read_at
from holdfast.views.records import UNFINISHED, StepInfo

if TYPE_CHECKING:
    from holdfast import LogEvent
    from holdfast.views.gate import Gate
    from holdfast.views.run_detail import RunDetail

_RESULT_CHARS = 4000
_RESULT_LINES = 8  # on a terminal
_INPUT_CHARS = 400
_INPUT_LINES = 2  # on a terminal, of each value
_SHORT = 8  # so many characters of the id of a task, as `task list` shows it
_WAITS = 3  # so many steps that wait are named above the tree
_DECIDED = 3  # so many gates that were decided, the last ones
_SHOWN_LINES = 12  # of what a gate shows


@click.command("show")
@click.argument("run")
@click.option(
    "--step",
    metavar="STEP",
    help="One step: what it got, its attempts, what it gave. Its name is enough, or the beginning of it.",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Every step of a long run, and every branch; with --step long values as a whole.",
)
@click.option(
    "--depth",
    type=options.WholeNumber(0),
    metavar="N",
    help="Child runs inside child runs to show (default: 1). With --json it adds `children`.",
)
@click.option("--events", "with_events", is_flag=True, help="Everything that happened, in order.")
@click.option(
    "--at",
    callback=read_at,
    metavar="MOMENT",
    help="As it was then: a time, an event's number, a checkpoint or a step.",
)
@options.json_object
def show_command(
    run: str,
    step: str | None,
    everything: bool,
    depth: int | None,
    with_events: bool,
    at: int | datetime | str | None,
    as_json: bool,
) -> None:
    """Show one run: status, steps, result. The beginning of an id is enough, or its number (`#42`).

    Of a long run the middle is folded, and branches that completed are counted. With --step: arguments,
    attempts with their times and errors, output, result, and who decided a gate or settled a doubt.

    With --at, as `show` printed it at that moment: how long ago (90s, 15min, 2h, 3d), a date, a date and time
    (2026-01-31T12:00), the number of an event (as --events counts them), a checkpoint, a step when it had
    ended, before:STEP when it began, or start.
    """
    if step is not None and (with_events or depth is not None):
        raise click.UsageError("--step goes with --all and --json only")
    with access.open_to_read() as hf:
        detail = hf.get(hf.find(run), at=at)
        if step is not None:
            _show_step(detail, step, everything, as_json)
            return
        events = detail.events() if with_events else []
        if as_json:
            shown = detail.to_json() | (
                {"events": [event.to_json() for event in events]} if with_events else {}
            )
            out.json(shown | ({"children": _children(detail, depth)} if depth else {}))
            return
        folding = None if everything else Folding()
        children = Children(detail)
        lines = [*describe(detail, children, folding, 1 if depth is None else depth), *timeline(events)]
        out.lines(lines)


def _show_step(detail: RunDetail, name: str, everything: bool, as_json: bool) -> None:
    from holdfast.cli.drawing import step_showing

    found = detail.step(name)
    if as_json:
        out.json(found.to_json())
        return
    lines = step_showing.describe(
        found, look(stopped=not _goes_on(detail), now=detail.as_of), whole=everything
    )
    out.lines(lines)


def _goes_on(detail: RunDetail) -> bool:
    return detail.shown_status in UNFINISHED


class Children(Mapping[str, Sequence[StepInfo]]):
    """The steps of child runs by the run's id, each loaded when it is asked for."""

    def __init__(self, detail: RunDetail) -> None:
        self._detail = detail
        self._known: dict[str, list[StepInfo]] = {}

    def __getitem__(self, run_id: str) -> list[StepInfo]:
        if run_id not in self._known:
            child = self._detail.beside(run_id)
            self._known[run_id] = (
                [] if child is None else child.steps
            )  # its step began, and nothing of it yet
        return self._known[run_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _children(detail: RunDetail, depth: int) -> list[dict[str, Any]]:
    """The child runs, each as its own `show --json`."""
    return [
        child.to_json() | ({"children": _children(child, depth - 1)} if depth > 1 else {})
        for child in detail.children()
    ]


def describe(
    detail: RunDetail,
    children: Mapping[str, Sequence[StepInfo]] | None = None,
    folding: Folding | None = None,
    depth: int = 1,
) -> Iterator[Line]:
    """The run for people."""
    yield row("run", [(detail.id, "bold"), (f"  #{detail.number}", "dim")])
    if detail.as_of is not None:
        yield row("at", [(f"{_when(detail.as_of)}, event {detail.recorded[-1].version:,}", "yellow")])
    yield from rows("workflow", clean(f"{detail.name} ({detail.place})"))
    yield from _input(detail, whole=folding is None)
    yield row(
        "status",
        [(detail.shown_status.replace("_", " "), STYLES.get(detail.shown_status, "")), *_since(detail)],
    )
    if detail.reason:
        yield from rows("", clean(detail.reason))
    if detail.stage:
        yield from rows("stage", clean(detail.stage))
    yield row("created", [_when(detail.created_at)])
    if detail.ended_at is not None:
        yield row("ended", [_when(detail.ended_at)])
    if detail.ended_at is None or detail.updated_at > detail.ended_at:
        yield row("changed", [_when(detail.updated_at)])
    if detail.parent:
        stray = detail.is_stray()
        yield row(
            "parent", [detail.parent, *([(", in a generation that was left", "yellow")] if stray else [])]
        )
    for n, task in enumerate(detail.tasks):
        id = task.task[:_SHORT] if out.is_terminal else task.task
        said = f"{id}  #{task.number}  {task.status.replace('_', ' ')}  {clean(task.name)}"
        yield from rows("task" if n == 0 else "", said)
    yield from _spent(detail)
    if detail.deliver is not None:
        from holdfast.cli.drawing.deliver_record import record_lines

        yield from record_lines(detail.deliver, whole=folding is None)
    yield from _waits(detail)
    yield from _gates(detail, whole=folding is None)
    if detail.as_of is None:
        yield from _ways_on(detail)
    if detail.steps:
        drawing = look(stopped=not _goes_on(detail), now=detail.as_of)
        drawn = tree(detail.steps, drawing, children, folding, depth)
        hint = "; --all shows each" if folding and len(drawn) < len(detail.steps) else ""
        yield from rows("steps", _counts(detail, drawing) + hint)
        yield from drawn
    yield from _outcome(detail, whole=folding is None)


def _spent(detail: RunDetail) -> Iterator[Line]:
    """The amounts it spent, by budget."""
    for one in detail.spending:
        from holdfast.cli.commands.budget import text

        parts = [
            f"{text(one.spent, unit)} {unit}" for unit in ("usd", "tokens", "steps") if one.spent.of(unit)
        ]
        more = ", and a price was unknown" if one.unknown else ""
        yield row(
            "spent", [f"{', '.join(parts) or 'nothing'}{more}", (f"  budget {clean(one.budget)}", "dim")]
        )


def _when(at: datetime) -> str:
    """The time, and how long ago that is if there is room for it."""
    both = f"{moments.stamp(at)} ({moments.ago(at)})"
    return both if len(both) <= width() else moments.stamp(at)


def _input(detail: RunDetail, *, whole: bool) -> Iterator[Line]:
    """The arguments of a function, a value on a line; a command's words are its name. The plan of a run is
    drawn by a command of its own."""
    given = detail.whole_input
    if given is None or detail.is_command or detail.is_delivery:
        return
    values = [("", value) for value in given.args] + [(f"{k}=", v) for k, v in given.kwargs.items()]
    if detail.is_plan:
        yield from rows("plan", f"`holdfast plan show {detail.id}` draws it")
        values = [("", value) for value in given.args[1:] if value]
    for n, (name, value) in enumerate(values):
        text = clean(name + compact_text(value))
        if not whole:
            text = fit(
                text, max(_INPUT_LINES * width(), _INPUT_LINES * 60) if out.is_terminal else _INPUT_CHARS
            )
        yield from rows("input" if n == 0 else "", text)


def look(*, stopped: bool, now: datetime | None = None) -> Look:
    """How steps are drawn on standard output."""
    return Look(min(out.width, 160), out.has_unicode, stopped, now or datetime.now(UTC))


def timeline(events: list[LogEvent]) -> Iterator[Line]:
    """Every event on a line: version, time since the first, type, what it is about."""
    if not events:
        return
    yield row("events", [str(len(events))])
    widest = max(len(event.type) for event in events)
    times = [moments.duration((event.at - events[0].at).total_seconds()) for event in events]
    version, time = max(len(str(events[-1].version)), 4), max(10, *map(len, times))
    for event, since in zip(events, times, strict=True):
        about = clean(_about(event, events))
        room = max(min(out.width, 160) - widest - version - time - 8, 10)
        yield [
            f"  {event.version:>{version}}  ",
            (f"{since:>{time}}", "dim"),
            f"  {event.type:<{widest}}  ",
            (fit(about, room), "dim"),
        ]


def _about(event: LogEvent, events: Sequence[LogEvent]) -> str:
    """The details of the event; `events` is the history, which a rewind refers to."""
    data = event.data
    if event.type == "RunCreated":
        return str(data["code"].get("name", ""))
    error = data.get("error") or ""  # that of an outcome is a text
    parts = (
        data.get("place") if event.type == "FilesSaved" else "",
        _generation(event, events),
        f"of run {data['origin']}" if data.get("origin") else "",
        data.get("key") or data.get("step") or data.get("name"),
        f"attempt {data['attempt']}" if data.get("attempt", 1) > 1 else "",
        data.get("outcome"),
        data.get("why") or data.get("reason"),
        f"{error.get('type', '').partition(':')[2]}: {error.get('message', '')}"
        if isinstance(error, dict)
        else error,
        data.get("text", "").rstrip() if event.type == "OutputCaptured" else "",
        f"owner {data['owner']}" if data.get("owner") else "",
        "by force" if data.get("forced") else "",
        f"took over from {data['took_over']}" if data.get("took_over") else "",
        f"files {data['snapshot'][:12]}" if data.get("snapshot") else "",
    )
    return "  ".join(str(part) for part in parts if part)


def _generation(event: LogEvent, events: Sequence[LogEvent]) -> str:
    """Where a rewind, or the undo of one, took the run."""
    data = event.data
    if event.type == "GenerationRestored":
        return f"to generation {data['generation']}"
    if event.type != "Rewound":
        return ""
    kept = [one for one in events if one.version <= data["version"]]
    last = next((one.data["key"] for one in reversed(kept) if one.data.get("key")), "")
    after = f" (after {last})" if last else ""
    return f"to version {data['version']}{after}, generation {data['generation']}"


def _since(detail: RunDetail) -> Iterator[Piece]:
    """How long it took or has run so far, and where."""
    if detail.ended:
        word = "in" if detail.status == "completed" else "after"
        yield f" {word} {moments.between(detail.created_at, detail.ended_at)}", "dim"
    elif detail.owner_pid is not None:
        yield f" for {moments.between(detail.created_at, detail.as_of or datetime.now(UTC))}", "dim"
        yield f" in process {detail.owner_pid}", "dim"


def _waits(detail: RunDetail) -> Iterator[Line]:
    """The timers of the run, the soonest first."""
    due = [
        step for step in detail.steps if step.due_at is not None and step.status in ("sleeping", "retrying")
    ]
    due.sort(key=lambda step: step.due_at or datetime.now(UTC))
    for n, step in enumerate(due[:_WAITS]):
        assert step.due_at is not None
        left = (step.due_at - datetime.now(UTC)).total_seconds()
        when = f"in {moments.duration(left)}" if left > 0 else f"since {moments.stamp(step.due_at)}"
        what = "wakes" if step.status == "sleeping" else f"attempt {step.attempt + 1}"
        yield row("waits" if n == 0 else "", [clean(step.key), (f"  {what} {when}", "dim")])
    if len(due) > _WAITS:
        yield row("", [(f"and {len(due) - _WAITS:,} more", "dim")])


def _gates(detail: RunDetail, *, whole: bool) -> Iterator[Line]:
    """The gates that were decided, one line each, and what the open ones show, also those of child runs."""
    decided = [gate for gate in detail.gates if not gate.is_open]
    left_out = 0 if whole else max(len(decided) - _DECIDED, 0)
    if left_out:
        yield row("gates", [(f"{left_out:,} more were decided; --all shows each", "dim")])
    for gate in decided[left_out:]:
        yield from rows("gate", heading(gate))
        if whole:
            yield from _shown(gate, None)
    if detail.ended:
        return
    for gate in detail.open_gates():
        of = f" of run {gate.run_id}" if gate.run_id != detail.id else ""
        yield from rows("gate", f"{heading(gate)}{of}", STYLES["waiting"])
        yield from _shown(gate, None if whole else _SHOWN_LINES)


def _shown(gate: Gate, most: int | None) -> Iterator[Line]:
    for line in shown_lines(gate, max(width() - 2, 20), most, "--all shows all"):
        yield row("", ["  ", *([line] if isinstance(line, str) else line)])


def _ways_on(detail: RunDetail) -> Iterator[Line]:
    ways = [(typed(way.shell()), way.effect) for way in (*detail.ways(), *detail.ways_back())]
    widest = max((cells(command) for command, _ in ways), default=0)
    for n, (command, what) in enumerate(ways):
        name = "next" if n == 0 else ""
        if INDENT + widest + 2 + cells(what) <= out.width:
            yield row(name, [(command.ljust(widest), "cyan"), (f"  {what}", "dim")])
        else:  # a narrow terminal: the command stays whole, to be copied
            yield row(name, [(command, "cyan")])
            yield row("", [(f"  {what}", "dim")])


def _counts(detail: RunDetail, drawing: Look) -> str:
    """How many steps have which status, in the words of the tree."""
    counts = Counter(shown_status(step, drawing) for step in detail.steps)
    listed = ", ".join(f"{n:,} {plainly(status)}" for status, n in counts.items())
    text = f"{len(detail.steps):,}: {listed}" if len(counts) > 1 else listed
    attempts = sum(step.attempt for step in detail.steps)
    return f"{text}; {attempts:,} attempts" if attempts > len(detail.steps) else text


def _outcome(detail: RunDetail, *, whole: bool) -> Iterator[Line]:
    if detail.error is not None:
        yield from error_rows(detail.error, whole=whole)
    elif detail.status == "completed" and not detail.is_command:
        yield from _result(data_text(detail.result))


def _result(text: str) -> Iterator[Line]:
    """The result, cut where it is long: `--json` has all of it."""
    most = _RESULT_CHARS
    if out.is_terminal:
        most = min(most, _RESULT_LINES * width())
    shown = clean(fit(text, most))
    # Data has words longer than a line, which are broken; sentences have none.
    lines = (
        [part for one in wrap(shown, width()) for part in broken(one, width())]
        if out.is_terminal
        else [shown]
    )
    for n, line in enumerate(lines):
        yield row("result" if n == 0 else "", [line])
    if len(text) > most:
        yield row("", [(f"({len(text):,} characters; --json shows all)", "dim")])
