"""`LlmAgent`: jobs in a workspace, with holdfast's own tools."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Measured, Retry, RunPaused, workflow
from holdfast.agents.llm import LlmAgent
from holdfast.agents.llm.agent import prompt_of
from holdfast.agents.llm.prices import Prices
from holdfast.agents.protocol import Agent, Job, Outcome
from holdfast.errors import BadInput, BudgetReached
from holdfast.testing import FakeProvider, Fault, ToolCall

JOB = Job(goal="go", prompt="go")
agent: LlmAgent


@workflow
async def work(job: Job) -> Outcome:
    return await agent.work(job)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "the-key")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (made / "a.txt").write_text("hello\n")
    return made


@pytest.fixture
def hf(tmp_path: Path, workspace: Path) -> Iterator[Holdfast]:
    with Holdfast(tmp_path / "store", workspace=workspace, durability="process") as opened:
        yield opened


def run(hf: Holdfast, made: LlmAgent, job: Job = JOB, id: str = "w") -> Outcome:
    global agent
    agent = made
    return hf.with_id(id).run(work, job)


def answers(provider: FakeProvider) -> list[str]:
    """What the tools answered, as the last request of OpenAI's chat protocol has it."""
    return [one["content"] for one in provider.requests[-1].body["messages"] if one["role"] == "tool"]


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses", "openai", "anthropic"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_job_is_done_with_tools(hf: Holdfast, workspace: Path, protocol: str, stream: bool):
    """Each tool call is a step in a branch of the call. The outcome has the text and the usage as it is
    recorded."""
    turns = [
        ToolCall("read", {"path": "a.txt"}),
        [ToolCall("write", {"path": "b.txt", "text": "bye\n"}), ToolCall("list")],
        ToolCall("run", {"argv": ["cat", "b.txt"]}),
        "wrote b.txt",
    ]
    with FakeProvider(turns, key="the-key") as provider:
        url = provider.url if protocol == "anthropic" else provider.openai_url
        made = LlmAgent(f"{protocol}:m", base_url=url, stream=stream, prices={"m": ("1", "2")})
        assert isinstance(made, Agent)
        done = run(hf, made)
    measured = Measured("m", 400, 80, Decimal("0.00056"))
    assert (done.text, done.measured) == ("wrote b.txt", (measured,))
    assert (workspace / "b.txt").read_text() == "bye\n"
    assert {step.key for step in hf.steps("w")} == {
        *(f"llm[1]/model#{number}" for number in range(1, 5)),
        "llm[1]/read[1-call_0_0]/read#1",
        "llm[1]/write[2-call_1_0]/write#1",
        "llm[1]/list[2-call_1_1]/list#1",
        "llm[1]/run[3-call_2_0]/cat#1",
    }


def test_what_a_tool_cannot_do_is_told_to_the_model(hf: Holdfast, workspace: Path):
    """A path outside the workspace, arguments that do not fit, a program that is not there: each is an
    answer."""
    turns = [
        [
            ToolCall("read", {"path": "../store/holdfast.db"}),
            ToolCall("read", {"pth": "a.txt"}),
            ToolCall("run", {"argv": ["no-such-program"]}),
            ToolCall("write", {"path": "/etc/x", "text": ""}),
        ],
        "done",
    ]
    with FakeProvider(turns) as provider:
        assert run(hf, LlmAgent("openai-chat:m", base_url=provider.openai_url)).text == "done"
        outside, misspelt, missing, absolute = answers(provider)
    assert outside.startswith("error: ") and "without '..'" in outside
    assert "takes no 'pth'; did you mean 'path'?" in misspelt
    assert missing.startswith("error: ") and "no-such-program" in missing
    assert absolute.startswith("error: ")


def test_a_job_says_what_may_be_written(hf: Holdfast, workspace: Path):
    """Paths outside its patterns are refused; a job that changes nothing has no tools that could."""
    turns = [
        [
            ToolCall("write", {"path": "docs/a.md", "text": "x"}),
            ToolCall("write", {"path": "a.txt", "text": "x"}),
            ToolCall("edit", {"path": "a.txt", "old": "hello", "new": "x"}),
        ],
        "done",
    ]
    with FakeProvider(turns) as provider:
        made = LlmAgent("openai-chat:m", base_url=provider.openai_url)
        run(hf, made, Job(goal="g", prompt="p", writes=("docs/**",)))
        written, *refused = answers(provider)
        assert "error" not in written
        assert set(refused) == {"error: a.txt is not to be changed by this job; it may change docs/**"}
        assert (workspace / "a.txt").read_text() == "hello\n"
    with FakeProvider(["done"]) as provider:
        made = LlmAgent("openai-chat:m", base_url=provider.openai_url)
        run(hf, made, Job(goal="g", prompt="p", changes_files=False), "w2")
        names = [tool["function"]["name"] for tool in provider.requests[0].body["tools"]]
        assert names == ["read", "list", "search"]


def test_without_a_key_the_run_is_paused(hf: Holdfast, monkeypatch: pytest.MonkeyPatch):
    """The sentence names the variable. What is recorded needs no key: `resume` sends only what is left."""
    with FakeProvider([ToolCall("list"), "done"]) as provider:
        monkeypatch.delenv("OPENAI_API_KEY")
        made = LlmAgent("openai-chat:m", base_url=provider.openai_url)
        with pytest.raises(
            RunPaused, match=r"openai-chat:m failed .there is no key: set the variable OPENAI_API_KEY"
        ):
            run(hf, made)
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        assert hf.resume("w").result().text == "done"
        monkeypatch.delenv("OPENAI_API_KEY")
        other = LlmAgent("openai-chat:m", base_url=provider.openai_url, key_variable="MY_KEY")
        with pytest.raises(RunPaused, match="set the variable MY_KEY"):
            run(hf, other, id="w2")
        assert len(provider.requests) == 2


def test_the_next_model_answers_a_job(hf: Holdfast):
    """A model that does not exist is said to, and the fallback answers."""
    with FakeProvider([ToolCall("list"), "done"], models=["good"]) as provider:
        made = LlmAgent("openai-chat:typo", fallbacks=("openai-chat:good",), base_url=provider.openai_url)
        assert run(hf, made).text == "done"
        assert [request.model for request in provider.requests] == ["typo", "good", "good"]
        alone = LlmAgent("openai-chat:typo", base_url=provider.openai_url)
        with pytest.raises(RunPaused, match="openai-chat:typo does not exist"):
            run(hf, alone, id="w2")


def test_a_job_that_is_limited_in_money(hf: Holdfast):
    """`max_usd` is a budget of the job below the one that pays: at the limit the run is paused, and a
    person can raise it."""
    hf.budgets.set("team", usd="100")
    with FakeProvider([ToolCall("list"), "done"]) as provider:
        made = LlmAgent(
            "openai-chat:m", base_url=provider.openai_url, prices={"m": ("100", "0")}, reserve_usd="0.015"
        )
        job = Job(goal="g", prompt="p", budget="team", max_usd=Decimal("0.02"))
        with pytest.raises(BudgetReached, match=r"of its 0.02, 0.01 are spent") as reached:
            run(hf, made, job)
        assert len(provider.requests) == 1
        assert hf.budgets.get(reached.value.budget).parent == "team"
        hf.budgets.raise_(reached.value.budget, usd="0.01")
        assert hf.resume("w").result().text == "done"
        assert hf.budgets.get("team").spent.usd == Decimal("0.02")


def test_a_job_whose_first_request_does_not_fit(hf: Holdfast):
    """Its budget is there, below the one that pays, so that the command of the error raises it."""
    hf.budgets.set("team", usd="100")
    with FakeProvider(["done"]) as provider:
        made = LlmAgent(
            "openai-chat:m", base_url=provider.openai_url, prices={"m": ("100", "0")}, reserve_usd="0.015"
        )
        job = Job(goal="g", prompt="p", budget="team", max_usd=Decimal("0.01"))
        with pytest.raises(BudgetReached) as reached:
            run(hf, made, job)
        assert provider.requests == []
        assert hf.budgets.get(reached.value.budget).parent == "team"
        hf.budgets.raise_(reached.value.budget, usd="0.005")
        assert hf.resume("w").result().text == "done"
        assert hf.budgets.get("team").spent.usd == Decimal("0.01")


def test_run_can_need_an_approval(hf: Holdfast):
    """`approve=("run",)`: the gate shows the argument list."""
    with FakeProvider([ToolCall("run", {"argv": ["true"]}), "done"]) as provider:
        global agent
        agent = LlmAgent("openai-chat:m", base_url=provider.openai_url, approve=("run",))
        started = hf.with_id("w").start(work, JOB)
        for event in hf.follow("w", 0):
            if event.type == "GateOpened":
                break
        (gate,) = hf.gates("w")
        assert gate.shown == {"tool": "run", "arguments": {"argv": ["true"]}}
        hf.reject("w", by="me", comment="not now")
        assert started.result().text == "done"
        assert "not now" in answers(provider)[0]
    assert not [step for step in hf.steps("w") if step.key.endswith("true#1")]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"model": "gpt-5"}, "write openai-chat:NAME, openai-responses:NAME, openai:NAME, anthropic:NAME"),
        ({"tools": ["rm"]}, "there is no 'rm'; there are read, write, edit, list, search, run"),
        ({"approve": ["rm"]}, "there is no 'rm'"),
        ({"max_requests": 0}, "at least 1"),
        ({"name": "a b"}, "cannot be a step's name"),
    ],
)
def test_options_that_are_wrong(options: dict[str, Any], sentence: str):
    """Each is one sentence."""
    with pytest.raises(BadInput, match=sentence):
        LlmAgent(**{"model": "openai-chat:m", **options})


async def _work_outside() -> None:
    await LlmAgent("openai-chat:m").work(JOB)


def test_a_job_needs_a_run():
    """No agent works unrecorded."""
    import asyncio

    with pytest.raises(BadInput, match="call it from a workflow"):
        asyncio.run(_work_outside())


def test_the_prompt_has_all_of_the_job():
    """A resumed agent sees what is done, and what was rejected and why."""
    job = Job(
        goal="tidy up",
        prompt="fix a.py",
        history=("plan: approved", "review: rejected, too long"),
        paths=("a.py",),
        writes=("*.py",),
        changes_files=False,
    )
    prompt = prompt_of(job)
    for text in ("fix a.py", "tidy up", "- review: rejected, too long", "*.py", "Change no files."):
        assert text in prompt
    assert prompt_of(JOB) == "go"


def test_too_many_requests_for_one_job(hf: Holdfast):
    """A model that calls tools for ever ends at `max_requests`."""
    with FakeProvider([ToolCall("list", id=f"c{number}") for number in range(9)]) as provider:
        made = LlmAgent("openai-chat:m", base_url=provider.openai_url, max_requests=3)
        with pytest.raises(Exception, match="request_limit of 3"):
            run(hf, made)
        assert len(provider.requests) == 3


def test_prices():
    """Own prices by model or by provider and model, then genai-prices; None if neither knows."""
    prices = Prices({"a": (1, "2.5"), "p:a": ("0", "0")})
    assert prices.usd("a", "x", 1_000_000, 2_000_000) == Decimal(6)
    assert prices.usd("a", "p", 1_000_000, 2_000_000) == 0
    assert prices.usd("gpt-4o", "openai", 1_000_000, 0) == Decimal("2.5")
    assert prices.usd("gpt-4o", "", 1_000_000, 0, cache_read_tokens=1_000_000) == Decimal("1.25")
    assert prices.usd("nobody-knows-it", "openai", 1, 1) is None
    for wrong in (5, ("1",), ("x", "1"), ("-1", "1"), ("nan", "1")):
        with pytest.raises(BadInput, match="a has"):
            Prices({"a": wrong})  # type: ignore[dict-item]


def test_a_fault_in_a_stream_of_a_job(hf: Holdfast):
    """The second attempt emits its text again; the outcome has it once."""
    with FakeProvider(["a text in pieces"], faults={1: Fault(cut=True)}) as provider:
        made = LlmAgent(
            "openai-chat:m", base_url=provider.openai_url, stream=True, retry=Retry(attempts=2, initial=0)
        )
        assert run(hf, made).text == "a text in pieces"
    assert hf.steps("w")[0].attempt == 2
