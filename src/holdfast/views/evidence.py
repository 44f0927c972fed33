"""Evidence of milestones, as readers see it: listed, shown, verified."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec

from holdfast.clock import instant
from holdfast.errors import BadInput, EvidenceNotFound
from holdfast.json_view import View
from holdfast.kernel import events as e
from holdfast.kernel.identity import matches
from holdfast.operations.lineage import live
from holdfast.spelling import nearest

if TYPE_CHECKING:
    from holdfast.redaction import Redactor
    from holdfast.store.port import EvidenceRow, Store


class LiveEvidence(NamedTuple):
    """The evidence of a milestone of a run's live history, and the last verification of it."""

    run: str
    event: e.EvidenceWritten
    at: int
    verified: e.EvidenceVerified | None = None
    verified_at: int = 0

    @property
    def level(self) -> str:
        verified = self.verified
        return "reproduced" if verified is not None and verified.outcome == "equal" else self.event.level


def live_evidence(store: Store, run_id: str = "", generation: int | None = None) -> list[LiveEvidence]:
    """The evidence of a run, or of all runs, the oldest run first and each in the order of its log. Evidence
    of a generation that was left does not count."""
    by_run: dict[str, list[EvidenceRow]] = {}
    for row in store.evidence(run_id):
        by_run.setdefault(row.run, []).append(row)
    return [one for rows in by_run.values() for one in _of_run(store, rows, generation)]


def _of_run(store: Store, rows: Sequence[EvidenceRow], generation: int | None) -> Iterable[LiveEvidence]:
    now = rows[0].live if generation is None else generation
    # The first generation has no other before it. Only for a later one the history is read.
    alive = None if now == 0 else {one.version for one in live(store.load(rows[0].run), now)}
    verified = {
        (row.event.key, row.event.digest): (row.event, row.at)
        for row in rows
        if isinstance(row.event, e.EvidenceVerified)
    }
    for run, _, event, version, at in rows:
        if not isinstance(event, e.EvidenceWritten):
            continue
        if event.generation != 0 if alive is None else version not in alive:
            continue
        yield LiveEvidence(run, event, at, *verified.get((event.key, event.digest), ()))


def find(found: Sequence[LiveEvidence], run_id: str, milestone: str) -> LiveEvidence:
    """The evidence that `milestone` names: a whole key, or the name of a milestone; of several of that name
    the last. Raises `EvidenceNotFound` with the nearest names."""
    for one in found:
        if one.event.key == milestone:
            return one
    named = [one for one in found if one.event.milestone == milestone or matches(one.event.key, milestone)]
    if named:
        return named[-1]
    names = list(dict.fromkeys(one.event.milestone for one in found))
    raise EvidenceNotFound(run_id, milestone, nearest(milestone, names) or names[-3:])


class EvidenceInfo(View, frozen=True, kw_only=True):
    """The evidence of a milestone, without its document.

    level        `asserted`: a statement only; `observed`: recorded commands; `reproduced`: they were run
                 again and were equal
    digest       the SHA-256 of the document
    commands     how many commands it rests on
    verified_at  when it was last verified; None if it never was. `verified` is the outcome: `equal`,
                 `different` or `incomplete`
    """

    run: str
    milestone: str
    key: str
    level: str
    digest: str
    at: datetime
    generation: int = 0
    snapshot: str = ""
    commands: int = 0
    verified: str = ""
    verified_at: datetime | None = None
    verified_by: str = ""

    JSON: ClassVar = {
        "run": "the run",
        "milestone": "the name of the milestone",
        "key": "its identity in the run",
        "level": "`asserted`, `observed` or `reproduced`",
        "digest": "the SHA-256 of the document",
        "at": "when it was reached",
        "generation": "the generation of the run that reached it",
        "snapshot": "the snapshot of the files then; null without a workspace",
        "commands": "how many commands it rests on",
        "verified": "the outcome of the last verification: `equal`, `different`, `incomplete`; null if none",
        "verified_at": "when that was, or null",
        "verified_by": "who verified, or null",
    }
    JSON_NULL: ClassVar = (
        "snapshot",
        "verified",
        "verified_by",
    )


class Evidence(EvidenceInfo, frozen=True, kw_only=True):
    """With its document, as Markdown. It is redacted again when it is read: a pattern that is new since then
    hides more of it."""

    document: str = ""
    images: dict[str, str] = msgspec.field(default_factory=dict)

    JSON: ClassVar = {
        **EvidenceInfo.JSON,
        "images": "the SHA-256 of each image that it names, by path",
        "document": "the document, as Markdown",
    }

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "images": self.images, "document": self.document}


def info_of(one: LiveEvidence, redactor: Redactor) -> EvidenceInfo:
    return EvidenceInfo(**_fields(one, redactor))


def evidence_of(one: LiveEvidence, store: Store, redactor: Redactor) -> Evidence:
    document = store.blob(one.event.blob).decode("utf-8", "replace")
    images = {redactor.redact(path): digest for path, digest in one.event.images.items()}
    return Evidence(**_fields(one, redactor), document=redactor.redact(document), images=images)


def _fields(one: LiveEvidence, redactor: Redactor) -> dict[str, Any]:
    event, verified = one.event, one.verified
    return {
        "run": one.run,
        "milestone": redactor.redact(event.milestone),
        "key": event.key,
        "level": one.level,
        "digest": event.digest,
        "at": instant(one.at),
        "generation": event.generation,
        "snapshot": event.snapshot,
        "commands": len(event.commands) + event.left_out,
        "verified": "" if verified is None else verified.outcome,
        "verified_at": None if verified is None else instant(one.verified_at),
        "verified_by": "" if verified is None else redactor.redact(verified.by),
    }


class CommandCheck(View, frozen=True, kw_only=True):
    """A command of an evidence document, run again or not.

    outcome  `equal`, `different`, `skipped` (`why` says why it was not run) or `superseded` (the same command
             ran again later, and that one was checked)
    diff     of the normalised output, the recorded side first; empty if it is equal
    """

    run: str
    step: str
    argv: tuple[str, ...]
    outcome: str
    why: str = ""
    recorded_exit_code: int | None = None
    exit_code: int | None = None
    duration_s: float = 0.0
    diff: str = ""

    JSON: ClassVar = {
        "run": "the run whose step it is",
        "step": "the key of the step",
        "argv": "the program and its words, redacted",
        "outcome": "`equal`, `different`, `skipped` or `superseded`",
        "why": "what differs, or why it was not run; null if it is equal",
        "recorded_exit_code": "the exit code in the log; null if it had none",
        "exit_code": "the exit code now; null if it was not run, or has none",
        "duration_s": "seconds that it took now",
        "diff": "of the output, without times and the like; null if that is equal",
    }
    JSON_NULL: ClassVar = (
        "why",
        "diff",
    )


class Verification(View, frozen=True, kw_only=True):
    """How the verification of one milestone ended: `equal`, `different`, or `incomplete` if nothing differed
    and some commands could not be run."""

    run: str
    milestone: str
    key: str
    outcome: str
    level: str
    files: str
    checks: tuple[CommandCheck, ...] = ()

    JSON: ClassVar = {
        "run": "the run",
        "milestone": "the name of the milestone",
        "key": "its identity in the run",
        "outcome": "`equal`, `different` or `incomplete`",
        "level": "the level of the evidence now",
        "files": "what the commands ran on: `now` or `milestone`",
        "checks": "each command: `run`, `step`, `argv`, `outcome`, `why`, `recorded_exit_code`, `exit_code`, "
        "`duration_s`, `diff`",
    }


def check_files(at: str) -> str:
    """Check the value of `at`: the files on which commands run again. Raises `BadInput`."""
    if at not in ("now", "milestone"):
        raise BadInput(f"at={at!r}: 'now' for the files as they are, 'milestone' for those of the milestone")
    return at


def outcome_of(checks: Sequence[CommandCheck]) -> str:
    """The outcome of a milestone from those of its commands."""
    outcomes = {check.outcome for check in checks}
    if "different" in outcomes:
        return "different"
    return "equal" if "equal" in outcomes and outcomes <= {"equal", "superseded"} else "incomplete"
