"""What a snapshot covers, and that it notices every change."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.workspace.trees import Gardener, as_somebody

from holdfast.errors import (
    BadWorkspace,
    ContentsDamaged,
    SnapshotNotFound,
    StoreFull,
    StoreReadOnly,
    WorkspaceError,
)
from holdfast.store.sqlite.store import SqliteStore
from holdfast.workspace.contents.batch import LARGE
from holdfast.workspace.contents.pack import FOOTER, MAGIC
from holdfast.workspace.snapshots import coverage, scan
from holdfast.workspace.snapshots.snapshot import needed
from holdfast.workspace.workspace import Workspace


def reasons(workspace: Workspace) -> dict[bytes, str]:
    return {one.path: one.reason for one in workspace.snapshot().uncovered}


def paths(workspace: Workspace) -> set[bytes]:
    return {path for path, _ in workspace.tree(workspace.snapshot().id).walk()}


def test_the_same_files_have_the_same_id(root: Path, workspace: Workspace, tmp_path: Path) -> None:
    """Whoever looks, and however often; counts are those of the files."""
    Gardener(root, 1, special=False).plant(30)
    first = workspace.snapshot()
    assert workspace.snapshot() == first
    assert Workspace(root, tmp_path / "other store").snapshot() == first
    assert (first.files, first.links) == (
        sum(path.is_file() and not path.is_symlink() for path in root.rglob("*") if ".git" not in path.parts),
        sum(path.is_symlink() for path in root.rglob("*")),
    )


def test_an_unchanged_tree_is_not_read(
    root: Path, workspace: Workspace, trusting: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once its times are old enough to be trusted, also by a workspace that was opened anew."""
    (root / "inner").mkdir()
    for path in (root / "a", root / "inner" / "b"):
        path.write_text("kelp")
    first = workspace.snapshot()
    monkeypatch.setattr(scan.Scan, "_go_through", lambda *_: pytest.fail("a directory was gone through"))
    again = Workspace(root, workspace.contents._directory)
    assert (workspace.snapshot(), again.snapshot()) == (first, first)


def test_a_change_within_a_tick_is_noticed(root: Path, workspace: Workspace) -> None:
    """The same size, the same times: an entry that was young when it was seen is read again."""
    path = root / "a"
    for number in range(50):
        path.write_text(f"{number:04}")
        os.utime(path, ns=(10**18, 10**18))
        tree = workspace.tree(workspace.snapshot().id)
        (entry,) = (entry for _, entry in tree.walk())
        assert workspace.contents.read(entry.ref) == f"{number:04}".encode()


def test_a_damaged_index_is_made_again(root: Path, workspace: Workspace) -> None:
    """Any damage to it costs time, nothing else."""
    (root / "a").write_text("kelp")
    first = workspace.snapshot()
    directory = workspace.contents._directory
    (path,) = directory.glob("index-*")
    for data in (b"", b"nonsense" * 10, path.read_bytes()[:-3]):
        path.write_bytes(data)
        assert Workspace(root, directory).snapshot() == first


def test_what_is_not_covered_is_listed(root: Path, workspace: Workspace) -> None:
    """With the reason; everything else is covered, whatever its name."""
    subprocess.run(["git", "init", "-q", root], check=True)
    (root / ".gitignore").write_text(".env\nbuild/\ntracked/\n*.big\n")
    (root / ".holdfastignore").write_text("secret*\n")
    for name in ("build", "node_modules", "venv", "cache", "tracked/build", "sources/dist", ".holdfast"):
        (root / name).mkdir(parents=True)
        (root / name / "file").write_text("x")
    (root / "venv" / "pyvenv.cfg").write_text("")
    (root / "cache" / "CACHEDIR.TAG").write_bytes(coverage._TAG + b"\n")
    (root / ".env").write_text("KEY=1")
    (root / "secret.txt").write_text("x")
    os.mkfifo(root / "pipe")
    (root / os.fsdecode(b"\xff")).write_text("x")
    subprocess.run(["git", "-C", root, "add", "-f", "tracked/build/file"], check=True)
    assert reasons(workspace) == {
        b".git": coverage.GIT_OWN,
        b".holdfast": coverage.OURS,
        b"build": coverage.TREE,
        b"node_modules": coverage.TREE,
        b"venv": coverage.TREE,
        b"cache": coverage.TREE,
        b"secret.txt": coverage.BY_RULE,
        b"pipe": "pipe",
    }
    assert {b".env", b"tracked/build/file", b"sources/dist/file", b"\xff"} <= paths(workspace)


def test_changed_rules_are_noticed(root: Path, workspace: Workspace, trusting: None) -> None:
    """Of git and of ours, though no covered directory changed."""
    subprocess.run(["git", "init", "-q", root], check=True)
    (root / "inner" / "build").mkdir(parents=True)
    (root / "inner" / "build" / "file").write_text("x")
    (root / ".gitignore").write_text("")
    assert b"inner/build/file" in paths(workspace)
    (root / ".gitignore").write_text("build\n")
    assert b"inner/build/file" not in paths(workspace)
    (root / ".gitignore").write_text("")
    assert b"inner/build/file" in paths(workspace)
    (root / ".holdfastignore").write_text("file\n")
    assert b"inner/build/file" not in paths(workspace)
    assert b"inner/build" in paths(workspace)


def test_ignore_files_of_inner_directories(root: Path, workspace: Workspace, trusting: None) -> None:
    """As git has them: patterns are seen from their directory, and the inner file decides."""
    for name in ("one.log", "inner/one.log", "inner/two.log", "inner/deep/one.log", "inner/deep/x", "deep/x"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    (root / ".holdfastignore").write_text("*.log\n")
    (root / "inner" / ".holdfastignore").write_text("!one.log\n/deep/x\n")
    left_out = {b"one.log", b"inner/two.log", b"inner/deep/x"}
    assert reasons(workspace) == dict.fromkeys(left_out, coverage.BY_RULE)
    assert reasons(workspace) == dict.fromkeys(left_out, coverage.BY_RULE)
    (root / "inner" / ".holdfastignore").unlink()
    left_out = {b"one.log", b"inner/one.log", b"inner/two.log", b"inner/deep/one.log"}
    assert reasons(workspace) == dict.fromkeys(left_out, coverage.BY_RULE)
    (root / ".holdfastignore").write_text("")
    assert reasons(workspace) == {}


def test_a_change_beneath_an_unchanged_ignore_file(root: Path, workspace: Workspace, trusting: None) -> None:
    """Rules of directories that are not gone through again hold all the same."""
    (root / "inner" / "deep").mkdir(parents=True)
    (root / "inner" / ".holdfastignore").write_text("*.log\n")
    assert reasons(workspace) == {}
    (root / "inner" / "deep" / "new.log").write_text("x")
    assert reasons(workspace) == {b"inner/deep/new.log": coverage.BY_RULE}


def test_an_ignore_file_that_is_ignored_is_heeded(root: Path, workspace: Workspace, trusting: None) -> None:
    """It is not covered, so its changes are not remembered; they are noticed all the same."""
    (root / "inner" / "deep").mkdir(parents=True)
    (root / "inner" / ".holdfastignore").write_text(".holdfastignore\n*.log\n")
    (root / "inner" / "deep" / "a.log").write_text("x")
    (root / "inner" / "deep" / "a.txt").write_text("x")
    for pattern, found in (("*.log", b"inner/deep/a.log"), ("*.txt", b"inner/deep/a.txt")):
        (root / "inner" / ".holdfastignore").write_text(f".holdfastignore\n{pattern}\n")
        assert set(reasons(workspace)) == {b"inner/.holdfastignore", found}


@pytest.mark.parametrize("name", [".holdfastignore", "CACHEDIR.TAG"])
@pytest.mark.parametrize("kind", ["pipe", "link to a device", "directory", "endless"])
def test_what_has_the_name_of_a_file_with_a_meaning(
    root: Path, workspace: Workspace, name: str, kind: str
) -> None:
    """And is none that a person wrote: it is not waited for, not read to its end, and says nothing."""
    (root / "inner").mkdir()
    (root / "inner" / "a.log").write_text("x")
    place = root / "inner" / name
    match kind:
        case "pipe":
            os.mkfifo(place)
        case "link to a device":
            place.symlink_to("/dev/zero")
        case "directory":
            place.mkdir()
        case _:
            place.write_text("*.log\n")
            os.truncate(place, 1 << 32)
            (root / ".holdfastignore").write_text(f"/inner/{name}\n")
    snapshot = workspace.snapshot()
    assert b"inner/a.log" in paths(workspace)
    expected = {"pipe": "pipe", "endless": coverage.BY_RULE}
    assert {one.path: one.reason for one in snapshot.uncovered} == (
        {b"inner/" + name.encode(): expected[kind]} if kind in expected else {}
    )


def test_large_ignored_files_are_left_out(root: Path, tmp_path: Path) -> None:
    """Until they are small enough, or not ignored any more."""
    workspace = Workspace(root, tmp_path / "store", largest_ignored=1000)
    subprocess.run(["git", "init", "-q", root], check=True)
    (root / ".gitignore").write_text("*.big\n")
    (root / "a.big").write_bytes(bytes(2000))
    (root / "b").write_bytes(bytes(2000))
    assert reasons(workspace)[b"a.big"] == coverage.TOO_LARGE
    os.truncate(root / "a.big", 500)
    assert b"a.big" in paths(workspace)


def test_a_nested_repository_is_covered_without_its_git(root: Path, workspace: Workspace) -> None:
    """Its files are files of the workspace; its rules are its own."""
    for path in (root, root / "inner"):
        subprocess.run(["git", "init", "-q", path], check=True)
    (root / "inner" / "file").write_text("x")
    (root / "inner" / "build").mkdir()
    (root / "inner" / ".gitignore").write_text("build\n")
    assert reasons(workspace) == {
        b".git": coverage.GIT_OWN,
        b"inner/.git": coverage.GIT_OWN,
        b"inner/build": coverage.TREE,
    }
    assert b"inner/file" in paths(workspace)


def test_a_store_inside_is_left_out(root: Path) -> None:
    """By what it is, not by its name."""
    workspace = Workspace(root, root / "anything")
    (root / "file").write_text("x")
    assert paths(workspace) == {b"file"}
    assert reasons(workspace) == {b"anything": coverage.OURS}


def test_of_a_store_nothing_is_covered(root: Path) -> None:
    """What is kept of files is a part of it; the database beside that is none of the workspace."""
    store = root / "anything"
    workspace = Workspace(root, store / "workspace", store=store)
    (store / "holdfast.db-shm").write_text("x")
    (root / "file").write_text("x")
    assert paths(workspace) == {b"file"}
    assert reasons(workspace) == {b"anything": coverage.OURS}
    with pytest.raises(BadWorkspace, match="lies in the store"):
        Workspace(store, store / "workspace", store=store)


def test_another_store_is_left_out(root: Path, workspace: Workspace) -> None:
    """Somebody else goes back in that one: from its first moment on, and when it is closed."""
    store = SqliteStore(root / "other", durability="process")
    assert reasons(workspace) == {b"other": coverage.OURS}
    store.close()
    (root / "other" / "write.lock").unlink()
    (root / "new").touch()
    assert reasons(workspace) == {b"other": coverage.OURS}


@pytest.mark.parametrize("content", [b"", b"kelp", b"SQLite format 3\0" + bytes(84)])
def test_a_file_that_has_the_name_of_a_store(root: Path, workspace: Workspace, content: bytes) -> None:
    """Hides nothing: it can be anybody's."""
    (root / "src").mkdir()
    (root / "src" / "main.py").write_text("x")
    (root / "src" / "holdfast.db").write_bytes(content)
    assert reasons(workspace) == {}
    assert b"src/main.py" in paths(workspace)


def test_a_store_among_tracked_files(root: Path, workspace: Workspace) -> None:
    """Whatever git tracks is covered."""
    subprocess.run(["git", "init", "-q", root], check=True)
    SqliteStore(root / "src", durability="process").close()
    (root / "src" / "main.py").write_text("x")
    subprocess.run(["git", "-C", root, "add", "src/main.py"], check=True)
    assert b"src/main.py" in paths(workspace)


def test_a_directory_of_many_entries_is_paged(root: Path, workspace: Workspace) -> None:
    """A change of one file in thousands costs little."""
    for number in range(3000):
        (root / f"file{number}").write_text(str(number))
    assert len(paths(workspace)) == 3000
    before = workspace.contents.du().bytes
    (root / "file77").write_text("changed")
    assert len(paths(workspace)) == 3000
    assert workspace.contents.du().bytes - before < 15_000


def test_a_file_that_changes_while_it_is_read_is_read_again(
    root: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And if it never settles, it is named."""
    path = root / "log"
    path.write_text("0")
    real, count, limit = os.pread, 0, 0

    def read(fd: int, size: int, at: int) -> bytes:
        nonlocal count
        data = real(fd, size, at)
        if os.readlink(f"/proc/self/fd/{fd}") == str(path) and count < limit:
            count += 1
            path.write_text("x" * (count + 1))
        return data

    monkeypatch.setattr(os, "pread", read)
    for times, unsettled in ((2, ()), (1000, (b"log",))):
        count, limit = 0, times
        path.write_text("begin")
        assert workspace.snapshot().unsettled == unsettled


@pytest.mark.parametrize("size", [10, LARGE])
@pytest.mark.parametrize("place", ["bad", "inner/bad"])
def test_a_file_that_cannot_be_read(
    root: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, place: str, size: int
) -> None:
    """Is left out alone, with the reason, until it can be read."""
    (root / "inner").mkdir()
    for name in (place, "good", "inner/good"):
        (root / name).write_bytes(b"x" * size)
    with monkeypatch.context() as patch:
        fail_to_read(patch, root / place, errno.EIO)
        assert reasons(workspace) == {place.encode(): "cannot be read: Input/output error"}
        assert {b"good", b"inner/good"} <= paths(workspace)
    assert reasons(workspace) == {}
    assert place.encode() in paths(workspace)


def test_an_entry_that_cannot_be_looked_at(root: Path) -> None:
    """Is left out alone: its directory can be listed."""
    with tempfile.TemporaryDirectory() as made:
        as_somebody(without_looking, Path(made))


def without_looking(directory: Path) -> None:
    listed = directory / "tree" / "listed"
    listed.mkdir(parents=True)
    (listed / "a").write_text("x")
    listed.chmod(0o400)
    workspace = Workspace(directory / "tree", directory / "store")
    assert reasons(workspace) == {b"listed/a": coverage.UNREADABLE}
    assert paths(workspace) == {b"listed"}


def test_without_descriptors_no_file_is_left_out(
    root: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not the file that is at fault: there is no snapshot then, and the store is not blamed for it."""
    (root / "file").write_text("kelp")
    fail_to_read(monkeypatch, root / "file", errno.EMFILE)
    with pytest.raises(WorkspaceError, match=r"tree cannot be read \(Too many open files\)"):
        workspace.snapshot()


@pytest.mark.parametrize("size", [10, LARGE])
def test_a_store_without_room(
    root: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """No file is left out for it."""
    assert workspace.contents.generation
    (root / "file").write_bytes(bytes(size))

    def fsync(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StoreFull):
        workspace.snapshot()


def fail_to_read(patch: pytest.MonkeyPatch, path: Path, code: int) -> None:
    """From now on this file cannot be read."""
    plain, inode = os.pread, path.stat().st_ino

    def pread(fd: int, count: int, at: int) -> bytes:
        if os.fstat(fd).st_ino == inode:
            raise OSError(code, os.strerror(code))
        return plain(fd, count, at)

    patch.setattr(os, "pread", pread)


def test_snapshots_after_gc_are_whole(root: Path, workspace: Workspace, trusting: None) -> None:
    """An index that remembers contents that are gone puts them again."""
    Gardener(root, 3).plant(40)
    first = workspace.snapshot()
    workspace.contents.gc(set)
    assert workspace.contents.du().packed == 0
    assert workspace.snapshot().id == first.id
    for _, entry in workspace.tree(first.id).walk():
        workspace.contents.read(entry.ref)
    workspace.contents.gc(lambda: needed(workspace.contents, [first.id]))
    for _, entry in workspace.tree(first.id).walk():
        workspace.contents.read(entry.ref)


@pytest.mark.parametrize("bad", ["/", "~", "missing", "file", "inside the store"])
def test_what_cannot_be_a_workspace(tmp_path: Path, bad: str) -> None:
    """The filesystem, the home directory, what is not there or no directory, the store."""
    (tmp_path / "file").touch()
    (tmp_path / "store" / "inner").mkdir(parents=True)
    root = {"~": Path.home(), "inside the store": tmp_path / "store" / "inner"}.get(bad, tmp_path / bad)
    with pytest.raises(BadWorkspace):
        Workspace(root, tmp_path / "store")


@pytest.mark.parametrize("bad", ["", "kelp", "00" * 32, "00" * 5])
def test_an_unknown_snapshot(workspace: Workspace, bad: str) -> None:
    """Is named."""
    with pytest.raises(SnapshotNotFound):
        workspace.tree(bad)


@pytest.mark.parametrize("where", ["the content", "the table"])
def test_a_damaged_snapshot(root: Path, tmp_path: Path, where: str) -> None:
    """It is damaged, not unknown: the error names the snapshot and its pack."""
    store = tmp_path / "store"
    saved = Workspace(root, store).snapshot().id
    (pack,) = store.rglob("*.pack")
    data = bytearray(pack.read_bytes())
    if where == "the content":
        table, *_ = FOOTER.unpack(data[-FOOTER.size :])
        data[len(MAGIC) : table] = bytes(table - len(MAGIC))
    else:
        data[-1] ^= 255
    pack.chmod(0o600)
    pack.write_bytes(data)
    with pytest.raises(ContentsDamaged) as caught:
        Workspace(root, store).tree(saved)
    assert caught.value.what == (f"snapshot {saved}", f"pack {pack.name}")


def test_without_permission(tmp_path: Path) -> None:
    """A file that cannot be read is listed; a store that cannot be written says so."""
    with tempfile.TemporaryDirectory() as made:
        as_somebody(without_permission, Path(made))


def without_permission(directory: Path) -> None:
    root = directory / "tree"
    root.mkdir()
    (root / "a").write_text("x")
    (root / "a").chmod(0)
    (root / "closed").mkdir(mode=0)
    assert reasons(Workspace(root, directory / "store")) == {
        b"a": coverage.UNREADABLE,
        b"closed": coverage.UNREADABLE,
    }
    (directory / "fixed").mkdir(mode=0o500)
    with pytest.raises(StoreReadOnly):
        Workspace(root, directory / "fixed" / "store")
