"""A restore that is killed, or that fails, leaves the old files or the new ones."""

from __future__ import annotations

import errno
import random

import pytest
from tests.workspace import kills
from tests.workspace.kills import Story, Striking, scene
from tests.workspace.trees import look, values

from holdfast.errors import RestoreUndone, StoreFull

SAMPLE = 24


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return kills.make(tmp_path_factory.mktemp("kills"))


def test_killed_anywhere(story: Story) -> None:
    """A sample of all operations, and of pairs: killed, and killed again in the recovery."""
    chance = random.Random(1)
    every = kills.points(story, chance)
    outcomes = [
        kills.kill_at(story, at, after=after) for at, after, _ in (next(every) for _ in range(SAMPLE))
    ]
    assert {*outcomes} == {"old", "new"}
    for _ in range(SAMPLE // 4):
        kills.kill_at(
            story,
            chance.randint(1, story.operations),
            after=True,
            again=chance.randint(1, story.operations // 2),
        )


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
def test_a_full_disk_undoes_it(story: Story, share: float, lasting: bool) -> None:
    """No room at any point: the restore says so and the files are as they were, or it was done."""
    at = 1 + int(story.operations * share)
    with scene(story) as (workspace, plan):
        with Striking(at, error=errno.ENOSPC, lasting=lasting):
            try:
                workspace.apply(plan)
                expected = story.new
            except (RestoreUndone, StoreFull):
                expected = story.old
        assert values(look(workspace.root)) == expected
        assert workspace.recover() is None
