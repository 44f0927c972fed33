"""The decisions noted on tasks that no longer count: those of a part of a run that a rewind has left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.kernel.evolve import fold
from holdfast.operations.reversal import is_live
from holdfast.store.port import Store
from holdfast.store.tracker_port import DecisionRow


def left_decisions(
    store: Store, decisions: Sequence[DecisionRow], runs: Sequence[str]
) -> Iterator[DecisionRow]:
    """Those of `decisions` that one of these runs wrote in a generation that was left, or in a child run of
    one. The history of each run is read once."""
    strays = set(store.strays(runs))
    states = {run: fold(store.history(run)) for run in runs}
    for one in decisions:
        run = one.author.run
        state = states.get(run)
        if run in strays or (state is not None and not is_live(one.author, state)):
            yield one
