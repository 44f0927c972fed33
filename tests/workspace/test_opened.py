"""A snapshot reads files that the program around it has open and locked: the program notices nothing."""

from __future__ import annotations

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.workspace.contents.batch import LARGE
from holdfast.workspace.fs import lock_safe_open
from holdfast.workspace.workspace import Workspace

TAKE = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
SHARE = """
import fcntl, sys
file = open(sys.argv[1], "rb")
fcntl.lockf(file, fcntl.LOCK_SH)
print("held", flush=True)
sys.stdin.read()
"""
WRITE = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """What one test has locked is closed before the next."""
    yield
    lock_safe_open.close_unlocked()
    assert lock_safe_open._kept == {}


def refused(code: str, path: Path) -> bool:
    """Whether another process is kept out."""
    tried = subprocess.run([sys.executable, "-c", code, path], check=False, capture_output=True, text=True)
    assert tried.returncode == 0 or "BlockingIOError" in tried.stderr or "is locked" in tried.stderr
    return tried.returncode != 0


@pytest.mark.parametrize("size", [10, LARGE])
@pytest.mark.parametrize("flags", [os.O_RDWR, os.O_WRONLY])
@pytest.mark.parametrize("asks", [True, False], ids=["asks the kernel", "looks at descriptors"])
def test_the_program_keeps_its_locks(
    root: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, size: int, flags: int, asks: bool
) -> None:
    """POSIX takes them from a process that closes any descriptor of the file."""
    if not asks:
        monkeypatch.setattr(lock_safe_open, "_GETLK", None)
    path = root / "data"
    path.write_bytes(bytes(size))
    fd = os.open(path, flags)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX)
        os.lseek(fd, 7, os.SEEK_SET)
        tree = workspace.tree(workspace.snapshot().id)
        assert refused(TAKE, path)
        assert os.lseek(fd, 0, os.SEEK_CUR) == 7
    finally:
        os.close(fd)
    assert len(workspace.contents.read(dict(tree.walk())[b"data"].ref)) == size


def test_a_lock_that_is_taken_while_the_file_is_read_is_kept(
    root: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts is who has locks when the descriptor would be closed."""
    path = root / "data"
    path.write_text("kelp")
    plain = os.pread
    with ExitStack() as until:

        def pread(fd: int, count: int, at: int) -> bytes:
            fcntl.lockf(until.enter_context(path.open("r+b")), fcntl.LOCK_EX)
            return plain(fd, count, at)

        monkeypatch.setattr(os, "pread", pread)
        workspace.snapshot()
        assert refused(TAKE, path)


def test_a_lock_behind_the_lock_of_another_process(root: Path, workspace: Workspace) -> None:
    """The kernel tells of the first one; several processes share a database."""
    path = root / "data"
    path.write_text("kelp")
    with subprocess.Popen(
        [sys.executable, "-c", SHARE, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        with path.open("rb") as file:
            fcntl.lockf(file, fcntl.LOCK_SH)
            workspace.snapshot()
            other.communicate()
            assert refused(TAKE, path)


def test_what_only_others_have_locked_is_closed(root: Path, workspace: Workspace) -> None:
    """Nothing of ours can be lost then."""
    path = root / "data"
    path.write_text("kelp")
    with subprocess.Popen(
        [sys.executable, "-c", SHARE, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        workspace.snapshot()
        assert lock_safe_open._kept == {}
        other.communicate()


def test_of_a_locked_file_one_descriptor_is_kept(root: Path, workspace: Workspace) -> None:
    """However often it is read; and none when the lock is gone."""
    path = root / "data"
    with path.open("w+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        for text in (b"dulse", b"kelp", b"laver"):
            file.seek(0)
            file.write(text)
            file.truncate()
            file.flush()
            ref = dict(workspace.tree(workspace.snapshot().id).walk())[b"data"].ref
            assert workspace.contents.read(ref) == text
            assert len(lock_safe_open._kept) == 1
        fcntl.lockf(file, fcntl.LOCK_UN)
    workspace.snapshot()
    assert lock_safe_open._kept == {}


def test_a_file_is_not_read_through_a_descriptor_of_the_program(
    root: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program may close it, and its number can be another file's in the next moment."""
    (root / "file").write_text("kelp")
    plain = os.pread
    with (root / "file").open("rb") as file:

        def pread(fd: int, count: int, at: int) -> bytes:
            assert fd != file.fileno()
            return plain(fd, count, at)

        monkeypatch.setattr(os, "pread", pread)
        assert workspace.snapshot().files == 1


def test_a_child_that_is_forked_while_a_file_is_opened(
    root: Path, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inherits nothing that its own snapshots would wait for."""
    (root / "file").write_text("kelp")
    plain = os.open
    children: list[int] = []

    def forking(path: bytes, *args: int, **named: int) -> int:
        if path == b"file" and not children:
            children.append(os.fork())
            if not children[0]:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(10)
                os._exit(Workspace(root, tmp_path / "other").snapshot().files)
        return plain(path, *args, **named)

    monkeypatch.setattr(os, "open", forking)
    workspace.snapshot()
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 1


def test_where_the_descriptors_cannot_be_listed(
    root: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without /proc files are read all the same."""
    monkeypatch.setattr(lock_safe_open, "_LISTED", str(root / "missing"))
    for getlk in (lock_safe_open._GETLK, None):
        monkeypatch.setattr(lock_safe_open, "_GETLK", getlk)
        (root / "file").write_text("kelp")
        assert workspace.snapshot().files == 1


def test_a_database_keeps_its_locks(root: Path, workspace: Workspace) -> None:
    """SQLite's are on the database and on the index of its log; other processes have some too."""
    path = root / "app.db"
    mine = sqlite3.connect(path, isolation_level=None)
    mine.execute("PRAGMA journal_mode=WAL")
    mine.execute("CREATE TABLE t (v)")
    mine.execute("BEGIN IMMEDIATE")
    mine.execute("INSERT INTO t VALUES (1)")
    for _ in range(2):
        workspace.snapshot()
        assert refused(WRITE, path)
    mine.execute("COMMIT")
    assert not refused(WRITE, path)
    mine.close()


def test_a_mode_that_is_put_back_leaves_the_locks(root: Path, workspace: Workspace) -> None:
    """A restore that changes nothing else opens the file too."""
    path = root / "data"
    path.write_text("kelp")
    path.chmod(0o600)
    first = workspace.snapshot().id
    with path.open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        path.chmod(0o640)
        workspace.apply(workspace.plan(first, workspace.snapshot().id))
        assert path.stat().st_mode & 0o777 == 0o600
        assert refused(TAKE, path)
