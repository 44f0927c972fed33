"""File locks: who holds one excludes others, and a lock goes with its holder."""

import os

from holdfast import file_lock


def test_a_held_lock_excludes_others(tmp_path):
    """Also other descriptors of the same process; when it is given up, it is free."""
    path = tmp_path / "x.lock"
    assert not file_lock.is_held(path)
    with file_lock.held(path):
        assert file_lock.is_held(path)
        with file_lock.tried(path) as taken:
            assert not taken
        with file_lock.tried(path, shared=True) as taken:
            assert not taken
    assert not file_lock.is_held(path)
    with file_lock.tried(path) as taken:
        assert taken
        assert file_lock.is_held(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_shared_locks_exclude_only_exclusive_ones(tmp_path):
    path = tmp_path / "x.lock"
    with file_lock.held(path, shared=True), file_lock.held(path, shared=True):
        with file_lock.tried(path) as taken:
            assert not taken
        assert not file_lock.is_held(path)  # one that can be shared keeps nobody from looking


def test_unlocking_and_closing_free_the_lock(tmp_path):
    path = tmp_path / "x.lock"
    fd = file_lock.open_lock(path)
    file_lock.lock(fd)
    assert file_lock.is_held(path)
    file_lock.unlock(fd)
    assert not file_lock.is_held(path)
    with file_lock.holding(fd):
        assert file_lock.is_held(path)
    assert not file_lock.is_held(path)
    try:
        os.fstat(fd)
    except OSError:
        return
    raise AssertionError("the descriptor is still open")
