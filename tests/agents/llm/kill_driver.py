"""Executes one conversation in forked children, each killed at a chosen event, and resumes it in others.

    python kill_driver.py URL openai|anthropic plain|stream

reads a line of JSON for each child from standard input (`Order`), and writes the child's pid, then its
outcome. The libraries are imported once, before the first fork: importing them takes longer than a
conversation.
"""

import asyncio
import json
import os
import signal
import sys
import threading

from pydantic_ai import Agent, FunctionToolset, RunContext
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from holdfast import Holdfast, Retry, workflow
from holdfast.agents.llm import HoldfastDurability, approvals


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


def make_model(protocol: str, url: str):
    if protocol == "anthropic":
        return AnthropicModel("claude-sonnet-5", provider=AnthropicProvider(base_url=url, api_key="any"))
    return OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="any"))


url, protocol, how = sys.argv[1:4]
coder: Agent[Ledger, str] = Agent(
    make_model(protocol, url),
    name="coder",
    deps_type=Ledger,
    toolsets=[tools],
    capabilities=[
        HoldfastDurability(stream=how == "stream", retry=Retry(attempts=3, initial=0.01)),
        approvals(),
    ],
)
order: dict


@workflow
async def converse(goal: str) -> list:
    result = await coder.run(goal, deps=Ledger(order["ledger"]))
    return [result.output, result.usage.requests, result.usage.input_tokens, result.usage.output_tokens]


async def execute() -> list:
    """The conversation, from wherever it is, with a person who approves; ends itself at the event
    `kill_at`."""
    seen = 0
    gate = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_event(event) -> None:
        nonlocal seen
        seen += 1
        if seen == order["kill_at"]:
            os.kill(os.getpid(), signal.SIGKILL)
        if event.type == "GateOpened":
            loop.call_soon_threadsafe(gate.set)

    async with Holdfast(order["home"], on_event=on_event, durability="process") as hf:
        if await hf.aio.gates():
            gate.set()

        async def person() -> None:
            await gate.wait()
            await hf.aio.approve(order["id"], by="a person")

        approving = asyncio.ensure_future(person())
        try:
            return [*await hf.with_id(order["id"]).start(converse, "go"), seen]
        finally:
            approving.cancel()


def child() -> None:
    print(json.dumps({"result": asyncio.run(execute())}), flush=True)


def main() -> None:
    global order
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if not pid:
            try:
                child()
                os._exit(0)
            except BaseException:
                import traceback

                traceback.print_exc()
                os._exit(1)
        print(json.dumps({"pid": pid}), flush=True)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"ended": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    main()
