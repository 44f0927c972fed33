"""`measure`: what a step used, recorded with its outcome.

@step
def ask(question: str) -> str:
    answer = client.complete(question)
    measure(model="small", input_tokens=answer.usage.input, output_tokens=answer.usage.output,
            usd=Decimal("0.0021"))
    return answer.text
"""

from __future__ import annotations

import threading
from decimal import Decimal
from typing import TYPE_CHECKING, cast

from holdfast.engine.execution.meter import Meter
from holdfast.engine.execution.scope import InsideStep, current, later_attempt
from holdfast.errors import BadInput
from holdfast.kernel.identity import check_text
from holdfast.kernel.measures import Measured

if TYPE_CHECKING:
    from holdfast.engine.execution.call import Call

_making = threading.Lock()


def measure(
    *,
    model: str = "",
    input_tokens: int = 0,
    output_tokens: int = 0,
    usd: Decimal | None = None,
    **units: int | Decimal,
) -> None:
    """Add to what the attempt of the step has used whose body calls this.

    model    the model that was used; sums are kept for each
    input_tokens, output_tokens  whole numbers
    usd      the price, a `Decimal`; None if it is not known
    units    anything else that is counted, by name: `measure(pages=3)`; whole numbers or `Decimal`

    Each attempt counts, also one that failed or was cut off: what it used is spent. It is known in
    the body of a step, in `on_line` of a command, and in threads and tasks that have the body's context
    (`asyncio.to_thread`, `asyncio.create_task`; not a bare `threading.Thread`). Raises `BadInput` elsewhere,
    and for amounts that are negative or not exact.
    """
    inside = current.get()
    if not isinstance(inside, InsideStep):
        raise BadInput("measure() is known only inside the body of a step that a run executes")
    call = cast("Call", inside)
    run = call.execution
    if not run.state.owner:
        raise BadInput(f"measure(): run {run.id} has ended, or is executed elsewhere by now")
    measured = Measured(
        run.engine.redactor.redact(check_text(model, "measure(model=...)")),
        _tokens(input_tokens, "input_tokens"),
        _tokens(output_tokens, "output_tokens"),
        None if usd is None else _usd(usd),
        {name: _amount(amount, name) for name, amount in units.items()},
    )
    later = later_attempt.get()
    _meter(call).add(later[1] if later is not None and later[0] is call else 1, measured)
    if call.output_closed and call.meter is not None:  # its body has ended, and nothing will take it along
        call.meter.flush()


def _meter(call: Call) -> Meter:
    if call.meter is None:
        with _making:
            if call.meter is None:
                call.meter = Meter(call)
    return call.meter


def _tokens(count: object, name: str) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise BadInput(f"measure({name}={count!r}): a whole number, not less than 0")
    return count


def _usd(amount: object) -> Decimal:
    if not isinstance(amount, Decimal):
        raise BadInput(f"measure(usd={amount!r}): a Decimal, because sums of floats are not exact")
    return _not_negative(amount, "usd")


def _amount(amount: object, name: str) -> int | Decimal:
    if isinstance(amount, Decimal):
        return _not_negative(amount, name)
    if isinstance(amount, float):
        raise BadInput(
            f"measure({name}={amount!r}): a whole number or a Decimal; sums of floats are not exact"
        )
    return _tokens(amount, name)


def _not_negative(amount: Decimal, name: str) -> Decimal:
    if not amount.is_finite() or amount < 0:
        raise BadInput(f"measure({name}={amount!r}): a finite amount, not less than 0")
    return amount
