"""Script agents: rounds, rejections, tools as steps, and every fault of a script at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, approval, workflow
from holdfast.agents import Job, ScriptAgent, work
from holdfast.errors import AgentFailed, BadInput, ToolFailed

SCRIPT: dict[str, Any] = {
    "plan": {"answer": "1. ${goal}"},
    "implement": {
        "rounds": [
            {"do": [{"write": {"path": "a.txt", "text": "round ${round}\n"}}], "answer": "wrote a.txt"},
            {
                "do": [
                    {"edit": {"path": "a.txt", "old": "round", "new": "Round"}},
                    {"run": {"argv": ["cat", "a.txt"]}},
                ],
                "answer": "edited a.txt",
            },
        ],
        "on_rejection": {
            "do": [{"write": {"path": "a.txt", "text": "${reason}"}}],
            "answer": "because: ${reason}",
        },
    },
    "other": [{"answer": "nothing to do in round ${round}"}],
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


@pytest.fixture
def hf(home: Path, root: Path) -> Iterator[Holdfast]:
    with Holdfast(home, workspace=root, durability="process") as opened:
        yield opened


def job(kind: str, prompt: str = "do it") -> Job:
    return Job(goal="add a file", prompt=prompt, kind=kind)


@workflow
async def rounds(kinds: list[str]) -> list[str]:
    agent = ScriptAgent(SCRIPT)
    return [(await work.aio(agent, job(kind))).text for kind in kinds]


@workflow
def rounds_def(kinds: list[str]) -> list[str]:
    agent = ScriptAgent(SCRIPT)
    return [work(agent, job(kind)).text for kind in kinds]


@workflow
async def rounds_without_work(kinds: list[str]) -> list[str]:
    agent = ScriptAgent(SCRIPT)
    return [(await agent.work(job(kind))).text for kind in kinds]


@pytest.mark.parametrize("code", [rounds, rounds_def, rounds_without_work], ids=["async", "def", "bare"])
def test_rounds_are_counted_for_each_kind(hf: Holdfast, root: Path, code: Any) -> None:
    """The nth job of a kind takes the nth round, and the last one from then on; a replay takes the same."""
    run = hf.start(code, ["plan", "implement", "implement", "review", "plan", "verify", "review"])
    assert run.result() == [
        "1. add a file", "wrote a.txt", "edited a.txt", "nothing to do in round 1", "1. add a file",
        "nothing to do in round 1", "nothing to do in round 2",
    ]  # fmt: skip
    assert (root / "a.txt").read_text() == "Round 1\n"
    assert [one.verdict for one in hf.replay(run.id)] == ["matches"]


@workflow
async def until_approved(prompts: bool) -> list[str]:
    agent = ScriptAgent(SCRIPT)
    texts: list[str] = []
    prompt = "do it"
    while True:
        texts.append((await work.aio(agent, job("implement", prompt))).text)
        decision = await approval.aio("the-change")
        if decision.outcome == "approved":
            return texts
        if prompts:
            prompt = f"What is there now was sent back: {decision.comment}\n\nCorrect it."


def until_it_waits(hf: Holdfast) -> None:
    for _ in hf.follow("x", after=0):
        pass


@pytest.mark.parametrize("prompts", [True, False], ids=["prompt", "history"])
def test_a_rejection_has_a_round_of_its_own(hf: Holdfast, root: Path, prompts: bool) -> None:
    """Its reason is in the prompt, or is the last decision in the history of the run."""
    run = hf.with_id("x").start(until_approved, prompts)
    for comment in ("too short", "too long"):
        until_it_waits(hf)
        hf.reject("x", comment=comment, by="ann")
    until_it_waits(hf)
    hf.approve("x")
    said = [f"{one}" if prompts else f"the-change: {one} (by ann)" for one in ("too short", "too long")]
    assert run.result(timeout=20) == ["wrote a.txt", *(f"because: {one}" for one in said)]
    assert (root / "a.txt").read_text() == said[-1]


def test_each_action_is_a_step(hf: Holdfast) -> None:
    """In the scope of its job, by the name of its tool."""
    run = hf.start(rounds, ["implement", "implement"])
    run.result()
    assert [(one.key, one.effect) for one in hf.steps(run.id) if one.name in ("write", "edit", "cat")] == [
        ("implement[1]/write#1", "workspace"),
        ("implement[2]/edit#1", "workspace"),
        ("implement[2]/cat#1", "workspace"),
    ]


@workflow
async def given_script(script: dict[str, Any]) -> str:
    return (await work.aio(ScriptAgent(script), job("implement"))).text


def test_a_job_that_fails(hf: Holdfast) -> None:
    """By `fail`, by a tool that cannot do what it is asked for, or because there is nothing for the job."""
    with pytest.raises(AgentFailed, match="agent script failed: no idea how to add a file"):
        hf.run(given_script, {"implement": {"fail": "no idea how to ${goal}"}})
    with pytest.raises(ToolFailed, match=r"there is no 'b.txt' in the workspace"):
        hf.run(given_script, {"implement": {"do": [{"read": {"path": "b.txt"}}]}})
    with pytest.raises(
        AgentFailed, match="its script has nothing for 'implement' jobs, only for plan, review"
    ):
        hf.run(given_script, {"plan": {"answer": "a"}, "review": {"answer": "b"}})


def test_every_fault_of_a_script_at_once() -> None:
    """With its place, and the nearest name."""
    with pytest.raises(BadInput) as refused:
        ScriptAgent(
            {
                "plan": {"answr": "x"},
                "implement": {
                    "rounds": [{"do": [{"wirte": {}}, {"write": {"path": "a"}}, "x"]}, 7],
                    "on_rejction": {},
                },
                "review": "fine",
                "verify": [{"answer": 3}, {"answer": "${gaol}"}, {"fail": "${"}, {"do": {}}],
            }
        )
    assert str(refused.value).splitlines() == [
        "the script of script is no script of an agent:",
        "  plan[1]: there is no key `answr`; did you mean `answer`?",
        "  implement: there is no key `on_rejction`; did you mean `on_rejection`?",
        "  implement.rounds[1].do[1]: there is no tool `wirte`; did you mean `write`?",
        "  implement.rounds[1].do[2]: write needs 'text': the whole text of the file",
        "  implement.rounds[1].do[3]: one tool with its arguments, such as {read: {path: a.txt}}",
        "  implement.rounds[2]: a round is a mapping with `do`, `answer` or `fail`",
        "  review: a list of rounds, each with `do`, `answer` or `fail`",
        "  verify[1].answer: text, not int",
        "  verify[2].answer: there is no `gaol` here; did you mean `goal`?",
        "  verify[3].fail: `${` is not closed; write `$${` for the characters themselves",
        "  verify[4].do: a list of actions, such as [{write: {path: a.txt, text: a}}]",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (None, "there is no script .*script.yaml"),
        ("plan: [", r"script\.yaml:1:8: this is no YAML"),
        ("plan: {answer: a}\nplan: {answer: b}", r"script\.yaml:2:1: the key `plan` stands twice"),
        ("- 1", "a script is a mapping of kinds of jobs"),
        (b"\xff", "cannot be read"),
    ],
)
def test_a_file_that_is_no_script(tmp_path: Path, text: str | bytes | None, fault: str) -> None:
    path = tmp_path / "script.yaml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadInput, match=fault):
        ScriptAgent.read(path)


def test_a_file(tmp_path: Path, hf: Holdfast) -> None:
    """YAML, or JSON, which is YAML, too; the agent has the whole script."""
    path = tmp_path / "script.json"
    path.write_text('{"implement": [{"answer": "${goal}!"}]}')
    agent = ScriptAgent.read(path, name="mine")
    path.unlink()
    assert (agent.name, agent.plan) == ("mine", {"implement": [{"answer": "${goal}!"}]})
    assert hf.run(given_script, agent.plan) == "add a file!"
