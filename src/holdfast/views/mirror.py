"""The mirror as plain data: whether it is current, what was kept aside, what an edited file would change."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from holdfast.json_view import View


class MirrorFault(View, frozen=True):
    """A file of the mirror that is not as holdfast wrote it."""

    path: str
    fault: str

    JSON: ClassVar = {"path": "in the mirror's directory", "fault": "`edited`, `torn` or `missing`"}


class MirrorStatus(View, frozen=True):
    """Whether the mirror shows what the log has. The next drain writes the files of `faults` again, and keeps
    aside what is there. `JSON` says what each field is."""

    directory: str | None
    off: str = ""
    is_current: bool = False
    behind: int = 0
    written_at: datetime | None = None
    cursor: str = ""
    files: int = 0
    faults: tuple[MirrorFault, ...] = ()
    kept: tuple[str, ...] = ()
    shows: str = ""
    ahead: tuple[str, ...] = ()
    importable: tuple[str, ...] = ()

    JSON: ClassVar = {
        "directory": "where it is; null if there is none",
        "off": "why there is none; empty if there is one",
        "is_current": "whether its files show every event of the log, as holdfast wrote them",
        "behind": "how many events it does not show",
        "written_at": "when it was last written; null if it never was",
        "cursor": "of the feed: its files show all events up to it",
        "files": "how many files it has",
        "faults": "files that were edited, are torn, or are missing",
        "kept": "files that were kept aside, in the mirror's directory",
        "shows": "whose events: `own`; `ahead`, if it has events of this store that the log has not; "
        "`earlier`, if they are of this store before a restore or a repair; `other`, if they are of another "
        "store; null if there is none",
        "ahead": "of `kept`, journals with events that the log has lost: `holdfast repair` examines them",
        "importable": "files that were kept aside or edited and say something that the store does not have: "
        "`holdfast mirror import` shows it",
    }
    JSON_NULL: ClassVar = ("shows",)


class MirrorRebuilt(View, frozen=True):
    """The mirror was made again from the log."""

    directory: str
    events: int
    replaced: int
    kept: tuple[str, ...] = ()
    files: int = 0

    JSON: ClassVar = {
        "directory": "where it is",
        "events": "how many events its files show",
        "replaced": "how many files were written",
        "kept": "a sentence for each file that was kept aside",
        "files": "how many files it has, as `mirror status` counts them",
    }


class ImportChange(View, frozen=True):
    """One thing that an edited file says and the store does not."""

    action: str
    target: str
    fields: dict[str, Any]

    JSON: ClassVar = {
        "action": "`create`, `edit`, `claim`, `complete`, `fail`, `release`, `note` or `remember`",
        "target": "the task, or the memory that is superseded; null if it is new",
        "fields": "what is recorded, by name",
    }
    JSON_NULL: ClassVar = ("target",)


class MirrorImport(View, frozen=True):
    """The changes that an edited file leads to. `applied`: they are recorded. `refused` has a sentence for
    each change that was refused as it would be by hand, `left` one for each thing that cannot be imported."""

    file: str
    changes: tuple[ImportChange, ...]
    applied: bool
    left: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    JSON: ClassVar = {
        "file": "that was read",
        "changes": "what it says and the store does not; if they were recorded, without those refused",
        "applied": "whether they were recorded",
        "left": "a sentence for each thing in the file that cannot be imported",
        "refused": "a sentence for each change that was refused",
    }
