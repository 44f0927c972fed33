"""A run's steps as a tree by scope: what `show` prints and what is drawn while a run goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from holdfast.cli.moments import duration
from holdfast.cli.terminal import Line, Piece, cells, clean, fit

_NOTE_MIN = 12


class StepView(msgspec.Struct):
    """A step as it is drawn. `note` is its error, or why it is in doubt."""

    key: str
    name: str = ""
    kind: str = "step"
    effect: str = "idempotent"
    status: str = "running"
    attempt: int = 1
    started: datetime | None = None
    ended: datetime | None = None
    due: datetime | None = None
    child: str = ""
    note: str = ""


class Look(msgspec.Struct, frozen=True):
    """How steps are drawn here: `stopped` says that nobody executes the run, so nothing runs in it."""

    width: int = 100
    unicode: bool = True
    stopped: bool = False
    now: datetime = datetime.fromtimestamp(0, UTC)
    spinner: str = ""


_GLYPHS = {
    # status: with Unicode, without, style
    "completed": ("✓", "+", "green"),
    "failed": ("✗", "x", "red"),
    "running": ("▶", ">", "cyan"),
    "cut off": ("◌", "o", "yellow"),
    "retrying": ("↻", "~", "yellow"),
    "in_doubt": ("?", "?", "magenta"),
    "sleeping": ("◷", "z", "blue"),
    "reopened": ("○", "o", "yellow"),
}


def tree(
    steps: Iterable[StepView], look: Look, children: dict[str, list[StepView]] | None = None
) -> list[Line]:
    """One line for each step, and for each scope that holds some. `children` are the steps of child
    runs, by the run's id: they are drawn below the step that started it."""
    root = _Branch("")
    for step in steps:
        branch = root
        *scopes, _ = step.key.split("/")
        for scope in scopes:
            branch = branch.below(scope)
        branch.items.append(step)
    widest = max((cells(label) for label in root.labels(0, children or {})), default=0)
    column = min(widest, max(look.width // 2, 16))
    return list(root.draw(look, "  ", "", column, children or {}))


class _Branch:
    """A scope: steps and inner scopes in the order in which they came."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.items: list[StepView | _Branch] = []
        self._inner: dict[str, _Branch] = {}

    def below(self, name: str) -> _Branch:
        inner = self._inner.get(name)
        if inner is None:
            inner = self._inner[name] = _Branch(name)
            self.items.append(inner)
        return inner

    def labels(self, depth: int, children: dict[str, list[StepView]]) -> Iterator[str]:
        for item in self.items:
            if isinstance(item, _Branch):
                yield from item.labels(depth + 1, children)
            else:
                yield " " * 3 * depth + label(item)
                if item.child in children:
                    yield from (" " * 3 * (depth + 1) + label(step) for step in children[item.child])

    def draw(
        self, look: Look, first: str, guide: str, column: int, children: dict[str, list[StepView]]
    ) -> Iterator[Line]:
        for n, item in enumerate(self.items):
            last = n == len(self.items) - 1
            here, below = _guides(look, guide, last) if self.name else ("", "")
            if isinstance(item, _Branch):
                yield [first, (here, "dim"), (clean(item.name), "bold")]
                yield from item.draw(look, first, below or " ", column, children)
                continue
            yield [first, *_step(item, look, here, column)]
            inner = _Branch(item.child)
            inner.items = list(children.get(item.child, ()))
            yield from inner.draw(look, first, below or " ", column, children)


def _guides(look: Look, guide: str, last: bool) -> tuple[str, str]:
    """What stands before an item of an inner scope, and before what is below it."""
    guide = guide if guide != " " else ""
    if look.unicode:
        return guide + ("└─ " if last else "├─ "), guide + ("   " if last else "│  ")
    return guide + ("`- " if last else "|- "), guide + ("   " if last else "|  ")


def label(step: StepView) -> str:
    return clean(step.key.rpartition("/")[2])


def glyph(status: str, look: Look) -> tuple[str, str]:
    """The sign of a status, and its style."""
    rich, plain, style = _GLYPHS.get(status, ("·", ".", ""))
    if status == "running" and look.spinner:
        rich = look.spinner
    return (rich if look.unicode else plain), style


def shown_status(step: StepView, look: Look) -> str:
    return "cut off" if step.status == "running" and look.stopped else step.status


def _step(step: StepView, look: Look, guide: str, column: int) -> list[Piece]:
    status = shown_status(step, look)
    name = label(step)
    room = max(column - cells(guide), 4)
    pieces: list[Piece] = [(guide, "dim"), glyph(status, look), " ", fit(name, room)]
    pieces.append(" " * max(room - cells(name), 0))
    used = 2 + cells(guide) + 2 + max(room, min(cells(name), room))
    for text, style in _facts(step, status, look):
        left = look.width - used - 2
        if left < min(_NOTE_MIN, cells(text)):
            break
        text = fit(text, left)
        pieces += ["  ", (text, style)]
        used += 2 + cells(text)
    return pieces


def _facts(step: StepView, status: str, look: Look) -> Iterator[tuple[str, str]]:
    """What is worth saying of a step beside its name, the most important first."""
    style = glyph(status, look)[1]
    end = step.ended if status not in ("running", "sleeping") else look.now
    if step.started is not None and end is not None and status != "cut off":
        yield duration((end - step.started).total_seconds()).rjust(8), "dim"
    if status not in ("completed", "running"):
        yield _words(step, status, look), style
    if step.attempt > 1:
        yield f"attempt {step.attempt}", "yellow"
    if step.effect == "once":
        yield "once", "dim"
    if step.child:
        yield f"run {clean(step.child)}", "dim"
    if step.note:
        yield clean(step.note), style if status != "retrying" else "dim"


def _words(step: StepView, status: str, look: Look) -> str:
    if status == "retrying" and step.due is not None and not look.stopped:
        left = (step.due - look.now).total_seconds()
        return f"again in {duration(left)}" if left > 0.05 else "again now"
    if status == "sleeping" and step.due is not None:
        return f"until {step.due.astimezone():%Y-%m-%d %H:%M:%S}"
    return {"in_doubt": "in doubt", "reopened": "to be tried again"}.get(status, status)
