"""`hf.skills`: the skills of the project, and how work with each ended."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from holdfast.clock import instant
from holdfast.errors import NotFound
from holdfast.facade.namespace import Namespace
from holdfast.facade.open_store import blocking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.agents.learning.skill_file import Found, SkillFault, SkillFile
    from holdfast.store.learning_port import LearningStore
    from holdfast.views.learning import SkillInfo, SkillStats


class SkillsNamespace(Namespace):
    """Reads the files each time. In workflow code each call is a recorded step."""

    NAMESPACE: ClassVar = "skills"

    @blocking
    def list(self) -> builtins.list[SkillInfo]:
        """The skills that can be chosen, by name."""
        return listed(self._found().skills, self._holdfast._store)

    @blocking
    def show(self, name: str) -> SkillInfo:
        """One skill, with its text. Raises `NotFound` with the nearest names."""
        return shown(self._found(), name, self._holdfast._store)

    @blocking
    def check(self) -> builtins.list[SkillFault]:
        """The faults of SKILL.md files, each with its file and line; empty if there are none."""
        return self._found().faults

    @blocking
    def stats(self, kind: str | None = None) -> builtins.list[SkillStats]:
        """How work ended with each text of each skill, by kind of work; of one kind if it is named. An edited
        SKILL.md is another text."""
        from holdfast.views.learning import SkillStats

        current = {one.candidate for one in self._found().skills}
        redact = self._holdfast._reader.redactor.redact
        found = []
        for one in self._holdfast._store.outcome_sums("skills", kind):
            name, _, digest = one.candidate.rpartition("@")
            found.append(
                SkillStats(
                    redact(one.kind),
                    redact(name or one.candidate),
                    digest if name else "",
                    one.candidate in current,
                    one.good,
                    one.bad,
                    instant(one.last_at),
                )
            )
        return found

    def _found(self) -> Found:
        return found_in(self._holdfast._place.root, self._holdfast.settings.skills_dirs)


def found_in(root: Path, directories: Sequence[str]) -> Found:
    from holdfast.agents.learning.skill_file import find

    return find(root.resolve(), directories)


def listed(skills: Sequence[SkillFile], store: LearningStore | None) -> builtins.list[SkillInfo]:
    """The skills with their outcomes; without a store there are none."""
    from holdfast.views.learning import SkillInfo

    counts: dict[str, tuple[int, int]] = {}
    for one in () if store is None else store.outcome_sums("skills"):
        good, bad = counts.get(one.candidate, (0, 0))
        counts[one.candidate] = good + one.good, bad + one.bad
    return [
        SkillInfo(one.name, one.description, one.path, one.kinds, *counts.get(one.candidate, (0, 0)))
        for one in skills
    ]


def shown(found: Found, name: str, store: LearningStore | None) -> SkillInfo:
    """One skill with its text."""
    import msgspec

    from holdfast.spelling import nearest

    for file in found.skills:
        if file.name == name:
            (info,) = listed([file], store)
            return msgspec.structs.replace(info, text=file.text)
    faulty = next((fault for fault in found.faults if f"/{name}/" in fault.path), None)
    if faulty is not None:
        raise NotFound(f"the skill {name!r} is left out: {faulty}")
    near = nearest(name, [one.name for one in found.skills])
    advice = f"; nearest: {', '.join(near)}" if near else "; `holdfast skills list` shows all"
    raise NotFound(f"there is no skill {name!r}{advice}")
