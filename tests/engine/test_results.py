"""Results of steps and workflows: equal and of the same type, live and replayed."""

import dataclasses
import enum
import threading
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from holdfast import step
from holdfast.errors import NotStorable


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Draft:
    title: str
    parts: tuple[int, ...]


VALUES = [
    None,
    True,
    7,
    2**80,
    -0.0,
    float("inf"),
    "text \u2028 \x00",
    b"\x00\xff",
    (1, (2, 3)),
    [1, [2, 3]],
    {"a": 1, "$type": "x"},
    {1: "int key", (1, 2): "tuple key"},
    {1, 2},
    frozenset({"a"}),
    datetime(2030, 1, 1, 12, tzinfo=UTC),
    timedelta(days=-1, microseconds=5),
    Decimal("1.10"),
    uuid.UUID(int=5),
    Path("a/b"),
    Colour.RED,
    Draft("t", (1, 2)),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_live_and_replayed_results_are_equal_and_of_one_type(twice, value):
    """What a step returned live and what replay returns cannot be told apart."""

    @step
    def give() -> object:
        return value

    live, replayed = twice(lambda: give())
    assert (replayed, type(replayed)) == (value, type(value))
    assert (live, type(live), repr(live)) == (replayed, type(replayed), repr(replayed))


@pytest.mark.parametrize(
    ("size", "in_blob"), [(32 * 1024 - 2, False), (32 * 1024 - 1, True), (3_000_000, True)]
)
def test_results_over_32_kb_go_to_blobs(twice, open_hf, size, in_blob):
    """A large result is beside the log, not in it, and comes back whole."""

    @step
    def give() -> str:
        return "x" * size

    live, replayed = twice(lambda: give())
    assert live == replayed == "x" * size
    events = open_hf().events("twice")
    completed = [event.data for event in events if event.type in ("StepRan", "StepCompleted")]
    assert [("blob" in data, "result" not in data) for data in completed] == [(in_blob, in_blob)]


def test_a_large_result_of_an_async_step_and_of_the_run(hf, act):
    """The same for async steps, and for the result of the workflow itself."""

    @step
    async def give() -> str:
        return "x" * 100_000

    async def plot():
        return await give()

    assert hf.with_id("x").run(act(plot)) == "x" * 100_000
    assert hf.with_id("x").run(act(plot)) == "x" * 100_000


def test_a_result_that_cannot_be_stored_fails_the_step(hf, act, ran):
    """It fails when it is recorded, naming the step and the path, and is not tried again."""

    @step
    def give() -> object:
        ran.append("ran")
        return {"a": [1, object()]}

    with pytest.raises(NotStorable) as caught:
        hf.with_id("x").run(act(lambda: give()))
    assert "step give#1" in str(caught.value)
    assert caught.value.path == "$.a[1]"
    assert ran == ["ran"]
    assert [(info.key, info.status) for info in hf.steps("x")] == [("give#1", "failed")]
    assert hf.get("x").status == "failed"


@pytest.mark.parametrize("slow", [True, False])
def test_a_lock_as_a_result_fails_the_step_once(open_hf, act, ran, slow):
    """Whether the log has the beginning already or not: the body ran once, and its failure replays."""
    begun = threading.Event()
    hf = open_hf(on_event=lambda event: begun.set() if event.type == "StepStarted" else None)
    hf._engine.flusher._after_s = 0.001 if slow else 60.0

    @step
    def give() -> object:
        ran.append("ran")
        if slow:
            assert begun.wait(30)
        return threading.Lock()

    told = []

    def plot():
        try:
            give()
        except NotStorable as error:
            told.append(str(error))
        if len(told) == 1:
            raise KeyboardInterrupt
        return "caught"

    with pytest.raises(KeyboardInterrupt):
        hf.with_id("x").run(act(plot))
    assert hf.resume("x").result(30) == "caught"
    assert "the result of step give#1" in told[0]
    assert told[0] == told[1]
    assert ran == ["ran"]
    kept = [event.type for event in hf.events("x") if event.data.get("key")]
    assert kept == ["StepStarted", "StepFailed"]


def test_a_workflow_result_that_cannot_be_stored_fails_the_run(hf, act):
    """The run fails with the path, instead of completing with something else."""
    with pytest.raises(NotStorable, match="the result of workflow"):
        hf.with_id("x").run(act(lambda: object()))
    assert hf.get("x").status == "failed"


def test_a_result_changed_after_the_step_is_not_what_replay_gives(twice):
    """The log keeps what the step returned; what the workflow does to the object is its own."""

    @step
    def give() -> list[int]:
        return [1]

    def plot():
        got = give()
        before = list(got)
        got.append(2)
        return before

    assert twice(plot) == ([1], [1])
