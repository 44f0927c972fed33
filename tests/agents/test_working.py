"""`work`: the history that an agent is told, scopes, limits, and a kill in the middle of a job."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Retry, approval, command, step, workflow
from holdfast.agents import CommandAgent, Job, Outcome, ScriptAgent, work
from holdfast.agents.backends.history import reason_of
from holdfast.errors import AgentNotFound, BadInput, StepTimeout, WrongColour

ECHO: dict[str, Any] = {"other": {"answer": "did ${prompt}"}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


@pytest.fixture
def hf(home: Path, root: Path) -> Iterator[Holdfast]:
    with Holdfast(home, workspace=root, durability="process") as opened:
        yield opened


class Listening:
    """An agent that answers with what it was told."""

    name = "listening"

    async def work(self, job: Job) -> Outcome:
        return Outcome(text="\n".join(job.history))


@step
def prepare() -> str:
    return "ready"


@step
def broken() -> str:
    raise ValueError("no luck\nat all")


@workflow
async def eventful() -> str:
    await prepare.aio()
    await prepare.aio()
    await command.aio(["true"])
    try:
        await broken.aio()
    except ValueError:
        pass
    await work.aio(ScriptAgent(ECHO), Job(goal="g", prompt="first", kind="plan"))
    await approval.aio("the-plan")
    return (await work.aio(Listening(), Job(goal="g", prompt="p", history=("and so on",)))).text


def test_an_agent_is_told_what_was_done(hf: Holdfast) -> None:
    """What was done, what failed and why, what was decided, by whom and why, and the jobs before; a replay
    tells it the same."""
    run = hf.start(eventful)
    for _ in hf.follow(run.id, after=0):
        pass
    hf.reject(run.id, comment="too slow, use sk-ant-api03-" + "a" * 40, by="ann")
    told = run.result(timeout=20).splitlines()
    assert told == [
        "done: prepare (2 times)",
        "done: true",
        "failed: broken: no luck",
        "done: plan by script: did first",
        told[4],
        "and so on",
    ]
    assert told[4].startswith("rejected: the-plan: too slow, use ")
    assert told[4].endswith(" (by ann)")
    assert "aaaa" not in told[4]
    assert [one.verdict for one in hf.replay(run.id)] == ["matches"]


@workflow
async def in_between() -> str:
    await prepare.aio()
    text = (await work.aio(CommandAgent(["cat"], name="cat"), Job(goal="", prompt="p"))).text
    await broken.aio()
    return text


def test_every_replay_tells_it_the_same(hf: Holdfast) -> None:
    """The history is that of the moment when the job began, however far the run is by now."""
    run = hf.start(in_between)
    with pytest.raises(ValueError, match="no luck"):
        run.result()
    with pytest.raises(ValueError, match="no luck"):  # resumed: the command is asked for with the same prompt
        hf.resume(run.id).result()
    assert [one.verdict for one in hf.replay(run.id)] == ["matches"]
    (log,) = [one.text for one in hf.logs(run.id)]
    assert log.endswith("- done: prepare\n")


@workflow
def with_two_jobs() -> str:
    agent = ScriptAgent(ECHO)
    work(agent, Job(goal="g", prompt="one", kind="plan"))
    return work(ScriptAgent({"other": {"answer": "told ${prompt}"}}), Job(goal="g", prompt="two")).text


def test_a_def_workflow_tells_of_its_child_runs(hf: Holdfast) -> None:
    """Each job is a child run, and the next is told of it."""
    run = hf.start(with_two_jobs)
    assert run.result() == "told two"
    children = {one.name: one.child for one in hf.steps(run.id) if one.child}
    assert set(children) == {"plan", "work"}
    events = [one.data for one in hf.events(run.id)]
    assert "done: plan: did one" in str(events)


@workflow
async def many_jobs(count: int) -> int:
    agent = ScriptAgent(
        {"work": [{"do": [{"write": {"path": "a.txt", "text": "${prompt}"}}], "answer": "x" * 5000}]}
    )
    for number in range(count):
        await work.aio(agent, Job(goal="", prompt=f"{number}"))
    return len((await work.aio(Listening(), Job(goal="", prompt="?", kind="ask"))).text)


def test_a_long_history_is_bounded(hf: Holdfast) -> None:
    """The last 50 lines of 300 characters, and how many are left out."""
    assert hf.run(many_jobs, 60) < 51 * 301 + 100


@workflow
async def at_once() -> list[str]:
    agent = ScriptAgent({"work": [{"answer": "${prompt}"}]})
    jobs = (work.aio(agent, Job(goal="", prompt=str(n))) for n in range(3))
    return [one.text for one in await asyncio.gather(*jobs)]


def test_jobs_at_once_have_scopes_of_their_own(hf: Holdfast) -> None:
    run = hf.start(at_once)
    assert run.result() == ["0", "1", "2"]
    keys = [one.key for one in hf.steps(run.id) if one.name == "snapshot"]
    assert sorted(keys) == [f"work[{n}]/work[1]/snapshot#1" for n in (1, 2, 3)]


@workflow
async def by_name(name: str, role: str = "") -> str:
    return (await work.aio(name, Job(goal="g", prompt="p"), role=role)).text


def test_who_does_a_job_is_recorded(home: Path, root: Path) -> None:
    """Other settings do not change who does a job that was begun."""
    agents = {
        "a": ScriptAgent({"other": {"answer": "a"}}, "a"),
        "b": ScriptAgent({"other": {"answer": "b"}}, "b"),
    }
    asked: list[tuple[str, str]] = []

    class Choosing:
        default = "a"

        def find(self, name: str = "", role: str = "") -> ScriptAgent:
            asked.append((name, role))
            return agents[name or self.default]

    with Holdfast(
        home, workspace=root, durability="process", handlers={"agents": lambda *_: Choosing()}
    ) as hf:
        run = hf.start(by_name, "", "reviewer")
        assert run.result() == "a"
        assert asked == [("", "reviewer"), ("a", "")]
        Choosing.default = "b"
        hf.rewind(run.id, to="work[1]/snapshot#1")
        assert hf.resume(run.id).result() == "a"


@pytest.mark.parametrize("name", ["", "nosuch"])
def test_no_agent_is_configured(hf: Holdfast, name: str) -> None:
    """The error of the run is one line, as runs that failed are reported."""
    with pytest.raises(AgentNotFound, match=r"no agent (is configured|'nosuch'); put one into") as refused:
        hf.run(by_name, name, "developer")
    assert str(refused.value) == " ".join(str(refused.value).split())


@workflow
async def limited(argv: list[str], timeout: float | None, isolate: bool) -> str:
    agent = CommandAgent(argv, name="cli")
    how: dict[str, Any] = {"isolate": "copy"} if isolate else {}
    return (await work.aio(agent, Job(goal="", prompt="p"), timeout=timeout, **how)).text


def test_a_limit_for_the_whole_job(hf: Holdfast) -> None:
    with pytest.raises(StepTimeout):
        hf.run(limited, ["sleep", "600"], 0.5, False)


def test_a_copy_of_the_workspace(hf: Holdfast, root: Path) -> None:
    """The agent works in a copy; what it wrote is in the workspace at the end."""
    code = "import os; open('here', 'w').write(os.getcwd()); print('ok')"
    assert hf.run(limited, [sys.executable, "-c", code], None, True) == "ok"
    assert (root / "here").read_text() != str(root)


@workflow
async def wrongly(what: str) -> str:
    job = Job(goal="", prompt="p")
    script = ScriptAgent(ECHO)
    if what == "colour":
        work(script, job)
    elif what == "retry":
        await work.aio(script, job, retry=Retry(attempts=2))
    elif what == "on":
        await work.aio(script, job, retry=Retry(attempts=2, on=OSError))
    elif what == "kind":
        await work.aio(script, Job(goal="", prompt="p", kind="a b"))
    return ""


@pytest.mark.parametrize(
    ("what", "error", "said"),
    [
        ("colour", WrongColour, "write `await work.aio"),
        ("retry", BadInput, "agent script takes neither retry nor isolate; they are for command agents"),
        ("on", BadInput, "an agent is tried again after any error; leave `on` out"),
        ("kind", BadInput, "cannot be a step's name"),
    ],
)
def test_what_is_refused(hf: Holdfast, what: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        hf.run(wrongly, what)


class Texting:
    name = "texting"

    async def work(self, job: Job) -> str:
        return job.prompt


class Blocking:
    name = "blocking"

    def work(self, job: Job) -> Outcome:
        return Outcome(text=job.prompt)


class Nameless:
    async def work(self, job: Job) -> Outcome:
        return Outcome(text=job.prompt)


class Idle:
    name = "idle"


@dataclass
class Storable:
    """An agent that is data."""

    name: str
    answer: str

    async def work(self, job: Job) -> Outcome:
        return Outcome(text=f"{self.answer} {job.prompt}")


NO_AGENTS: dict[str, tuple[Any, str]] = {
    "text": (
        Texting(),
        "Texting cannot work as an agent: its `work` returned str, and must return an Outcome",
    ),
    "blocking": (Blocking(), "Blocking cannot work as an agent: its `work` is not async; an agent has"),
    "nameless": (
        Nameless(),
        "Nameless is no agent: it has no `name` that is text; an agent has a `name` and",
    ),
    "idle": (Idle(), "Idle is no agent: it has no method `work`; an agent has"),
    "class": (Listening, r"Listening is a class and no agent: pass Listening\(...\); an agent has"),
}


@workflow
async def with_own(which: str) -> str:
    return (await work.aio(NO_AGENTS[which][0], Job(goal="g", prompt="p"))).text


@pytest.mark.parametrize("which", NO_AGENTS)
def test_what_is_no_agent_is_refused(hf: Holdfast, home: Path, which: str) -> None:
    """The sentence names its class and what an agent must have, whether the code or a handler gives it."""
    agent, said = NO_AGENTS[which]
    with pytest.raises(BadInput, match=said):
        hf.run(with_own, which)

    class Giving:
        def find(self, name: str = "", role: str = "") -> Any:
            return agent

    with Holdfast(home, handlers={"agents": lambda *_: Giving()}) as other:
        with pytest.raises(BadInput, match=said):
            other.run(by_name, "any")
        if which not in ("text", "blocking"):  # what its work returns is known when it has worked
            with pytest.raises(BadInput, match=said):
                other.deliver("Do it")
            assert other.tasks.list() == []


@workflow
def with_own_in_def(storable: bool) -> str:
    agent = Storable("storable", "did") if storable else Listening()
    return work(agent, Job(goal="g", prompt="p")).text


def test_an_own_agent_in_a_def_workflow_is_data(hf: Holdfast) -> None:
    """The child run records it. One that is none is refused, with what can be done."""
    assert hf.run(with_own_in_def, True) == "did p"
    with pytest.raises(BadInput) as refused:
        hf.run(with_own_in_def, False)
    said = str(refused.value)
    assert said.startswith("Listening cannot work in a `def` workflow, whose child run records the agent: ")
    assert "await work.aio(...)" in said and "a dataclass" in said and "@step" not in said


def test_outside_a_run() -> None:
    """No agent works unrecorded."""
    with pytest.raises(BadInput, match="call it from a workflow that a run executes"):
        work(ScriptAgent(ECHO), Job(goal="", prompt=""))


@pytest.mark.parametrize(
    ("prompt", "history", "reason"),
    [
        ("do it", (), ""),
        ("Rejected: too slow", (), "too slow"),
        ("x\nYour last plan was rejected: too slow \n\nMake another.", (), "too slow"),
        ("What is there now was sent back: a test fails\nx", ("rejected: plan: other",), "a test fails"),
        ("do it", ("rejected: the-plan: too slow (by ann)",), "the-plan: too slow (by ann)"),
        ("do it", ("rejected: the-plan: too slow (by ann)", "approved: the-plan"), ""),
        ("explain why `rejected` was renamed: it is unclear", (), ""),
    ],
)
def test_why_work_was_rejected(prompt: str, history: tuple[str, ...], reason: str) -> None:
    assert reason_of(Job(goal="", prompt=prompt, history=history)) == reason
