"""How commands get at a store: to read it, or to execute runs on it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from holdfast import wiring
from holdfast.cli import app
from holdfast.cli.terminal import err, hear_warnings
from holdfast.engine.outside.reading import Reading
from holdfast.errors import NotFound, RunNotFound
from holdfast.sizes import amount

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.engine.files.workspaces import Files
    from holdfast.engine.outside.records import LogEvent, RunInfo
    from holdfast.store.sqlite import SqliteStore


class Opened(msgspec.Struct, frozen=True):
    place: wiring.Place
    store: SqliteStore
    reading: Reading

    def run(self, text: str) -> RunInfo:
        """The run that `text` is the id of, or the only possible beginning of it."""
        run = self.reading.run(self.reading.find(text))
        if run is None:
            raise RunNotFound(text)
        return run


def find_place(*, create: bool = False, home: Path | None = None) -> wiring.Place:
    """Where the store is. Without `create` nothing is written, and NotFound is raised if there is none. With
    `home`, the store is there, whatever project the working directory is of."""
    return wiring.find_place(
        {"home": app.home() if home is None else str(home)}, create=create, names_run=_names_run()
    )


def _names_run() -> bool:
    """Whether this command line names a run, or an operation on one."""
    context = click.get_current_context(silent=True)
    given = context.params if context else {}
    return any(given.get(name) for name in ("run", "operation", "parent"))


@contextmanager
def open_to_read(place: wiring.Place | None = None) -> Iterator[Opened]:
    """An existing store, to be read. Imports no engine."""
    place = place or find_place()
    store = wiring.open_store(place)
    try:
        yield Opened(place, store, Reading(store, place.home, lambda: wiring.open_redactor(place)))
    finally:
        store.close()


@contextmanager
def open_files() -> Iterator[Files]:
    """The workspace, to be looked at. Where there is no store yet none is made: what a snapshot needs to keep
    goes to a directory that is removed."""
    with ExitStack() as stack:
        hear_warnings()
        try:
            place = find_place()
        except NotFound:
            from tempfile import TemporaryDirectory

            scratch = stack.enter_context(TemporaryDirectory(prefix="holdfast-"))
            place = wiring.find_place({"home": scratch})
        files = wiring.open_files(place, on_progress=show_scan if err.is_live else None)
        stack.callback(files.close)
        if err.is_live:
            stack.callback(clear_progress)
        yield files


def show_scan(entries: int, size: int) -> None:
    err.draw(f"looking at the files: {entries:,} ({amount(size)} read)")


def clear_scan(event: LogEvent) -> None:
    """Clear the progress of a scan of the files when they are saved."""
    if event.type == "FilesSaved":
        clear_progress()


def clear_progress() -> None:
    """Nothing is drawn any more: what comes next begins at the left."""
    if err.is_live:
        err.draw()


@contextmanager
def open_to_execute(
    place: wiring.Place | None = None,
    *,
    create: bool = False,
    home: Path | None = None,
    on_event: Callable[[LogEvent], None] | None = None,
    on_output: Callable[[str, str, str, str], None] | None = None,
    to_look: bool = False,
    root: Path | None = None,
    only_missing: bool = False,
    opened: Opened | None = None,
) -> Iterator[tuple[Opened, Engine]]:
    """A store with an engine on it: that of `place`, or the one that is found. At the end live runs are
    stopped and released. With `to_look` no operation that was cut off is finished, and no backup is made.
    `root` and `only_missing` as for `wiring.open_engine`. `opened` is the same store as the caller has opened
    it; it is closed here."""
    gc.enable()
    hear_warnings()
    place = place or find_place(create=create, home=home)
    store = _open_store(place, opened)
    try:
        engine = open_engine(
            place,
            store,
            on_event=on_event,
            on_output=on_output,
            to_look=to_look,
            root=root,
            only_missing=only_missing,
        )
        try:
            yield Opened(place, store, Reading(store, place.home, lambda: engine.redactor)), engine
        finally:
            engine.close()
            if engine.files.on_progress is not None:
                clear_progress()
    finally:
        store.close()


def _open_store(place: wiring.Place, opened: Opened | None) -> SqliteStore:
    """The store that is open already, unless the settings of `place` ask for another durability."""
    if opened is not None:
        durability = place.resolved.settings.durability
        if (
            opened.place.home.resolve() == place.home.resolve()
            and opened.place.resolved.settings.durability == durability
        ):
            return opened.store
        opened.store.close()
    return wiring.open_store(place)


def open_engine(
    place: wiring.Place,
    store: SqliteStore,
    *,
    on_event: Callable[[LogEvent], None] | None = None,
    on_output: Callable[[str, str, str, str], None] | None = None,
    to_look: bool = False,
    root: Path | None = None,
    only_missing: bool = False,
) -> Engine:
    """An engine on the store. On a terminal it draws how far it is with looking at the files, unless
    `on_event` draws there."""
    draws = on_event is None and err.is_live
    return wiring.open_engine(
        place,
        store,
        on_event=clear_scan if draws else on_event,
        on_output=on_output,
        on_progress=show_scan if draws else None,
        root=root,
        only_missing=only_missing,
        to_look=to_look,
    )
