"""Opens the store and the engine of a place, and passes them the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from holdfast.clock import Clock, SystemClock
from holdfast.wiring.place import Place, may_have_store
from holdfast.wiring.place_backups import back_up_changes
from holdfast.wiring.place_trust import doubted_settings, is_own, prove_own
from holdfast.wiring.tracker_author import actor, code_here, open_tracker

if TYPE_CHECKING:
    from holdfast.agents.handlers import Handlers, Make
    from holdfast.engine.engine import Engine
    from holdfast.engine.files.workspaces import Files
    from holdfast.engine.outside.records import LogEvent
    from holdfast.engine.runs.code_location import Location
    from holdfast.kernel.author import Author
    from holdfast.kernel.state import RunState
    from holdfast.redaction import Redactor
    from holdfast.store.port import Companion, NewEvent
    from holdfast.store.sqlite.store import SqliteStore


def open_store(place: Place) -> SqliteStore:
    """Open the store; one that is made here, by this user, is known as such from then on."""
    from holdfast.store.sqlite.store import SqliteStore

    is_new = not may_have_store(place.home)
    store = SqliteStore(place.home, durability=place.resolved.settings.durability)
    if is_new:
        prove_own(place.home)
    return store


def schema_version() -> int:
    """The newest schema of a store that this holdfast knows."""
    from holdfast.store.sqlite import sql

    return sql.schema_version()


def open_redactor(place: Place) -> Redactor:
    from holdfast.redaction import Redactor

    return Redactor(place.resolved.settings.redact)


_places: WeakKeyDictionary[Engine, Place] = WeakKeyDictionary()


def place_of_run() -> Place | None:
    """The place of the run whose code is executing here; None outside of runs."""
    inside = code_here()
    return None if inside is None else _places.get(inside.execution.engine)


def open_engine(
    place: Place,
    store: SqliteStore,
    *,
    clock: Clock | None = None,
    on_event: Callable[[LogEvent], None] | None = None,
    on_output: Callable[[str, str, str, str], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    to_look: bool = False,
    root: Path | None = None,
    only_missing: bool = False,
    handlers: Mapping[str, Make] | None = None,
) -> Engine:
    """An engine on the store. Opening it finishes operations that were cut off and makes the backup that the
    settings ask for; not so `to_look`, which leaves all as it is. `root` is where the project is now, if the
    user names it, with `only_missing` only for runs whose own project is gone."""
    from holdfast.agents.handlers import Handlers
    from holdfast.engine.engine import Engine, Options

    settings = place.resolved.settings
    if settings.backup_on_start and not to_look:
        back_up_changes(place, store, clock)
    options = Options(
        flush_after_s=settings.flush_after_ms / 1000,
        blob_over=settings.blob_over_bytes,
        resume=settings.resume,
        checkpoint_every=settings.checkpoint_every,
        recover_limit=settings.recover_limit,
        crash_loop_after=settings.crash_loop_after,
        tool_repeats=settings.tool_repeats,
        capture_output=settings.capture_output,
    )
    engine = Engine(
        store,
        place.home,
        clock or SystemClock(),
        open_redactor(place),
        options,
        on_event,
        on_output,
        open_files(place, on_progress=on_progress),
        find_location(place, root, only_missing=only_missing),
        _finish_operation,
        partial(keep_to_quota, place),
        partial(_companions, place, store),
        partial(
            _handler,
            Handlers(doubted_settings(place.root, place.resolved), handlers, place.root),
            place,
            store,
            clock,
        ),
    )
    _places[engine] = place
    if not to_look and (place.home / "operations").is_dir():
        from holdfast.operations.cut_off import recover

        recover(engine)
    return engine


def _handler(
    handlers: Handlers, place: Place, store: SqliteStore, clock: Clock | None, engine: Engine, name: str
) -> Any:
    """A handler by its name. `tracker` is that of the store: what a built-in workflow writes down."""
    if name == "tracker":
        return open_tracker(place, store, lambda: engine.redactor, clock)
    return handlers(engine, name)


def _companions(
    place: Place, store: SqliteStore, run: str, state: RunState, events: Sequence[NewEvent]
) -> Sequence[Companion]:
    """The effect of a run's end on the task that it was started for. A session that the settings name and the
    store lacks does not stop the run: the end is recorded in none."""
    from holdfast.tracker.run_end import companions

    named = place.resolved.settings.session

    def writer() -> Author:
        from holdfast.kernel.author import Author
        from holdfast.tracker.sessions import exists

        session = named if named and exists(store, named) else ""
        return Author(actor(place), session, run, state.generation, "", state.version)

    return companions(run, state.task, events, writer)


def find_location(place: Place, given: Path | None = None, *, only_missing: bool = False) -> Location:
    """How the code of the store's runs is found from here; `given` and `only_missing` as for `Location`."""
    from holdfast.engine.runs.code_location import Location

    return Location(place.home, place.root.resolve(), given, only_missing=only_missing)


def open_files(place: Place, *, on_progress: Callable[[int, int], None] | None = None) -> Files:
    """The workspaces of the store."""
    from holdfast.engine.files.workspaces import Files

    largest = int(place.resolved.settings.largest_ignored_mb * 1024 * 1024)
    own = partial(is_own, place.home)
    return Files(place.home, place.workspace, largest, is_own=own, on_progress=on_progress)


def _finish_operation(engine: Engine, operation: str) -> bool:
    from holdfast.operations.cut_off import settle

    return settle(engine, operation)


def keep_to_quota(place: Place, engine: Engine) -> None:
    """After runs were executed: what is saved of files goes back to what it may take. Who only looks at a
    store, or is about to put files back, never gives up what is saved."""
    quota = quota_of(place)
    if quota:
        from holdfast.operations import quota as quotas

        quotas.keep_to(engine, quota)


def quota_of(place: Place) -> int:
    """The quota of saved files, in bytes; 0 for no limit."""
    return int(place.resolved.settings.workspace_quota_mb * 1024 * 1024)
