"""Handlers: the governor, router, skill chooser, evidence writer and agents of an engine.

The engine asks for one by its name and knows no more of it. A handler that the caller of `Holdfast` gave
comes first, then one that an installed package offers as an entry point in the group `holdfast.handlers`,
then ours.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import BadInput

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.settings import Settings

GROUP: Final = "holdfast.handlers"
OURS: Final = {
    "governor": "holdfast.agents.governor:Governor",
    "router": "holdfast.agents.router:Router",
    "skills": "holdfast.agents.skills:Skills",
    "evidence": "holdfast.agents.evidence:EvidenceWriter",
    "agents": "holdfast.agents.config:Agents",
}
"""Name → the class of ours, which is called with (engine, settings)."""

Make = Callable[["Engine", "Settings"], Any]


class Handlers:
    """Makes each handler when it is first asked for, once for an engine. Thread-safe."""

    def __init__(self, settings: Settings, given: Mapping[str, Make] | None = None) -> None:
        self._settings = settings
        self._given = dict(given or {})
        unknown = sorted(set(self._given) - set(OURS))
        if unknown:
            raise BadInput(f"handlers={{{unknown[0]!r}: ...}}: there are {', '.join(OURS)}")
        self._made: dict[str, Any] = {}
        self._lock = threading.RLock()

    def __call__(self, engine: Engine, name: str) -> Any:
        """The handler of this name."""
        with self._lock:
            if name not in self._made:
                make = self._given.get(name) or _offered(name) or _ours(name)
                self._made[name] = make(engine, self._settings)
            return self._made[name]


def _offered(name: str) -> Make | None:
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP, name=name):
        make: Make = point.load()
        return make
    return None


def _ours(name: str) -> Make:
    module, _, attribute = OURS[name].partition(":")
    make: Make = getattr(import_module(module), attribute)
    return make
