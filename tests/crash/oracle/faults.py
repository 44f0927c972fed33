"""Faults to plant: the oracle must find each of them, or it proves nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

LOST = "lost"
"""The store that a life leaves lacks its last commit."""


def _nothing() -> None:
    pass


def _swap() -> None:
    """A replay delivers recorded outcomes in another order: each pair of neighbours is exchanged."""
    from holdfast.engine.execution.delivery import Delivery

    load = Delivery._load

    def load_swapped(self: Any) -> None:
        load(self)
        keys = list(self._expected)
        for place in range(0, len(keys) - 1, 2):
            keys[place], keys[place + 1] = keys[place + 1], keys[place]
        self._expected = deque(keys)

    Delivery._load = load_swapped  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[], None]] = {LOST: _nothing, "swapped": _swap}
"""Name → what plants it in the process of a life."""
