"""Agents of pydantic-ai in a run, against a provider that answers by a script."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError
from pydantic_ai.messages import ModelRequest, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from holdfast import Amounts, Holdfast, InDoubt, Retry, RunPaused, approval, command, step, workflow
from holdfast.agents.llm import HoldfastDurability, approvals
from holdfast.agents.llm.estimating import Asked, answer_tokens, estimated
from holdfast.agents.llm.named_models import KeyedModel, named
from holdfast.agents.llm.prices import Prices
from holdfast.agents.llm.provider_failure import was_not_sent
from holdfast.agents.llm.provider_request import sends_once
from holdfast.errors import BadInput, DetachedStep, WrongColour
from holdfast.testing import Answer, FakeClock, FakeProvider, Fault, ToolCall
from holdfast.testing.clock import START

READ = ToolCall("read", {"path": "a"})


def _raised(error: Exception, *causes: Exception) -> Exception:
    """The error, raised because of the others, the nearest first."""
    if causes:
        error.__cause__ = _raised(*causes)
    return error


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


class Watch:
    """The events of the runs, as they come."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._types: list[str] = []

    def __call__(self, event: Any) -> None:
        with self._changed:
            self._types.append(event.type)
            self._changed.notify_all()

    def until(self, type: str, count: int = 1) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._types.count(type) >= count, 30)


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def hf(tmp_path: Path, clock: FakeClock, watch: Watch) -> Iterator[Holdfast]:
    with Holdfast(tmp_path / "store", clock=clock, durability="process", on_event=watch) as opened:
        yield opened


def model_of(provider: FakeProvider, protocol: str = "openai", name: str = "gpt-4o"):
    if protocol == "anthropic":
        return AnthropicModel(name, provider=AnthropicProvider(base_url=provider.url, api_key="any"))
    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=provider.openai_url, api_key="any"))


def coder(
    provider: FakeProvider, protocol: str = "openai", name: str = "gpt-4o", **options: Any
) -> Agent[Any, str]:
    made: Agent[Any, str] = Agent(
        model_of(provider, protocol, name),
        name="coder",
        capabilities=[HoldfastDurability(**options), approvals()],
    )

    @made.tool_plain
    def read(path: str) -> str:
        return f"content of {path}"

    return made


agent: Agent[Any, str]


@workflow
async def ask(goal: str) -> str:
    async with agent:
        return (await agent.run(goal)).output


@workflow
async def four_times() -> list[str]:
    async with agent:
        results = await asyncio.gather(agent.run("one"), agent.run("two"))
        again = [await agent.run("three"), await agent.run("four", run_id="mine")]
    return [one.output for one in (*results, *again)]


LOCK = threading.Lock()


@workflow
async def with_lock(goal: str) -> str:
    async with agent:
        return (await agent.run(goal, deps=LOCK)).output


@workflow
def parent(goal: str) -> str:
    return ask.sync(goal)


@workflow
def wrong(goal: str) -> str:
    return asyncio.run(agent.run(goal)).output


@workflow
async def blocking(goal: str) -> str:
    return agent.run_sync(goal).output


@workflow
async def blocking_stream(goal: str) -> str:
    with agent.run_stream_sync(goal) as stream:
        return stream.get_output()


@step
async def unpaid(goal: str) -> str:
    async with agent:
        return (await agent.run(goal)).output


@step(reserve=Amounts(usd="0.50"))
async def paid(goal: str) -> str:
    async with agent:
        return (await agent.run(goal)).output


@workflow
async def in_unpaid_step(goal: str) -> str:
    return await unpaid(goal)


@workflow
async def in_paid_step(goal: str) -> str:
    return await paid(goal)


@workflow
async def on_a_thread_of_its_own(goal: str) -> str:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(agent.run(goal)).output).result()


@workflow
async def careful(goal: str) -> int:
    try:
        async with agent:
            await agent.run(goal)
    except ModelHTTPError as error:
        await approval.aio("Continue?")
        return error.status_code
    return 0


def start(hf: Holdfast, made: Agent[Any, str], id: str = "w", code: Any = ask) -> Any:
    global agent
    agent = made
    return hf.with_id(id).start(code, *(() if code is four_times else ("go",)))


def run(hf: Holdfast, made: Agent[Any, str], id: str = "w", code: Any = ask) -> Any:
    return start(hf, made, id, code).result()


def keys(hf: Holdfast, id: str = "w") -> list[tuple[str, str, int]]:
    return [(one.key, one.status, one.attempt) for one in hf.steps(id)]


def usage(hf: Holdfast, id: str = "w") -> list[dict[str, Any]]:
    return hf.get(id).to_json()["measured"]


# Steps


def test_requests_and_tool_calls_are_steps(hf: Holdfast):
    """Keys are made of the agent's name, the number of the request and the id of the call; the usage of
    each request and its price are recorded, and its idempotency key is the step's."""
    with FakeProvider([READ, "done"]) as provider:
        assert run(hf, coder(provider)) == "done"
    assert keys(hf) == [
        ("coder[1]/model#1", "completed", 1),
        ("coder[1]/read@1-call_0_0", "completed", 1),
        ("coder[1]/model#2", "completed", 1),
    ]
    assert [request.idempotency_key for request in provider.requests] == [
        "w:0:coder[1]/model#1",
        "w:0:coder[1]/model#2",
    ]
    assert usage(hf) == [
        {"model": "gpt-4o", "input_tokens": 200, "output_tokens": 40, "usd": "0.00090", "units": {}}
    ]


def test_a_price_of_ones_own_and_a_price_that_nobody_knows(hf: Holdfast):
    """Own prices come first; without a price the tokens are counted, and the cost is unknown."""
    with FakeProvider(["done"]) as provider:
        run(hf, coder(provider, prices={"gpt-4o": ("10", "100")}))
        run(hf, coder(provider, name="unheard-of"), "w2")
    assert [one["usd"] for one in usage(hf)] == ["0.003"]
    assert [(one["input_tokens"], one["usd"]) for one in usage(hf, "w2")] == [(100, None)]
    with pytest.raises(BadInput, match="gpt-4o has 5"):
        HoldfastDurability(prices={"gpt-4o": 5})  # type: ignore[dict-item]


def test_two_agents_at_once_have_scopes_of_their_own(hf: Holdfast):
    """The same agent twice in one gather, and twice in a row."""
    with FakeProvider([READ, "done"]) as provider:
        assert run(hf, coder(provider), code=four_times) == ["done"] * 4
    scopes = {key.rpartition("/")[0] for key, *_ in keys(hf)}
    assert scopes == {"run[1]/coder[1]", "run[2]/coder[1]", "coder[1]", "coder[2]"}


def test_a_tool_that_calls_steps_is_a_branch_of_its_call(hf: Holdfast):
    """It is not a step itself: `command` and steps of one's own in it are, also in parallel calls."""
    turns = [[ToolCall("count", {"n": 1}), ToolCall("count", {"n": 2})], "done"]

    @step
    async def double(n: int) -> int:
        return 2 * n

    with FakeProvider(turns) as provider:
        made = coder(provider)

        @made.tool_plain(metadata={"holdfast": False})
        async def count(n: int) -> str:
            printed = await command.aio(["echo", str(await double(n))], effect="idempotent")
            return printed.stdout

        assert run(hf, made) == "done"
    assert {key for key, *_ in keys(hf)} == {
        "coder[1]/model#1",
        *(f"coder[1]/count[1-call_0_{call}]/{one}#1" for one in ("double", "echo") for call in (0, 1)),
        "coder[1]/model#2",
    }


def test_an_agent_in_a_tool_of_another_one_has_a_scope_of_its_own(hf: Holdfast):
    """Its requests are in the branch of the tool call, and do not count for the agent around it."""
    global agent
    asks = [
        ToolCall("ask_expert", {"question": "kelp?"}),
        ToolCall("ask_expert", {"question": "eel?"}),
        "done",
    ]
    with FakeProvider(asks) as outer, FakeProvider(["an answer"]) as inner:
        agent = coder(outer)
        expert: Agent[None, str] = Agent(model_of(inner), name="expert", capabilities=[HoldfastDurability()])

        @agent.tool_plain(metadata={"holdfast": False})
        async def ask_expert(question: str) -> str:
            async with expert:
                return (await expert.run(question)).output

        assert hf.with_id("r").run(ask, "x") == "done"
    assert [one.key for one in hf.get("r").steps] == [
        "coder[1]/model#1",
        "coder[1]/ask_expert[1-call_0_0]/expert[1]/model#1",
        "coder[1]/model#2",
        "coder[1]/ask_expert[2-call_1_0]/expert[1]/model#1",
        "coder[1]/model#3",
    ]


def test_the_options_of_a_tool(hf: Holdfast):
    """Metadata give a tool's step its effect and its retries; an option that is not known is refused."""
    tries = []
    with FakeProvider([ToolCall("send"), "done"]) as provider:
        made = coder(provider)

        @made.tool_plain(metadata={"holdfast": {"retry": Retry(attempts=2), "timeout": timedelta(minutes=1)}})
        def send() -> str:
            tries.append(1)
            if len(tries) == 1:
                raise ConnectionError("not yet")
            return "sent"

        assert run(hf, made) == "done"
        assert ("coder[1]/send@1-call_0_0", "completed", 2) in keys(hf)

        other = coder(provider)
        other.tool_plain(metadata={"holdfast": {"efect": "once"}})(send)
        with pytest.raises(BadInput, match="'efect'; there are effect, retry, timeout, writes"):
            run(hf, other, "w2")


@pytest.mark.parametrize(
    ("given", "read"), [("sent by hand", "sent by hand"), ({"id": 7}, '{"id":7}'), (None, "")]
)
def test_a_tool_in_doubt_is_settled_with_what_it_would_have_returned(hf: Holdfast, given: object, read: str):
    """The model reads the value that a person gave; the tool is not called again."""
    calls = []
    with FakeProvider([ToolCall("send"), "done"]) as provider:
        made = coder(provider)

        @made.tool_plain(metadata={"holdfast": {"effect": "once", "timeout": 0.01}})
        async def send() -> object:
            calls.append(1)
            return await asyncio.Event().wait()

        with pytest.raises(InDoubt, match="took too long"):
            run(hf, made)
        hf.settle("w", "send", done=given)
        assert hf.resume("w").result() == "done"
        assert provider.requests[1].body["messages"][-1]["content"] == read
    assert calls == [1]


def test_dependencies_stay_in_the_process(hf: Holdfast):
    """They can be anything: a lock cannot be stored, and a replay gets the object of its own process."""
    with FakeProvider([ToolCall("look"), "done"]) as provider:
        made = coder(provider)

        @made.tool
        def look(ctx: RunContext[Any]) -> str:
            return str(ctx.deps is LOCK)

        assert run(hf, made, code=with_lock) == "done"
        assert "True" in str(provider.requests[1].body)


def test_outside_a_run_the_agent_is_a_plain_one():
    """Nothing is recorded, and no idempotency key is sent."""
    with FakeProvider([READ, "done"]) as provider:
        made = coder(provider)

        async def plain() -> str:
            async with made:
                return (await made.run("go")).output

        assert asyncio.run(plain()) == "done"
        assert [request.idempotency_key for request in provider.requests] == ["", ""]


def test_def_workflows_use_an_agent_by_a_child_run(hf: Holdfast):
    """An agent needs an event loop; a `def` workflow calls an async one as its child."""
    with FakeProvider([READ, "done"]) as provider:
        assert run(hf, coder(provider), code=parent) == "done"
        with pytest.raises(WrongColour, match="run it in an `async def` workflow"):
            run(hf, coder(provider), "w2", code=wrong)


def test_a_call_that_blocks_the_loop_says_what_to_await(hf: Holdfast):
    """`run_sync` in an async workflow, where asyncio would only say that its loop is running."""
    with FakeProvider(["done"]) as provider:
        with pytest.raises(WrongColour, match=r"coder.run_sync\(\) blocks.*`await coder.run\(...\)` instead"):
            run(hf, coder(provider), code=blocking)
        with pytest.raises(WrongColour, match=r"coder.run_stream_sync\(\) blocks"):
            run(hf, coder(provider), "w2", code=blocking_stream)
        assert not provider.requests
    free: Agent[None, str] = Agent("test", name="free", capabilities=[HoldfastDurability()])
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)  # pydantic-ai would make one, and leave it open
    try:
        assert free.run_sync("go").output, "outside a run it is a plain one"
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def test_an_agent_in_the_body_of_a_step_needs_a_reservation(hf: Holdfast):
    """Without one nothing would pay for it: it is refused before its first request, with the ways out."""
    with FakeProvider(["done"]) as provider:
        with pytest.raises(BadInput, match=r"in the body of step unpaid.*call it from the workflow.*reserve"):
            run(hf, coder(provider), code=in_unpaid_step)
        assert not provider.requests


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_the_reservation_of_a_step_pays_for_the_agent_in_its_body(hf: Holdfast, stream: bool):
    """Its requests are no steps; what they use is measured, at the agent's prices, and settled with the
    step."""
    hf.budgets.set("team", usd="1")
    with FakeProvider([READ, "done"]) as provider:
        global agent
        agent = coder(provider, stream=stream, prices={"gpt-4o": ("10", "100")})
        assert hf.with_id("w").with_budget("team").run(in_paid_step, "go") == "done"
        assert len(provider.requests) == 2
        hf.budgets.set("team", usd="0.10")
        with pytest.raises(RunPaused, match="budget team is reached: paid"):
            hf.with_id("w2").with_budget("team").run(in_paid_step, "go")
        assert len(provider.requests) == 2
    assert keys(hf) == [("paid#1", "completed", 1)]
    assert [(one["input_tokens"], one["usd"]) for one in usage(hf)] == [(200, "0.006")]
    assert hf.budgets.get("team").spent.usd == Decimal("0.006")


def test_an_agent_beside_a_run_is_refused(hf: Holdfast):
    """On a thread without the context of the run it would spend without a budget."""
    with FakeProvider(["done"]) as provider:
        with pytest.raises(DetachedStep, match="agent coder was called outside every run while"):
            run(hf, coder(provider), code=on_a_thread_of_its_own)
        assert not provider.requests


def test_importing_holdfast_imports_no_pydantic():
    """The backend is loaded when it is first used, and says what is missing where it is not installed."""
    code = (
        "import sys, holdfast, holdfast.agents.protocol, holdfast.agents.llm\n"
        "assert not [name for name in sys.modules if name.startswith('pydantic')]\n"
        "sys.modules['pydantic_ai.durable_exec'] = None\n"
        "try:\n    holdfast.agents.llm.HoldfastDurability\n"
        "except holdfast.HoldfastError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "agents of kind llm need pydantic-ai: pip install 'holdfast[llm]'\n"


# Faults


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    "fault",
    [Fault(status=429, retry_after_s=7), Fault(status=500), Fault(hang=True), Fault(cut=True)],
    ids=["429", "500", "hang", "cut"],
)
def test_a_failure_that_passes_is_another_attempt(
    hf: Holdfast, clock: FakeClock, protocol: str, stream: bool, fault: Fault
):
    """It is sent once more with the same key, after the time that the provider asks for; the client retries
    nothing."""
    turns = [READ, "a text in several pieces"]
    with FakeProvider(turns, faults={2: fault}) as provider:
        made = coder(provider, protocol, stream=stream, timeout=1.0 if fault.hang else None)
        assert run(hf, made) == "a text in several pieces"
        sent = [request.idempotency_key.rpartition("/")[2] for request in provider.requests]
        assert sent == ["model#1", "model#2", "model#2"]
        assert {request.stream for request in provider.requests} == {stream}
    assert keys(hf)[-1] == ("coder[1]/model#2", "completed", 2)
    assert clock.now() - START >= timedelta(seconds=6.9 if fault.retry_after_s else 0.9)
    assert [(one["input_tokens"], one["output_tokens"]) for one in usage(hf)] == [(200, 40)]


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (404, "gpt-4o does not exist (404: the model gpt-4o does not exist)"),
        (401, "refuses the key (401: invalid"),
    ],
)
def test_a_refusal_pauses_the_run(hf: Holdfast, protocol: str, status: int, sentence: str):
    """It is not tried again by itself. `resume` asks again, and repeats nothing that is recorded."""
    with FakeProvider([READ, "done"], faults={2: Fault(status=status)}) as provider:
        with pytest.raises(RunPaused) as paused:
            run(hf, coder(provider, protocol))
        assert sentence in str(paused.value) and "`holdfast resume w` continues" in str(paused.value)
        assert hf.resume("w").result() == "done"
        assert len(provider.requests) == 3
    assert keys(hf)[-3:] == [
        ("coder[1]/model#2", "failed", 1),
        ("coder[1]/no-model#1", "completed", 1),
        ("coder[1]/model#3", "completed", 1),
    ]


def test_the_next_model_answers(hf: Holdfast):
    """After all attempts the fallback is asked, and goes on answering; each request is a step with its own
    key."""
    faults = {"gpt-4o": Fault(status=500), "gpt-4o-mini": Fault(status=404)}
    with FakeProvider([READ, "done"], faults=faults) as provider:
        others = [
            model_of(provider, name="gpt-4o-mini"),
            model_of(provider, "anthropic", "claude-sonnet-5"),
        ]
        assert run(hf, coder(provider, fallbacks=others, retry=Retry(attempts=2))) == "done"
        assert [(request.model, request.idempotency_key[-1]) for request in provider.requests] == [
            ("gpt-4o", "1"),
            ("gpt-4o", "1"),
            ("gpt-4o-mini", "2"),
            ("claude-sonnet-5", "3"),
            ("claude-sonnet-5", "4"),
        ]
    assert [(one["model"], one["usd"]) for one in usage(hf)] == [
        ("gpt-4o", "0"),
        ("gpt-4o-mini", "0"),
        ("claude-sonnet-5", "0.0008"),
    ]


def test_when_no_model_answers_the_run_is_paused(hf: Holdfast):
    """Every time it is resumed, all of them are asked again."""
    faults: dict[int | str, Fault] = {"gpt-4o": Fault(status=500), "spare": Fault(status=404)}
    with FakeProvider(["done"], faults=faults) as provider:
        made = coder(provider, fallbacks=[model_of(provider, name="spare")], retry=Retry(attempts=1))
        with pytest.raises(
            RunPaused, match=r"no model answered: openai:gpt-4o failed \(500.*; openai:spare does not"
        ):
            run(hf, made)
        with pytest.raises(RunPaused):
            hf.resume("w").result()
        del provider.faults["spare"]
        assert hf.resume("w").result() == "done"
        assert [request.model for request in provider.requests] == ["gpt-4o", "spare"] * 3


def test_a_secret_in_why_no_model_answers_is_hidden(hf: Holdfast):
    """In what the caller gets, and in the reason of the pause as the log has it."""
    token = "ghp_" + "a1B2" * 9
    with FakeProvider(["done"], faults={token: Fault(status=404)}) as provider:
        made = coder(provider, name=token, retry=Retry(attempts=1))
        with pytest.raises(RunPaused, match=r"no model answered: openai:\[redacted") as paused:
            run(hf, made)
    (reason,) = [one.payload for one in hf._store.entries("w", type="RunPaused")]
    assert token not in str(paused.value) and token not in reason


def test_the_error_of_pydantic_ai_instead_of_a_pause(hf: Holdfast, watch: Watch):
    """With `pause=False` code can catch what it always caught, live and in replay."""
    with FakeProvider(["done"], faults={"gpt-4o": Fault(status=429, retry_after_s=3600)}) as provider:
        started = start(hf, coder(provider, pause=False), code=careful)
        watch.until("RunReleased")  # nobody has it: what continues is a replay
        hf.approve("w", by="me")
        assert started.result() == 429
        assert len(provider.requests) == 1, "an hour is not waited for"


def test_a_reply_that_asks_for_a_wait_within_the_cap_is_waited_for(hf: Holdfast, clock: FakeClock):
    """The longest wait is that of `Retry(cap=...)`."""
    fault = Fault(status=429, retry_after_s=100)
    with FakeProvider(["done"], faults={1: fault, 2: fault}) as provider:
        assert run(hf, coder(provider, retry=Retry(attempts=3, cap=120))) == "done"
    assert clock.now() - START >= timedelta(seconds=200)


# Approvals


def test_a_tool_waits_for_approval(hf: Holdfast, watch: Watch):
    """Both calls of a turn are gates at once, each bound to its arguments; the one that is rejected gives
    the model the reason."""
    ran = []
    turns = [[ToolCall("delete", {"path": "a"}), ToolCall("delete", {"path": "b"})], "done"]
    with FakeProvider(turns) as provider:
        made = coder(provider)

        @made.tool_plain(requires_approval=True)
        def delete(path: str) -> str:
            ran.append(path)
            return "deleted"

        started = start(hf, made)
        watch.until("GateOpened", 2)
        gates = hf.gates("w")
        assert [gate.shown for gate in gates] == [
            {"tool": "delete", "arguments": {"path": "a"}},
            {"tool": "delete", "arguments": {"path": "b"}},
        ]
        hf.approve("w", gates[0].key, by="me")
        hf.reject("w", gates[1].key, by="me", comment="b is needed")
        assert started.result() == "done"
        assert ran == ["a"]
        assert "rejected by a person: b is needed" in str(provider.requests[1].body["messages"])


def test_a_gate_that_is_not_answered_in_time(hf: Holdfast):
    """The model is told, and works on."""
    with FakeProvider([ToolCall("delete"), "done"]) as provider:
        made: Agent[Any, str] = Agent(
            model_of(provider), name="coder", capabilities=[HoldfastDurability(), approvals(timeout=60)]
        )

        @made.tool_plain(requires_approval=True)
        def delete() -> str:
            raise AssertionError

        assert run(hf, made) == "done"
        assert "not approved in time" in str(provider.requests[1].body["messages"])


# Streams


def test_a_stream_is_emitted_while_it_is_read(hf: Holdfast):
    """The text comes in the order of the stream, as events of the request's step; what is returned is the
    same."""
    text = "word " * 300
    with FakeProvider([Answer(text=text)]) as provider:
        assert run(hf, coder(provider, stream=True)) == text
    emitted = [event.data for event in hf.events("w") if event.type == "Emitted"]
    assert len(emitted) > 1
    assert "".join(one["value"] for one in emitted) == text
    assert {(one["name"], one["step"]) for one in emitted} == {("model", "coder[1]/model#1")}


# Budgets


def test_a_request_reserves_before_it_is_sent(hf: Holdfast):
    """At the limit of the budget the run is paused before the request; after a raise it continues."""
    hf.budgets.set("small", usd="0.05")
    with FakeProvider([READ, "done"]) as provider:
        global agent
        agent = coder(provider, reserve_usd="0.0496")
        with pytest.raises(RunPaused, match="budget small is reached: coder"):
            hf.with_id("w").with_budget("small").run(ask, "go")
        assert len(provider.requests) == 1
        assert hf.budgets.get("small").spent.usd == Decimal("0.00045")
        hf.budgets.raise_("small", usd="1")
        assert hf.resume("w").result() == "done"
    assert hf.budgets.get("small").spent.usd == Decimal("0.00090")


LONGEST = {"openai": "max_completion_tokens", "anthropic": "max_tokens"}


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_an_answer_is_no_longer_than_what_was_reserved(hf: Holdfast, protocol: str, stream: bool):
    """Where a limit holds, the longest answer that was reserved for is sent along; answers of that length
    stay within the limit, and the request that does not fit any more is not sent."""
    hf.budgets.set("company", tokens=30_000)
    hf.budgets.set("team", parent="company")
    turns = [Answer(calls=(ToolCall("read", {"path": str(n)}),), output_tokens=4096) for n in range(9)]
    with FakeProvider(turns) as provider:
        global agent
        agent = coder(provider, protocol, stream=stream)
        with pytest.raises(RunPaused, match="budget company is reached: coder"):
            hf.with_id("w").with_budget("team").run(ask, "go")
        assert {request.body[LONGEST[protocol]] for request in provider.requests} == {4096}
        assert {request.stream for request in provider.requests} == {stream}
        spent = hf.budgets.get("company").spent.tokens
        assert spent == 4196 * len(provider.requests) and 20_000 < spent <= 30_000


def test_an_answer_has_no_limit_of_its_own_where_no_limit_holds(hf: Holdfast):
    """Without a limit of money or tokens, what is sent is what the settings say."""
    hf.budgets.set("patient", seconds=600)
    with FakeProvider(["done"]) as provider:
        run(hf, coder(provider))
        hf.with_id("w2").with_budget("patient").run(ask, "go")
        assert [request.body.get(LONGEST["openai"]) for request in provider.requests] == [None, None]


def test_settings_decide_how_long_an_answer_may_be(hf: Holdfast):
    """So much is reserved and sent: more than ours, or less."""
    hf.budgets.set("team", tokens=50_000)
    with FakeProvider(["done"]) as provider:
        global agent
        agent = coder(provider)
        agent.model_settings = {"max_tokens": 20_000}
        hf.with_id("w").with_budget("team").run(ask, "go")
        agent.model_settings = {"max_tokens": 60_000}
        with pytest.raises(RunPaused, match="budget team is reached"):
            hf.with_id("w2").with_budget("team").run(ask, "go")
        assert [request.body[LONGEST["openai"]] for request in provider.requests] == [20_000]


def test_thinking_counts_in_the_answer():
    """A budget of Anthropic's for thinking is a part of `max_tokens`, which must be more than it."""
    assert answer_tokens({"anthropic_thinking": {"type": "enabled", "budget_tokens": 10_000}}) == 14_096
    assert answer_tokens({"max_tokens": 500}) == 500
    assert answer_tokens(None) == answer_tokens({"max_tokens": None}) == 4096


def test_the_prompt_is_never_estimated_too_low():
    """By its bytes, tools included; what an earlier answer of the same model has counted is not counted
    again."""
    schema = {"type": "object", "properties": {"path": {"description": "d" * 5000}}}
    tools = ModelRequestParameters(function_tools=[ToolDefinition(name="t", parameters_json_schema=schema)])
    first = ModelRequest.user_text_prompt("海" * 10_000)
    more = ModelRequest.user_text_prompt("w" * 100)

    def tokens(*messages: Any, model: str = "gpt-4o") -> int:
        used = estimated(Prices(), model, Asked(messages, {"max_tokens": 10}, tools)).tokens
        assert used is not None
        return used - 10

    assert 35_000 < tokens(first) < 37_000
    usage = RequestUsage(input_tokens=9000, output_tokens=50)
    answer = ModelResponse([], usage=usage, model_name="gpt-4o-2024-08-06")
    assert 9150 < tokens(first, answer, more) < 11_000
    assert tokens(first, answer, more, model="another") > 35_000
    uncounted = ModelResponse([], model_name="gpt-4o")
    assert tokens(first, uncounted, more) > 35_000


PRICES = {"gpt-4o": ("2.5", "10")}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
@pytest.mark.parametrize("status", [401, 429, 500, 529])
def test_a_request_that_is_refused_costs_nothing(hf: Holdfast, protocol: str, stream: bool, status: int):
    """A provider that answers with an HTTP error has not worked: of its attempt, nothing is charged."""
    with FakeProvider(["done"], faults={1: Fault(status=status)}) as provider:
        others = [model_of(provider, protocol)]
        made = coder(provider, protocol, stream=stream, fallbacks=others, prices=PRICES)
        assert run(hf, made) == "done"
        assert len(provider.requests) == 2
    spent = hf.budgets.get("default").spent
    assert (spent.usd, spent.tokens) == (sum(Decimal(one["usd"]) for one in usage(hf)), 120)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_a_request_without_a_connection_costs_nothing(hf: Holdfast, protocol: str, stream: bool):
    """If the provider cannot be reached, nothing was sent to it: no attempt is charged."""
    with FakeProvider(["done"]) as provider:
        others = [model_of(provider)]
        with FakeProvider([]) as down:
            made = coder(
                down, protocol, stream=stream, fallbacks=others, prices=PRICES, retry=Retry(attempts=3)
            )
        assert run(hf, made) == "done"
    assert keys(hf) == [("coder[1]/model#1", "failed", 3), ("coder[1]/model#2", "completed", 1)]
    spent = hf.budgets.get("default").spent
    assert (spent.usd, spent.tokens, spent.steps) == (sum(Decimal(one["usd"]) for one in usage(hf)), 120, 4)


@pytest.mark.parametrize(
    ("error", "is_free"),
    [
        (_raised(httpx.ConnectError("refused"), ConnectionRefusedError()), True),
        (_raised(ModelAPIError("m", "x"), httpx.ConnectTimeout("slow")), True),
        (
            _raised(ModelAPIError("m", "x"), httpx.ReadError("cut"), httpx.ConnectError("an earlier one")),
            False,
        ),
        (_raised(ModelAPIError("m", "x"), ConnectionResetError()), False),
        (TimeoutError(), False),
        (ModelAPIError("m", "x"), False),
    ],
)
def test_only_a_connection_that_was_not_made_is_free(error: Exception, is_free: bool):
    """The outermost error of the transport decides: a cut stream is charged, whatever came before."""
    assert was_not_sent(error) is is_free


class TriesTwice(httpx2.AsyncBaseTransport):
    """The first try is sent and cut off, the second finds no provider."""

    def __init__(self) -> None:
        self.tries: list[Exception] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        for error in (httpx2.ReadError("cut off"), httpx2.ConnectError("refused")):
            self.tries.append(error)
        raise self.tries[-1]


def test_tries_that_a_client_hides_are_charged(hf: Holdfast):
    """A transport that retries raises the error of its last try. That one had no connection, but an earlier
    one may have been sent: what was reserved is charged."""
    with FakeProvider(["done"]) as provider:
        transport = TriesTwice()
        client = httpx2.AsyncClient(transport=transport)
        hidden = OpenAIChatModel(
            "gpt-4o", provider=OpenAIProvider(base_url=provider.openai_url, api_key="any", http_client=client)
        )
        options = {"reserve_usd": "0.25", "prices": PRICES, "retry": Retry(attempts=1)}
        durable = HoldfastDurability(fallbacks=[model_of(provider)], **options)
        assert run(hf, Agent(hidden, name="coder", capabilities=[durable])) == "done"
    assert len(transport.tries) == 2
    answered = sum(Decimal(one["usd"]) for one in usage(hf))
    assert hf.budgets.get("default").spent.usd == Decimal("0.25") + answered


class OwnModel(OpenAIChatModel):
    """An adapter of the program, which may do anything."""


@pytest.mark.parametrize("made", [OpenAIChatModel, OwnModel], ids=["adapter", "own"])
def test_which_models_send_once(made: type[OpenAIChatModel]):
    """Only an adapter that turns off the retries of its client is known to, as it is or in a wrapper that
    does not retry; not the program's own, nor one that asks several models."""
    model = made("gpt-4o", provider=OpenAIProvider(base_url="http://127.0.0.1:9/v1", api_key="any"))
    is_known = made is OpenAIChatModel
    assert sends_once(model) is is_known
    assert sends_once(KeyedModel(model, named("openai:gpt-4o"))) is is_known
    assert not sends_once(FallbackModel(model, model))


@pytest.mark.parametrize("fault", [Fault(hang=True), Fault(cut=True)], ids=["hang", "cut"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_a_request_that_breaks_off_costs_what_was_reserved(
    hf: Holdfast, protocol: str, stream: bool, fault: Fault
):
    """The provider may have worked to the end, and charge for it: the attempt is charged in full, once."""
    with FakeProvider(["done"], faults={1: fault}) as provider:
        made = coder(provider, protocol, stream=stream, reserve_usd="0.25", timeout=1.0, prices=PRICES)
        assert run(hf, made) == "done"
        assert len(provider.requests) == 2
    answered = sum(Decimal(one["usd"]) for one in usage(hf))
    assert hf.budgets.get("default").spent.usd == Decimal("0.25") + answered
    assert not hf.budgets.get("default").reserved.usd
