"""Files of a run, through the library: windows, retries, locks, colours."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    Holdfast,
    Retry,
    WorkspaceConflict,
    approval,
    checkpoint,
    command,
    parallel,
    step,
    workspace_path,
)
from holdfast.errors import BadInput, BadWorkspace, CommandFailed, NeedsAttention


@pytest.fixture
def files(tmp_path: Path, root: Path) -> Iterator[Holdfast]:
    with Holdfast(tmp_path / "home", workspace=root) as opened:
        yield opened


@step(effect="workspace")
def write(name: str, text: str) -> str:
    (workspace_path() / name).write_text(text)
    return text


def places(hf: Holdfast, run_id: str) -> list[str]:
    return [event.data["place"] for event in hf.events(run_id) if event.type == "FilesSaved"]


def test_a_run_without_files_pays_nothing(files: Holdfast, act: Any, root: Path) -> None:
    """No checkpoint, no `workspace` step: no snapshot, and no store for them."""
    assert files.with_id("r").run(act(lambda: _plain())) == 1
    assert places(files, "r") == []
    assert not (files.home / "workspace").exists()


@step
def _plain() -> int:
    return 1


def until_it_waits(hf: Holdfast, run_id: str) -> None:
    """Until the run is parked at its gate: no process owns it."""
    deadline = time.monotonic() + 30
    while (info := hf.get(run_id)).status != "waiting" or info.owner:
        assert time.monotonic() < deadline, info
        time.sleep(0.01)


def test_snapshots_around_steps_and_at_edges(files: Holdfast, act: Any, root: Path) -> None:
    """Before and after each; at a stop only if something may have changed since; at a start always."""

    def plot() -> str:
        write("a", "1")
        _plain()
        return approval("go").outcome

    run = files.with_id("r").start(act(plot))
    until_it_waits(files, "r")
    files.approve("r")
    assert run.result(timeout=10) == "approved"
    assert places(files, "r") == ["before", "after", "stop", "start"]


def test_each_attempt_begins_from_the_same_files(files: Holdfast, act: Any, root: Path) -> None:
    """What a failed attempt wrote is taken back before the next one."""
    seen: list[list[str]] = []

    def body() -> int:
        seen.append(sorted(os.listdir(root)))
        (root / f"attempt-{len(seen)}").touch()
        (root / "there").unlink(missing_ok=True)
        if len(seen) < 3:
            raise ValueError("not yet")
        return len(seen)

    (root / "there").touch()
    tries = step(effect="workspace", retry=Retry(attempts=3, initial=0.01, jitter=0), name="tries")(body)
    assert files.with_id("r").run(act(lambda: tries())) == 3
    assert seen == [["there"]] * 3
    assert sorted(os.listdir(root)) == ["attempt-3"]


def test_many_at_once_take_turns(files: Holdfast, act: Any, root: Path) -> None:
    """Workspace steps of one root never overlap, in threads or in a loop, and none waits for ever."""
    inside: list[int] = []
    most: list[int] = []

    def alone(number: int) -> int:
        inside.append(number)
        most.append(len(inside))
        (root / f"out-{number}").write_text(str(number))
        inside.remove(number)
        return number

    one = step(effect="workspace", name="one")(alone)
    assert files.run(act(lambda: parallel(one, range(6)))) == list(range(6))

    async def plot() -> list[int]:
        return list(await asyncio.gather(*(one.aio(n) for n in range(40))))

    assert files.run(act(plot)) == list(range(40))
    assert max(most) == 1


def test_an_async_step_and_an_async_checkpoint(files: Holdfast, act: Any, root: Path) -> None:
    @step(effect="workspace")
    async def awrite(text: str) -> str:
        (workspace_path() / "a").write_text(text)
        return text

    async def plot() -> str:
        await awrite("1")
        await checkpoint.aio("one")
        result = await command.aio(["sh", "-c", "echo 2 > a; rm -f b"])
        return result.stdout

    (root / "b").write_text("b")
    files.with_id("r").run(act(plot))
    files.rewind("r", "one")
    assert (root / "a").read_text() == "1" and (root / "b").read_text() == "b"


def test_isolated_failures_leave_nothing(files: Holdfast, act: Any, root: Path) -> None:
    """What a failed body did in its copy is not brought back, read-only files and all."""

    @step(effect="workspace", isolate="copy")
    def fails() -> None:
        here = workspace_path()
        assert here != root
        (here / "new").mkdir()
        (here / "new" / "file").write_text("x")
        (here / "new").chmod(0o500)
        (here / "a").write_text("changed")
        raise ValueError("no")

    (root / "a").write_text("a")
    with pytest.raises(ValueError, match="no"):
        files.run(act(lambda: fails()))
    assert {path.name: path.read_text() for path in root.iterdir()} == {"a": "a"}
    assert list((files.home / "copies").iterdir()) == []


def test_a_conflict_fails_the_isolated_step(files: Holdfast, act: Any, root: Path) -> None:
    @step(effect="workspace", isolate="copy")
    def both() -> None:
        (workspace_path() / "a").write_text("the copy's")
        (workspace_path() / "mine").write_text("the copy's")
        (root / "a").write_text("a person's")

    (root / "a").write_text("a")
    with pytest.raises(WorkspaceConflict, match="a; nothing of it was brought back"):
        files.run(act(lambda: both()))
    assert (root / "a").read_text() == "a person's" and not (root / "mine").exists()


def test_a_checkpoint_every_so_many_steps_binds_files(tmp_path: Path, act: Any, root: Path) -> None:
    """The setting `checkpoint_every`: files, data and steps of that moment."""
    (root / "holdfast.toml").write_text("checkpoint_every = 2\n")
    with Holdfast(tmp_path / "home", workspace=root) as hf:

        def plot() -> None:
            for n in range(4):
                write("a", str(n))

        hf.with_id("r").run(act(plot))
        taken = [event.data for event in hf.events("r") if event.type == "CheckpointTaken"]
        assert [(one["key"], bool(one["snapshot"])) for one in taken] == [("auto@2", True), ("auto@4", True)]
        hf.rewind("r", "auto@2")
        assert (root / "a").read_text() == "1"


def test_a_step_without_a_snapshot_keeps_its_files(files: Holdfast, act: Any, root: Path) -> None:
    """Rewound to a plain step, the files are those of the next snapshot: what it wrote does not vanish."""

    @step
    def plain() -> None:
        (root / "plain").write_text("kept")

    def plot() -> None:
        write("a", "1")
        plain()
        write("a", "2")

    files.with_id("r").run(act(plot))
    done = files.rewind("r", "plain")
    assert done.files is not None and done.files.as_of == "before write#2"
    assert (root / "plain").read_text() == "kept" and (root / "a").read_text() == "1"


def test_what_cannot_be_saved_stops_the_run(tmp_path: Path, act: Any, root: Path) -> None:
    """A checkpoint without its files would be a way back that is none."""
    with Holdfast(tmp_path / "home", workspace=root) as hf:
        (tmp_path / "home" / "workspace").write_text("in the way")
        with pytest.raises(NeedsAttention, match="files cannot be looked at"):
            hf.with_id("r").run(act(lambda: checkpoint("one")))
        assert hf.get("r").status == "needs_attention"
        (tmp_path / "home" / "workspace").unlink()
        hf.resume("r").result(timeout=10)
        assert [one.name for one in hf.checkpoints("r")] == ["one"]


def test_without_a_workspace(tmp_path: Path, act: Any, root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A command is `once`, and says so; a `workspace` step is refused by name."""
    with Holdfast(tmp_path / "home") as hf:
        hf.with_id("c").run(act(lambda: command(["true"]).exit_code))
        started = next(event for event in hf.events("c") if event.type == "StepStarted")
        assert started.data["effect"] == "once" and "effect `once`" in caplog.text
        with pytest.raises(NeedsAttention, match="workspace"):
            hf.run(act(lambda: write("a", "1")))
        with pytest.raises(BadWorkspace):
            hf.run(act(lambda: command(["true"], isolate="copy")))
    with pytest.raises(BadInput, match="effect='workspace'"):
        step(writes=["a"])(lambda: None)
    with pytest.raises(BadInput, match="only inside the body"):
        workspace_path()


def test_child_runs_and_their_parent(files: Holdfast, act: Any, root: Path) -> None:
    """What a child run did is inside its parent's window: a rewind of the parent takes it back."""
    nested = act(lambda: write("child", "1"), "child")

    def plot() -> None:
        checkpoint("before")
        nested()

    files.with_id("r").run(act(plot))
    assert (root / "child").exists()
    files.rewind("r", "before")
    assert not (root / "child").exists()


def test_what_a_person_changed_in_a_gap_stays(files: Holdfast, act: Any, root: Path) -> None:
    """Between two windows: in a file of their own, in one that the run changes later, in a new directory."""

    def plot() -> str:
        checkpoint("before")
        write("a", "run, first window")
        outcome = approval("go").outcome
        write("b", "run, second window")
        return outcome

    for name in ("a", "b", "mine"):
        (root / name).write_text("original")
    run = files.with_id("r").start(act(plot))
    until_it_waits(files, "r")
    (root / "mine").write_text("a person's")
    (root / "b").write_text("a person's, before the run's")
    (root / "new").mkdir()
    (root / "new" / "file").write_text("a person's")
    files.approve("r")
    assert run.result(timeout=10) == "approved"
    done = files.rewind("r", "before")
    assert {path.name: path.read_text() for path in root.iterdir() if path.is_file()} == {
        "a": "original",
        "b": "a person's, before the run's",
        "mine": "a person's",
    }
    assert (root / "new" / "file").read_text() == "a person's"
    assert done.files is not None and "mine" in {kept.path for kept in done.files.kept}


@pytest.mark.parametrize("is_async", [False, True])
def test_a_step_inside_a_step_on_the_same_files(
    files: Holdfast, act: Any, root: Path, is_async: bool
) -> None:
    """It would wait for ever for the one that waits for it: it is refused, and both say so."""
    inner = act(lambda: write("inner", "1"), "child")

    @step(effect="workspace")
    def outer() -> None:
        files.with_id("inner").run(inner)

    async def plot() -> None:
        await outer.aio()

    with pytest.raises(NeedsAttention, match="so does the step that runs it"):
        files.run(act(plot if is_async else lambda: outer()))
    assert files.get("inner").status == "needs_attention"


@pytest.mark.parametrize("seed", range(6))
def test_what_branches_do_at_once_is_the_run_s(files: Holdfast, act: Any, root: Path, seed: int) -> None:
    """Steps in copies, in the root and without care for files, checkpoints between them: a rewind
    takes all of it back."""
    chance = random.Random(seed)
    kinds = [chance.choices(("copied", "alone", "plain", "mark"), k=3) for _ in range(6)]

    def branch(n: int) -> None:
        for turn, kind in enumerate(kinds[n]):
            name = f"{kind}-{n}-{turn}"
            if kind == "mark":
                checkpoint(name)
            else:
                {"copied": copied, "alone": write, "plain": plain}[kind](name, name)

    def plot() -> None:
        checkpoint("before")
        parallel(branch, range(len(kinds)))

    (root / "mine").write_text("a person's")
    files.with_id("r").run(act(plot))
    made = {f"{kind}-{n}-{turn}" for n, row in enumerate(kinds) for turn, kind in enumerate(row)}
    assert {path.name for path in root.iterdir()} == {"mine", *(one for one in made if "mark" not in one)}
    files.rewind("r", "before")
    assert [path.name for path in root.iterdir()] == ["mine"]


@step(effect="workspace", isolate="copy")
def copied(name: str, text: str) -> None:
    (workspace_path() / name).write_text(text)


@step
def plain(name: str, text: str) -> None:
    Path(name).write_text(text)


def test_a_command_that_fails_outside_the_workspaces_root_says_where_it_ran(
    files: Holdfast, act: Any, root: Path, tmp_path: Path
) -> None:
    """A step writes to the root, a command looks in its own directory. The note is recorded, too."""
    inner = root / "inner"
    inner.mkdir()

    def notes(cwd: Path, **options: Any) -> list[str]:
        try:
            command(["rm", "VERSION"], cwd=cwd, **options)
        except CommandFailed as error:
            return list(getattr(error, "__notes__", []))
        return ["it did not fail"]

    def plot() -> list[list[str]]:
        write("VERSION", "1")
        found = [notes(inner), notes(inner, isolate="copy"), notes(tmp_path, effect="idempotent")]
        (root / "VERSION").unlink()
        return [*found, notes(root)]

    def said(directory: Path) -> list[str]:
        return [f"it ran in {directory}; the workspace is {root}"]

    assert files.with_id("r").run(act(plot)) == [said(inner), said(inner), said(tmp_path), []]
    with pytest.raises(CommandFailed) as live:
        files.with_id("failed").run(act(lambda: command(["rm", "VERSION"], cwd=inner)))
    with pytest.raises(CommandFailed) as recorded:
        files.with_id("failed").run(act(lambda: None))
    assert (live.value.__notes__, recorded.value.__notes__[:1]) == (said(inner), said(inner))


def test_a_command_without_a_workspace_has_no_note(hf: Holdfast, act: Any, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed) as failed:
        hf.run(act(lambda: command(["false"], cwd=tmp_path, effect="idempotent")))
    assert not hasattr(failed.value, "__notes__")
