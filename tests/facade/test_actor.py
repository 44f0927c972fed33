"""The name under which a process acts is the same in all that it records."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, approval, workflow
from holdfast.errors import NotFound


@workflow
def ask() -> str:
    return approval("go").outcome


@pytest.fixture
def open_as(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Holdfast]]:
    opened: list[Holdfast] = []

    def open_one(actor: str, **options: Any) -> Holdfast:
        monkeypatch.setenv("HOLDFAST_ACTOR", actor)
        opened.append(Holdfast(tmp_path / "store", durability="process", **options))
        return opened[-1]

    yield open_one
    for one in reversed(opened):
        one.close()


def test_undo_and_redo_act_on_the_operations_of_the_actor(open_as):
    """Each actor undoes its own last change, whatever another has changed since."""
    ann, bob = open_as("ann"), open_as("bob")
    ann.tasks.create("of ann")
    with pytest.raises(NotFound, match="user bob has done nothing"):
        bob.undo()
    bob.tasks.create("of bob")
    ann.undo()
    assert [task.name for task in ann.tasks.list()] == ["of bob"]
    ann.redo()
    assert [(one.kind, one.by) for one in ann.operations()] == [
        ("undo", "ann"), ("undo", "ann"), ("edit", "bob"), ("edit", "ann"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "act",
    [
        lambda hf: hf.approve("x"),
        lambda hf: hf.reject("x"),
        lambda hf: hf.signal("x", "later", 1),
        lambda hf: hf.pause("x"),
        lambda hf: hf.cancel("x"),
    ],
    ids=["approve", "reject", "signal", "pause", "cancel"],
)
def test_a_run_is_steered_by_the_actor(open_as, act):
    """The event names the actor of the settings, not the user of the machine."""
    gate = threading.Event()
    hf = open_as("ann", on_event=lambda event: event.type == "GateOpened" and gate.set())
    hf.with_id("x").start(ask)
    assert gate.wait(30)
    before = len(hf.events("x"))
    act(hf)
    assert "ann" in [event.data.get("by") for event in hf.events("x")[before:]]


def test_a_deletion_is_of_the_actor(open_as):
    """The log names the actor, and its `undo` finds it."""
    hf = open_as("ann")
    task = hf.tasks.create("one")
    hf.delete(task.id)
    assert hf.operations()[0].by == "ann"
