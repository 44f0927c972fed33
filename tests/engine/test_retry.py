"""Retries: attempts are events, so how many there were and when the next is due survive a crash."""

from datetime import timedelta

import pytest

from holdfast import Retry, StoreError, step
from holdfast.errors import BadInput
from holdfast.testing import FakeClock


def attempts(hf, run_id):
    """(type, attempt, seconds until the next) of a run's attempts, from the log."""
    events = hf.events(run_id)
    start = events[0].at.timestamp()
    return [
        (event.type, event.data.get("attempt", 1), round(event.data.get("retry_at", 0) / 1e6 - start, 3))
        if event.type == "StepAttemptFailed"
        else (event.type, event.data.get("attempt", 1), None)
        for event in events
        if event.type.startswith("Step")
    ]


def flaky(ran, failures, retry, error=ValueError):
    @step(retry=retry)
    def ask() -> str:
        ran.append(len(ran) + 1)
        if len(ran) <= failures:
            raise error(f"no {len(ran)}")
        return "yes"

    return ask


def test_attempts_are_events_with_growing_waits(open_hf, act, ran):
    """Each failed attempt and when the next is due is in the log; the clock decides when it begins."""
    clock = FakeClock()
    hf = open_hf(clock=clock)
    start = clock.now()
    ask = flaky(ran, 3, Retry(attempts=5, initial=1, factor=3, cap=5, jitter=0))
    assert hf.with_id("x").run(act(lambda: ask())) == "yes"
    assert attempts(hf, "x") == [
        ("StepStarted", 1, None),
        ("StepAttemptFailed", 1, 1.0),
        ("StepStarted", 2, None),
        ("StepAttemptFailed", 2, 4.0),
        ("StepStarted", 3, None),
        ("StepAttemptFailed", 3, 9.0),
        ("StepStarted", 4, None),
        ("StepCompleted", 4, None),
    ]
    assert clock.now() - start == timedelta(seconds=9)


def test_the_last_attempt_fails_the_step(open_hf, act, ran):
    """After `attempts` tries the last error is the step's."""
    hf = open_hf(clock=FakeClock())
    ask = flaky(ran, 99, Retry(attempts=3))
    with pytest.raises(ValueError, match="no 3"):
        hf.with_id("x").run(act(lambda: ask()))
    assert ran == [1, 2, 3]
    assert [kind for kind, *_ in attempts(hf, "x")][-1] == "StepFailed"


@pytest.mark.parametrize(
    ("on", "tries"),
    [
        (ValueError, 3),
        (KeyError, 1),
        ((KeyError, ValueError), 3),
        (lambda error: "no 1" in str(error), 2),
    ],
    ids=["class", "other class", "classes", "function"],
)
def test_only_errors_that_the_filter_wants_are_tried_again(open_hf, act, ran, on, tries):
    """`on` is a class, several, or a function of the error."""
    hf = open_hf(clock=FakeClock())
    ask = flaky(ran, 99, Retry(attempts=3, on=on))
    with pytest.raises(ValueError, match=f"no {tries}"):
        hf.run(act(lambda: ask()))
    assert len(ran) == tries


@pytest.mark.parametrize("survivor", range(1, 8))
def test_attempts_survive_a_crash(open_hf, act, ran, crashes, survivor):
    """Killed after any append, the step has its attempts counted once and waits for the recorded time."""
    clock = FakeClock()
    ask = flaky(ran, 3, Retry(attempts=4, initial=10, factor=1, jitter=0))
    first = open_hf(clock=clock)
    crashes.arm(first, survivor)
    try:
        first.with_id("x").run(act(lambda: ask()))
    except StoreError:
        pass
    crashes.bury(first)
    second = open_hf(clock=clock)
    assert second.with_id("x").run(act(lambda: ask())) == "yes"
    failed = [attempt for kind, attempt, _ in attempts(second, "x") if kind == "StepAttemptFailed"]
    assert len(failed) in (2, 3)  # the attempt that was cut off is not a failure
    assert failed == sorted(set(failed))
    assert len(ran) in (4, 5)


def test_attempts_are_counted_across_a_crash(open_hf, act, ran, crashes):
    """Two failures before it and two after it are the four attempts that the step has."""
    clock = FakeClock()
    ask = flaky(ran, 99, Retry(attempts=4, initial=10, factor=1, jitter=0))

    def die(event):
        if event.type == "StepAttemptFailed" and len(ran) == 2:
            store.left = 0

    first = open_hf(clock=clock, on_event=die)
    store = crashes.arm(first)
    with pytest.raises(StoreError):
        first.with_id("x").run(act(lambda: ask()))
    crashes.bury(first)
    with pytest.raises(ValueError, match="no 4"):
        open_hf(clock=clock).with_id("x").run(act(lambda: ask()))
    assert ran == [1, 2, 3, 4]


def test_total_ends_the_attempts(open_hf, act, ran):
    """No attempt begins later than `total` seconds after the first start."""
    hf = open_hf(clock=FakeClock())
    ask = flaky(ran, 99, Retry(attempts=50, initial=10, factor=1, jitter=0, total=35))
    with pytest.raises(ValueError, match="no 4"):
        hf.run(act(lambda: ask()))


def test_retries_of_async_steps(open_hf, act, ran):
    """The same rule in the other colour."""
    hf = open_hf(clock=FakeClock())

    @step(retry=Retry(attempts=3))
    async def ask() -> str:
        ran.append(1)
        if len(ran) < 3:
            raise ValueError("no")
        return "yes"

    async def plot():
        return await ask()

    assert hf.with_id("x").run(act(plot)) == "yes"
    assert len(attempts(hf, "x")) == 6


@pytest.mark.parametrize("chance", [0.0, 0.25, 0.999999])
def test_jitter_stays_in_its_bounds(chance):
    """The wait is spread by ±jitter around the exponential one, never beyond, never negative."""
    retry = Retry(initial=2, factor=2, cap=7, jitter=0.5)
    for failures, plain in [(1, 2), (2, 4), (3, 7), (500, 7), (5000, 7)]:
        assert plain * 0.5 <= retry.delay(failures, chance) <= plain * 1.5
    assert Retry(jitter=1).delay(1, 0.0) == 0.0


@pytest.mark.parametrize("options", [{"attempts": 0}, {"initial": -1}, {"factor": 0.5}, {"jitter": 2}])
def test_wrong_policies_are_refused(options):
    """A policy that cannot be meant is told where it is made."""
    with pytest.raises(BadInput, match="Retry"):
        Retry(**options)


def test_a_reopened_step_has_all_its_attempts_again(open_hf, act, ran):
    """`resume` of a failed run gives the failed step a fresh count; the attempt numbers continue."""
    hf = open_hf(clock=FakeClock())
    ask = flaky(ran, 3, Retry(attempts=2))
    with pytest.raises(ValueError, match="no 2"):
        hf.with_id("x").run(act(lambda: ask()))
    assert hf.resume("x").result(30) == "yes"
    assert [(kind, n) for kind, n, _ in attempts(hf, "x")][4:] == [
        ("StepReopened", 1),
        ("StepStarted", 3),
        ("StepAttemptFailed", 3),
        ("StepStarted", 4),
        ("StepCompleted", 4),
    ]
