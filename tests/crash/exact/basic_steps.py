"""The steps that most cases call."""

from __future__ import annotations

from tests.crash.exact.cases import begin, worked, worked_here
from tests.crash.oracle.steps import Planned

from holdfast import Retry, step


@step
async def ask(item: str) -> str:
    return await worked(f"ask {item}")


@step
async def ask_slowly(item: str) -> str:
    return await worked(f"ask_slowly {item}", slow=True)


@step(effect="once")
async def send(item: str) -> str:
    return await worked(f"send {item}", "once")


@step
async def refuse(item: str) -> str:
    """Always fails."""
    await worked(f"refuse {item}")
    raise Planned(item)


@step(retry=Retry(attempts=6, initial=0.004, factor=1.0))
async def ask_stubbornly(item: str) -> str:
    """Fails four times."""
    if begin(f"ask_stubbornly {item}") < 5:
        raise Planned(item)
    return item


@step
def look_up(item: str) -> str:
    return worked_here(f"look_up {item}")


@step(effect="once")
def post(item: str) -> str:
    return worked_here(f"post {item}", "once")
