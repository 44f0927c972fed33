"""The promises of a store about budgets. A part of `StoreContract`."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import RunArchived
from holdfast.kernel import budget as b
from holdfast.kernel.amounts import Amounts
from holdfast.kernel.events import Event
from holdfast.store.port import Decision, Store, new_event
from holdfast.testing.histories import archived

_numbers = count()
NAMES = ("team", "team:ann")
RUNS = ("r", "s")


def _amounts() -> st.SearchStrategy[Amounts]:
    exact = st.none() | st.decimals(0, 9, allow_nan=False, places=20)
    whole = st.none() | st.integers(0, 9)
    return st.builds(Amounts, exact, whole, exact, whole)


def _events() -> st.SearchStrategy[Event]:
    ids = st.sampled_from(["1", "2", "3"])
    reserved = st.builds(
        b.BudgetReserved,
        ids,
        st.sampled_from(RUNS),
        st.just("ask#1"),
        st.integers(1, 2),
        _amounts(),
        st.integers(0, 1),
        st.sampled_from(["", "owner"]),
        st.integers(0, 2),
    )
    settled = st.builds(b.BudgetSettled, ids, _amounts(), _amounts(), st.booleans())
    was_set = st.builds(b.BudgetSet, _amounts(), st.sampled_from(["", "team"]), st.sampled_from(["", "ann"]))
    return st.one_of(reserved, reserved, settled, settled, was_set, st.builds(b.BudgetReleased, ids))


class BudgetContract:
    """Every store has budgets as the kernel folds them."""

    @settings(
        max_examples=25,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(st.lists(st.tuples(st.sampled_from(NAMES), _events()), max_size=16))
    def test_budgets_are_those_of_the_fold(
        self, make_store: Callable[..., Store], events: list[tuple[str, Event]]
    ) -> None:
        """Limits, sums and open reservations are those of the fold, live and after a rebuild; sums of money
        are exact."""
        store = make_store(f"budget-{next(_numbers)}")
        for at, (name, event) in enumerate(events, 1):
            decision = Decision(b.KIND, [new_event(event, at)])
            store.command(b.stream_of(name), lambda _, decision=decision: decision)  # type: ignore[misc]
        known = sorted({name for name, _ in events})
        for _ in "12":
            rows = {row.name: (row.version, row.state) for row in store.budgets()}
            folds = {name: store.load(b.stream_of(name)) for name in known}
            assert rows == {name: (read[-1].version, b.fold(read)) for name, read in folds.items()}
            for name in known:
                assert store.budget(name) == (name, *rows[name])
            for run in RUNS:
                holding = [name for name in known if run in {one.run for one in rows[name][1].open.values()}]
                assert store.budgets_holding(run) == holding
            assert list(store.verify()) == []
            store.rebuild()
        spent = [store.run_spending(run) for run in RUNS]
        for name in known:
            parts = [one.spent for each in spent for one in each if one.budget == name]
            total = sum((part.usd or Decimal(0) for part in parts), Decimal(0))
            assert total == rows[name][1].spent.usd
            assert sum(part.tokens or 0 for part in parts) == rows[name][1].spent.tokens
        store.close()

    def test_an_archived_budget_is_gone(self, make_store: Callable[..., Store]) -> None:
        """Its limits, its reservations and what runs have spent of it, live and after a rebuild; another
        budget keeps its own. Nothing can be appended to it."""
        store = make_store("archived-budget")
        for name in NAMES:
            for event in (
                b.BudgetSet(Amounts(5)),
                b.BudgetReserved("1", "r", "ask#1", 1, Amounts(2)),
                b.BudgetSettled("1", Amounts(1)),
                b.BudgetReserved("2", "r", "ask#2", 1, Amounts(2)),
            ):
                decision = Decision(b.KIND, [new_event(event, 1)])
                store.command(b.stream_of(name), lambda _, decision=decision: decision)  # type: ignore[misc]
        gone, stays = NAMES
        assert store.archive([[archived(store, b.stream_of(gone))]], 2) == [b.stream_of(gone)]
        for _ in "12":
            assert (store.budget(gone), [row.name for row in store.budgets()]) == (None, [stays])
            assert store.budgets_holding("r") == [stays]
            assert [(one.budget, one.spent.usd) for one in store.run_spending("r")] == [(stays, Decimal(1))]
            assert list(store.verify()) == []
            store.rebuild()
        with pytest.raises(RunArchived):
            store.command(
                b.stream_of(gone), lambda _: Decision(b.KIND, [new_event(b.BudgetSet(Amounts(9)), 3)])
            )
        assert store.budget(gone) is None
        store.close()

    def test_a_budget_that_nothing_was_written_to_is_none(self, make_store: Callable[..., Store]) -> None:
        """No row, no reservation, nothing spent."""
        store = make_store("no-budget")
        assert (store.budget("team"), store.budgets()) == (None, [])
        assert (store.budgets_holding("r"), store.run_spending("r")) == ([], [])
        store.close()
