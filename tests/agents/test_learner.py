"""The learner alone: it finds the best candidate by value, explores, forgets, and lets failing ones rest."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from holdfast.agents.learning import learner
from holdfast.agents.learning.learner import Record, Rest
from holdfast.store.learning_port import OutcomeRow

FAILURE_USD = 0.1
MODELS = {
    "by success": {"small": (0.5, 0.0), "medium": (0.7, 0.0), "large": (0.9, 0.0)},
    "by cost": {"small": (0.9, 0.01), "medium": (0.9, 0.03), "large": (0.9, 0.09)},
    "by both": {"small": (0.9, 0.004), "medium": (0.92, 0.05), "large": (0.97, 0.2)},
    "cheap and bad": {"small": (0.2, 0.001), "medium": (0.9, 0.02), "large": (0.95, 0.2)},
}


def worth(rate: float, usd: float) -> float:
    """The documented formula."""
    return rate / (usd + (1 - rate) * FAILURE_USD)


class Play:
    """Candidates that succeed by chance, and the memory of a learner, without a store."""

    def __init__(self, models: dict[str, tuple[float, float]], seed: int) -> None:
        self.models = models
        self.random = Random(seed)
        self.outcomes: dict[str, deque[OutcomeRow]] = {name: deque(maxlen=learner.WINDOW) for name in models}

    def choose(self, now: int) -> str:
        records = {name: learner.summed(rows) for name, rows in self.outcomes.items()}
        return learner.rank(records, self.random, now, FAILURE_USD)[0]

    def work(self, name: str, now: int) -> None:
        rate, usd = self.models[name]
        cost = round(usd * 1e9 * self.random.lognormvariate(0, 0.3))
        self.outcomes[name].appendleft(OutcomeRow(now, self.random.random() < rate, cost))

    def play(self, count: int, start: int = 0) -> list[str]:
        chosen = []
        for now in range(start, start + count):
            chosen.append(self.choose(now))
            self.work(chosen[-1], now)
        return chosen


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", MODELS)
def test_at_least_nine_of_ten_late_choices_are_the_best_by_value(case: str, seed: int) -> None:
    """Of 2,000 choices, at least 90% of the last 500 go to the candidate with the most successes per
    dollar."""
    models = MODELS[case]
    best = max(models, key=lambda name: worth(*models[name]))
    late = Play(models, seed).play(2000)[-500:]
    assert late.count(best) >= 450


def test_a_candidate_that_became_bad_is_left() -> None:
    """Only the last outcomes count: a candidate that was the best for long, and is not, loses its place."""
    play = Play({"old": (0.95, 0.01), "new": (0.7, 0.01)}, 1)
    assert play.play(1500)[-200:].count("old") > 180
    play.models["old"] = (0.1, 0.01)
    assert play.play(600, 1500)[-200:].count("new") > 180


def test_one_expensive_try_does_not_end_a_candidate() -> None:
    """A candidate whose first try cost five times as much is tried again, and found to be the best."""
    play = Play({"small": (0.9, 0.01), "large": (0.9, 0.03)}, 2)
    play.outcomes["small"].append(OutcomeRow(0, True, round(0.05 * 1e9)))
    assert play.play(2000)[-500:].count("small") >= 450


def test_costs_that_nobody_knows_decide_nothing() -> None:
    """Candidates without costs are compared by their success alone, with those that have them too."""
    records = {"free": Record(90, 10), "priced": Record(50, 50, 5.0, 100)}
    random = Random(0)
    firsts = [learner.rank(records, random, 0, FAILURE_USD)[0] for _ in range(200)]
    assert firsts.count("free") > 195


def test_a_new_candidate_is_tried() -> None:
    """Beside one that nearly always succeeds, one that nothing is known of gets tries."""
    records = {"known": Record(180, 20, 2.0, 200), "new": Record()}
    random = Random(0)
    firsts = [learner.rank(records, random, 0, FAILURE_USD)[0] for _ in range(1000)]
    assert 10 < firsts.count("new") < 500


def test_every_candidate_is_ranked_once() -> None:
    """A rank is an order of all candidates, whatever is known of them."""
    records = {"a": Record(1, 0), "b": Record(), "c": Record(0, 9, 0.0, 0, 9, 5)}
    random = Random(0)
    assert all(
        sorted(learner.rank(records, random, now, FAILURE_USD)) == ["a", "b", "c"] for now in range(50)
    )


def failures(count: int, at: int = 0) -> list[OutcomeRow]:
    return [OutcomeRow(at, False, -1, "TimeoutError")] * count


def test_a_candidate_that_fails_in_a_row_rests_longer_each_time() -> None:
    """Three exceptions in a row: 60 s; each further one doubles that, up to 64 times."""
    rest, second = Rest(3, 60.0), 1_000_000
    until = [rest.until(learner.summed(failures(count, at=7))) for count in range(13)]
    assert until[:3] == [0, 0, 0]
    assert until[3:6] == [7 + 60 * second, 7 + 120 * second, 7 + 240 * second]
    assert until[9:] == [7 + 3840 * second] * 4


def test_a_rest_ends_with_a_success_or_with_time() -> None:
    """While it rests, a candidate comes last; after that it has its chance again."""
    down = learner.summed(failures(3, at=0))
    records = {"down": down, "up": Record(1, 5)}
    random = Random(0)
    asleep = [learner.rank(records, random, 59_999_999, FAILURE_USD)[0] for _ in range(100)]
    awake = [learner.rank(records, random, 60_000_000, FAILURE_USD)[0] for _ in range(100)]
    assert set(asleep) == {"up"} and "down" in awake
    back = learner.summed([OutcomeRow(1, True), *failures(9)])
    assert Rest().until(back) == 0


def test_bad_results_without_an_exception_are_no_reason_to_rest() -> None:
    """A model that answers is there, however bad its answers are: that is learned, not waited out."""
    assert Rest().until(learner.summed([OutcomeRow(1, False)] * 50)) == 0


def test_when_all_rest_the_one_that_wakes_first_is_first() -> None:
    """A rank never refuses."""
    records = {"long": learner.summed(failures(9)), "short": learner.summed(failures(3))}
    assert learner.rank(records, Random(0), 1, FAILURE_USD) == ["short", "long"]


def test_the_value_for_people_is_the_documented_formula() -> None:
    """Successes per dollar, by the means, with one success and one failure assumed."""
    record = Record(89, 9, 2.0, 100)
    assert learner.expected_value(record, FAILURE_USD) == pytest.approx(worth(0.9, 0.02))
