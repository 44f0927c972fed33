"""The promises of a store about memories. A part of `StoreContract`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.kernel import memory as m
from holdfast.kernel.author import Author
from holdfast.kernel.events import Event
from holdfast.store import oracle_memory
from holdfast.store.port import Decision, MemoryFilter, Store, new_event

_numbers = count()
IDS = ("aa", "ab", "b", "c", "ca")


def _events() -> st.SearchStrategy[Event]:
    ids = st.sampled_from(IDS)
    author = st.builds(Author, st.sampled_from(["ann", "bob"]), run=st.sampled_from(["", "r", "s"]))
    remembered = st.builds(
        m.Remembered,
        ids,
        st.sampled_from(["fact", "decision"]),
        st.text(max_size=5),
        st.sampled_from(["project", "task:t"]),
        st.text(max_size=3),
        st.lists(st.text(max_size=3), max_size=2).map(tuple),
        st.sampled_from(["", "", *IDS]),
        author,
    )
    withdrawn = st.builds(m.MemoryWithdrawn, ids, st.text(max_size=3), st.sampled_from(["", "op"]))
    return st.one_of(remembered, remembered, withdrawn, st.builds(m.MemoryRestored, ids, st.just("op")))


def _sound(events: Sequence[Event]) -> list[Event]:
    """The events without references to what was not there before: the kernel decides none of these."""
    known: set[str] = set()
    sound: list[Event] = []
    for event in events:
        if isinstance(event, m.Remembered):
            if event.supersedes not in known:
                event = msgspec.structs.replace(event, supersedes="")
            known.add(event.id)
        sound.append(event)
    return sound


class MemoryContract:
    """Every store lists memories as the kernel folds them."""

    @settings(
        max_examples=25,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(st.lists(_events(), max_size=12), st.integers(0, 12), st.sampled_from([None, 1, 3]))
    def test_memories_are_those_of_the_fold(
        self, make_store: Callable[..., Store], events: list[Event], before: int, limit: int | None
    ) -> None:
        """Every filter lists what the fold lists, live and after a rebuild, and the store verifies."""
        store = make_store(f"memory-{next(_numbers)}")
        news = [new_event(event, at) for at, event in enumerate(_sound(events), 1)]
        if news:
            store.command(m.STREAM, lambda _: Decision(m.KIND, news))
        for _ in "12":
            for which in (
                MemoryFilter(),
                MemoryFilter(every=True),
                MemoryFilter(prefix="a", every=True),
                MemoryFilter(run="r", kind="fact", every=True),
                MemoryFilter(scope="task:t"),
            ):
                right = oracle_memory.memories(store.load(m.STREAM), which, before, limit)
                assert store.memories(which, before=before, limit=limit) == right
            assert list(store.verify()) == []
            store.rebuild()
        store.close()
