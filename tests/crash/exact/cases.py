"""A case: a program as users write it, registered with the players of the oracle.

The code of a case reports what it observes: `saw(await ask(x))` an outcome, `see(...)` everything else. The
body of a step reports that it begins and takes a random time. Its result contains a random number, so that
a body that ran twice shows in the trace.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from tests.crash.oracle import async_player, def_player, steps
from tests.crash.oracle.programs import Node, Program
from tests.crash.oracle.witness import here, see

from holdfast import idempotency_key
from holdfast.engine.execution.scope import current

R = TypeVar("R")

CASES: dict[str, Case] = {}
"""Name → case, in the order of the table."""


@dataclass(frozen=True)
class Case:
    """A program, and what becomes of its code between two lives."""

    name: str
    code: Callable[[], Any]
    text: str
    """What it shows, in one sentence."""
    loops: tuple[str, ...] = ("asyncio",)
    has_gates: bool = False
    """Someone decides the gates whose names begin with `yes-` or `no-`, at a random moment."""
    changed: Callable[[], Any] | None = None
    """The code of the lives after the kill, if it is other code."""
    renamed: str = ""
    """The helper that the changed code has under another name. Once a step of it is recorded, the
    changed code must diverge."""
    needs: str = ""
    """A package that is not a dependency of every checkout."""

    @property
    def colour(self) -> str:
        return "async" if iscoroutinefunction(self.code) else "def"

    def program(self, seed: int, *, changed: bool = False) -> Program:
        gates = (Node("approval", "gate"),) if self.has_gates else ()
        number = list(CASES).index(self.name)
        return Program(self.colour, number, seed, Node("case", self.name, gates, {"changed": changed}))


def case(name: str, **options: Any) -> Callable[[Callable[[], R]], Callable[[], R]]:
    """Register the function, which a workflow calls, as a case."""

    def register(code: Callable[[], R]) -> Callable[[], R]:
        CASES[name] = Case(name, code, " ".join((code.__doc__ or "").split()), **options)
        return code

    return register


def _code_of(node: Node) -> Callable[[], Any]:
    found = CASES[node.name]
    return found.changed if node["changed"] and found.changed is not None else found.code


async def _play(node: Node, shared: object) -> Any:
    return await _code_of(node)()


def _play_def(node: Node, shared: object) -> Any:
    return _code_of(node)()


async_player.BLOCKS["case"] = _play
def_player.BLOCKS["case"] = _play_def


# For the code of cases


def saw(value: R, *words: Any) -> R:
    """Report an outcome that the code has just received, and what else it observes then."""
    see("got", str(value), *words)
    return value


# For the bodies of steps


def begin(name: str, effect: str = "plain") -> int:
    """Report that the body of the step which this run calls `name` begins; returns which attempt it is."""
    run, _, key = idempotency_key().split(":", 2)
    attempt: int = getattr(current.get(), "attempt", 1)
    here().write("body", run, key, name, effect, attempt)
    return attempt


def _delay(slow: bool) -> float | None:
    if slow:
        return random.uniform(0.003, 0.012) * steps.SCALE
    return random.choice((None, 0, *(random.uniform(0, 0.005) * steps.SCALE for _ in range(3))))


def _result(name: str) -> str:
    return f"{name}:{random.randrange(1000)}"


async def worked(name: str, effect: str = "plain", *, slow: bool = False) -> str:
    """The body of an async step."""
    begin(name, effect)
    delay = _delay(slow)
    if delay is not None:
        await asyncio.sleep(delay)
    return _result(name)


def worked_here(name: str, effect: str = "plain", *, slow: bool = False) -> str:
    """The body of a `def` step."""
    begin(name, effect)
    time.sleep(_delay(slow) or 0)
    return _result(name)
