"""The file of the index: damaged, foreign, unwritable, filled by several at once, or killed meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from holdfast import Holdfast
from holdfast.search import filling, index_file
from holdfast.search.index import Index
from holdfast.testing.histories import in_threads

FILLS = """
import os, signal, sys
from holdfast import Holdfast
from holdfast.search import filling
from holdfast.search.index import Index

filling.AT_ONCE = 3
batches, dies_in = 0, int(sys.argv[2])
put = Index.read_up_to

def killed(index, cursor):
    global batches
    batches += 1
    if batches == dies_in:
        os.kill(os.getpid(), signal.SIGKILL)
    put(index, cursor)

Index.read_up_to = killed
with Holdfast(sys.argv[1], read_only=True) as hf:
    print(len(hf.search("kelp", limit=99).hits))
"""


@pytest.fixture
def filled(home: Path) -> Path:
    """A store with twelve tasks that have a word."""
    with Holdfast(home, durability="process") as hf:
        for n in range(12):
            hf.tasks.create(f"kelp {n}")
    return home


def found(home: Path) -> int:
    with Holdfast(home, read_only=True) as hf:
        return len(hf.search("kelp", limit=99).hits)


def test_killed_while_it_is_filled(filled: Path) -> None:
    """What was committed stays, and the next search finds all."""
    done = subprocess.run([sys.executable, "-c", FILLS, filled, "3"], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done
    assert (filled / "search.db").exists()
    assert found(filled) == 12


def test_several_fill_it_at_once(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads and another process: nothing is indexed twice, nothing left out."""
    monkeypatch.setattr(filling, "AT_ONCE", 2)
    other = subprocess.Popen(
        [sys.executable, "-c", FILLS, filled, "0"], stdout=subprocess.PIPE, text=True, env=os.environ
    )

    def look() -> None:
        assert found(filled) == 12

    in_threads(*[look] * 3)
    assert other.communicate(timeout=60)[0].strip() == "12"


def _overwritten(path: Path) -> None:
    path.write_bytes(b"not a database" * 1000)


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _another(path: Path) -> None:
    path.unlink()
    db = apsw.Connection(str(path))
    db.execute(
        "CREATE TABLE meta (key, value); INSERT INTO meta VALUES ('format', 'other'); CREATE TABLE items (x)"
    )
    db.close()


def _link(path: Path) -> None:
    shutil.move(path, path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _hard_link(path: Path) -> None:
    os.link(path, path.with_name("elsewhere"))


def _journal(path: Path) -> None:
    path.with_name("search.db-journal").write_bytes(bytes.fromhex("d9d505f920a163d7") + b"\0\0\0\1" * 200)


def _pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for page in range(1, len(data) // 4096):
        data[page * 4096 : page * 4096 + 60] = b"\xa5" * 60
    path.write_bytes(data)


@pytest.mark.parametrize(
    "harm",
    [_overwritten, _emptied, _cut, _another, _link, _hard_link, _journal, _pages],
    ids=lambda f: f.__name__,
)
def test_a_damaged_or_foreign_index_is_made_again(filled: Path, harm: Callable[[Path], None]) -> None:
    """Without a word, and without writing through a link."""
    assert found(filled) == 12
    path = filled / "search.db"
    harm(path)
    kept = filled / "elsewhere"
    before = kept.read_bytes() if kept.exists() else b""
    assert found(filled) == 12
    assert found(filled) == 12
    assert path.stat().st_mode & 0o777 == 0o600 and path.stat().st_nlink == 1
    assert not kept.exists() or kept.read_bytes() == before


def test_an_index_that_cannot_be_written(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, a file of another user: a temporary index answers, and nothing is left behind."""
    opened: list[str] = []
    before = Index.__init__

    def refused(index: Index, path: str, format: str) -> None:
        opened.append(path)
        if path:
            raise apsw.FullError("database or disk is full")
        before(index, path, format)

    monkeypatch.setattr(Index, "__init__", refused)
    assert found(filled) == 12
    assert opened == [str(filled / "search.db"), ""]
    assert sorted(path.name for path in filled.glob("search*")) == ["search.lock"]


def test_a_restored_backup_has_an_index_of_its_own(filled: Path, tmp_path: Path) -> None:
    """A cursor of the store before is refused; the answers are those of the store that is there."""
    with Holdfast(filled, durability="process") as hf:
        backup = hf.backup(tmp_path / "b")
        hf.tasks.create("kelp, late")
        page = hf.search("kelp", limit=12)
        assert len(page.hits) == 12 and page.after
    Holdfast.restore_backup(backup.path, filled)
    with Holdfast(filled, durability="process") as hf:
        assert len(hf.search("kelp", limit=99).hits) == 12
        hf.tasks.create("kelp, another")
        assert hf.search("kelp", limit=99).hits[0].title in {f"kelp {n}" for n in range(12)} | {
            "kelp, another"
        }
        with pytest.raises(Exception, match="restored"):
            hf.search("kelp", limit=12, after=page.after)


def test_the_index_is_no_part_of_a_backup(filled: Path, tmp_path: Path) -> None:
    """It is made from the log."""
    assert found(filled) == 12
    with Holdfast(filled, durability="process") as hf:
        made = hf.backup(tmp_path / "b")
    assert b"items_by_key" not in made.path.read_bytes()
    assert index_file.NAME == "search.db"
