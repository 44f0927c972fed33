"""The methods that keep a store, as a program uses them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.errors import BadInput, NotFound, StoreHeld
from holdfast.facade import storeless


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a").write_text("mine\n")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def hf(home: Path, root: Path) -> Iterator[Holdfast]:
    """With one run, which has changed a file."""
    with Holdfast(home, workspace=root, durability="process") as opened:
        opened.start_command(["sh", "-c", "echo run > a"], run_id="r", cwd=root).result()
        yield opened


def look(home: Path, root: Path) -> Holdfast:
    return Holdfast(home, workspace=root, read_only=True)


# Backups


def test_a_backup_is_a_path(hf: Holdfast, tmp_path: Path) -> None:
    """It has what its file tells, and what was removed for it; `backups` has the same."""
    made = hf.backup()
    assert Path(made) == made.path and str(made) == os.fspath(made)
    assert (made.fault, made.removed) == ("", ())
    (found,) = hf.backups()
    assert found.to_json() | {"removed": []} == made.to_json()
    told: list[tuple[str, int, int]] = []
    hf.backup(tmp_path, on_progress=lambda *one: told.append(one))
    assert {what for what, _, _ in told} >= {"copying", "checking"}
    assert [one.path.parent for one in hf.backups(tmp_path)] == [tmp_path]
    with pytest.raises(NotFound, match="there is no directory"):
        hf.backups(tmp_path / "none")


def test_a_store_is_restored_where_there_is_none(hf: Holdfast, root: Path, tmp_path: Path) -> None:
    """The method is the class's: it needs no open store, and refuses one that a live process has."""
    made = hf.backup(tmp_path)
    with pytest.raises(StoreHeld):
        Holdfast.restore_backup(made, hf.home)
    done = Holdfast.restore_backup(made, tmp_path / "new")
    assert (done.events, done.kept, done.files) == (made.events, None, True)
    with look(tmp_path / "new", root) as other:
        assert [run.id for run in other.runs()] == ["r"]
        assert other.verify().ok


# The log


def test_a_store_that_verifies(hf: Holdfast, home: Path, root: Path) -> None:
    """How much there is, and no fault; `repair` makes the same tables again. Reading needs no owner."""
    told: list[int] = []
    with look(home, root) as reader:
        found = reader.verify(on_progress=lambda _what, _done, total: told.append(total))
    assert (found.ok, found.events, told) == (True, hf.repair().audit.events, [found.events])


def test_a_fault_is_named(hf: Holdfast, home: Path, root: Path) -> None:
    """With its place in words."""
    import apsw

    hf.close()
    db = apsw.Connection(str(home / "holdfast.db"))
    db.execute("UPDATE events SET time = time + 1 WHERE position = (SELECT max(position) FROM events)")
    db.close()
    with look(home, root) as reader:
        found = reader.verify()
        assert not found.ok
        assert found.faults[0].place.startswith("r version ")
        assert found.to_json()["faults"][0]["stream"] == "r"


def test_ended_runs_are_archived(hf: Holdfast, tmp_path: Path) -> None:
    """Those that are old enough; a preview moves nothing."""
    assert hf.archive().runs == ()
    assert hf.archive(timedelta(0), dry_run=True).runs == ("r",)
    assert hf.has("r")
    told: list[tuple[int, int]] = []
    done = hf.archive(timedelta(0), directory=tmp_path / "old", on_progress=lambda *n: told.append(n))
    assert (done.runs, hf.has("r"), told) == (("r",), False, [(1, 1)])
    assert done.file is not None and done.file.parent == tmp_path / "old"


# Files


def test_what_a_store_takes(hf: Holdfast, home: Path, root: Path) -> None:
    """`du` and `gc`, as a preview from a reader, and as it is done."""
    usage = hf.du()
    assert usage.log > 0 and usage.files > 0 and usage.snapshots == 2
    with look(home, root) as reader:
        assert reader.gc(dry_run=True).unneeded == 0
        assert reader.du().to_json() == usage.to_json()
    nothing = {"removed": 0, "freed": 0, "forgotten": [], "damaged": [], "over": 0, "final": 0}
    assert hf.gc().to_json() == {**nothing, "unneeded": None}
    assert hf.gc(dry_run=True).to_json() == {**nothing, "unneeded": 0}
    assert hf.gc(0.000001, dry_run=True).over > 0
    assert hf.verify_files().damaged == ()


def test_what_a_snapshot_covers(hf: Holdfast, root: Path, tmp_path: Path) -> None:
    """With a store, and where there is none: then none is made."""
    assert (hf.coverage().files, hf.coverage().root) == (1, str(root))
    nowhere = tmp_path / "nowhere"
    assert storeless.coverage(str(nowhere)).files == 1
    assert not nowhere.exists()


# What may not be done


def test_a_reader_changes_nothing(hf: Holdfast, home: Path, root: Path) -> None:
    """What writes raises before it does; a backup writes nothing to the store."""
    with look(home, root) as reader:
        for write in (
            lambda: reader.archive(timedelta(0)),
            reader.repair,
            reader.gc,
            lambda: reader.rewind("r", "start"),
        ):
            with pytest.raises(BadInput, match="read_only"):
                write()
        assert reader.backup().events == reader.verify().events
        assert reader.rewind("r", "start", dry_run=True).files is not None
    assert (root / "a").read_text() == "run\n"


# Health


def test_a_healthy_store(hf: Holdfast, home: Path) -> None:
    """Of an open store, and of one that is found: nothing is bad, and the live owner is named."""
    for checks in (hf.doctor(), storeless.doctor(str(home))):
        assert {one.verdict for one in checks} <= {"good", "note"}
        named = {one.name: one.says for one in checks}
        assert f"process {os.getpid()}" in named["owners"]
        assert named["runs"] == "none is interrupted"


def test_no_store_and_a_broken_one(tmp_path: Path, root: Path) -> None:
    """The first is a note, the second is bad, with the exit code of the CLI."""
    missing = {one.name: one for one in storeless.doctor(str(tmp_path / "none"))}
    assert missing["store"].verdict == "note"
    broken = tmp_path / "broken"
    broken.mkdir(mode=0o700)
    (broken / "holdfast.db").write_bytes(b"no database at all, but long enough" * 40)
    (broken / "holdfast.db").chmod(0o600)
    (bad,) = [one for one in storeless.doctor(str(broken)) if one.verdict == "bad"]
    assert (bad.name, bad.code) == ("store", 8)


# Trust and settings


def test_settings_are_trusted_and_no_longer(root: Path, tmp_path: Path) -> None:
    """What is allowed, whether it still holds, and that it is gone."""
    (root / "holdfast.toml").write_text('backup_dir = "/mnt/stick"\n')
    granted = Holdfast.trust(root)
    assert [(one.key, one.value) for one in granted.settings] == [("backup_dir", "/mnt/stick")]
    assert [(one.directory, one.holds) for one in Holdfast.trusted()] == [(str(root), True)]
    (root / "holdfast.toml").write_text('backup_dir = "/mnt/other"\n')
    assert [one.holds for one in Holdfast.trusted()] == [False]
    found, doubts = storeless.settings_in_force()
    assert [one.key for one in found if not one.trusted] == ["backup_dir"] and len(doubts) == 1
    assert Holdfast.untrust(root) == [str(root)]
    assert Holdfast.trusted() == []
    with pytest.raises(NotFound, match="is not trusted"):
        Holdfast.untrust(root)
