"""`EvidenceWriter`: the document of a milestone, written from the log.

    class OneLine(EvidenceWriter):
        def render(self, record: MilestoneRecord) -> str:
            return f"{record.reached.name}: {len(record.commands)} commands"

    Holdfast(handlers={"evidence": OneLine})

What was observed is collected here, whatever `render` makes of it. A writer of one's own that collects
something else has a method `write` (`engine/primitives/milestone.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

import msgspec

from holdfast.agents.evidence import document
from holdfast.agents.evidence.document import Image, MilestoneRecord
from holdfast.agents.evidence.observed import Keep, commands_of
from holdfast.clock import instant
from holdfast.engine.primitives.milestone import Reached, Written
from holdfast.errors import BadWorkspace, NotTrusted, SnapshotNotFound, WorkspaceError
from holdfast.kernel import events as e
from holdfast.workspace.fs.beneath import shown
from holdfast.workspace.snapshots.file_diff import FileDiff

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.settings import Settings
    from holdfast.workspace.snapshots.changes import Change
    from holdfast.workspace.workspace import Workspace

MOST_COMMANDS = 1_000
MOST_FILES = 500
MOST_IMAGES = 100
DIFF_CHARS = 64 * 1024
DIFFS_CHARS = 512 * 1024
_IMAGES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".bmp"})


class EvidenceWriter:
    """The handler `evidence`. Holds no state; a milestone that is reached again after a kill is written from
    the same log."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine = engine
        self.settings = settings

    def write(self, reached: Reached) -> Written:
        """Collect what is recorded since the last milestone, and render it."""
        last = self._last(reached)
        after = 0 if last is None else last.until
        found, until = commands_of(
            self.engine.store, reached.run, after=after, generation=reached.generation, keep=Keep()
        )
        row = self.engine.store.run(reached.run)
        kept = found[:MOST_COMMANDS]
        record = MilestoneRecord(
            reached=reached,
            workflow="" if row is None else row.workflow,
            at=instant(self.engine.clock.now_us()),
            since="" if last is None else last.milestone,
            commands=tuple(kept),
            left_out=len(found) - len(kept),
        )
        record = self._with_files(record, reached.first if last is None else last.snapshot or reached.first)
        observed = tuple(one.named for one in kept if one.counts)
        images = {image.path: image.sha256 for image in record.images}
        return Written(self.render(record), observed, record.left_out, until, images)

    def render(self, record: MilestoneRecord) -> str:
        """The document, as Markdown. Override it for a document of another form."""
        return document.render(record)

    def _last(self, reached: Reached) -> e.EvidenceWritten | None:
        """The evidence before, in the live history."""
        from holdfast.views.evidence import live_evidence

        found = live_evidence(self.engine.store, reached.run, reached.generation)
        return found[-1].event if found else None

    def _with_files(self, record: MilestoneRecord, before: str) -> MilestoneRecord:
        reached = record.reached
        if not reached.snapshot:
            return msgspec.structs.replace(record, remark="the run works on no files that holdfast saves")
        if not before:
            return msgspec.structs.replace(record, remark="there is no earlier snapshot to compare with")
        try:
            workspace = self.engine.files.of(reached.root, reached.mark)
            with workspace.contents.hold():
                changes = [one for one in workspace.diff(before, reached.snapshot) if one.path]
                return msgspec.structs.replace(
                    record,
                    before=before,
                    files=len(changes),
                    changes=tuple(self._diffs(workspace, changes[:MOST_FILES])),
                    images=tuple(_images(changes))[:MOST_IMAGES],
                )
        except (WorkspaceError, BadWorkspace, NotTrusted, SnapshotNotFound) as error:
            return msgspec.structs.replace(record, remark=f"the files could not be compared: {error}")

    def _diffs(self, workspace: Workspace, changes: list[Change]) -> Iterator[FileDiff]:
        room = DIFFS_CHARS
        for change in changes:
            text = workspace.text_diff(change, self.engine.redactor.redact)
            most = min(room, DIFF_CHARS)
            if len(text) > most:
                head, _, _ = text.partition("\n")
                text = f"{text[:most].rpartition(chr(10))[0] or head}\n[holdfast: the rest is left out]\n"
            room = max(0, room - len(text))
            yield FileDiff(shown(change.path), change.kind, text)


def _images(changes: list[Change]) -> Iterator[Image]:
    for change in changes:
        after = change.after
        if after is not None and after.is_file and PurePath(shown(change.path)).suffix.lower() in _IMAGES:
            yield Image(shown(change.path), after.ref.hex())
