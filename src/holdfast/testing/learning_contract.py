"""The promises of a store about outcomes. A part of `StoreContract`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.kernel import events as e
from holdfast.store import oracle_learning
from holdfast.store.port import Decision, Store, new_event
from holdfast.testing.histories import archived, own

_numbers = count()
FAMILIES = ("router", "skills")
KINDS = ("draft", "review")
NAMES = ("small", "large", "löß 1")
RUNS = ("r", "s", "t")


def _reported() -> st.SearchStrategy[e.Event]:
    return st.builds(
        e.OutcomeReported,
        st.just("outcome#1"),
        st.just(1),
        st.sampled_from(FAMILIES),
        st.sampled_from(KINDS),
        st.lists(st.sampled_from(NAMES), max_size=3).map(tuple),
        st.booleans(),
        st.none() | st.decimals(0, 90, places=9),
        st.sampled_from(["", "", "ValueError"]),
    )


def _events() -> st.SearchStrategy[tuple[str, int, e.Event]]:
    """(run, time, event), times not in order: two processes have two clocks."""
    forked = st.just(e.RunForked("other", "end", 1))
    return st.tuples(
        st.sampled_from(RUNS), st.integers(1, 5), st.one_of(_reported(), _reported(), _reported(), forked)
    )


def _append(store: Store, run: str, event: e.Event, at: int) -> None:
    store.command(run, lambda _: Decision("run", [new_event(event, at)]))


class LearningContract:
    """Every store lists and sums outcomes as a plain fold over the log does."""

    @settings(
        max_examples=25,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(st.lists(_events(), max_size=14), st.integers(0, 4), st.sampled_from(RUNS))
    def test_outcomes_are_those_of_the_fold(
        self,
        make_store: Callable[..., Store],
        events: list[tuple[str, int, e.Event]],
        limit: int,
        gone: str,
    ) -> None:
        """The last ones and the sums, live, after a run was deleted and restored, after one was archived, and
        each time after a rebuild."""
        store = make_store(f"learning-{next(_numbers)}")
        there = list(dict.fromkeys(run for run, _, _ in events))
        for run in there:
            own(store, run)
        for run, at, event in events:
            _append(store, run, event, at)
        self._compare(store, there, limit)
        if gone in there:
            assert store.delete({gone: None}, "op", 9)
            self._compare(store, [run for run in there if run != gone], limit)
            assert store.restore([gone], "op", 9)
            self._compare(store, there, limit)
            assert store.archive([[archived(store, gone)]], at=9) == [gone]
            self._compare(store, [run for run in there if run != gone], limit)
        store.close()

    def _compare(self, store: Store, runs: list[str], limit: int) -> None:
        streams = [store.load(run) for run in runs]
        for _ in "12":
            for family in FAMILIES:
                for kind in (*KINDS, None):
                    sums = oracle_learning.outcome_sums(streams, family, kind)
                    assert store.outcome_sums(family, kind) == sums
                for kind, name in ((kind, name) for kind in KINDS for name in NAMES):
                    right = oracle_learning.outcomes(streams, family, kind, name, limit)
                    assert store.outcomes(family, kind, name, limit) == right
            assert list(store.verify()) == []
            store.rebuild()
