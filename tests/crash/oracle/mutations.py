"""Changes that a developer makes to a program between two lives of its run."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tests.crash.oracle.programs import Node, Program
from tests.crash.oracle.steps import simple

HARMLESS = frozenset({"patched", "limit"})
"""Changes that must not diverge, wherever the run is."""
SEQUENCES = ("seq", "helper", "timeout", "child", "other_child")
"""Blocks whose body is executed one after the other."""

CANCELS = (
    "race", "wait_each", "wait_all", "wait_time", "completed", "group", "wait_for", "timeout", "cancel",
    "cancel_later", "give_up", "beside", "gather", "pool", "feed", "joined",
)  # fmt: skip
"""Blocks that may cancel what is in them."""

Change = Callable[[Program, random.Random], Node | None]


def mutate(program: Program, chance: random.Random) -> tuple[str, Program] | None:
    """The name of a change and the changed program; None if no change fits."""
    names = list(CHANGES)
    chance.shuffle(names)
    for name in names:
        top = CHANGES[name](program, chance)
        if top is not None:
            return name, replace(program, top=top)
    return None


def _rewritten(node: Node, target: Node, new: Node) -> Node:
    """The tree with one node replaced."""
    if node is target:
        return new
    return replace(node, body=tuple(_rewritten(one, target, new) for one in node.body))


def _pick(program: Program, chance: random.Random, fits: Callable[[Node], bool]) -> Node | None:
    found = [one for one in program.top.walk() if fits(one)]
    return chance.choice(found) if found else None


def _rename(program: Program, chance: random.Random) -> Node | None:
    """The function that the branches run has another name."""
    chosen = _pick(program, chance, lambda one: bool(one["helper"]))
    return chosen and _rewritten(program.top, chosen, chosen.but(helper="renamed"))


def _reorder(program: Program, chance: random.Random) -> Node | None:
    chosen = _pick(program, chance, lambda one: one.kind in SEQUENCES and len(one.body) > 1)
    if chosen is None:
        return None
    body = list(chosen.body)
    place = chance.randrange(len(body) - 1)
    body[place], body[place + 1] = body[place + 1], body[place]
    return _rewritten(program.top, chosen, replace(chosen, body=tuple(body)))


def _insert(program: Program, chance: random.Random) -> Node | None:
    return _with_new(program, chance, simple("s900", chance.choice(("plain", "once"))))


def _insert_patched(program: Program, chance: random.Random) -> Node | None:
    return _with_new(program, chance, Node("inserted", "s901"))


def _with_new(program: Program, chance: random.Random, new: Node) -> Node | None:
    chosen = _pick(program, chance, lambda one: one.kind in SEQUENCES)
    if chosen is None:
        return None
    body = list(chosen.body)
    body.insert(chance.randint(0, len(body)), new)
    return _rewritten(program.top, chosen, replace(chosen, body=tuple(body)))


def _remove(program: Program, chance: random.Random) -> Node | None:
    chosen = _pick(program, chance, lambda one: one.kind in SEQUENCES and _steps_of(one) != [])
    if chosen is None or len(chosen.body) < 2:
        return None
    gone = chance.choice(_steps_of(chosen))
    return _rewritten(program.top, chosen, replace(chosen, body=tuple(_without(chosen, gone))))


def _steps_of(node: Node) -> list[Node]:
    return [one for one in node.body if one.kind == "step"]


def _without(node: Node, gone: Node) -> list[Node]:
    return [one for one in node.body if one is not gone]


def _limit(program: Program, chance: random.Random) -> Node | None:
    """Fewer or more branches of a fan-out at a time. Not where branches are cancelled: with another limit,
    others have begun by then."""
    cancelled = [inner for one in program.top.walk() if one.kind in CANCELS for inner in one.walk()]
    chosen = _pick(
        program,
        chance,
        lambda one: one.kind in ("limited", "parallel", "each") and not any(one is two for two in cancelled),
    )
    if chosen is None:
        return None
    others = [limit for limit in (1, 2, 3, 4) if limit != chosen["limit"]]
    return _rewritten(program.top, chosen, chosen.but(limit=chance.choice(others)))


def _regroup(program: Program, chance: random.Random) -> Node | None:
    """`asyncio.gather` becomes a TaskGroup, or the reverse."""
    other = {"gather": "group", "gather_all": "group", "group": "gather"}
    chosen = _pick(program, chance, lambda one: one.kind in other)
    return chosen and _rewritten(program.top, chosen, replace(chosen, kind=other[chosen.kind]))


CHANGES: dict[str, Change] = {
    "rename": _rename,
    "reorder": _reorder,
    "insert": _insert,
    "patched": _insert_patched,
    "remove": _remove,
    "limit": _limit,
    "regroup": _regroup,
}
