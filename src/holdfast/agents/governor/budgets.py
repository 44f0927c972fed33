"""The budgets of a store: limits are set and raised, amounts are reserved, settled and released.

Everything that concerns a budget and its parents is one transaction over their streams: a reservation is made
in all of them or in none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from holdfast.errors import BadInput, RunPaused, StoreError
from holdfast.kernel import budget as b
from holdfast.kernel.amounts import NONE, Amounts, check_name
from holdfast.store.folded import Folded
from holdfast.store.port import NO_EVENTS, Companion, Decision, Recorded, Store, new_event

if TYPE_CHECKING:
    from holdfast.clock import Clock
    from holdfast.engine.execution.reserving import Paying
    from holdfast.kernel.events import Event

T = TypeVar("T")

_TRIES: Final = 20
_MOST_KEPT: Final = 256
_MOST_PARENTS: Final = 100

Decide = Callable[[b.BudgetState], Sequence["Event"]]
"""The events to append to one budget; raises to refuse for all."""


class _Moved(Exception):
    """A budget has another parent than the caller knew: it looks again."""


class Budgets:
    """Keeps the state of each budget that it has read: a decision loads what is new. Thread-safe."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str, Folded[b.BudgetState]] = {}
        self._lock = threading.Lock()

    def state(self, name: str) -> b.BudgetState:
        """The budget as the log has it now."""
        return self._folded(name).refresh()

    def set(self, name: str, changes: Mapping[str, b.Change], parent: str | None, by: str) -> None:
        """Set these limits and this parent, and leave the others. Raises `NotFound` for a parent that is not
        there, `BadInput` for one that is the budget itself or below it. `default` is always there."""
        check_name(name)
        if parent and parent != NONE:
            if check_name(parent) not in (name, b.DEFAULT) and not self.state(parent).is_set:
                raise self.unknown(parent)
        else:
            parent = NONE if parent == "" else parent

        def change(state: b.BudgetState) -> Sequence[Event]:
            made = b.set_limits(state, changes, parent, by)
            return () if made is None else (made,)

        def write() -> None:
            above = self.state(name).parent if parent is None else "" if parent == NONE else parent
            parents = self._chain(above, fresh=True)
            b.refuse_cycle([name, *parents])
            following = [*parents[1:], ""] if parents else []
            checks: list[tuple[str, Decide]] = [
                (one, partial(_unchanged, its_parent))
                for one, its_parent in zip(parents, following, strict=True)
            ]
            self._write([(name, change), *checks])

        self._again(write)

    def raise_(self, name: str, more: Mapping[str, b.Change], by: str, once: str = "") -> None:
        """Add to the limits. With `once`, the call of a step that may be tried again: nothing if the last
        change was by that very call."""
        if not self.state(check_name(name)).is_set:
            raise self.unknown(name)

        def change(state: b.BudgetState) -> Sequence[Event]:
            if once and state.by == once:
                return ()
            return (b.raise_limits(state, name, more, once or by),)

        self._write([(name, change)])

    def open(self, paying: Paying) -> None:
        """Set the budget to its limits, unless it is set, and make it a part of its parent. Raises `BadInput`
        if the parent is below it."""

        def opened(state: b.BudgetState) -> Sequence[Event]:
            return _opened(paying, state)

        self._paying_chain(paying)
        self._write([(paying.name, opened)], durable=False)

    def reserve(self, asked: b.BudgetReserved, paying: Paying) -> tuple[str, ...]:
        """Reserve in the budget that pays and in all its parents; returns their names. The commit does not
        wait for the disk: that of the attempt's intent does, for both. Raises `BudgetReached`, and
        `RunPaused` if a budget of that name was never set."""

        def write() -> tuple[str, ...]:
            chain = self._paying_chain(paying)
            following = [*chain[1:], ""]
            self._write(
                [
                    (name, partial(self._reserved, name, parent, asked, paying))
                    for name, parent in zip(chain, following, strict=True)
                ],
                durable=False,
            )
            return tuple(chain)

        return self._again(write)

    def _reserved(
        self, name: str, parent: str, asked: b.BudgetReserved, paying: Paying, state: b.BudgetState
    ) -> Sequence[Event]:
        made: list[Event] = [*_opened(paying, state)] if name == paying.name else []
        for event in made:
            state = b.evolve(state, Recorded(event, 0, 0))
        if not state.is_set and name != b.DEFAULT:
            make = f"`holdfast budget set {name} --usd 5` makes it"
            raise RunPaused(
                asked.run, f"{asked.step} is to be paid by budget {name}, which is not set; {make}"
            )
        if state.parent != parent:
            raise _Moved
        made.append(b.reserve(state, name, asked))
        return made

    def settlement(
        self, names: Sequence[str], id: str, epoch: int, measured: Amounts, *, unknown: bool, cut_off: bool
    ) -> list[Companion]:
        """Companions that settle a reservation in these budgets."""
        at = self._clock.now_us()

        def settle(state: b.BudgetState) -> Sequence[Event]:
            made = b.settle(state, id, epoch, measured, unknown=unknown, cut_off=cut_off)
            return () if made is None else (made,)

        return self._companions(names, settle, at)

    def releasing(self, names: Sequence[str], id: str, epoch: int) -> list[Companion]:
        """Companions that release a reservation in these budgets."""

        def release(state: b.BudgetState) -> Sequence[Event]:
            made = b.release(state, id, epoch)
            return () if made is None else (made,)

        return self._companions(names, release, self._clock.now_us())

    def _companions(self, names: Sequence[str], decide: Decide, at: int) -> list[Companion]:
        return [self._folded(name).companion(partial(_decision, decide, at))[0] for name in names]

    def end(self, id: str, epoch: int, run: str, charged: tuple[Amounts, bool] | None) -> None:
        """Settle a reservation that was cut off, wherever it is open: in full, or more if `charged`, what was
        measured and whether a price is unknown, is more. Release it if that is None."""

        def decide(state: b.BudgetState) -> Sequence[Event]:
            if charged is None:
                made: Event | None = b.release(state, id, epoch)
            else:
                measured, unknown = charged
                made = b.settle(state, id, epoch, measured, unknown=unknown, cut_off=True)
            return () if made is None else (made,)

        self._write([(name, decide) for name in self._store.budgets_holding(run)])

    def open_in(self, names: Sequence[str]) -> Iterator[tuple[str, b.Reservation]]:
        """The open reservations of these budgets, each once."""
        seen: set[str] = set()
        for name in names:
            for id, one in self.state(name).open.items():
                if id not in seen:
                    seen.add(id)
                    yield id, one

    def names_of(self, paying: Paying) -> list[str]:
        """The budget that pays and its parents, as they are now."""
        return self._paying_chain(paying)

    def have_limit(self, names: Sequence[str], *units: str) -> bool:
        """Whether one of these budgets limits one of these units, as far as is known here."""
        states = [self._folded(name).state for name in names]
        return any(state.limits.of(unit) is not None for state in states for unit in units)

    def unknown(self, name: str) -> Exception:
        """The error for a budget that is not there."""
        return b.unknown(name, [row.name for row in self._store.budgets()])

    def _paying_chain(self, paying: Paying) -> list[str]:
        if paying.parent and _joins(paying, self._folded(paying.name).state):
            chain = [paying.name, *self._chain(paying.parent)]
            b.refuse_cycle(chain)
            return chain
        return self._chain(paying.name)

    def _chain(self, name: str, *, fresh: bool = False) -> list[str]:
        """The budget and its parents, as far as they are known here, or as the log has them now."""
        chain: list[str] = []
        while name:
            if name in chain or len(chain) == _MOST_PARENTS:
                raise BadInput(f"budget {name} is below itself, or has more than {_MOST_PARENTS} parents")
            chain.append(name)
            name = self.state(name).parent if fresh else self._folded(name).state.parent
        return chain

    def _folded(self, name: str) -> Folded[b.BudgetState]:
        found = self._known.get(name)
        if found is None:
            row = self._store.budget(name)
            state, version = (b.EMPTY, 0) if row is None else (row.state, row.version)
            with self._lock:
                while len(self._known) >= _MOST_KEPT:
                    self._known.pop(next(iter(self._known)))
                found = self._known.setdefault(
                    name, Folded(self._store, b.stream_of(name), state, b.evolve, version)
                )
        return found

    def _again(self, write: Callable[[], T]) -> T:
        """Do it until no parent was changed in between."""
        for _ in range(_TRIES):
            try:
                return write()
            except _Moved:
                for folded in list(self._known.values()):
                    folded.refresh()
        raise StoreError("the parents of a budget change all the time; try again")

    def _write(self, parts: Sequence[tuple[str, Decide]], *, durable: bool = True) -> None:
        """Append what each decides on its budget, in one transaction; what one raises refuses all."""
        at = self._clock.now_us()
        pairs = [self._folded(name).companion(partial(_decision, decide, at)) for name, decide in parts]

        def decide_all(recorded: Sequence[Sequence[Recorded]]) -> list[Decision]:
            return [part.decide(read) for (part, _), read in zip(pairs, recorded, strict=True)]

        if pairs:
            self._store.command_all([part.source for part, _ in pairs], decide_all, durable=durable)
        for _, acknowledge in pairs:
            acknowledge()


def _decision(decide: Decide, at: int, state: b.BudgetState) -> Decision:
    events = decide(state)
    return Decision(b.KIND, [new_event(event, at) for event in events]) if events else NO_EVENTS


def _opened(paying: Paying, state: b.BudgetState) -> Sequence[Event]:
    if paying.limits is None or not _joins(paying, state):
        return ()
    limits, by = (state.limits, state.by) if state.is_set else (paying.limits, "plan")
    return (b.BudgetSet(limits, paying.parent, by),)


def _joins(paying: Paying, state: b.BudgetState) -> bool:
    """Whether the budget becomes a part of `paying.parent` now: it is made for its run, or a person has set
    it before that run began to spend, and could not know the parent."""
    if paying.limits is None:
        return False
    is_unused = not state.open and not state.spent.steps
    return not state.is_set or bool(paying.parent and not state.parent and is_unused)


def _unchanged(parent: str, state: b.BudgetState) -> Sequence[Event]:
    if state.parent != parent:
        raise _Moved
    return ()


def asked_amounts(amounts: Amounts) -> Amounts:
    """The amounts of a reservation as recorded: an attempt is one step, unless it says more."""
    steps = 1 if amounts.steps is None else amounts.steps
    return msgspec.structs.replace(amounts, steps=steps, budget="")
