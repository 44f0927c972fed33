"""How commands get at a store: to read it, or to execute runs on it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from holdfast import wiring
from holdfast.cli import app
from holdfast.cli.drawing.terminal import err, say, show_warnings
from holdfast.errors import NotFound
from holdfast.handle import Holdfast

if TYPE_CHECKING:
    from holdfast import LogEvent
    from holdfast.views.run_detail import RunDetail

T = TypeVar("T")


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


def detail(hf: Holdfast, text: str) -> RunDetail:
    """The run that `text` is the id of, or the only possible beginning of it."""
    return hf.get(hf.find(text))


@contextmanager
def open_to_read(place: wiring.Place | None = None) -> Iterator[Holdfast]:
    """An existing store, to be read. Imports no engine, unless files are looked at."""
    with scan_shown() as on_scan, Holdfast.at(place or find_place(), read_only=True, on_scan=on_scan) as hf:
        yield hf


def read_list(none_yet: str, read: Callable[[Holdfast], list[T]], named: object | None = None) -> list[T]:
    """What `read` finds in the store. A project without a store has nothing, and that is no mistake: an empty
    list, and a remark that begins with `none_yet`. But `NotFound` is raised if the command line has `named`
    something in it."""
    try:
        with open_to_read() as hf:
            return read(hf)
    except NotFound as error:
        if named is not None:
            raise
        say(f"{none_yet}: {error}")
        return []


@contextmanager
def open_to_keep() -> Iterator[Holdfast]:
    """An existing store, to be archived or repaired: nothing that was cut off is finished first."""
    with Holdfast.at(find_place(), finish=False) as hf:
        yield hf


@contextmanager
def open_to_track() -> Iterator[Holdfast]:
    """The store, to change tasks; made if there is none. No engine is opened, and nothing that was cut off is
    finished first."""
    with Holdfast.at(find_place(create=True), finish=False) as hf:
        yield hf


def open_for(dry_run: bool) -> AbstractContextManager[Holdfast]:
    """A store for an operation, or for a preview of one: that finishes nothing that was cut off."""
    return open_to_read() if dry_run else open_to_execute()


@contextmanager
def open_to_execute(
    *,
    create: bool = False,
    home: Path | None = None,
    reading: Holdfast | None = None,
    on_event: Callable[[LogEvent], None] | None = None,
    on_output: Callable[[str, str, str, str], None] | None = None,
) -> Iterator[Holdfast]:
    """The store that is found, with an engine on it. At the end live runs are stopped and released. `reading`
    has the store open already, and is closed. On a terminal it draws the progress of a scan of the files,
    unless `on_event` draws there."""
    gc.enable()
    show_warnings()
    place = find_place(create=create, home=home)
    with ExitStack() as stack:
        on_scan = None
        if on_event is None:
            on_scan = stack.enter_context(scan_shown())
            on_event = clear_scan if on_scan is not None else None
        yield stack.enter_context(
            Holdfast.at(place, reading=reading, on_event=on_event, on_output=on_output, on_scan=on_scan)
        )


@contextmanager
def scan_shown() -> Iterator[Callable[[int, int], None] | None]:
    """Draw the progress of a scan of the files, on a terminal; what was drawn is cleared at the end."""
    drawn = False

    def draw(entries: int, size: int) -> None:
        nonlocal drawn
        drawn = True
        show_scan(entries, size)

    try:
        yield draw if err.is_live else None
    finally:
        if drawn:
            clear_progress()


def show_scan(entries: int, size: int) -> None:
    """Draw how far a scan of the files is; (0, 0) is its end."""
    if not entries:
        clear_progress()
        return
    from holdfast.sizes import amount  # `list` does without

    err.draw(f"looking at the files: {entries:,} ({amount(size)} read)")


def clear_scan(event: LogEvent) -> None:
    """Clear the progress of a scan of the files when they are saved."""
    if event.type == "FilesSaved":
        clear_progress()


def clear_progress() -> None:
    """Clear what is drawn: the next line begins at the left."""
    if err.is_live:
        err.draw()
