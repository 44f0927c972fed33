"""A budget: limits in money, tokens, seconds and steps, and what was reserved and spent of them, as the
stream `@budget/NAME` records it.

A step that costs reserves first, in its budget and in every parent of that, in one transaction. A reservation
is refused if what is spent, what others have reserved and what it needs would pass a limit of one of them. It
ends once: settled with what the attempt used, or released if nothing was begun. A settlement is never
refused: it says what has happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final, Protocol

import msgspec

from holdfast.errors import BadInput, BudgetReached, NotFound
from holdfast.kernel.amounts import EXACT, NONE, NOTHING, UNITS, ZERO, Amounts, shown
from holdfast.kernel.events import Event
from holdfast.kernel.measures import Measured
from holdfast.kernel.naming import listed
from holdfast.spelling import nearest

PREFIX: Final = "@budget/"
KIND: Final = "budget"
"""The kind of its stream."""
DEFAULT: Final = "default"
"""The budget that pays where none is named. It has no limit until one is set."""


def stream_of(name: str) -> str:
    """The stream of a budget; no run can have this id."""
    return PREFIX + name


# Events


class BudgetSet(Event, frozen=True, gc=False):
    """Its limits are these from now on; an amount that is missing is no limit. What is reserved and spent in
    it counts in `parent` too."""

    limits: Amounts
    parent: str = ""
    by: str = ""


class BudgetReserved(Event, frozen=True, gc=False):
    """An attempt of a step may use so much. One with the id of an open reservation takes its place: the
    attempt was reserved for by a process that died before it began.

    owner, epoch  the execution that reserved
    """

    id: str
    run: str
    step: str
    attempt: int
    amounts: Amounts
    generation: int = 0
    owner: str = ""
    epoch: int = 0


class BudgetSettled(Event, frozen=True, gc=False):
    """The attempt has ended, and `amounts` are spent.

    measured  what was measured; where it names nothing, the reservation is charged in full
    unknown   a model was used whose price is not known
    """

    id: str
    amounts: Amounts
    measured: Amounts = NOTHING
    unknown: bool = False


class BudgetReleased(Event, frozen=True, gc=False):
    """The attempt was never begun: nothing is spent."""

    id: str


EVENTS: Final = (BudgetSet, BudgetReserved, BudgetSettled, BudgetReleased)


# State


class Reservation(msgspec.Struct, frozen=True):
    """An open reservation."""

    run: str
    step: str
    attempt: int
    amounts: Amounts
    generation: int = 0
    owner: str = ""
    epoch: int = 0
    at: int = 0


class BudgetState(msgspec.Struct, frozen=True):
    """A budget at a version of its stream.

    is_set    a person or a plan has set it; otherwise it only counts
    reserved  the sum of the open reservations
    unknown   settlements in which money is unknown: `spent.usd` is more in truth
    """

    limits: Amounts = NOTHING
    parent: str = ""
    spent: Amounts = ZERO
    reserved: Amounts = ZERO
    open: Mapping[str, Reservation] = {}
    unknown: int = 0
    is_set: bool = False
    by: str = ""
    created_at: int = 0
    updated_at: int = 0


EMPTY: Final = BudgetState()


class AtVersion(Protocol):
    """An event with its version and its time, as a store returns it."""

    @property
    def event(self) -> Event: ...
    @property
    def at(self) -> int: ...


def fold(recorded: Iterable[AtVersion]) -> BudgetState:
    """The budget after these events."""
    state = EMPTY
    for one in recorded:
        state = evolve(state, one)
    return state


def evolve(state: BudgetState, recorded: AtVersion) -> BudgetState:
    """The state after an event; the one before it is left as it is."""
    event, at = recorded.event, recorded.at
    replace = msgspec.structs.replace
    if not isinstance(event, EVENTS):
        return state
    state = replace(state, created_at=state.created_at or at, updated_at=at)
    if isinstance(event, BudgetSet):
        return replace(state, limits=event.limits, parent=event.parent, is_set=True, by=event.by)
    before = state.open.get(event.id)
    if isinstance(event, BudgetReserved):
        reservation = Reservation(
            event.run,
            event.step,
            event.attempt,
            event.amounts,
            event.generation,
            event.owner,
            event.epoch,
            at,
        )
        reserved = state.reserved if before is None else state.reserved.minus(before.amounts)
        return replace(
            state,
            reserved=reserved.plus(reservation.amounts),
            open={**state.open, event.id: reservation},
        )
    if before is None:
        return state
    left = {id: one for id, one in state.open.items() if id != event.id}
    reserved = state.reserved.minus(before.amounts)
    if isinstance(event, BudgetReleased):
        return replace(state, reserved=reserved, open=left)
    return replace(
        state,
        reserved=reserved,
        open=left,
        spent=state.spent.plus(event.amounts),
        unknown=state.unknown + event.unknown,
    )


# What is decided


def reserve(state: BudgetState, name: str, asked: BudgetReserved) -> BudgetReserved:
    """Decide to reserve. Raises `BudgetReached` if it does not fit.

    A unit that the reservation does not name is refused only when nothing is left of it."""
    before = state.open.get(asked.id)
    reserved = state.reserved if before is None else state.reserved.minus(before.amounts)
    used = state.spent.plus(reserved)
    short = {
        unit: over
        for unit, limit in state.limits.items()
        if limit is not None and (over := _over(used.of(unit), asked.amounts.of(unit), limit)) is not None
    }
    if short:
        unit = next(iter(short))
        raise BudgetReached(
            asked.run,
            name,
            unit=unit,
            limit=shown(state.limits.of(unit)),
            spent=shown(state.spent.of(unit)),
            reserved=shown(reserved.of(unit)),
            needed=shown(asked.amounts.of(unit)),
            step=asked.step,
            short={unit: shown(amount) for unit, amount in short.items()},
        )
    return asked


def _over(
    used: Decimal | int | None, needed: Decimal | int | None, limit: Decimal | int
) -> Decimal | int | None:
    """By how much it passes the limit, 0 if that is not known; None if it fits."""
    used = used or 0
    if needed is None:
        return None if used < limit else type(limit)(0)
    over = EXACT.subtract(EXACT.add(Decimal(used), Decimal(needed)), Decimal(limit))
    return (int(over) if isinstance(limit, int) else over) if over > 0 else None


def settle(
    state: BudgetState,
    id: str,
    epoch: int,
    measured: Amounts = NOTHING,
    *,
    unknown: bool = False,
    cut_off: bool = False,
) -> BudgetSettled | None:
    """Decide to settle the reservation of this execution; None if it is not open (any more).

    Each unit is charged as measured. What was not measured is charged as reserved: the attempt failed or was
    cut off, and its request may have been billed. Money that is unknown in part is charged as reserved, or as
    far as it is known if that is more; so are money and tokens of an attempt that was `cut_off`, which had
    measured what it had done, and not what was in flight."""
    found = state.open.get(id)
    if found is None or found.epoch != epoch:
        return None
    asked = found.amounts
    unknown = unknown or (measured.usd is None and asked.usd is None and bool(asked.tokens))
    charged = {unit: asked.of(unit) if used is None else used for unit, used in measured.items()}
    if (unknown or cut_off) and measured.usd is not None and asked.usd is not None:
        charged["usd"] = max(measured.usd, asked.usd)
    if cut_off and measured.tokens is not None and asked.tokens is not None:
        charged["tokens"] = max(measured.tokens, asked.tokens)
    return BudgetSettled(id, Amounts(**charged), measured, unknown)  # type: ignore[arg-type]


def release(state: BudgetState, id: str, epoch: int) -> BudgetReleased | None:
    """Decide to release the reservation of this execution; None if it is not open (any more)."""
    found = state.open.get(id)
    return None if found is None or found.epoch != epoch else BudgetReleased(id)


def used(measured: Iterable[Measured], seconds: Decimal) -> tuple[Amounts, bool]:
    """The usage of an attempt that took so many seconds, and whether a price is unknown. Tokens and money
    are None if it measured neither."""
    costs = [
        one for one in measured if one.model or one.usd is not None or one.input_tokens or one.output_tokens
    ]
    if not costs:
        return Amounts(seconds=seconds, steps=1), False
    usd = Decimal(0)
    for one in costs:
        usd = EXACT.add(usd, one.usd or Decimal(0))
    tokens = sum(one.input_tokens + one.output_tokens for one in costs)
    return Amounts(usd, tokens, seconds, 1), any(one.usd is None for one in costs)


Change = Decimal | str | int | float | None
"""A limit as it is given: an amount, `none` to remove it, None to leave it."""


def set_limits(
    state: BudgetState, changes: Mapping[str, Change], parent: str | None, by: str
) -> BudgetSet | None:
    """Decide to set these limits and the parent, and leave the others; None if nothing changes."""
    limits = {unit: _changed(unit, changes.get(unit), state.limits.of(unit)) for unit in UNITS}
    above = state.parent if parent is None else "" if parent == NONE else parent
    changed = BudgetSet(Amounts(**limits), above, by)  # type: ignore[arg-type]
    if state.is_set and (state.limits, state.parent) == (changed.limits, changed.parent):
        return None
    return changed


def _changed(unit: str, given: Change, now: Decimal | int | None) -> object:
    if given is None:
        return now
    return None if given == NONE else _read(unit, given)


def raise_limits(state: BudgetState, name: str, more: Mapping[str, Change], by: str) -> BudgetSet:
    """Decide to add to the limits. Raises `BadInput` for a unit without a limit, and unless every amount
    that is given is more than 0."""
    given = {unit: _read(unit, amount) for unit, amount in more.items() if amount is not None}
    added = Amounts(**given)  # type: ignore[arg-type]
    if not given or not all(added.of(unit) for unit in given):
        raise BadInput(f"raise budget {name} by what? Give an amount more than 0 of {', '.join(UNITS)}")
    for unit in given:
        if state.limits.of(unit) is None:
            raise BadInput(f"budget {name} has no limit of {unit}: there is nothing to raise")
    return BudgetSet(state.limits.plus(added), state.parent, by)


def _read(unit: str, given: Change) -> object:
    """Whole numbers may come as text, from a command line."""
    if unit in ("tokens", "steps") and isinstance(given, str) and given.isascii() and given.isdecimal():
        return int(given[:20])
    return given


def refuse_cycle(chain: Iterable[str]) -> None:
    """Raise `BadInput` if a budget comes twice among itself, its parent, the parent of that, ..."""
    seen: list[str] = []
    for name in chain:
        if name in seen:
            cycle = " → ".join([*seen[seen.index(name) :], name])
            raise BadInput(f"a budget cannot be its own parent: {cycle}")
        seen.append(name)


def unknown(name: str, names: Iterable[str]) -> NotFound:
    """The error for a name that no budget has, with those that are nearest."""
    near = nearest(name, names)
    hint = f"; did you mean {listed(near)}?" if near else ""
    return NotFound(f"there is no budget {name!r}{hint}; `holdfast budget set {name} --usd 5` makes one")
