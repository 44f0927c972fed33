"""One case through all its lives."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from typing import Any

from tests.crash.exact.cases import Case
from tests.crash.oracle.comparing import Story, Violation, check, check_bodies
from tests.crash.oracle.lives import Life, Place
from tests.crash.oracle.trials import DEEPEST, Killed, Trial, Verdict

SKIPPED = "skipped: {} is not installed"


@dataclass
class Row:
    """A line of the table."""

    name: str
    loop: str
    events: int = 0
    """In the log of the undisturbed life."""
    kills: int = 0
    lives: int = 0
    equal: int = 0
    """How many of the resumed lives were the same execution, or were refused as they had to be."""
    refused: int = 0
    """Resumes with changed code that had to diverge, and did."""
    different: str = ""
    """The first difference, or why the case was skipped."""
    details: str = ""

    def add(self, other: Row) -> None:
        """The same case with another seed. `events` remains that of the first."""
        self.kills, self.lives, self.equal = (
            self.kills + other.kills,
            self.lives + other.lives,
            self.equal + other.equal,
        )
        self.refused += other.refused
        if not self.different:
            self.different, self.details = other.different, other.details

    @property
    def is_skipped(self) -> bool:
        return self.different.startswith("skipped: ")

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def try_case(
    place: Place, case: Case, loop: str, seed: int, *, most_kills: int | None = None, fault: str = ""
) -> Row:
    trial = CaseTrial(place, case, loop=loop, seed=seed, most_kills=most_kills, fault=fault)
    verdict = trial.run()
    row = Row(case.name, loop, trial.events, verdict.kills, verdict.lives, refused=trial.refused)
    row.equal = verdict.kills - len(trial.unequal)
    if verdict.violations:
        first = verdict.violations[0]
        row.different = f"seed {seed}, {verdict.trail}: {first.what}: {first.text}"
        row.details = verdict.details
    return row


def skipped(case: Case, loop: str) -> Row | None:
    """The row of a case that cannot be tried here; None if it can."""
    for package in (case.needs, "uvloop" if loop == "uvloop" else ""):
        if package and find_spec(package) is None:
            return Row(case.name, loop, different=SKIPPED.format(package.replace("_", "-")))
    return None


class CaseTrial(Trial):
    """As a trial of the oracle; it tries every kill, also after the first difference."""

    def __init__(
        self, place: Place, case: Case, *, loop: str, seed: int, most_kills: int | None, fault: str
    ) -> None:
        super().__init__(place, case.program(seed), loop=loop, most_kills=most_kills, fault=fault)
        self._case, self._seed = case, seed
        self.events = self.refused = 0
        self.unequal: set[str] = set()
        """The kills after which the run was not the same execution."""

    def run(self) -> Verdict:
        first = self._undisturbed()
        if first is None:
            return self.verdict
        self.events = len(first.log)
        level = [*self._sample(self._commits_of(first)), *self._real_kills()]
        if self._case.changed is not None:
            self._resume_changed(level)
            return self.verdict
        for _ in range(DEEPEST):
            level = self._resume(level)
        return self.verdict

    def _judge(self, found: list[Violation], life: Life, trail: str) -> None:
        found = [*found, *check_completed(life)]
        if found and trail != "undisturbed":
            self.unequal.add(trail.partition(", changed")[0])
        super()._judge(found, life, trail)

    # With changed code

    def _resume_changed(self, level: list[Killed]) -> None:
        program = self._case.program(self._seed, changed=True)
        plans = [
            replace(
                self.plan(f"{one.trail} {number}", home=self._remains(one), replays=True), program=program
            )
            for number, one in enumerate(level)
        ]
        self.verdict.kills += len(plans)
        stopped = []
        for one, life in zip(level, self._live(plans), strict=True):
            if self._must_diverge(life):
                found = check_divergence(one.story, life)
                self.refused += not found
                stopped.append((one, life))
            else:
                found = check(one.story, life)
            self._judge(found, life, f"{one.trail}, changed")
        self._put_back([(one, life) for one, life in stopped if not _had_completed(life)])

    def _must_diverge(self, life: Life) -> bool:
        scope = f"{self._case.renamed}["
        keys = (str(one.data.get("key", "")) for one in life.past)
        return bool(self._case.renamed) and any(key.startswith(scope) for key in keys)

    def _put_back(self, stopped: list[tuple[Killed, Life]]) -> None:
        """A run that was stopped by a divergence continues when the code is as it was."""
        plans = [self.plan(f"back {one.trail}", home=life.plan.home) for one, life in stopped]
        for (one, _), life in zip(stopped, self._live(plans), strict=True):
            self._judge(check(one.story, life), life, f"{one.trail}, changed, then put back")


def check_completed(life: Life) -> list[Violation]:
    """A run that had completed before this life has the result that the log has."""
    if life.killed or not _had_completed(life):
        return []
    recorded = next(one.data for one in life.past if one.run == "p" and one.type == "RunCompleted")
    ends = [line[3:] for line in life.of("end")]
    if ends != [["result", recorded["result"]]]:
        return [Violation("difference", f"the result was {recorded}, is {ends}")]
    return []


def check_divergence(story: Story, life: Life) -> list[Violation]:
    """The run was refused before any body ran, and `replay` reports it."""
    found = check_bodies(story, life)
    if life.hung or not life.of("end"):
        return [Violation("hang", f"no end: {life.stderr[-1500:]}")]
    how, text = life.of("end")[-1][3:]
    if how != ("result" if _had_completed(life) else "divergence"):
        found.append(Violation("difference", f"no divergence: {how} {text}"))
    if life.of("body"):
        found.append(Violation("difference", f"bodies ran before the divergence: {life.of('body')}"))
    if [line[3] for line in life.of("replay")] != ["diverges"]:
        found.append(Violation("difference", f"replay does not report it: {life.of('replay')}"))
    return found


def _had_completed(life: Life) -> bool:
    return any(one.type == "RunCompleted" and one.run == "p" for one in life.past)
