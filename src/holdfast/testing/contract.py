"""The contract of the store port: every promise of `holdfast.store.port` as one test.

A backend joins by saying how it is opened and how its data can be damaged behind its back:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def make_store(self, tmp_path):
            return lambda name="one": MyStore(tmp_path / name)

        def tamper(self, store, what):
            ...
"""

from __future__ import annotations

import hashlib
import queue
import threading
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial

import msgspec
import pytest

from holdfast.errors import (
    OwnershipLost,
    Resync,
    RunArchived,
    RunDeleted,
    StoreClosed,
    StoreCorrupt,
    StoreError,
)
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.measures import Measured
from holdfast.kernel.operation import stream_of
from holdfast.store.port import (
    NO_EVENTS,
    STORE_STREAM,
    Append,
    Companion,
    Decide,
    Decision,
    Deleted,
    Fate,
    NewEvent,
    OperationRow,
    PendingDeletion,
    Recorded,
    Source,
    Store,
    new_event,
)
from holdfast.testing.budget_contract import BudgetContract
from holdfast.testing.companion_contract import CompanionContract
from holdfast.testing.folded_contract import FoldedContract
from holdfast.testing.histories import (
    CODE,
    EVERYTHING,
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
from holdfast.testing.learning_contract import LearningContract
from holdfast.testing.memory_contract import MemoryContract
from holdfast.testing.reader_contract import ReadingContract


class StoreContract(
    BudgetContract, CompanionContract, FoldedContract, LearningContract, MemoryContract, ReadingContract
):
    """The promises of every store. See the module's docstring for how a backend joins."""

    # Appending

    def test_versions_count_up_without_gaps_and_the_acknowledgement_says_the_last(self, store: Store) -> None:
        """Versions are 1, 2, 3, ...; an acknowledged append knows the version of its last event."""
        own(store, "r")
        appends = [step_append("r", "a#1"), start_append("r", "b#1"), output_append("r", "x")]
        for append in appends:
            store.append(append)
        assert [append.version for append in appends] == [3, 4, 5]
        assert [entry.version for entry in store.entries("r")] == [1, 2, 3, 4, 5]
        assert [entry.type for entry in store.entries("r", after=2)] == [
            "StepRan", "StepStarted", "OutputCaptured",
        ]  # fmt: skip

    def test_every_event_is_chained_to_the_one_before(self, store: Store) -> None:
        """The hash of an event covers the one before it, the stream, and all that the log says of it."""
        own(store, "r")
        store.append(step_append("r", "a#1"))
        previous = b"\0" * 32
        for entry in store.entries("r"):
            head = f"r\0{entry.version}\0{entry.type}\0{entry.at}\0{entry.payload}"
            previous = hashlib.sha256(previous + head.encode()).digest()
            assert entry.hash == previous

    def test_an_owner_is_fenced_off_by_a_later_claim(self, store: Store) -> None:
        """After a claim with a higher epoch the old owner's append is refused, on the hot path too,
        and changes nothing; the new owner's is accepted."""
        own(store, "r")
        store.append(step_append("r", "a#1"))
        perform(store, "r", c.ClaimRun("r", "you", force=True))
        for stale in (step_append("r", "b#1"), start_append("r", "b#1"), output_append("r", "x")):
            with pytest.raises(OwnershipLost):
                store.append(stale)
        store.append(step_append("r", "b#1", epoch=2))
        assert [row.key for row in store.steps("r")] == ["a#1", "b#1"]
        row = store.run("r")
        assert row is not None
        assert (row.version, row.epoch, row.owner) == (5, 2, "you")

    def test_nobody_owns_a_stream_that_is_not_there(self, store: Store) -> None:
        """An owner's append never creates a stream."""
        with pytest.raises(OwnershipLost):
            store.append(step_append("r", "a#1", epoch=0))
        assert whole_feed(store) == []

    @pytest.mark.parametrize("make", [step_append, start_append, output_append])
    def test_a_refused_append_does_not_touch_the_others_of_its_batch(
        self, store: Store, make: Callable[..., Append]
    ) -> None:
        """In a batch of a stale owner and good ones, only the stale one is refused."""
        for run in ("r", "s", "t"):
            own(store, run)
            store.append(step_append(run, "a#1"))
        perform(store, "s", c.ClaimRun("s", "you", force=True))
        batch = [make("r", "b#1"), make("s", "b#1"), step_append("t", "b#1"), output_append("r", "after")]
        together(store, *batch)
        assert [type(append.error) for append in batch] == [type(None), OwnershipLost, type(None), type(None)]
        assert [len(store.load(run, output=True)) for run in ("r", "s", "t")] == [5, 4, 4]
        assert list(store.verify()) == []

    def test_a_batch_keeps_the_order_of_each_stream(self, store: Store) -> None:
        """Hot appends, plain ones and empty ones of the same streams, in one batch, land in order."""
        batch = []
        for run in ("r", "s"):
            own(store, run)
            batch += [step_append(run, "a#1"), output_append(run, "x"), start_append(run, "b#1")]
            batch += [step_append(run, "c#1"), Append(run, 1, ()), output_append(run, "y")]
            batch += [output_append(run, "z", epoch=9)]
        together(store, *batch)
        assert [append.version for append in batch if append.events] == [3, 4, 5, 6, 7, 0] * 2
        for run in ("r", "s"):
            assert [one.event.key for one in store.load(run, after=2, output=True)] == [  # type: ignore[attr-defined]
                "a#1", "a#1", "b#1", "c#1", "a#1",
            ]  # fmt: skip
        assert list(store.verify()) == []

    def test_an_append_that_is_sealed_empty_is_acknowledged_and_writes_nothing(self, store: Store) -> None:
        """The events that seal leaves are written; if it leaves none, nothing is refused."""
        own(store, "r")

        def drop(append: Append) -> None:
            append.events = ()

        appends = [step_append("r", "a#1"), output_append("r", "x"), output_append("r", "x", epoch=7)]
        for append in appends:
            append.seal = drop
        store.append(appends[0])
        together(store, *appends[1:])
        assert [append.error for append in appends] == [None, None, None]
        assert len(store.load("r", output=True)) == 2

    def test_seals_run_in_the_order_of_the_log(self, store: Store) -> None:
        """The append that is sealed first is first in the log: what a seal adds may rely on that."""
        own(store, "r")
        order: list[Append] = []

        def work() -> None:
            for n in range(20):
                append = output_append("r", str(n))
                append.seal = order.append
                store.append(append)

        in_threads(*[work] * 4)
        assert [append.version for append in order] == list(range(3, 83))

    @pytest.mark.parametrize(
        "event", [e.OutputCaptured("a#1", 1, "stdout", ""), e.RunNeedsAttention("x", "y")]
    )
    def test_many_events_in_one_append(self, store: Store, event: e.Event) -> None:
        """The size of an append has no limit but memory: ten thousand events are one commit."""
        own(store, "r")
        store.append(Append("r", 1, [new_event(event, 1)] * 10_000))
        assert len(store.load("r", output=True)) == 10_002

    # Foreign commands

    def test_a_command_decides_on_what_is_there_at_that_moment(self, store: Store) -> None:
        """Eight threads that each append how many events they saw never see the same number."""

        def count(recorded: Sequence[Recorded]) -> Decision:
            return Decision("run", [new_event(e.OutputCaptured("a#1", 1, "stdout", str(len(recorded))), 1)])

        own(store, "r")
        in_threads(*[lambda: [store.command("r", count) for _ in range(10)]] * 8)
        texts = [one.event.text for one in store.load("r", after=2, output=True)]  # type: ignore[attr-defined]
        assert texts == [str(n) for n in range(2, 82)]

    def test_a_command_sees_events_after_the_version_it_names(self, store: Store) -> None:
        """`after` spares the caller what it has already folded."""
        own(store, "r")
        seen: list[int] = []

        def look(recorded: Sequence[Recorded]) -> Decision:
            seen.extend(one.version for one in recorded)
            return NO_EVENTS

        assert (store.command("r", look, after=1), seen) == (2, [2])

    def test_what_decide_raises_is_raised_and_changes_nothing(self, store: Store) -> None:
        """The error reaches the caller as it is; the stream stays, or stays absent."""
        own(store, "r")
        before = whole_feed(store)

        def no(_: Sequence[Recorded]) -> Decision:
            raise LookupError("no")

        for run in ("r", "new"):
            with pytest.raises(LookupError, match="no"):
                store.command(run, no)
        assert (whole_feed(store), store.run("new")) == (before, None)
        store.append(step_append("r", "a#1"))

    @pytest.mark.parametrize("through", ["command", "command_all", "companion"])
    def test_a_decision_that_calls_the_store_is_refused(self, store: Store, through: str) -> None:
        """It would read another snapshot, or deadlock. Nothing is written, and the store keeps working."""
        own(store, "r")
        own(store, "s")
        before = whole_feed(store)
        uses: list[Callable[[], object]] = [
            lambda: store.load("r"),
            lambda: list(store.history("r")),
            lambda: list(store.entries("r")),
            lambda: store.run("r"),
            store.runs,
            store.feed,
            store.tail,
            store.pulse,
            store.statistics,
            store.sweep,
            store.rebuild,
            lambda: list(store.verify()),
            lambda: store.archived("r"),
            lambda: store.deleted("r"),
            store.deletions,
            lambda: store.numbered(1),
            lambda: store.delete({"r": None}, "op", 3),
            lambda: store.restore(["r"], "op", 3),
            lambda: store.purge(["r"], 3),
            lambda: store.append(step_append("r", "a#1")),
            lambda: store.append_soon(step_append("r", "a#1"), lambda _: None),
            lambda: store.command("s", lambda _: NO_EVENTS),
            lambda: store.command_all([Source("s")], lambda _: [NO_EVENTS]),
        ]
        for use in uses:

            def decide(_: Sequence[Recorded], use: Callable[[], object] = use) -> Decision:
                use()
                return Decision("run", [new_event(e.SignalReceived("x"), 3)])

            with pytest.raises(StoreError, match="a decision called the store"):
                if through == "command":
                    store.command("r", decide)
                elif through == "command_all":
                    store.command_all([Source("r")], partial(_decide_one, decide))
                else:
                    store.append(_with_companion(step_append("s", "a#1"), decide))
        assert whole_feed(store) == before
        store.append(step_append("r", "a#1"))

    def test_other_threads_read_while_one_decides(self, store: Store) -> None:
        """Only a call by the decision itself is refused."""
        own(store, "r")
        found: list[list[Recorded]] = []
        reader = threading.Thread(target=lambda: found.append(store.load("r")), daemon=True)

        def decide(_: Sequence[Recorded]) -> Decision:
            reader.start()
            reader.join(0.5)  # a store with one lock lets it in when this has ended
            return NO_EVENTS

        store.command("r", decide)
        reader.join(30)
        assert found == [store.load("r")]

    def test_a_decision_runs_once(self, store: Store) -> None:
        """Also if other submissions of its batch are refused."""
        for run in ("r", "s", "t"):
            own(store, run)
            store.append(step_append(run, "a#1"))
        perform(store, "s", c.ClaimRun("s", "you", force=True))
        asked: list[str] = []

        def ask(name: str) -> Callable[[Sequence[Recorded]], Decision]:
            def decide(_: Sequence[Recorded]) -> Decision:
                asked.append(name)
                return Decision("budget", [NewEvent("Noted", 1, "{}")])

            return decide

        batch = [
            step_append("r", "b#1"),
            _with_companion(step_append("s", "b#1"), ask("stale")),
            _with_companion(step_append("r", "c#1"), ask("good")),
            start_append("s", "c#1"),
            _with_companion(start_append("t", "b#1"), ask("other")),
        ]
        together(store, *batch)
        assert asked == ["good", "other"]
        assert store.command("@budget", ask("command")) == 3
        assert asked == ["good", "other", "command"]

    def test_after_a_loss_nothing_of_the_same_fate_is_written(self, store: Store) -> None:
        own(store, "r")
        fate, asked = Fate(), []

        def no(_: Sequence[Recorded]) -> Decision:
            raise LookupError("no")

        def yes(_: Sequence[Recorded]) -> Decision:
            asked.append("yes")
            return Decision("run", [new_event(e.StepStarted("a#1", "a"), 1)])

        with pytest.raises(LookupError):
            store.command("r", no, fate=fate)
        with pytest.raises(LookupError):
            store.command("r", yes, fate=fate)
        with pytest.raises(LookupError):
            append = step_append("r", "a#1")
            append.fate = fate
            store.append(append)
        assert not asked and store.load("r")[-1].version == 2
        store.command("r", yes, fate=Fate())
        assert store.load("r")[-1].version == 3

    def test_a_command_without_events_writes_nothing(self, store: Store) -> None:
        """No events: no stream, no epoch, no blob; the version is the one that was there."""
        nothing = Decision("run", (), 5, [("hash", b"data")])
        assert store.command("new", lambda _: nothing) == 0
        own(store, "r")
        assert store.command("r", lambda _: nothing) == 2
        store.append(step_append("r", "a#1"))
        with pytest.raises(StoreCorrupt):
            store.blob("hash")
        assert [entry.stream for entry in whole_feed(store)].count("new") == 0

    def test_streams_that_are_not_runs_have_no_row(self, store: Store) -> None:
        """A stream of another kind is kept and fed, and is no run to anybody."""
        store.command("memo", lambda _: Decision("memory", [NewEvent("Noted", 1, "{}")]))
        assert (store.run("memo"), store.runs(), store.run_ids("", 9)) == (None, [], [])
        assert store.load("memo") == [Recorded(e.Unknown("Noted", "{}"), 1, 1)]
        assert list(store.verify()) == []

    # Several streams at once

    def test_a_command_over_several_streams_writes_all_or_nothing(self, store: Store) -> None:
        """Each stream gets what is decided for it, on what all of them have; an error writes nothing."""
        own(store, "r")
        noted = Decision("memory", [NewEvent("Noted", 5, "{}")])
        seen: list[list[int]] = []

        def both(recorded: Sequence[Sequence[Recorded]]) -> Sequence[Decision]:
            seen.append([len(one) for one in recorded])
            return Decision("run", [new_event(e.OutputCaptured("a#1", 1, "stdout", ""), 5)]), noted

        assert store.command_all([Source("r", 1), Source("memo")], both) == [3, 1]
        assert store.command_all([Source("r"), Source("memo", types=["Other"])], both) == [4, 2]
        assert seen == [[1, 0], [3, 0]]
        before = whole_feed(store)

        def no(_: Sequence[Sequence[Recorded]]) -> Sequence[Decision]:
            raise LookupError("no")

        with pytest.raises(LookupError):
            store.command_all([Source("r"), Source("new")], no)
        assert store.command_all([Source("r"), Source("new")], lambda _: [NO_EVENTS, NO_EVENTS]) == [4, 0]
        assert (whole_feed(store), list(store.verify())) == (before, [])

    def test_two_new_streams_begin_in_one_command(self, store: Store) -> None:
        """Each with its record in the store's own stream, in the order of the command."""
        create = [new_event(e.RunCreated(CODE, "d"), 1)]
        both = [Decision("run", create), Decision("run", create)]
        versions = store.command_all([Source("r"), Source("s")], lambda _: both)
        assert (versions, [row.id for row in store.runs()]) == ([1, 1], ["s", "r"])
        own(store, "t")
        assert [row.id for row in store.runs()] == ["t", "s", "r"]
        assert list(store.verify()) == []

    # Operations

    def test_operations_are_listed_newest_first_and_found(self, store: Store) -> None:
        """By the beginning of their id, by run, by person; rebuilt as they were."""
        for n, (name, run, by) in enumerate((("aa1", "r", "ann"), ("ab2", "s", "bob"), ("ab3", "r", "bob"))):
            begun = new_event(e.OperationBegun("rewind", run, by, "a#1"), 10 + n)
            decided = Decision("operation", [begun])
            store.command(stream_of(name), partial(_as_decided, decided))
        done = [new_event(e.StateApplied(0, 2), 20), new_event(e.OperationDone(), 20)]
        store.command(stream_of("ab3"), lambda _: Decision("operation", done))
        rows = store.operations()
        assert [row.id for row in rows] == ["ab3", "ab2", "aa1"]
        assert rows[0] == OperationRow("ab3", "rewind", "r", "bob", "a#1", "", 0, 2, "done", 12)
        assert rows[2] == OperationRow("aa1", "rewind", "r", "ann", "a#1", "", -1, -1, "begun", 10)
        assert store.operations(prefix="ab", run="r") == store.operations(by="bob", limit=1) == rows[:1]
        assert store.operations(prefix="%") == store.operations(run="x") == []
        assert (store.runs(), store.run_ids("", 9)) == ([], [])
        store.rebuild()
        assert (store.operations(), list(store.verify())) == (rows, [])

    def test_an_operation_of_a_kind_from_a_newer_version_is_read_and_listed(self, store: Store) -> None:
        """Its stream loads, the log verifies, and the row has its kind, also when it is rebuilt."""
        own(store, "r")
        begun = NewEvent("OperationBegun", 10, '{"kind":"reassign","run":"r","to":"ann"}')
        store.command(stream_of("aa1"), lambda _: Decision("operation", [begun]))
        rows = [OperationRow("aa1", "reassign", "r", "", "ann", "", -1, -1, "begun", 10)]
        assert (store.operations(), store.operations(run="r")) == (rows, rows)
        assert store.load(stream_of("aa1")) == [Recorded(e.OperationBegun("reassign", "r", to="ann"), 1, 10)]
        store.rebuild()
        assert (store.operations(), list(store.verify())) == (rows, [])

    # Families

    def test_a_child_counts_while_a_step_of_its_parents_live_generation_is_it(self, store: Store) -> None:
        """One of a generation that was left cannot continue, and neither can its own children, until that
        generation is restored; nor one whose parent is not there."""
        own(store, "r")
        perform(store, "r", c.RunStep(e.StepRan("a#1", "a", 1)))
        perform(store, "r", c.StartStep("kid#1", "kid", kind="child", child="k"))
        for run, parent in (("k", "r"), ("l", "k"), ("m", "gone")):
            perform(store, run, c.CreateRun(run, CODE, "d", parent=parent), c.ClaimRun(run, "me"))
        perform(store, "k", c.StartStep("kid#1", "kid", kind="child", child="l"))
        perform(store, "l", c.Record(e.SleepStarted("sleep#1", 1, 50)))
        perform(store, "m", c.Record(e.SleepStarted("sleep#1", 1, 40)))
        for run in ("r", "k", "l", "m"):
            perform(store, run, c.ReleaseRun(run, "me"))
        everyone = ("m", "l", "k", "r", "x")
        counts = [("r", ""), ("k", "r"), ("l", "k")], 50, ["m"]
        assert (store.ready_runs(60), store.next_due(9), store.strays(everyone)) == counts
        perform(store, "r", c.RewindRun("r", "a#1"))
        assert (store.ready_runs(60), store.next_due(9)) == ([], 0)
        assert store.strays(everyone) == ["k", "l", "m"]
        perform(store, "r", c.RestoreGeneration("r", 0, 1))
        assert (store.ready_runs(60), store.next_due(9), store.strays(everyone)) == counts
        assert [row.id for row in store.runs(parent="r")] == ["k"]

    # Archiving

    def test_an_archived_stream_leaves_its_record_and_nothing_else(self, store: Store) -> None:
        """Its events, rows and blobs are gone; the log verifies, also rebuilt; its name is not used again."""
        data = b"large"
        for run in ("r", "s"):
            own(store, run)
            hash = hashlib.sha256(data + run.encode()).hexdigest()
            ran = e.StepRan("a#1", "a", 1, blob=hash)
            store.append(Append(run, 1, [new_event(ran, 2)], blobs=[(hash, data + run.encode())]))
            perform(store, run, c.CompleteRun())
        record = archived(store, "s")
        stale = msgspec.structs.replace(archived(store, "r"), version=3)
        assert store.archive([[stale], [record], [e.StreamArchived("x", 1, "00")]], at=9) == ["s"]
        assert store.sweep() == 1
        assert (store.run("s"), store.load("s"), store.steps("s"), store.run_ids("", 9)) == (
            None,
            [],
            [],
            ["r"],
        )
        assert [entry.stream for entry in whole_feed(store)].count("s") == 0
        assert store.load(STORE_STREAM)[-1].event == record
        assert (store.archived("s"), store.archived("r"), store.archived("x")) == ("file", None, None)
        with pytest.raises(RunArchived, match="in file"):
            own(store, "s")
        with pytest.raises(RunArchived):
            store.append(Append("s", 1, [new_event(e.RunCreated(CODE, "d"), 1)], begins="run"))
        with pytest.raises(OwnershipLost):
            store.append(step_append("s", "b#1"))
        assert list(store.verify()) == []
        store.rebuild()
        assert (len(store.runs()), list(store.verify())) == (1, [])

    def test_a_large_value_is_kept_while_an_event_of_any_type_names_it(self, store: Store) -> None:
        """Also one of a newer version, which this one does not know."""
        own(store, "r")
        kept, loose = (hashlib.sha256(data).hexdigest() for data in (b"kept", b"loose"))
        note = NewEvent("NoteTaken.2", 3, f'{{"blob": "{kept}"}}')
        store.append(Append("r", 1, [note], blobs=[(kept, b"kept"), (loose, b"loose")]))
        assert (store.sweep(), store.sweep(), store.blob(kept)) == (1, 0, b"kept")
        with pytest.raises(StoreCorrupt):
            store.blob(loose)
        assert list(store.verify()) == []

    def test_statistics_count_the_live_generation_only(self, store: Store) -> None:
        """Before a rewind, after it, and when it was undone."""
        own(store, "r")
        perform(store, "r", c.RunStep(e.StepRan("a#1", "a", 1)), c.RunStep(e.StepRan("b#1", "b", 1)))
        perform(store, "r", c.StartStep("c#1", "c"), c.CompleteStep("c#1"))
        counted = store.statistics().steps
        perform(store, "r", c.RewindRun("r", "a#1", dead="me"))
        assert store.statistics().steps.by_status == {"completed": 1}
        perform(store, "r", c.RestoreGeneration("r", 0, 1))
        assert (store.statistics().steps, counted.by_status) == (counted, {"completed": 3})

    def test_statistics_sum_up_what_steps_used(self, store: Store) -> None:
        """Exactly, for each model, in every generation, and only of runs that changed since."""
        cheap, dear = Measured("small", 1, 2, Decimal("0.1")), Measured("large", 3, 4, Decimal("0.2"))
        for run in ("r", "s"):
            own(store, run)
            perform(store, run, c.StartStep("a#1", "a"), c.CompleteStep("a#1"))
            perform(store, run, c.StartStep("b#1", "b"), c.MeasureStep("b#1", 1, (cheap, dear)))
        assert store.statistics().measured == (dear.plus(dear), cheap.plus(cheap))
        perform(store, "r", c.RewindRun("r", "a#1", dead="me"), at=10**9)
        assert store.statistics().measured == (dear.plus(dear), cheap.plus(cheap))
        assert store.statistics(10**9).measured == (dear, cheap)
        assert list(store.verify()) == []

    def test_when_a_run_ended_comes_back_with_its_generation(self, store: Store) -> None:
        """A rewound run has not ended; when that is undone, it ended when it did. So say its durations."""
        own(store, "r")
        perform(store, "r", c.RunStep(e.StepRan("a#1", "a", 1)), c.CompleteRun())
        ended = store.runs()[0]
        assert ended.ended_at == ended.updated_at > 0
        took = store.statistics().durations
        perform(store, "r", c.RewindRun("r", "a#1"), at=10**9)
        assert store.runs()[0].ended_at == 0
        perform(store, "r", c.RestoreGeneration("r", 0, 1), at=2 * 10**9)
        assert store.runs()[0].ended_at == ended.ended_at < store.runs()[0].updated_at
        assert store.statistics().durations == took
        assert list(store.verify()) == []

    def test_what_runs_were_created_with(self, store: Store) -> None:
        """The first events of the runs that are asked for, the oldest first; of others and of none, none."""
        for run in ("r", "s", "t"):
            own(store, run)
        found = store.creations(["t", "r", "unknown"])
        assert [(run, event.code) for run, event in found] == [("r", CODE), ("t", CODE)]
        assert store.creations([]) == []

    def test_a_family_is_archived_whole_or_not_at_all(self, store: Store) -> None:
        """One whose head is another by now keeps all of its family, and no other."""
        for run in ("r", "s", "t", "u"):
            own(store, run)
            perform(store, run, c.CompleteRun())
        stale = msgspec.structs.replace(archived(store, "s"), version=2)
        families = [[archived(store, "r"), stale], [archived(store, "t"), archived(store, "u")]]
        assert store.archive(families, at=9) == ["t", "u"]
        assert (sorted(row.id for row in store.runs()), list(store.verify())) == (["r", "s"], [])

    def test_after_archiving_everything_nothing_is_mistaken_for_what_was(self, store: Store) -> None:
        """New streams and events take no id and no place of those that are gone."""
        for run in ("r", "s"):
            own(store, run)
            perform(store, run, c.CompleteRun())
        inside, tail = store.feed(limit=2).cursor, store.tail()
        assert store.archive([[archived(store, run)] for run in ("r", "s")], at=9) == ["r", "s"]
        assert (store.runs(), store.sweep()) == ([], 0)
        own(store, "t")
        store.append(step_append("t", "a#1"))
        assert [row.key for row in store.steps("t")] == ["a#1"]
        with pytest.raises(Resync) as error:
            store.feed(inside)
        assert error.value.is_removed
        since = whole_feed(store, tail)
        assert [entry.type for entry in since[:3]] == ["StreamArchived", "StreamArchived", "StreamCreated"]
        places = [entry.position for entry in whole_feed(store)]
        assert len(set(places)) == len(places) and places == sorted(places)
        assert list(store.verify()) == []

    # Deleting

    def test_a_deleted_stream_is_gone_until_it_is_restored(self, store: Store) -> None:
        """No reader sees it, in any table or feed, and its id stays taken; restored, everything is as it was,
        to the place in the log, also after a rebuild."""
        data = b"large"
        hash = hashlib.sha256(data).hexdigest()
        for at, commands in enumerate(EVERYTHING, 1):
            perform(store, "r", *commands, at=at)
        own(store, "s")
        ran = e.StepRan("a#1", "a", 1, blob=hash)
        store.append(Append("s", 1, [new_event(ran, 2)], blobs=[(hash, data)]))
        whole = _readable(store)
        tail, inside = store.tail(), store.feed(limit=4).cursor
        note = Decision("note", [new_event(e.Emitted("noted", msgspec.Raw(b"1")), 8)])
        assert not store.delete({"r": None, "s": 1}, "op", 9, [Source("n")], lambda _: [note])
        assert (_readable(store), store.load("n")) == (whole, [])
        assert store.delete({"r": None, "s": 3}, "op", 9, [Source("n")], lambda _: [note])
        assert (store.runs(), store.steps("r"), store.load("r"), store.run_ids("", 9)) == ([], [], [], [])
        assert {entry.stream for entry in whole_feed(store)} == {STORE_STREAM, "n"}
        assert (store.sweep(), list(store.verify()), store.statistics().workflows) == (0, [], [])
        assert store.deletions() == [PendingDeletion("op", 9, ("r", "s"))]
        assert (store.deleted("r"), store.deleted("n")) == (Deleted("op", False), None)
        assert (store.numbered(1), whole_feed(store, inside)[-1].stream) == ("r", "n")
        with pytest.raises(RunDeleted, match="undo op"):
            own(store, "r")
        with pytest.raises(RunDeleted, match="undo op"):
            store.append(Append("s", 1, [new_event(ran, 1)], begins="run"))
        with pytest.raises(OwnershipLost):
            store.append(step_append("s", "b#1"))
        store.rebuild()
        assert (store.runs(), list(store.verify())) == ([], [])
        assert store.restore(["r", "s"], "op2", 10)
        assert not store.restore(["r"], "op3", 11)
        assert (_readable(store), store.deletions(), store.deleted("r")) == (whole, [], None)
        since = [(entry.stream, entry.type) for entry in whole_feed(store, tail)]
        assert since[-2:] == [(STORE_STREAM, "StreamRestored")] * 2
        assert list(store.verify()) == []
        store.rebuild()
        assert (_readable(store), list(store.verify())) == (whole, [])
        store.append(step_append("s", "b#1"))

    def test_a_deletion_that_is_final_leaves_its_record_and_nothing_else(self, store: Store) -> None:
        """The blobs go with the next sweep; neither the id nor the number is given again."""
        hash = hashlib.sha256(b"large").hexdigest()
        own(store, "r")
        ran = e.StepRan("a#1", "a", 1, blob=hash)
        store.append(Append("r", 1, [new_event(ran, 2)], blobs=[(hash, b"large")]))
        for at in (3, 4):
            assert store.delete({"r": 3}, f"op{at}", at)
            assert at == 4 or store.restore(["r"], "undo", at)
        assert store.purge(["r"], 5)
        assert not store.purge(["r"], 6) and not store.restore(["r"], "op", 7)
        assert (store.sweep(), store.deletions(), store.deleted("r")) == (1, [], Deleted("op4", True))
        assert list(store.verify()) == []
        with pytest.raises(RunDeleted, match="final"):
            own(store, "r")
        own(store, "s")
        assert (store.runs()[0].number, store.numbered(1)) == (2, "r")
        store.rebuild()
        assert ([row.id for row in store.runs()], list(store.verify())) == (["s"], [])

    # Together

    def test_many_threads_append_to_their_own_streams_and_to_one(self, store: Store) -> None:
        """Nothing is lost, doubled or misplaced when all write at once, waiting or not."""
        own(store, "shared")

        def work(run: str) -> None:
            own(store, run)
            done = threading.Semaphore(0)
            for n in range(10):
                store.append(step_append(run, f"a#{n}", durable=n % 2 == 0))
                store.append_soon(output_append("shared", run), lambda _: done.release())
                store.append(step_append("shared", f"{run}#{n}"))
            for _ in range(10):
                assert done.acquire(timeout=30)

        in_threads(*[lambda n=n: work(f"r{n}") for n in range(8)])
        assert len(store.load("shared", output=True)) == 2 + 8 * 10 * 2
        assert [len(store.steps(f"r{n}")) for n in range(8)] == [10] * 8
        assert list(store.verify()) == []

    def test_a_closed_store_says_so(self, store: Store) -> None:
        """Nothing can be written or read after `close`; closing twice is closing once."""
        own(store, "r")
        store.close()
        store.close()
        for use in (
            lambda: store.append(step_append("r", "a#1")),
            lambda: perform(store, "s", c.CreateRun("s", CODE, "d")),
            lambda: store.load("r"),
            store.runs,
            store.feed,
            lambda: list(store.verify()),
        ):
            with pytest.raises(StoreClosed):
                use()
        ended: queue.SimpleQueue[Append] = queue.SimpleQueue()
        store.append_soon(step_append("r", "a#1"), ended.put)
        assert isinstance(ended.get(timeout=30).error, StoreClosed)


def _with_companion(append: Append, decide: Decide) -> Append:
    append.also = [Companion(Source("@budget"), decide)]
    return append


def _readable(store: Store) -> object:
    """The runs as readers see them."""
    runs = store.runs()
    return (
        [(row, store.load(row.id, output=True), store.steps(row.id)) for row in runs],
        [entry for entry in whole_feed(store) if entry.stream != STORE_STREAM and entry.stream != "n"],
        store.creations([row.id for row in runs]),
        store.statistics().steps,
    )


def _decide_one(decide: Decide, recorded: Sequence[Sequence[Recorded]]) -> Sequence[Decision]:
    return [decide(recorded[0])]


def _as_decided(decision: Decision, _: Sequence[Recorded]) -> Decision:
    return decision
