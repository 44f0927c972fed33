"""`budget`: the budget that pays for the steps of a part of a workflow.

    with budget("research"):
        notes = parallel(ask, topics)

Branches, tasks and child runs that begin inside inherit it. Nothing is recorded: a step that runs again
reserves in the budget that the code names then.
"""

from __future__ import annotations

from types import TracebackType

from holdfast.engine.execution.reserving import Paying
from holdfast.engine.execution.scope import Scope, current, require_thread
from holdfast.kernel.amounts import Amounts, check_name


class budget:  # noqa: N801 - reads as a noun in `with budget("research"):`
    """Serves `with` in both colours: it does no I/O. Outside every run, and in the body of a step, it does
    nothing. `limits` and `parent` set the budget when something is first reserved in it."""

    def __init__(self, name: str, *, limits: Amounts | None = None, parent: str = "") -> None:
        self._paying = Paying(check_name(name), limits, parent)
        self._before: Paying | None = None

    def __enter__(self) -> None:
        scope = current.get()
        if type(scope) is not Scope:
            return
        require_thread(scope, "budget()")
        self._before, scope.budget = scope.budget, self._paying

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        scope = current.get()
        if type(scope) is Scope:
            scope.budget = self._before
