"""Executes a conversation in forked children, each killed at a chosen event, and resumes it in others.

    python kill_driver.py URL

reads a line of JSON for each child from standard input (`Order`), and writes two: the child's pid, then how
it ended and what it returned. Children run side by side. The libraries are imported once, before the first
fork: importing them takes longer than a conversation. This process opens no store and has one thread, so a
child begins with nothing that it could not use.
"""

import asyncio
import gc
import importlib
import json
import os
import selectors
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from pydantic_ai import Agent, FunctionToolset, RunContext
from pydantic_ai.durable_exec import JSON_CODEC
from pydantic_ai.messages import ModelRequest, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.toolsets import AbstractToolset

from holdfast import Holdfast, Retry, workflow
from holdfast.agents.llm import HoldfastDurability, approvals

NOTE = "take a note"
"""The goal of the agent whose tools are those of a server."""


class Order(msgspec.Struct):
    """A child to be forked. It ends itself at the event with the number `kill_at`; 0 is none."""

    child: int
    run: str
    home: str
    ledger: str
    protocol: str
    stream: bool
    goal: str
    kill_at: int = 0


class Ledger:
    """Dependencies that cannot be stored. Each tool call is a line in a file."""

    def __init__(self, path: str) -> None:
        self.lock = threading.Lock()
        self.path = path

    def note(self, line: str) -> None:
        with self.lock, open(self.path, "a") as file:
            file.write(line + "\n")


tools: FunctionToolset[Ledger] = FunctionToolset(id="files")


@tools.tool
async def read(ctx: RunContext[Ledger], path: str) -> str:
    ctx.deps.note(f"read {path}")
    return f"content of {path}"


@tools.tool
def write(ctx: RunContext[Ledger], path: str, text: str) -> str:
    ctx.deps.note(f"write {path}")
    return "written"


@tools.tool(requires_approval=True)
def delete(ctx: RunContext[Ledger], path: str) -> str:
    ctx.deps.note(f"delete {path}")
    return "deleted"


def make_model(protocol: str, url: str) -> Model:
    if protocol == "anthropic":
        return AnthropicModel("claude-sonnet-5", provider=AnthropicProvider(base_url=url, api_key="any"))
    return OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="any"))


def make_coder(
    protocol: str, stream: bool, url: str, toolset: AbstractToolset[Ledger] = tools
) -> Agent[Ledger, str]:
    return Agent(
        make_model(protocol, url),
        name="coder",
        deps_type=Ledger,
        toolsets=[toolset],
        model_settings={
            "max_tokens": 1000
        },  # without it, pydantic-ai reads each answer of Anthropic as a stream
        capabilities=[
            HoldfastDurability(stream=stream, retry=Retry(attempts=3, initial=0.01)),
            approvals(),
        ],
    )


coders = {
    (protocol, stream): make_coder(protocol, stream, sys.argv[1])
    for protocol in ("openai", "anthropic")
    for stream in (False, True)
}
order: Order


def make_notary() -> Agent[Ledger, str]:
    """The agent with the tools of a server that it starts."""
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai.mcp import MCPToolset

    server = StdioTransport(sys.executable, [str(Path(__file__).with_name("mcp_notes.py")), order.ledger])
    toolset: MCPToolset[Ledger] = MCPToolset(server, id="notes")
    return make_coder(order.protocol, order.stream, sys.argv[1], toolset)


@workflow
async def converse(goal: str) -> list:
    coder = make_notary() if goal == NOTE else coders[order.protocol, order.stream]
    result = await coder.run(goal, deps=Ledger(order.ledger))
    return [result.output, result.usage.requests, result.usage.input_tokens, result.usage.output_tokens]


async def execute() -> list:
    """The conversation, from wherever it is, with a person who approves, and its events; ends itself at the
    one with the number `kill_at`."""
    seen: list[tuple[str, str]] = []
    gate = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_event(event) -> None:
        seen.append((event.type, event.data.get("key", "")))
        if len(seen) == order.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if event.type == "GateOpened":
            loop.call_soon_threadsafe(gate.set)

    async with Holdfast(order.home, on_event=on_event, durability="process") as hf:
        if await hf.aio.gates():
            gate.set()

        async def person() -> None:
            await gate.wait()
            await hf.aio.approve(order.run, by="a person")

        approving = asyncio.ensure_future(person())
        try:
            return [*await hf.with_id(order.run).start(converse, order.goal), seen]
        finally:
            approving.cancel()


def child(into: int) -> None:
    """Execute the conversation, and write its result and the modules that it has imported."""
    before = set(sys.modules)
    result = asyncio.run(execute())
    said = {"result": result, "imported": sorted(set(sys.modules) - before)}
    with open(into, "w") as pipe:
        pipe.write(json.dumps(said))


def fork() -> tuple[int, int]:
    """The pid of a child for the order, and the end of a pipe that is closed when it ends, however."""
    assert threading.active_count() == 1, "a thread of this process would be missing in the child"
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    try:
        child(writing)
        os._exit(0)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)


def say(**message: Any) -> None:
    print(json.dumps({"child": order.child, **message}), flush=True)


def import_too(names: list[str]) -> None:
    """Import what a child has imported: those that are forked from now on find it. Keep it out of the way of
    the garbage collector, which would copy the pages that it looks at."""
    if names:
        for name in names:
            with suppress(ImportError):  # one that the child has made
                importlib.import_module(name)
        gc.collect()
        gc.freeze()


async def warm_up(url: str) -> None:
    """Ask once by each protocol, without a run and by clients that are closed at the end: the libraries build
    what they need for that when it is first used."""
    said = [ModelRequest.user_text_prompt("go")]
    settings = ModelSettings(max_tokens=1000, extra_headers={"Idempotency-Key": "warm-up"})
    parameters = ModelRequestParameters()
    for protocol in ("openai", "anthropic"):
        async with make_model(protocol, url) as model:
            answer = await model.request(said, settings, parameters)
            async with model.request_stream(said, settings, parameters) as stream:
                async for _ in stream:
                    pass
        JSON_CODEC.load(ModelResponse, JSON_CODEC.dump(ModelResponse, answer))


def main() -> None:
    global order
    asyncio.run(warm_up(sys.argv[1]))
    print(json.dumps({"ready": True}), flush=True)
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        children: dict[int, tuple[Order, int, bytes]] = {}
        waiting = b""
        while True:
            for key, _ in selector.select():
                data = os.read(key.fd, 1 << 16)
                if key.fd == 0:
                    if not data:
                        return
                    *lines, waiting = (waiting + data).split(b"\n")
                    for line in lines:
                        order = msgspec.json.decode(line, type=Order)
                        pid, pipe = fork()
                        children[pipe] = (order, pid, b"")
                        selector.register(pipe, selectors.EVENT_READ)
                        say(pid=pid)
                    continue
                order, pid, so_far = children[key.fd]
                children[key.fd] = (order, pid, so_far + data)
                if data:
                    continue
                selector.unregister(key.fd)
                os.close(key.fd)
                del children[key.fd]
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                said = json.loads(so_far) if so_far else {"result": None, "imported": []}
                import_too(said["imported"])
                say(ended=status, result=said["result"])


if __name__ == "__main__":
    main()
