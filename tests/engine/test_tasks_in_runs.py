"""Tasks and runs: what a workflow does to tasks is recorded, and the end of a run moves its task."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Holdfast
from holdfast.errors import ClaimLost, NotFound, Refused, RunCancelled, StoreError, StoreFull, TaskHeld

STATE: dict[str, Any] = {}
"""What the workflows here share with their test."""
STEP_ENDS = ("StepRan", "StepCompleted")
"""One event for a step, or two if it took so long that its start was written first."""


@pytest.fixture
def hf(tmp_path: Path) -> Iterator[Holdfast]:
    with Holdfast(tmp_path / "home", durability="process") as opened:
        STATE.clear()
        STATE["hf"] = opened
        yield opened


def lose_first_step(hf: Holdfast) -> None:
    """The commit of the first step that ends is lost, as if the process had died before it."""
    real, lost = hf._store.append, [True]

    def dies_once(append: Any) -> None:
        if lost and any(event.type in STEP_ENDS for event in append.events):
            lost.pop()
            raise StoreFull("no room")
        real(append)

    hf._store.append = dies_once  # type: ignore[method-assign]


@holdfast.step
def body() -> str:
    """A step whose body works on tasks."""
    made = STATE["hf"].tasks.create("from a body")
    STATE["hf"].tasks.note(made.id, "why", "decision")
    return str(made.id)


@holdfast.step
def stop_once() -> None:
    if STATE.pop("stop", False):
        raise ValueError("the first time")


@holdfast.workflow
def works() -> list[str]:
    """Creates, claims and completes in its own code, then fails once."""
    tasks = STATE["hf"].tasks
    first = tasks.create("from code", labels=["x"])
    claim = tasks.claim(first.id)
    inner = body()
    stop_once()
    done = claim.complete("well", {"n": 1})
    return [first.id, inner, done.status]


def test_calls_of_a_workflow_are_steps_and_those_of_a_body_are_its_own(hf: Holdfast) -> None:
    """A resumed run creates nothing again; every event says which run and step wrote it."""
    STATE["stop"] = True
    with pytest.raises(ValueError):
        hf.with_id("r").run(works)
    first, inner, status = hf.resume("r").result()
    assert status == "completed"
    assert sorted(task.name for task in hf.tasks.list()) == ["from a body", "from code"]
    assert [step.key for step in hf.get("r").steps][:3] == ["tasks.create#1", "tasks.claim#1", "body#1"]
    authors = [event.data["author"] for event in hf.tasks.events(first)]
    assert [author["step"] for author in authors] == ["tasks.create#1", "tasks.claim#1", "tasks.complete#1"]
    assert {author["run"] for author in authors} == {"r"}
    versions = [author["run_version"] for author in authors]
    assert versions == sorted(versions) and versions[0] == 2
    assert [event.data["author"]["step"] for event in hf.tasks.events(inner)] == ["body#1", "body#1"]


def test_a_step_that_runs_again_makes_no_second_task(hf: Holdfast) -> None:
    """A crash between the task's commit and the step's: the step runs again, and finds what it did."""
    real = hf._store.append
    seen: list[str] = []

    def dies_after_the_task(append: Any) -> None:
        """The step's own commit is lost, as if the process had died."""
        if any('"tasks.' in event.payload and event.type in STEP_ENDS for event in append.events):
            seen.append(append.stream)
            if len(seen) <= 2:
                raise StoreFull("no room")
        real(append)

    hf._store.append = dies_after_the_task  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(StoreFull):
            hf.with_id("r").run(works)
    first, _, _ = hf.with_id("r").run(works)
    assert sorted(task.name for task in hf.tasks.list()) == ["from a body", "from code"]
    assert hf.tasks.get(first).attempts == 1


@holdfast.workflow
def finishes() -> list[str]:
    """Ends tasks in every way, gives one back, reopens one, and removes a link and a memory."""
    tasks, ids = STATE["hf"].tasks, STATE["ids"]
    tasks.complete(ids[0])
    tasks.fail(ids[1], "no")
    tasks.reopen(ids[2])
    tasks.claim(ids[3])
    tasks.release(ids[3])
    tasks.unlink(ids[3], ids[0])
    STATE["hf"].memory.withdraw(STATE["memory"])
    return [tasks.get(one).status for one in ids]


def test_a_step_that_runs_again_is_not_refused_what_it_did(hf: Holdfast) -> None:
    """The commit of each step is lost once, after that of the task, the link or the memory; nothing is
    written twice. Another one is refused as ever."""
    ids = STATE["ids"] = [hf.tasks.create(name).id for name in "abcd"]
    hf.tasks.link(ids[3], ids[0])
    hf.tasks.complete(ids[2])
    STATE["memory"] = hf.memory.remember("not for long").id
    real, seen = hf._store.append, set()

    def dies_once(append: Any) -> None:
        steps = {event.payload for event in append.events if event.type in STEP_ENDS}
        keys = {payload.partition('"key":"')[2].partition('"')[0] for payload in steps} - seen
        seen.update(keys)
        if keys and "get" not in str(keys):
            raise StoreFull("no room")
        real(append)

    hf._store.append = dies_once  # type: ignore[method-assign]
    for _ in range(7):
        with pytest.raises(StoreFull):
            hf.with_id("r").run(finishes)
    assert hf.with_id("r").run(finishes) == ["completed", "failed", "pending", "pending"]
    assert [len(hf.tasks.events(one)) for one in ids] == [2, 2, 3, 3]
    assert [one.status for one in hf.memory.list(every=True)] == ["withdrawn"]
    for call in (
        lambda: hf.tasks.complete(ids[0]),
        lambda: hf.tasks.reopen(ids[2]),
        lambda: hf.tasks.unlink(ids[3], ids[0]),
        lambda: hf.memory.withdraw(STATE["memory"]),
    ):
        with pytest.raises((Refused, NotFound, ClaimLost)):
            call()


@holdfast.step
def claims_and_completes() -> str:
    with STATE["hf"].tasks.claim(STATE["task"]) as claim:
        return str(claim.complete("well").status)


@holdfast.workflow
def works_in_a_body() -> str:
    return claims_and_completes()


def test_a_body_that_runs_again_claims_what_it_has_completed(hf: Holdfast) -> None:
    """The commit of the step is lost after that of the completion: the claim is the one that it had."""
    STATE["task"] = hf.tasks.create("a").id
    lose_first_step(hf)
    with pytest.raises(StoreFull):
        hf.with_id("r").run(works_in_a_body)
    assert hf.with_id("r").run(works_in_a_body) == "completed"
    assert hf.tasks.get(STATE["task"]).attempts == 1
    with pytest.raises(Refused):
        hf.tasks.claim(STATE["task"])


@holdfast.workflow
def claims_next() -> str:
    claim = STATE["hf"].tasks.claim()
    claim.complete("well")
    return str(claim.task.id)


def test_a_claim_is_found_again_whatever_others_did_to_the_task_since(hf: Holdfast) -> None:
    """Before the step runs again, a person notes something on the task, edits it, and says what it needs: the
    step has claimed it all the same, and claims no other one."""
    first, second = (hf.tasks.create(name, priority=n).id for n, name in enumerate("ab"))
    lose_first_step(hf)
    with pytest.raises(StoreFull):
        hf.with_id("r").run(claims_next)
    hf.tasks.note(first, "look here")
    hf.tasks.edit(first, body="more")
    needed = hf.tasks.create("c").id
    hf.tasks.link(first, needed)
    with pytest.raises(Refused, match="needs"):
        hf.with_id("r").run(claims_next)
    assert [hf.tasks.get(one).status for one in (first, second)] == ["in_progress", "pending"]
    hf.tasks.complete(needed)
    hf.resume("r")
    assert hf.with_id("r").run(claims_next) == first
    assert [hf.tasks.get(one).attempts for one in (first, second)] == [1, 0]


@holdfast.workflow
def reads() -> str:
    return str(STATE["hf"].tasks.get(STATE["task"]).name)


@holdfast.step
def reads_in_body() -> str:
    return reads.fn()


@holdfast.workflow
def reads_in_step() -> str:
    return reads_in_body()


@pytest.mark.parametrize("flow", [reads, reads_in_step])
def test_a_store_that_fails_stops_the_run_and_fails_no_step(hf: Holdfast, flow: Any) -> None:
    """As a failed append does: nothing of it is recorded, and the run can be resumed."""
    STATE["task"] = hf.tasks.create("kelp").id
    real = hf._store.task

    def fails(task: str) -> None:
        raise StoreError("the disk failed")

    hf._store.task = fails  # type: ignore[method-assign,assignment]
    with pytest.raises(StoreError, match="the disk failed"):
        hf.with_id("r").run(flow)
    assert {event.type for event in hf.events("r")} & {"StepFailed", "RunFailed"} == set()
    hf._store.task = real  # type: ignore[method-assign]
    assert hf.resume("r").result() == "kelp"


def test_async_workflows_record_the_coroutines(hf: Holdfast) -> None:
    """`hf.aio.tasks` in an async workflow is a step; also side by side, and in the body of an async step."""

    async def main() -> tuple[list[str], list[str]]:
        async with Holdfast(hf.home, durability="process") as own:
            STATE["hf"] = own
            return await own.aio.with_id("a").run(many), await own.aio.with_id("a").run(many)

    first, again = asyncio.run(main())
    assert first == again and len(set(first)) == 3
    assert len(hf.tasks.list()) == 3
    assert hf.tasks.get(first[2]).status == "completed"


@holdfast.step
async def complete_async(id: str) -> None:
    await STATE["hf"].aio.tasks.complete(id)


@holdfast.workflow
async def many() -> list[str]:
    tasks = STATE["hf"].aio.tasks
    made = await asyncio.gather(*(tasks.create(name) for name in "abc"))
    await complete_async(made[2].id)
    return [task.id for task in made]


@holdfast.workflow
def ends(how: str) -> str:
    if how == "fail":
        raise ValueError("no kelp")
    if how == "wait":
        holdfast.wait_for("go")
    return how


def test_the_end_of_a_run_moves_its_task_in_one_commit(hf: Holdfast) -> None:
    """Completed, failed, cancelled; while it goes, the task is the run's."""
    done, failed, cancelled = (hf.tasks.create(name).id for name in "abc")
    assert hf.with_task(done).run(ends, "ok") == "ok"
    with pytest.raises(ValueError):
        hf.with_task(failed).run(ends, "fail")
    run = hf.with_id("w", task=cancelled).start(ends, "wait")
    with pytest.raises(TaskHeld, match="by run w"):
        hf.tasks.claim(cancelled)
    hf.cancel("w", "enough")
    with pytest.raises(RunCancelled):
        run.result()
    task = hf.tasks.get(done)
    assert (task.status, task.attempts) == ("completed", 1)
    assert (hf.tasks.get(failed).status, hf.tasks.get(failed).error.endswith("ValueError: no kelp")) == (
        "failed",
        True,
    )
    entries = [entry for entry in hf._store.feed(limit=500).entries if entry.stream != "@store"]
    ended = [entry for entry in entries if entry.type in ("RunCompleted", "TaskCompleted")]
    assert [entry.type for entry in ended] == ["RunCompleted", "TaskCompleted"]
    assert ended[1].position == ended[0].position + 1
    assert hf.tasks.ready()[0].id == cancelled
    assert list(hf._store.verify()) == []


def test_a_failed_run_that_is_resumed_completes_its_task(hf: Holdfast) -> None:
    """Also if a person wrote something down about it; a task that another has taken is left alone."""
    first, second = hf.tasks.create("a").id, hf.tasks.create("b").id
    for name, task in (("r", first), ("s", second)):
        STATE["stop"] = True
        with pytest.raises(ValueError):
            hf.with_id(name, task=task).run(stops)
        assert hf.tasks.get(task).status == "failed"
    hf.tasks.note(first, "the disk was full")
    hf.tasks.reopen(second)
    claim = hf.tasks.claim(second)
    assert claim is not None
    hf.resume("r").result()
    hf.resume("s").result()
    assert hf.tasks.get(first).status == "completed"
    assert hf.tasks.get(second).status == "in_progress"
    assert claim.complete().status == "completed"


@holdfast.workflow
def stops() -> None:
    stop_once()


def test_a_run_that_ends_gives_a_task_with_checks_back(hf: Holdfast) -> None:
    """No commit waits for a command; and the run's old claim number is refused from then on."""
    task = hf.tasks.create("a", checks=["true"]).id
    hf.with_task(task).run(ends, "ok")
    assert hf.tasks.get(task).status == "pending"
    with pytest.raises(ClaimLost):
        hf.tasks.complete(task, 1)
    assert hf.tasks.complete(task).status == "completed"
