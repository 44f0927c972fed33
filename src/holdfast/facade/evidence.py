"""`hf.evidence`: the documents of milestones, and their verification."""

from __future__ import annotations

import builtins
import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from holdfast.facade.namespace import Namespace
from holdfast.facade.open_store import blocking

if TYPE_CHECKING:
    from holdfast.facade.tracking import Tracking
    from holdfast.views.evidence import Evidence, EvidenceInfo, LiveEvidence, Verification


class EvidenceNamespace(Namespace):
    """Evidence is written by `milestone(...)` in the code of a workflow, and by nothing else."""

    NAMESPACE: ClassVar = "evidence"
    _holdfast: Tracking

    @blocking
    def list(self, run_id: str | None = None) -> builtins.list[EvidenceInfo]:
        """The evidence of a run in the order of its milestones, or of all runs, the oldest run first.
        Evidence of a generation that was left does not count. Raises `RunNotFound`."""
        from holdfast.views.evidence import info_of

        redactor = self._holdfast._reader.redactor
        return [info_of(one, redactor) for one in self._live(run_id)]

    @blocking
    def get(self, run_id: str, milestone: str | None = None) -> Evidence:
        """The evidence of a milestone, with its document; without `milestone`, of the last one. A name that
        was reached several times is the last of them; a key, such as `tests-pass#1`, names each. Raises
        `EvidenceNotFound`."""
        from holdfast.views.evidence import evidence_of

        store, redactor = self._holdfast._store, self._holdfast._reader.redactor
        return evidence_of(self._one(run_id, milestone), store, redactor)

    @blocking
    def verify(
        self, run_id: str, milestone: str | None = None, *, at: str = "now", by: str | None = None
    ) -> builtins.list[Verification]:
        """Run the commands of a milestone again, or those of all milestones of the run, and compare exit
        codes and normalised output. The outcome is recorded: evidence whose commands were all equal is
        `reproduced`.

        at  `now`: in a copy of the files as they are; where several milestones have the same command, the
            last of them is compared. `milestone`: in a copy of the files of each milestone
        by  who verifies; without it, the user

        Only `idempotent` and `workspace` commands run again. Others, and those that need a secret or an input
        that is not recorded, are `skipped`, with the reason; the evidence is `incomplete` then. Raises
        `EvidenceNotFound`; `StoreCorrupt` for a document that was changed in the store, before anything runs;
        `NotTrusted` for a store from somewhere else.
        """
        from holdfast import wiring
        from holdfast.agents.evidence import reproducing

        known = self._holdfast._known(run_id)
        engine = self._holdfast._to_write()
        wiring.refuse_foreign_code(self._holdfast.home)
        return reproducing.verify(engine, known, milestone, at=at, by=self._holdfast._by(by))

    @blocking
    def export(self, run_id: str, directory: str | os.PathLike[str]) -> builtins.list[str]:
        """Write the documents of a run into a directory, which is made: one Markdown file for each milestone,
        `index.json`, and the images that they name in `images/`. Files of these names are replaced. Returns
        the paths. Raises `EvidenceNotFound`."""
        from holdfast.agents.evidence import exporting

        holdfast = self._holdfast
        return exporting.export(
            holdfast._engine, run_id, self._live(run_id), holdfast._reader.redactor, Path(directory)
        )

    def _live(self, run_id: str | None) -> builtins.list[LiveEvidence]:
        from holdfast.views.evidence import live_evidence

        known = "" if run_id is None else self._holdfast._known(run_id)
        return live_evidence(self._holdfast._store, known)

    def _one(self, run_id: str, milestone: str | None) -> LiveEvidence:
        from holdfast.errors import EvidenceNotFound
        from holdfast.views.evidence import find

        found = self._live(run_id)
        if not found:
            raise EvidenceNotFound(run_id)
        return found[-1] if milestone is None else find(found, run_id, milestone)
