"""The part of the store contract that `holdfast.store.folded` stands on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdfast.errors import OwnershipLost, StoreError
from holdfast.store.folded import Folded
from holdfast.store.port import NO_EVENTS, Companion, Decision, NewEvent, Recorded, Source, Store
from holdfast.testing.histories import in_threads, own, step_append

BUDGET = "@budget/folded"


class Ledger:
    """Folds a budget to the versions of its events, and counts how often it was asked to."""

    def __init__(self, store: Store) -> None:
        self.folds = 0
        self.folded: Folded[tuple[int, ...]] = Folded(store, BUDGET, (), self._evolve)

    def _evolve(self, state: tuple[int, ...], recorded: Recorded) -> tuple[int, ...]:
        self.folds += 1
        return (*state, recorded.version)


def spend(state: tuple[int, ...]) -> Decision:
    """Record how many events the decision saw."""
    return Decision("budget", [NewEvent("Spent", 1, f'{{"seen":{len(state)}}}')])


def seen(store: Store) -> list[str]:
    return [entry.payload for entry in store.entries(BUDGET)]


def right(count: int) -> list[str]:
    return [f'{{"seen":{n}}}' for n in range(count)]


class FoldedContract:
    """A folded state equals a fold of the log, with concurrent writers and after lost appends."""

    def test_a_command_folds_only_what_is_new(self, store: Store) -> None:
        """A stream of any length costs one command its own events and those of others since the last."""
        ledger, other = Ledger(store), Ledger(store)
        for n in range(50):
            assert ledger.folded.command(spend) == tuple(range(1, n + 2))
        assert (ledger.folds, ledger.folded.version) == (50, 50)
        other.folded.command(spend)
        other.folded.command(spend)
        assert other.folds == 52
        assert ledger.folded.version == 50
        assert ledger.folded.command(lambda _: NO_EVENTS) == tuple(range(1, 53))
        assert (ledger.folds, ledger.folded.version) == (52, 52)
        assert seen(store) == right(52)

    def test_a_refresh_folds_what_others_wrote(self, store: Store) -> None:
        """Without a command."""
        ledger, other = Ledger(store), Ledger(store)
        assert (ledger.folded.refresh(), ledger.folded.version) == ((), 0)
        other.folded.command(spend)
        assert (ledger.folded.refresh(), ledger.folded.state, ledger.folds) == ((1,), (1,), 1)

    def test_concurrent_writers_all_decide_on_the_newest_state(self, store: Store) -> None:
        """Eight threads, some with one folded state and some with their own, some by companions: no decision
        misses an event, and every state ends equal to a fold of the log."""
        shared, ledgers = Ledger(store), [Ledger(store) for _ in range(4)]

        def by_command(ledger: Ledger) -> None:
            for _ in range(10):
                ledger.folded.command(spend)

        def by_companion(run: str) -> None:
            own(store, run)
            for n in range(10):
                companion, acknowledge = shared.folded.companion(spend)
                append = step_append(run, f"a#{n}")
                append.also = [companion]
                store.append(append)
                acknowledge()

        in_threads(
            *[lambda: by_command(shared)] * 2,
            *[lambda ledger=ledger: by_command(ledger) for ledger in ledgers],
            *[lambda run=run: by_companion(run) for run in ("r", "s")],
        )
        assert seen(store) == right(80)
        for ledger in (shared, *ledgers):
            assert ledger.folded.refresh() == tuple(range(1, 81))

    def test_what_is_lost_is_not_folded(self, store: Store) -> None:
        """A decision that raises, a stale owner, and an append whose other companion raises."""
        own(store, "r")
        ledger = Ledger(store)
        ledger.folded.command(spend)

        def no(_: tuple[int, ...]) -> Decision:
            raise LookupError("no")

        def refuse(_: Sequence[Recorded]) -> Decision:
            raise LookupError("no")

        with pytest.raises(LookupError):
            ledger.folded.command(no)
        for epoch, error in ((7, OwnershipLost), (1, StoreError)):
            companion, _ = ledger.folded.companion(spend)
            append = step_append("r", "a#1", epoch=epoch)
            append.also = [companion, Companion(Source("@task/1"), refuse)]
            with pytest.raises(error):
                store.append(append)
            assert (ledger.folded.state, ledger.folded.version) == ((1,), 1)
        assert ledger.folded.command(spend) == (1, 2)
        assert seen(store) == right(2)

    def test_an_acknowledgement_that_was_forgotten_costs_a_second_look(self, store: Store) -> None:
        """The next decision reads the companion's events again, and is right."""
        own(store, "r")
        ledger = Ledger(store)
        for n in range(3):
            companion, _ = ledger.folded.companion(spend)
            append = step_append("r", f"a#{n}")
            append.also = [companion, ledger.folded.companion(spend)[0]]
            store.append(append)
            assert ledger.folded.version == 0
        assert ledger.folded.command(spend) == tuple(range(1, 8))
        assert seen(store) == right(7)

    def test_acknowledgements_out_of_order_do_not_go_back(self, store: Store) -> None:
        """An earlier one that comes late changes nothing."""
        own(store, "r")
        ledger = Ledger(store)
        done = []
        for n in range(2):
            companion, acknowledge = ledger.folded.companion(spend)
            append = step_append("r", f"a#{n}")
            append.also = [companion]
            store.append(append)
            done.append(acknowledge)
        done[1]()
        done[0]()
        assert (ledger.folded.version, ledger.folded.state) == (2, (1, 2))
