"""What steps use: exact sums for each model, by attempt, step and run."""

from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.decide import Refused, decide
from holdfast.kernel.events import Failure
from holdfast.kernel.evolve import evolve
from holdfast.kernel.measures import Measured, added, as_data
from holdfast.testing.strategies import MEASURES

NO = Failure("builtins:ValueError", "no")


def test_sums_are_kept_for_each_model():
    sums = added(
        (Measured("small", 1, 2, Decimal("0.1")),),
        [Measured("large", 5, 6, Decimal("1.00"), {"pages": 1}), Measured("small", 3, 4, Decimal("0.2"))],
    )
    assert sums == (
        Measured("small", 4, 6, Decimal("0.3")),
        Measured("large", 5, 6, Decimal("1.00"), {"pages": 1}),
    )


def test_sums_are_exact_whatever_the_program_has_set():
    """0.1 and 0.2 make 0.3, and no digit is lost to a context of few digits."""
    with localcontext() as context:
        context.prec = 3
        sums = (Measured(usd=Decimal(1000000)),)
        for _ in range(10):
            sums = added(sums, (Measured(usd=Decimal("0.0001"), units={"s": Decimal("0.1")}),))
    assert sums == (Measured(usd=Decimal("1000000.0010"), units={"s": Decimal("1.0")}),)


def test_a_price_that_is_not_known_changes_none():
    assert added((Measured(),), (Measured(),))[0].usd is None
    assert added((Measured(usd=Decimal(1)),), (Measured(),))[0].usd == 1
    assert added((Measured(),), (Measured(usd=Decimal(1)),))[0].usd == 1


@given(st.lists(MEASURES), st.lists(MEASURES))
def test_parts_add_up_to_the_whole(first, second):
    by_model = {one.model: one for one in added(added((), first), second)}
    assert by_model == {one.model: one for one in added((), [*first, *second])}
    assert sum(one.input_tokens for one in by_model.values()) == sum(
        one.input_tokens for one in (*first, *second)
    )


def test_as_data_has_no_float_and_no_exponent():
    assert as_data([Measured("m", 1, 2, Decimal("1E+2"), {"pages": 3, "s": Decimal("0.5")}), Measured()]) == [
        {
            "model": "m",
            "input_tokens": 1,
            "output_tokens": 2,
            "usd": "100",
            "units": {"pages": 3, "s": "0.5"},
        },
        {"model": None, "input_tokens": 0, "output_tokens": 0, "usd": None, "units": {}},
    ]


class Run:
    def __init__(self, *commands):
        self.state = None
        self.version = 0
        for command in (c.CreateRun("r", e.Code("flow"), "d"), c.ClaimRun("r", "ann"), *commands):
            self.do(command)

    def do(self, command):
        for event in decide(self.state, command):
            self.add(event)

    def add(self, event):
        self.version += 1
        self.state = evolve(self.state, event, self.version, self.version)


USED = Measured("small", 1, 2, Decimal("0.1"))
MEASURE = c.MeasureStep("a#1", 1, (USED,))


def test_each_attempt_counts_for_the_step_and_the_run():
    """A failed attempt, a cut-off one, a reopened step, and what comes after the outcome."""
    start = c.StartStep("a#1", "a", "d", 1)
    run = Run(start, MEASURE, c.FailAttempt("a#1", NO, 5), start, c.MeasureStep("a#1", 2, (USED,)))
    run.do(start)  # it was cut off
    run.do(c.CompleteStep("a#1"))
    run.do(c.MeasureStep("a#1", 3, (USED,)))
    step = run.state.steps["a#1"]
    assert step.measured == run.state.measured == (Measured("small", 3, 6, Decimal("0.3")),)
    assert step.status == "completed"


def test_a_measure_is_no_change_of_the_step():
    """A rewind to a step's end keeps the step, whatever was measured after it."""
    run = Run(c.StartStep("a#1", "a", "d", 1), c.CompleteStep("a#1"))
    before = run.state.steps["a#1"].version
    run.do(MEASURE)
    assert run.state.steps["a#1"].version == before < run.version


def test_a_rewind_gives_nothing_back():
    """The run has used it; a step that runs again in the new generation counts its own."""
    run = Run(c.StartStep("a#1", "a", "d", 1), MEASURE, c.CompleteStep("a#1"))
    kept = run.version
    run.do(c.StartStep("b#1", "b", "d", 2))
    run.do(c.MeasureStep("b#1", 1, (USED,)))
    run.do(c.CompleteStep("b#1"))
    run.add(e.Rewound(1, 0, kept, 2))
    assert run.state.steps["a#1"].measured == (USED,)
    assert "b#1" not in run.state.steps
    assert run.state.measured == (USED.plus(USED),)
    run.do(c.ClaimRun("r", "ann"))
    run.do(c.StartStep("b#1", "b", "d", 2))
    assert run.state.steps["b#1"].measured == ()


def test_what_has_not_begun_has_used_nothing():
    with pytest.raises(Refused, match="has not started"):
        Run(MEASURE)
    with pytest.raises(Refused, match="attempt 2 of step a#1"):
        Run(c.StartStep("a#1", "a", "d", 1), c.MeasureStep("a#1", 2, (USED,)))
    with pytest.raises(Refused, match="no owner"):
        Run(c.StartStep("a#1", "a", "d", 1), c.ReleaseRun("r", "ann"), MEASURE)
