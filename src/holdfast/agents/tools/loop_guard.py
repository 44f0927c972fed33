"""The loop guard: a tool that is called with the same arguments again and again pauses the run.

An agent that goes in circles spends without an end. The calls are counted in memory, for each execution of a
run: `resume` lets it continue, and the count begins anew. `tool_repeats` sets how many are let through.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from typing import TYPE_CHECKING

from holdfast.engine.execution.control import Control
from holdfast.errors import RunPaused
from holdfast.kernel import commands as c

if TYPE_CHECKING:
    from holdfast.engine.execution.call import Call
    from holdfast.engine.execution.execution import Execution

_counts: weakref.WeakKeyDictionary[Execution, Counter[tuple[str, str]]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def count(tool: str, call: Call) -> None:
    """Count the call of a tool that is about to do something; what is replayed is not counted. Raises the
    signal that pauses the run."""
    run = call.execution
    most = run.engine.options.tool_repeats
    if not most:
        return
    with _lock:
        counts = _counts.setdefault(run, Counter())
        counts[tool, call.digested.digest] += 1
        times = counts[tool, call.digested.digest]
    if times > most:
        why = f"tool {tool} was called {most} times with the same arguments, and {call.key} is the next call"
        raise Control(RunPaused(run.id, why), [c.PauseRun(run.id, why)])
