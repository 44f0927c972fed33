"""Handlers: the governor, router, skill chooser, evidence writer and agents of an engine.

The engine asks for one by its name and knows no more of it. The first of these counts:

1. the one that the program gave: `Holdfast(handlers={"router": MyRouter})`; 2. the one that the setting
`handlers` names: `handlers = {router = "routing.py:MyRouter"}` in holdfast.toml. So
   `holdfast resume` and worker processes find it too. In a file of the project it needs trust, as all that
   names code;
3. the one that an installed package offers as an entry point in the group `holdfast.handlers`;
4. ours.

`handler_protocols` says what each must fulfil.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from holdfast.agents import handler_protocols as protocols
from holdfast.errors import BadInput, SettingsError

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
PROTOCOLS: Final[dict[str, type]] = {
    "governor": protocols.GovernorHandler,
    "router": protocols.RouterHandler,
    "skills": protocols.SkillsHandler,
    "evidence": protocols.EvidenceHandler,
    "agents": protocols.AgentsHandler,
}
"""Name → what a handler of one's own must have."""

Make = Callable[["Engine", "Settings"], Any]


class Handlers:
    """Makes each handler when it is first asked for, once for an engine. Thread-safe."""

    def __init__(
        self, settings: Settings, given: Mapping[str, Make] | None = None, root: Path | None = None
    ) -> None:
        """`root` is the project, in which the setting `handlers` finds files."""
        self._settings = settings
        self._given = dict(given or {})
        self._root = root
        unknown = sorted(set(self._given) - set(OURS))
        if unknown:
            raise BadInput(f"handlers={{{unknown[0]!r}: ...}}: there are {', '.join(OURS)}")
        self._made: dict[str, Any] = {}
        self._lock = threading.RLock()

    def __call__(self, engine: Engine, name: str) -> Any:
        """The handler of this name. Raises `SettingsError` for one that a setting names and that cannot be
        imported, `BadInput` for one that is not what the name stands for."""
        with self._lock:
            if name not in self._made:
                make = self._given.get(name) or self._named(name) or _offered(name) or _ours(name)
                self._made[name] = _checked(name, make(engine, self._settings))
            return self._made[name]

    def _named(self, name: str) -> Make | None:
        place = self._settings.handlers.get(name)
        if place is None:
            return None
        code, _, attribute = place.rpartition(":")
        try:
            module = _loaded(code, self._root or Path.cwd())
            make: Make = getattr(module, attribute)
        except Exception as error:
            raise SettingsError(
                f"the setting handlers names {place!r} as the {name}, which cannot be loaded "
                f"({type(error).__name__}: {error}); `holdfast config show` says where it is set"
            ) from error
        return make


def _loaded(code: str, root: Path) -> Any:
    """The module: a file relative to the project, or a module that is installed or in the project's root."""
    if not code.endswith(".py"):
        if str(root) not in sys.path:
            sys.path.append(str(root))
        return import_module(code)
    from importlib.util import module_from_spec, spec_from_file_location

    path = (root / code).resolve()
    name = f"holdfast_handlers_{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # classes are looked up by their module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _checked(name: str, handler: Any) -> Any:
    """The handler itself, if it has all methods that are called."""
    protocol = PROTOCOLS.get(name)
    needed = [] if protocol is None else [one for one in vars(protocol) if not one.startswith("_")]
    for method in needed:
        if not callable(getattr(handler, method, None)):
            raise BadInput(
                f"{type(handler).__name__} cannot be the handler {name!r}: it has no method {method}(); "
                f"holdfast.agents.handler_protocols says what it must have"
            )
    return handler


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
