"""Puts the parts together: finds project, home and settings, opens store and engine.

The only module below the CLI that reads the environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast import project
from holdfast.clock import Clock, SystemClock
from holdfast.errors import NotFound
from holdfast.settings import Resolved, load

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.engine.records import LogEvent
    from holdfast.redaction import Redactor
    from holdfast.store.sqlite import SqliteStore


class Place(msgspec.Struct, frozen=True):
    """Where this process works: the project's root, the store's directory, the settings."""

    root: Path
    home: Path
    resolved: Resolved


def find_place(flags: Mapping[str, Any] | None = None, *, create: bool = True) -> Place:
    """As the CLI and `Holdfast()` both resolve it, so that both see the same store.

    With `create=False` nothing is written; raises `NotFound` if there is no store yet.
    """
    environ = os.environ
    cwd = Path.cwd()
    root = project.find_root(cwd, environ=environ)
    resolved = load(root=root, environ=environ, flags=flags or {})
    chosen = resolved.settings.home
    if chosen is not None:
        if not create and not (project.expand(chosen, environ=environ, cwd=cwd) / "holdfast.db").exists():
            raise NotFound(f"there is no store in {chosen} yet; `holdfast run` makes one")
        home = project.explicit_home(chosen, environ=environ, cwd=cwd)
    else:
        home = project.open_project(
            root, project.data_home(environ), mint=lambda: os.urandom(4).hex(), create=create
        ).home
    return Place(root, home, resolved)


def open_store(place: Place) -> SqliteStore:
    from holdfast.store.sqlite import SqliteStore

    return SqliteStore(place.home, durability=place.resolved.settings.durability)


def open_redactor(place: Place) -> Redactor:
    from holdfast.redaction import Redactor

    return Redactor(place.resolved.settings.redact)


def open_engine(
    place: Place,
    store: SqliteStore,
    *,
    clock: Clock | None = None,
    on_event: Callable[[LogEvent], None] | None = None,
    on_output: Callable[[str, str, str, str], None] | None = None,
) -> Engine:
    from holdfast.engine.engine import Engine, Options

    settings = place.resolved.settings
    options = Options(
        flush_after_s=settings.flush_after_ms / 1000,
        blob_over=settings.blob_over_bytes,
        recover_limit=settings.recover_limit,
        crash_loop_after=settings.crash_loop_after,
    )
    return Engine(
        store, place.home, clock or SystemClock(), open_redactor(place), options, on_event, on_output
    )
