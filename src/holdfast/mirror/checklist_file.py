"""`runs/ID.md`: the checklist that a run executes, with each item ticked that is done.

The text is that of the file that the run was started with, which the run keeps in its arguments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast.kernel import events as e
from holdfast.kernel.state import ENDED
from holdfast.mirror import sealed_text
from holdfast.views.run_detail import PLAN_RUNNER

if TYPE_CHECKING:
    from holdfast.store.port import Store
    from holdfast.views.reader import Reader

TICKS: Final = frozenset((e.StepRan.__name__, e.StepCompleted.__name__))
"""The events by which an item may be done, beside those that change the status of a run."""
_BOX: Final = re.compile(r"(\s*[-*+] \[) (\])")


class ChecklistFile(NamedTuple):
    """`is_open`: the run has not ended, so items may still be ticked."""

    data: bytes
    is_open: bool


def file_name(run_id: str) -> str:
    """Beside the run's other file."""
    return f"{run_id}{sealed_text.SUFFIX}"


def render(store: Store, reader: Reader, run_id: str) -> ChecklistFile | None:
    """The file, redacted; None if the run executes no checklist. It reads the table of steps and does not
    fold the history."""
    row = store.run(run_id)
    plan = None if row is None else _plan(store, run_id)
    checklist = None if plan is None else _fields(plan.get("checklist"))
    if row is None or plan is None or checklist is None:
        return None
    kinds = {one["id"]: one["kind"] for one in map(_fields, _items(plan["steps"])) if one is not None}
    done = _done(store, run_id, kinds, completed=row.status == "completed")
    ticked = {line for line in checklist["items"].values() if line} - {
        line for id, line in checklist["items"].items() if id not in done
    }
    lines = checklist["text"].split("\n")
    for line in ticked:
        lines[line - 1] = _BOX.sub(r"\1x\2", lines[line - 1], count=1)
    text = reader.redactor.redact("\n".join(lines))
    return ChecklistFile(sealed_text.seal(text), row.status not in ENDED)


def _plan(store: Store, run_id: str) -> dict[str, Any] | None:
    """The fields of the plan that the run was started with; None if it is no run of a plan."""
    for _, created in store.creations([run_id]):
        if created.code.module != PLAN_RUNNER[0]:
            return None
        data = msgspec.json.decode(store.blob(created.blob) if created.blob else bytes(created.args))
        args, kwargs = _items(data)
        return _fields(kwargs.get("plan", next(iter(_items(args)), None)))
    return None


def _done(store: Store, run_id: str, kinds: dict[str, str], *, completed: bool) -> set[str]:
    """The plan steps that are done. The step of an agent is made of many: it has ended when a step behind it
    has begun, or the run has completed."""
    steps: dict[str, list[tuple[str, str]]] = {}
    for row in store.steps(run_id):
        scope, slash, _ = row.key.partition("/")
        if slash:
            steps.setdefault(scope.partition("[")[0], []).append((row.key, row.status))
    approved: dict[str, bool] = {}
    if "approve" in kinds.values():
        for entry in store.entries(run_id, type=e.GateDecided.__name__):
            event = e.decode(entry.type, entry.payload)
            assert isinstance(event, e.GateDecided)
            approved[event.key] = event.outcome == "approved"
    order = list(kinds)
    last = max((order.index(id) for id in steps if id in kinds), default=-1)
    return {
        id
        for at, id in enumerate(order)
        if id in steps
        and all(status == "completed" for _, status in steps[id])
        and (kinds[id] != "approve" or all(approved.get(key) for key, _ in steps[id]))
        and (kinds[id] != "agent" or completed or at < last)
    }


def _fields(value: Any) -> dict[str, Any] | None:
    """The fields of a struct, as the log has it."""
    found = value.get("$struct") if isinstance(value, dict) else None
    return found[1] if isinstance(found, list) else None


def _items(value: Any) -> list[Any]:
    """The items of a tuple or a list, as the log has them."""
    found: list[Any] = value.get("$tuple", []) if isinstance(value, dict) else value
    return found
