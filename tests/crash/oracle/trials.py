"""One program through all its lives: undisturbed, then killed at each of its commits and resumed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.oracle import wal
from tests.crash.oracle.comparing import Story, Violation, check
from tests.crash.oracle.faults import FAULTS, LOST
from tests.crash.oracle.lives import Life, Place, Plan, live_all
from tests.crash.oracle.programs import Program

DEEPEST = 3
"""Kills in a row."""


@dataclass
class Verdict:
    """What became of a program."""

    program: Program
    lives: int = 0
    kills: int = 0
    violations: list[Violation] = field(default_factory=list)
    trail: str = ""
    """How the lives went that show the violation."""
    details: str = ""
    """The log and the report of the life that shows it."""


@dataclass
class Killed:
    """A killed life, and the story up to its death."""

    life: Life
    size: int
    """Of the write-ahead log that it left."""
    story: Story
    trail: str


class Trial:
    """Lives and checks of one program."""

    def __init__(
        self,
        place: Place,
        program: Program,
        *,
        loop: str = "asyncio",
        fault: str = "",
        most_kills: int | None = None,
    ) -> None:
        self._place = place
        self._loop = loop
        self._fault = fault
        self._most_kills = most_kills
        self._chance = random.Random(f"{program.seed} {program.number} trial")
        self.verdict = Verdict(program)

    def run(self) -> Verdict:
        """Stop at the first violation: what follows it proves nothing more."""
        first = self._undisturbed()
        if first is not None:
            level = [*self._sample(self._commits_of(first)), *self._real_kills()]
            for _ in range(DEEPEST):
                if self.verdict.violations or not level:
                    break
                level = self._resume(level)
        return self.verdict

    def plan(self, seed: str, **options: object) -> Plan:
        program = self.verdict.program
        home = options.pop("home", None) or self._place.empty_store()
        outside = program.has_gates and self._chance.random() < 0.25
        name = f"{program.seed} {program.number} {seed}"
        given = {"loop": self._loop, "outside": outside, "prepare": FAULTS.get(self._fault), **options}
        return Plan(program, home, name, **given)  # type: ignore[arg-type]

    def _story(self) -> Story:
        return Story(by_branch=self.verdict.program.is_blocking)

    def _undisturbed(self) -> Life | None:
        audits = self.verdict.program.number % 7 == 0
        life = self._live([self.plan("first", replays=True, audits=audits)])[0]
        self._judge(check(self._story(), life), life, "undisturbed")
        return None if self.verdict.violations else life

    def _commits_of(self, life: Life) -> list[Killed]:
        """A kill after each commit of that life since the run exists."""
        sizes = [size for size in life.commits if size > life.born_at]
        return [
            Killed(
                life,
                size,
                self._story().after(life.until(size)),
                f"killed at commit {number} of {len(sizes)}",
            )
            for number, size in enumerate(sizes, 1)
        ]

    def _sample(self, killed: list[Killed]) -> list[Killed]:
        """All of them, or as many as are wanted."""
        if self._most_kills is None or len(killed) <= self._most_kills:
            return killed
        return self._chance.sample(killed, self._most_kills)

    def _real_kills(self) -> list[Killed]:
        """Two lives that SIGKILL ends at a line of their report."""
        plans = [self.plan(f"kill {n}", kill_at=self._chance.randint(1, 30)) for n in range(2)]
        found = []
        for life in self._live(plans):
            self._judge(check(self._story(), life), life, f"SIGKILL at line {life.plan.kill_at}")
            size = life.commits[-1] if life.commits else 0
            if life.killed and not life.hung:
                story = self._story().after(life)
                found.append(Killed(life, size, story, f"SIGKILL at line {life.plan.kill_at}"))
        return found

    def _resume(self, level: list[Killed]) -> list[Killed]:
        """Resume them all; returns some of the lives killed again."""
        plans = []
        for number, one in enumerate(level):
            home = self._remains(one)
            replays = self._chance.random() < 0.15
            plans.append(self.plan(f"{one.trail} {number}", home=home, replays=replays))
        self.verdict.kills += len(plans)
        following = []
        for one, life in zip(level, self._live(plans), strict=True):
            self._judge(check(one.story, life), life, one.trail)
            later = [size for size in life.commits if size > life.born_at]
            if later and self._chance.random() < 0.3:
                size = self._chance.choice(later)
                trail = f"{one.trail}, then at commit {later.index(size) + 1} of {len(later)}"
                following.append(Killed(life, size, one.story.after(life.until(size)), trail))
        return following

    def _remains(self, killed: Killed) -> Path:
        """A copy of the store that the killed life left."""
        home, size = self._place.new(), killed.size
        if self._fault == LOST:
            size = max((one for one in killed.life.commits if one < size), default=0)
        wal.copy_until(killed.life.plan.home, size, home)
        return home

    def _live(self, plans: list[Plan]) -> list[Life]:
        self.verdict.lives += len(plans)
        return live_all(plans)

    def _judge(self, found: list[Violation], life: Life, trail: str) -> None:
        """Keep the first violation and all that helps to understand it."""
        if found and not self.verdict.violations:
            self.verdict.violations = found
            self.verdict.trail = trail
            self.verdict.details = "\n".join(_details(life))


def _details(life: Life) -> Iterator[str]:
    """The log and the report of a life."""
    yield f"log before: {len(life.past)} events"
    for number, one in enumerate(life.log):
        mark = ">" if number >= len(life.past) else " "
        named = {key: one.data[key] for key in ("key", "scope", "first", "last", "owner") if key in one.data}
        yield f" {mark}{number:3} {one.run} {one.type} {named}"
    for line in life.lines:
        yield f"  {line[0]} {' '.join(map(str, line[2:]))}"
