"""Reserving before a step that costs, and settling with its outcome.

    reserve ─▶ intent ─▶ Body ─▶ outcome + settlement, in one commit
       └─ refused: the run is paused, and the step is tried again when it is resumed

The reservation is a command of its own, which can be refused. The settlement is a companion of the append
that ends the attempt, which cannot. An attempt that was cut off in between leaves its reservation open; the
governor ends it when the run reserves next, or when another needs what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from holdfast.engine.execution.call import Call, InStore, Outcome, Request
from holdfast.engine.execution.control import Control
from holdfast.errors import BadInput, BudgetReached, RunPaused, StoreError
from holdfast.kernel import commands as c
from holdfast.kernel.amounts import Amounts, check_name
from holdfast.kernel.budget import DEFAULT

if TYPE_CHECKING:
    from holdfast.kernel.measures import Measured
    from holdfast.store.port import Append, Companion

Reserve = Amounts | Callable[..., Amounts]
"""The most that an attempt may use: always the same, or a function of the step's arguments."""


class Paying(NamedTuple):
    """The budget that pays. If `limits` are given, it is set to them, under `parent`, at the first
    reservation, even if that is refused. A budget that is set already keeps its limits and its parent;
    without a parent, it gets this one."""

    name: str
    limits: Amounts | None = None
    parent: str = ""


class Governor(Protocol):
    """Decides whether a step may spend, and keeps account of it. A program can give one of its own
    (`Holdfast(handlers={"governor": ...})`)."""

    def reserve(self, call: Call, amounts: Amounts, paying: Paying) -> Any:
        """Reserve before an attempt begins, and return what `settle` needs to know of it. If that has an
        attribute `limited` that is false, no limit of money or tokens holds for the attempt. May wait for the
        disk. Raises `RunPaused`, such as `BudgetReached`, to refuse: the run is paused with its sentence."""
        ...

    def open(self, paying: Paying) -> None:
        """Set the budget to the limits that are given for it, unless it is set. May wait for the disk."""
        ...

    def settle(
        self, held: Any, measured: Sequence[Measured], seconds: Decimal, *, begun: bool, cut_off: bool
    ) -> Sequence[Companion]:
        """The companions of the end of the attempt, which took so long and measured this. If it was not
        `begun`, its body did not run. If it was `cut_off`, its time was over, and what it had in flight is
        not measured. Must not refuse, and must not wait."""
        ...


class Held(NamedTuple):
    """A reservation of an attempt that is under way."""

    governor: Governor
    reservation: Any
    attempt: int


def reserve(call: Call) -> Generator[Request, Outcome | None, tuple[Outcome | None, Held | None]]:
    """Reserve what the next attempt may use. The outcome is set if the amounts cannot be determined: then the
    attempt has failed without a body. Raises the signal that pauses the run if the reservation is refused."""
    run = call.execution
    try:
        amounts = _needed(call)
    except Exception as wrong:
        return Outcome(None, wrong), None
    past = run.state.steps.get(call.key)
    governor: Governor = run.engine.handler("governor")
    answer = yield InStore(partial(governor.reserve, call, amounts, paying(call, amounts)))
    assert answer is not None
    error = answer.error
    if error is None:
        call.limited = getattr(answer.value, "limited", True)
        return None, Held(governor, answer.value, 1 if past is None else past.attempt + 1)
    if isinstance(error, RunPaused):
        raise run.stop(Control(error, [pause_command(run.id, error)]))
    if isinstance(error, StoreError):
        raise run.lose(error) from None
    return Outcome(None, error), None


def pause_command(run_id: str, error: RunPaused) -> c.PauseRun:
    """The command that pauses the run with the reason of the refusal, and names the budget that refused."""
    if isinstance(error, BudgetReached):
        return c.PauseRun(run_id, error.reason, error.by, budget=error.budget, short=error.short)
    return c.PauseRun(run_id, error.reason, error.by)


def settled(call: Call, held: Held, append: Append, *, begun: bool = True, cut_off: bool = False) -> Append:
    """The same append, with the settlement of the attempt that it ends."""
    clock = call.execution.engine.clock
    seconds = Decimal(f"{max(0.0, clock.monotonic() - call.since):.6f}") if begun else Decimal(0)
    measured = () if call.meter is None else call.meter.used(held.attempt)
    more = held.governor.settle(held.reservation, measured, seconds, begun=begun, cut_off=cut_off)
    append.also = (*append.also, *more)
    return append


def paying(call: Call, amounts: Amounts) -> Paying:
    """The budget that pays: that of the amounts, else of the scope, else of the run, else the default one."""
    if amounts.budget:
        return Paying(amounts.budget)
    return call.budget or Paying(call.execution.state.budget or DEFAULT)


def _needed(call: Call) -> Amounts:
    given = call.spec.reserve
    if isinstance(given, Amounts):
        return given
    assert given is not None
    own = call.own()
    amounts = given(*own.args, **own.kwargs)
    if not isinstance(amounts, Amounts):
        raise BadInput(f"reserve= of step {call.spec.name} returned {amounts!r}: return Amounts(...)")
    return amounts


def check_reserve(what: str, reserve: object) -> None:
    """Raise `BadInput` if `reserve` is neither `Amounts` nor a function."""
    if isinstance(reserve, Amounts):
        if reserve.budget:
            check_name(reserve.budget)
    elif reserve is not None and not callable(reserve):
        raise BadInput(f"{what}: reserve= is Amounts(usd='0.05'), or a function of the arguments")
