"""A run's steps as a tree by scope: what `show` prints and what is drawn while a run is executed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.cli.drawing.moments import duration, stamp
from holdfast.cli.drawing.scopes import INNER, Branches, Folded, Folding, Scope, arrange, by_scope, steps_in
from holdfast.cli.drawing.terminal import Line, Piece, cells, clean, fit
from holdfast.views.records import StepInfo

if TYPE_CHECKING:
    from holdfast.cli.drawing.scopes import Item

_NOTE_MIN = 12
_TOOK_MIN = 8


class Look(msgspec.Struct, frozen=True):
    """How steps are drawn here: `stopped` says that no process executes the run, so nothing runs in it."""

    width: int = 100
    unicode: bool = True
    stopped: bool = False
    now: datetime = datetime.fromtimestamp(0, UTC)
    spinner: str = ""


_GLYPHS = {
    # status: with Unicode, without, style; the worst first
    "failed": ("✗", "x", "red"),
    "in_doubt": ("?", "?", "magenta"),
    "cut off": ("◌", "o", "yellow"),
    "waiting": ("◇", "!", "magenta"),
    "rejected": ("✗", "x", "yellow"),
    "unanswered": ("◌", "o", "yellow"),
    "retrying": ("↻", "~", "yellow"),
    "reopened": ("○", "o", "yellow"),
    "running": ("▶", ">", "cyan"),
    "sleeping": ("◷", "z", "blue"),
    "abandoned": ("–", "-", "dim"),
    "completed": ("✓", "+", "green"),
}
_FLAG = ("⚑", "#", "blue")
_DECIDED = ("rejected", "unanswered")


def tree(
    steps: Iterable[StepInfo],
    look: Look,
    children: Mapping[str, Sequence[StepInfo]] | None = None,
    folding: Folding | None = None,
    depth: int = 99,
) -> list[Line]:
    """One line for each step, and for each scope that holds some; with `folding` a long run is short.
    `children` are the steps of child runs, by the run's id: they are drawn below the step that started
    it, `depth` levels deep."""
    rows = list(
        _Drawing(look, {} if children is None else children).scope(by_scope(steps), None, folding, depth)
    )
    widest = max((row.width for row in rows if row.sign[0]), default=0)
    column = min(widest, max(look.width // 2, 16))
    took = max((len(row.took) for row in rows), default=0)
    return [_line(row, look, column, max(took, _TOOK_MIN)) for row in rows]


class _Row(NamedTuple):
    """A line before it is known how wide the others are. Without a sign it has no facts either. `took` is a
    duration, or empty."""

    guide: str
    sign: tuple[str, str]
    label: str
    style: str = ""
    took: str = ""
    facts: Iterable[tuple[str, str]] = ()

    @property
    def width(self) -> int:
        """Of what stands before the facts."""
        return cells(self.guide) + cells(self.sign[0]) + 1 + cells(self.label)


class _Drawing:
    def __init__(self, look: Look, children: Mapping[str, Sequence[StepInfo]]) -> None:
        self._look = look
        self._children = children

    def scope(self, scope: Scope, guide: str | None, folding: Folding | None, depth: int) -> Iterator[_Row]:
        """The items of a scope; `guide` is None for the root scope, whose items no line leads to."""
        items = folding.fold(scope.items) if folding else arrange(scope.items)
        yield from self._items(items, guide, folding, depth)

    def _items(
        self, items: Sequence[Item], guide: str | None, folding: Folding | None, depth: int
    ) -> Iterator[_Row]:
        for n, item in enumerate(items):
            here, below = ("", "") if guide is None else _guides(self._look, guide, n == len(items) - 1)
            if isinstance(item, Folded):
                yield _Row(here, ("", ""), self._counted(item), "dim")
            elif isinstance(item, Branches):
                yield _Row(here, *self._heading(item))
                yield from self._items(folding.unfold(item) if folding else (), below, folding, depth)
            elif not isinstance(item, Scope):
                yield from self._step(item, label(item), here, below, folding, depth)
            elif len(item.items) == 1 and isinstance(only := item.items[0], StepInfo):
                name = _short_name(item.name, label(only), is_root=guide is None)
                yield from self._step(only, name, here, below, folding, depth)
            else:
                yield _Row(here, ("", ""), _heading(item, is_root=guide is None), "bold")
                yield from self.scope(item, below, folding, depth)

    def _step(
        self, step: StepInfo, name: str, here: str, below: str, folding: Folding | None, depth: int
    ) -> Iterator[_Row]:
        look = self._look
        status = shown_status(step, look)
        sign = glyph(status, look)
        if step.kind == "checkpoint":
            sign = _FLAG[0 if look.unicode else 1], _FLAG[2]
        yield _Row(here, sign, name, "", _took(step, status, look), _facts(step, status, look))
        inner = self._children.get(step.child, ()) if step.child and depth > 0 else ()
        if inner:
            yield from self.scope(by_scope(inner), below, INNER if folding else None, depth - 1)

    def _counted(self, folded: Folded) -> str:
        states = Counter(map(self._state, folded.items))
        what = " branches" if all(isinstance(item, Scope) for item in folded.items) else ""
        counts = [(status, states[status]) for status in _GLYPHS if status in states]
        said = [f"{n:,}{what} {plainly(status)}" for status, n in reversed(counts)]
        said += (text for text, _ in _retried(folded))
        took = _span(folded)
        return f"... {', '.join(said)}{f' in {took}' if took else ''} ..."

    def _heading(self, branches: Branches) -> tuple[tuple[str, str], str, str, str, list[tuple[str, str]]]:
        """Sign, label, style, duration and facts of branches that are drawn as one."""
        sign = glyph(self._state(branches), self._look)
        many = f"{len(branches.scopes):,} branches", "dim"
        return sign, clean(branches.name), "bold", _span(branches), [many, *_retried(branches)]

    def _state(self, item: Item) -> str:
        """The worst status of its steps."""
        if isinstance(item, StepInfo):
            return shown_status(item, self._look)
        found = {shown_status(step, self._look) for step in steps_in(item)}
        return next((status for status in _GLYPHS if status in found), "completed")


def _span(item: Item) -> str:
    """How long it took from the first start to the last end; empty if a step has not ended."""
    steps = list(steps_in(item))
    started = [step.started_us for step in steps if step.started_us]
    ended = [step.ended_us for step in steps if step.ended_us]
    whole = bool(started) and len(ended) == len(steps)
    return duration((max(ended) - min(started)) / 1e6) if whole else ""


def _retried(item: Item) -> Iterator[tuple[str, str]]:
    """How many steps were retried, if any were."""
    retried = sum(step.attempt > 1 for step in steps_in(item))
    if retried:
        yield f"{retried:,} retried", "yellow"


def _guides(look: Look, guide: str, last: bool) -> tuple[str, str]:
    """The guides before an item of an inner scope, and before its own items."""
    if look.unicode:
        return guide + ("└─ " if last else "├─ "), guide + ("   " if last else "│  ")
    return guide + ("`- " if last else "|- "), guide + ("   " if last else "|  ")


def _heading(scope: Scope, *, is_root: bool) -> str:
    """The name of a scope; of a plan's step with its items, the step's id."""
    base, _, number = clean(scope.name).rpartition("[")
    items = [item.name.rpartition("[")[0] for item in scope.items if isinstance(item, Scope)]
    return base if is_root and number == "1]" and base in items else clean(scope.name)


def _short_name(scope: str, step: str, *, is_root: bool) -> str:
    """A scope and the only step in it. A step of a plan has the name of its scope: it is said once."""
    base, _, number = clean(scope).rpartition("[")
    if step != f"{base}#1":
        return f"{clean(scope)}/{step}"
    return base if is_root and number == "1]" else clean(scope)


def label(step: StepInfo) -> str:
    return clean(step.key.rpartition("/")[2])


def glyph(status: str, look: Look) -> tuple[str, str]:
    """The sign of a status, and its style."""
    rich, plain, style = _GLYPHS.get(status, ("·", ".", ""))
    if status == "running" and look.spinner:
        rich = look.spinner
    return (rich if look.unicode else plain), style


def shown_status(step: StepInfo, look: Look) -> str:
    """Its status, or what is more to the point: that it was cut off, how a gate was decided."""
    if step.outcome in _DECIDED:
        return step.outcome
    return "cut off" if step.status == "running" and look.stopped else step.status


def _line(row: _Row, look: Look, column: int, took: int) -> Line:
    """`column` and `took` are the widths of what stands before the facts, and of the durations."""
    sign = row.sign[0]
    if not sign:
        room = max(look.width - 2 - cells(row.guide), 4)
        return ["  ", (row.guide, "dim"), (fit(row.label, room), row.style)]
    room = max(column - cells(row.guide) - cells(sign) - 1, 4)
    name = fit(row.label, room)
    pieces: list[Piece] = ["  ", (row.guide, "dim"), row.sign, " ", (name, row.style)]
    used = 2 + cells(row.guide) + cells(sign) + 1 + room
    gap = room - cells(name)
    for text, style in ((row.took.rjust(took), "dim"), *row.facts):
        left = look.width - used - 2
        if left < min(_NOTE_MIN, cells(text)):
            break
        text = fit(text, left)
        pieces += [" " * (gap + 2), (text, style)]
        used += 2 + cells(text)
        gap = 0
    return pieces


def _took(step: StepInfo, status: str, look: Look) -> str:
    """How long it took, or has taken so far; empty for what takes no time, or if that is not known."""
    end = step.ended_at if status not in ("running", "sleeping", "waiting") else look.now
    if step.started_at is None or end is None or step.kind == "checkpoint" or status == "cut off":
        return ""
    return duration((end - step.started_at).total_seconds())


def _facts(step: StepInfo, status: str, look: Look) -> Iterator[tuple[str, str]]:
    """Notes on a step beside its name and duration, the most important first."""
    style = glyph(status, look)[1]
    if step.kind == "checkpoint":
        yield "checkpoint", "dim"
    is_noted = status in _DECIDED or (status == "failed" and step.note)  # by the note
    if status not in ("completed", "running") and not is_noted:
        yield words(step, status, look), style
    if step.attempt > 1:
        over = status in ("completed", "failed")
        yield (f"{step.attempt} attempts" if over else f"attempt {step.attempt}"), "yellow"
    if step.effect == "once":
        yield "once", "dim"
    if step.child:
        yield f"run {clean(step.child)}", "dim"
    if step.note:
        yield clean(step.note), style if status != "retrying" else "dim"


def words(step: StepInfo, status: str, look: Look) -> str:
    """A status as people read it, with the time that it has to do with."""
    if status == "retrying" and step.due_at is not None and not look.stopped:
        left = (step.due_at - look.now).total_seconds()
        return f"again in {duration(left)}" if left > 0.05 else "again now"
    if status == "sleeping" and step.due_at is not None:
        return f"until {stamp(step.due_at)}"
    if status == "waiting":
        what = f"a decision: {clean(step.name)}" if step.kind == "approval" else "a signal"
        return f"waits for {what}" + (f", until {stamp(step.due_at)}" if step.due_at is not None else "")
    return plainly(status)


def plainly(status: str) -> str:
    """A status as people read it."""
    return {"in_doubt": "in doubt", "reopened": "to be tried again"}.get(status, status)
