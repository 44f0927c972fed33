"""A symlink that is swapped into a parent directory while a restore runs leads nowhere."""

from __future__ import annotations

from pathlib import Path

from tests.workspace.races import Race, following_links


def test_nothing_outside_is_written(tmp_path: Path) -> None:
    """Whatever becomes of the restore."""
    race = Race(tmp_path)
    for _ in range(30):
        race.run()
    assert not race.has_escaped


def test_the_same_race_escapes_if_links_are_followed(tmp_path: Path) -> None:
    """The control: the race is real."""
    race = Race(tmp_path)
    with following_links():
        for _ in range(300):
            race.run()
            if race.has_escaped:
                return
    raise AssertionError("no race was lost")
