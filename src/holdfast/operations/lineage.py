"""The live history of a run: the events on the path from its first generation to the live one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.kernel import events as e
from holdfast.store.port import Recorded


def live(history: Sequence[Recorded], generation: int) -> Iterator[Recorded]:
    """The events on the path from the root to the live generation, in order."""
    ends = _ends(history, generation)
    now = 0
    for one in history:
        if isinstance(one.event, (e.Rewound, e.GenerationRestored)):
            now = one.event.generation
        elif one.version <= ends.get(now, 0):
            yield one


def _ends(history: Sequence[Recorded], generation: int) -> dict[int, int]:
    """Each generation on the path to the root, and the version up to which it counts."""
    opened = {one.event.generation: one.event for one in history if isinstance(one.event, e.Rewound)}
    ends = {generation: history[-1].version}
    while generation in opened:
        parent = opened[generation]
        ends[parent.parent] = min(parent.version, ends[generation])
        generation = parent.parent
    return ends
