"""Somebody is at work in the very moment of a restore: nothing outside is written, nothing of theirs lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.workspace.races import Race, following_links

from holdfast.errors import RestoreUndone
from holdfast.workspace.fs import exchange
from holdfast.workspace.restoring.restore_plan import Plan
from holdfast.workspace.workspace import Workspace


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


@pytest.fixture
def plan(root: Path, workspace: Workspace) -> Plan:
    """To put back what a run did to three files."""
    for name in ("a", "b", "c"):
        (root / name).write_text("good")
    to = workspace.snapshot().id
    for name in ("a", "b", "c"):
        (root / name).write_text("bad")
    return workspace.plan(to, workspace.snapshot().id)


def replaced_at_the_last_moment(root: Path, *, die: bool) -> None:
    """Somebody replaces `b` just before its turn; then perhaps the process dies just after it."""
    real = exchange.exchange

    def racing(directory: int, one: bytes, other: bytes) -> bool:
        if other != b"b" or (root / "b").read_text() != "bad":
            return real(directory, one, other)
        (root / "other").write_text("theirs")
        os.rename(root / "other", root / "b")
        done = real(directory, one, other)
        if die:
            os._exit(0)
        return done

    exchange.exchange = racing


@pytest.mark.parametrize("die", [False, True], ids=["alive", "killed"])
def test_a_file_that_is_replaced_at_the_last_moment_stays(
    root: Path, workspace: Workspace, plan: Plan, die: bool
) -> None:
    """The restore is taken back, also if it is killed before it could look at what it had got."""
    pid = os.fork()
    if pid == 0:
        replaced_at_the_last_moment(root, die=die)
        try:
            workspace.apply(plan)
            os._exit(1)
        except RestoreUndone:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    recovered = workspace.recover()
    assert (recovered is not None) == die
    assert {path.name: path.read_text() for path in root.iterdir()} == {"a": "bad", "b": "theirs", "c": "bad"}
