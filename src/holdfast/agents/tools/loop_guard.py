"""The loop guard: a tool that is called with the same arguments again and again pauses the run.

An agent that goes in circles spends without an end. `tool_repeats` sets how many calls are let through. They
are counted in the log, so a run that was killed or waited for a person is counted on. A run that was paused
or rewound has been looked at by a person: `resume` lets it continue, and the count begins anew.
"""

from __future__ import annotations

import threading
import weakref
from collections import defaultdict
from typing import TYPE_CHECKING

from holdfast.engine.execution.control import Control
from holdfast.errors import RunPaused
from holdfast.kernel import commands as c
from holdfast.kernel import events as e

if TYPE_CHECKING:
    from holdfast.engine.execution.call import Call
    from holdfast.engine.execution.execution import Execution

_Calls = dict[tuple[str, str], set[str]]
"""Name of a step and digest of its arguments → the keys of its calls."""
_calls: weakref.WeakKeyDictionary[Execution, _Calls] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def count(tool: str, call: Call) -> None:
    """Count the call of a tool that is about to do something. Raises the signal that pauses the run."""
    run = call.execution
    most = run.engine.options.tool_repeats
    if not most:
        return
    with _lock:
        calls = _calls.get(run)
        if calls is None:
            calls = _calls[run] = _recorded(run)
        same = calls[_name(call.key), call.digested.digest]
        same.add(call.key)
        times = len(same)
    if times > most:
        why = f"tool {tool} was called {most} times with the same arguments, and {call.key} is the next call"
        raise Control(RunPaused(run.id, why), [c.PauseRun(run.id, why)])


def _recorded(run: Execution) -> _Calls:
    """The calls that earlier executions of the run began, since a person last looked at it."""
    calls: _Calls = defaultdict(set)
    if run.epoch > 1:
        for event, *_ in run.engine.store.history(run.id):
            if isinstance(event, e.RunPaused | e.Rewound | e.GenerationRestored):
                calls.clear()
            elif isinstance(event, e.StepStarted | e.StepRan):
                calls[_name(event.key), event.digest].add(event.key)
    return calls


def _name(key: str) -> str:
    return key.rpartition("/")[2].partition("#")[0]
