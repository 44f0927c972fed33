"""`snapshot` and `changes`: the files of the workspace, saved and compared as steps of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    DivergenceError,
    FileDiff,
    Holdfast,
    changes,
    checkpoint,
    command,
    snapshot,
    step,
    workspace_path,
)
from holdfast.errors import BadInput, BadWorkspace, NotAwaited, SnapshotNotFound, WrongColour
from holdfast.testing.crash import at_body, before_append


@pytest.fixture
def files(home: Path, root: Path) -> Iterator[Holdfast]:
    with Holdfast(home, workspace=root) as opened:
        yield opened


@step(effect="workspace")
def write(name: str, text: str) -> None:
    (workspace_path() / name).write_text(text)


@step
def work(text: str) -> str:
    return text


def of(found: list[FileDiff]) -> list[tuple[str, str]]:
    return [(one.path, one.change) for one in found]


@pytest.mark.parametrize("colour", ["def", "async"])
def test_what_changed_between_two_snapshots_and_since(
    files: Holdfast, act: Any, root: Path, colour: str
) -> None:
    (root / "old.txt").write_text("one\n")

    def plot() -> Any:
        a = snapshot()
        write("new.txt", "fresh\n")
        b = snapshot()
        write("old.txt", "two\n")
        return a, b, changes(a, b), changes(b), changes(a)

    async def aplot() -> Any:
        a = await snapshot.aio()
        await write.aio("new.txt", "fresh\n")
        b = await snapshot.aio()
        await write.aio("old.txt", "two\n")
        return a, b, await changes.aio(a, b), await changes.aio(b), await changes.aio(a)

    a, b, between, since, all_of_it = files.with_id("x").run(act(plot if colour == "def" else aplot))
    assert of(between) == [("new.txt", "added")]
    assert of(since) == [("old.txt", "modified")]
    assert of(all_of_it) == [("new.txt", "added"), ("old.txt", "modified")]
    assert "-one\n+two\n" in since[0].text
    assert since[0].lines() == (1, 1)
    steps = [
        (one.key, one.kind, one.status) for one in files.steps("x") if one.name in ("snapshot", "changes")
    ]
    assert steps == [
        (key, "step", "completed")
        for key in ("snapshot#1", "snapshot#2", "changes#1", "changes#2", "changes#3")
    ]
    saved = [event.data for event in files.events("x") if event.type == "FilesSaved"]
    assert [
        (one["snapshot"], one["place"]) for one in saved if one.get("key", "").startswith("snapshot")
    ] == [
        (a, "after"),
        (b, "after"),
    ]


def test_equal_files_have_equal_ids(files: Holdfast, act: Any, root: Path) -> None:
    """What an approval needs: whether the files are what was shown."""
    (root / "a.txt").write_text("one\n")

    def plot() -> list[str]:
        found = [snapshot()]
        write("a.txt", "two\n")
        found.append(snapshot())
        write("a.txt", "one\n")
        return [*found, snapshot()]

    first, second, third = files.run(act(plot))
    assert first == third != second


def test_a_resumed_run_sees_what_was_found(home: Path, root: Path, act: Any, crashes: Any) -> None:
    """The files are others by then; the recorded snapshot and the recorded differences stay."""
    given = []
    first = Holdfast(home, workspace=root, durability="process")
    store = crashes.arm(first)

    def plot() -> None:
        a = snapshot()
        write("a.txt", "one\n")
        given.append((a, changes(a), snapshot()))
        if store.left is None:
            store.left = 0

    with pytest.raises(Exception, match="dead"):
        first.with_id("x").run(act(plot))
    crashes.bury(first)
    (root / "b.txt").write_text("somebody else's\n")
    with Holdfast(home, workspace=root) as second:
        second.with_id("x").run(act(plot))
    assert given[0] == given[1]
    assert type(given[1][1][0]) is FileDiff


def test_a_snapshot_is_kept_by_gc_and_can_be_rewound_to(files: Holdfast, act: Any, root: Path) -> None:
    """Its contents stay as long as the log names it, and its files come back with the state."""
    from holdfast.operations.disk_usage import sweep

    (root / "a.txt").write_text("one\n")
    given = []

    def plot() -> str:
        given.append(snapshot())
        write("a.txt", "two\n")
        return given[-1]

    files.with_id("x").run(act(plot))
    sweep(files._engine)
    files.rewind("x", "snapshot#1")
    assert (root / "a.txt").read_text() == "one\n"
    assert files.resume("x").result(30) == given[0]
    assert given.count(given[0]) == 2


def test_a_large_difference_goes_beside_the_log(files: Holdfast, act: Any, root: Path) -> None:
    def plot() -> int:
        a = snapshot()
        write("big.txt", "".join(f"line {n}\n" for n in range(20_000)))
        return len(changes(a)[0].text)

    assert files.with_id("x").run(act(plot)) > 200_000
    ran = next(
        event.data
        for event in files.events("x")
        if event.data.get("key") == "changes#1" and "blob" in event.data
    )
    assert len(ran["blob"]) == 64
    assert "result" not in ran


def test_differences_are_redacted(files: Holdfast, act: Any, root: Path) -> None:
    token = "ghp_" + "a1B2" * 9

    def plot() -> str:
        a = snapshot()
        write("a.txt", f"token={token}\n")
        return changes(a)[0].text

    assert token not in files.run(act(plot))


def test_a_snapshot_that_is_none_fails_the_step(files: Holdfast, act: Any) -> None:
    def plot() -> Any:
        snapshot()
        return changes("nonsense")

    with pytest.raises(SnapshotNotFound, match="nonsense"):
        files.with_id("x").run(act(plot))
    assert [(one.key, one.status) for one in files.steps("x")][-1] == ("changes#1", "failed")


def test_without_a_workspace_there_is_a_sentence(hf: Holdfast, act: Any) -> None:
    with pytest.raises(BadWorkspace, match=r"snapshot\(\): .*name one with the setting `workspace`"):
        hf.with_id("x").run(act(lambda: snapshot()))
    with pytest.raises(BadWorkspace, match=r"changes\(\): .*name one with the setting `workspace`"):
        hf.run(act(lambda: changes("0" * 64)))
    assert [one.status for one in hf.steps("x")] == ["failed"]


def test_they_are_steps_of_a_workflow_and_of_its_colour(files: Holdfast, act: Any) -> None:
    async def wrong() -> Any:
        snapshot()

    async def forgotten() -> Any:
        snapshot.aio()

    async def elsewhere() -> Any:
        await asyncio.to_thread(snapshot)

    with pytest.raises(BadInput, match="is a step"):
        snapshot()
    with pytest.raises(BadInput, match="is a step"):
        changes("0" * 64)
    with pytest.raises(BadInput, match="must be text"):
        files.run(act(lambda: changes(7)))  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="is a step"):
        files.run(act(lambda: step(name="body")(lambda: snapshot())()))
    with pytest.raises(WrongColour, match=r"await snapshot\.aio"):
        files.run(act(wrong))
    with pytest.raises(WrongColour, match="`def` workflow"):
        files.run(act(lambda: snapshot.aio()))
    with pytest.raises(WrongColour, match="another thread"):
        files.run(act(elsewhere))
    with pytest.raises(NotAwaited):
        files.run(act(forgotten))


def test_other_snapshots_are_another_comparison(home: Path, root: Path, act: Any, crashes: Any) -> None:
    """The ids count for the identity of `changes`, as arguments do."""
    first = Holdfast(home, workspace=root, durability="process")
    store = crashes.arm(first)

    def plot() -> None:
        a = snapshot()
        write("a.txt", "one\n")
        changes(a) if store.left is None else changes(a, a)
        if store.left is None:
            store.left = 0

    with pytest.raises(Exception, match="dead"):
        first.with_id("x").run(act(plot))
    crashes.bury(first)
    with Holdfast(home, workspace=root) as second, pytest.raises(DivergenceError, match="other arguments"):
        second.with_id("x").run(act(plot))


def test_a_snapshot_leaves_the_history_of_the_files_as_it_was(files: Holdfast, act: Any, root: Path) -> None:
    """It is no body at work: what another program writes after it is not taken for the run's."""

    def plot() -> None:
        write("a.txt", "one\n")
        snapshot()
        (root / "theirs.txt").write_text("an editor's\n")
        command(["true"])
        checkpoint("end")

    files.with_id("x").run(act(plot))
    saved = [event.data for event in files.events("x") if event.type == "FilesSaved"]
    after = next(n for n, one in enumerate(saved) if one.get("key") == "snapshot#1")
    assert saved[after + 1]["place"] == "start"


SCRIPT = """
    import os
    from pathlib import Path
    from holdfast import Holdfast, changes, snapshot, step, workflow, workspace_path
    from holdfast.testing.crash import mark

    ROOT = Path(os.environ["TEST_ROOT"])

    @step(effect="workspace")
    def write(text: str) -> None:
        (workspace_path() / "a.txt").write_text(text)

    @step
    def show(found: list) -> list:
        return found

    @workflow
    def edit() -> list:
        before = snapshot()
        write("one")
        found = [(one.path, one.change) for one in changes(before)]
        return show(found)

    with Holdfast(workspace=ROOT) as hf:
        assert hf.with_id("x").run(edit) == [("a.txt", "added")]
        mark("done")
"""


@pytest.mark.parametrize(
    "kill",
    [
        at_body("snapshot#1"),
        at_body("write#1"),
        at_body("changes#1"),
        at_body("show#1"),
        *map(before_append, range(1, 9)),
    ],
    ids=str,
)
def test_a_killed_run_resumes_with_the_same_files(lab: Any, root: Path, monkeypatch: Any, kill: Any) -> None:
    """SIGKILL at each body and before each append: the result is what one execution gives."""
    monkeypatch.setenv("TEST_ROOT", str(root))
    crash = lab(SCRIPT)
    first = crash.run(kill=kill)
    if not first.killed:  # fewer appends than that
        assert first.exit_code == 0, first.stderr
        return
    (root / "theirs.txt").write_text("somebody else's\n") if kill.text == "show#1" else None
    done = crash.run()
    assert done.exit_code == 0, done.stderr
