"""The part of the store contract that is about companions, and about streams of other kinds than runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import pytest

from holdfast.errors import OwnershipLost, StoreCorrupt, StoreError
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.store.port import (
    NO_EVENTS,
    Append,
    Companion,
    Decide,
    Decision,
    Fate,
    NewEvent,
    Recorded,
    Source,
    Store,
    new_event,
)
from holdfast.testing.histories import (
    CODE,
    archived,
    in_threads,
    output_append,
    own,
    perform,
    start_append,
    step_append,
    together,
    whole_feed,
)

BUDGET = "@budget/team"


class CompanionContract:
    """The promises of every store for the companions of an owner's append."""

    @pytest.mark.parametrize("make", [step_append, start_append])
    def test_a_companion_is_committed_with_its_append(
        self, store: Store, make: Callable[..., Append]
    ) -> None:
        """Both are in the log after the acknowledgement; the append knows the version of its own stream."""
        own(store, "r")
        first, second = (make("r", key) for key in ("a#1", "b#1"))
        for append in (first, second):
            append.also = [Companion(Source(BUDGET), _counted)]
            store.append(append)
        store.append(make("r", "c#1"))
        assert (first.version, second.version) == (3, 4)
        assert _counts(store) == [0, 1]
        assert [row.key for row in store.steps("r")] == ["a#1", "b#1", "c#1"]
        assert list(store.verify()) == []

    def test_an_append_that_begins_a_stream_has_companions(self, store: Store) -> None:
        """A run and what is recorded of its creation elsewhere are one commit."""
        created = [new_event(e.RunCreated(CODE, "d"), 1), new_event(e.RunClaimed("me", 1), 1)]
        also = [Companion(Source(BUDGET), _counted), Companion(Source("@task/1"), _counted_in("task"))]
        store.append(Append("r", 1, created, begins="run", also=also))
        store.append(step_append("r", "a#1"))
        assert (_counts(store), _counts(store, "@task/1"), len(store.load("r"))) == ([0], [0], 3)
        with pytest.raises(OwnershipLost):
            store.append(Append("r", 1, created, begins="run", also=also))
        assert (_counts(store), list(store.verify())) == ([0], [])

    def test_a_companion_sees_what_its_source_asks_for(self, store: Store) -> None:
        """The events after a version, of the types that are named, as they are inside the transaction."""
        own(store, "r")
        for type in ("Spent", "Noted", "Spent"):
            _write(store, BUDGET, type)
        seen: list[tuple[int, ...]] = []

        def look(recorded: Sequence[Recorded]) -> Decision:
            seen.append(tuple(one.version for one in recorded))
            return NO_EVENTS

        sources = [
            Source(BUDGET),
            Source(BUDGET, 1),
            Source(BUDGET, 0, ["Spent"]),
            Source(BUDGET, 9),
            Source("@x"),
        ]
        append = step_append("r", "a#1")
        append.also = [Companion(source, look) for source in sources]
        store.append(append)
        assert seen == [(1, 2, 3), (2, 3), (1, 3), (), ()]
        assert [entry.stream for entry in whole_feed(store)].count("@x") == 0

    def test_companions_of_one_append_see_each_other(self, store: Store) -> None:
        """On the same stream each sees the events of those before it, also if the stream is new."""
        own(store, "r")
        append = step_append("r", "a#1")
        append.also = [Companion(Source(BUDGET), _counted)] * 3
        store.append(append)
        assert _counts(store) == [0, 1, 2]
        assert list(store.verify()) == []

    def test_companions_of_one_batch_see_each_other(self, store: Store) -> None:
        """Appends that share a commit: every companion sees the events of the appends before it, and commands
        and owners' appends on the same stream keep their order."""
        own(store, "shared")
        batch = []
        for run in ("r", "s", "t"):
            own(store, run)
            store.append(step_append(run, "a#1"))
            for n in range(3):
                batch.append(step_append(run, f"b#{n}"))
                batch[-1].also = [
                    Companion(Source(BUDGET), _counted),
                    Companion(Source("shared"), _counted_in("run")),
                ]
            batch.append(output_append("shared", run))
        together(store, *batch)
        assert [append.error for append in batch] == [None] * 12
        assert _counts(store) == list(range(9))
        order = [one.event.text for one in store.load("shared", after=2, output=True)]  # type: ignore[attr-defined]
        assert order == ["2", "3", "4", "r", "6", "7", "8", "s", "10", "11", "12", "t"]
        assert list(store.verify()) == []

    def test_companions_of_many_threads_never_see_the_same(self, store: Store) -> None:
        """Eight owners and commands on one stream at once: each decides on what is there at that moment."""

        def work(run: str) -> None:
            own(store, run)
            for n in range(10):
                append = step_append(run, f"a#{n}")
                append.also = [Companion(Source(BUDGET), _counted)]
                store.append(append)
                store.command(BUDGET, _counted)

        in_threads(*[lambda n=n: work(f"r{n}") for n in range(8)])
        assert _counts(store) == list(range(160))
        assert list(store.verify()) == []

    @pytest.mark.parametrize("make", [step_append, start_append, output_append])
    def test_a_stale_owner_is_refused_with_its_companions(
        self, store: Store, make: Callable[..., Append]
    ) -> None:
        """Neither the append nor a companion is written; no companion is asked; others of the batch are."""
        for run in ("r", "s"):
            own(store, run)
            store.append(step_append(run, "a#1"))
        perform(store, "r", c.ClaimRun("r", "you", force=True))
        stale, good = make("r", "b#1"), make("s", "b#1")
        stale.also = [Companion(Source(BUDGET), _raising(AssertionError("asked")))]
        good.also = [Companion(Source(BUDGET), _counted)]
        together(store, stale, good)
        assert (type(stale.error), good.error) == (OwnershipLost, None)
        assert (_counts(store), len(store.load("r", output=True))) == ([0], 4)
        assert list(store.verify()) == []

    def test_an_append_that_is_sealed_empty_still_carries_its_companions(self, store: Store) -> None:
        """They are committed without it if the epoch is the owner's, and refused if it is stale."""
        own(store, "r")

        def drop(append: Append) -> None:
            append.events = ()

        kept, stale = step_append("r", "a#1"), step_append("r", "a#1", epoch=7)
        for append in (kept, stale):
            append.seal = drop
            append.also = [Companion(Source(BUDGET), _counted)]
        store.append(kept)
        with pytest.raises(OwnershipLost):
            store.append(stale)
        assert (_counts(store), len(store.load("r"))) == ([0], 2)

    def test_seal_can_add_a_companion(self, store: Store) -> None:
        """The companions that seal leaves in `also` are committed."""
        own(store, "r")

        def add(append: Append) -> None:
            append.also = [*append.also, Companion(Source(BUDGET), _counted)]

        append = step_append("r", "a#1")
        append.seal = add
        store.append(append)
        assert _counts(store) == [0]

    def test_a_companion_that_raises_fails_its_append(self, store: Store) -> None:
        """Nothing of the append or of its other companions is written, new streams and blobs included; the
        error names the companion's stream; what follows in the same execution fails for the same reason; the
        others of the batch are not touched."""
        for run in ("r", "s"):
            own(store, run)
            store.append(step_append(run, "a#1"))
        _write(store, BUDGET, "Spent")
        before = whole_feed(store)
        fate, data = Fate(), b"large"
        hash = hashlib.sha256(data).hexdigest()
        lost = Append(
            "r", 1, [new_event(e.StepRan("b#1", "b", 1, blob=hash), 2)], blobs=[(hash, data)], fate=fate
        )
        raising = _raising(LookupError("no such task"))
        lost.also = [
            Companion(Source("@new"), _counted),
            Companion(Source(BUDGET), _counted),
            Companion(Source("@task/1"), raising),
        ]
        with pytest.raises(StoreError, match=r"@task/1.*no such task") as caught:
            store.append(lost)
        assert isinstance(caught.value.__cause__, LookupError)
        follows = step_append("r", "c#1")
        follows.fate = fate
        with pytest.raises(StoreError, match="@task/1"):
            store.append(follows)
        assert whole_feed(store) == before
        with pytest.raises(StoreCorrupt):
            store.blob(hash)
        bad, good = step_append("r", "d#1"), step_append("s", "b#1")
        bad.also = [Companion(Source("@task/1"), raising)]
        good.also = [Companion(Source(BUDGET), _counted)]
        after = output_append("r", "x")
        together(store, bad, good, after)
        assert [type(one.error) for one in (bad, good, after)] == [StoreError, type(None), type(None)]
        assert (_counts(store), len(store.load("r", output=True))) == ([1], 4)
        assert list(store.verify()) == []

    def test_a_companion_on_the_owners_own_stream_is_an_error(self, store: Store) -> None:
        """The owner would not know of the events that it adds."""
        own(store, "r")
        append = step_append("r", "a#1")
        append.also = [Companion(Source("r"), _counted)]
        with pytest.raises(StoreError, match="own stream"):
            store.append(append)
        assert len(store.load("r")) == 2

    def test_a_companion_on_an_archived_stream_is_skipped(self, store: Store) -> None:
        """The append and the other companions are committed; its decision is not asked for."""
        own(store, "r")
        _write(store, BUDGET, "Spent")
        assert store.archive([[archived(store, BUDGET)]], at=9) == [BUDGET]
        append = step_append("r", "a#1")
        append.also = [
            Companion(Source(BUDGET), _raising(AssertionError("asked"))),
            Companion(Source("@task/1"), _counted_in("task")),
        ]
        store.append(append)
        assert (append.version, store.load(BUDGET), _counts(store, "@task/1")) == (3, [], [0])
        assert list(store.verify()) == []

    def test_a_companion_can_write_large_values_and_raise_a_fence(self, store: Store) -> None:
        """A companion's decision is written as a foreign command's is."""
        for run in ("r", "s"):
            own(store, run)
            store.append(step_append(run, "a#1"))
        data = b"large"
        hash = hashlib.sha256(data).hexdigest()
        claimed = [new_event(e.RunClaimed("you", 2), 3), NewEvent("Noted", 3, f'{{"blob": "{hash}"}}')]
        append = step_append("r", "b#1")
        append.also = [Companion(Source("s"), lambda _: Decision("run", claimed, 2, [(hash, data)]))]
        store.append(append)
        with pytest.raises(OwnershipLost):
            store.append(step_append("s", "b#1"))
        store.append(step_append("s", "b#1", epoch=2))
        assert (store.blob(hash), list(store.verify())) == (data, [])

    # Streams of other kinds

    @pytest.mark.parametrize(
        ("stream", "kind"), [("@task/0b7e", "task"), ("@budget/team a", "budget"), ("@links", "links")]
    )
    def test_streams_of_other_kinds_are_kept_and_fed(self, store: Store, stream: str, kind: str) -> None:
        """They are no runs, begin with the kind of their first decision, verify, and are rebuilt."""
        for n in range(3):
            assert store.command(stream, lambda _: Decision(kind, [NewEvent("Noted", 5, "{}")])) == n + 1
        assert store.load(stream) == [Recorded(e.Unknown("Noted", "{}"), n, 5) for n in (1, 2, 3)]
        created = [one.event for one in store.load("@store") if isinstance(one.event, e.StreamCreated)]
        assert created == [e.StreamCreated(stream, kind)]
        assert (store.runs(), store.run_ids("", 9), store.operations()) == ([], [], [])
        fed = [entry.stream for entry in whole_feed(store) if entry.type == "Noted"]
        assert fed == [stream] * 3
        store.rebuild()
        assert list(store.verify()) == []


def _counted_in(kind: str) -> Decide:
    """Record how many events there are."""

    def decide(recorded: Sequence[Recorded]) -> Decision:
        counted = e.OutputCaptured("a#1", 1, "stdout", str(len(recorded)))
        return Decision(kind, [new_event(counted, 7)])

    return decide


_counted = _counted_in("budget")


def _counts(store: Store, stream: str = BUDGET) -> list[int]:
    recorded = store.load(stream, output=True)
    return [int(one.event.text) for one in recorded if isinstance(one.event, e.OutputCaptured)]


def _raising(error: Exception) -> Decide:
    def decide(_: Sequence[Recorded]) -> Decision:
        raise error

    return decide


def _write(store: Store, stream: str, type: str) -> None:
    store.command(stream, lambda _: Decision("budget", [NewEvent(type, 1, "{}")]))
