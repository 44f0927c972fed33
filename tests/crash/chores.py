"""Workloads on tasks, links, claims, memory, reversals and deletion.

A life does what the lives before it have not done, looks at the store to know what that is, and says what
it was told is done:

    wrote STREAM TYPE FIELD=VALUE ...

`tests.crash.tracker` knows what must hold, `tests.crash.lives` that nothing of these lines is lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.crash.checker import Plan, RunPlan, canonical
from tests.crash.lives import place
from tests.crash.side import Side, body, here, speaking, told
from tests.crash.steered import Attend

from holdfast import Holdfast, checkpoint, idempotency_key, step, workflow
from holdfast.errors import ClaimLost, TaskHeld

_open: list[Holdfast] = []
"""The store of the life that runs in this process, for the bodies of its steps."""


def enter(hf: Holdfast) -> None:
    _open[:] = [hf]


def wrote(stream: str, type: str, /, **fields: object) -> None:
    here().say("wrote", stream, type, *(f"{name}={value}" for name, value in fields.items()))


def _ids(hf: Holdfast) -> dict[str, str]:
    return {task.name: task.id for task in hf.tasks.list(archived=True)}


# Chores: what a person and an agent do to tasks and to the memory

NEEDS = {"fetch": (), "carry": ("fetch",), "stack": ("carry",), "sweep": (), "rest": ("stack", "sweep")}
TEXTS = ("the shed is locked", "the key is under the mat", "the key is with the neighbour")


@step
def tidy() -> int:
    with body():
        return 1


@workflow
def chores() -> int:
    return told("chores", "tidy#1", tidy())


def do_chores(hf: Holdfast, wait: Attend) -> Any:
    """Tasks with links, claims of this process, memories, and a run that ends with its task."""
    ids = _ids(hf)
    for name, needs in NEEDS.items():
        if name not in ids:
            ids[name] = hf.tasks.create(name, needs=[ids[one] for one in needs]).id
            wrote(f"@task/{ids[name]}", "TaskCreated", name=name)
    if hf.tasks.link(ids["rest"], ids["fetch"]):
        wrote("@links", "LinkAdded", task=ids["rest"], on=ids["fetch"])
    if hf.tasks.get(ids["carry"]).priority != 0:
        hf.tasks.edit(ids["carry"], priority=0, labels=["heavy"])
        wrote(f"@task/{ids['carry']}", "TaskEdited")
    for name in ("fetch", "carry", "stack"):
        _work_off(hf, ids[name], late=name == "stack")
    _remember(hf)
    return hf.with_id("chores", task=ids["sweep"]).run(chores)


def _work_off(hf: Holdfast, id: str, *, late: bool) -> None:
    """Claim a task and complete it; `late`: somebody whose claim was taken over cannot."""
    if hf.tasks.get(id).status == "completed":
        return
    number = _claim(hf, id)
    if late:
        hf.tasks.release(id, number)
        wrote(f"@task/{id}", "ClaimReleased", number=number)
        again = _claim(hf, id)
        try:
            hf.tasks.complete(id, number)
        except ClaimLost:
            number = again
        else:
            raise AssertionError(f"claim {number} completed the task that claim {again} has")
    hf.tasks.complete(id, number, summary=f"under claim {number}")
    wrote(f"@task/{id}", "TaskCompleted", number=number)


def _claim(hf: Holdfast, id: str) -> int:
    """The claim of a dead life is free; that of a life in this process, or in one that lives, is given
    back first."""
    try:
        claim = hf.tasks.claim(id, holder=os.getpid())
    except TaskHeld:
        held = hf.tasks.get(id).claim
        assert held is not None and _is_alive(held.pid), f"the dead process {held} holds {id}"
        hf.tasks.release(id)
        claim = hf.tasks.claim(id, holder=os.getpid())
    assert claim is not None
    wrote(f"@task/{id}", "TaskClaimed", number=claim.number)
    return claim.number


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _remember(hf: Holdfast) -> None:
    known = {memory.text: memory for memory in hf.memory.list(every=True)}
    for text in TEXTS:
        if text not in known:
            before = known[TEXTS[1]].id if text == TEXTS[2] else None
            known[text] = hf.memory.remember(text, supersedes=before)
            wrote("@memory", "Remembered", id=known[text].id)
    if known[TEXTS[0]].status == "current":
        hf.memory.withdraw(known[TEXTS[0]].id, "it is open")
        wrote("@memory", "MemoryWithdrawn", id=known[TEXTS[0]].id)


CHORES: Plan = {"chores": RunPlan(("tidy#1",), "1")}


# Errand: a run that writes to tasks and memory, rewound and brought back


@step
def ask() -> str:
    with body():
        _open[0].memory.remember("the parcel is blue")
        return _where()


@step
def hand_over() -> str:
    with body():
        hf = _open[0]
        hf.tasks.complete(_ids(hf)["parcel"], summary="handed over")
        hf.memory.remember("the neighbour has it")
        return _where()


def _where() -> str:
    return idempotency_key().split(":", 2)[1]


def _told(key: str, generation: str) -> str:
    return told("errand", place(key, int(generation)), generation)


@workflow
def errand() -> list[str]:
    found = [_told("ask#1", ask())]
    checkpoint("half")
    return [*found, _told("hand_over#1", hand_over())]


def begin_errand(home: Path) -> None:
    """A run that has completed its task and another one, and remembered two things."""
    with _silently(home) as hf:
        hf.tasks.create("parcel")
        letter = hf.tasks.create("letter").id
        hf.with_id("errand", task=letter).run(errand)


@contextmanager
def _silently(home: Path) -> Iterator[Holdfast]:
    """A store opened by a life that the checker does not listen to."""
    with speaking(Side(None)), Holdfast(home) as hf:
        enter(hf)
        yield hf


def run_errand(hf: Holdfast, wait: Attend) -> Any:
    """Rewind, continue, undo, undo that: what the lives before have not done."""
    done = len(hf.operations("errand"))
    if done == 0:
        _moved(hf.rewind("errand", to="half").operation)
    if done <= 1:
        wait(hf.resume("errand"))
        _moved(hf.undo().operation)
    if done <= 2:
        _moved(hf.undo().operation)
    return hf.resume("errand").result()


def _moved(operation: str) -> None:
    wrote(f"@op/{operation}", "OperationDone")


ERRAND: Plan = {"errand": RunPlan(("ask#1", "half#1", "hand_over#1"), canonical(["0", "1"]))}


# Riddance: runs and tasks are deleted, brought back, and removed for good


@step
def burn() -> str:
    with body():
        return "ash" * 15_000


@workflow
def chaff() -> int:
    return len(burn())


@workflow
def riddance() -> int:
    return told("riddance", "tidy#1", tidy())


def begin_riddance(home: Path) -> None:
    """Three tasks in a row and a run with one of them."""
    with _silently(home) as hf:
        first = hf.tasks.create("rake").id
        second = hf.tasks.create("heap", needs=[first]).id
        hf.tasks.create("light", needs=[second])
        hf.with_id("chaff", task=first).run(chaff)


def get_rid(hf: Holdfast, wait: Attend) -> Any:
    """Delete a task and remove it, delete a run with its task, undo that, and delete it again."""
    done = hf.operations()[::-1]
    deletions = [one for one in done if one.kind == "delete"]
    ids = _ids(hf)
    if not deletions:
        _deleted(hf.delete(ids["heap"]), f"@task/{ids['heap']}")
    if len(deletions) <= 1:
        hf.gc()
        _deleted(hf.delete("chaff", with_task=True), "chaff")
    if not any(one.kind == "undo" for one in done):
        _moved(hf.undo().operation)
    if len(deletions) <= 2:
        _deleted(hf.delete("chaff"), "chaff")
    return hf.with_id("riddance").run(riddance)


def _deleted(deletion: Any, stream: str) -> None:
    _moved(deletion.operation)
    wrote("@store", "StreamDeleted", stream=stream, operation=deletion.operation)


RIDDANCE: Plan = {
    "riddance": RunPlan(("tidy#1",), "1"),
    "chaff": RunPlan(("burn#1",), "", status="deleted"),
}
