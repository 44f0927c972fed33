"""An operation that is bound to its preview does that, or nothing; files that are to be kept stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, PlanChanged
from holdfast.errors import BadInput, BadWorkspace, StoreFull
from holdfast.operations import rewinding, undoing

SCRIPT = "echo run > a; echo run > b; mkdir -p logs; echo run > logs/one; echo run > new"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    for name in ("a", "b", "other"):
        (root / name).write_text("mine\n")
    return root


@pytest.fixture
def hf(tmp_path: Path, root: Path) -> Iterator[Holdfast]:
    """With a run, `r`, that changed `a` and `b`, and made `logs/one` and `new`."""
    with Holdfast(tmp_path / "home", workspace=root, durability="process") as opened:
        opened.start_command(["sh", "-c", SCRIPT], run_id="r", cwd=root).result()
        yield opened


def contents(root: Path) -> dict[str, str]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_text().strip() for path in files}


DONE = {"a": "run", "b": "run", "other": "mine", "logs/one": "run", "new": "run"}
BACK = {"a": "mine", "b": "mine", "other": "mine"}


# The plan


def test_a_plan_is_the_same_as_long_as_the_same_would_be_done(hf: Holdfast, root: Path) -> None:
    """Two previews agree; files that are kept anyway do not matter; the plan of what was done is the same."""
    plan = hf.rewind("r", "start", dry_run=True).plan
    (root / "theirs").write_text("somebody else's\n")
    (root / "logs").chmod(0o755)
    assert hf.rewind("r", "start", dry_run=True).plan == plan
    assert hf.rewind("r", "start", plan=plan[:12].upper()).plan == plan
    assert contents(root) == {**BACK, "theirs": "somebody else's"}


@pytest.mark.parametrize(
    "options", [{"only": ["a"]}, {"keep": ["a"]}, {"files": False}, {"to": "before:sh#1", "only": ["b"]}]
)
def test_another_operation_has_another_plan(hf: Holdfast, options: dict[str, Any]) -> None:
    """Which files are moved counts, and whether the run is."""
    plans = {
        hf.rewind("r", **{"to": "start", **given}, dry_run=True).plan
        for given in ({}, options)  # type: ignore[arg-type]
    }
    assert len(plans) == 2


@pytest.mark.parametrize("name", ["a", "new"])
def test_a_file_that_changed_after_the_preview(hf: Holdfast, root: Path, name: str) -> None:
    """The rewind is refused, and nothing is done or recorded; with the file as it was, it is done."""
    plan = hf.rewind("r", "start", dry_run=True).plan
    (root / name).write_text("edited\n")
    with pytest.raises(PlanChanged, match="preview it again") as raised:
        hf.rewind("r", "start", plan=plan)
    assert raised.value.now == hf.rewind("r", "start", dry_run=True).plan != plan
    assert contents(root) == {**DONE, name: "edited"}
    assert (hf.operations(), hf.get("r").generation) == ([], 0)
    (root / name).write_text("run\n")
    assert hf.rewind("r", "start", plan=plan).operation
    assert contents(root) == BACK


def test_the_same_for_an_undo(hf: Holdfast, root: Path) -> None:
    """Of a rewind, of which the files are looked at in a preview."""
    hf.rewind("r", "start")
    plan = hf.undo(dry_run=True).plan
    (root / "a").write_text("edited\n")
    with pytest.raises(PlanChanged):
        hf.undo(plan=plan)
    assert contents(root) == {**BACK, "a": "edited"}
    (root / "a").write_text("mine\n")
    assert hf.undo(plan=plan).plan == plan
    assert contents(root) == DONE
    assert hf.redo(dry_run=True, plan=hf.redo(dry_run=True).plan).undoes


def during(monkeypatch: pytest.MonkeyPatch, module: Any, happens: Callable[[], object]) -> None:
    """Let something happen after an operation was planned, and before it is done."""
    perform = module.perform

    def late(*args: Any) -> Any:
        happens()
        return perform(*args)

    monkeypatch.setattr(module, "perform", late)


def test_a_file_that_changes_after_the_plan_was_compared(
    hf: Holdfast, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also then nothing else is done: the error names the path, and the operation is dropped. An operation
    without a plan keeps that file, and does the rest."""
    during(monkeypatch, rewinding, lambda: (root / "a").write_text("edited\n"))
    plan = hf.rewind("r", "start", dry_run=True).plan
    with pytest.raises(PlanChanged, match="a changed") as raised:
        hf.rewind("r", "start", plan=plan)
    assert raised.value.paths == ("a",)
    assert contents(root) == {**DONE, "a": "edited"}
    assert ([one.status for one in hf.operations()], hf.get("r").generation) == (["dropped"], 0)
    assert [one.path for one in hf.rewind("r", "start").files.kept] == ["a"]  # type: ignore[union-attr]
    assert contents(root) == {**BACK, "a": "edited"}


def test_another_file_may_change_meanwhile(hf: Holdfast, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the plan does not touch is not bound by it."""
    during(monkeypatch, undoing, lambda: (root / "other").write_text("edited\n"))
    hf.rewind("r", "start")
    hf.undo(plan=hf.undo(dry_run=True).plan)
    assert contents(root) == {**DONE, "other": "edited"}


def test_steps_that_ran_since_change_the_plan(hf: Holdfast, root: Path) -> None:
    """A step that has run again is another record, though it did the same to the files."""
    plan = hf.rewind("r", "start", files=False, dry_run=True).plan
    hf.rewind("r", "start")
    hf.resume("r").result()
    with pytest.raises(PlanChanged):
        hf.rewind("r", "start", files=False, plan=plan)


def test_a_fork_is_bound_to_its_plan(hf: Holdfast, tmp_path: Path) -> None:
    """Point, id and directory count."""
    plan = hf.fork("r", "sh#1", "copy", dry_run=True).plan
    with pytest.raises(PlanChanged):
        hf.fork("r", "sh#1", "copy", directory=tmp_path / "elsewhere", plan=plan)
    assert not (tmp_path / "elsewhere").exists()
    assert hf.fork("r", "sh#1", "copy", plan=plan).made


def test_a_plan_that_is_too_short(hf: Holdfast) -> None:
    """A few characters could be those of another plan."""
    with pytest.raises(BadInput, match="at least 8"):
        hf.rewind("r", "start", plan="ab12")


# Files that are to be kept


@pytest.mark.parametrize(
    ("keep", "stays"),
    [
        (["a"], {"a": "run"}),
        (["a", "b"], {"a": "run", "b": "run"}),
        (["logs/"], {"logs/one": "run"}),
        (["logs"], {"logs/one": "run"}),
        (["*", "!b"], {"a": "run", "logs/one": "run", "new": "run"}),
    ],
)
def test_files_that_match_keep_stay(hf: Holdfast, root: Path, keep: list[str], stays: dict[str, str]) -> None:
    """They are named with the reason, `theirs` or not; an undo brings back all."""
    done = hf.rewind("r", "start", keep=keep, theirs=True)
    assert done.files is not None
    assert contents(root) == {**BACK, **stays}
    assert {one.why for one in done.files.kept} == {"kept as you asked"}
    named = [one.path for one in done.files.kept]
    assert all(any(path == name or path.startswith(f"{name}/") for name in named) for path in stays)
    hf.undo()
    assert contents(root) == DONE


def test_a_file_that_was_removed_stays_removed(hf: Holdfast, root: Path) -> None:
    """`keep` keeps a path as it is, also where it is not."""
    hf.start_command(["rm", "other"], run_id="s", cwd=root).result()
    done = hf.rewind("s", "start", keep=["other"])
    assert done.files is not None and [one.path for one in done.files.kept] == ["other"]
    assert not (root / "other").exists()


def test_a_kept_file_is_the_persons_from_then_on(hf: Holdfast, root: Path) -> None:
    """The next rewind leaves it alone: what was kept was decided."""
    hf.rewind("r", "start", keep=["a"])
    hf.resume("r").result()
    (root / "a").write_text("run\n")
    hf.rewind("r", "start")
    assert contents(root) == {**BACK, "a": "run"}


def test_what_is_kept_stays_if_the_rewind_is_cut_off(
    hf: Holdfast, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one to open the store finishes it, and keeps the same files."""
    real, calls = hf._store.command_all, []

    def full(*args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:  # the files are moved, and their end cannot be recorded
            raise StoreFull("no room")
        return real(*args, **options)

    monkeypatch.setattr(hf._store, "command_all", full)
    with pytest.raises(StoreFull):
        hf.rewind("r", "start", keep=["b", "logs/"])
    with Holdfast(tmp_path / "home", workspace=root, durability="process") as other:
        assert [one.status for one in other.operations()] == ["done"]
        assert contents(root) == {**BACK, "b": "run", "logs/one": "run"}
        other.undo()
        assert contents(root) == DONE


def test_patterns_that_match_nothing_are_mistyped(hf: Holdfast, root: Path) -> None:
    """Nothing is done: what was to be kept would be lost otherwise."""
    with pytest.raises(BadInput, match=r"no file in .* matches 'bb'"):
        hf.rewind("r", "start", keep=["bb"])
    with pytest.raises(BadWorkspace, match="leads out"):
        hf.rewind("r", "start", keep=["../b"])
    with pytest.raises(BadInput, match="--no-files"):
        hf.rewind("r", "start", keep=["b"], files=False)
    assert contents(root) == DONE
