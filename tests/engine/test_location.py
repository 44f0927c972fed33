"""`Location`: where the code of a run is, whose project may have been moved."""

import json
import shutil
import time
from pathlib import Path

import msgspec
import pytest

from holdfast.directory_identity import DirectoryIdentity
from holdfast.engine.files.workspaces import Files, mark_of
from holdfast.engine.runs.code_location import Location
from holdfast.kernel.events import Code


@pytest.fixture
def root(tmp_path):
    return make(tmp_path / "kelp")


def make(root: Path) -> Path:
    (root / "jobs").mkdir(parents=True)
    (root / "jobs" / "flow.py").touch()
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / ".venv" / "bin" / "python").touch()
    return root


def code_in(root: Path, location: Location) -> Code:
    return location.record(
        Code(
            "main",
            script=str(root / "jobs" / "flow.py"),
            cwd=str(root),
            interpreter=str(root / ".venv" / "bin" / "python"),
        )
    )


def paths(code: Code) -> tuple[str, str, str]:
    return code.script, code.cwd, code.interpreter


def is_in(root: Path, code: Code) -> bool:
    return paths(code) == paths(code_in(root, Location(root, None)))


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def point(root: Path, home: Path) -> None:
    """As a project and its store point at each other."""
    (root / ".holdfast").mkdir(exist_ok=True)
    card = json.dumps({"id": "abcd", "name": "kelp", "root": str(root)})
    (root / ".holdfast" / "project.json").write_text(card)
    (home / "project.json").write_text(card)


def test_what_is_where_it_was(root, home):
    code = code_in(root, Location(home, root))
    assert (code.root, code.home) == (str(root), "")
    assert Location(home, root).now(code) is code
    assert Location(home, root.parent).now(code) is code
    assert Location(home, None).now(code) is code


def test_a_directory_that_was_moved(root, home):
    """It is known by itself, whatever has taken its place, and whose store it is."""
    code = code_in(root, Location(home, root))
    now = root.rename(root.with_name("moved"))
    assert is_in(now, Location(home, now).now(code))
    make(root)
    assert is_in(now, Location(home, now).now(code))
    assert Location(home, root).now(code) is code


@pytest.fixture
def same_inode(monkeypatch):
    """Every directory has the inode that another one had before, as ext4 often does it."""
    of = DirectoryIdentity.of.__func__
    monkeypatch.setattr(
        DirectoryIdentity, "of", classmethod(lambda cls, path: of(cls, path)._replace(device=1, inode=2))
    )


def wait_a_tick() -> None:
    """Times of birth are as coarse as the clock of the kernel."""
    time.sleep(0.05)


def test_another_directory_with_the_same_inode(root, home, same_inode):
    """It is younger. Without a time of birth nothing is proven."""
    code = code_in(root, Location(home, root))
    shutil.rmtree(root)
    wait_a_tick()
    other = make(root.with_name("other"))
    assert Location(home, other).now(code) is code
    old = msgspec.structs.replace(code, mark="1-2")
    assert Location(home, other).now(old) is old
    point(other, home)
    assert is_in(other, Location(home, other).now(old))


def test_files_are_not_looked_for_in_another_directory(root, home, same_inode):
    mark = mark_of(root)
    shutil.rmtree(root)
    wait_a_tick()
    other = make(root.with_name("other"))
    assert not Files(home, other).is_same(str(root), mark)
    assert not Files(home, other).is_same(str(root), "1-2")
    make(root)
    assert Files(home, other).is_same(str(root), mark)


def test_a_copy_of_the_store_alone(root, tmp_path):
    """The project is where it was, though the store has the name that it had in there."""
    (root / "store").mkdir()
    code = code_in(root, Location(root / "store", root))
    (tmp_path / "backup" / "store").mkdir(parents=True)
    assert Location(tmp_path / "backup" / "store", tmp_path).now(code) is code


def test_what_lies_outside_the_root_stays(root, home, tmp_path):
    code = Location(home, root).record(Code("main", script="/elsewhere/flow.py", cwd=str(root)))
    now = root.rename(root.with_name("moved"))
    assert Location(home, now).now(code).script == "/elsewhere/flow.py"


def test_an_interpreter_that_did_not_come_along(root, home):
    code = code_in(root, Location(home, root))
    now = root.rename(root.with_name("moved"))
    shutil.rmtree(now / ".venv")
    assert Location(home, now).now(code).interpreter == code.interpreter


def test_a_project_on_another_disk(root, home):
    """By the id that it shares with its store; a directory that only looks the same is not taken for it."""
    code = code_in(root, Location(home, root))
    now = Path(shutil.copytree(root, root.with_name("moved")))
    shutil.rmtree(root)
    assert Location(home, now).now(code) is code
    point(now, home)
    assert is_in(now, Location(home, now).now(code))


def test_a_copy_beside_the_original(root, home):
    """The original is there: its runs are its own, though the store is the copy's."""
    code = code_in(root, Location(home, root))
    copy = Path(shutil.copytree(root, root.with_name("copy")))
    point(copy, home)
    assert Location(home, copy).now(code) is code


@pytest.mark.parametrize("original", [True, False])
def test_a_store_inside_the_project(root, original):
    """It was moved or copied with it: the runs in it are those of where it is now, from wherever it is
    opened."""
    (root / ".hf").mkdir()
    code = code_in(root, Location(root / ".hf", root))
    assert code.home == ".hf"
    now = Path(shutil.copytree(root, root.with_name("copy")))
    if not original:
        shutil.rmtree(root)
    assert is_in(now, Location(now / ".hf", now).now(code))
    assert is_in(now, Location(now / ".hf", root.parent).now(code))


def test_what_somebody_says(root, home):
    """`--root` wins; with `--all`, only for what is gone."""
    code = code_in(root, Location(home, root))
    now = Path(shutil.copytree(root, root.with_name("copy")))
    location = Location(home, root)
    location.given = now
    assert is_in(now, location.now(code))
    location.only_missing = True
    assert location.now(code) is code
    shutil.rmtree(root)
    assert is_in(now, location.now(code))


def test_a_record_without_a_root(root, home):
    """Of an older holdfast: by the name of the project, and only in its own store."""
    code = Code("main", script=str(root / "jobs" / "flow.py"), cwd=str(root))
    assert Location(home, root).now(code) is code
    now = root.rename(root.parent / "new")
    named = home.rename(home.with_name("kelp-abcd"))
    assert Location(named, now).now(code) is code
    point(now, named)
    moved = Location(named, now).now(code)
    assert (moved.script, moved.cwd) == (str(now / "jobs" / "flow.py"), str(now))
    elsewhere = Location(named.parent, None)
    elsewhere.given = now
    assert elsewhere.now(code).script == moved.script
