"""Whose change was it: what a restore takes back, what it keeps, and what it never deletes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.workspace.trees import look, values

from holdfast.errors import BadWorkspace, ContentsDamaged
from holdfast.workspace.restoring.restore_plan import Plan, Planner, Why
from holdfast.workspace.workspace import Workspace

Edit = Callable[[Path], object]


def plan(workspace: Workspace, run: Edit, person: Edit, *only: str, theirs: bool = False) -> Plan:
    """The plan to take back what a run did, after a person did something too."""
    to = workspace.snapshot().id
    run(workspace.root)
    left = workspace.snapshot().id
    person(workspace.root)
    return workspace.plan(to, left, only, theirs=theirs)


def kinds(found: Plan) -> dict[str, str]:
    return {os.fsdecode(one.path): one.kind for one in found.actions}


def kept(found: Plan) -> dict[str, Why]:
    return {os.fsdecode(one.path): one.why for one in found.kept}


def nothing(root: Path) -> None:
    pass


@pytest.fixture(autouse=True)
def files(root: Path) -> None:
    for name in ("a", "b", "c", "inner/d", "inner/deep/e"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def bad_run(root: Path) -> None:
    (root / "a").write_text("bad")
    (root / "b").unlink()
    (root / "new").write_text("bad")
    (root / "newer").mkdir()
    (root / "newer" / "one").write_text("bad")
    (root / "inner" / "d").chmod(0o600)


BACK = {"a": "modified", "b": "added", "new": "removed", "newer": "removed", "newer/one": "removed"}


def test_what_the_run_did_goes_back(root: Path, workspace: Workspace) -> None:
    """Changed, deleted and made files, and modes; then the tree is as it was."""
    before = values(look(root))
    found = plan(workspace, bad_run, nothing)
    assert kinds(found) == {**BACK, "inner/d": "mode"}
    assert found.kept == ()
    workspace.apply(found)
    assert values(look(root)) == before


def test_what_somebody_else_did_stays(root: Path, workspace: Workspace) -> None:
    """Files that the run had not touched are theirs, also new and deleted ones."""

    def person(root: Path) -> None:
        (root / "c").write_text("mine")
        (root / "inner" / "deep" / "e").unlink()
        (root / "mine").write_text("mine")

    found = plan(workspace, bad_run, person)
    assert kinds(found) == {**BACK, "inner/d": "mode"}
    assert kept(found) == {"c": Why.YOURS, "inner/deep/e": Why.YOURS, "mine": Why.YOURS}
    workspace.apply(found)
    assert (root / "c").read_text() == (root / "mine").read_text() == "mine"
    assert not (root / "inner" / "deep" / "e").exists()


@pytest.mark.parametrize("theirs", [False, True])
def test_conflicts_are_named_and_kept(root: Path, workspace: Workspace, theirs: bool) -> None:
    """Both changed it: it stays as it is, or goes back if that is asked for."""

    def person(root: Path) -> None:
        (root / "a").write_text("mine on top")
        (root / "new").write_text("mine on top")
        (root / "b").write_text("mine instead")

    found = plan(workspace, bad_run, person, theirs=theirs)
    conflicts = {"a": Why.CONFLICT, "b": Why.CONFLICT, "new": Why.CONFLICT}
    assert kept(found) == ({} if theirs else conflicts)
    before = workspace.apply(found).before
    assert (root / "a").read_text() == ("a" if theirs else "mine on top")
    assert (root / "new").exists() != theirs
    workspace.apply(workspace.plan(before, workspace.snapshot().id))
    assert (root / "a").read_text() == "mine on top"


def test_a_directory_of_the_run_with_a_file_of_yours_stays(root: Path, workspace: Workspace) -> None:
    """Only what the run put into it goes."""
    found = plan(workspace, bad_run, lambda root: (root / "newer" / "mine").write_text("mine"))
    assert "newer" not in kinds(found) and kinds(found)["newer/one"] == "removed"
    workspace.apply(found)
    assert [path.name for path in (root / "newer").iterdir()] == ["mine"]


def test_a_directory_in_the_way_of_a_file(root: Path, workspace: Workspace) -> None:
    """Goes if all in it is the run's; with a file of yours it stays, all of it, and is named."""

    def run(root: Path) -> None:
        (root / "a").unlink()
        (root / "a").mkdir()
        (root / "a" / "x").write_text("bad")

    found = plan(workspace, run, lambda root: (root / "a" / "mine").write_text("mine"))
    assert (kinds(found), kept(found)) == ({}, {"a": Why.OCCUPIED})
    (root / "a" / "mine").unlink()
    workspace.apply(found)
    assert (root / "a").read_text() == "a"


def test_a_file_in_the_way_of_a_directory(root: Path, workspace: Workspace) -> None:
    """Goes if the run made it; yours stays, and the directory stays away."""

    def run(root: Path) -> None:
        for path in ("inner/deep/e", "inner/d"):
            (root / path).unlink()
        (root / "inner" / "deep").rmdir()
        (root / "inner").rmdir()
        (root / "inner").write_text("bad")

    found = plan(workspace, run, nothing)
    assert kinds(found) == {
        "inner": "type",
        "inner/d": "added",
        "inner/deep": "added",
        "inner/deep/e": "added",
    }
    (root / "inner").write_text("mine now")
    assert workspace.apply(found).actions == ()
    assert (root / "inner").read_text() == "mine now"


def test_only_what_is_selected(root: Path, workspace: Workspace) -> None:
    """Patterns as in .gitignore; directories that a path needs come with it."""

    def run(root: Path) -> None:
        bad_run(root)
        (root / "inner" / "d").unlink()
        (root / "inner" / "deep" / "e").unlink()
        (root / "inner" / "deep").rmdir()
        (root / "inner").rmdir()

    found = plan(workspace, run, nothing, "e", "new*")
    assert kinds(found) == {
        "inner": "added",
        "inner/deep": "added",
        "inner/deep/e": "added",
        "new": "removed",
        "newer": "removed",
        "newer/one": "removed",
    }
    workspace.apply(found)
    assert (root / "inner" / "deep" / "e").exists() and not (root / "inner" / "d").exists()


def test_a_path_outside_is_refused(workspace: Workspace) -> None:
    """Nothing outside the workspace can be selected."""
    here = workspace.snapshot().id
    with pytest.raises(BadWorkspace):
        workspace.plan(here, here, ["../other"])


def test_what_was_not_covered_is_not_deleted(root: Path, workspace: Workspace) -> None:
    """Left out at the checkpoint, covered now: there is no proof that it was not there."""
    (root / ".holdfastignore").write_text("kept\n")
    (root / "kept").mkdir()
    (root / "kept" / "file").write_text("x")
    found = plan(workspace, lambda root: (root / ".holdfastignore").unlink(), nothing)
    assert kinds(found) == {".holdfastignore": "added"}
    assert kept(found) == {"kept": Why.UNKNOWN}
    workspace.apply(found)
    assert (root / "kept" / "file").exists()


def test_a_deleted_tree_that_was_not_covered_is_listed(root: Path, workspace: Workspace) -> None:
    """It cannot come back, and that is said."""
    (root / "node_modules").mkdir()
    found = plan(workspace, lambda root: (root / "node_modules").rmdir(), nothing)
    assert (kinds(found), kept(found)) == ({}, {"node_modules": Why.UNKNOWN})


@pytest.mark.parametrize("touched", [None, "a", "new"])
def test_a_second_look_is_taken_if_it_matters(
    root: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, touched: str | None
) -> None:
    """A plan of a moment ago is carried out as it is, unless a path that it touches is another now."""
    monkeypatch.setattr("holdfast.workspace.snapshots.scan_index._MARGIN_NS", -(10**12))
    found = plan(workspace, bad_run, nothing)
    if touched:
        (root / touched).write_text("mine")
    looks = []
    real = Workspace._snapshot
    monkeypatch.setattr(Workspace, "_snapshot", lambda *given: looks.append(1) or real(*given))
    restored = workspace.apply(found)
    assert len(looks) == (1 if touched else 0)
    assert {one.path for one in restored.kept} == ({touched.encode()} if touched else set())
    assert (root / "b").read_text() == "b"
    if touched:
        assert (root / touched).read_text() == "mine"


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_lost_content_deletes_nothing(root: Path, workspace: Workspace, how: str) -> None:
    """The restore is refused and names it; the rest is restored only if asked."""
    to = workspace.snapshot().id
    (root / "c").write_text("only here")
    lost = workspace.snapshot().id
    bad_run(root)
    (root / "c").unlink()
    (root / "c").mkdir()
    left = workspace.snapshot().id
    (pack,) = (pack for pack in workspace.contents._pack_list() if _ref(workspace, lost, b"c") in pack)
    workspace.close()
    if how == "missing":
        keep: set = set()
        for one in (to, lost, left):
            workspace = Workspace(root, workspace.contents._directory)
            workspace.tree(one).refs(keep)
        workspace.contents.gc(lambda: keep - {_ref(workspace, lost, b"c")})
    else:
        _damage(pack.path, b"only here")
        workspace = Workspace(root, workspace.contents._directory)
    before = values(look(root))
    with pytest.raises(ContentsDamaged) as caught:
        workspace.apply(workspace.plan(lost, left))
    assert "c" in caught.value.what
    assert values(look(root)) == before
    workspace.apply(workspace.plan(lost, left), partial=True)
    assert (root / "a").read_text() == "a"
    assert (root / "c").is_dir()


def _ref(workspace: Workspace, snapshot: str, path: bytes):
    entry = workspace.tree(snapshot).find(path)
    return entry.ref


def _damage(pack: Path, text: bytes) -> None:
    data = pack.read_bytes()
    assert text in data, "a group this small is not compressed"
    pack.write_bytes(data.replace(text, text.swapcase()))


def test_names_that_differ_only_in_case(root: Path, workspace: Workspace) -> None:
    """Where they are one file, none overwrites another."""
    (root / "Name").write_text("1")
    (root / "NAME").write_text("2")
    to = workspace.snapshot().id
    (root / "Name").unlink()
    (root / "NAME").unlink()
    now = workspace.snapshot().id
    trees = [workspace.tree(one) for one in (to, now, now)]
    assert len(Planner(workspace.contents, *trees).run()[0]) == 2
    actions, left = Planner(workspace.contents, *trees, folds_case=True).run()
    assert actions == ()
    assert {one.path: one.why for one in left} == {b"Name": Why.CASE, b"NAME": Why.CASE}
