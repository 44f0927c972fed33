"""Which events of a run count: those of its live generation, and what that has from those before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.kernel import events as e

_NO_CHANGE: Final = (e.OutputCaptured, e.OutcomeDelivered, e.StepMeasured, e.FilesSaved)
"""Events that name a step and do not change it."""


class _Generation:
    """The events that count in a generation, each with its step, and the last change of each step."""

    def __init__(self, events: Iterable[tuple[int, str]] = (), changed: dict[str, int] | None = None) -> None:
        self.events = list(events)
        self.changed = {} if changed is None else changed

    def add(self, version: int, event: e.Event) -> None:
        key: str = getattr(event, "key", "")
        self.events.append((version, key))
        if key and not isinstance(event, _NO_CHANGE):
            self.changed[key] = version

    def up_to(self, last: int) -> _Generation:
        """The steps that a rewind to that version keeps: none whose last change came after it."""
        kept = {key: version for key, version in self.changed.items() if version <= last}
        lost = self.changed.keys() - kept.keys()
        return _Generation(
            ((version, key) for version, key in self.events if version <= last and key not in lost), kept
        )


def live_versions(history: Iterable[tuple[int, e.Event]]) -> set[int]:
    """The versions of the events that count, of (version, event) from the first one on."""
    live = _Generation()
    generations = {0: live}
    for version, event in history:
        if isinstance(event, e.Rewound):
            parent = generations.get(event.parent, _Generation())
            live = generations[event.generation] = parent.up_to(event.version)
        elif isinstance(event, e.GenerationRestored):
            live = generations.setdefault(event.generation, _Generation())
        else:
            live.add(version, event)
    return {version for version, _ in live.events}
