"""A plan as a graph in the terminal: one row for each step, behind those that it needs.

Each step that others need has a rail, which ends at the last of them. A row joins the rails of what the step
needs with the step's own place:

    ●      files   python tools:changed_files
    ├─●    lint    for each of files: ruff check ${item}
    ●─│    notes   agent ...
    ╰─┴─●  ok      approve: Release ${input.version}?
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from holdfast.cli.drawing.moments import duration
from holdfast.cli.drawing.terminal import Line, Piece, cells, clean, fit, json_text, pad
from holdfast.counts import counted

if TYPE_CHECKING:
    from holdfast.plans import Plan, PlanStep

_JOINTS = {
    # up, down, left, right
    (True, True, False, False): "│", (True, True, False, True): "├", (True, True, True, False): "┤",
    (True, True, True, True): "┼", (True, False, False, True): "╰", (True, False, True, False): "╯",
    (True, False, True, True): "┴", (False, False, True, True): "─",
}  # fmt: skip
_MARKS = {
    "": ("●", "cyan"), "completed": ("✓", "green"), "failed": ("✗", "red"), "running": ("▶", "yellow"),
    "waiting": ("?", "yellow"), "sleeping": ("z", "yellow"), "pending": ("○", "dim"),
    "skipped": ("-", "dim"), "in_doubt": ("!", "red"), "retrying": ("▶", "red"),
}  # fmt: skip


_PLAIN = str.maketrans("│├┤┼╰╯┴─●✓✗▶○⚑", "|||+`'+-*+x>o!")


class Row(NamedTuple):
    """The cells in front of a step; the step's own is the one of `mark`."""

    step: PlanStep
    before: str
    after: str


def rows(plan: Plan) -> Iterator[Row]:
    """The steps in an order in which they can run, with their rails."""
    steps = _in_order(plan)
    needs = _reduced(steps)
    last: dict[str, int] = {}
    for n, step in enumerate(steps):
        for need in needs[step.id]:
            last[need] = n
    rails: list[str] = []
    """Which step's rail each column is; empty if it is free."""
    for n, step in enumerate(steps):
        wanted = {rails.index(need) for need in needs[step.id]}
        ends = {column for column in wanted if last[rails[column]] == n}
        mine = min(ends, default=None)
        if mine is None:
            mine = rails.index("") if "" in rails else len(rails)
        yield _row(step, rails, wanted, ends, mine)
        for column in ends:
            rails[column] = ""
        rails += [""] * (mine + 1 - len(rails))
        rails[mine] = step.id if step.id in last else ""
        while rails and not rails[-1]:
            rails.pop()


def _row(step: PlanStep, rails: list[str], wanted: set[int], ends: set[int], mine: int) -> Row:
    width = max(len(rails), mine + 1)
    left, right = min(wanted | {mine}), max(wanted | {mine})
    text = ["", ""]
    for column in range(width):
        side = int(column > mine)
        if column == mine:
            continue
        alive = column < len(rails) and bool(rails[column])
        inside = left <= column <= right
        if column in wanted:
            joint = _JOINTS[alive, column not in ends, column > left, column < right]
        elif alive:
            joint = "│"
        else:
            joint = "─" if inside else " "
        gap = "─" if left <= column < right else " "
        first = ("─" if mine < right else " ") if column == mine + 1 else ""
        text[side] += first + joint + gap
    return Row(step, text[0], text[1])


def _in_order(plan: Plan) -> list[PlanStep]:
    """The plan's own order, but each step behind those that it needs."""
    done: dict[str, PlanStep] = {}
    left = list(plan.steps)
    while left:
        ready = next(step for step in left if all(need in done for need in step.needs))
        done[ready.id] = ready
        left.remove(ready)
    return list(done.values())


def _reduced(steps: list[PlanStep]) -> dict[str, list[str]]:
    """The direct needs of each step, without those that another need implies."""
    above: dict[str, set[str]] = {}
    reduced: dict[str, list[str]] = {}
    for step in steps:
        reach = set().union(*(above[need] for need in step.needs)) if step.needs else set()
        reduced[step.id] = [need for need in step.needs if need not in reach]
        above[step.id] = reach | set(step.needs)
    return reduced


def lines(
    plan: Plan,
    width: int,
    status: Mapping[str, str] | None = None,
    *,
    unicode: bool = True,
    spinner: str = "",
    drawn: list[Row] | None = None,
) -> Iterator[Line]:
    """The plan's heading, its graph, and what each step does. `status` is that of each step of a run; the
    mark of one that is executed is the `spinner`, if there is one. `drawn` are the `rows` of the plan, for
    who draws it again and again."""
    signs: dict[int, int] = {} if unicode else _PLAIN
    flag = "⚑".translate(signs)
    yield [(clean(plan.name), "bold"), *([f"  {clean(plan.description)}"] if plan.description else [])]
    for label, text in _facts(plan):
        yield [(f"  {label} ", "dim"), clean(text)]
    yield ""
    drawn = list(rows(plan)) if drawn is None else drawn
    graph = max(cells(row.before + row.after) + 1 for row in drawn)
    name = max(cells(row.step.id) for row in drawn)
    for row in drawn:
        now = "" if status is None else status.get(row.step.id, "pending")
        mark, style = _MARKS.get(now, ("●", "cyan"))
        mark = spinner if spinner and unicode and now in ("running", "retrying") else mark
        room = max(width - graph - name - 6, 20)
        rest = " " * (graph - cells(row.before + row.after) - 1)
        yield [
            "  ", (row.before.translate(signs), "dim"), (mark.translate(signs), style),
            ((row.after + rest).translate(signs), "dim"), "  ",
            (pad(row.step.id, name), "bold"), "  ", *_summary(row.step, room, flag),
        ]  # fmt: skip


def window(lines: list[Line], drawn: list[Row], status: Mapping[str, str], most: int) -> list[Line]:
    """At most so many of the `lines` of a plan: its name, and the rows around the first step that has not
    ended, with how many are above and below."""
    surplus = len(lines) - most
    if surplus <= 0:
        return lines
    head, body = lines[0], lines[-len(drawn) :]
    room = max(most - 3, 1)
    over = ("completed", "skipped")
    first = next((n for n, row in enumerate(drawn) if status.get(row.step.id) not in over), len(body))
    begin = min(max(first - room // 3, 0), max(len(body) - room, 0))
    below = max(len(body) - begin - room, 0)
    return [
        head,
        [(f"  ... {begin} above" if begin else "", "dim")],
        *body[begin : begin + room],
        [(f"  ... {below} below" if below else "", "dim")],
    ]


def _facts(plan: Plan) -> Iterator[tuple[str, str]]:
    if plan.input:
        shown = [
            f"{name} (required)" if value is None else f"{name}={json_text(value)}"
            for name, value in plan.input.items()
        ]
        yield "input ", ", ".join(shown)
    yield (
        "limits",
        ", ".join(
            [
                f"{plan.parallel} at once",
                *(
                    [f"a checkpoint after every {_every(plan.checkpoint_every)}"]
                    if plan.checkpoint_every
                    else []
                ),
                *([f"budget {name}={value:g}" for name, value in plan.budget.items()]),
            ]
        ),
    )


def _every(steps: int) -> str:
    return "step" if steps == 1 else counted(steps, "step")


def _summary(step: PlanStep, room: int, flag: str) -> list[Piece]:
    text = clean(f"{_does(step)}{_extras(step)}")
    if not step.milestone:
        return [fit(text, room)]
    milestone = f"  {flag} {clean(step.milestone)}"
    return [fit(text, max(room - cells(milestone), 20)), (milestone, "cyan")]


def _does(step: PlanStep) -> str:
    each = f"for each of {step.foreach}: " if step.foreach else ""
    what = {
        "run": " ".join(map(_word, step.argv)),
        "sleep": f"sleep {duration(step.seconds)}",
        "plan": ""
        if step.plan is None
        else f"plan {step.plan.name} ({counted(len(step.plan.steps), 'step')})",
    }.get(step.kind, f"{step.kind} {step.text}")
    return each + what


def _word(word: str) -> str:
    """As a shell would need it; an expression without spaces as it is."""
    return word if "${" in word and not any(map(str.isspace, word)) else shlex.quote(word)


def _extras(step: PlanStep) -> str:
    extras = [f"when {step.when}"] if step.when else []
    extras += [f"effect {step.effect}"] if step.effect else []
    extras += [counted(step.retry.attempts, "attempt")] if step.retry else []
    extras += [f"at most {duration(step.timeout)}"] if step.timeout else []
    extras += ["in a copy"] if step.isolate else []
    return f"  ({'; '.join(extras)})" if extras else ""
