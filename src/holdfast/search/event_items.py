"""Events of runs in the index: what a person would look for, not the output of commands.

Steps by name and arguments, errors, gates and their decisions with comments, what was emitted, signals,
stages, checkpoints, and why a run was paused, cancelled or needs a person. Steps that a rewind has left are
not found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast.errors import StoreCorrupt
from holdfast.kernel import events as e
from holdfast.search.item import Changes, Item, named_stream
from holdfast.search.live_history import live_versions
from holdfast.search.plain_text import error_text, text_of
from holdfast.search.run_items import ARCHIVED

if TYPE_CHECKING:
    from holdfast.redaction import Redactor
    from holdfast.store.port import Entry, Store

FAMILY: Final = "events"
_MOVES: Final = frozenset({"Rewound", "GenerationRestored"})


class _Text(NamedTuple):
    """The text of an event. `value` and `blob` are a value as the log has it, here or beside it."""

    kind: str
    title: str
    step: str = ""
    text: str = ""
    value: bytes = b""
    blob: str = ""


def _step(event: e.StepStarted | e.StepRan) -> _Text | None:
    """Once for each step, at its first attempt."""
    if isinstance(event, e.StepStarted) and event.attempt > 1:
        return None
    return _Text("step", event.name, event.key, "" if event.args else event.preview, bytes(event.args))


def _words(*parts: str) -> str:
    return "\n".join(filter(None, parts))


_TEXTS: Final[dict[str, Callable[[Any], _Text | None]]] = {
    "StepStarted": _step,
    "StepRan": _step,
    "StepAttemptFailed": lambda it: _Text("error", it.key, it.key, error_text(it.error)),
    "StepFailed": lambda it: _Text("error", it.key, it.key, error_text(it.error)),
    "StepInDoubt": lambda it: _Text("doubt", it.key, it.key, it.why),
    "StepSettled": lambda it: _Text(
        "settled", it.key, it.key, _words(it.outcome, it.by, error_text(it.error)), bytes(it.result), it.blob
    ),
    "GateOpened": lambda it: _Text("gate", it.name, it.key, "", bytes(it.show), it.blob),
    "GateDecided": lambda it: _Text("decision", it.key, it.key, _words(it.outcome, it.by, it.comment)),
    "CheckpointTaken": lambda it: _Text("checkpoint", it.name, it.key, "", bytes(it.data), it.blob),
    "StageEntered": lambda it: _Text("stage", it.name, it.key),
    "Emitted": lambda it: _Text("emitted", it.name, it.step or it.key, "", bytes(it.value)),
    "SignalReceived": lambda it: _Text("signal", it.name, "", it.by, bytes(it.value), it.blob),
    "RunNeedsAttention": lambda it: _Text("attention", it.cause, it.step, it.reason),
    "RunPaused": lambda it: _Text("paused", "paused", "", _words(it.reason, it.by)),
    "PauseRequested": lambda it: _Text("paused", "pause requested", "", _words(it.reason, it.by)),
    "RunCancelled": lambda it: _Text("cancelled", "cancelled", "", _words(it.reason, it.by)),
    "CancelRequested": lambda it: _Text("cancelled", "cancel requested", "", _words(it.reason, it.by)),
}


def decoded(entry: Entry) -> e.Event:
    """The event; `Unknown` for one that is damaged."""
    try:
        return e.decode(entry.type, entry.payload)
    except msgspec.MsgspecError:  # damaged, which `audit verify` reports
        return e.Unknown(entry.type, "")


def _text_of(entry: Entry) -> _Text | None:
    event = decoded(entry)
    return None if isinstance(event, e.Unknown) else _TEXTS[entry.type](event)


class EventItems:
    """An event is found by its step, its name and its text; its key is the id of its run."""

    name = FAMILY
    types = frozenset(_TEXTS) | _MOVES | {ARCHIVED}

    def __init__(self, store: Store, redactor: Redactor) -> None:
        self._store = store
        self._redactor = redactor
        self._last: dict[str, int] = {}
        """Run → the version of its last event in this batch."""
        self._moved: set[str] = set()
        self._names: dict[str, str] = {}

    def take(self, entry: Entry, changes: Changes) -> None:
        if entry.type == ARCHIVED:
            gone = named_stream(entry)
            changes.drop(FAMILY, gone)
            self._moved.discard(gone)
            return
        self._last[entry.stream] = entry.version
        if entry.type in _MOVES:
            self._moved.add(entry.stream)
        else:
            self._put(entry, changes)

    def finish(self, changes: Changes) -> None:
        for run_id in self._moved:
            last = self._last[run_id]
            entries = [one for one in self._store.entries(run_id) if one.version <= last]
            live = live_versions((one.version, decoded(one)) for one in entries)
            changes.drop(FAMILY, run_id)
            for entry in entries:
                if entry.type in _TEXTS and entry.version in live:
                    self._put(entry, changes)
        self._moved.clear()
        self._last.clear()

    def _put(self, entry: Entry, changes: Changes) -> None:
        said = _text_of(entry)
        if said is None:
            return
        changes.put(
            Item(
                entry.position,
                FAMILY,
                entry.stream,
                entry.version,
                said.kind,
                at=entry.at,
                step=self._shown(said.step),
                title=self._shown(said.title),
                body=_words(self._redactor.redact(said.text), self._value(said)),
            )
        )

    def _value(self, said: _Text) -> str:
        try:
            return text_of(self._store.blob(said.blob) if said.blob else said.value, self._redactor)
        except StoreCorrupt:  # gone: its run was archived meanwhile; or damaged, which `audit verify` reports
            return ""

    def _shown(self, name: str) -> str:
        """Redacted; names are few, and each occurs often."""
        found = self._names.get(name)
        if found is None:
            found = self._names[name] = self._redactor.redact(name)
        return found
