"""Projects: which store belongs to which directory, whatever happens to either."""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from holdfast import project as project_module
from holdfast.directory_identity import DirectoryIdentity
from holdfast.errors import NotFound, SettingsError, StoreError, StoreFull, StoreReadOnly
from holdfast.project import Project, data_home, expand, explicit_home, find_root, open_project


def mint_from(*ids: str) -> Callable[[], str]:
    return iter(ids).__next__


def no_mint() -> str:
    raise AssertionError("no new id was to be made")


def pointer(root: Path) -> Path:
    return root / ".holdfast" / "project.json"


def card(path: Path) -> dict[str, object]:
    loaded: dict[str, object] = json.loads(path.read_text())
    return loaded


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def tree(directory: Path) -> dict[str, bytes]:
    """Every file beneath a directory, to see that nothing was written."""
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data" / "holdfast"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "kelp"
    path.mkdir()
    return path


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that an unprivileged user can reach."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    for directory in (path, *path.rglob("*")):
        if directory.is_dir():
            directory.chmod(0o755)
    shutil.rmtree(path)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Permissions hold for root too while this is open."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def give_away(*paths: Path) -> None:
    if os.geteuid() == 0:
        for path in paths:
            os.chown(path, 65534, 65534)


# The root


def test_the_root_is_the_git_root(tmp_path: Path) -> None:
    """The nearest `.git` upwards decides, be it a directory or a worktree's file, before any `.holdfast/`."""
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "worktree"
    (inner / "src" / ".holdfast").mkdir(parents=True)
    assert find_root(inner / "src", environ={}) == tmp_path
    (inner / ".git").write_text("gitdir: elsewhere\n")
    assert find_root(inner / "src", environ={}) == inner


def test_without_git_the_nearest_pointer_directory(tmp_path: Path) -> None:
    """Where there is no git, `.holdfast/` marks the root; a file of that name does not."""
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "a" / ".holdfast").mkdir()
    (tmp_path / "a" / "b" / ".holdfast").touch()
    assert find_root(tmp_path / "a" / "b" / "c", environ={}) == tmp_path / "a"


def test_without_any_mark_the_working_directory(root: Path) -> None:
    """A directory with no mark is its own root."""
    assert find_root(root, environ={}) == root


def test_the_home_directory_is_no_root_for_what_is_beneath(tmp_path: Path) -> None:
    """A `.holdfast/` in or above the home directory does not claim the projects in it."""
    home = tmp_path / "home"
    (home / "notes" / "deep").mkdir(parents=True)
    (home / ".holdfast").mkdir()
    (tmp_path / ".holdfast").mkdir()
    environ = {"HOME": str(home)}
    assert find_root(home / "notes", environ=environ) == home / "notes"
    assert find_root(home, environ=environ) == home
    (home / "notes" / ".holdfast").mkdir()
    assert find_root(home / "notes" / "deep", environ=environ) == home / "notes"


def test_a_symlinked_working_directory_has_the_real_root(tmp_path: Path, root: Path) -> None:
    """Two spellings of one directory are one project."""
    (tmp_path / "link").symlink_to(root)
    assert find_root(tmp_path / "link", environ={}) == root


# Directories


def test_the_data_directory() -> None:
    """XDG_DATA_HOME decides when it is absolute, else the home directory."""
    assert data_home({"HOME": "/h"}) == Path("/h/.local/share/holdfast")
    assert data_home({"HOME": "/h", "XDG_DATA_HOME": "/x"}) == Path("/x/holdfast")
    assert data_home({"HOME": "/h", "XDG_DATA_HOME": ""}) == Path("/h/.local/share/holdfast")
    assert data_home({"HOME": "/h", "XDG_DATA_HOME": "x"}) == Path("/h/.local/share/holdfast")


def test_the_environment_of_the_process_is_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only what is passed counts."""
    monkeypatch.setenv("XDG_DATA_HOME", "/wrong")
    monkeypatch.setenv("HOME", "/wrong")
    monkeypatch.chdir(tmp_path)
    assert data_home({"HOME": "/h"}) == Path("/h/.local/share/holdfast")
    assert expand("~/a", environ={"HOME": "/h"}, cwd=Path("/c")) == Path("/h/a")
    assert expand("a", environ={}, cwd=Path("/c")) == Path("/c/a")


def test_a_user_without_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user that the system does not know has `/`, which leads to a sentence and not to a crash."""

    def unknown(uid: int) -> object:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert data_home({}) == Path("/.local/share/holdfast")


@pytest.mark.parametrize(
    ("text", "expected"), [("~", "/h"), ("~/a", "/h/a"), ("a/b", "/c/a/b"), ("/a", "/a")]
)
def test_expand(text: str, expected: str) -> None:
    """`~` is the home directory; a relative path counts from the working directory."""
    assert expand(text, environ={"HOME": "/h"}, cwd=Path("/c")) == Path(expected)


@pytest.mark.parametrize("text", ["", "~bob/store", "a\0b"])
def test_what_is_no_path(text: str) -> None:
    """What would make a directory of a strange name is refused."""
    with pytest.raises(SettingsError):
        expand(text, environ={"HOME": "/h"}, cwd=Path("/c"))


def test_an_explicit_home_is_made_private(tmp_path: Path) -> None:
    """A named store directory is made with its parents and mode 0700, whatever the umask."""
    before = os.umask(0o000)
    try:
        home = explicit_home("a/store", environ={}, cwd=tmp_path)
    finally:
        os.umask(before)
    assert (home, mode(home)) == (tmp_path / "a" / "store", 0o700)


def test_an_explicit_home_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    """Naming an existing directory does not lock others out of it."""
    tmp_path.chmod(0o755)
    assert explicit_home(tmp_path, environ={}, cwd=Path("/")) == tmp_path
    assert mode(tmp_path) == 0o755


def test_an_explicit_home_that_cannot_be(tmp_path: Path, shared: Path) -> None:
    """A file as home is a wrong setting; one that may not be made is a store that cannot be written."""
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="file is not a directory; name another"):
        explicit_home("file", environ={}, cwd=tmp_path)
    shared.chmod(0o555)
    with unprivileged(), pytest.raises(StoreReadOnly):
        explicit_home("store", environ={}, cwd=shared)


# First use


def test_first_use_makes_pointer_and_home(root: Path, data: Path) -> None:
    """The first opening makes `.holdfast/`, hidden from git, and a private home that knows its root."""
    project = open_project(root, data, mint=mint_from("0a1b2c3d"))
    assert project == Project(root=root, id="0a1b2c3d", name="kelp", home=data / "kelp-0a1b2c3d")
    assert card(pointer(root)) == {"id": "0a1b2c3d", "name": "kelp", "root": str(root)}
    assert (root / ".holdfast" / ".gitignore").read_text() == "*\n"
    status = root.stat()
    assert card(project.home / "project.json") == {
        "id": "0a1b2c3d",
        "name": "kelp",
        "root": str(root),
        "device": status.st_dev,
        "inode": status.st_ino,
        "born": DirectoryIdentity.of(root).born,
    }
    assert (mode(project.home), mode(data), mode(project.home / "project.json")) == (0o700, 0o700, 0o600)
    assert sorted(path.name for path in (root / ".holdfast").iterdir()) == [".gitignore", "project.json"]


def test_git_sees_nothing(root: Path, data: Path) -> None:
    """`git status` is clean after the first use."""
    subprocess.run(["git", "init", "-q", root], check=True)
    open_project(root, data, mint=mint_from("0a1b2c3d"))
    shown = subprocess.run(["git", "-C", root, "status", "--porcelain"], capture_output=True, check=True)
    assert shown.stdout == b""


def test_opening_again_writes_nothing(root: Path, data: Path) -> None:
    """The second opening finds the same project and touches no file."""
    first = open_project(root, data, mint=mint_from("0a1b2c3d"))
    before = tree(root), tree(data)
    assert open_project(root, data, mint=no_mint) == first
    assert (tree(root), tree(data)) == before


def test_a_gitignore_of_the_user_is_kept(root: Path, data: Path) -> None:
    """Who wants the mirror in git writes another `.gitignore`, and it stays."""
    (root / ".holdfast").mkdir()
    (root / ".holdfast" / ".gitignore").write_text("!tasks\n")
    open_project(root, data, mint=mint_from("0a1b2c3d"))
    assert (root / ".holdfast" / ".gitignore").read_text() == "!tasks\n"


@pytest.mark.parametrize(
    ("directory", "name"),
    [
        ("My Project!", "My-Project"),
        ("...", "project"),
        ("проект", "project"),
        ("a" * 60, "a" * 40),
        (".x-", "x"),
    ],
)
def test_names_are_fit_for_files(tmp_path: Path, data: Path, directory: str, name: str) -> None:
    """The home is named after the directory, in letters that every filesystem takes."""
    root = tmp_path / directory
    root.mkdir()
    project = open_project(root, data, mint=mint_from("0a1b2c3d"))
    assert (project.name, project.home.name) == (name, f"{name}-0a1b2c3d")
    assert open_project(root, data, mint=no_mint) == project


def test_a_root_that_is_not_utf8(tmp_path: Path, data: Path) -> None:
    """A directory's name may be any bytes."""
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/k\xff"))
    root.mkdir()
    project = open_project(root, data, mint=mint_from("0a1b2c3d"))
    shutil.rmtree(root / ".holdfast")
    assert open_project(root, data, mint=no_mint) == project


def test_an_id_that_is_taken_is_not_used(tmp_path: Path, root: Path, data: Path) -> None:
    """A minted id that another home has, or that is no id, is passed over; without end it is an error."""
    open_project(root, data, mint=mint_from("aaaa"))
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(StoreError, match="no free id"):
        open_project(other, data, mint=lambda: "aaaa")
    assert open_project(other, data, mint=mint_from("aaaa", "../b", "bbbb")).id == "bbbb"


def test_without_create_nothing_is_written(root: Path, data: Path) -> None:
    """Looking at a root with no project raises NotFound and leaves no trace."""
    with pytest.raises(NotFound, match="there is no project in"):
        open_project(root, data, mint=no_mint, create=False)
    assert (list(root.iterdir()), data.exists()) == ([], False)


def test_without_create_a_known_project_is_found(root: Path, data: Path) -> None:
    """Looking finds a project by its pointer and by its record, and repairs neither."""
    project = open_project(root, data, mint=mint_from("aaaa"))
    assert open_project(root, data, mint=no_mint, create=False) == project
    shutil.rmtree(root / ".holdfast")
    assert open_project(root, data, mint=no_mint, create=False) == project
    assert list(root.iterdir()) == []


# Lost, moved, copied


def test_a_lost_pointer_is_found_by_the_root(root: Path, data: Path) -> None:
    """After `git clean -fdx` the same store is found, and the pointer is made again."""
    project = open_project(root, data, mint=mint_from("aaaa"))
    shutil.rmtree(root / ".holdfast")
    assert open_project(root, data, mint=no_mint) == project
    assert card(pointer(root))["id"] == "aaaa"
    assert (root / ".holdfast" / ".gitignore").exists()


def test_a_lost_root_is_found_when_it_is_back(root: Path, data: Path) -> None:
    """`rm -rf` of the whole project and a fresh clone at the same path: the undo is still there."""
    project = open_project(root, data, mint=mint_from("aaaa"))
    shutil.rmtree(root)
    root.mkdir()
    assert open_project(root, data, mint=no_mint) == project


def test_a_moved_directory_keeps_its_id(tmp_path: Path, root: Path, data: Path) -> None:
    """The id and the home stay; record and pointer follow to the new place."""
    project = open_project(root, data, mint=mint_from("aaaa"))
    moved = root.rename(tmp_path / "weed")
    assert open_project(moved, data, mint=no_mint) == Project(moved, "aaaa", "kelp", project.home)
    assert card(project.home / "project.json")["root"] == str(moved)
    assert card(pointer(moved))["root"] == str(moved)
    shutil.rmtree(moved / ".holdfast")
    assert open_project(moved, data, mint=no_mint).id == "aaaa"


def test_a_moved_directory_whose_old_place_is_taken(tmp_path: Path, root: Path, data: Path) -> None:
    """A new directory at the old place does not make the moved one a copy."""
    open_project(root, data, mint=mint_from("aaaa"))
    moved = root.rename(tmp_path / "weed")
    root.mkdir()
    assert open_project(moved, data, mint=no_mint).id == "aaaa"
    assert open_project(root, data, mint=mint_from("bbbb")).id == "bbbb"
    assert open_project(moved, data, mint=no_mint).id == "aaaa"


def test_two_projects_that_change_places(tmp_path: Path, data: Path) -> None:
    """Pointers go with their directories; a lost one is found by the record that was last at the place."""
    one, two, aside = tmp_path / "one", tmp_path / "two", tmp_path / "aside"
    for path, id in ((one, "aaaa"), (two, "bbbb")):
        path.mkdir()
        open_project(path, data, mint=mint_from(id))
    one.rename(aside)
    two.rename(one)
    assert open_project(one, data, mint=no_mint).id == "bbbb"
    shutil.rmtree(one / ".holdfast")
    assert open_project(one, data, mint=no_mint).id == "bbbb"
    assert open_project(aside, data, mint=no_mint).id == "aaaa"


def test_a_copied_directory_gets_its_own_id(tmp_path: Path, root: Path, data: Path) -> None:
    """While the original lives, a copy is another project from its first opening on."""
    project = open_project(root, data, mint=mint_from("aaaa"))
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    with pytest.raises(NotFound):
        open_project(copy, data, mint=no_mint, create=False)
    made = open_project(copy, data, mint=mint_from("aaaa", "bbbb"))
    assert made == Project(copy, "bbbb", "copy", data / "copy-bbbb")
    assert open_project(copy, data, mint=no_mint) == made
    assert open_project(root, data, mint=no_mint) == project


def test_a_moved_directory_that_was_only_read_is_no_longer_taken_by_a_copy(
    tmp_path: Path, root: Path, data: Path
) -> None:
    """A command that only reads records where the directory is now: a copy of it finds that it is alive."""
    project = open_project(root, data, mint=mint_from("aaaa"))
    (project.home / "holdfast.db").touch()
    (tmp_path / "far").mkdir()
    moved = root.rename(tmp_path / "far" / "weed")
    assert open_project(moved, data, mint=no_mint, create=False).id == "aaaa"
    assert card(project.home / "project.json")["root"] == str(moved)
    assert card(pointer(moved))["root"] == str(root)  # nothing is written in the project
    copy = Path(shutil.copytree(moved, tmp_path / "copy"))
    with pytest.raises(NotFound):
        open_project(copy, data, mint=no_mint, create=False)
    assert open_project(copy, data, mint=mint_from("bbbb")).id == "bbbb"
    assert open_project(moved, data, mint=no_mint).id == "aaaa"
    assert card(pointer(moved))["root"] == str(moved)


def test_a_copy_of_a_directory_that_was_renamed_in_place(tmp_path: Path, root: Path, data: Path) -> None:
    """The renamed directory is found beside its old place by its inode, though no command has run there."""
    open_project(root, data, mint=mint_from("aaaa"))
    moved = root.rename(tmp_path / "weed")
    copy = Path(shutil.copytree(moved, tmp_path / "copy"))
    assert open_project(copy, data, mint=mint_from("bbbb")).id == "bbbb"
    assert open_project(moved, data, mint=no_mint).id == "aaaa"


def test_a_copy_does_not_take_the_store_of_a_cleaned_original(tmp_path: Path, root: Path, data: Path) -> None:
    """`git clean -fdx` removes the pointer of the original, which still is the recorded directory."""
    open_project(root, data, mint=mint_from("aaaa"))
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    shutil.rmtree(root / ".holdfast")
    assert open_project(copy, data, mint=mint_from("bbbb")).id == "bbbb"
    assert open_project(root, data, mint=no_mint).id == "aaaa"


def test_a_moved_directory_is_read_where_nothing_can_be_written(shared: Path) -> None:
    """The new place is not recorded then, and that is no error."""
    root, data = shared / "kelp", shared / "data"
    root.mkdir()
    project = open_project(root, data, mint=mint_from("aaaa"))
    (project.home / "holdfast.db").touch()
    moved = root.rename(shared / "weed")
    give_away(moved, *moved.rglob("*"), data, project.home, project.home / "project.json")
    for path in (moved, moved / ".holdfast", data, project.home):
        path.chmod(0o555)
    before = tree(data)
    with unprivileged():
        assert open_project(moved, data, mint=no_mint, create=False).id == "aaaa"
    assert tree(data) == before


def test_a_copy_does_not_take_the_store_of_a_corrupt_original(tmp_path: Path, root: Path, data: Path) -> None:
    """An original whose pointer cannot be read lives on: the copy is still a copy."""
    project = open_project(root, data, mint=mint_from("aaaa"))
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    pointer(root).write_text("{")
    assert open_project(copy, data, mint=mint_from("bbbb")).id == "bbbb"
    assert open_project(root, data, mint=no_mint) == project


def test_a_copy_made_again_gets_back_its_own(tmp_path: Path, root: Path, data: Path) -> None:
    """Copying over a copy brings the original's pointer; the record knows better."""
    open_project(root, data, mint=mint_from("aaaa"))
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    made = open_project(copy, data, mint=mint_from("bbbb"))
    shutil.copytree(root, copy, dirs_exist_ok=True)
    assert card(pointer(copy))["id"] == "aaaa"
    assert open_project(copy, data, mint=no_mint) == made


def test_a_copy_is_seen_without_a_record(tmp_path: Path, root: Path, data: Path) -> None:
    """Where the home is gone, the pointer's own root tells the copy from the original."""
    project = open_project(root, data, mint=mint_from("aaaa"))
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    shutil.rmtree(data)
    assert open_project(copy, data, mint=mint_from("bbbb")).id == "bbbb"
    assert open_project(root, data, mint=no_mint) == project
    assert mode(project.home) == 0o700


def test_another_mount_of_the_same_directory_is_no_copy(tmp_path: Path, root: Path, data: Path) -> None:
    """A recorded path that leads to the same directory is the project itself, and nothing is written."""
    project = open_project(root, data, mint=mint_from("aaaa"))
    (tmp_path / "link").symlink_to(root)
    record = project.home / "project.json"
    record.write_text(json.dumps({**card(record), "root": str(tmp_path / "link")}))
    before = tree(data)
    assert open_project(root, data, mint=no_mint) == project
    assert tree(data) == before


def test_a_home_kept_as_backup_is_not_taken(root: Path, data: Path) -> None:
    """A copy of the home beside it has the same record, but is not the home."""
    project = open_project(root, data, mint=mint_from("aaaa"))
    shutil.copytree(project.home, data / "kelp-aaaa-old")
    os.utime(data / "kelp-aaaa-old" / "project.json")
    shutil.rmtree(root / ".holdfast")
    assert open_project(root, data, mint=no_mint) == project


def test_a_name_edited_in_the_pointer(root: Path, data: Path) -> None:
    """The id decides: another name in the pointer does not lead to an empty store."""
    project = open_project(root, data, mint=mint_from("aaaa"))
    pointer(root).write_text(json.dumps({**card(pointer(root)), "name": "other"}))
    assert open_project(root, data, mint=no_mint) == project


def test_a_home_that_was_cut_off(root: Path, data: Path) -> None:
    """Killed between pointer and home: the next opening continues the same id."""
    project = open_project(root, data, mint=mint_from("aaaa"))
    shutil.rmtree(project.home)
    assert open_project(root, data, mint=no_mint) == project
    (project.home / "project.json").unlink()
    assert open_project(root, data, mint=no_mint) == project
    assert card(project.home / "project.json")["root"] == str(root)


# Corrupt


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "\ufeff{}",
        "[" * 100_000,
        '{"id": "aaaa"}',
        '{"id": 1, "name": "kelp", "root": "/"}',
        '{"id": "../x", "name": "kelp", "root": "/a"}',
        '{"id": "aaaa", "name": "../x", "root": "/a"}',
        '{"id": "aaaa", "name": "kelp", "root": "a"}',
        '{"id": "aaaa", "name": "kelp", "root": "/a\\u0000"}',
    ],
)
def test_a_corrupt_pointer_is_kept_aside(root: Path, data: Path, text: str) -> None:
    """What cannot be read is kept under another name, and the record gives the id back."""
    project = open_project(root, data, mint=mint_from("aaaa"))
    pointer(root).write_text(text)
    assert open_project(root, data, mint=no_mint) == project
    assert pointer(root).with_name("project.json.corrupt").read_text() == text
    assert card(pointer(root))["id"] == "aaaa"


def test_each_corrupt_pointer_is_kept(root: Path, data: Path) -> None:
    """A second corruption does not overwrite what the first left; without a record a new id is made."""
    (root / ".holdfast").mkdir()
    for text, id in (("one", "aaaa"), ("two", "bbbb")):
        pointer(root).write_text(text)
        shutil.rmtree(data, ignore_errors=True)
        assert open_project(root, data, mint=mint_from(id)).id == id
    assert pointer(root).with_name("project.json.corrupt").read_text() == "one"
    assert pointer(root).with_name("project.json.corrupt.1").read_text() == "two"


@pytest.mark.parametrize("text", ["{", '{"id": "bbbb", "name": "kelp", "root": "/a"}'])
def test_a_corrupt_record_is_kept_aside(root: Path, data: Path, text: str) -> None:
    """A record that cannot be read, or is another's, is kept, and made again from the pointer."""
    project = open_project(root, data, mint=mint_from("aaaa"))
    record = project.home / "project.json"
    record.write_text(text)
    assert open_project(root, data, mint=no_mint) == project
    assert record.with_name("project.json.corrupt").read_text() == text
    assert card(record)["root"] == str(root)


# What cannot be written


def test_a_read_only_project_is_served_by_its_record(shared: Path) -> None:
    """A project directory without write permission has no pointer; the record finds the store."""
    root, data = shared / "kelp", shared / "data"
    root.mkdir()
    data.mkdir()
    give_away(data)
    root.chmod(0o555)
    with unprivileged():
        project = open_project(root, data, mint=mint_from("aaaa"))
        again = open_project(root, data, mint=no_mint)
    assert project == again == Project(root, "aaaa", "kelp", data / "kelp-aaaa")
    assert list(root.iterdir()) == []


def test_a_pointer_that_may_not_be_read(shared: Path) -> None:
    """A pointer of another user is left as it is, and the record serves."""
    root, data = shared / "kelp", shared / "data"
    (root / ".holdfast").mkdir(parents=True)
    data.mkdir()
    pointer(root).write_text("theirs")
    pointer(root).chmod(0)
    give_away(root, root / ".holdfast", data)
    with unprivileged():
        project = open_project(root, data, mint=mint_from("aaaa"))
        again = open_project(root, data, mint=no_mint)
    pointer(root).chmod(0o600)
    assert (project, pointer(root).read_text()) == (again, "theirs")


def test_a_file_in_the_place_of_the_pointer_directory(root: Path, data: Path) -> None:
    """A file named `.holdfast` is not touched, and the record serves."""
    (root / ".holdfast").write_text("mine")
    project = open_project(root, data, mint=mint_from("aaaa"))
    assert open_project(root, data, mint=no_mint) == project
    assert (root / ".holdfast").read_text() == "mine"


def test_a_read_only_data_directory_is_told(shared: Path) -> None:
    """First use where the data directory cannot be written is one sentence with a way out."""
    root, data = shared / "kelp", shared / "data"
    root.mkdir()
    data.mkdir()
    data.chmod(0o555)
    give_away(root)
    with unprivileged(), pytest.raises(StoreReadOnly) as caught:
        open_project(root, data, mint=mint_from("aaaa"))
    assert str(caught.value) == (
        f"the directory {data} cannot be written (Permission denied: {data / '.lock'}); "
        "put that right, or name another store with --home or HOLDFAST_HOME"
    )
    assert list(root.iterdir()) == []


def test_a_known_project_opens_without_writing_rights(shared: Path) -> None:
    """What is known already is found where nothing can be written, with or without its pointer."""
    root, data = shared / "kelp", shared / "data"
    root.mkdir()
    project = open_project(root, data, mint=mint_from("aaaa"))
    give_away(data, project.home, project.home / "project.json")
    for path in (root, data, project.home):
        path.chmod(0o555)
    with unprivileged():
        found = open_project(root, data, mint=no_mint)
    root.chmod(0o755)
    shutil.rmtree(root / ".holdfast")
    root.chmod(0o555)
    with unprivileged():
        refound = open_project(root, data, mint=no_mint)
    assert found == refound == project


def test_a_file_in_the_place_of_the_data_directory(root: Path, tmp_path: Path) -> None:
    """A data directory that cannot be one is a sentence too."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be written"):
        open_project(root, tmp_path / "file" / "holdfast", mint=mint_from("aaaa"))


def test_a_full_disk_is_told(root: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No room is StoreFull; nothing half-written is left, and with room again the project is made."""

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreFull):
            open_project(root, data, mint=mint_from("aaaa"))
    assert open_project(root, data, mint=mint_from("bbbb")).id == "bbbb"
    assert not list(root.rglob("tmp-*"))
    assert not list(data.rglob("tmp-*"))


def test_a_filesystem_without_hard_links(root: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where links are refused the pointer is still made."""

    def refused(*args: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    open_project(root, data, mint=mint_from("aaaa"))
    assert card(pointer(root))["id"] == "aaaa"


# At the same moment


def test_the_second_process_takes_the_pointer_of_the_first(root: Path, data: Path, tmp_path: Path) -> None:
    """A pointer that appears between look and link wins, and no home is left for the id that lost."""

    def slow() -> str:
        open_project(root, tmp_path / "elsewhere", mint=mint_from("aaaa"))
        return "bbbb"

    assert open_project(root, data, mint=slow) == Project(root, "aaaa", "kelp", data / "kelp-aaaa")
    assert [path.name for path in data.iterdir() if path.is_dir()] == ["kelp-aaaa"]


def test_a_pointer_that_keeps_changing_is_told(
    root: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pointer that always comes and goes again ends in an error, not in a loop."""
    ids = (f"{number:08x}" for number in count())
    monkeypatch.setattr(project_module, "create_file", lambda path, data, mode: False)
    with pytest.raises(StoreError, match="keeps changing"):
        open_project(root, data, mint=ids.__next__)


RACER = """
import secrets, sys
from pathlib import Path
from holdfast.project import open_project
print("ready", flush=True)
sys.stdin.readline()
print(open_project(Path(sys.argv[1]), Path(sys.argv[2]), mint=lambda: secrets.token_hex(4)).home)
"""


def race(root: Path, data: Path, number: int = 8) -> set[str]:
    """Open a project in many processes at one moment; the homes they got."""
    argv = [sys.executable, "-c", RACER, str(root), str(data)]
    racers = [
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(number)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    homes = {racer.communicate()[0].strip() for racer in racers}
    assert [racer.returncode for racer in racers] == [0] * number
    return homes


def homes_in(data: Path) -> set[str]:
    return {str(path) for path in data.iterdir() if path.is_dir()}


def test_many_processes_at_first_use(root: Path, data: Path) -> None:
    """All get one home, and no other is left behind."""
    homes = race(root, data)
    assert len(homes) == 1
    assert homes_in(data) == homes
    assert not list(root.rglob("tmp-*"))


def test_many_processes_where_no_pointer_can_be(root: Path, data: Path) -> None:
    """Without the pointer's link the lock alone keeps them to one home."""
    (root / ".holdfast").touch()
    homes = race(root, data)
    assert len(homes) == 1
    assert homes_in(data) == homes


def test_many_processes_in_a_copy(tmp_path: Path, root: Path, data: Path) -> None:
    """A copy gets one new id, not one for each process; the original keeps its own."""
    original = open_project(root, data, mint=lambda: secrets.token_hex(4))
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    homes = race(copy, data)
    assert len(homes) == 1
    assert homes_in(data) == homes | {str(original.home)}


def test_many_processes_with_a_corrupt_pointer(root: Path, data: Path) -> None:
    """One keeps it aside, the others find what that one wrote."""
    original = open_project(root, data, mint=lambda: secrets.token_hex(4))
    pointer(root).write_text("{")
    assert race(root, data) == {str(original.home)}
    assert [path.name for path in sorted((root / ".holdfast").iterdir())] == [
        ".gitignore",
        "project.json",
        "project.json.corrupt",
    ]
