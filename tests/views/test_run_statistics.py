"""`stats RUN`: what a run has used, and that each total is the sum of what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import Holdfast, Retry, checkpoint, command, measure, step, workflow
from holdfast.errors import BadInput
from holdfast.kernel.measures import Measured, added
from holdfast.views.run_statistics import Used, total

AMOUNTS = st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 99))
ATTEMPTS = st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=3)
"""Of one step, all but the last of which fail: what each uses of two models."""

_tried: dict[int, int] = {}


@step(retry=Retry(attempts=5, initial=0))
def use(number: int, attempts: list[list[list[int]]]) -> str:
    n = _tried[number] = _tried.get(number, -1) + 1
    for model, (given_, taken, cents) in zip("ab", attempts[n], strict=True):
        measure(model=model, input_tokens=given_, output_tokens=taken, usd=Decimal(cents) / 100, calls=1)
    if n < len(attempts) - 1:
        raise ValueError("not yet")
    return "x" * n


@workflow
def inner(number: int, attempts: list[list[list[int]]]) -> str:
    return use(number, attempts)


@workflow
def using(steps: list[list[list[list[int]]]], in_child: list[bool]) -> None:
    checkpoint("begun")
    for number, (attempts, apart) in enumerate(zip(steps, in_child, strict=True)):
        inner(number, attempts) if apart else use(number, attempts)


@workflow
def writing() -> None:
    command(["sh", "-c", "echo hello; mkdir d; echo 1 > d/a; echo 2 > d/b"])
    checkpoint("written")
    command(["sh", "-c", "echo 3 > d/b"], isolate="copy")


@pytest.fixture
def hf(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Holdfast]:
    (tmp_path / "tree").mkdir()
    monkeypatch.chdir(tmp_path / "tree")
    with Holdfast(home, workspace=tmp_path / "tree", durability="process") as opened:
        yield opened


def test_totals_are_the_sums_of_what_was_measured(hf: Holdfast) -> None:
    """By steps, by child runs and in all, over failed attempts, and again after a rewind."""

    @settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(st.tuples(ATTEMPTS, st.booleans()), max_size=4), st.booleans())
    def holds(plan: list[tuple[list[tuple[tuple[int, ...], ...]], bool]], again: bool) -> None:
        _tried.clear()
        steps = [[[list(one) for one in attempt] for attempt in attempts] for attempts, _ in plan]
        run = hf.start(using, steps, [apart for _, apart in plan])
        run.result()
        times = 1
        if again:
            hf.rewind(run.id, to="begun")
            _tried.clear()
            hf.resume(run.id).result()
            times = 2
        found = hf.stats(run_id=run.id)
        own = [attempt for (attempts, apart) in plan for attempt in attempts if not apart]
        children = [attempt for (attempts, apart) in plan for attempt in attempts if apart]
        assert _models(found.total) == _models_of(own * times)
        assert found.overall == total(
            [*(one.usage for one in found.steps), *(c.usage for c in found.children)]
        )
        if not again:  # the children of a generation that was left are runs of their own
            assert _models(found.overall) == _models_of(own + children)
        used = [one for one in found.steps if one.name == "use"]
        assert sum(one.usage.attempts for one in used) == len(own) * times
        assert (
            sum(one.usage.lost for one in used) == sum(len(a) - 1 for a, apart in plan if not apart) * times
        )

    holds()


def _models(usage: Used) -> dict[str, Measured]:
    return {one.model: one for one in usage.measured}


def _models_of(attempts: list[tuple[tuple[int, ...], ...]]) -> dict[str, Measured]:
    sums = added(
        (),
        [
            Measured(model, given_, taken, Decimal(cents) / 100, {"calls": 1})
            for attempt in attempts
            for model, (given_, taken, cents) in zip("ab", attempt, strict=True)
        ],
    )
    return {one.model: one for one in sums}


def test_output_and_changed_files_are_counted(hf: Holdfast) -> None:
    """For each attempt, also of a step in a copy."""
    run = hf.start(writing)
    run.result()
    found = hf.stats(run_id=run.id)
    rows = {one.key: one.usage for one in found.steps}
    assert (rows["sh#1"].output, rows["sh#1"].files, rows["sh#2"].files) == (6, 2, 1)
    assert found.total.files == 3
    assert found.to_json()["total"]["files_changed"] == 3


def test_one_run_takes_no_since(hf: Holdfast) -> None:
    """It counts as a whole."""
    run = hf.start(using, [], [])
    run.result()
    with pytest.raises(BadInput, match="takes no `since`"):
        hf.stats(datetime.now(UTC), run_id=run.id)
