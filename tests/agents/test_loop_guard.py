"""The loop guard: a tool that is called with the same arguments again and again pauses the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, RunPaused, workflow
from holdfast.agents import tools


@workflow
def circle(times: int) -> int:
    """Reads the same file again and again, and others between."""
    for n in range(times):
        tools.read("same.txt")
        tools.list(depth=n + 1)
    return times


@workflow
async def acircle(times: int) -> int:
    for _ in range(times):
        await tools.run.aio(["true"], effect="idempotent")
    return times


@pytest.fixture
def open_at(home: Path, tmp_path: Path, monkeypatch: Any) -> Iterator[Any]:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "same.txt").write_text("x")
    opened: list[Holdfast] = []

    def open_at(repeats: int) -> Holdfast:
        monkeypatch.setenv("HOLDFAST_TOOL_REPEATS", str(repeats))
        opened.append(Holdfast(home, workspace=root, durability="process"))
        return opened[-1]

    yield open_at
    for one in opened:
        one.close()


@pytest.mark.parametrize(("flow", "tool"), [(circle, "read"), (acircle, "run")], ids=["def", "async"])
def test_the_same_call_over_and_over_pauses_the_run(open_at: Any, flow: Any, tool: str) -> None:
    """After three the fourth pauses; `resume` lets three more through, and nothing recorded runs again."""
    hf = open_at(3)
    key = "read#4" if tool == "read" else "true#4"
    says = f"tool {tool} was called 3 times with the same arguments, and {key} is the next call"
    with pytest.raises(RunPaused, match=says):
        hf.with_id("x").run(flow, 8)
    assert hf.get("x").status == "paused"
    with pytest.raises(RunPaused, match="#7 is the next call"):
        hf.resume("x").result()
    assert hf.resume("x").result() == 8
    assert {one.status for one in hf.steps("x")} == {"completed"}


@workflow
def circle_that_fails(mended: str) -> None:
    for _ in range(2):
        tools.read("same.txt")
    if not Path(mended).exists():
        raise RuntimeError("not yet")
    for _ in range(2):
        tools.read("same.txt")


def test_the_count_outlives_the_process(open_at: Any, tmp_path: Path) -> None:
    """What an earlier execution of the run has called counts: two before it failed, and two after that."""
    mended = tmp_path / "mended"
    hf = open_at(3)
    with pytest.raises(RuntimeError):
        hf.with_id("x").run(circle_that_fails, str(mended))
    hf.close()
    mended.touch()
    hf = open_at(3)
    with pytest.raises(RunPaused, match="called 3 times with the same arguments, and read#4 is the next"):
        hf.resume("x").result()
    hf.resume("x").result()


def test_zero_is_no_limit(open_at: Any) -> None:
    """The guard is off."""
    assert open_at(0).run(circle, 30) == 30
