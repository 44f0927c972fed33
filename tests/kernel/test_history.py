"""The order in which the code of a run received its outcomes."""

from holdfast.kernel import events as e
from holdfast.kernel.evolve import fold
from holdfast.kernel.history import outcomes

CODE = e.Code("m", "flow")


def keys(*events):
    """The keys of the outcomes of a run whose log has these events."""
    log = [e.RunCreated(CODE, "d"), e.RunClaimed("me", 1, ordered=True), *events]
    state = fold([(event, version, 0) for version, event in enumerate(log, 1)])
    assert state is not None
    return [key for _, key in outcomes(state)]


def ran(key):
    return e.StepRan(key, key, 0)


def opened(key):
    return e.GateOpened(key, 1, "approval", key)


def test_steps_come_where_they_ended():
    """Not where they began."""
    assert keys(e.StepStarted("a#1", "a"), ran("b#1"), e.StepCompleted("a#1")) == ["b#1", "a#1"]


def test_what_the_code_does_not_wait_for_is_no_outcome():
    """Values, patches, and checkpoints of the engine."""
    log = (
        e.ValueRecorded("now#1", 1, e.NOTHING),
        e.PatchSeen("patched@x", "x"),
        e.CheckpointTaken("auto@5", 0, "auto"),
    )
    assert keys(*log, e.CheckpointTaken("half#1", 1, "half")) == ["half#1"]


def test_a_gate_has_its_place_where_it_was_delivered():
    """Its decision was written by somebody else, while a step of the run was on its way to the log."""
    decided = e.GateDecided("ok#1", "approved")
    assert keys(opened("ok#1"), decided, ran("a#1"), e.OutcomeDelivered("ok#1")) == ["a#1", "ok#1"]


def test_a_gate_that_was_not_delivered_comes_last():
    """The code had not seen it when the process died."""
    assert keys(opened("ok#1"), e.GateDecided("ok#1", "approved"), ran("a#1")) == ["a#1", "ok#1"]


def test_a_gate_that_is_given_up_after_its_decision_has_the_place_of_that():
    """The cancel came while the decision was on its way to the code."""
    log = (opened("ok#1"), e.GateDecided("ok#1", "approved"), e.OutcomeDelivered("ok#1"), ran("a#1"))
    assert keys(*log, e.WaitAbandoned("ok#1")) == ["a#1", "ok#1"]


def test_timers_are_outcomes():
    """One event may stand for several of a scope that followed one another."""
    fired = e.TimerFired("b[1]/", 2, 3)
    assert keys(ran("a#1"), fired, ran("a#2")) == ["a#1", "b[1]/timer@2", "b[1]/timer@3", "a#2"]


def test_an_older_owner_leaves_a_history_without_order():
    """What it recorded is loose; what comes after the next claim is not."""
    log = [
        e.RunCreated(CODE, "d"),
        e.RunClaimed("old", 1),
        ran("a#1"),
        e.RunClaimed("me", 2, ordered=True),
        ran("b#1"),
    ]
    state = fold([(event, version, 0) for version, event in enumerate(log, 1)])
    assert state is not None
    assert (state.loose, outcomes(state)) == (4, [(3, "a#1"), (5, "b#1")])
