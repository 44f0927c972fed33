"""The evidence document: Markdown in which recorded text cannot pass for anything else.

Whatever a command printed stands in a fence that is longer than any in it, and words stand in code spans:
output that looks like a heading, or like another command, stays output.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from holdfast.agents.evidence.observed import ObservedRun
from holdfast.clock import instant
from holdfast.counts import counted
from holdfast.engine.primitives.milestone import Reached
from holdfast.sizes import amount
from holdfast.version import __version__
from holdfast.workspace.snapshots.file_diff import FileDiff

if TYPE_CHECKING:
    from holdfast.agents.evidence.observed import Output

_EXCERPT = 16 * 1024
_LEAST = 512
DOCUMENT_CHARS = 1 << 20
"""All outputs together, about."""
_WORD_CHARS = 2_000
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class Image(msgspec.Struct, frozen=True):
    """An image that is in the workspace and new or changed since the last milestone."""

    path: str
    sha256: str


class MilestoneRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the log and the snapshots since the last milestone.

    workflow   the name of the run's code
    since      the milestone before this one; empty for the first
    before     the snapshot that `changes` begin at; empty if nothing was compared
    left_out   so many commands are not among `commands`
    files      how many paths differ; `changes` has the first of them
    remark     why files were not compared; empty if they were
    """

    reached: Reached
    workflow: str
    at: datetime
    since: str = ""
    commands: tuple[ObservedRun, ...] = ()
    left_out: int = 0
    before: str = ""
    files: int = 0
    changes: tuple[FileDiff, ...] = ()
    images: tuple[Image, ...] = ()
    remark: str = ""


def render(record: MilestoneRecord) -> str:
    """The document of a milestone."""
    return "\n".join(_lines(record)) + "\n"


def _lines(record: MilestoneRecord) -> Iterator[str]:
    reached = record.reached
    observed = any(one.counts for one in record.commands)
    yield f"# Evidence: {code(reached.name)}"
    yield ""
    yield f"- run: {code(reached.run)}, workflow {code(record.workflow)}"
    yield f"- milestone: {code(reached.key)}, after {code(record.since) if record.since else 'the start'}"
    yield f"- generation: {reached.generation}"
    yield f"- level: {'observed' if observed else 'asserted'}"
    yield f"- reached: {record.at.isoformat(timespec='seconds')}"
    yield f"- snapshot of the files: {code(reached.snapshot) if reached.snapshot else 'none'}"
    yield f"- written by holdfast {__version__} from the log of the run"
    if reached.statement:
        yield from ("", "## Statement", "", "The workflow says this; it is not verified.", "")
        yield from fenced(reached.statement)
    yield from ("", "## Commands", "")
    yield from _commands(record)
    yield from ("", "## Files", "")
    yield from _files(record)
    if record.images:
        yield from ("", "## Images", "")
        for image in record.images:
            yield f"- {code(image.path)}, sha256 {code(image.sha256)}"


def _commands(record: MilestoneRecord) -> Iterator[str]:
    if not record.commands:
        yield "No command has ended since then: nothing was observed."
        return
    room = max(_LEAST, min(_EXCERPT, DOCUMENT_CHARS // (2 * len(record.commands))))
    for number, one in enumerate(record.commands, 1):
        if number > 1:
            yield ""
        yield from _command(number, one, record.reached.run, room)
    if record.left_out:
        yield ""
        yield f"This document leaves out {counted(record.left_out, 'more command')}."


def _command(number: int, one: ObservedRun, run: str, room: int) -> Iterator[str]:
    words = shlex.join(one.argv) if one.argv else f"{one.preview} ..."
    yield f"### {number}. {code(words)}"
    yield ""
    yield f"- outcome: {_outcome(one)}"
    step = code(one.key) if one.run == run else f"{code(one.key)} of run {code(one.run)}"
    tries = f", attempt {one.attempt}" if one.attempt > 1 else ""
    failed = f" ({one.failed_attempts} failed before)" if one.failed_attempts else ""
    yield f"- step: {step}{tries}{failed}, effect {one.effect}"
    yield f"- directory: {code(one.cwd) if one.cwd else 'that of the run'}"
    yield f"- started: {instant(one.started_at).isoformat(timespec='seconds')}, took {one.duration_s:.3f} s"
    if one.env:
        yield f"- environment: {', '.join(code(f'{name}={value}') for name, value in one.env.items())}"
    outputs = (("standard output", one.stdout), ("standard error", one.stderr))
    for what, output in outputs:
        yield f"- {what}: {_size(output, one.output_kept)}"
    if one.agent:
        yield "- this program is an agent: what it printed are its own words, and no evidence"
        return
    for what, output in outputs:
        if output.size:
            yield from ("", f"{what.capitalize()}:", "", *_excerpt(output, room))


def _outcome(one: ObservedRun) -> str:
    if one.settled:
        return f"{plain(one.settled)}; it was not observed"
    if one.exit_code is None:
        return f"no exit code: {code(one.error)}"
    return f"exit code {one.exit_code}" if one.exit_code >= 0 else f"ended by signal {-one.exit_code}"


def _size(output: Output, kept: bool) -> str:
    if not kept:
        return "not in the log of this run, which is a fork"
    return f"{amount(output.size)}, sha256 {code(output.sha256)}" if output.size else "none"


def _excerpt(output: Output, room: int) -> Sequence[str]:
    """The beginning and the end of an output, in a fence."""
    head, tail, left_out = output.head, output.tail, output.left_out
    if len(head) + len(tail) > room:
        whole, half = head + tail, room // 2
        if not left_out:
            head = tail = whole
        head, tail = head[:half], tail[-half:]
        left_out += len(whole.encode()) - len((head + tail).encode())
    parts = [head, f"\n[holdfast: {amount(left_out)} left out here]\n", tail] if left_out else [head + tail]
    return fenced("".join(parts))


def _files(record: MilestoneRecord) -> Iterator[str]:
    if record.remark:
        yield f"Not compared: {plain(record.remark)}."
        return
    if not record.files:
        yield f"No file differs from the snapshot {code(record.before)}."
        return
    paths = "1 path differs" if record.files == 1 else f"{record.files:,} paths differ"
    yield f"{paths} from the snapshot {code(record.before)}."
    if record.files > len(record.changes):
        yield f"The first {len(record.changes):,} are shown."
    yield ""
    yield from fenced("".join(change.text for change in record.changes), "diff")


def fenced(text: str, language: str = "text") -> Sequence[str]:
    """The text as a block of its own: nothing in it ends the block."""
    text = plain(text, lines=True).rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}", text, fence


def code(text: str) -> str:
    """The text as a code span on one line."""
    text = plain(text)
    if len(text) > _WORD_CHARS:
        text = f"{text[:_WORD_CHARS]}..."
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if not text or text[:1] == "`" or text[-1:] == "`" else ""
    return f"{fence}{space}{text}{space}{fence}"


def plain(text: str, *, lines: bool = False) -> str:
    """Without escape sequences and control characters; on one line, unless `lines` are kept."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    if not lines:
        text = text.replace("\n", "\\n").replace("\t", " ")
    return _CONTROLS.sub("\ufffd", text)
