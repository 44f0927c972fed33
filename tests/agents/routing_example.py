"""Handlers as a program would register them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.agents.skills import Skill


class LastFirst:
    """A router that prefers the last candidate."""

    def __init__(self, engine: Any, settings: Any) -> None:
        self.engine = engine

    def rank(self, kind: str, candidates: Sequence[str]) -> list[str]:
        return list(reversed(candidates))


class Always:
    """A chooser of one skill that is no file."""

    def __init__(self, engine: Any, settings: Any) -> None:
        pass

    def choose(self, job: Any, limit: int) -> list[Skill]:
        return [Skill("always", "always@1", f"For {job.goal}: be brief.")]


class NoRank:
    def __init__(self, engine: Any, settings: Any) -> None:
        pass
