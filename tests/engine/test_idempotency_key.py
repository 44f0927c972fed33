"""`idempotency_key()`: one key per step, whatever it takes to get it done."""

import pytest

from holdfast import Retry, StoreError, idempotency_key, parallel, step
from holdfast.errors import BadInput
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
