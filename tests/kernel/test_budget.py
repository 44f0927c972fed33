"""Budgets: limits hold whatever is reserved and settled, in whatever order, and sums are exact."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import BadInput, BudgetReached
from holdfast.kernel import budget as b
from holdfast.kernel.amounts import NOTHING, UNITS, ZERO, Amounts
from holdfast.kernel.events import Event
from holdfast.kernel.measures import Measured


class At(NamedTuple):
    event: Event
    at: int = 1


EXACT = st.none() | st.decimals(0, 9, allow_nan=False, places=3)
WHOLE = st.none() | st.integers(0, 9)
AMOUNTS = st.builds(Amounts, EXACT, WHOLE, EXACT, WHOLE)
IDS = st.sampled_from(["1", "2", "3", "4"])


class Reserve(NamedTuple):
    id: str
    amounts: Amounts
    epoch: int


class Settle(NamedTuple):
    id: str
    measured: Amounts
    epoch: int
    unknown: bool


class Release(NamedTuple):
    id: str
    epoch: int


EPOCHS = st.integers(1, 2)
MOVES = st.lists(
    st.one_of(
        st.builds(Reserve, IDS, AMOUNTS, EPOCHS),
        st.builds(Settle, IDS, AMOUNTS, EPOCHS, st.booleans()),
        st.builds(Release, IDS, EPOCHS),
    ),
    max_size=30,
)


def asked(move: Reserve) -> b.BudgetReserved:
    return b.BudgetReserved(move.id, "r", "ask#1", 1, move.amounts, epoch=move.epoch)


def within(measured: Amounts, reserved: Amounts) -> Amounts:
    """What was measured, but not more than was reserved."""
    parts = {}
    for unit in UNITS:
        used, held = measured.of(unit), reserved.of(unit)
        parts[unit] = None if used is None or held is None else min(used, held)
    return Amounts(**parts)


@settings(max_examples=200, deadline=None)
@given(AMOUNTS, MOVES)
def test_what_is_spent_and_reserved_never_passes_a_limit(limits, moves) -> None:
    """As long as no attempt uses more than it reserved. Units that a reservation does not name count
    nothing."""
    state = b.evolve(b.EMPTY, At(b.BudgetSet(limits)))
    for move in moves:
        event: Event | None = None
        if isinstance(move, Reserve):
            try:
                event = b.reserve(state, "team", asked(move))
            except BudgetReached as refused:
                assert refused.short
        elif isinstance(move, Settle):
            held = state.open.get(move.id)
            used = NOTHING if held is None else within(move.measured, held.amounts)
            event = b.settle(state, move.id, move.epoch, used, unknown=move.unknown)
        else:
            event = b.release(state, move.id, move.epoch)
        before = state
        if event is not None:
            state = b.evolve(state, At(event))
        for unit in UNITS:
            total, limit = state.spent.plus(state.reserved).of(unit), limits.of(unit)
            assert limit is None or total <= limit
            assert state.spent.of(unit) >= before.spent.of(unit)
        held = [one.amounts for one in state.open.values()]
        assert state.reserved == sum_of(held)


def sum_of(parts: list[Amounts]) -> Amounts:
    total = ZERO
    for part in parts:
        total = total.plus(part)
    return total


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(IDS, AMOUNTS, AMOUNTS), max_size=20))
def test_a_reservation_ends_once(moves) -> None:
    """A second settlement or release of the same id, or one of another execution, changes nothing."""
    state = b.EMPTY
    for id, amounts, measured in moves:
        state = b.evolve(state, At(asked(Reserve(id, amounts, 1))))
        assert b.settle(state, id, 2) is None
        assert b.release(state, id, 2) is None
        settled = b.settle(state, id, 1, measured)
        assert settled is not None
        after = b.evolve(state, At(settled))
        assert b.settle(after, id, 1, measured) is None
        assert b.release(after, id, 1) is None
        again = b.evolve(after, At(settled))
        assert (again.spent, again.open) == (after.spent, after.open)
        state = after


def test_a_reservation_of_the_same_attempt_takes_the_place_of_the_first() -> None:
    """A process that died before the attempt began has reserved for it already: it needs no more room."""
    state = b.evolve(b.EMPTY, At(b.BudgetSet(Amounts("0.05"))))
    state = b.evolve(state, At(asked(Reserve("1", Amounts("0.05"), 1))))
    with pytest.raises(BudgetReached):
        b.reserve(state, "team", asked(Reserve("2", Amounts("0.01"), 2)))
    state = b.evolve(state, At(b.reserve(state, "team", asked(Reserve("1", Amounts("0.04"), 2)))))
    assert state.reserved.usd == Decimal("0.04")
    assert b.settle(state, "1", 1) is None
    assert b.settle(state, "1", 2) is not None


@pytest.mark.parametrize(
    ("reserved", "measured", "unknown", "charged", "said"),
    [
        (Amounts("5", 9), Amounts("2", 4), False, Amounts("2", 4), False),
        (Amounts("5", 9), NOTHING, False, Amounts("5", 9), False),
        (Amounts("5", 9), Amounts("2", 4), True, Amounts("5", 4), True),
        (Amounts("1", 9), Amounts("2", 4), True, Amounts("2", 4), True),
        (Amounts(tokens=9), NOTHING, False, Amounts(tokens=9), True),
        (Amounts(steps=1), NOTHING, False, Amounts(steps=1), False),
    ],
)
def test_what_is_charged(reserved, measured, unknown, charged, said) -> None:
    """Each unit as measured, else as reserved; money that is unknown in part, the larger of the two."""
    state = b.evolve(b.EMPTY, At(asked(Reserve("1", reserved, 1))))
    settled = b.settle(state, "1", 1, measured, unknown=unknown)
    assert settled is not None
    assert (settled.amounts, settled.unknown) == (charged, said)


def test_what_an_attempt_used() -> None:
    """Models add up; a program's own units are no cost; a price that is missing is unknown."""
    seconds = Decimal("1.5")
    assert b.used([], seconds) == (Amounts(None, None, seconds, 1), False)
    assert b.used([Measured(units={"pages": 3})], seconds) == (Amounts(None, None, seconds, 1), False)
    known = [Measured("a", 1, 2, Decimal("0.1")), Measured("b", 3, 0, Decimal("0.2"))]
    assert b.used(known, seconds) == (Amounts("0.3", 6, seconds, 1), False)
    assert b.used([*known, Measured("c", 1)], seconds) == (Amounts("0.3", 7, seconds, 1), True)
    assert b.used([Measured("c")], seconds) == (Amounts(0, 0, seconds, 1), True)


def test_amounts_are_exact() -> None:
    """A tenth three times is three tenths; a float is refused for money, and read as it is written for
    seconds."""
    tenth = Amounts("0.1")
    assert tenth.plus(tenth).plus(tenth).usd == Decimal("0.3")
    assert Amounts(seconds=0.1).seconds == Decimal("0.1")
    assert Amounts(Decimal("1E+2")).texts()["usd"] == "100"
    for wrong in (
        {"usd": 0.1},
        {"usd": "nan"},
        {"usd": -1},
        {"tokens": 1.5},
        {"steps": True},
        {"usd": "1e-99"},
    ):
        with pytest.raises(BadInput):
            Amounts(**wrong)


def test_a_cycle_is_named() -> None:
    """From the budget that comes twice, back to it."""
    b.refuse_cycle(["a", "b", "c"])
    with pytest.raises(BadInput, match="a budget cannot be its own parent: b → c → b"):
        b.refuse_cycle(["a", "b", "c", "b"])


def test_the_state_after_its_events() -> None:
    """Who has set it and when, what is reserved by whom, what is spent, and how often a price was unknown."""
    first, second = asked(Reserve("1", Amounts("0.50", 9), 3)), asked(Reserve("2", Amounts("0.25"), 3))
    events: list[Event] = [
        b.BudgetSet(Amounts("5"), "team", "ann"),
        first,
        second,
        b.BudgetSettled("1", Amounts("0.40", 7, "1.5", 1), unknown=True),
    ]
    state = b.fold(At(event, at) for at, event in enumerate(events, 10))
    assert state == b.BudgetState(
        limits=Amounts("5"), parent="team", spent=Amounts("0.40", 7, "1.5", 1),
        reserved=Amounts("0.25", 0, 0, 0),
        open={"2": b.Reservation("r", "ask#1", 1, Amounts("0.25"), epoch=3, at=12)},
        unknown=1, is_set=True, by="ann", created_at=10, updated_at=13,
    )  # fmt: skip
    ended = b.evolve(state, At(b.BudgetReleased("2"), 14))
    assert ended.reserved.texts() == ZERO.texts()  # and not 0.00


@pytest.mark.parametrize(("used", "refused"), [("4.9", False), ("5", True), ("5.1", True)])
def test_a_unit_that_is_not_named_is_refused_when_nothing_is_left(used, refused) -> None:
    """How much the attempt will use of it is not known, so that it may begin as long as something is left."""
    state = b.fold(
        [
            At(b.BudgetSet(Amounts(seconds="5"))),
            At(asked(Reserve("1", NOTHING, 1))),
            At(b.BudgetSettled("1", Amounts(seconds=used))),
        ]
    )
    if refused:
        with pytest.raises(BudgetReached) as error:
            b.reserve(state, "team", asked(Reserve("2", Amounts("1"), 1)))
        assert (error.value.unit, error.value.short) == ("seconds", {"seconds": "0"})
    else:
        assert b.reserve(state, "team", asked(Reserve("2", Amounts("1"), 1))).id == "2"


@pytest.mark.parametrize(
    ("measured", "charged"),
    [
        (Amounts("2", 4), Amounts("5", 9)),
        (Amounts("7", 12), Amounts("7", 12)),
        (Amounts("7"), Amounts("7", 9)),
        (NOTHING, Amounts("5", 9)),
    ],
)
def test_what_a_cut_off_attempt_is_charged(measured, charged) -> None:
    """As reserved, or as measured if that is more; what was measured is in the record."""
    state = b.evolve(b.EMPTY, At(asked(Reserve("1", Amounts("5", 9), 1))))
    assert b.settle(state, "1", 1, measured, cut_off=True) == b.BudgetSettled("1", charged, measured)
