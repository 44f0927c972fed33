"""decide and evolve: what follows from a command, and what events add up to."""

import copy
import string
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import (
    BadInput,
    BadRunId,
    HoldfastError,
    RunExists,
    RunHeld,
    RunNotFound,
    StepNotFound,
)
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel import families
from holdfast.kernel.decide import Refused, decide
from holdfast.kernel.events import Failure
from holdfast.kernel.evolve import Impossible, evolve, fold
from holdfast.kernel.identity import Counters, check_run_id, check_step_key, scope_of
from holdfast.kernel.measures import Measured
from holdfast.kernel.state import RunState
from holdfast.testing.strategies import commands_for, fitting, moved

CODE = e.Code("flow")
NO = Failure("builtins:ValueError", "no")
CREATE = c.CreateRun("r", CODE, "d")
CLAIM = c.ClaimRun("r", "ann")
ONE = msgspec.Raw(b"1")


class History:
    """A run as it comes to be: every event that was decided, folded live and kept."""

    def __init__(self, *commands: c.Command) -> None:
        self.state: RunState | None = None
        self.log: list[tuple[e.Event, int, int]] = []
        for command in commands:
            self.do(command)

    def do(self, command: c.Command) -> list[e.Event]:
        events = list(decide(self.state, command))
        for event in events:
            self.add(event)
        return events

    def operate(self, operation: c.Command | int) -> None:
        if isinstance(operation, c.Command):
            self.do(fitting(self.state, operation))
        else:
            self.add(moved(self.state, operation))

    def add(self, event: e.Event) -> None:
        version = len(self.log) + 1
        self.state = evolve(self.state, event, version, version * 10)
        self.log.append((event, version, version * 10))


def status_after(*commands: c.Command) -> str:
    state = History(CREATE, *commands).state
    assert state is not None
    return state.status


def step_after(key: str, *commands: c.Command):
    return History(CREATE, CLAIM, *commands).state.steps[key]


# Properties over random histories

REWINDS = st.integers(0, 12)
OPERATIONS = st.lists(
    st.one_of(commands_for("r"), REWINDS, REWINDS, *[st.just(CLAIM)] * 4), min_size=20, max_size=60
)
"""Commands; a number is a rewind by so many versions. A rewind leaves the run without an owner, and
nothing executes before the next claim."""


@settings(max_examples=120, deadline=None)
@given(OPERATIONS)
def test_decide_only_emits_what_evolve_accepts_and_changes_nothing_itself(operations):
    """Whatever the state and the command: events that can follow, or a HoldfastError; and the state
    that decide was given is as it was."""
    history = History(CREATE, CLAIM)
    for operation in operations:
        before = copy.deepcopy(history.state)
        if isinstance(operation, int):
            history.add(moved(history.state, operation))
            continue
        try:
            events = decide(history.state, fitting(history.state, operation))
        except HoldfastError:
            events = []
        assert history.state == before
        for event in events:
            history.add(event)


@settings(max_examples=80, deadline=None)
@given(OPERATIONS)
def test_a_loaded_history_folds_to_the_live_state(operations):
    """Encoded, decoded and folded in two pieces, the events give the state that was folded live."""
    history = History(CREATE, CLAIM)
    for operation in operations:
        try:
            history.operate(operation)
        except HoldfastError:
            pass
    loaded = [
        (e.decode(e.type_of(event), e.encode(event)), version, at) for event, version, at in history.log
    ]
    assert loaded == history.log
    half = len(loaded) // 2
    assert fold(loaded[half:], fold(loaded[:half])) == history.state


@settings(max_examples=80, deadline=None)
@given(OPERATIONS)
def test_what_the_state_says_of_itself_holds(operations):
    """An ended run has no owner; sleepers are the steps that sleep; the order names known steps; a
    completed step has no error; nothing that needs no attention names a step to look at."""
    history = History(CREATE, CLAIM)
    for operation in operations:
        try:
            history.operate(operation)
        except HoldfastError:
            continue
        state = history.state
        assert not (state.ended and state.owner)
        assert state.sleepers == sum(step.status == "sleeping" for step in state.steps.values())
        assert state.waiters == sum(step.status == "waiting" for step in state.steps.values())
        assert (state.status != "waiting") or state.waiters
        assert set(state.order.values()) <= set(state.steps)
        assert not [key for key, step in state.steps.items() if step.status == "completed" and step.error]
        assert state.version == len(history.log)


# Events

STOOD = e.GitPosition("5d", "c0ffee", "refs/heads/main", "5e", 7, "merge")
FIELDS: dict[str, object] = {
    "name": "kelp", "body": "grow it", "priority": 1, "labels": ["sea"], "assignee": "ann", "due": 5,
    "checks": ["true"], "changes": {"name": "x"}, "was": {"name": "y"}, "number": 3, "actor": "ann",
    "run": "r", "until": 9, "holder": {"pid": 4, "started": 5, "boot": "b"}, "reason": "later",
    "evidence": {"log": None}, "checked": ["true"], "unchecked": "no", "why": "no", "kind": "blocks",
    "anyway": "no", "needed": ["t2"],
    "version": 2, "operation": "op", "fields": {"name": "kelp", "claim": {"number": 1}}, "task": "a",
    "id": "m", "scope": "project", "source": "ann", "cites": ["a.py"], "supersedes": "n",
    "meta": {"a": [1]}, "session": "s", "summary": "done", "text": "t", "on": "b",
    "limits": {"usd": "0.10", "tokens": 7}, "parent": "all", "by": "ann", "step": "a#1", "attempt": 2,
    "amounts": {"seconds": "1.5", "steps": 1}, "generation": 1, "owner": "o", "epoch": 3,
    "measured": {"usd": "0.05"}, "unknown": True,
    "author": {"by": "ann", "session": "s", "run": "r", "generation": 1, "step": "a#1", "run_version": 7},
}  # fmt: skip
"""A value for each field that an event of a family has."""

EXAMPLES = {
    "StreamCreated": e.StreamCreated("r", "run"),
    "StreamArchived": e.StreamArchived("r", 7, "00ff", "runs.jsonl.gz"),
    "StoreRepaired": e.StoreRepaired("before-repair-x", (e.Lost("r", 3, 7),), ("00ff",)),
    "StreamDeleted": e.StreamDeleted("r", "run", 7, "00ff", "op"),
    "StreamRestored": e.StreamRestored("r", "run", "op"),
    "ItemsDeleted": e.ItemsDeleted((e.DeletedItem("run", "r", "report", 3, 7, "p"),), ("r", "@op/1")),
    "ItemsRestored": e.ItemsRestored("op"),
    "RunCreated": e.RunCreated(CODE, "d", ONE, "blob", "parent", "child#1"),
    "RunClaimed": e.RunClaimed("ann", 2, "bob", True),
    "RunReleased": e.RunReleased("ann", "done"),
    "RunReopened": e.RunReopened(),
    "RunNeedsAttention": e.RunNeedsAttention("in_doubt", "look", "a#1"),
    "RunCompleted": e.RunCompleted(msgspec.Raw(b"null")),
    "RunFailed": e.RunFailed(NO, ("a#1",)),
    "RunCancelled": e.RunCancelled("enough", "ann"),
    "CancelRequested": e.CancelRequested("enough", "ann"),
    "PauseRequested": e.PauseRequested("lunch", "ann"),
    "RunPaused": e.RunPaused("lunch", "ann"),
    "SignalReceived": e.SignalReceived("go", ONE, "blob", "ann"),
    "Rewound": e.Rewound(1, 0, 7, 3, "op"),
    "GenerationRestored": e.GenerationRestored(0, 4, "op"),
    "RunForked": e.RunForked("r", "a#1", 7, "ann"),
    "StepStarted": e.StepStarted("a#1", "a", "d", 1, 2, "once", "command", 1, ONE, "1", 1, "kid"),
    "StepCompleted": e.StepCompleted("a#1", ONE, "", 2, 1, True),
    "StepRan": e.StepRan("a#1", "a", 7, "d", 1, ONE, "1", 1, ONE, "blob", 1, True),
    "StepAttemptFailed": e.StepAttemptFailed("a#1", 1, NO, 99),
    "StepFailed": e.StepFailed("a#1", NO, 3),
    "StepMeasured": e.StepMeasured("a#1", 2, (Measured("small", 3, 4, Decimal("0.10"), {"pages": 2}),), 1),
    "StepReopened": e.StepReopened("a#1", 1),
    "StepInDoubt": e.StepInDoubt("a#1", "cut off", 1, True),
    "StepSettled": e.StepSettled("a#1", "fail", "ann", 1, error=NO),
    "SleepStarted": e.SleepStarted("sleep#1", 1, 99),
    "SleepEnded": e.SleepEnded("sleep#1"),
    "ValueRecorded": e.ValueRecorded("now#1", 1, ONE),
    "GateOpened": e.GateOpened("send#1", 1, "approval", "send", "d", ONE, "blob", 99, 1, True),
    "GateDecided": e.GateDecided("send#1", "approved", "ann", "fine", ONE, "blob", 7, 1),
    "CheckpointTaken": e.CheckpointTaken("half#1", 1, "half", ONE, "blob", 1, "5a", "/w", STOOD),
    "FilesSaved": e.FilesSaved("5a", "taken_back", "/w", "sh#1", 1, "5b", 3, ("mine",), STOOD, "m", "5c"),
    "Emitted": e.Emitted("tokens", ONE, "tokens#1", 1, "ask#1", 2, 1),
    "PatchSeen": e.PatchSeen("patched@fix", "fix", 1),
    "StageEntered": e.StageEntered("stage#1", 1, "review", 1),
    "OutcomeReported": e.OutcomeReported(
        "outcome#1", 1, "router", "draft", ("small",), False, Decimal("0.0021"), "ValueError", 1
    ),
    "EvidenceWritten": e.EvidenceWritten(
        "made#1",
        "made",
        "d",
        "b",
        "observed",
        (e.ObservedCommand("r", "sh#1", 2),),
        3,
        9,
        "5a",
        {"a.png": "s"},
        1,
    ),
    "EvidenceVerified": e.EvidenceVerified(
        "made#1", "d", "equal", "milestone", "ann", (e.CommandChecked("r", "sh#1", "equal", "why"),), 1
    ),
    "OutputCaptured": e.OutputCaptured("a#1", 1, "stdout", "línea\n"),
    "WaitAbandoned": e.WaitAbandoned("send#1", 1),
    "OutcomeDelivered": e.OutcomeDelivered("send#1", 1),
    "TimerFired": e.TimerFired("branch[1]/", 2, 4, 1),
    "OperationBegun": e.OperationBegun("undo", "r", "ann", "a#1", "op"),
    "FilesPlanned": e.FilesPlanned("/w", "5a", "5b", "5c", 9, ("*.py",), True, True),
    "FilesForgotten": e.FilesForgotten(),
    "GitPlanned": e.GitPlanned("/w", STOOD, STOOD, STOOD),
    "GitApplied": e.GitApplied("/w", STOOD, STOOD),
    "FilesApplied": e.FilesApplied("/w", "5a", "5b", "5c"),
    "StateApplied": e.StateApplied(0, 1),
    "TasksApplied": e.TasksApplied((e.TaskMove("t", 3, 2),)),
    "LinksApplied": e.LinksApplied((e.LinkMove("t", "u"),), (e.LinkMove("u", "v", "parent"),)),
    "MemoryApplied": e.MemoryApplied(("a",), ("b",)),
    "OperationDone": e.OperationDone(),
    "OperationDropped": e.OperationDropped("the run has continued"),
    **{
        name: msgspec.convert(
            {field.name: FIELDS[field.name] for field in msgspec.structs.fields(cls)}
            | ({"kind": "fact"} if name == "Remembered" else {}),
            cls,
            strict=False,
        )
        for name, cls in families.TYPES.items()
    },
}


@pytest.mark.parametrize("name", e.all_types())
def test_every_event_comes_back_as_it_was(name):
    """Encode and decode are inverse for each type, under the type's own name."""
    event = EXAMPLES[name]
    assert e.type_of(event) == name
    assert e.decode(name, e.encode(event)) == event


def test_defaults_are_not_stored_and_null_is_a_value():
    """An absent result and a result of None are two things, and defaults cost no bytes."""
    assert e.encode(e.StepCompleted("a#1")) == '{"key":"a#1"}'
    assert e.encode(e.StepCompleted("a#1", msgspec.Raw(b"null"))) == '{"key":"a#1","result":null}'
    assert e.decode("StepCompleted", '{"key":"a#1"}').result == e.NOTHING
    assert e.encode(e.StepRan("a#1", "a", 7)) == '{"key":"a#1","name":"a","started_at":7}'
    assert e.decode("StepRan", '{"key":"a#1","name":"a","started_at":7}').result == e.NOTHING


def test_an_event_of_a_newer_version_is_kept_and_skipped():
    """An unknown type round-trips to the letter; the state only moves its version and time."""
    event = e.decode("StepTeleported.2", '{"to": [1, 2]}')
    assert event == e.Unknown("StepTeleported.2", '{"to": [1, 2]}')
    assert (e.type_of(event), e.encode(event)) == ("StepTeleported.2", '{"to": [1, 2]}')
    history = History(CREATE, CLAIM, c.StartStep("a#1", "a"))
    before = copy.deepcopy(history.state)
    history.add(event)
    assert (history.state.version, history.state.updated_at) == (4, 40)
    before.version, before.updated_at = 4, 40
    assert history.state == before


def test_a_field_of_a_newer_version_is_skipped():
    """A known event with a field more is read without it."""
    assert e.decode("SleepEnded", '{"key":"s","mood":"rested"}') == e.SleepEnded("s")


def test_a_history_that_cannot_be_is_impossible():
    """A run that begins without RunCreated, is created twice, or speaks of a step that never started."""
    with pytest.raises(Impossible, match="begins with RunCreated"):
        fold([(e.RunClaimed("ann", 1), 1, 1)])
    with pytest.raises(Impossible, match="exists"):
        fold([(e.RunCreated(CODE, "d"), 1, 1), (e.RunCreated(CODE, "d"), 2, 2)])
    for event in (
        e.StepCompleted("a#1"),
        e.StepFailed("a#1", NO),
        e.SleepEnded("a#1"),
        e.StepReopened("a#1"),
    ):
        with pytest.raises(Impossible, match="never started"):
            fold([(e.RunCreated(CODE, "d"), 1, 1), (event, 2, 2)])
    assert fold([]) is None


# Runs


def test_the_way_of_a_run():
    """pending → running → sleeping → running → needs_attention → running → completed."""
    history = History(CREATE)
    assert history.state.status == "pending"
    seen = []
    for command in (
        CLAIM,
        c.Record(e.SleepStarted("sleep#1", 1, 99)),
        c.Record(e.SleepEnded("sleep#1")),
        c.StartStep("pay#1", "pay", effect="once"),
        c.DoubtStep("r", "pay#1", "was cut off"),
        c.AttendRun("in_doubt", "look", "pay#1"),
        c.SettleStep("r", "pay#1", "done"),
        c.CompleteRun(ONE),
    ):
        history.do(command)
        seen.append(history.state.status)
    assert seen == [
        "running", "sleeping", "running", "running", "running", "needs_attention", "running", "completed",
    ]  # fmt: skip
    assert (history.state.result, history.state.owner, history.state.ended) == (ONE, "", True)


def test_a_run_is_created_once():
    """The same id with the same workflow and arguments is the same run, wherever its code lies now."""
    history = History(CREATE)
    assert history.do(CREATE) == []
    with pytest.raises(RunExists, match="other arguments"):
        history.do(c.CreateRun("r", CODE, "other"))
    with pytest.raises(RunExists, match="another workflow"):
        history.do(c.CreateRun("r", e.Code("other"), "d"))
    for code in (e.Code("flow", cwd="/elsewhere"), e.Code("flow", "module"), e.Code("flow", script="a.py")):
        assert history.do(c.CreateRun("r", code, "d")) == []


def test_nothing_can_be_asked_of_a_run_that_is_not_there():
    """Every command but CreateRun raises RunNotFound with the id."""
    with pytest.raises(RunNotFound) as caught:
        decide(None, CLAIM)
    assert caught.value.run_id == "r"


def test_a_claim_fences_off_the_owner_before():
    """A live owner is not robbed; a dead one is; by force any; each claim has the next epoch."""
    history = History(CREATE, CLAIM)
    assert history.do(CLAIM) == []
    with pytest.raises(RunHeld):
        history.do(c.ClaimRun("r", "bob"))
    with pytest.raises(RunHeld):
        history.do(c.ClaimRun("r", "bob", dead="carl"))
    assert history.do(c.ClaimRun("r", "bob", dead="ann")) == [e.RunClaimed("bob", 2, "ann", ordered=True)]
    assert history.do(c.ClaimRun("r", "carl", force=True)) == [
        e.RunClaimed("carl", 3, "bob", True, ordered=True)
    ]
    assert history.state.epoch == 3


def test_claims_without_progress_are_counted():
    """Takeovers add up until something moves, or a driver lives to release the run."""
    history = History(CREATE, CLAIM, c.ClaimRun("r", "bob", "ann"), c.ClaimRun("r", "ann", "bob"))
    assert history.state.stalls == 3
    history.do(c.StartStep("a#1", "a"))
    assert history.state.stalls == 3, "a step that begins and kills its process is what a crash loop is"
    history.do(c.CompleteStep("a#1", ONE))
    assert history.state.stalls == 0
    history.do(c.ClaimRun("r", "bob", "ann"))
    history.do(c.ReleaseRun("r", "bob"))
    assert (history.state.stalls, history.state.owner, history.state.epoch) == (0, "", 4)


def test_only_the_owner_releases():
    """A release by somebody else changes nothing."""
    history = History(CREATE, CLAIM)
    assert history.do(c.ReleaseRun("r", "bob")) == []
    assert history.do(c.ReleaseRun("r", "ann", "parked")) == [e.RunReleased("ann", "parked")]
    assert history.state.status == "running"


@pytest.mark.parametrize("end", [c.CompleteRun(ONE), c.FailRun(NO), c.CancelRun("r", "enough")])
def test_an_ended_run_stays_ended(end):
    """Nothing executes in it, ends it again, or claims it."""
    history = History(CREATE, CLAIM, end)
    assert history.state.owner == ""
    for command in (
        CLAIM,
        c.StartStep("a#1", "a"),
        c.RunStep(e.StepRan("a#1", "a", 1)),
        c.CompleteRun(),
        c.FailRun(NO),
        c.CancelRun("r"),
        c.AttendRun("x", "y"),
    ):
        with pytest.raises(Refused):
            history.do(command)


def test_a_failed_run_is_reopened_with_the_steps_that_ended_it():
    """Only those steps are tried again: the same generation, attempts counted on, failures from zero."""
    history = History(CREATE, CLAIM)
    for key in ("a#1", "b#1", "c#1"):
        history.do(c.StartStep(key, key[0]))
    history.do(c.CompleteStep("a#1"))
    history.do(c.FailAttempt("b#1", NO))
    history.do(c.FailAttempt("c#1", NO))
    history.do(c.FailRun(NO, ("b#1",)))
    assert history.do(c.ReopenRun("r")) == [e.StepReopened("b#1"), e.RunReopened()]
    assert history.do(c.ReopenRun("r")) == []
    state = history.state
    assert (state.status, state.error, state.failed_steps) == ("running", None, ())
    assert [(step.status, step.failures) for step in state.steps.values()] == [
        ("completed", 0), ("reopened", 0), ("failed", 1),
    ]  # fmt: skip
    history.do(CLAIM)
    assert history.do(c.StartStep("b#1", "b"))[0].attempt == 2


def test_a_run_can_fail_with_a_step_it_does_not_have():
    """An error may carry the mark of another run's step (a child's): reopening passes over it."""
    history = History(CREATE, CLAIM, c.FailRun(NO, ("other#1",)))
    assert history.do(c.ReopenRun("r")) == [e.RunReopened()]


def test_only_failed_steps_are_reopened():
    """A run may end by an error that a step raised in vain: one that completed is not tried again."""
    history = History(CREATE, CLAIM, c.StartStep("a#1", "a"), c.CompleteStep("a#1"), c.FailRun(NO, ("a#1",)))
    assert history.do(c.ReopenRun("r")) == [e.RunReopened()]


def test_a_cancelled_run_can_be_reopened():
    """Its reason is gone when it is claimed again."""
    history = History(CREATE, c.CancelRun("r", "enough"))
    assert (history.state.status, history.state.reason) == ("cancelled", "enough")
    history.do(c.ReopenRun("r"))
    history.do(CLAIM)
    assert (history.state.status, history.state.reason) == ("running", "")


def test_a_claim_of_a_sleeping_run_leaves_it_asleep():
    """It is running again when its last sleep has ended."""
    assert (
        status_after(CLAIM, c.Record(e.SleepStarted("s#1", 1, 9)), c.ReleaseRun("r", "ann"), CLAIM)
        == "sleeping"
    )
    two = (
        CLAIM,
        c.Record(e.SleepStarted("s#1", 1, 9)),
        c.Record(e.SleepStarted("s#2", 2, 9)),
        c.Record(e.SleepEnded("s#1")),
    )
    assert status_after(*two) == "sleeping"
    assert status_after(*two, c.Record(e.SleepEnded("s#2"))) == "running"
    for command in (
        c.StartStep("s#2", "s"),
        c.Record(e.SleepStarted("s#2", 2, 9)),
        c.Record(e.SleepEnded("s#1")),
    ):
        with pytest.raises(Refused):
            status_after(*two, command)


# Steps


def test_the_attempts_of_a_step():
    """Attempts count up; failures are kept with the time of the next try; success ends it for good."""
    history = History(CREATE, CLAIM, c.StartStep("a#1", "a", "d", 1))
    step = history.state.steps["a#1"]
    assert (step.status, step.attempt, step.started_at, step.first_started_at) == ("running", 1, 30, 30)
    history.do(c.FailAttempt("a#1", NO, retry_at=77))
    assert (step.status, step.failures, step.due_at, step.error, step.ended_at) == ("retrying", 1, 77, NO, 40)
    history.do(c.StartStep("a#1", "a", "d", 1))
    assert (step.attempt, step.due_at, step.error, step.ended_at) == (2, 0, None, 0)
    assert (step.started_at, step.first_started_at) == (50, 30)
    assert history.do(c.CompleteStep("a#1", ONE)) == [e.StepCompleted("a#1", ONE, attempt=2)]
    assert (step.status, step.result, step.failures) == ("completed", ONE, 1)
    for command in (
        c.StartStep("a#1", "a"),
        c.CompleteStep("a#1"),
        c.FailAttempt("a#1", NO),
        c.CaptureOutput("a#1", "stdout", ""),
    ):
        with pytest.raises(Refused):
            history.do(command)


def test_a_step_that_was_running_at_a_crash_starts_again():
    """The next attempt of a step whose end nobody recorded."""
    assert step_after("a#1", c.StartStep("a#1", "a"), c.StartStep("a#1", "a")).attempt == 2


def test_a_step_that_ran_is_what_it_would_be_in_two_events():
    """One event instead of two leaves the same step, at the same place, and the same run."""
    one = History(CREATE, CLAIM, c.ClaimRun("r", "bob", "ann"))
    two = copy.deepcopy(one)
    ran = e.StepRan("b[1]/a#1", "a", 40, "d", 2, ONE, "1", 1, ONE, "blob", secret=True)
    assert one.do(c.RunStep(ran)) == [ran]
    two.do(c.StartStep("b[1]/a#1", "a", "d", 2, args=ONE, preview="1", size=1))
    two.do(c.CompleteStep("b[1]/a#1", ONE, "blob", secret=True))
    step = one.state.steps["b[1]/a#1"]
    assert (step.status, step.started_at, step.ended_at, step.version) == ("completed", 40, 40, 4)
    assert (one.state.stalls, one.state.order) == (0, {("b[1]/", 2): "b[1]/a#1"})
    step.ended_at, step.version = 50, 5
    one.state.version, one.state.updated_at = 5, 50
    assert one.state == two.state


def test_a_step_that_ran_is_new():
    """Not one that began, ended, sleeps or was recorded before, and not one of another generation."""
    history = History(CREATE, CLAIM, c.StartStep("a#1", "a"), c.Record(e.ValueRecorded("now#1", 1, ONE)))
    history.do(c.Record(e.SleepStarted("s#1", 2, 9)))
    history.do(c.RunStep(e.StepRan("b#1", "b", 1)))
    for key in ("a#1", "now#1", "s#1", "b#1"):
        with pytest.raises(Refused, match=f"step {key} is .*; it is not a new one"):
            history.do(c.RunStep(e.StepRan(key, "a", 1)))
    with pytest.raises(Refused, match="of generation 1, not 0"):
        history.do(c.RunStep(e.StepRan("c#1", "c", 1, generation=1)))
    for command in (
        c.StartStep("b#1", "b"),
        c.CompleteStep("b#1"),
        c.FailAttempt("b#1", NO),
        c.Record(e.ValueRecorded("b#1", 3, ONE)),
        c.Record(e.SleepStarted("b#1", 3, 9)),
        c.SettleStep("r", "b#1", "retry", abandoned=True),
    ):
        with pytest.raises(Refused):
            history.do(command)


def test_nothing_executes_without_an_owner():
    """Steps and sleeps need one; ending the run too; cancelling does not."""
    history = History(CREATE)
    for command in (
        c.StartStep("a#1", "a"),
        c.RunStep(e.StepRan("a#1", "a", 1)),
        c.Record(e.SleepStarted("s#1", 1, 9)),
        c.CompleteRun(),
        c.FailRun(NO),
        c.AttendRun("x", "y"),
    ):
        with pytest.raises(Refused, match="no owner"):
            history.do(command)
    assert history.do(c.CancelRun("r")) == [e.RunCancelled()]


def test_a_step_must_run_before_it_ends():
    """Completing, failing or doubting a step that never started is refused by name."""
    history = History(CREATE, CLAIM)
    for command in (c.CompleteStep("a#1"), c.FailAttempt("a#1", NO), c.Record(e.SleepEnded("a#1"))):
        with pytest.raises(Refused, match="a#1"):
            history.do(command)
    for command in (c.DoubtStep("r", "a#1", "why"), c.SettleStep("r", "a#1", "done")):
        with pytest.raises(StepNotFound):
            history.do(command)


@pytest.mark.parametrize(
    ("outcome", "status", "result", "error"),
    [
        ("done", "completed", ONE, None),
        ("fail", "failed", e.NOTHING, NO),
        ("retry", "reopened", e.NOTHING, None),
    ],
)
def test_a_step_in_doubt_is_settled(outcome, status, result, error):
    """By a person: done with a value, failed with an error, or to be tried again; once."""
    history = History(CREATE, CLAIM, c.StartStep("pay#1", "pay", effect="once"))
    history.do(c.DoubtStep("r", "pay#1", "was cut off", verifiable=True))
    step = history.state.steps["pay#1"]
    assert (step.status, step.why, step.verifiable) == ("in_doubt", "was cut off", True)
    assert history.do(c.DoubtStep("r", "pay#1", "again")) == []
    settle = c.SettleStep("r", "pay#1", outcome, "ann", result, error=error)
    history.do(settle)
    assert (step.status, step.result, step.error, step.why) == (status, result, error, "")
    with pytest.raises(Refused, match="not in doubt"):
        history.do(settle)


def test_a_once_step_of_a_dead_owner_is_in_doubt_when_it_is_settled():
    """Settling may find it still running: only if its owner is known to be dead, and only a once step."""
    history = History(CREATE, CLAIM, c.StartStep("pay#1", "pay", effect="once"), c.StartStep("a#1", "a"))
    with pytest.raises(Refused):
        history.do(c.SettleStep("r", "pay#1", "retry"))
    with pytest.raises(Refused):
        history.do(c.SettleStep("r", "a#1", "retry", abandoned=True))
    events = history.do(c.SettleStep("r", "pay#1", "retry", abandoned=True))
    assert [type(event) for event in events] == [e.StepInDoubt, e.StepSettled]


def test_a_run_that_lost_its_history_waits():
    """Without an owner, too; a `once` step that was under way is in doubt. One that has ended stays."""
    once = c.StartStep("pay#1", "pay", effect="once")
    history = History(CREATE, CLAIM, once, c.ReleaseRun("r", "ann"))
    events = history.do(c.LoseHistory("versions 3 to 7 were lost"))
    assert [type(event) for event in events] == [e.StepInDoubt, e.RunNeedsAttention]
    assert (history.state.status, history.state.cause, history.state.attention_step) == (
        "needs_attention",
        "history_lost",
        "pay#1",
    )
    assert History(CREATE, CLAIM, c.CompleteRun()).do(c.LoseHistory("x")) == []


def test_attention_for_doubt_ends_with_the_last_doubt():
    """Two steps in doubt need two settlements; attention for another cause stays."""
    once = [c.StartStep(f"pay#{n}", "pay", effect="once") for n in (1, 2)]
    doubts = [c.DoubtStep("r", f"pay#{n}", "why") for n in (1, 2)]
    settles = [c.SettleStep("r", f"pay#{n}", "done") for n in (1, 2)]
    attend = c.AttendRun("in_doubt", "look", "pay#1")
    assert status_after(CLAIM, *once, *doubts, attend, settles[0]) == "needs_attention"
    state = History(CREATE, CLAIM, *once, *doubts, attend, *settles).state
    assert (state.status, state.reason, state.cause, state.attention_step) == ("running", "", "", "")
    assert status_after(CLAIM, *once, *doubts, c.AttendRun("divergence", "x"), *settles) == "needs_attention"


def test_values_are_steps_that_are_done_at_once():
    """A recorded value has a place in the order, and a key is taken once."""
    history = History(CREATE, CLAIM, c.Record(e.ValueRecorded("now#1", 2, ONE)))
    step = history.state.steps["now#1"]
    assert (step.kind, step.status, step.result, history.state.order) == (
        "value",
        "completed",
        ONE,
        {("", 2): "now#1"},
    )
    for command in (
        c.Record(e.ValueRecorded("now#1", 2, ONE)),
        c.Record(e.SleepStarted("now#1", 2, 9)),
        c.StartStep("now#1", "now"),
    ):
        with pytest.raises(Refused):
            history.do(command)


def test_the_order_of_a_scope_is_kept():
    """Calls with an ordinal have their place in their scope; keyed ones (0) have none."""
    starts = [
        c.StartStep("a#1", "a", ordinal=1),
        c.StartStep("b[1]/a#1", "a", ordinal=1),
        c.StartStep("a@key", "a", ordinal=0),
    ]
    state = History(CREATE, CLAIM, *starts).state
    assert state.order == {("", 1): "a#1", ("b[1]/", 1): "b[1]/a#1"}


# Rewinding


def test_a_rewind_opens_a_generation_from_what_was_recorded_before_the_point():
    """Steps recorded after the point run again; the run is paused, without owner, result or error."""
    history = History(CREATE, CLAIM)
    for ordinal, key in enumerate(("a#1", "b#1"), 1):
        history.do(c.StartStep(key, key[0], ordinal=ordinal))
        history.do(c.CompleteStep(key, ONE))
    history.do(c.CompleteRun(ONE))
    history.add(e.Rewound(1, 0, 4))
    state = history.state
    assert (state.status, state.reason, state.owner, state.generation) == ("paused", "rewound", "", 1)
    assert (list(state.steps), state.result, state.order) == (["a#1"], e.NOTHING, {("", 1): "a#1"})
    history.do(CLAIM)
    assert history.do(c.StartStep("b#1", "b"))[0].generation == 1


def test_a_rewind_can_go_back_to_an_older_generation():
    """What a rewind left behind is still there to go back to, as that generation recorded it."""
    history = History(
        CREATE, CLAIM, c.StartStep("a#1", "a"), c.StartStep("b#1", "b"), c.CompleteStep("b#1", ONE)
    )
    history.add(e.Rewound(1, 0, 3))
    history.do(CLAIM)
    history.do(c.CompleteStep("a#1", ONE))
    assert {key: step.status for key, step in history.state.steps.items()} == {"a#1": "completed"}
    history.add(e.Rewound(2, 0, 5))
    assert {key: step.status for key, step in history.state.steps.items()} == {
        "a#1": "running", "b#1": "completed",
    }  # fmt: skip


def test_a_rewind_takes_over_steps_that_ran():
    """Like any other: those before the point are there, those after it can run in the new generation."""
    rans = [e.StepRan(key, key[0], 1, ordinal=n, result=ONE) for n, key in enumerate(("a#1", "b#1"), 1)]
    history = History(CREATE, CLAIM, *map(c.RunStep, rans))
    taken = copy.deepcopy(history.state.steps["a#1"])
    history.add(e.Rewound(1, 0, 3))
    history.do(CLAIM)
    assert (history.state.steps, history.state.order) == ({"a#1": taken}, {("", 1): "a#1"})
    for ran in rans:
        with pytest.raises(Refused):
            history.do(c.RunStep(ran))
    history.do(c.RunStep(e.StepRan("b#1", "b", 2, ordinal=2, generation=1)))
    assert history.state.order == {("", 1): "a#1", ("", 2): "b#1"}
    history.add(e.Rewound(2, 0, 9))
    assert [step.version for step in history.state.steps.values()] == [3, 4]


# Identity


def test_a_step_is_its_scope_its_name_and_its_occurrence():
    """Occurrences count per name, ordinals over all calls, branches per name."""
    root = Counters()
    assert [root.key("a"), root.key("b"), root.key("a")] == ["a#1", "b#1", "a#2"]
    assert root.ordinal == 3
    branches = [root.child("b"), root.child("b"), root.child("c")]
    assert [branch.path for branch in branches] == ["b[1]/", "b[2]/", "c[1]/"]
    assert branches[1].key("a") == "b[2]/a#1"
    assert branches[1].child("d").key("a") == "b[2]/d[1]/a#1"
    assert (root.ordinal, branches[1].ordinal) == (3, 1)


@pytest.mark.parametrize(
    ("key", "scope"), [("a#1", ""), ("b[2]/a#1", "b[2]/"), ("b[2]/d[1]/a@k", "b[2]/d[1]/"), ("", "")]
)
def test_the_scope_of_an_identity(key, scope):
    """All up to the last slash."""
    assert scope_of(key) == scope


@given(
    st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=128).filter(
        lambda text: text not in (".", "..")
    )
)
def test_run_ids_that_are_ids(text):
    """1 to 128 letters, digits, dots, dashes and underscores are returned as they are."""
    assert check_run_id(text) == text


@pytest.mark.parametrize("text", ["", ".", "..", "a" * 129, "a b", "a/b", "a\n", "ü", "a\0", "@store", "%"])
def test_run_ids_that_are_none(text):
    """Everything else is refused, and shown."""
    with pytest.raises(BadRunId) as caught:
        check_run_id(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("key", ["order-7", "ü", 7, "a.b:c", "x" * 200])
def test_step_keys_that_are_keys(key):
    """Any text form that cannot be mistaken for a part of an identity."""
    assert check_step_key(key) == str(key)


@pytest.mark.parametrize(
    "key", ["", " ", "a/b", "a#1", "a@b", "a[1", "a]", "a\n", "a\0", "x" * 201, None.__class__]
)
def test_step_keys_that_are_none(key):
    """What would blur identities is refused."""
    with pytest.raises(BadInput):
        check_step_key(key)
