"""Closing from several places: the store stays open until the last step has ended."""

from __future__ import annotations

import threading

import pytest

from holdfast import Holdfast, parallel, step
from holdfast.errors import RunInterrupted, WrongColour


def test_who_closes_second_waits_for_the_first(home, act):
    """A shutdown hook and the end of `with` both close: the outcome of a `once` body that is running is
    recorded, whichever comes first."""
    entered, finish = threading.Event(), threading.Event()

    @step(effect="once")
    def pay() -> str:
        entered.set()
        assert finish.wait(30)
        return "paid"

    hf = Holdfast(home)
    run = hf.with_id("order").start(act(lambda: pay()))
    assert entered.wait(30)
    closers = [threading.Thread(target=hf.close) for _ in range(3)]
    for closer in closers:
        closer.start()
    closers[0].join(0.3)  # time enough for the second to close the store
    finish.set()
    for closer in closers:
        closer.join(30)
    with pytest.raises(RunInterrupted):
        run.result(30)
    with Holdfast(home) as again:
        assert [event.type for event in again.events("order")][-2:] == ["StepCompleted", "RunReleased"]
        assert again.with_id("order").run(act(lambda: pay())) == "paid"


@pytest.mark.parametrize("colour", ["sequential", "parallel", "async"])
def test_a_step_cannot_close_what_waits_for_it(hf, act, colour):
    """In whatever thread its body runs."""

    @step
    def close(_: int) -> str:
        with pytest.raises(WrongColour, match="called from inside it"):
            hf.close()
        return "refused"

    async def in_loop():
        return [await close.aio(0)]

    flows = {
        "sequential": lambda: [close(0)],
        "parallel": lambda: parallel(close, [0]),
        "async": in_loop,
    }
    assert hf.start(act(flows[colour])).result(30) == ["refused"]


def test_the_code_of_a_run_may_close_what_is_being_closed(home, act):
    """A signal handler in the middle of a step, for instance: the step ends as if it had not been called."""
    entered, closing, ended = threading.Event(), threading.Event(), []

    @step
    def close() -> None:
        entered.set()
        assert closing.wait(30)
        hf.close()
        ended.append("closed")

    hf = Holdfast(home)
    hf.start(act(lambda: close()))
    assert entered.wait(30)
    stopped = hf._engine.stop
    hf._engine.stop = lambda why: (closing.set(), stopped(why))[1]  # the first one has begun to close
    hf.close()
    assert ended == ["closed"]
