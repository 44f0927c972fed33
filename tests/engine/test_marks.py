"""`checkpoint`, `emit`, `patched`: what a run says about itself."""

import asyncio

import pytest

from holdfast import DivergenceError, Holdfast, checkpoint, emit, patched, step, wait_for
from holdfast.errors import BadInput, WrongColour


def recorded(hf, run_id, type):
    return [event.data for event in hf.events(run_id) if event.type == type]


@step
def work(n: int) -> int:
    return n


def test_a_checkpoint_is_taken_once(hf, act):
    """Durable, with its data; a replay takes none again."""

    def plot():
        checkpoint("planned", files=["a", "b"])
        work(1)
        checkpoint("planned")

    hf.with_id("x").run(act(plot))
    hf.with_id("x").run(act(plot))
    taken = recorded(hf, "x", "CheckpointTaken")
    assert [(one["key"], one["name"], one.get("data")) for one in taken] == [
        ("planned#1", "planned", {"files": ["a", "b"]}),
        ("planned#2", "planned", {}),
    ]
    assert [one.kind for one in hf.steps("x")] == ["checkpoint", "step", "checkpoint"]


def test_async_checkpoints(hf, act):
    async def plot():
        await checkpoint.aio("half", n=1)
        with pytest.raises(WrongColour, match=r"await checkpoint\.aio"):
            checkpoint("half")

    hf.with_id("x").run(act(plot))
    assert len(recorded(hf, "x", "CheckpointTaken")) == 1


def test_a_checkpoint_after_every_so_many_steps(open_hf, act, home, monkeypatch):
    """By itself, as the settings say; a resumed run continues counting."""
    monkeypatch.setenv("HOLDFAST_CHECKPOINT_EVERY", "3")
    hf = open_hf()
    run = hf.with_id("x").start(act(lambda: [*map(work, range(7)), wait_for("go"), *map(work, range(7, 10))]))
    while hf.get("x").status != "waiting":
        pass
    hf.signal("x", "go")
    run.result(timeout=20)
    assert [one["key"] for one in recorded(hf, "x", "CheckpointTaken")] == ["auto@3", "auto@6", "auto@9"]
    assert list(hf._store.verify()) == []


def test_emissions_of_a_workflow_are_recorded_once(hf, act):
    def plot():
        for n in range(3):
            emit("progress", n)
            work(n)

    hf.with_id("x").run(act(plot))
    hf.with_id("x").run(act(plot))
    assert [one["value"] for one in recorded(hf, "x", "Emitted")] == [0, 1, 2]


def test_a_step_emits_at_once(hf, act):
    """Seen while the step runs, with the attempt that emitted it."""
    seen = []

    @step
    def stream():
        for token in ("a", "b"):
            emit("tokens", token)
        while len(recorded(hf, "x", "Emitted")) < 2:
            pass
        seen.extend(one["value"] for one in recorded(hf, "x", "Emitted"))

    hf.with_id("x").run(act(lambda: stream()))
    assert seen == ["a", "b"]
    assert {(one["step"], one["attempt"]) for one in recorded(hf, "x", "Emitted")} == {("stream#1", 1)}


def test_an_async_step_emits(hf, act):
    @step
    async def stream():
        emit("tokens", "a")
        await asyncio.sleep(0)

    async def plot():
        await stream()

    hf.with_id("x").run(act(plot))
    assert [one["value"] for one in recorded(hf, "x", "Emitted")] == ["a"]


def test_outside_a_run_nothing_is_marked():
    emit("progress", 1)
    checkpoint("half")
    assert patched("fix") is True


def test_patched_lets_old_runs_go_their_way(open_hf, act):
    """A run that had passed the place keeps the old code, in every replay; a new one has the new."""

    def old():
        work(1)
        work(2)
        wait_for("go")

    def new():
        work(1)
        if patched("two"):
            work(20)
        else:
            work(2)
        wait_for("go")
        return patched("two")

    first = open_hf()
    first.with_id("old").start(act(old))
    while first.get("old").status != "waiting":
        pass
    first.close()
    second = open_hf()
    flow = act(new)
    second.signal("old", "go")
    assert second.resume("old").result(timeout=20) is False
    run = second.with_id("new").start(flow)
    second.signal("new", "go")
    assert run.result(timeout=20) is True
    assert [one["id"] for one in recorded(second, "new", "PatchSeen")] == ["two"]
    assert recorded(second, "old", "PatchSeen") == []


def test_without_patched_the_change_diverges(open_hf, act):
    first = open_hf()
    first.with_id("x").start(act(lambda: (work(1), wait_for("go"))))
    while first.get("x").status != "waiting":
        pass
    first.close()
    second = open_hf()
    act(lambda: (work(2), wait_for("go")))
    with pytest.raises(DivergenceError):
        second.resume("x").result(timeout=20)


@pytest.mark.parametrize("mark", [checkpoint, lambda name: emit(name, 1), patched])
def test_bad_names(hf: Holdfast, act, mark):
    with pytest.raises(BadInput):
        hf.run(act(lambda: mark("a b")))
