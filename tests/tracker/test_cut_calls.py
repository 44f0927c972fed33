"""A run stops between what a call of `hf.tasks`, `hf.sessions` or `hf.memory` did and the record of its step:
the resumed run does it once, and continues."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Retry, step, workflow
from holdfast.engine.primitives import service_call
from holdfast.errors import RunInterrupted, StoreError

hf: Holdfast


def work() -> list[Any]:
    """Every call that changes something, most of them in a place where a second time would be refused."""
    first = hf.tasks.create("first")
    second, third = hf.tasks.create("second", needs=[first.id]), hf.tasks.create("third")
    twins = {hf.tasks.create("twin").id, hf.tasks.create("twin").id}
    linked = hf.tasks.link(third.id, second.id, "related")
    hf.tasks.unlink(third.id, second.id, "related")
    hf.tasks.note(first.id, "one")
    hf.tasks.note(first.id, "two")
    with hf.tasks.claim(first.id) as claim:
        claim.release("lunch")
    with hf.tasks.claim(first.id) as claim:
        claim.complete("by claim")
    hf.tasks.reopen(first.id)
    hf.tasks.complete(first.id, summary="without one")
    with hf.tasks.claim(second.id):
        pass
    hf.tasks.fail(third.id, "no")
    hf.sessions.end(hf.sessions.start("bot").id, "done")
    known = hf.memory.remember("kelp")
    hf.memory.withdraw(hf.memory.remember("wrack", supersedes=known.id).id, "wrong")
    return [len(twins), linked, hf.tasks.import_("in.jsonl"), len(hf.memory.recall())]


@workflow
def by_workflow() -> list[Any]:
    return work()


@step
def body() -> list[Any]:
    return work()


@workflow
def by_step() -> list[Any]:
    return body()


def state() -> list[Any]:
    details = [hf.tasks.show(one.id) for one in hf.tasks.list()]
    return [
        sorted((one.task.name, one.task.status, one.task.summary, len(one.links)) for one in details),
        sorted(note.text for one in details for note in one.notes),
        [one.summary for one in hf.sessions.list()],
        sorted((one.text, one.status) for one in hf.memory.list(every=True)),
    ]


def cut_after(which: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Let the run stop after so many calls; 0 lets it end. The result counts the calls."""
    calls = 0
    guarded = service_call._guarded

    def cut(execution: Any, fn: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            result = guarded(execution, fn)(*args, **kwargs)
            calls += 1
            if calls == which:
                raise execution.lose(StoreError("the disk is gone"))
            return result

        return call

    monkeypatch.setattr(service_call, "_guarded", cut)
    return lambda: calls


@pytest.mark.parametrize(("flow", "every"), [(by_workflow, 1), (by_step, 6)])
def test_call_that_was_cut_off_is_made_once(
    flow: Any, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the run stops, tasks, notes, links, sessions, memory and result are those of a run that does
    not stop."""
    global hf
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text('{"name": "read"}\n{"name": "in"}\n')
    with monkeypatch.context() as patch, Holdfast(tmp_path / "whole", durability="process") as hf:
        calls = cut_after(0, patch)
        wanted = hf.run(flow), state()
        count = calls()
    assert count > 20
    for which in range(1, count + 1, every):
        with Holdfast(tmp_path / f"cut{which}", durability="process") as hf:
            with monkeypatch.context() as patch, pytest.raises((StoreError, RunInterrupted)):
                cut_after(which, patch)
                hf.with_id("r").run(flow)
            assert (hf.with_id("r").run(flow), state()) == wanted, which


tries = 0


@step(retry=Retry(attempts=2, initial=0.001))
def fails_once() -> str:
    global tries
    tries += 1
    made = hf.tasks.create("found")
    if tries == 1:
        raise ConnectionError
    return made.id


@workflow
def retried() -> str:
    return fails_once()


def test_step_that_is_tried_again_creates_a_task_once(tmp_path: Path) -> None:
    """The second attempt gets the task of the first; another step makes its own."""
    global hf, tries
    with Holdfast(tmp_path / "home", durability="process") as hf:
        for count in (1, 2):
            tries = 0
            hf.run(retried)
            assert len(hf.tasks.list()) == count


@workflow
def primed() -> str:
    text = hf.prime()
    hf.tasks.create("kelp")
    fail_at_first()
    return text


@workflow
async def aprimed() -> str:
    text = await hf.aio.prime()
    await hf.aio.tasks.create("kelp")
    await fail_at_first.aio()
    return text


@step
def fail_at_first() -> None:
    global tries
    tries += 1
    if tries == 1:
        raise ConnectionError


@pytest.mark.parametrize("flow", [primed, aprimed])
def test_prime_in_a_workflow_is_a_step(flow: Any, tmp_path: Path) -> None:
    """A resumed run has the prompt that it had, whatever has happened since."""
    global hf, tries
    tries = 0
    with Holdfast(tmp_path / "home", durability="process") as hf:
        with pytest.raises(ConnectionError):
            hf.with_id("r").run(flow)
        assert "kelp" in hf.prime()
        assert "kelp" not in hf.resume("r").result()
        assert [one.name for one in hf.steps("r")] == ["prime", "tasks.create", "fail_at_first"]
