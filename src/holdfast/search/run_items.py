"""Runs in the index: each is one item, as it is now."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdfast.errors import StoreCorrupt
from holdfast.search.item import Changes, Item, named_stream
from holdfast.search.plain_text import text_in
from holdfast.views.run_input import input_of

if TYPE_CHECKING:
    from holdfast.redaction import Redactor
    from holdfast.store.port import Entry, Store
    from holdfast.views.reader import Reader
    from holdfast.views.records import RunInfo

FAMILY: Final = "runs"
_BEGINS: Final = "RunCreated"
ARCHIVED: Final = "StreamArchived"


class RunItems:
    """A run is found by its id, workflow, title, input, status, stage, and why it stopped or failed."""

    name = FAMILY
    types = frozenset(
        {
            _BEGINS, ARCHIVED, "RunClaimed", "RunReleased", "RunReopened", "RunNeedsAttention",
            "RunCompleted", "RunFailed", "RunCancelled", "RunPaused", "RunForked", "Rewound",
            "GenerationRestored", "StageEntered", "SleepStarted", "SleepEnded", "GateOpened", "GateDecided",
            "WaitAbandoned", "StepSettled",
        }
    )  # fmt: skip
    """Events that change a line of `list`."""

    def __init__(self, store: Store, reader: Reader) -> None:
        self._store = store
        self._reader = reader
        self._begun: dict[str, int] = {}
        self._changed: dict[str, int] = {}

    def take(self, entry: Entry, changes: Changes) -> None:
        if entry.type == ARCHIVED:
            gone = named_stream(entry)
            changes.drop(FAMILY, gone)
            self._changed.pop(gone, None)
            return
        if entry.type == _BEGINS:
            self._begun[entry.stream] = entry.position
        self._changed[entry.stream] = entry.at

    def finish(self, changes: Changes) -> None:
        for run_id, at in self._changed.items():
            info = self._reader.run(run_id)
            id = self._begun.get(run_id) or changes.id_of(FAMILY, run_id)
            if info is None:
                changes.drop(FAMILY, run_id)
            elif id is not None:
                changes.put(self._item(info, id, at))
        self._begun.clear()
        self._changed.clear()

    def _item(self, info: RunInfo, id: int, at: int) -> Item:
        return Item(
            id,
            FAMILY,
            info.id,
            kind="run",
            status=info.status,
            at=at,
            title=info.title,
            body="\n".join(filter(None, (self._input(info), info.reason, self._error(info)))),
            rest="\n".join(filter(None, (info.status, info.stage))),
            names=info.workflow,
        )

    def _input(self, info: RunInfo) -> str:
        """Also where it is so large that it is stored beside the log."""
        given = info.input
        if given is None:
            ((_, created),) = self._store.creations([info.id])
            given = input_of(created, self._redactor, self._store.blob)
        return "" if given is None else text_in([given.args, given.kwargs])

    def _error(self, info: RunInfo) -> str:
        """As `show` prints it: the error of the live generation."""
        try:
            error = self._reader.detail(info.id).error if info.status == "failed" else None
        except StoreCorrupt:  # which `audit verify` reports
            return ""
        return "" if error is None else "\n".join((error.sentence, *error.members))

    @property
    def _redactor(self) -> Callable[[], Redactor]:
        return lambda: self._reader.redactor
