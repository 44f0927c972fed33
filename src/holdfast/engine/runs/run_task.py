"""The task that drives a run in the caller's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from holdfast.engine.execution.scope import current
from holdfast.engine.execution.task_factory import NumberedTask

if TYPE_CHECKING:
    from holdfast.engine.execution.execution import Execution


class RunTask(NumberedTask):
    """Tells who cancels it. Code of the run gives up what it waits for, and continues (`asyncio.timeout`, a
    TaskGroup). Anybody else, a loop that is shut down most likely, interrupts the run: nothing that its code
    does while it unwinds is recorded."""

    execution: Execution | None = None
    """The run, once it is executed."""

    def __init__(self, run_id: str, coro: Coroutine[Any, Any, None], **kwargs: Any) -> None:
        super().__init__(run_id, 0, coro, **kwargs)

    def cancel(self, msg: object = None) -> bool:
        run, caller = self.execution, current.get()
        if run is not None and (caller is None or caller.execution is not run):
            run.interrupted(asyncio.CancelledError())
        return super().cancel(msg)
