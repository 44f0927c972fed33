"""A search without an index, written independently: each item is looked through, word by word.

It reads redacted views and the kernel's fold, and knows nothing of `holdfast.search`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.kernel import events as e
from holdfast.kernel.evolve import fold
from holdfast.store.port import Recorded, Store
from holdfast.views.reader import Reader


class Doc(NamedTuple):
    """An item with its texts: names, body, and the rest."""

    family: str
    key: str
    version: int
    kind: str
    status: str
    at: int
    hidden: bool
    columns: tuple[str, ...]

    @property
    def place(self) -> tuple[str, str, int]:
        return self.family, self.key, self.version


def words(text: str) -> list[str]:
    """Letters and digits, without case and accents; an ideograph is a word."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)).lower()
    return re.findall(r"[一-鿿]|(?:(?![一-鿿])[^\W_])+", plain)


def fits(doc: Doc, query: Sequence[tuple[bool, list[str], bool]]) -> bool:
    """Whether the item has every wanted term, and none of the others. A term is (wanted, words, prefix)."""
    texts = [words(column) for column in doc.columns]
    return all(any(_has(text, term, prefix) for text in texts) == wanted for wanted, term, prefix in query)


def _has(text: list[str], term: list[str], prefix: bool) -> bool:
    for at in range(len(text) - len(term) + 1):
        part = text[at : at + len(term)]
        if part[:-1] == term[:-1] and (part[-1].startswith(term[-1]) if prefix else part[-1] == term[-1]):
            return True
    return False


def leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from [] if name.startswith("$") else [name]
            yield from leaves(one)
    elif isinstance(value, list):
        for one in value:
            yield from leaves(one)
    elif isinstance(value, str):
        yield value
    elif value is not None and value is not True and value is not False:
        yield str(value)


def run_docs(store: Store, reader: Reader) -> Iterator[Doc]:
    for run in reader.runs():
        detail = reader.detail(run.id)
        given = detail.whole_input
        text = [*leaves(given.args if given else []), *leaves(given.kwargs if given else {}), run.reason]
        if run.status == "failed" and detail.error is not None:
            text.append(detail.error.sentence)
        columns = (f"{run.id} {run.title} {run.workflow}", " ".join(text), f"{run.status} {run.stage}")
        yield Doc("runs", run.id, 0, "run", run.status, 0, False, columns)


FIELDS: dict[str, tuple[str, ...]] = {
    "StepStarted": ("key", "name", "args"),
    "StepRan": ("key", "name", "args"),
    "StepAttemptFailed": ("key", "error"),
    "StepFailed": ("key", "error"),
    "StepInDoubt": ("key", "why"),
    "StepSettled": ("key", "outcome", "by", "error", "result"),
    "GateOpened": ("key", "name", "show"),
    "GateDecided": ("key", "outcome", "by", "comment"),
    "CheckpointTaken": ("key", "name", "data"),
    "StageEntered": ("key", "name"),
    "Emitted": ("step", "key", "name", "value"),
    "SignalReceived": ("name", "by", "value"),
    "RunNeedsAttention": ("step", "cause", "reason"),
    "RunPaused": ("reason", "by"),
    "PauseRequested": ("reason", "by"),
    "RunCancelled": ("reason", "by"),
    "CancelRequested": ("reason", "by"),
}
SAID = {
    "RunPaused": "paused",
    "PauseRequested": "pause requested",
    "RunCancelled": "cancelled",
    "CancelRequested": "cancel requested",
}
KINDS = {
    "StepStarted": "step", "StepRan": "step", "StepAttemptFailed": "error", "StepFailed": "error",
    "StepInDoubt": "doubt", "StepSettled": "settled", "GateOpened": "gate", "GateDecided": "decision",
    "CheckpointTaken": "checkpoint", "StageEntered": "stage", "Emitted": "emitted",
    "SignalReceived": "signal", "RunNeedsAttention": "attention", "RunPaused": "paused",
    "PauseRequested": "paused", "RunCancelled": "cancelled", "CancelRequested": "cancelled",
}  # fmt: skip


def event_docs(store: Store, reader: Reader) -> Iterator[Doc]:
    for run in reader.runs():
        live = live_events(store.load(run.id))
        for event in reader.events(run.id):
            if event.type not in FIELDS or event.version not in live:
                continue
            if event.type == "StepStarted" and event.data.get("attempt", 1) > 1:
                continue
            yield Doc(
                "events", run.id, event.version, KINDS[event.type], run.status, 0, False, (_text(event),)
            )


def _text(event: Any) -> str:
    data = dict(event.data)
    if not data.get("args") and "args" in FIELDS[event.type]:
        data["args"] = data.get("preview", "")
    if event.type == "Emitted" and data.get("step"):
        data.pop("key", None)
    error = data.get("error")
    if error is not None:
        kind = error["type"].partition(":")[2]
        data["error"] = f"{kind}: {error['message']}" if error.get("message") else kind
    found = [SAID.get(event.type, "")]
    for name in FIELDS[event.type]:
        found += leaves(data.get(name))
    if event.type in ("StepAttemptFailed", "StepFailed", "StepInDoubt", "StepSettled", "GateDecided"):
        found.insert(0, data["key"])
    return " ".join(filter(None, found))


def live_events(history: Sequence[Recorded]) -> set[int]:
    """By the kernel's own fold: a step is what its last change, the one before it, and so on, made of it."""
    states = [None, *(fold(history[: n + 1]) for n in range(len(history)))]
    at = {one.version: n + 1 for n, one in enumerate(history)}
    found: set[int] = set()
    final = states[-1]
    assert final is not None
    for key, step in final.steps.items():
        version = step.version
        while version:
            found.add(version)
            before = states[at[version] - 1]
            held = before.steps.get(key) if before is not None else None
            version = 0 if held is None else held.version
    return found | _without_a_step(history)


def _without_a_step(history: Sequence[Recorded]) -> set[int]:
    """The events that name no step: those of the live line of generations."""
    lines: dict[int, list[int]] = {0: []}
    now = 0
    for event, version, _ in history:
        if isinstance(event, e.Rewound):
            now = event.generation
            lines[now] = [one for one in lines[event.parent] if one <= event.version]
        elif isinstance(event, e.GenerationRestored):
            now = event.generation
        elif not getattr(event, "key", ""):
            lines[now].append(version)
    return set(lines[now])


def everything(store: Store, reader: Reader) -> list[Doc]:
    return [*run_docs(store, reader), *event_docs(store, reader)]


def as_data(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw) if bytes(raw) else None
