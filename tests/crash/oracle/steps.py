"""The steps that random programs call. Their bodies report that they begin, and take a random time."""

from __future__ import annotations

import asyncio
import random
import time
from decimal import Decimal
from typing import Any

from tests.crash.oracle.programs import Node
from tests.crash.oracle.witness import here

from holdfast import NOT_DONE, Amounts, Retry, idempotency_key, measure, step
from holdfast.engine.execution.scope import current

SCALE = 1.0
"""How long the bodies of this life take, relative to others."""
PAID = "-paid"
"""How the names of steps end that reserve in a budget."""


class Planned(Exception):
    """A failure that the program planned."""


_USED = Decimal("0.03")


def _begin(name: str, effect: str) -> int:
    """Report the body; returns which attempt it is."""
    run, _, key = idempotency_key().split(":", 2)
    attempt: int = getattr(current.get(), "attempt", 1)
    here().write("body", run, key, name, effect, attempt)
    return attempt


def _delay(slow: bool) -> float | None:
    """Seconds that a body takes; None: it does not even yield."""
    if slow:
        return random.uniform(0.002, 0.008) * SCALE
    lot = random.random()
    if lot < 0.3:
        return None
    return 0.0 if lot < 0.5 else random.uniform(0, 0.004) * SCALE


def _finish(name: str, attempt: int, failures: int) -> str:
    if attempt <= failures:
        raise Planned(name)
    return name


def _not_done(name: str, failures: int, slow: bool, value: str) -> Any:
    here().write("verify", name)
    return NOT_DONE


def _make(effect: str, attempts: int, is_async: bool, paid: bool) -> Any:
    async def async_body(name: str, failures: int, slow: bool, value: str) -> str:
        attempt = _begin(name, effect)
        delay = _delay(slow)
        if paid and slow:
            measure(usd=_USED)
        if delay is not None:
            await asyncio.sleep(delay)
        return _finish(name, attempt, failures)

    def def_body(name: str, failures: int, slow: bool, value: str) -> str:
        attempt = _begin(name, effect)
        delay = _delay(slow)
        if paid and slow:
            measure(usd=_USED)
        if delay is not None:
            time.sleep(delay)
        return _finish(name, attempt, failures)

    name = effect if attempts == 1 else f"{effect}{attempts}"
    options: dict[str, Any] = {"name": f"{name}{PAID}" if paid else name}
    if paid:
        options["reserve"] = Amounts(usd="0.05")
    if attempts > 1:
        options["retry"] = Retry(attempts=attempts, initial=0.003)
    if effect != "plain":
        options["effect"] = "once"
    if effect == "verified":
        options["verify"] = _not_done
    return step(**options)(async_body if is_async else def_body)


STEPS = {
    (effect, attempts, is_async, paid): _make(effect, attempts, is_async, paid)
    for effect in ("plain", "once", "verified")
    for attempts in ((1,) if effect == "once" else (1, 2, 3))
    for is_async in (True, False)
    for paid in (True, False)
}


def _make_item(effect: str) -> Any:
    """The `def` step for `parallel(step, items)`: an item is all its arguments."""

    def item_body(item: list[Any]) -> str:
        attempt = _begin(item[0], effect)
        delay = _delay(item[2])
        if delay is not None:
            time.sleep(delay)
        return _finish(item[0], attempt, item[1])

    options: dict[str, Any] = {"name": f"{effect}-item"}
    if effect != "plain":
        options["effect"] = "once"
    if effect == "verified":
        options["verify"] = _item_not_done
    return step(**options)(item_body)


def _item_not_done(item: list[Any]) -> Any:
    here().write("verify", item[0])
    return NOT_DONE


ITEM_STEPS = {effect: _make_item(effect) for effect in ("plain", "once", "verified")}


def step_of(node: Node, *, is_async: bool) -> Any:
    """The step that a node calls, with its key if it has one."""
    found = STEPS[(node["effect"], node["attempts"], is_async, bool(node["paid"]))]
    return found.with_key(node.name) if node["keyed"] else found


def arguments(node: Node, value: str = "") -> tuple[Any, ...]:
    return (node.name, node["failures"], node["slow"], value)


def simple(name: str, effect: str = "plain") -> Node:
    """A step that a block calls beside those of its body."""
    return Node("step", name, options={"effect": effect, "attempts": 1, "failures": 0, "slow": False})
