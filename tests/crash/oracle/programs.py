"""Random workflow programs: nested plain data that a player executes as the code of a workflow.

A program is a tree of nodes. Every node has a name of its own, which is an argument of the step that it
calls, so that traces, body logs and events can be compared by name. The same seed and number give the same
program in every process.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

ASYNC_BLOCKS = (
    "gather", "gather_all", "limited", "group", "race", "wait_each", "wait_all", "wait_time", "completed",
    "wait_for", "timeout", "pool", "feed", "joined", "lock", "semaphore", "event", "condition", "cancel",
    "cancel_later", "shield", "agen", "helper", "child", "give_up", "beside", "tally", "other_child",
)  # fmt: skip
ANYIO_BLOCKS = ("any_group", "any_move_on", "any_stream", "any_fail_after")
ASYNC_LEAVES = (
    "nap", "spin", "pause", "value", "patched", "checkpoint", "emit", "approval", "signal", "route", "skills",
)  # fmt: skip
DEF_BLOCKS = ("each", "parallel", "pool", "parallel", "helper", "child", "tally", "other_child")
LOCKING_BLOCKS = ("lock", "each", "parallel", "helper", "child")
DEF_LEAVES = (
    "doze", "pause", "value", "patched", "checkpoint", "emit", "approval", "signal", "route", "skills",
)  # fmt: skip

EFFECTS = ("plain",) * 6 + ("once", "once", "verified", "verified")


@dataclass(frozen=True)
class Node:
    """One statement of a program."""

    kind: str
    name: str
    body: tuple[Node, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, option: str) -> Any:
        return self.options.get(option)

    def __str__(self) -> str:
        given = [f"{key}={value}" for key, value in self.options.items() if value not in (None, False)]
        inside = [*given, *map(str, self.body)]
        return f"{self.kind}:{self.name}" + (f"({', '.join(inside)})" if inside else "")

    def walk(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for one in self.body:
            yield from one.walk()

    def walk_in_colour(self) -> Iterator[Node]:
        """The same without the bodies of children of the other colour."""
        yield self
        for one in self.body if self.kind != "other_child" else ():
            yield from one.walk_in_colour()

    def but(self, **options: Any) -> Node:
        """The same node with other options."""
        return replace(self, options={**self.options, **options})


@dataclass(frozen=True)
class Program:
    """A whole workflow function."""

    colour: str
    """`async` or `def`."""
    number: int
    seed: int
    top: Node
    twin: bool = False
    """Two runs of it share an event loop."""

    def __str__(self) -> str:
        return f"{self.colour} program {self.number}{' (two runs)' if self.twin else ''}: {self.top}"

    @property
    def has_gates(self) -> bool:
        return any(one.kind in ("approval", "signal", "give_up") for one in self.top.walk())

    @property
    def is_blocking(self) -> bool:
        """Whether its threads wait for each other in a way that holdfast does not order."""
        return self.colour == "def" and any(one.kind == "lock" for one in self.top.walk_in_colour())

    def node(self, name: str) -> Node:
        return next(one for one in self.top.walk() if one.name == name)


def make(colour: str, seed: int, number: int, *, anyio: bool = False) -> Program:
    """Program `number` of a seed. Every kind of block is the centre of a program in turn."""
    chance = random.Random(f"{seed} {colour} {number}{' anyio' if anyio else ''}")
    blocks: tuple[str, ...] = (*ASYNC_BLOCKS, *(ANYIO_BLOCKS * 2 if anyio else ()))
    if colour == "def":
        blocks = LOCKING_BLOCKS if number % 6 == 5 else DEF_BLOCKS
    maker = _Maker(chance, colour, blocks)
    around = ANYIO_BLOCKS if anyio and number % 2 else blocks
    chosen = "lock" if blocks is LOCKING_BLOCKS else around[(number // (2 if anyio else 1)) % len(around)]
    centre = maker.block(chosen, depth=2)
    body = [*maker.some(1, 0, 2), centre, *maker.some(1, 0, 2), maker.step()]
    top = Node("seq", "top", tuple(body), {"caught": chance.random() < 0.9})
    return Program(colour, number, seed, top, twin=colour == "async" and chance.random() < 0.08)


class _Maker:
    """Makes nodes, the more leaves the more of its budget is left."""

    def __init__(self, chance: random.Random, colour: str, blocks: tuple[str, ...]) -> None:
        self._chance = chance
        self._colour = colour
        self._blocks = blocks
        self._made = 0
        self._left = chance.randint(5, 13)

    def some(self, depth: int, least: int, most: int) -> list[Node]:
        return [self.node(depth) for _ in range(self._chance.randint(least, most))]

    def node(self, depth: int) -> Node:
        if depth <= 0 or self._left <= 0 or self._chance.random() < 0.55:
            return self.leaf()
        return self.block(self._chance.choice(self._blocks), depth)

    def leaf(self) -> Node:
        if self._left <= 0 or self._chance.random() < 0.62:
            return self.step()
        kind = self._chance.choice(DEF_LEAVES if self._colour == "def" else ASYNC_LEAVES)
        if kind in ("approval", "signal"):
            return self._gate(kind)
        self._left -= kind in ("value", "patched", "route", "skills")
        return Node(kind, self._name(), options={"ms": self._chance.randint(1, 7)})

    def step(self, **options: Any) -> Node:
        chance = self._chance
        self._left -= 1
        effect = chance.choice(EFFECTS)
        attempts = chance.choice((2, 3)) if effect != "once" and chance.random() < 0.15 else 1
        fails = chance.random() < (0.5 if attempts > 1 else 0.16)
        given = {
            "effect": effect,
            "attempts": attempts,
            "failures": 0 if not fails else chance.randint(1, attempts) if attempts > 1 else 1,
            "slow": chance.random() < 0.25,
            "keyed": chance.random() < 0.12,
            "paid": chance.random() < 0.2,
            "plain_def": self._colour == "async" and chance.random() < 0.15,
        }
        return Node("step", self._name(), options={**given, **options})

    def block(self, kind: str, depth: int) -> Node:
        chance = self._chance
        options: dict[str, Any] = {"caught": chance.random() < 0.75, "helper": f"work_{chance.randint(1, 2)}"}
        body = self._in_other_colour(depth) if kind == "other_child" else self.some(depth - 1, 2, 3)
        if kind == "give_up":
            body = [self._gate(chance.choice(("approval", "signal")), never=chance.random() < 0.6), *body]
        elif kind == "beside":
            body = [self._gate(chance.choice(("approval", "signal"))), *body]
        elif kind == "each":
            same = {"effect": chance.choice(EFFECTS), "attempts": 1, "keyed": False, "paid": False}
            body = [self.step(**same) for _ in range(chance.randint(2, 4))]
        options.update(
            limit=chance.choice((1, 2, 2, 3)),
            ms=chance.randint(1, 9),
            clean=chance.random() < 0.5,
            awaits=chance.random() < 0.6,
            by_set=chance.random() < 0.4,
        )
        used = _OPTIONS.get(kind, ())
        kept = {name: value for name, value in options.items() if name in ("caught", *used)}
        return Node(kind, self._name(), tuple(body), kept)

    def _in_other_colour(self, depth: int) -> list[Node]:
        """The body of a child run that is `def` in an async program, or the reverse."""
        mine = self._colour, self._blocks
        is_async = self._colour == "async"
        self._colour, self._blocks = ("def", DEF_BLOCKS) if is_async else ("async", ASYNC_BLOCKS)
        try:
            return self.some(depth - 1, 2, 3)
        finally:
            self._colour, self._blocks = mine

    def _gate(self, kind: str, *, never: bool = False) -> Node:
        chance = self._chance
        options = {
            "answer": chance.choice(("yes", "yes", "no")),
            "early": kind == "signal" and not never and chance.random() < 0.3,
            "never": never,
            "lapses": not never and chance.random() < 0.12,
        }
        self._left -= 1
        return Node(kind, self._name(), options=options)

    def _name(self) -> str:
        self._made += 1
        return f"s{self._made}"


_OPTIONS = {
    "gather": ("helper",),
    "gather_all": ("helper",),
    "limited": ("helper", "limit"),
    "group": ("helper",),
    "race": ("helper", "awaits", "by_set"),
    "wait_each": ("helper", "by_set"),
    "wait_all": ("helper", "by_set"),
    "wait_time": ("helper", "ms", "by_set"),
    "completed": ("helper",),
    "wait_for": ("ms",),
    "timeout": ("ms",),
    "pool": ("helper", "limit"),
    "feed": ("limit",),
    "joined": ("limit",),
    "lock": ("helper",),
    "semaphore": ("helper",),
    "cancel": ("clean", "awaits"),
    "cancel_later": ("clean", "awaits", "ms"),
    "shield": ("ms", "awaits"),
    "give_up": ("ms", "awaits"),
    "parallel": ("limit", "helper"),
    "each": ("limit",),
    "tally": ("helper",),
    "any_move_on": ("ms",),
    "any_fail_after": ("ms",),
}
"""Which options a kind of block has beside `caught`."""
