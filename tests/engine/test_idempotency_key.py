"""`idempotency_key()`: one key per step, whatever it takes to get it done."""

import threading
import time

import pytest

from holdfast import Retry, StoreError, idempotency_key, parallel, step
from holdfast.errors import BadInput, RunInterrupted
from holdfast.testing import FakeClock


def test_it_is_the_same_in_every_attempt_and_after_a_crash(open_hf, act, crashes, ran):
    """Retries, a crash in the body and a resume of the failed run all use one key."""

    @step(retry=Retry(attempts=2))
    def pay() -> str:
        ran.append(idempotency_key())
        if len(ran) == 3:
            store.left = 0
        if len(ran) < 5:
            raise ValueError("no")
        return "paid"

    clock = FakeClock()
    first = open_hf(clock=clock)
    with pytest.raises(ValueError, match="no"):
        first.with_id("x").run(act(lambda: pay()))
    store = crashes.arm(first)
    with pytest.raises(StoreError):
        first.resume("x").result(30)
    crashes.bury(first)
    second = open_hf(clock=clock)
    assert second.resume("x").result(30) == "paid"
    assert len(ran) == 5
    assert set(ran) == {"x:0:pay#1"}


def test_steps_have_keys_of_their_own(hf, act):
    """Two calls, two branches, two runs: never the same key."""

    @step
    def pay(n: int = 0) -> str:
        return idempotency_key()

    def branch(n: int) -> str:
        return pay(n)

    def plot():
        return [pay(), pay(), *parallel(branch, [1, 2])]

    first, second = hf.with_id("x").run(act(plot)), hf.with_id("y").run(act(plot))
    assert len({*first, *second}) == 8


def test_it_is_known_only_inside_a_body(hf, act):
    """Elsewhere there is no step to have one."""
    with pytest.raises(BadInput, match="only inside the body"):
        idempotency_key()
    with pytest.raises(BadInput, match="only inside the body"):
        hf.run(act(lambda: idempotency_key()))


def test_a_step_that_a_rewind_keeps_as_begun_keeps_its_key(open_hf, act, ran):
    """It may have happened under that key: the service must take the next attempt for the same call."""
    begun, go = threading.Event(), threading.Event()

    @step
    def slow() -> int:
        ran.append(idempotency_key())
        begun.set()
        if len(ran) == 1:
            go.wait(30)
            raise SystemExit  # as a kill: nothing of its end is recorded
        return 1

    @step
    def work(n: int) -> str:
        return idempotency_key()

    def branch(n: int) -> object:
        if n == 0:
            return slow()
        begun.wait(30)
        while not go.is_set() and not any(one.key.endswith("slow#1") for one in first.steps("x")):
            time.sleep(0.005)
        keys = [work(1), work(2)]
        go.set()
        return keys

    first = open_hf()
    with pytest.raises((SystemExit, RunInterrupted)):
        first.with_id("x").run(act(lambda: parallel(branch, [0, 1])))
    first.close()
    second = open_hf()
    second.rewind("x", "branch[2]/work#1")
    assert second.resume("x").result(30) == [1, ["x:0:branch[2]/work#1", "x:1:branch[2]/work#2"]]
    assert ran == ["x:0:branch[1]/slow#1"] * 2
