"""Generations: what a rewind takes back, what a restored one brings back, and what must not run again."""

import copy

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.errors import HoldfastError, OnceAgain, Refused, RunHeld, StepNotFound
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel import operation
from holdfast.kernel.decide import decide
from holdfast.kernel.evolve import Impossible, evolve, fold
from holdfast.kernel.state import Generation
from holdfast.testing.strategies import commands_for, fitting, moved

CLAIM = c.ClaimRun("r", "ann")
ONE = msgspec.Raw(b"1")


def fold_commands(*commands, state=None):
    state = state or fold([(e.RunCreated(e.Code("flow"), "d"), 1, 10)])
    for command in commands:
        for event in decide(state, fitting(state, command)):
            evolve(state, event, state.version + 1, (state.version + 1) * 10)
    return state


def ran(key, ordinal, effect="idempotent"):
    return (
        c.StartStep(key, key.partition("#")[0], ordinal=ordinal, effect=effect),
        c.CompleteStep(key, ONE),
    )


def three_steps(effect="idempotent"):
    return fold_commands(CLAIM, *ran("a#1", 1), *ran("b#1", 2, effect), *ran("c#1", 3), c.CompleteRun(ONE))


def what_comes_back(state):
    """All that a restored generation must be as it was."""
    return copy.deepcopy({name: getattr(state, name) for name in Generation.__struct_fields__})


def test_a_rewind_keeps_the_step_and_takes_back_what_came_after():
    """The step itself is kept; the run is paused; the next generation and the next epoch."""
    state = three_steps()
    assert decide(state, c.RewindRun("r", "b#1", "op")) == [e.Rewound(1, 0, 6, state.epoch + 1, "op")]
    epoch = state.epoch
    fold_commands(c.RewindRun("r", "b#1"), state=state)
    assert (list(state.steps), state.status, state.reason) == (["a#1", "b#1"], "paused", "rewound")
    assert (state.generation, state.epoch, state.owner, state.result) == (1, epoch + 1, "", e.NOTHING)


def test_a_rewind_to_a_version_keeps_what_was_recorded_up_to_it():
    """Whether or not a step ended there, and also before the first."""
    state = three_steps()
    assert decide(state, c.RewindRun("r", "before:b#1", at=4)) == [e.Rewound(1, 0, 4, state.epoch + 1)]
    fold_commands(c.RewindRun("r", "before:b#1", at=4), state=state)
    assert list(state.steps) == ["a#1"]
    fold_commands(c.RewindRun("r", "start", at=1), state=state)
    assert (list(state.steps), state.generation) == ([], 2)


def test_a_live_owner_is_not_robbed_and_a_dead_one_is_fenced_off():
    """The owner that was found dead may be named, no other."""
    state = fold_commands(CLAIM, *ran("a#1", 1))
    for move in (c.RewindRun("r", "a#1"), c.RewindRun("r", "a#1", dead="bob")):
        with pytest.raises(RunHeld):
            decide(state, move)
    fold_commands(c.RewindRun("r", "a#1", dead="ann"), state=state)
    assert (state.owner, state.epoch) == ("", 2)


def test_only_a_step_that_has_ended_is_a_point():
    """One that is not there, and one that runs, are refused."""
    state = fold_commands(CLAIM, c.StartStep("a#1", "a"), c.ReleaseRun("r", "ann"))
    with pytest.raises(StepNotFound):
        decide(state, c.RewindRun("r", "b#1"))
    with pytest.raises(Refused, match="is running"):
        decide(state, c.RewindRun("r", "a#1"))


@pytest.mark.parametrize(
    "end", [(c.CompleteStep("pay#1", ONE),), (c.DoubtStep("r", "pay#1", "cut off"),), ()]
)
def test_a_once_step_that_may_have_happened_runs_again_only_if_somebody_says_so(end):
    """Completed, in doubt, or cut off while it ran: each is named; a failed one is not."""
    state = fold_commands(CLAIM, *ran("a#1", 1), c.StartStep("pay#1", "pay", effect="once"), *end)
    with pytest.raises(OnceAgain) as caught:
        decide(state, c.RewindRun("r", "a#1", dead="ann"))
    assert (caught.value.steps, caught.value.run_id) == (("pay#1",), "r")
    assert decide(state, c.RewindRun("r", "a#1", dead="ann", rerun_once=True))


def test_a_once_step_before_the_point_is_kept():
    state = three_steps("once")
    assert decide(state, c.RewindRun("r", "b#1"))


def test_decisions_and_signals_after_the_point_no_longer_count():
    """A gate that was decided later is not there; a signal that it had taken is free again if it came
    before the point, and gone if it came after."""
    state = fold_commands(
        CLAIM,
        c.SendSignal("r", "go", ONE),
        *ran("a#1", 1),
        c.Record(e.GateOpened("go#1", 2, "signal", "go")),
        c.Record(e.GateOpened("send#1", 3, "approval", "send")),
        c.DecideGate("r", "approved"),
        c.SendSignal("r", "late", ONE),
        c.RewindRun("r", "a#1", dead="ann"),
    )
    assert (list(state.steps), state.waiters) == (["a#1"], 0)
    assert [(one.name, one.taken_by) for one in state.signals.values()] == [("go", "")]


def test_a_restored_generation_is_as_it_was_left():
    """Status, result, steps, signals; it continues under its own number; what was live is put aside, and
    comes back by the same way."""
    state = three_steps()
    before = what_comes_back(state)
    fold_commands(c.RewindRun("r", "a#1"), CLAIM, *ran("b#1", 2), state=state)
    newer = what_comes_back(state)
    fold_commands(c.RestoreGeneration("r", 0, 1, dead="ann"), state=state)
    assert (what_comes_back(state), state.generation, state.owner, state.epoch) == (before, 0, "", 4)
    assert (state.order[("", 3)], list(state.past)) == ("c#1", [1])
    fold_commands(c.RestoreGeneration("r", 1, 0), state=state)
    assert (what_comes_back(state), state.generation) == (newer, 1)
    fold_commands(c.RewindRun("r", "a#1"), state=state)
    assert (state.generation, sorted(state.past)) == (2, [0, 1])


def test_only_the_live_generation_is_left_and_only_one_that_was_left_comes_back():
    """Something else was done meanwhile, or there is no such generation: refused."""
    state = three_steps()
    fold_commands(c.RewindRun("r", "a#1"), state=state)
    for command in (c.RestoreGeneration("r", 0, 0), c.RestoreGeneration("r", 7, 1)):
        with pytest.raises(Refused, match="generation 1"):
            decide(state, command)
    with pytest.raises(Impossible, match="never left"):
        evolve(state, e.GenerationRestored(7), state.version + 1, 1)


def test_what_was_done_once_since_does_not_run_again_unsaid():
    """An unfinished generation that comes back would come to the `once` step again; a completed one would
    not."""
    state = fold_commands(CLAIM, *ran("a#1", 1), c.RewindRun("r", "a#1", dead="ann"), CLAIM)
    fold_commands(*ran("pay#1", 2, "once"), c.ReleaseRun("r", "ann"), state=state)
    with pytest.raises(OnceAgain, match="pay#1"):
        decide(state, c.RestoreGeneration("r", 0, 1))
    assert decide(state, c.RestoreGeneration("r", 0, 1, rerun_once=True))
    finished = three_steps("once")
    fold_commands(c.RewindRun("r", "a#1", rerun_once=True), CLAIM, *ran("b#1", 2, "once"), state=finished)
    assert decide(finished, c.RestoreGeneration("r", 0, 1, dead="ann"))


def test_what_a_generation_that_was_put_aside_did_once_is_not_forgotten():
    """Neither by the next rewind nor by an undo, unless what is kept has it."""
    state = fold_commands(CLAIM, *ran("a#1", 1), c.RewindRun("r", "a#1", dead="ann"), CLAIM)
    fold_commands(*ran("pay#1", 2, "once"), c.CompleteRun(ONE), state=state)
    fold_commands(c.RestoreGeneration("r", 0, 1, rerun_once=True), state=state)
    with pytest.raises(OnceAgain, match="pay#1"):
        decide(state, c.RewindRun("r", "a#1"))
    fold_commands(c.RewindRun("r", "a#1", rerun_once=True), CLAIM, *ran("pay#1", 2, "once"), state=state)
    assert decide(state, c.RewindRun("r", "pay#1", dead="ann"))


def test_a_step_that_was_begun_before_the_point_is_of_the_generation_in_which_it_began():
    """Kept as begun and tried again, it has the key that it may have been called with; one that begins
    anew is of the new generation."""
    state = fold_commands(CLAIM, c.StartStep("slow#1", "slow", ordinal=1), *ran("a#1", 2), *ran("b#1", 3))
    fold_commands(c.RewindRun("r", "a#1", dead="ann"), CLAIM, c.StartStep("slow#1", "slow"), state=state)
    fold_commands(*ran("b#1", 3), state=state)
    assert {key: step.generation for key, step in state.steps.items()} == {"slow#1": 0, "a#1": 0, "b#1": 1}


def test_a_forked_run_waits_for_somebody_to_resume_it():
    state = fold_commands(CLAIM, c.ReleaseRun("r", "ann"))
    evolve(state, e.RunForked("origin", "a#1", 7), 4, 40)
    assert (state.status, state.reason) == ("paused", "forked from origin")


@settings(max_examples=80, deadline=None)
@given(
    st.lists(commands_for("r") | st.integers(0, 12), max_size=40), st.lists(commands_for("r"), max_size=20)
)
@example([c.SendSignal("r", "go", ONE)], [])
@example([], [c.SendSignal("r", "go", ONE)])
def test_an_undone_rewind_gives_back_everything_whatever_happened_since(before, between):
    """From any state: rewind, any commands, restore: all that belongs to the generation is as it was."""
    state = fold_commands(CLAIM)
    for one in before:
        try:
            if isinstance(one, int):
                evolve(state, moved(state, one), state.version + 1, 1)
            else:
                fold_commands(one, state=state)
        except HoldfastError:
            pass
    left, then = what_comes_back(state), state.generation
    evolve(state, moved(state, 1), state.version + 1, 1)
    opened = state.generation
    for one in between:
        if isinstance(one, (c.RewindRun, c.RestoreGeneration)):
            continue
        try:
            fold_commands(one, state=state)
        except HoldfastError:
            pass
    assert opened == state.generation
    evolve(state, e.GenerationRestored(then), state.version + 1, 1)
    assert (what_comes_back(state), state.generation) == (left, then)
    assert state.sleepers == sum(step.status == "sleeping" for step in state.steps.values())
    assert state.waiters == len(state.open_gates())


def test_an_operation_is_begun_applied_and_done():
    """What its events add up to; an event of a newer version changes nothing."""
    events = [e.OperationBegun("rewind", "r", "ann", "a#1"), e.Unknown("FilesApplied", "{}")]
    assert operation.fold([]) is None
    state = operation.fold([(event, n, n * 10) for n, event in enumerate(events, 1)])
    assert state == operation.OperationState("rewind", "r", "ann", "a#1", "", 10)
    state = operation.evolve(state, e.StateApplied(0, 1), 30)
    state = operation.evolve(state, e.OperationDone(), 40)
    assert (state.status, state.left, state.opened) == ("done", 0, 1)
