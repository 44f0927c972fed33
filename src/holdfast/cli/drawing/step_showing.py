"""One step for people: `holdfast show RUN --step KEY`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.cli.drawing import moments
from holdfast.cli.drawing.failures import error_rows
from holdfast.cli.drawing.gates import heading
from holdfast.cli.drawing.rows import block, row, rows, width
from holdfast.cli.drawing.steps import glyph, shown_status, words
from holdfast.cli.drawing.terminal import Line, Piece, clean, fit
from holdfast.cli.drawing.values import data_text, shown_text
from holdfast.sizes import amount

if TYPE_CHECKING:
    from holdfast.cli.drawing.steps import Look
    from holdfast.views.step_detail import Attempt, StepDetail

_LINES = 20  # of arguments, a result, an output, what a gate shows
_ALL = "--all shows all"
_ATTEMPTS = 10
_TOOK_MIN = 8
_SETTLED = {"done": "it happened", "retry": "it did not happen, and was to be run", "fail": "it failed"}


def describe(step: StepDetail, look: Look, *, whole: bool) -> Iterator[Line]:
    """Its kind, its arguments, each attempt, its result; unless `whole`, long values are cut."""
    most = None if whole else _LINES
    yield row("step", [(clean(step.info.key), "bold"), f" of run {step.run.id}"])
    yield row("status", list(_status(step, look)))
    if step.info.child:
        yield row("child", [f"run {step.info.child}", (f"  holdfast show {step.info.child}", "cyan")])
    yield from _times(step)
    yield from _arguments(step, most)
    yield from _attempts(step, whole=whole)
    for one in step.settled:
        who = f", says {clean(one.by)}" if one.by else ""
        yield from rows("settled", f"{_SETTLED[one.outcome]}{who}, {moments.stamp(one.at)}")
    yield from _gate(step, most)
    yield from _output(step, most)
    if step.error is not None:
        yield from error_rows(step.error, whole=whole)
    yield from _result(step, most)


def _status(step: StepDetail, look: Look) -> Iterator[Piece]:
    status = shown_status(step.info, look)
    yield (words(step.info, status, look) if status != "running" else "running"), glyph(status, look)[1]
    kind = step.info.kind if step.info.kind != "step" else ""
    facts = [kind, step.info.effect if kind in ("", "command") else ""]
    yield "".join(f", {fact}" for fact in facts if fact), "dim"
    if step.info.note and step.error is None and step.gate is None:
        yield f": {clean(step.info.note)}", "dim"


def _times(step: StepDetail) -> Iterator[Line]:
    """Of what has no attempts and is no gate: a sleep, a checkpoint, a value."""
    if step.attempts or step.gate is not None or step.info.started_at is None:
        return
    yield row("began", [moments.stamp(step.info.started_at)])
    if step.info.kind == "sleep" and step.info.ended_at is not None:
        took = moments.between(step.info.started_at, step.info.ended_at)
        yield row("ended", [moments.stamp(step.info.ended_at), (f" after {took}", "dim")])


def _arguments(step: StepDetail, most: int | None) -> Iterator[Line]:
    if step.size:
        yield row("args", [fit(clean(step.preview), width())])
        yield row("", [(f"({amount(step.size)}: only the beginning is kept)", "dim")])
    elif step.args:
        yield from block("args", data_text(step.args, width()), most, _ALL)


def _attempts(step: StepDetail, *, whole: bool) -> Iterator[Line]:
    shown = step.attempts if whole else step.attempts[-_ATTEMPTS:]
    left_out = len(step.attempts) - len(shown)
    if left_out:
        yield row("attempts", [(f"{left_out:,} more before these; {_ALL}", "dim")])
    widest = max((len(moments.between(one.started, one.ended)) for one in shown), default=0)
    for n, one in enumerate(shown):
        name = "" if n or left_out else "attempt" if len(step.attempts) == 1 else "attempts"
        yield from rows(name, "".join(_attempt(one, max(widest, _TOOK_MIN))))


def _attempt(one: Attempt, widest: int) -> Iterator[str]:
    took = moments.between(one.started, one.ended)
    yield f"{one.number}  {moments.stamp(one.started)}  {took:>{widest}}  {one.status.replace('_', ' ')}"
    if one.error is not None:
        yield f": {clean(one.error.sentence)}"
    if one.why:
        yield f": {clean(one.why)}"
    if one.retry is not None and one.ended is not None:
        yield f"; again after {moments.between(one.ended, one.retry)}"


def _gate(step: StepDetail, most: int | None) -> Iterator[Line]:
    gate = step.gate
    if gate is None:
        return
    yield from rows("gate", heading(gate))
    yield row("opened", [moments.stamp(gate.since)])
    if gate.decided_at is not None:
        took = moments.between(gate.since, gate.decided_at)
        yield row("decided", [moments.stamp(gate.decided_at), (f" after {took}", "dim")])
    shown = shown_text(gate.shown)
    if shown:
        yield from block("shown", shown, most, _ALL)


def _output(step: StepDetail, most: int | None) -> Iterator[Line]:
    text = "".join(piece.text for piece in step.output)
    if text:
        logs = f"`holdfast logs {step.run.id} --step {shlex.quote(step.info.key)}` prints all"
        yield from block("output", text, most, logs)


def _result(step: StepDetail, most: int | None) -> Iterator[Line]:
    if step.secret:
        yield row("result", [("secret: it is not kept", "dim")])
    elif step.gave:
        name = "data" if step.info.kind == "checkpoint" else "result"
        yield from block(name, data_text(step.result, width()), most, f"{_ALL}, and so does --json")
