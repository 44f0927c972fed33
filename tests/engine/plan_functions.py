"""Functions that plans of the tests call: each says that it ran, and may be told to fail or to take turns."""

import asyncio
import random
from collections import Counter
from typing import Any

from holdfast import idempotency_key

ran: list[str] = []
"""What ran, by the key that its step has in every attempt."""
failing: Counter[str] = Counter()
"""How often each is still to fail."""
turns = random.Random(0)


def note(x: Any = None) -> Any:
    ran.append(idempotency_key())
    if failing[str(x)] > 0:
        failing[str(x)] -= 1
        raise ValueError(f"{x} failed")
    return x


def steps_that_ran() -> list[str]:
    return sorted(key.split(":", 2)[2] for key in ran)


def names() -> list[str]:
    return [note("a"), "b", "c"]


async def slowly(x: Any) -> Any:
    """Ends after others that began later, as the dice fall."""
    for _ in range(turns.randrange(12)):
        await asyncio.sleep(0)
    return x


def write(path: str, text: str) -> str:
    from holdfast import workspace_path

    (workspace_path() / path).write_text(text)
    return text


def lengthen(x: list[Any]) -> int:
    return len(x)
