"""Gates, signals, pause and cancel: what may follow what."""

import msgspec
import pytest
from tests.kernel.test_decide_evolve import CLAIM, CREATE, NO, History

from holdfast.errors import GateError, Refused
from holdfast.kernel import commands as c
from holdfast.kernel import events as e

SHOWN = msgspec.Raw(b'"draft"')
OPEN = c.Record(e.GateOpened("send#1", 1, "approval", "send", "ab12cd34", SHOWN))
WAIT = c.Record(e.GateOpened("go#1", 2, "signal", "go"))
APPROVE = c.DecideGate("r", "approved", by="ann", comment="fine")


def waiting(*more: c.Command) -> History:
    return History(CREATE, CLAIM, OPEN, *more)


def gate(history: History, key: str = "send#1"):
    return history.state.steps[key]


def test_an_open_gate_makes_the_run_wait():
    """It shows what it was opened with; a claim does not change that it waits."""
    history = waiting()
    assert (history.state.status, gate(history).status, gate(history).result) == ("waiting", "waiting", SHOWN)
    history.do(c.ReleaseRun("r", "ann"))
    history.do(c.ClaimRun("r", "bob"))
    assert history.state.status == "waiting"


@pytest.mark.parametrize(
    "decide",
    [
        APPROVE,
        c.DecideGate("r", "approved", "send", by="ann", comment="fine"),
        c.DecideGate("r", "approved", "send#1", "ab12cd", "ann", "fine"),
    ],
)
def test_a_decision_names_the_gate_or_there_is_only_one(decide):
    """By nothing, by title, by key and the beginning of the digest."""
    history = waiting()
    history.do(decide)
    decided = gate(history)
    assert (decided.status, decided.outcome, decided.by, decided.comment) == (
        "completed",
        "approved",
        "ann",
        "fine",
    )
    assert history.state.status == "running"


def test_a_gate_is_named_by_its_branch():
    """The branches of a plan have the ids of its steps, which a person knows."""
    key = "ok[1]/Ship?#1"
    history = waiting(c.Record(e.GateOpened(key, 2, "approval", "Ship?", "cd34ab12", SHOWN)))
    history.do(c.DecideGate("r", "approved", "ok"))
    assert (gate(history).status, gate(history, key).outcome) == ("waiting", "approved")


def test_a_run_that_was_decided_while_nobody_executes_it_is_pending():
    """Whoever follows may continue it."""
    history = waiting(c.ReleaseRun("r", "ann"))
    history.do(APPROVE)
    assert history.state.status == "pending"


@pytest.mark.parametrize(
    ("before", "decide", "words"),
    [
        ([APPROVE], c.DecideGate("r", "rejected", "send"), "was decided before: approved by ann"),
        ([], c.DecideGate("r", "approved", digest="ffff"), "shows something else"),
        ([], c.DecideGate("r", "approved", "pay"), "has no gate 'pay'; open: send#1@ab12cd"),
        ([APPROVE], c.DecideGate("r", "approved"), "was decided before: approved by ann"),
        (
            [c.Record(e.GateOpened("b#1", 2, "approval", "b", "ee"))],
            APPROVE,
            "several open gates, say which: send#1@ab12cd, b#1@ee",
        ),
        ([c.CompleteRun()], APPROVE, r"has ended \(completed\)"),
        ([WAIT], c.DecideGate("r", "approved", "go"), "has no gate 'go'"),
    ],
)
def test_decisions_that_do_not_fit(before, decide, words):
    """A second one, a stale digest, an unknown or an unclear gate, an ended run: a sentence, and no event."""
    history = waiting(*before)
    with pytest.raises(GateError, match=words):
        history.do(decide)


def test_a_gate_expires_only_when_its_time_is_over_and_nobody_decided():
    history = History(CREATE, CLAIM, c.Record(e.GateOpened("send#1", 1, "approval", "send", "ab", until=50)))
    assert history.do(c.ExpireGate("send#1", 49)) == []
    history.do(c.ExpireGate("send#1", 50))
    assert gate(history).outcome == "unanswered"
    assert history.do(c.ExpireGate("send#1", 51)) == []


def test_a_signal_goes_to_the_gate_that_waits_longest():
    history = History(CREATE, CLAIM, WAIT, c.Record(e.GateOpened("go#2", 3, "signal", "go")))
    history.do(c.SendSignal("r", "other", SHOWN))
    assert history.state.waiters == 2
    history.do(c.SendSignal("r", "go", SHOWN))
    assert (gate(history, "go#1").outcome, gate(history, "go#1").result) == ("received", SHOWN)
    assert gate(history, "go#2").status == "waiting"


def test_a_signal_that_nobody_waits_for_is_kept_and_taken_once():
    """In the order in which they came."""
    history = History(CREATE, CLAIM, *(c.SendSignal("r", "go", msgspec.Raw(b"%d" % n)) for n in (1, 2)))
    for n, key in enumerate(("go#1", "go#2"), 1):
        history.do(c.Record(e.GateOpened(key, n, "signal", "go")))
        assert bytes(gate(history, key).result) == b"%d" % n
    history.do(c.Record(e.GateOpened("go#3", 3, "signal", "go")))
    assert gate(history, "go#3").status == "waiting"
    history.do(c.CompleteRun())
    with pytest.raises(Refused, match="has ended"):
        history.do(c.SendSignal("r", "go"))


def test_a_rewind_gives_back_what_was_taken_after_the_point_and_forgets_what_came_after_it():
    history = History(CREATE, CLAIM, c.SendSignal("r", "go", SHOWN))
    point = history.state.version
    history.do(WAIT)
    history.do(c.SendSignal("r", "go", msgspec.Raw(b"2")))
    history.do(OPEN)
    history.add(e.Rewound(1, 0, point))
    assert (history.state.waiters, [signal.taken_by for signal in history.state.signals.values()]) == (
        0,
        [""],
    )
    history.do(CLAIM)
    history.do(WAIT)
    assert gate(history, "go#1").result == SHOWN


@pytest.mark.parametrize(
    ("command", "asked", "done", "status"),
    [
        (c.PauseRun, e.PauseRequested, e.RunPaused, "paused"),
        (c.CancelRun, e.CancelRequested, e.RunCancelled, "cancelled"),
    ],
)
def test_a_live_owner_is_asked_and_a_run_without_one_is_stopped(command, asked, done, status):
    """Asked once; without a live owner it is done at once."""
    history = History(CREATE, CLAIM)
    assert history.do(command("r", "why", "ann", True)) == [asked("why", "ann")]
    assert history.do(command("r", "why", "ann", True)) == []
    assert history.do(command("r", "why", "ann")) == [done("why", "ann")]
    assert (history.state.status, history.state.owner) == (status, "")


def test_a_paused_run_goes_on_when_it_is_claimed():
    history = waiting(c.PauseRun("r"))
    assert history.do(c.PauseRun("r")) == []
    history.do(c.ClaimRun("r", "bob"))
    assert (history.state.status, history.state.pause) == ("waiting", None)


def test_a_cancel_that_the_owner_did_not_hear_is_done_by_who_claims_next():
    """A request outlives the owner to whom it was made; once it is done, or the run has ended otherwise and
    is reopened, it is over."""
    history = History(CREATE, CLAIM, c.CancelRun("r", "why", "ann", True))
    assert history.do(c.ClaimRun("r", "bob", "ann")) == [e.RunCancelled("why", "ann")]
    history.do(c.ReopenRun("r"))
    assert history.do(c.ClaimRun("r", "bob")) == [e.RunClaimed("bob", 2, ordered=True)]
    itself = History(
        CREATE, CLAIM, c.CancelRun("r", "why", "ann", True)
    )  # it could not write it the first time
    assert itself.do(c.ClaimRun("r", "ann")) == [e.RunCancelled("why", "ann")]
    failed = History(CREATE, CLAIM, c.CancelRun("r", "why", "ann", True), c.FailRun(NO))
    failed.do(c.ReopenRun("r"))
    assert failed.do(c.ClaimRun("r", "bob")) == [e.RunClaimed("bob", 2, ordered=True)]


@pytest.mark.parametrize("command", [c.PauseRun("r"), c.CancelRun("r")])
def test_an_ended_run_is_neither_paused_nor_cancelled(command):
    with pytest.raises(Refused, match="has ended"):
        History(CREATE, CLAIM, c.CompleteRun()).do(command)


def test_what_is_recorded_once_is_not_recorded_again():
    """Checkpoints, emissions of the workflow and patches have identities; a step's emissions do not."""
    once = [
        c.Record(e.CheckpointTaken("half#1", 1, "half")),
        c.Record(e.Emitted("t", SHOWN, "t#1", 2)),
        c.Record(e.PatchSeen("patched@x", "x")),
    ]
    history = History(
        CREATE,
        CLAIM,
        *once,
        c.Record(e.Emitted("t", SHOWN, step="a#1")),
        c.Record(e.Emitted("t", SHOWN, step="a#1")),
    )
    for command in once:
        with pytest.raises(Refused, match="is recorded already"):
            history.do(command)


# Giving up


def test_a_wait_that_was_given_up_holds_nothing_up():
    """Neither the run, nor anybody who would decide; a second time changes nothing."""
    history = waiting(c.Record(e.SleepStarted("sleep#1", 2, 99)), c.AbandonWait("send#1"))
    assert (history.state.status, gate(history).status, gate(history).due_at) == ("sleeping", "abandoned", 0)
    assert history.do(c.AbandonWait("send#1")) == []
    history.do(c.AbandonWait("sleep#1"))
    assert (history.state.status, history.state.sleepers, history.state.waiters) == ("running", 0, 0)
    with pytest.raises(GateError, match=r"gate send#1 of run r was given up"):
        history.do(APPROVE)


def test_a_decided_gate_can_be_given_up():
    """The decision came, and the code did not wait to hear of it: a replay must not hear of it either."""
    history = waiting(APPROVE, c.AbandonWait("send#1"))
    assert (gate(history).status, gate(history).outcome) == ("abandoned", "approved")
    assert (history.state.status, history.state.waiters) == ("running", 0)


def test_the_signal_of_a_gate_that_was_given_up_is_free():
    """It goes to a gate that waits for it, or to the next one that is opened."""
    one = c.SendSignal("r", "go", msgspec.Raw(b"1"))
    history = History(CREATE, CLAIM, WAIT, one, c.AbandonWait("go#1"))
    history.do(c.Record(e.GateOpened("go#2", 3, "signal", "go")))
    assert (gate(history, "go#2").outcome, gate(history, "go#2").result) == ("received", msgspec.Raw(b"1"))
    both = History(CREATE, CLAIM, WAIT, c.Record(e.GateOpened("go#2", 3, "signal", "go")), one)
    assert [e.type_of(event) for event in both.do(c.AbandonWait("go#1"))] == ["WaitAbandoned", "GateDecided"]
    assert (gate(both, "go#2").outcome, both.state.signals[5].taken_by) == ("received", "go#2")


def test_only_waits_are_given_up():
    """By their owner."""
    history = History(CREATE, CLAIM, OPEN, c.StartStep("a#1", "a"))
    for key in ("a#1", "nothing#1"):
        with pytest.raises(Refused, match="no gate, no sleep and no step"):
            history.do(c.AbandonWait(key))
    history.do(c.ReleaseRun("r", "ann"))
    with pytest.raises(Refused, match="no owner"):
        history.do(c.AbandonWait("send#1"))
