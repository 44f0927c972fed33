"""`holdfast show`: one run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli import access, moments
from holdfast.cli.detail import Detail, run_fields, step_fields
from holdfast.cli.listing import STYLES
from holdfast.cli.steps import Look, tree
from holdfast.cli.terminal import Line, Piece, cells, clean, fit, out, wrap

if TYPE_CHECKING:
    from holdfast.engine.records import LogEvent

_FRAME = re.compile(r'[\s|+]*File "([^"]+)"')
_PACKAGE = str(Path(__file__).parent.parent)
_PLUMBING = ("/concurrent/futures/", "/asyncio/", "/threading.py")
_INDENT = 10
_RESULT_CHARS = 4000


@click.command("show")
@click.argument("run")
@click.option("--events", "with_events", is_flag=True, help="Everything that happened, in order.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def show_command(run: str, with_events: bool, as_json: bool) -> None:
    """Show one run: status, steps, result. The beginning of an id is enough."""
    with access.open_to_read() as opened:
        detail = Detail(opened, run)
        events = list(opened.reading.events(detail.info.id)) if with_events else []
        if as_json:
            out.json(
                fields(detail) | ({"events": [_event(event) for event in events]} if with_events else {})
            )
            return
        for line in (*describe(detail), *timeline(events)):
            out.line(line)


def fields(detail: Detail) -> dict[str, Any]:
    """`show --json`, whose names do not change."""
    return {
        **run_fields(detail.info),
        "result": detail.result(),
        "error": detail.error(),
        "steps": [step_fields(step) for step in detail.steps],
        "gates": [],
    }


def describe(detail: Detail) -> Iterator[Line]:
    """The run for people."""
    info = detail.info
    yield _row("run", [(info.id, "bold")])
    yield from _rows("workflow", clean(f"{info.workflow} ({detail.place})"))
    yield _row("status", [(detail.status.replace("_", " "), STYLES.get(detail.status, "")), *_owner(detail)])
    if info.reason:
        yield from _rows("", clean(info.reason))
    created = f"{moments.stamp(info.created_at)} ({moments.ago(info.created_at)})"
    yield _row("created", [created])
    yield _row("changed", [f"{moments.stamp(info.updated_at)} ({moments.ago(info.updated_at)})"])
    if info.parent:
        yield _row("parent", [info.parent])
    yield from _ways_on(detail)
    if detail.steps:
        yield _row("steps", [_counts(detail)])
        live = detail.status in ("running", "sleeping", "pending")
        yield from tree(detail.steps, look(stopped=not live))
    yield from _outcome(detail)


def look(*, stopped: bool) -> Look:
    """How steps are drawn on standard output."""
    return Look(min(out.width, 160), out.has_unicode, stopped, datetime.now(UTC))


def timeline(events: list[LogEvent]) -> Iterator[Line]:
    """Every event on a line: version, time since the first, type, what it is about."""
    if not events:
        return
    yield _row("events", [str(len(events))])
    width = max(len(event.type) for event in events)
    for event in events:
        since = moments.duration((event.at - events[0].at).total_seconds())
        about = clean(_about(event))
        room = max(min(out.width, 160) - width - 22, 10)
        yield [
            f"  {event.version:>4}  ",
            (f"{since:>10}", "dim"),
            f"  {event.type:<{width}}  ",
            (fit(about, room), "dim"),
        ]


def _about(event: LogEvent) -> str:
    data = event.data
    if event.type == "RunCreated":
        return str(data["code"].get("name", ""))
    error = data.get("error") or {}
    told = (
        data.get("key") or data.get("step"),
        f"attempt {data['attempt']}" if data.get("attempt", 1) > 1 else "",
        data.get("outcome"),
        data.get("why") or data.get("reason"),
        f"{error.get('type', '').partition(':')[2]}: {error.get('message', '')}" if error else "",
        data.get("text", "").rstrip() if event.type == "OutputCaptured" else "",
        f"owner {data['owner']}" if data.get("owner") else "",
        "by force" if data.get("forced") else "",
        f"took over from {data['took_over']}" if data.get("took_over") else "",
    )
    return "  ".join(str(part) for part in told if part)


def _event(event: LogEvent) -> dict[str, Any]:
    return {
        "version": event.version,
        "type": event.type,
        "at": event.at.isoformat(),
        "data": event.data,
    }


def _owner(detail: Detail) -> list[Piece]:
    pid = detail.info.owner_pid
    return [(f"  in process {pid}", "dim")] if pid is not None else []


def _ways_on(detail: Detail) -> Iterator[Line]:
    ways = list(detail.ways_on())
    widest = max((cells(command) for command, _ in ways), default=0)
    for n, (command, what) in enumerate(ways):
        name = "next" if n == 0 else ""
        if _INDENT + widest + 2 + cells(what) <= out.width:
            yield _row(name, [(command.ljust(widest), "cyan"), (f"  {what}", "dim")])
        else:  # a narrow terminal: the command stays whole, to be copied
            yield _row(name, [(command, "cyan")])
            yield _row("", [(f"  {what}", "dim")])


def _counts(detail: Detail) -> str:
    counts: dict[str, int] = {}
    for step in detail.steps:
        counts[step.status] = counts.get(step.status, 0) + 1
    listed = ", ".join(f"{n} {status.replace('_', ' ')}" for status, n in counts.items())
    return f"{len(detail.steps)}: {listed}" if len(counts) > 1 else listed


def _outcome(detail: Detail) -> Iterator[Line]:
    error = detail.error()
    if error is not None and detail.state.error is not None:
        yield from _rows("error", clean(detail.sentence(detail.state.error)), "red")
        for member in error["members"]:
            yield from _rows("", clean(member), "red")
        for text in _own_frames(error["traceback"]):
            yield [" " * _INDENT, (clean(text), "dim")]
    elif detail.info.status == "completed" and not detail.state.code.argv:
        yield from _rows("result", clean(fit(as_text(detail.result()), _RESULT_CHARS)))


def _own_frames(traceback: str) -> Iterator[str]:
    """The lines of a traceback without the frames between the user's: ours, and of pools and loops."""
    frame = -1
    for line in traceback.splitlines():
        found = _FRAME.match(line)
        column = len(line) - len(line.lstrip(" |+"))
        if found:
            inner = found[1].startswith(_PACKAGE) or any(part in found[1] for part in _PLUMBING)
            frame = column if inner else -1
        elif frame >= 0 and column <= frame:
            frame = -1
        if frame < 0:
            yield line


def as_text(result: Any) -> str:
    """A result as JSON; what JSON lacks, close to how Python writes it."""
    data = msgspec.json.encode(result)
    if b'"$' in data:
        from holdfast.kernel.encoded import preview

        return preview(data, _RESULT_CHARS)
    return data.decode()


def _row(name: str, pieces: list[Piece]) -> Line:
    return [(name.ljust(_INDENT), "dim"), *pieces]


def _rows(name: str, text: str, style: str = "") -> Iterator[Line]:
    """A row that goes on below itself where the text is long."""
    width = max(min(out.width, 160) - _INDENT, 20)
    for n, part in enumerate(wrap(text, width) if out.is_terminal else [text]):
        yield _row(name if n == 0 else "", [(part, style)])
