"""The checks of `doctor`: settings, disk, database, owners, runs, operations, backups."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from holdfast import wiring
from holdfast.clock import ago
from holdfast.counts import counted
from holdfast.errors import HoldfastError, NotFound, NotTrusted, SettingsError, StoreError
from holdfast.project import DATABASE
from holdfast.sizes import amount
from holdfast.version import __version__
from holdfast.views.check import Check
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from holdfast.store.sqlite.store import SqliteStore
    from holdfast.views.reader import Reader
    from holdfast.wiring import Place

_LITTLE_ROOM = 100 * 2**20


def examine(home: str | None = None) -> Iterator[Check]:
    """Every check of the place that is found from here, as far as its faults permit."""
    yield _program()
    try:
        place = wiring.find_place({"home": home}, create=False)
    except SettingsError as error:
        yield Check("settings", "bad", str(error), error.exit_code)
    except NotTrusted as error:
        yield Check("trust", "bad", str(error), error.exit_code)
    except NotFound as error:
        yield Check("settings", "good", "no faults")
        yield _without_store(home, error)
    except HoldfastError as error:
        yield Check("store", "bad", str(error), error.exit_code)
    else:
        yield from _examine_place(place, None)


def _without_store(home: str | None, error: NotFound) -> Check:
    """The check of a place without a store: there is none yet, or a mirror of one is left."""
    try:
        place = wiring.find_place({"home": home}, create=False, needs_store=False)
        left = wiring.left_mirror(place)
    except HoldfastError:
        left = None
    if left is None or not left.has_journal:
        return Check("store", "note", str(error))
    mirror = f"there is no store in {place.home}, and {left.directory} is the mirror of one"
    way = quoted(Way("repair", arguments={"from": str(left.journal)}))
    return Check("store", "note", f"{mirror} that may not be yours; if it is, {way} rebuilds what it has")


def examine_open(place: Place, store: SqliteStore) -> Iterator[Check]:
    """The same of a store that is open."""
    yield _program()
    yield from _examine_place(place, store)


def _program() -> Check:
    import sys

    return Check("holdfast", "good", f"{__version__} on Python {sys.version.split()[0]}")


def _examine_place(place: Place, store: SqliteStore | None) -> Iterator[Check]:
    changed = [key for key, origin in place.resolved.origins.items() if origin.kind != "default"]
    said = f"set here: {', '.join(changed)}" if changed else "all have their defaults"
    yield Check("settings", "good", said)
    yield from _disk(place)
    try:
        yield from _file(place)
        if store is None:
            store = wiring.open_store(place)
            try:
                yield from _store(place, store)
            finally:
                store.close()
        else:
            yield from _store(place, store)
        yield from _backups(place)
    except HoldfastError as error:
        yield Check("store", "bad", str(error), error.exit_code)


def _store(place: Place, store: SqliteStore) -> Iterator[Check]:
    from holdfast.views.reader import Reader

    reader = Reader(store, place.home, lambda: wiring.open_redactor(place))
    yield _owners(reader)
    yield _runs(reader)
    yield from _operations(place, store)


def _disk(place: Place) -> Iterator[Check]:
    from shutil import disk_usage

    from holdfast.store.sqlite.database_file import filesystem

    free = disk_usage(place.home).free
    kind = filesystem(place.home) or "unknown filesystem"
    verdict: Literal["good", "bad"] = "good" if free > _LITTLE_ROOM else "bad"
    yield Check("disk", verdict, f"{amount(free)} free on {kind}", StoreError.exit_code)
    mode = place.home.stat().st_mode & 0o777
    if mode & 0o077:
        yield Check("privacy", "note", f"{place.home} can be read by others; `chmod 700` it")


def _file(place: Place) -> Iterator[Check]:
    from holdfast.store.sqlite.database_file import extent, facts

    path = place.home / DATABASE
    if not path.exists():
        return  # the error of opening it names what to do
    known = facts(path)
    lost = None if known.problems else wiring.lost_end(place)
    advice = f"{quoted(Way('repair', arguments={'dry_run': True}))} says what can be saved"
    if known.problems:
        first = f"{counted(len(known.problems), 'problem')}, the first: {known.problems[0]}"
        yield Check("integrity", "bad", f"{first}; {advice}", StoreError.exit_code)
    elif lost is not None:
        yield Check("integrity", "bad", f"{lost.what}; {advice}", StoreError.exit_code)
    else:
        way = quoted(Way("audit verify"))
        yield Check("integrity", "good", f"quick check found nothing; {way} checks the log")
    if not known.problems:
        for kept, count in wiring.kept_journals(place).items():
            if lost is not None and kept == lost.journal:
                continue
            way = quoted(Way("repair", arguments={"from": str(kept)}))
            events = f"{counted(count, 'event')} that the store does not have"
            yield Check(
                "journal", "note", f"{kept} was kept aside with {events}; {way} brings back what it has"
            )
    size = extent(path)
    held = f"{amount(known.size)}, {counted(size.streams, 'stream')}, {counted(size.events, 'event')}"
    yield Check("store", "good", f"{path} ({held})")
    schema = f"schema {known.schema}"
    if known.schema < known.newest_schema:
        schema += f", will be migrated to {known.newest_schema}"
    yield Check("sqlite", "good", f"{known.sqlite}, {schema}, journal {known.journal}")


def _owners(reader: Reader) -> Check:
    alive = reader.live_owners()
    named = ", ".join(f"process {owner.pid}" for owner in alive[:8]) + (", ..." if len(alive) > 8 else "")
    return Check(
        "owners", "good", f"{len(alive)} alive: {named}" if alive else "no process executes runs now"
    )


def _runs(reader: Reader) -> Check:
    lost = [run.id for run in reader.page(status=("interrupted",)).runs]
    if not lost:
        return Check("runs", "good", "none is interrupted")
    named = ", ".join(lost[:5]) + (", ..." if len(lost) > 5 else "")
    way = quoted(Way("resume", lost[0] if len(lost) == 1 else "ID"))
    return Check("runs", "note", f"{len(lost)} interrupted: {named}; {way} continues")


def _operations(place: Place, store: SqliteStore) -> Iterator[Check]:
    """Reading a store does not finish the operations that were cut off, so they are listed here."""
    from holdfast.operations import operation_locks

    marked = set(operation_locks.listed(place.home))
    for row in store.operations() if marked else ():
        if row.id in marked and row.status == "begun":
            way = "the next command that changes something finishes it or rolls it back"
            yield Check("operations", "note", f"{row.kind} {row.id} of run {row.run} was cut off; {way}")


def _backups(place: Place) -> Iterator[Check]:
    from holdfast.store.sqlite import backup

    directory = wiring.backup_directory(place)
    made = backup.find(directory)
    if not made:
        yield Check("backups", "good", f"none yet; {quoted(Way('backup create'))} makes one")
        return
    newest = f"{ago(backup.time_of(made[0]), datetime.now(UTC))}, {amount(made[0].stat().st_size)}"
    yield Check("backups", "good", f"the newest {newest}; {len(made)} in {directory}")
