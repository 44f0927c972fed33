"""Skills: texts for prompts, chosen for a job by its words and by how earlier work with each ended.

    from holdfast.agents import skills

    @workflow
    def report(goal: str) -> str:
        with skills.use(goal, kind="report") as chosen:
            draft = ask(f"{chosen.text}\\n\\n{goal}")
            chosen.report(is_usable(draft))
        return draft

A skill is a folder with a SKILL.md (`skill_file`). No model takes part in the choice. A skill fits if its
name or description shares words with the job; the rarer a word is among the skills, the more it counts. The
sum is multiplied by a success rate drawn from Beta(4 + good, 1 + 2 * bad): a new skill is trusted, and each
failure of the work counts twice. A skill whose draw is below 0.25 is not chosen. Outcomes belong to the
text of a skill: an edited SKILL.md begins anew.

The choice is recorded with the texts, so a replay gives the same prompt, whatever became of the files.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.agents.learning import learner, skill_file
from holdfast.agents.learning.skill_file import SkillFile
from holdfast.agents.protocol import Job
from holdfast.engine.primitives.outcome import report_outcome, scope_of_code
from holdfast.engine.primitives.values import recorded
from holdfast.errors import BadInput, StoreError, WrongColour
from holdfast.plans.task_words import STOP, stem

if TYPE_CHECKING:
    from holdfast.agents.handler_protocols import SkillsHandler
    from holdfast.engine.engine import Engine
    from holdfast.settings import Settings

__all__ = ["Chosen", "Skill", "Skills", "choose", "use"]

FAMILY: Final = "skills"
LIMIT: Final = 3
_MOST_LIMIT: Final = 20
_MOST_TEXT: Final = 24_000
"""Characters of all chosen skills together: the record of the choice is a value of the run."""
_PENALTY: Final = 2
_PRIOR: Final = (4, 1)
_LEAST: Final = 0.25
_WORD: Final = re.compile(r"[^\W\d_][^\W_]{2,}")
_MISUSE: Final = (BadInput, WrongColour)


class Skill(msgspec.Struct, frozen=True):
    """A skill as a chooser returns it. `candidate` is the name under which outcomes are recorded, `text` is
    for the prompt."""

    name: str
    candidate: str
    text: str


class Skills:
    """Ours. Another chooser is registered as the handler `skills`; see `handlers`."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._root = engine.location.root or Path.cwd()
        self._directories = settings.skills_dirs
        self._reported: set[str] = set()

    def choose(self, job: Job, limit: int) -> list[Skill]:
        """At most `limit` skills for a job, the best first. Reads the files each time; a file with a fault
        is left out, with a warning once."""
        found = skill_file.find(self._root, self._directories)
        self._warn(found.faults)
        fitting = relevance(job, found.skills)
        random = Random(self._engine.clock.random())
        scores: dict[str, float] = {}
        for skill in found.skills:
            fit = fitting.get(skill.name, 0.0)
            rate = success_rate(self._record(job.kind, skill), random) if fit else 0.0
            if rate >= _LEAST:
                scores[skill.name] = fit * rate
        best = sorted(scores, key=lambda name: (-scores[name], name))[:limit]
        by_name = {skill.name: skill for skill in found.skills}
        return [Skill(name, by_name[name].candidate, by_name[name].text) for name in best]

    def _record(self, kind: str, skill: SkillFile) -> learner.Record:
        rows = self._engine.store.outcomes(FAMILY, kind, skill.candidate, learner.WINDOW)
        return learner.summed(rows)

    def _warn(self, faults: Sequence[skill_file.SkillFault]) -> None:
        for fault in faults:
            text = str(fault)
            if text not in self._reported:
                self._reported.add(text)
                logging.getLogger("holdfast").warning("a skill is left out: %s", text)


def relevance(job: Job, skills: Sequence[SkillFile]) -> dict[str, float]:
    """How well each skill fits the words of the job; those that do not fit at all are left out."""
    wanted = _stems(f"{job.goal} {job.prompt}")
    offered = {
        skill.name: _stems(f"{skill.name} {skill.description}")
        for skill in skills
        if not skill.kinds or job.kind in skill.kinds
    }
    common = Counter(word for words in offered.values() for word in words)
    fits = {
        name: sum(math.log(1 + len(offered) / common[word]) for word in words & wanted)
        for name, words in offered.items()
    }
    return {name: fit for name, fit in fits.items() if fit > 0}


def success_rate(record: learner.Record, random: Random) -> float:
    """One draw of how often work with the skill succeeds."""
    good, bad = _PRIOR
    return random.betavariate(good + record.good, bad + _PENALTY * record.bad)


class Chosen:
    """The skills that were chosen for a job. `text` is for the prompt; it is empty if none fits."""

    def __init__(self, kind: str, skills: Sequence[Skill]) -> None:
        self.kind = kind
        self.skills = tuple(skills)
        self.text = "\n\n".join(f"# Skill: {skill.name}\n\n{skill.text}" for skill in skills)
        self.reported = False

    def __repr__(self) -> str:
        return f"Chosen({', '.join(skill.name for skill in self.skills)})"

    def report(self, ok: bool, *, error: str = "") -> None:
        """Record how the work ended, once, for all of these skills. `error` names what made it fail."""
        if self.reported:
            raise BadInput(f"the outcome of {self!r} is reported already")
        scope_of_code("report()")
        if self.skills:
            names = [skill.candidate for skill in self.skills]
            report_outcome(FAMILY, self.kind, names, ok=ok, error=error)
        self.reported = True


def choose(job: Job | str, *, kind: str = "", limit: int = LIMIT) -> Chosen:
    """Choose skills for a job, or for a goal in words, and record the choice. The caller reports the
    outcome with `Chosen.report`. `kind` is that of the job, or `work`. Serves both colours."""
    if isinstance(job, str):
        job = Job(goal=job, prompt="", kind=kind or "work")
    elif not isinstance(job, Job):
        raise BadInput(f"skills are chosen for a Job or a text, not for {job!r}")
    elif kind and kind != job.kind:
        raise BadInput(f"kind={kind!r}: the job's own kind is {job.kind!r}")
    if limit not in range(1, _MOST_LIMIT + 1):
        raise BadInput(f"limit={limit!r}: 1 to {_MOST_LIMIT} skills")
    scope = scope_of_code("skills.choose()")

    def make() -> list[dict[str, Any]]:
        handler: SkillsHandler = scope.execution.engine.handler("skills")
        try:
            found = list(handler.choose(job, limit))[:limit]
        except StoreError as error:
            raise scope.execution.lose(error) from None
        return [
            {"name": skill.name, "candidate": skill.candidate, "text": text}
            for skill, text in zip(found, _bounded([skill.text for skill in found]), strict=True)
        ]

    return Chosen(job.kind, [Skill(**one) for one in recorded("skills", make)])


@contextmanager
def use(job: Job | str, *, kind: str = "", limit: int = LIMIT) -> Iterator[Chosen]:
    """The same for the work inside the block, whose end is the outcome: a failure if it raises an exception,
    unless it is holdfast's refusal of a wrong call (`BadInput`, `WrongColour`)."""
    chosen = choose(job, kind=kind, limit=limit)
    try:
        yield chosen
    except _MISUSE:
        raise
    except Exception as error:
        if not chosen.reported:
            chosen.report(False, error=type(error).__name__)
        raise
    if not chosen.reported:
        chosen.report(True)


def _bounded(texts: Sequence[str]) -> list[str]:
    """The texts, the long ones cut so that all together are no more than a prompt can take."""
    kept, left = list(texts), _MOST_TEXT
    shortest_first = sorted(range(len(kept)), key=lambda place: len(kept[place]))
    for done, place in enumerate(shortest_first):
        share, text = left // (len(kept) - done), kept[place]
        if len(text) > share:
            kept[place] = f"{text[:share]}\n[{len(text) - share} characters are left out]"
        left -= min(len(text), share)
    return kept


def _stems(text: str) -> set[str]:
    return {stem(word) for word in _WORD.findall(text.casefold()) if word not in STOP}
