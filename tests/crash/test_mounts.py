"""Power cuts of a whole application on real filesystems: one cut of each, and a control."""

import pytest
from tests.crash import mounts
from tests.crash.score import Budget

SEED = 1


@pytest.mark.parametrize("kind", mounts.MAKE)
def test_sample(kind):
    """What was acknowledged is there after the cut, and the runs continue to their ends."""
    print(f"seed {SEED}")
    score = mounts.run_on(kind, Budget(SEED, 0.1))
    if score.skipped:
        pytest.skip(score.skipped)
    assert (score.points, score.lost, score.violations) == (1, 0, [])
    assert score.notes["of these lost something"] == 1
