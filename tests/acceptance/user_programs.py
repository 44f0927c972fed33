"""Programs as users write them, each killed with SIGKILL right after one of its commits to the tracker, and
started again: `python -m tests.acceptance.user_programs NAME DIRECTORY`.

Each prints, as JSON, its result and the state of the store after a run that nobody disturbed, and after one
that was killed, for some of its commits.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from holdfast import Holdfast, approval, checkpoint, parallel, plans, stage, step, workflow
from holdfast.errors import RunWaiting
from holdfast.store.sqlite.store import SqliteStore

KILLS = 2

hf: Holdfast


@step
def think(about: str) -> str:
    return f"thought about {about}"


@step
async def athink(about: str) -> str:
    await asyncio.sleep(0)
    return f"thought about {about}"


# A queue inside a workflow


@workflow
def queue(names: list[str]) -> list[str]:
    for name in names:
        hf.tasks.create(name, labels=["queue"])
    done = []
    while claim := hf.tasks.claim():
        with claim:
            thought = think(claim.task.name)
            hf.memory.remember(thought, scope=f"task:{claim.task.id}")
            hf.tasks.note(claim.task.id, thought)
            claim.complete(thought)
            done.append(claim.task.name)
    return done


def run_queue() -> Any:
    return hf.with_id("r").run(queue, ["kelp", "wrack", "dulse"])


# Workers of an async workflow, side by side


async def worker() -> list[str]:
    done = []
    while claim := await hf.aio.tasks.claim():
        async with claim:
            thought = await athink(claim.task.name)
            await hf.aio.memory.remember(thought, kind="pattern")
            await claim.aio.complete(thought)
            done.append(thought)
    return done


@workflow
async def pool(count: int) -> list[str]:
    await asyncio.gather(*(hf.aio.tasks.create(f"job {n}", priority=n % 3) for n in range(count)))
    done = await asyncio.gather(*(worker() for _ in range(3)))
    return sorted(one for some in done for one in some)


def run_pool() -> Any:
    async def main() -> Any:
        return await hf.with_id("r").start(pool, 5)

    return asyncio.run(main())


# A graph of nodes that remember


@workflow
def graph(topic: str) -> list[str]:
    acts: list[str] = []
    node = "plan"
    while node != "end":
        stage(node)
        if node == "plan":
            hf.memory.remember(f"plan for {topic}", kind="decision")
            node = "act"
        elif node == "act":
            known = hf.memory.recall()
            acts.append(think(f"{topic} with {len(known)} memories"))
            node = "review"
        else:
            hf.memory.remember(f"act {len(acts)} is good", source="review")
            node = "act" if len(acts) < 3 else "end"
        checkpoint(f"{len(acts)}-{node}")
    return acts


def run_graph() -> Any:
    return hf.with_id("r").run(graph, "kelp")


# A loop of tools, each a step


@step
def add_task(name: str) -> str:
    return hf.tasks.create(name).name


@step
def learn(text: str) -> str:
    return hf.memory.remember(text).text


@step
def finish(name: str) -> str:
    (found,) = [task for task in hf.tasks.list() if task.name == name]
    return hf.tasks.complete(found.id, summary="by tool").status


TOOLS: dict[str, Callable[[str], str]] = {"add": add_task, "learn": learn, "finish": finish}
CALLS = [("add", "one"), ("learn", "one is hard"), ("add", "two"), ("finish", "one"), ("finish", "two")]


@workflow
def agent() -> list[str]:
    return [TOOLS[tool](argument) for tool, argument in CALLS]


def run_agent() -> Any:
    return hf.with_id("r").run(agent)


# A run for a task, whose children find others


@workflow
def dig(n: int) -> int:
    hf.tasks.create(f"found {n}")
    return n * n


@workflow
def solve() -> int:
    return sum(parallel(dig, range(3)))


def run_solve() -> Any:
    found = hf.tasks.list()
    task = next((one for one in found if one.name == "solve"), None) or hf.tasks.create("solve", priority=0)
    return hf.with_id("r").with_task(task.id).run(solve)


# A rewind of what was done, and the same again


@workflow
def rewound() -> int:
    first = hf.tasks.create("before")
    hf.memory.remember("before")
    checkpoint("mid")
    hf.tasks.complete(first.id, summary="done")
    second = hf.tasks.claim(hf.tasks.create("after").id)
    assert second is not None
    second.complete()
    hf.memory.remember("after", kind="decision")
    return len(hf.memory.recall())


def run_rewound() -> Any:
    hf.with_id("r").run(rewound)
    if not hf.operations("r"):
        hf.rewind("r", to="mid")
    return hf.resume("r").result()


# A nightly plan whose steps open the store of their run


def weigh(name: str) -> str:
    with Holdfast() as own:
        own.tasks.complete(own.tasks.create(f"weigh {name}").id, summary=name)
    return name.upper()


@workflow
def note(weighed: list[str]) -> str:
    with Holdfast() as own:
        own.memory.remember(f"weighed {', '.join(weighed)}")
        return f"{len(own.memory.recall('weighed'))} memory"


NIGHTLY = """
name: nightly
steps:
  - {id: names, run: ["printf", "kelp\\nwrack\\n"], effect: idempotent}
  - id: weigh
    foreach: names.stdout.lines
    python: tests.acceptance.user_programs:weigh
    with: {name: "${item}"}
  - {id: note, python: "tests.acceptance.user_programs:note", with: {weighed: "${weigh}"}}
  - {id: ok, needs: [note], approve: "Ship?"}
"""


def run_nightly() -> Any:
    Path("nightly.yaml").write_text(NIGHTLY)
    run = hf.with_id("r").start(plans.run_plan, plans.read("nightly.yaml"), {})
    for event in hf.follow("r"):
        if event.type == "GateOpened":
            break
    if hf.gates("r"):
        hf.approve("r")
    result = run.result()
    return {name: result[name] for name in ("weigh", "note")} | {"ok": result["ok"]["outcome"]}


# Outside of every run: threads that work through a board


def work_through_board() -> None:
    while claim := hf.tasks.claim(holder=os.getpid()):
        with claim:
            claim.complete(f"done {claim.task.name}")


def run_board() -> Any:
    if not hf.tasks.list():
        lines = [json.dumps({"name": f"job {n}", "priority": n % 3}) for n in range(6)]
        Path("board.jsonl").write_text("\n".join(lines))
        hf.tasks.import_("board.jsonl")
    with ThreadPoolExecutor(2) as threads:
        for one in [threads.submit(work_through_board) for _ in range(2)]:
            one.result()
    return len(hf.tasks.list(status="completed"))


# An approval inside the block of a claim


@workflow
def careful() -> str:
    hf.tasks.create("risky")
    claim = hf.tasks.claim()
    assert claim is not None
    with claim:
        decision = approval("do it?")
        claim.complete(decision.outcome)
    return decision.outcome


def run_careful() -> Any:
    run = hf.with_id("r").start(careful)
    for event in hf.follow("r"):
        if event.type == "GateOpened":
            break
    if hf.gates("r"):
        hf.approve("r")
    return run.result()


# As with Celery: a group of jobs by label, and a callback when all of them are done


@step
def add(job: str) -> int:
    claim = hf.tasks.claim(job)
    if claim is None:
        raise LookupError(job)
    total = sum(claim.task.meta["numbers"])
    claim.complete(str(total), evidence={"total": total})
    return total


@workflow
def chord(numbers: list[list[int]]) -> int:
    jobs = [hf.tasks.create(f"add {some}", labels=["add"], meta={"numbers": some}) for some in numbers]
    total = hf.tasks.create("add all", needs=[job.id for job in jobs], labels=["callback"])
    assert hf.tasks.claim(label="callback") is None, "its jobs are open"
    sums = parallel(add, [job.id for job in jobs])
    callback = hf.tasks.claim(label="callback")
    assert callback is not None and callback.task.id == total.id
    with callback:
        callback.complete(str(sum(sums)))
    return sum(sums)


def run_chord() -> Any:
    return hf.with_id("r").run(chord, [[1, 2], [3], [4, 5, 6]])


# As with LangGraph: nodes and edges over a state, an interrupt for a person, memory that is revised


def draft(state: dict[str, Any]) -> dict[str, Any]:
    known = [one.text for one in hf.memory.recall(kind="decision")]
    return {**state, "draft": think(f"{state['topic']}, {', '.join(known) or 'freely'}")}


def review(state: dict[str, Any]) -> dict[str, Any]:
    decision = approval(f"publish round {state['round']}?", show=state["draft"])
    if decision.outcome == "approved":
        return {**state, "next": "publish"}
    before = [one.id for one in hf.memory.recall(kind="decision")]
    hf.memory.remember(decision.comment, kind="decision", supersedes=before[0] if before else None)
    return {**state, "next": "draft", "round": state["round"] + 1}


def publish(state: dict[str, Any]) -> dict[str, Any]:
    task = hf.tasks.create(f"announce {state['topic']}", body=state["draft"])
    hf.tasks.note(task.id, state["draft"], "decision")
    return {**state, "next": "end"}


NODES = {"draft": draft, "review": review, "publish": publish}
EDGES = {"draft": "review"}


@workflow
def edges(topic: str) -> dict[str, Any]:
    state: dict[str, Any] = {"topic": topic, "round": 1, "next": "draft"}
    while (node := state["next"]) != "end":
        stage(node)
        state = {**state, "next": EDGES.get(node, "end")}
        state = NODES[node](state)
        checkpoint(f"{node}-{state['round']}", data=state)
    return state


def run_edges() -> Any:
    run = hf.with_id("r").start(edges, "kelp")
    while True:
        try:
            return run.result(timeout=0.05)
        except RunWaiting:
            for gate in hf.gates("r"):
                if "round 3" in gate.title:
                    hf.approve("r", gate.key)
                else:
                    hf.reject("r", gate.key, comment=f"not as in round {gate.title.split()[2][:-1]}")


# As with asyncio: a producer, a bounded queue and consumers in a task group


@workflow
async def stream(count: int) -> list[str]:
    queue: asyncio.Queue[str | None] = asyncio.Queue(2)
    done: list[str] = []

    async def produce() -> None:
        before: list[str] = []
        for n in range(count):
            task = await hf.aio.tasks.create(f"part {n}", needs=before)
            before = [task.id]
            await queue.put(task.id)
        await queue.put(None)

    async def consume() -> None:
        while (id := await queue.get()) is not None:
            claim = await hf.aio.tasks.claim(id)
            assert claim is not None
            async with claim:
                thought = await athink(claim.task.name)
                await hf.aio.tasks.note(id, thought, "log")
                await claim.aio.complete(thought)
            done.append(claim.task.name)
        await hf.aio.memory.remember(f"{len(done)} parts are done", kind="pattern")

    async with asyncio.TaskGroup() as group:
        group.create_task(produce())
        group.create_task(consume())
    return done


def run_stream() -> Any:
    async def main() -> Any:
        return await hf.with_id("r").start(stream, 4)

    return asyncio.run(main())


# A checklist, run for a task: a person is asked in the middle, the end completes the task


RELEASE = """# Release

- [x] Choose a number
- [ ] Build it: `sh -c 'echo built >> built.txt'`
- [ ] Shall it be released?
- [ ] Publish it: `sh -c 'echo published >> published.txt'`
"""


def run_release() -> Any:
    Path("release.md").write_text(RELEASE)
    tasks = {one.name: one for one in hf.tasks.list()}
    build = tasks.get("build tools") or hf.tasks.create("build tools")
    task = tasks.get("release") or hf.tasks.create("release", needs=[build.id], priority=0)
    if hf.tasks.get(build.id).status != "completed":
        hf.tasks.complete(build.id, summary="there")
    run = hf.with_id("r").with_task(task.id).start(plans.run_plan, plans.read("release.md"), {})
    if not run.done():
        assert run.rested.wait(60)
    for gate in hf.gates("r"):
        hf.approve("r", gate.key)
    steps = sorted(run.result())
    if not hf.memory.recall("released"):
        hf.memory.remember("it is released", kind="decision")
    return [steps, Path("published.txt").read_text()]


PROGRAMS: dict[str, Callable[[], Any]] = {
    name.removeprefix("run_"): value for name, value in list(globals().items()) if name.startswith("run_")
}


def state() -> dict[str, Any]:
    details = [hf.tasks.show(one.id) for one in hf.tasks.list()]
    return {
        "tasks": sorted(
            (one.task.name, one.task.status, one.task.summary, len(one.notes), one.task.claim is not None)
            for one in details
        ),
        "memory": sorted((one.text, one.kind, one.scope.partition(":")[0]) for one in hf.memory.list()),
        "runs": sorted(one.status for one in hf.runs()),
    }


def live(program: Callable[[], Any], directory: Path, kill_at: int) -> None:
    """One life of a program: to its end, or until it is killed after so many commits."""
    global hf
    commits = 0

    def counted(command: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal commits
            result = command(*args, **kwargs)
            commits += 1
            if commits == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    setattr(SqliteStore, "command_all", counted(SqliteStore.command_all))  # noqa: B010
    os.chdir(directory)
    with Holdfast(directory / "home", durability="process") as hf:
        result = program()
        Path("outcome").write_text(json.dumps({"result": result, "commits": commits, **state()}))


def outcome(program: Callable[[], Any], directory: Path, kill_at: int) -> dict[str, Any]:
    """What the program leaves behind after it was killed once, or never with `kill_at=0`."""
    directory.mkdir()
    for at in (kill_at, 0) if kill_at else (0,):
        child = os.fork()
        if not child:
            try:
                live(program, directory, at)
            finally:
                sys.stderr.flush()
                os._exit(0)
        os.waitpid(child, 0)
    found: dict[str, Any] = json.loads((directory / "outcome").read_text())
    return found


def main(name: str, directory: Path, kills: int = KILLS) -> dict[str, Any]:
    whole = outcome(PROGRAMS[name], directory / "whole", 0)
    commits = whole.pop("commits")
    moments = random.Random(name).sample(range(1, commits + 1), min(kills, commits))
    killed = {at: outcome(PROGRAMS[name], directory / f"killed{at}", at) for at in moments}
    for one in killed.values():
        del one["commits"]
    return {"whole": whole, "killed": killed}


if __name__ == "__main__":
    import tests.acceptance.user_programs as own  # its workflows are found under this name

    found = own.main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else KILLS)
    print(json.dumps(found))
