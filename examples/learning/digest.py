"""A digest of notes, written by two models. One is cheap and gives up on long notes, the other always
answers.

    holdfast run digest.py:digest

A budget limits the cost. The router learns which model to ask first, and asks the other one if that fails.
The skill that fits becomes a part of the prompt. At the end a check runs, and the milestone keeps its
output as evidence.

The models here are functions, so that the example runs offline. In a program of yours `ask` calls a provider.
"""

from __future__ import annotations

import re
import sys
from decimal import Decimal
from pathlib import Path

from holdfast import Amounts, budget, command, measure, milestone, step, workflow
from holdfast.agents import router, skills

PRICES = {"small": Decimal("0.002"), "large": Decimal("0.03")}
LONGEST_FOR_SMALL = 90


def reservation(model: str, prompt: str, note: str) -> Amounts:
    """No call costs more than the price of its model."""
    return Amounts(usd=PRICES[model])


@step(reserve=reservation)
def ask(model: str, prompt: str, note: str) -> str:
    """A headline of as many words as the prompt allows."""
    measure(model=model, input_tokens=len(prompt + note) // 4, output_tokens=8, usd=PRICES[model])
    if model == "small" and len(note) > LONGEST_FOR_SMALL:
        raise ValueError(f"{len(note)} characters are too many for the small model")
    words = re.search(r"at most (\d+) words", prompt)
    return " ".join(note.split()[: int(words[1]) if words else 20])


@step
def read_notes() -> list[str]:
    return [path.read_text() for path in sorted(Path("notes").glob("*.txt"))]


@step(effect="workspace", writes=["digest.md"])
def write_digest(headlines: list[str]) -> None:
    Path("digest.md").write_text("".join(f"- {headline}\n" for headline in headlines))


@workflow
def digest(limit: str = "0.50") -> list[str]:
    headlines = []
    with budget("digest", limits=Amounts(usd=limit)):
        for note in read_notes():
            with skills.use("A headline for each note", kind="headline") as chosen:
                prompt = f"{chosen.text}\n\nWrite the headline of this note, at most 6 words."
                headlines.append(router.failover("headline", list(PRICES), ask, prompt, note))
    write_digest(headlines)
    command([sys.executable, "check.py"])
    milestone("digest-written", statement="Each note has a headline of at most six words.")
    return headlines
