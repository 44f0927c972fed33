"""What a type checker must refuse: every line that ends in `# refused`, and no other. Never executed."""

from __future__ import annotations

from holdfast import Holdfast, Retry, changes, command, measure, parallel, recorded, snapshot, step, workflow
from holdfast.agents import CommandAgent, Job, Outcome, work


@step
def length(text: str) -> int:
    return len(text)


@step
async def fetch(url: str) -> bytes:
    return url.encode()


@workflow
def report(topics: list[str], depth: int = 1) -> str:
    length(5)  # refused
    length()  # refused
    length("a", "b")  # refused
    answer: str = length("a")  # refused
    length.aio(5)  # refused
    parallel(length, [1, 2])  # refused
    areport.sync(5)  # refused
    told: str = areport.sync(["kelp"])  # refused
    parallel(areport, ["kelp"])  # refused
    print(told)
    recorded("depth", 1)  # refused
    name: int = recorded("name", lambda: "kelp")  # refused
    measure(usd=0.1)  # refused
    measure("small")  # refused
    measure(pages=1.5)  # refused
    snapshot("a")  # refused
    changes()  # refused
    command(["ls"], on_line=lambda: None)  # refused
    command(["ls"], output_limit="16MB")  # refused
    work("claude", "write hello")  # refused
    work(5, Job(goal="", prompt=""))  # refused
    CommandAgent("claude", parse="clade")  # refused
    outcome: Outcome = work.aio("claude", Job(goal="", prompt=""))  # refused
    print(name, outcome)
    return answer


@workflow
async def areport(topics: list[str]) -> bytes:
    await fetch(1)  # refused
    await report.aio(1)  # refused
    number: int = await report.aio(["kelp"])  # refused
    print(number)
    text: str = await fetch("u")  # refused
    return text.encode()


def main() -> None:
    with Holdfast() as hf:
        hf.run(report, 1)  # refused
        hf.run(report)  # refused
        hf.run(report, ["kelp"], depth="2")  # refused
        hf.start(areport, 5)  # refused
        number: int = hf.run(report, ["kelp"])  # refused
        hf.with_id("x").run(report, ["kelp"], wrong=1)  # refused
        Holdfast(durability="none")  # refused
        Retry(attempts="5")  # refused
        print(number)
