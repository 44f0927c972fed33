"""Programs with agents as users write them, each killed with SIGKILL right after one of its commits, and
started again.

`lives` says what each leaves behind after a life that nobody disturbed, and after one that was killed and
another that continued it: its result, its runs with the tokens they used, its files, and how often each
request was sent.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent

from holdfast import (
    NOT_DONE,
    Holdfast,
    RunPaused,
    checkpoint,
    parallel,
    plans,
    stage,
    step,
    workflow,
)
from holdfast.agents.llm import HoldfastDurability, approvals
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing import FakeProvider, ToolCall

KILLS = 2
MODEL = "openai-chat:gpt-5"
OTHER = "anthropic:claude-sonnet-4-5"

hf: Holdfast


def effect(text: str) -> None:
    """Something that the world sees."""
    with Path("effects.txt").open("a") as file:
        file.write(text + "\n")


# An agent with a tool, whose answer has a type


class Catch(BaseModel):
    species: str
    kilograms: float


weigher = Agent(MODEL, name="weigher", output_type=Catch, capabilities=[HoldfastDurability()])


@weigher.tool_plain
def weigh(species: str) -> float:
    """Weigh what was caught of a species."""
    effect(f"weighed {species}")
    return 3.5


@workflow
async def structured(species: str) -> Catch:
    return (await weigher.run(f"How much {species}?")).output


def run_structured() -> Any:
    found = hf.with_id("r").run(structured, "kelp")
    assert isinstance(found, Catch), found
    return found.model_dump()


# An agent that asks another one

expert = Agent(OTHER, name="expert", capabilities=[HoldfastDurability()])
clerk = Agent(MODEL, name="clerk", capabilities=[HoldfastDurability()])


@clerk.tool_plain(metadata={"holdfast": False})
async def ask_expert(question: str) -> str:
    """Ask the expert."""
    return (await expert.run(question)).output


@workflow
async def handover(question: str) -> list[str]:
    asked = (await clerk.run(question)).output
    final = await expert.run(f"Is this right? {asked}")
    return [asked, final.output, str(len(final.all_messages()))]


def run_handover() -> Any:
    return hf.with_id("r").run(handover, "How fast does kelp grow?")


# An agent in a `def` workflow, between steps


@step
def read_notes(topic: str) -> str:
    effect(f"read {topic}")
    return f"notes on {topic}"


def is_published(text: str) -> Any:
    """Whether a step that was cut off has happened."""
    path = Path("effects.txt")
    found = path.exists() and f"published {text}" in path.read_text().splitlines()
    return f"published {len(text)}" if found else NOT_DONE


@step(effect="once", verify=is_published)
def publish(text: str) -> str:
    effect(f"published {text}")
    return f"published {len(text)}"


plain = Agent(MODEL, name="plain", capabilities=[HoldfastDurability()])


@workflow
async def write(notes: str) -> str:
    return (await plain.run(f"Write on {notes}")).output


@workflow
def report(topics: list[str]) -> list[str]:
    notes = parallel(read_notes, topics)
    return [publish(f"{note}: {write.sync(note)}") for note in notes]


def run_report() -> Any:
    return hf.with_id("r").run(report, ["kelp", "eel"])


# Five agents at once, with a budget that does not pay for all of them

priced = Agent(
    MODEL,
    name="priced",
    capabilities=[HoldfastDurability(prices={"gpt-5": ("100", "100")}, reserve_usd="0.02")],
)


@workflow
async def fan(topics: list[str]) -> list[str]:
    answers = await asyncio.gather(*(priced.run(f"On {topic}") for topic in topics))
    return [one.output for one in answers]


def run_fan() -> Any:
    hf.budgets.set("sea", usd="0.08")
    try:
        return hf.with_id("r").with_budget("sea").run(fan, ["kelp", "eel", "crab", "ray", "ling"])
    except RunPaused:  # what was cut off is charged as it was reserved
        hf.budgets.raise_("sea", usd="0.15")
        return hf.resume("r").result()


# A TaskGroup in which one fails


@step
async def probe(n: int) -> int:
    if n == 1:
        raise ValueError("one is wrong")
    return n


@workflow
async def group(topics: list[str]) -> list[str]:
    found: list[str] = []
    try:
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(plain.run(topics[0]))
            tasks.create_task(plain.run(topics[1]))
            await first
            tasks.create_task(probe(1))
    except* ValueError as failed:
        found += [str(one) for one in failed.exceptions]
    left = asyncio.create_task(plain.run(f"What is left of {topics[1]}?"))
    return [*found, (await left).output]


def run_group() -> Any:
    return hf.with_id("r").run(group, ["kelp", "eel"])


# Plan, act, check, at most so often


class Verdict(BaseModel):
    good: bool
    why: str = ""


checker = Agent(OTHER, name="checker", output_type=Verdict, capabilities=[HoldfastDurability()])


@step
async def act(plan: str, round: int) -> str:
    effect(f"act {round}")
    return f"{plan} {round}"


@workflow
async def loop(goal: str, most: int) -> dict[str, Any]:
    state: dict[str, Any] = {"goal": goal, "node": "plan", "round": 0, "drafts": []}
    history = None
    while state["node"] != "end":
        stage(state["node"])
        match state["node"]:
            case "plan":
                answer = await plain.run(f"Plan {goal}, round {state['round']}", message_history=history)
                history = answer.all_messages()
                state |= {"plan": answer.output, "node": "act", "round": state["round"] + 1}
            case "act":
                state["drafts"].append(await act(state["plan"], state["round"]))
                state["node"] = "check"
            case "check":
                verdict = (await checker.run(f"Check {state['drafts'][-1]}")).output
                state["node"] = "end" if verdict.good or state["round"] >= most else "plan"
                await checkpoint.aio(f"round-{state['round']}")
    return state


def run_loop() -> Any:
    return hf.with_id("r").run(loop, "a harbour", 3)


# A tool that a person must allow

careful = Agent(MODEL, name="careful", capabilities=[HoldfastDurability(), approvals()])


@careful.tool_plain(requires_approval=True)
def remove(path: str) -> str:
    """Remove a file."""
    effect(f"removed {path}")
    return f"removed {path}"


@workflow
async def tidy(goal: str) -> str:
    return (await careful.run(goal)).output


def run_tidy() -> Any:
    run = hf.with_id("r").start(tidy, "tidy up")
    while not run.done():
        run.rested.wait(60)
        for gate in hf.gates("r"):
            if gate.key.endswith("#1"):
                hf.approve("r", gate.key)
            else:
                hf.reject("r", gate.key, comment="keep it")
    return run.result()


# A plan with agents, foreach and an approval

HARVEST = """name: harvest
steps:
  - id: list
    run: ["printf", "kelp\\\\nwrack\\\\n"]
  - id: describe
    foreach: list.stdout.lines
    agent: "Describe ${item}"
    by: scripted
  - id: ok
    approve: "Ship?"
    show: describe
  - id: ship
    needs: [ok]
    run: ["sh", "-c", "echo shipped >> effects.txt"]
    effect: once
"""
SCRIPTED = """work:
  rounds:
    - do:
        - write: {path: "first.md", text: "${prompt}\\n"}
      answer: "first: ${prompt}"
    - do:
        - write: {path: "second.md", text: "${prompt}\\n"}
      answer: "second: ${prompt}"
"""
TOML = '[agent.scripted]\nbackend = "script"\nfile = "scripted.yaml"\n'


def run_harvest() -> Any:
    Path("harvest.yaml").write_text(HARVEST)
    run = hf.with_id("r").start(plans.run_plan, plans.read("harvest.yaml"), {})
    while not run.done():
        run.rested.wait(60)
        for gate in hf.gates("r"):
            hf.approve("r", gate.key)
    found = run.result()
    return {"describe": [one["text"] for one in found["describe"]], "ok": found["ok"]["outcome"]}


# A script that cron starts, each day a run


@workflow
async def daily(day: str) -> str:
    answer = await plain.run(f"What happened on {day}?")
    return await publish.aio(f"{day}: {answer.output}")


def run_daily() -> Any:
    return [hf.with_id(f"daily-{day}").run(daily, day) for day in ("2026-11-17", "2026-11-18")]


# Workers that claim tasks, and an agent that does each


@workflow
async def handle(name: str) -> str:
    return (await plain.run(f"Do {name}")).output


def run_workers() -> Any:
    known = {one.name for one in hf.tasks.list()}
    for n in range(4):
        if f"job {n}" not in known:
            hf.tasks.create(f"job {n}")

    def worker() -> int:
        done = 0
        while claim := hf.tasks.claim(holder=os.getpid()):
            with claim:
                answer = hf.with_id(f"task-{claim.task.id}").run(handle, claim.task.name)
                claim.complete(answer)
                done += 1
        return done

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: worker(), range(2)))
    return sorted((one.name, one.status, one.summary) for one in hf.tasks.list())


PROGRAMS: dict[str, Callable[[], Any]] = {
    name.removeprefix("run_"): value for name, value in list(globals().items()) if name.startswith("run_")
}
DONE = "a last word"
SCRIPTS: dict[str, tuple[list[Any], list[Any]]] = {  # the turns of the two providers
    "structured": (
        [
            ToolCall("weigh", {"species": "kelp"}),
            ToolCall("final_result", {"species": "kelp", "kilograms": 3.5}),
        ],
        [DONE],
    ),
    "handover": ([ToolCall("ask_expert", {"question": "kelp?"}), "half a metre a day"], ["half a metre"]),
    "loop": (["one", "two", "three", "four"], [ToolCall("final_result", {"good": False, "why": "short"})]),
    "tidy": ([[ToolCall("remove", {"path": "a"}), ToolCall("remove", {"path": "b"})], "tidy"], [DONE]),
}
FILES = {"harvest": {"holdfast.toml": TOML, "scripted.yaml": SCRIPTED}}


def state(own: Holdfast) -> dict[str, Any]:
    """Its runs, with the tokens of each as their steps have measured them."""
    runs = [own.get(one.id) for one in own.runs()]
    return {
        "runs": sorted(
            (
                one.workflow,
                one.status,
                sum(used.input_tokens + used.output_tokens for step in one.steps for used in step.measured),
            )
            for one in runs
        ),
        "files": {
            str(path): sorted(published(path.read_text().splitlines()))
            for path in sorted(Path().rglob("*"))
            if path.suffix in (".txt", ".md") and path.parts[0] not in (".holdfast", "home")
        },
    }


def published(lines: list[str]) -> list[str]:
    """The lines of a file; of those that an idempotent step may write again, one each."""
    return [one for n, one in enumerate(lines) if one.startswith("published") or one not in lines[:n]]


def live(program: Callable[[], Any], directory: Path, kill_at: int) -> None:
    """One life of a program: to its end, or until it is killed after so many commits."""
    global hf
    commits = 0

    def committed(*_: Any) -> None:
        nonlocal commits
        commits += 1
        if commits == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    append, append_soon, command_all = SqliteStore.append, SqliteStore.append_soon, SqliteStore.command_all

    def counted(self: Any, item: Any) -> None:
        append(self, item)
        committed()

    def counted_soon(self: Any, item: Any, done: Any) -> None:
        append_soon(self, item, lambda item: (committed(), done(item)))

    def counted_all(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = command_all(self, *args, **kwargs)
        committed()
        return found

    for name, method in (
        ("append", counted),
        ("append_soon", counted_soon),
        ("command_all", counted_all),
    ):
        setattr(SqliteStore, name, method)
    os.chdir(directory)
    urls = json.loads(os.environ["PROVIDERS"])
    os.environ["OPENAI_BASE_URL"] = f"{urls[0]}/{directory.name}/v1"
    os.environ["ANTHROPIC_BASE_URL"] = f"{urls[1]}/{directory.name}"
    os.environ["HOLDFAST_TRUST"] = str(directory)
    home = directory / "home"
    with Holdfast(home, durability="process", workspace=directory) as hf:
        result = program()
        found = {"result": result, "commits": commits, **state(hf)}
        Path("outcome").write_text(json.dumps(found))


def outcome(program: Callable[[], Any], directory: Path, kill_at: int) -> dict[str, Any]:
    """What the program leaves behind after it was killed once, or never with `kill_at=0`."""
    directory.mkdir()
    name = program.__name__.removeprefix("run_")
    for file, text in FILES.get(name, {}).items():
        (directory / file).write_text(text)
    for at in (kill_at, 0) if kill_at else (0,):
        child = os.fork()
        if not child:
            try:
                live(program, directory, at)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(0)
        os.waitpid(child, 0)
    found: dict[str, Any] = json.loads((directory / "outcome").read_text())
    return found


def main(name: str, directory: Path, kills: int = KILLS) -> dict[str, Any]:
    for provider in ("openai", "anthropic") if name in ("handover", "loop") else ("openai",):
        import_module(f"pydantic_ai.models.{provider}")  # once, and not in each life
    whole = outcome(PROGRAMS[name], directory / "whole", 0)
    commits = whole.pop("commits")
    moments = random.Random(name).sample(range(1, commits + 1), min(kills, commits))
    killed = {at: outcome(PROGRAMS[name], directory / f"killed{at}", at) for at in moments}
    for one in killed.values():
        del one["commits"]
    return {"whole": whole, "killed": killed}


def lives(name: str, directory: Path, kills: int = KILLS) -> dict[str, Any]:
    """What it left behind, and the requests that were sent, both by life."""
    with ExitStack() as stack:
        scripts = SCRIPTS.get(name, ([DONE], [DONE]))
        providers = [stack.enter_context(FakeProvider(one)) for one in scripts]
        env = {**os.environ, "PROVIDERS": json.dumps([one.url for one in providers])}
        env |= {"OPENAI_API_KEY": "any", "ANTHROPIC_API_KEY": "any"}
        words = [sys.executable, "-m", "tests.acceptance.agent_programs", name, str(directory), str(kills)]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=300, env=env)
        found: dict[str, Any] = json.loads(done.stdout)
        found["requests"] = requests = {}
        for request in (one for provider in providers for one in provider.requests):
            sent = requests.setdefault(request.path.split("/")[1], Counter())
            sent[request.idempotency_key] += 1
        return found


if __name__ == "__main__":
    import tests.acceptance.agent_programs as own  # its workflows are found under this name

    print(json.dumps(own.main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
