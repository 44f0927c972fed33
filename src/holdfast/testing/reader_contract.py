"""The promises of a store to its readers: loads, rows, the feed, the audit. A part of `StoreContract`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec
import pytest

from holdfast.errors import OwnershipLost, StoreCorrupt
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel import task as tasks
from holdfast.kernel.author import Author
from holdfast.kernel.evolve import fold
from holdfast.store.oracle import run_row, step_rows
from holdfast.store.port import Append, Decision, OwnerRow, Resync, Store, new_event
from holdfast.testing.histories import (
    CODE,
    EVERYTHING,
    in_threads,
    output_append,
    own,
    perform,
    start_append,
    step_append,
    whole_feed,
)

Tampering = Literal["payload", "tail", "stream", "blob", "projection"]


class ReadingContract:
    """The promises of every store to its readers, and how a backend joins."""

    @pytest.fixture
    def make_store(self) -> Callable[..., Store]:
        raise NotImplementedError("a fixture that returns a function: name -> a new, empty store")

    @pytest.fixture
    def store(self, make_store: Callable[..., Store]) -> Iterator[Store]:
        store = make_store()
        yield store
        store.close()

    def tamper(self, store: Store, what: Tampering) -> None:
        """Behind the store's back, for the run `r`: change a byte of its last payload, delete its last
        event, remove it whole (events, head, rows), change the only blob, change a projected status."""
        raise NotImplementedError

    # Reading

    def test_decisions_and_the_runs_that_left_some(self, store: Store) -> None:
        """The newest decision comes first, of equal times the one that was recorded last; a run counts once
        it was rewound, and does not while what it wrote is deleted."""
        for run in ("r", "q"):
            own(store, run)
            store.append(step_append(run, "a#1"))
        stream = tasks.stream_of("t")
        notes = [
            tasks.TaskNoted("decision", run or "person", Author("ann", run=run)) for run in ("", "r", "q")
        ]
        made = [new_event(tasks.TaskCreated("kelp"), 9), *(new_event(one, 10) for one in notes)]
        store.command(stream, lambda _: Decision(tasks.KIND, made))
        assert [(one.task, one.name, one.text) for one in store.decisions()] == [
            ("t", "kelp", "q"), ("t", "kelp", "r"), ("t", "kelp", "person"),
        ]  # fmt: skip
        assert (store.runs_that_left_decisions(), store.count_decisions()) == ([], 3)
        perform(store, "q", c.RewindRun("q", "a#1", dead="me"))
        assert store.runs_that_left_decisions() == ["q"]
        assert [one.text for one in store.decisions(runs=["q"])] == ["q"]
        assert store.delete({stream: None}, "op", 11)
        assert (store.runs_that_left_decisions(), store.decisions()) == ([], [])
        assert store.restore([stream], "op", 12)
        assert (store.runs_that_left_decisions(), store.count_decisions()) == (["q"], 3)

    def test_evidence_of_a_run_and_of_all(self, store: Store) -> None:
        """Its events and no others: the oldest run first, and each in order, of whatever generation. Those
        of a run that is deleted are not there, and are again when it is restored."""

        def reach(run: str, key: str, at: int) -> None:
            made = e.EvidenceWritten(key, "made", "digest", "")
            perform(store, run, c.Record(made), c.Record(e.CheckpointTaken(key, 1, "made")), at=at)

        assert store.evidence() == store.evidence("r") == []
        for run in ("r", "q"):
            own(store, run)
        reach("q", "made#1", 3)
        reach("r", "made#1", 4)
        perform(store, "r", c.VerifyEvidence("r", "made#1", "digest", "equal"), at=5)
        found = store.evidence()
        assert [(one.run, one.live, e.type_of(one.event), one.version, one.at) for one in found] == [
            ("r", 0, "EvidenceWritten", 3, 4),
            ("r", 0, "EvidenceVerified", 5, 5),
            ("q", 0, "EvidenceWritten", 3, 3),
        ]
        assert store.evidence("r") == found[:2] and store.evidence("q") == found[2:]
        assert store.evidence("nobody") == []
        assert store.delete({"r": None}, "op", 6)
        assert store.evidence() == found[2:] and store.evidence("r") == []
        assert store.restore(["r"], "op", 7)
        assert store.evidence() == found
        perform(store, "r", c.RewindRun("r", "made#1", dead="me"))
        assert [one.live for one in store.evidence()] == [1, 1, 0]

    def test_load_gives_what_was_written(self, store: Store) -> None:
        """Events come back equal, in order, with version and time; captured output only if asked for."""
        own(store, "r")
        store.append(output_append("r", "line"))
        store.append(step_append("r", "a#1", at=9))
        store.append(start_append("r", "b#1", at=10))
        loaded = store.load("r", output=True)
        assert [(one.version, one.at) for one in loaded] == [(1, 1), (2, 1), (3, 3), (4, 9), (5, 10)]
        assert loaded[1].event == e.RunClaimed("me", 1, ordered=True)
        assert loaded[3].event == e.StepRan("a#1", "a", 8, result=msgspec.Raw(b"1"))
        assert loaded[4].event == e.StepStarted("b#1", "b")
        assert store.load("r") == [one for one in loaded if one.version != 3]
        assert store.load("r", after=3) == loaded[3:]
        assert (store.load("r", after=5), store.load("r", after=99), store.load("none")) == ([], [], [])

    def test_blobs_are_written_with_the_events_that_name_them(self, store: Store) -> None:
        """A blob is there when its append is acknowledged, and is not there when it was refused."""
        own(store, "r")
        large, other = b"large" * 9, b"other"
        names = [hashlib.sha256(data).hexdigest() for data in (large, other)]
        hot = step_append("r", "a#1")
        hot.blobs = [(names[0], large)]
        store.append(hot)
        for epoch, name, data in ((1, names[0], large), (7, names[1], other)):
            append = output_append("r", "x", epoch=epoch)
            append.blobs = [(name, data)]
            try:
                store.append(append)
            except OwnershipLost:
                assert epoch == 7
        assert store.blob(names[0]) == large
        with pytest.raises(StoreCorrupt):
            store.blob(names[1])
        assert len(store.load("r", output=True)) == 4

    def test_projections_are_what_the_fold_says(self, store: Store) -> None:
        """After every commit of a run in which everything happens, rows and fold agree."""
        for at, commands in enumerate(EVERYTHING, 1):
            version = perform(store, "r", *commands, at=at)
            state = fold(store.load("r", output=True))
            assert state is not None
            assert store.run("r") == run_row("r", state.epoch, state, number=1)
            assert store.steps("r") == step_rows(state)
            assert state.version == version
        perform(store, "r", c.ReopenRun("r"), c.ClaimRun("r", "me"))
        row = store.run("r")
        assert row is not None
        rewound = [new_event(e.Rewound(1, 0, 10), 50), new_event(e.StepStarted("b#1", "b", generation=1), 51)]
        store.append(Append("r", row.epoch, rewound))
        state = fold(store.load("r", output=True))
        assert state is not None
        assert store.steps("r") == step_rows(state)

    def test_a_rewind_takes_over_the_steps_that_ran(self, store: Store) -> None:
        """Those that the parent generation recorded up to the point: its own, and those that it had taken
        over itself. After each rewind the rows are what the fold says, also rebuilt, and verify."""
        own(store, "r")
        for key in ("a#1", "b#1"):
            store.append(step_append("r", key))
        store.append(start_append("r", "c#1"))
        before = store.steps("r")
        for rewound, keys in (
            (e.Rewound(1, 0, 3), ["a#1"]),
            (e.Rewound(2, 1, 99), ["a#1", "b#1", "d#1"]),
            (e.Rewound(3, 0, 4), ["a#1", "b#1"]),
            (e.Rewound(4, 0, 99), ["a#1", "b#1", "c#1"]),
            (e.Rewound(5, 3, 3), ["a#1"]),
        ):
            store.append(Append("r", 1, [new_event(rewound, 9)]))
            assert [row.key for row in store.steps("r")] == keys
            assert {row.generation for row in store.steps("r")} == {rewound.generation}
            for key in ("b#1", "d#1"):
                if key not in keys:
                    ran = e.StepRan(key, key[0], 8, generation=rewound.generation)
                    store.append(Append("r", 1, [new_event(ran, 10)]))
            state = fold(store.load("r"))
            assert state is not None
            rows = store.steps("r")
            assert rows == step_rows(state)
            assert rows[0] == msgspec.structs.replace(before[0], generation=rewound.generation)
            store.rebuild()
            assert (store.steps("r"), list(store.verify())) == (rows, [])

    def test_a_restored_generation_has_its_rows_and_its_status_again(self, store: Store) -> None:
        """As it was left, and continues under its own number; after each move the rows are what the fold
        says, also rebuilt."""
        own(store, "r")
        for key in ("a#1", "b#1"):
            store.append(step_append("r", key))
        perform(store, "r", c.AttendRun("divergence", "look", "b#1"), c.ReleaseRun("r", "me"))
        before = store.run("r"), store.steps("r")
        perform(store, "r", c.RewindRun("r", "a#1"))
        perform(
            store, "r", c.ClaimRun("r", "me"), c.Record(e.SleepStarted("s#1", 2, 99)), c.ReleaseRun("r", "me")
        )
        sleeping = store.run("r"), store.steps("r")
        perform(store, "r", c.RestoreGeneration("r", 0, 1))
        assert store.steps("r") == before[1]
        for was, command in ((before, c.RestoreGeneration("r", 1, 0)), (sleeping, None)):
            row = store.run("r")
            assert row is not None and was[0] is not None
            changed = {"epoch": row.epoch, "version": row.version, "updated_at": row.updated_at}
            assert row == msgspec.structs.replace(was[0], **changed)
            state = fold(store.load("r"))
            assert state is not None
            assert (row, store.steps("r")) == (run_row("r", state.epoch, state, number=1), step_rows(state))
            store.rebuild()
            assert (store.run("r"), list(store.verify())) == (row, [])
            if command is not None:
                perform(store, "r", command)

    def test_rebuilt_projections_are_the_live_ones(self, store: Store) -> None:
        """`rebuild` changes no row, and the store continues as before."""
        for commands in EVERYTHING:
            perform(store, "r", *commands)
        own(store, "s")
        store.append(step_append("s", "a#1"))
        before = (store.runs(), store.steps("r"), store.steps("s"))
        store.rebuild()
        assert (store.runs(), store.steps("r"), store.steps("s")) == before
        store.append(step_append("s", "b#1"))
        assert list(store.verify()) == []

    def test_runs_are_listed_newest_first_and_filtered(self, store: Store) -> None:
        """By any of several statuses, by parent, up to a number."""
        for run, parent in (("one", ""), ("two", "one"), ("three", "one")):
            perform(store, run, c.CreateRun(run, CODE, "d", parent=parent))
        perform(store, "two", c.ClaimRun("two", "me"), c.CompleteRun())
        assert [row.id for row in store.runs()] == ["three", "two", "one"]
        assert [row.id for row in store.runs(limit=2)] == ["three", "two"]
        assert [row.id for row in store.runs(parent="one")] == ["three", "two"]
        assert [row.id for row in store.runs(status=["completed"])] == ["two"]
        assert [row.id for row in store.runs(status=["pending", "completed"], limit=1)] == ["three"]
        assert [row.id for row in store.runs(status=["pending"], parent="one")] == ["three"]
        assert store.runs(status=["x"]) == store.runs(limit=0) == store.runs(parent="")[1:] == []

    def test_run_ids_begin_with_the_prefix_to_the_letter(self, store: Store) -> None:
        """No character of a prefix is a wildcard, case counts, and text no id can have finds nothing."""
        for run in ("a_b", "aXb", "A_b", "a.b-1", "a.b-2", "zz"):
            perform(store, run, c.CreateRun(run, CODE, "d"))
        assert store.run_ids("", 9) == ["A_b", "a.b-1", "a.b-2", "aXb", "a_b", "zz"]
        assert store.run_ids("", 2) == ["A_b", "a.b-1"]
        assert store.run_ids("a_", 9) == ["a_b"]
        assert store.run_ids("a.b-", 9) == ["a.b-1", "a.b-2"]
        assert store.run_ids("zz", 9) == ["zz"]
        for odd in ("%", "*", "a%", "a?", "[a]", "'", "zzz", "zz\0", "\U0010ffff", "\udcff", "ü"):
            assert store.run_ids(odd, 9) == []
            assert (store.run(odd), store.load(odd), store.steps(odd)) == (None, [], [])

    def test_owners_are_kept_until_they_are_dropped(self, store: Store) -> None:
        """Owner rows are put, replaced, read, listed by age and dropped, and are no events."""
        old, new = OwnerRow("b", "host", "boot", 1, 10), OwnerRow("a", "host", "boot", 2, 20)
        store.put_owner(new)
        store.put_owner(OwnerRow("b", "elsewhere", "", 9, 30))
        store.put_owner(old)
        assert (store.owner("b"), store.owner("x"), store.owners()) == (old, None, [old, new])
        store.drop_owner("b")
        store.drop_owner("x")
        assert (store.owner("b"), store.owners(), whole_feed(store)) == (None, [new], [])

    def test_idle_owners_are_those_that_no_run_names(self, store: Store) -> None:
        """A run names its owner from the claim to the release or the end. Up to a number, oldest first."""
        owners = [OwnerRow(name, "host", "boot", n, 10 * n) for n, name in enumerate(("d", "c", "b", "a"))]
        for owner in reversed(owners):
            store.put_owner(owner)
        for run, name in (("r", "a"), ("s", "b"), ("t", "c")):
            own(store, run, name)
        assert store.idle_owners(9) == [owners[0]]
        perform(store, "s", c.ReleaseRun("s", "b"))
        perform(store, "t", c.CompleteRun())
        assert (store.idle_owners(9), store.idle_owners(2)) == (owners[:3], owners[:2])
        perform(store, "r", c.ClaimRun("r", "d", force=True))
        assert store.idle_owners(9) == owners[1:]

    # The feed

    def test_the_feed_has_every_event_once_and_each_stream_in_order(self, store: Store) -> None:
        """Read page by page or whole, while several write, nothing is missing or out of its order."""

        def work(run: str) -> None:
            own(store, run)
            for n in range(5):
                store.append(step_append(run, f"a#{n}"))

        in_threads(*[lambda run=run: work(run) for run in ("r", "s", "t")])
        feed = whole_feed(store)
        assert whole_feed(store, limit=3) == feed
        assert {entry.stream for entry in feed} >= {"r", "s", "t"}
        for run in {entry.stream for entry in feed}:
            assert [entry for entry in feed if entry.stream == run] == list(store.entries(run))

    def test_a_cursor_goes_on_where_it_was(self, store: Store) -> None:
        """A drained cursor stays; what comes later is all that it brings. `tail` is the cursor of now."""
        assert (store.feed(), store.tail()) == (([], ""), "")
        own(store, "r")
        drained = store.feed().cursor
        tail = store.tail()
        assert store.feed(drained) == ([], drained)
        store.append(step_append("r", "a#1"))
        for cursor in (drained, tail):
            assert [entry.version for entry in store.feed(cursor).entries] == [3]

    def test_the_feed_shows_nothing_past_the_last_synced_commit(self, store: Store) -> None:
        """An append that does not wait for the disk is readable at once, and fed after a durable commit."""
        own(store, "r")
        tail = store.tail()
        store.append(step_append("r", "a#1", durable=False))
        store.append(output_append("r", "x", durable=False))
        perform(store, "s", c.CreateRun("s", CODE, "d"), durable=False)
        assert (store.feed(tail).entries, store.tail()) == ([], tail)
        assert len(store.load("r", output=True)) == 4
        store.append(step_append("r", "b#1"))
        assert len(store.feed(tail).entries) == 5

    def test_a_cursor_of_another_history_is_refused(
        self, store: Store, make_store: Callable[..., Store]
    ) -> None:
        """The same events in another store, an altered cursor, or no cursor at all: `Resync`."""
        other = make_store("other")
        for one in (store, other):
            own(one, "r")
        cursor = store.feed().cursor
        for odd in [
            other.feed().cursor,
            "x",
            "ü",
            "\udcff",
            "a.b.c",
            cursor + "A",
            cursor[:-1],
            " " + cursor,
        ]:
            with pytest.raises(Resync) as error:
                store.feed(odd)
            assert not error.value.is_removed
        for place, letter in enumerate(cursor):
            with pytest.raises(Resync):
                store.feed(cursor[:place] + ("B" if letter != "B" else "C") + cursor[place + 1 :])
        other.close()

    # Audit

    @pytest.mark.parametrize("what", ["payload", "tail", "stream", "blob", "projection"])
    def test_verify_finds_what_was_changed(self, store: Store, what: Tampering) -> None:
        """A changed byte, a cut tail, a dropped stream, a changed blob, a changed projection: each is
        found; before it, nothing is."""
        for commands in EVERYTHING:
            perform(store, "r", *commands)
        own(store, "s")
        data = b"large"
        append = output_append("s", "x")
        append.blobs = [(hashlib.sha256(data).hexdigest(), data)]
        store.append(append)
        assert list(store.verify()) == []
        self.tamper(store, what)
        faults = list(store.verify())
        assert faults
        assert {fault.stream for fault in faults} <= {"r", ""}, faults

    def test_a_changed_history_is_not_loaded(self, store: Store) -> None:
        """A run whose events were changed is not executed on: `load` says that it is damaged."""
        own(store, "r")
        self.tamper(store, "payload")
        with pytest.raises(StoreCorrupt):
            store.load("r")
        with pytest.raises(StoreCorrupt):
            store.load("r", after=1)

    def test_rebuild_repairs_a_projection(self, store: Store) -> None:
        """The log is the truth: rows that were changed are made again from it."""
        own(store, "r")
        before = store.run("r")
        self.tamper(store, "projection")
        assert store.run("r") != before
        store.rebuild()
        assert (store.run("r"), list(store.verify())) == (before, [])
