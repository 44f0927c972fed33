"""One program that is killed, changed, and resumed with the changed code."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.crash.oracle.comparing import check
from tests.crash.oracle.lives import Life
from tests.crash.oracle.mutated_comparing import check_mutated, diverged
from tests.crash.oracle.mutations import mutate
from tests.crash.oracle.trials import Killed, Trial, Verdict

MOST_KILLS = 10


class MutatedTrial(Trial):
    """As a trial; the lives after the kills execute other code, and then again the first."""

    def run(self) -> Verdict:
        first = self._live([self.plan("first")])[0]
        self._judge(check(self._story(), first), first, "undisturbed")
        if self.verdict.violations:
            return self.verdict
        if self._most_kills is None:
            self._most_kills = MOST_KILLS
        self._resume_changed(self._sample(self._commits_of(first)))
        return self.verdict

    def _resume_changed(self, chosen: list[Killed]) -> None:
        plans, changes = [], []
        for number, one in enumerate(chosen):
            found = mutate(self.verdict.program, random.Random(f"{self._chance.random()}"))
            if found is None:
                continue
            change, program = found
            plan = self.plan(f"{one.trail} {number}", home=self._remains(one))
            plans.append(replace(plan, program=program))
            changes.append((one, change, f"{one.trail}, changed by {change} to {program.top}"))
        self.verdict.kills += len(plans)
        back = []
        for (one, change, trail), life in zip(changes, self._live(plans), strict=True):
            self._judge(check_mutated(one.story, life, change, self._movable()), life, trail)
            if diverged(life):
                back.append((one, life, trail))
        self._put_back(back)

    def _movable(self) -> frozenset[str]:
        if self.verdict.program.colour != "def":
            return frozenset()
        return frozenset(one.name for one in self.verdict.program.top.walk() if one["keyed"])

    def _put_back(self, stopped: list[tuple[Killed, Life, str]]) -> None:
        """A run that was stopped by a divergence continues when the code is as it was."""
        plans = [self.plan(f"back {trail}", home=life.plan.home) for _, life, trail in stopped]
        for (one, _, trail), life in zip(stopped, self._live(plans), strict=True):
            self._judge(check(one.story, life), life, f"{trail}, then put back")
