"""What router and skills choose in random programs: another choice in every life, unless it is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import random
from typing import Any

from tests.crash.oracle.programs import Node

from holdfast.agents import router, skills
from holdfast.agents.protocol import Job


class RandomSkills:
    """The handler `skills`: its texts are never the same twice."""

    def __init__(self, engine: Any, settings: Any) -> None:
        """It needs neither."""

    def choose(self, job: Job, limit: int) -> list[skills.Skill]:
        return [skills.Skill(job.goal, f"{job.goal}@1", f"{job.goal}-{random()}")]


HANDLERS = {"skills": RandomSkills}


@contextmanager
def routed(node: Node) -> Iterator[str]:
    """Gives the choice as its record begins: the order of the candidates."""
    with router.route("work", [f"{node.name}-a", f"{node.name}-b"]) as choice:
        yield f'["{choice.candidate}"'
        choice.report(node["ms"] > 3)


@contextmanager
def skilled(node: Node) -> Iterator[str]:
    """Gives the text of the chosen skill."""
    with skills.use(node.name, kind="work") as chosen:
        yield chosen.skills[0].text
        chosen.report(node["ms"] > 3)


CHOICES = {"route": routed, "skills": skilled}
