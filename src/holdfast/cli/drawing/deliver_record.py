"""How the record of a delivery is drawn: a row for each part that there is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.cli.drawing.rows import cut_lines, row, rows, width
from holdfast.cli.drawing.terminal import Line, clean
from holdfast.counts import counted

if TYPE_CHECKING:
    from holdfast.views.deliver_record import DeliverRecord

_LINES = 6
"""Of each text, unless all is asked for."""
_PATHS = 6


def record_lines(record: DeliverRecord, *, whole: bool) -> Iterator[Line]:
    """The gates and the error are drawn with those of any run."""
    most = None if whole else _LINES
    yield from rows("request", clean(record.request))
    if record.task:
        yield row("task", [record.task[:8]])
    if record.plan:
        yield from rows("plan", f"round {record.plan['round']}, {_paths(record.plan['files'])}")
        yield from _text(record.plan["plan"], most)
        yield from _undone("planner", record.plan)
    if record.implementation:
        made = record.implementation
        lines = "" if made["lines"] is None else f", {counted(made['lines'], 'line')}"
        yield from rows("made", f"attempt {made['attempt']}, {_paths(made['files'])}{lines}")
        yield from _text(made["text"], most)
    if record.review:
        yield from rows("review", str(record.review["verdict"]))
        yield from _text(record.review["text"], most)
        yield from _undone("reviewer", record.review)
    if record.verification:
        yield from _verification(record.verification, most)
    sent_back = [f"{name} {count}" for name, count in record.retries.items() if count]
    if sent_back:
        yield row("returned", [", ".join(sent_back)])


def _verification(found: dict[str, Any], most: int | None) -> Iterator[Line]:
    how = {True: "passed", False: "failed", None: "nothing could verify it"}[found["passed"]]
    yield from rows("verified", how)
    for one in found["checks"]:
        end = "took too long" if one["exit_code"] is None else f"ended with {one['exit_code']}"
        yield row("", [clean(f"{one['command']}: {end}")])
        if one["exit_code"] != 0:
            yield from _text(one["output"], most)
    yield from _text(found["text"], most)
    yield from _undone("verifier", found)


def _undone(role: str, found: dict[str, Any]) -> Iterator[Line]:
    """What a role that only reads has changed all the same. Runs of earlier versions do not have it all."""
    if files := found.get("rolled_back"):
        yield row("", [clean(f"the {role} changed files, which was rolled back: {_paths(files)}")])
    for one in found.get("commits", ()):
        yield row("", [clean(f"the {role} changed the repository: {one}")])


def _text(text: str, most: int | None) -> Iterator[Line]:
    for line in cut_lines(text, max(width() - 2, 20), most, "--all shows all"):
        yield row("", ["  ", *([line] if isinstance(line, str) else line)])


def _paths(paths: list[str]) -> str:
    more = f" and {len(paths) - _PATHS} more" if len(paths) > _PATHS else ""
    return clean(", ".join(paths[:_PATHS]) + more) if paths else "no files"
