"""Tools stay inside the workspace: whatever path they are given, and whoever swaps directories meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agents.races import escapes_unprotected, races
from tests.workspace.trees import look

from holdfast.agents.tools import file_tools, searching
from holdfast.agents.tools.confinement import Confinement
from holdfast.errors import ToolFailed
from holdfast.workspace.fs import beneath


@pytest.mark.parametrize("far", [True, False], ids=["openat2", "piecewise"])
def test_nothing_outside_is_read_or_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, far: bool
) -> None:
    """Whatever a directory is swapped for while the tools work; some calls get through."""
    monkeypatch.setattr(beneath, "_OPENS_FAR", far and beneath._OPENS_FAR)
    race = races(tmp_path, 20)
    assert not race.has_escaped
    assert race.done


def test_the_same_race_escapes_if_links_are_followed(tmp_path: Path) -> None:
    """The control: the race is real."""
    assert escapes_unprotected(tmp_path, 300)


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Confinement]:
    """A workspace `tree` beside a file `secret`, with every kind of way out of it."""
    (tmp_path / "secret").write_text("outside\n")
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "a.txt").write_text("one\ntwo\none\n")
    (tree / "link").symlink_to("../secret")
    (tree / "up").symlink_to("..")
    (tree / "loop").symlink_to("loop")
    os.link(tmp_path / "secret", tree / "hard")
    os.mkfifo(tree / "pipe")
    with Confinement(tree) as opened:
        yield opened


WAYS_OUT = {
    "../secret": "has '..'",
    "sub/../../secret": "has '..'",
    "/etc/passwd": "absolute",
    "link": "symlink to '../secret'",
    "up/secret": "symlink to '..'",
    "loop": "symlink",
    "a.txt/x": "is a file, not a directory",
    "a\0b": "NUL",
    "pipe": "a pipe",
    "": "the workspace itself",
    "sub": "a directory",
}


@pytest.mark.parametrize(("path", "why"), WAYS_OUT.items(), ids=repr)
def test_a_path_that_leads_out_is_refused(inside: Confinement, path: str, why: str) -> None:
    """By each tool that takes a path, in words that name the reason; nothing changes anywhere."""
    before = look(inside.root.parent)
    for act in (
        lambda: file_tools.read(inside, path, 1, 0, 1000, None),
        lambda: file_tools.write(inside, path, "mine", "utf-8", False),
        lambda: file_tools.edit(inside, path, "outside", "mine", False),
    ):
        with pytest.raises(ToolFailed) as refused:
            act()
        assert why in str(refused.value)
    assert look(inside.root.parent) == before


def test_directories_that_lead_out_are_not_listed_or_searched(inside: Confinement) -> None:
    """Named as the place to begin, or met on the way."""
    query = searching.Query("outside", "", (), True, False, 0, 100, 60.0)
    for path in ("up", "..", "/", "link"):
        with pytest.raises(ToolFailed):
            file_tools.list_files(inside, path, (), 0, False, 100)
        with pytest.raises(ToolFailed):
            searching.search(inside, query._replace(path=path))
    found = searching.search(inside, query)
    assert found.matches == ()
    assert "hard links" in found.left_out
    listed = {entry.path for entry in file_tools.list_files(inside, "", (), 0, True, 100).entries}
    assert listed == {"a.txt", "hard", "link", "loop", "pipe", "sub", "up"}


def test_a_hard_link_is_replaced_and_not_written_through(inside: Confinement, tmp_path: Path) -> None:
    """The other name keeps its content. Reading is refused while a name is outside, and works if all are
    in."""
    with pytest.raises(ToolFailed, match="hard link"):
        file_tools.read(inside, "hard", 1, 0, 1000, None)
    file_tools.write(inside, "hard", "mine", "utf-8", False)
    assert (tmp_path / "secret").read_text() == "outside\n"
    os.link(inside.root / "a.txt", inside.root / "sub" / "b.txt")
    with Confinement(inside.root) as again:
        assert file_tools.read(again, "sub/b.txt", 1, 0, 1000, None).text == "one\ntwo\none\n"
        file_tools.edit(again, "sub/b.txt", "two", "2", False)
    assert (inside.root / "a.txt").read_text() == "one\ntwo\none\n"


@pytest.mark.parametrize("path", [".git/config", "sub/.GIT/hooks/x", ".holdfast/state"])
def test_what_is_gits_or_holdfasts_own_is_not_written(inside: Confinement, path: str) -> None:
    """A hook or a setting there would run code that no tool may run."""
    with pytest.raises(ToolFailed, match="own"):
        file_tools.write(inside, path, "x", "utf-8", False)
    with Confinement(inside.root, inside.root / "sub") as beside, pytest.raises(ToolFailed, match="own"):
        file_tools.write(beside, "sub/holdfast.db", "x", "utf-8", False)
    assert not (inside.root / path).exists()


def test_a_replaced_file_keeps_its_permissions(inside: Confinement) -> None:
    """And a new one gets what the umask leaves; no temporary file stays."""
    (inside.root / "a.txt").chmod(0o755)
    file_tools.write(inside, "a.txt", "x", "utf-8", False)
    file_tools.write(inside, "new/deep/b.txt", "x", "utf-8", False)
    assert (inside.root / "a.txt").stat().st_mode & 0o777 == 0o755
    assert not list(inside.root.rglob("tmp-*"))
