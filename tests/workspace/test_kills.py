"""A restore that is killed, or that fails, leaves the old files or the new ones."""

from __future__ import annotations

import random

import pytest
from tests.workspace import kills
from tests.workspace.kills import Story, Striking, scene
from tests.workspace.trees import look, values

from holdfast.errors import RestoreUndone, StoreFull

SAMPLE = 10


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return kills.make(tmp_path_factory.mktemp("kills"))


def test_killed_anywhere(story: Story) -> None:
    """A sample of all operations: the old files or the new ones, and both happen."""
    every = kills.points(story, random.Random(1))
    assert {kills.kill_at(story, next(every)) for _ in range(SAMPLE)} == {"old", "new"}


def test_killed_in_trouble(story: Story) -> None:
    """On the way back after the disk was full, or in the recovery from another kill."""
    chance = random.Random(2)
    for _ in range(SAMPLE):
        kills.kill_at(story, kills.trouble(story, chance))


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
def test_a_full_disk_undoes_it(story: Story, share: float, lasting: bool) -> None:
    """No room at any point: the restore says so and the files are as they were, or it was done."""
    at = 1 + int(story.operations * share)
    with scene(story) as (workspace, plan):
        with Striking(full=at, lasting=lasting):
            try:
                workspace.apply(plan)
                expected = story.new
            except (RestoreUndone, StoreFull):
                expected = story.old
        assert values(look(workspace.root)) == expected
        assert workspace.recover() is None
