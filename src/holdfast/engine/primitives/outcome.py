"""`report_outcome`: how the work ended for which something was chosen, recorded for those who learn from it.

It does no I/O and serves both colours: it is recorded once, with the run's next commit. A replay does not
repeat it. A rewind does not reverse it: the work was done, and it ended so.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Final

from holdfast.engine.execution.execution import Execution
from holdfast.engine.execution.scope import Scope, current, require_thread
from holdfast.errors import BadInput
from holdfast.kernel import commands as c
from holdfast.kernel import events as e

_EXACT: Final = Context(prec=100)
_BILLIONTH: Final = Decimal(1).scaleb(-9)
_ERROR_CHARS = 200


def scope_of_code(what: str) -> Scope:
    """The scope of the workflow's code that calls `what`. Raises `BadInput` elsewhere: nothing that is not
    recorded is learned from."""
    scope = current.get()
    if type(scope) is not Scope:
        raise BadInput(
            f"{what} is called in the code of a workflow that a run executes, not in a step's body"
        )
    require_thread(scope, what)
    return scope


def report_outcome(
    family: str,
    kind: str,
    chosen: Sequence[str],
    *,
    ok: bool,
    usd: Decimal | None = None,
    error: str = "",
) -> None:
    """Record how the work ended. `error` names the exception that it raised; it is redacted, and so are the
    names. Code that reports another outcome in the same place than before diverges."""
    if not isinstance(ok, bool):
        raise BadInput(f"an outcome is True or False, not {ok!r}")
    cost = None if usd is None else _cost(usd)
    scope = scope_of_code(f"{family}.report()")
    run = scope.execution
    key = scope.counters.key("outcome")
    ordinal = scope.counters.ordinal
    past = run.recall(key, "outcome", ordinal, "", "outcome")
    said = "ok" if ok else "not ok"
    if past is None:
        redact = run.engine.redactor.redact
        names = tuple(redact(name) for name in chosen)
        text = redact(error)[:_ERROR_CHARS]
        run.note(c.Record(e.OutcomeReported(key, ordinal, family, redact(kind), names, ok, cost, text)))
    elif past.outcome != said:
        run.diverge(f"{key}, which says {past.outcome}", f"{key}, which says {said}", key)


def measured_since(run: Execution, choice: str, path: str) -> Decimal | None:
    """The dollars that the steps below the scope `path` have measured since the value `choice` was recorded;
    None if none gave a price. Every attempt counts."""
    total: Decimal | None = None
    with run.lock:
        for key in reversed(run.state.steps):
            if key == choice:
                break
            if not key.startswith(path):
                continue
            for one in run.state.steps[key].measured:
                if one.usd is not None:
                    total = one.usd if total is None else _EXACT.add(total, one.usd)
    return total


def _cost(usd: object) -> Decimal:
    if not isinstance(usd, Decimal) or not usd.is_finite() or usd < 0:
        raise BadInput(f"usd={usd!r}: a Decimal, finite and not less than 0, or None if it is not known")
    return usd.quantize(_BILLIONTH, context=_EXACT)
