"""Puts the parts together: finds project, home and settings, opens store and engine.

The only module below the CLI that reads the environment.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from holdfast import project, trust
from holdfast.clock import Clock, SystemClock, instant
from holdfast.errors import BadInput, NotFound, NotTrusted, SettingsError, StoreError
from holdfast.settings import Resolved, Settings, load
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from holdfast.agents.handlers import Handlers, Make
    from holdfast.engine.engine import Engine
    from holdfast.engine.execution.execution import Execution
    from holdfast.engine.files.workspaces import Files
    from holdfast.engine.outside.records import LogEvent
    from holdfast.engine.runs.code_location import Location
    from holdfast.kernel.author import Author
    from holdfast.kernel.state import RunState
    from holdfast.mirror.draining import Mirror
    from holdfast.operations.repairing.report import RepairReport
    from holdfast.redaction import Redactor
    from holdfast.store.port import Companion, NewEvent, Store
    from holdfast.store.sqlite import SqliteStore
    from holdfast.store.sqlite.attachment import Attachment
    from holdfast.store.sqlite.backup import Backup, Progress
    from holdfast.tracker.tracker import Tracker
    from holdfast.views.reader import Reader
    from holdfast.views.restored_backup import RestoredBackup


def user() -> str:
    """Who uses this process: the default for who does something to a run."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        return str(os.getuid())


class Place(msgspec.Struct, frozen=True):
    """Where this process works: the project's root, the store's directory, the settings."""

    root: Path
    home: Path
    resolved: Resolved
    workspace: Path | None = None
    """The directory whose files runs work on; None if there is none."""


_MAKE_ONE = project.FIRST
_ELSEWHERE = "change to the directory of the project that has the run, or name its store with --home"
_ANOTHER_HOME = "name the store that has the run with --home"


def find_place(
    flags: Mapping[str, Any] | None = None,
    *,
    create: bool = True,
    needs_store: bool = True,
    project_files: bool = True,
    names_run: bool = False,
) -> Place:
    """As the CLI and `Holdfast()` both resolve it, so that both see the same store.

    With `create=False` nothing is written; raises `NotFound` if there is no store yet, and without
    `needs_store` only if nothing says where it would be. With `project_files` the project's root is the
    workspace, unless a setting says otherwise. With `names_run`, which says that a
    run is looked for, `NotFound` does not advise to make a store. Raises `NotTrusted` for settings and stores
    that are not the user's own (decision 0012).
    """
    environ = os.environ
    cwd = Path.cwd()
    root = project.find_root(cwd, environ=environ)
    resolved = load(root=root, environ=environ, flags=flags or {})
    refuse_untrusted(root, resolved)
    chosen = resolved.settings.home
    if chosen is not None:
        home = project.expand(chosen, environ=environ, cwd=cwd)
    else:
        home = project.open_project(
            root,
            project.data_home(environ),
            mint=lambda: os.urandom(4).hex(),
            create=create,
            advice=_ELSEWHERE if names_run else _MAKE_ONE,
        ).home
    _refuse_shared(home)
    if not create and needs_store and not had_store(home):
        advice = _MAKE_ONE if not names_run else _ELSEWHERE if chosen is None else _ANOTHER_HOME
        raise NotFound(f"there is no store in {chosen or home} yet; {advice}")
    if chosen is not None and (create or needs_store):
        home = project.explicit_home(chosen, environ=environ, cwd=cwd)
    _check_text(home)
    return Place(root, home, resolved, _workspace(resolved, root if project_files else None, cwd))


def untrusted(root: Path, resolved: Resolved) -> list[str]:
    """Settings of the project's files that need trust and have none, each in words."""
    doubts = [
        f"{resolved.origins[key].place} sets {key} to {getattr(resolved.settings, key)}"
        for key in resolved.moved
    ]
    for source in resolved.sources:
        fault = trust.fault(source.status, _own_users())
        if fault:
            doubts.append(f"{source.name} {fault}")
    return doubts if doubts and not _is_trusted(root, resolved) else []


def _is_trusted(root: Path, resolved: Resolved) -> bool:
    """Whether the user trusts the settings of the project as they are."""
    if _is_named(root):
        return True
    content = trust.project_content(root, resolved.digest)
    return trust.is_trusted(project.data_home(os.environ), "project", root, content)


def untrusted_agents(root: Path, resolved: Resolved) -> list[str]:
    """Agents of the project's files that need trust and have none, each in words. Only the use of such an
    agent is refused: a project that names one can be looked at."""
    doubts = [
        f"{one.place} has the agent {one.name} ({one.summary})"
        for one in resolved.settings.agent.values()
        if one.needs_trust
    ]
    return doubts if doubts and not _is_trusted(root, resolved) else []


def refuse_untrusted_delivery(place: Place) -> None:
    """Raise `NotTrusted` if the project's files name commands, a plan or policies for a delivery, and the
    user does not trust them."""
    resolved = place.resolved
    said = [key for key in ("checks", "plan", "policy") if key in resolved.settings.deliver]
    if said and not _is_trusted(place.root, resolved):
        where = resolved.origins["deliver"].place
        raise NotTrusted(
            f"{where} sets deliver.{said[0]}, and may come from somebody else: {_allow(place.root)}"
        )


def doubted_settings(root: Path, resolved: Resolved) -> Settings:
    """The settings, with a doubt at each agent that is not trusted."""
    settings = resolved.settings
    if not settings.agent or not untrusted_agents(root, resolved):
        return settings
    way = _allow(root)
    agents = {
        name: msgspec.structs.replace(
            one,
            doubt=f"{one.place} may come from somebody else, and says what to execute: {way}",
        )
        if one.needs_trust
        else one
        for name, one in settings.agent.items()
    }
    return msgspec.structs.replace(settings, agent=agents)


def _allow(root: Path) -> str:
    return (
        f"read it, then allow it with {quoted(Way('trust', arguments={'directory': str(root)}))}, or "
        f"in a container or a CI job with `export {TRUST}={shlex.quote(str(root))}`"
    )


def refuse_untrusted(root: Path, resolved: Resolved) -> None:
    doubts = untrusted(root, resolved)
    if doubts:
        raise NotTrusted(
            f"the settings in {root} are not trusted: {'; '.join(doubts)}. They may come from somebody else: "
            f"{_allow(root)}"
        )


TRUST = "HOLDFAST_TRUST"
"""The variable by which the user names directories in which all settings and stores are trusted."""


def _is_named(directory: Path) -> bool:
    """Whether the user's environment names the directory, or one that it lies in."""
    given = os.environ.get(TRUST, "")
    names = [name for name in given.split(os.pathsep) if name]
    for name in names:
        if not name.startswith("/"):
            # `.` in a profile would trust whatever directory the user goes to.
            raise SettingsError(f"{TRUST} has {name!r}; write the whole path of the directory")
    return any(directory.resolve().is_relative_to(Path(name).resolve()) for name in names)


def _own_users() -> frozenset[int]:
    """Whose files are as good as the user's own: root, who can change everything anyway; and for root under
    `sudo` those of the user who called it, as git has it."""
    behind = os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and behind.isascii() and behind.isdecimal() and len(behind) <= 10:
        return frozenset({0, int(behind)})
    return frozenset({0, os.geteuid()})


def _refuse_shared(home: Path) -> None:
    """Raise NotTrusted for a store that others can change, or that leads elsewhere."""
    refuse_unsafe(home)
    try:
        (home / project.DATABASE).lstat()
    except PermissionError:
        return  # opening it raises the error
    except OSError:
        pass
    # The look for an obstacle first: whether the store is the user's own is read from its database.
    obstacle = trust.way_out(home)
    if obstacle and not is_own(home):
        raise NotTrusted(f"the store in {home} comes from somewhere else, and {obstacle}")


def refuse_unsafe(home: Path) -> None:
    """Raise NotTrusted for a store that others can change, or whose database is not safe to open."""
    fault = "" if _is_named(home) else trust.store_fault(home, project.DATABASE, _own_users())
    if fault:
        where = shlex.quote(str(home))
        if may_have_store(home):
            way = f'make it yours with `chown -R "$USER" {where}` and `chmod -R go-w {where}`'
        else:
            way = f"name a directory in it, which holdfast makes for you alone: `--home {where}/holdfast`"
        raise NotTrusted(
            f"the store cannot be trusted: {fault}. If you know where it comes from, {way}; or trust all who "
            f"can write there with `export {TRUST}={where}`"
        )
    danger = _danger(home)
    if danger:
        raise NotTrusted(f"the store in {home} is not safe to open: {danger}; remove that file")


def _danger(home: Path) -> str:
    """Why opening the database would change it, or another file, by what somebody put beside it. Into the
    data home nobody does."""
    if _is_in_data_home(home):
        return ""
    from holdfast.store.sqlite.connection import has_hot_journal

    database = home / project.DATABASE
    if has_hot_journal(database):
        return f"{database}-journal is a rollback journal, which a store never has"
    return trust.companion_fault(database)


def is_own(home: Path) -> bool:
    """Whether the store is the user's own: it lies in the data home, or this user made or trusted it."""
    return _is_in_data_home(home) or _is_named(home) or _is_known(home, token_of(home))


def _is_in_data_home(home: Path) -> bool:
    data_home = project.data_home(os.environ)
    return home.parent == data_home or home.parent.resolve() == data_home.resolve()


def _is_known(home: Path, token: str) -> bool:
    """Whether it is the very database that this user made or trusted here."""
    data_home = project.data_home(os.environ)
    return bool(token) and (
        trust.is_proven(data_home, home, token)
        or trust.is_trusted(data_home, "store", home, trust.store_content(token))
    )


def token_of(home: Path) -> str:
    """The token of a store that this user may have made or trusted; empty for any other."""
    if not trust.may_be_known(project.data_home(os.environ), home) or _danger(home):
        return ""
    from holdfast.store.sqlite.token import read_token

    return read_token(home / project.DATABASE)


def trust_store(home: Path) -> None:
    """Record that the user trusts the store. Its database gets a token that whoever made it does not know:
    another database in its place is not trusted."""
    refuse_unsafe(home)
    database = home / project.DATABASE
    if database.is_symlink():
        raise BadInput(f"{database} is a symbolic link; trust the directory of the file that it leads to")
    from holdfast.store.sqlite.token import set_token

    token = token_of(home)
    if not _is_known(home, token):
        token = set_token(database, renew=True)
    trust.trust(project.data_home(os.environ), "store", home, trust.store_content(token))


def _prove(home: Path) -> None:
    """Let a store that this user has just made be known as his; in the data home it is anyway."""
    if _is_in_data_home(home):
        return
    from holdfast.store.sqlite.token import set_token

    try:
        token = set_token(home / project.DATABASE)
    except StoreError:
        return  # it is used all the same, as one from elsewhere
    trust.prove(project.data_home(os.environ), home, token)


def refuse_foreign_code(home: Path) -> None:
    """Raise NotTrusted if the code that the store's runs name may belong to others."""
    if not is_own(home):
        raise NotTrusted(
            f"the store in {home} was not made by you here, and its runs name the code to execute; if you "
            "know where it comes from, allow that with "
            f"{quoted(Way('trust', arguments={'directory': str(home)}))}"
        )


def _check_text(home: Path) -> None:
    """SQLite's files have names in UTF-8."""
    try:
        str(home).encode()
    except UnicodeEncodeError:
        raise SettingsError(
            f"the store's directory {str(home)!r} has bytes that are not UTF-8 in its name; "
            "name another with --home or HOLDFAST_HOME"
        ) from None


def _workspace(resolved: Resolved, root: Path | None, cwd: Path) -> Path | None:
    """The workspace that the settings name, else `root`."""
    if not resolved.settings.save_files:
        return None
    chosen = resolved.settings.workspace
    if chosen is not None:
        return project.expand(chosen, environ=os.environ, cwd=cwd)
    return root


def tell_of_other_store(place: Place) -> None:
    """A script that is started in another directory than before gets another store, in which the ids it uses
    are those of other runs. When such a store is about to be made, that is told."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if place.resolved.settings.home is not None or may_have_store(place.home) or not file:
        return
    own = project.find_root(Path(file).resolve().parent, environ=os.environ)
    if own == place.root.resolve():
        return
    try:
        other = project.open_project(own, project.data_home(os.environ), mint=str, create=False)
    except (NotFound, StoreError):
        return
    if may_have_store(other.home):
        import logging  # 4 ms that `holdfast list` need not pay

        logging.getLogger("holdfast").warning(
            "a new store is made for the project %s, where this process was started; the script lies in "
            "%s, which has one, with other runs: name one for both with Holdfast(home) or HOLDFAST_HOME",
            place.root, own,
        )  # fmt: skip


def may_have_store(home: Path) -> bool:
    """Whether a store is there, or nobody may look: then opening it says so."""
    try:
        return (home / project.DATABASE).exists()
    except PermissionError:
        return True


def had_store(home: Path) -> bool:
    """Whether a store is there, or was: its lock says so when the database is lost."""
    try:
        return may_have_store(home) or (home / "write.lock").stat().st_size > 0
    except OSError:
        return False


def open_store(place: Place) -> SqliteStore:
    """Open the store; one that is made here, by this user, is known as such from then on."""
    from holdfast.store.sqlite import SqliteStore

    is_new = not may_have_store(place.home)
    store = SqliteStore(place.home, durability=place.resolved.settings.durability)
    if is_new:
        _prove(place.home)
    return store


def schema_version() -> int:
    """The newest schema of a store that this holdfast knows."""
    from holdfast.store.sqlite import sql

    return sql.migrations()[-1][0]


def open_redactor(place: Place) -> Redactor:
    from holdfast.redaction import Redactor

    return Redactor(place.resolved.settings.redact)


def open_tracker(
    place: Place, store: SqliteStore, redactor: Callable[[], Redactor], clock: Clock | None = None
) -> Tracker:
    """Tasks and sessions of the store, as this process writes them."""
    from holdfast.tracker.tracker import Tracker

    return Tracker(
        store,
        clock or SystemClock(),
        partial(author, place, store),
        redactor,
        place.root,
        partial(refuse_foreign_code, place.home),
        asked,
    )


_asked: WeakKeyDictionary[Execution, Counter[tuple[str, int, str]]] = WeakKeyDictionary()


def asked(text: str) -> int:
    """How often the attempt of the step around has asked with this text before; 0 outside of steps."""
    inside = _around()
    if inside is None or not hasattr(inside, "key"):
        return 0
    counts = _asked.setdefault(inside.execution, Counter())
    counts[inside.key, inside.attempt, text] += 1
    return counts[inside.key, inside.attempt, text] - 1


def _around() -> Any:
    """The run, or the step of a run, whose code is executing here. No engine is imported to find out."""
    scopes = sys.modules.get("holdfast.engine.execution.scope")
    return None if scopes is None else scopes.current.get()


def author(place: Place, store: Store) -> Author:
    """Who writes to the tracker now: the user, or the name that the settings give; in the session that they
    name, or the last one of that name that is open; inside a run, from which run and step."""
    from holdfast.kernel.author import Author
    from holdfast.tracker.sessions import open_session

    settings = place.resolved.settings
    by = settings.actor or user()
    session = settings.session or open_session(store, by)
    inside = _around()
    if inside is None or inside.execution.engine.home != place.home:
        return Author(by, session)
    run = inside.execution
    step = getattr(inside, "key", "")
    return Author(by, session, run.id, run.state.generation, step, run.state.version)


_places: WeakKeyDictionary[Engine, Place] = WeakKeyDictionary()


def place_of_run() -> Place | None:
    """The place of the run whose code is executing here; None outside of runs."""
    inside = _around()
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
    user says so, with `only_missing` only for runs whose own project is gone."""
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
        partial(_companions, place),
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


def _companions(place: Place, run: str, state: RunState, events: Sequence[NewEvent]) -> Sequence[Companion]:
    """The effect of a run's end on the task that it was started for."""
    from holdfast.tracker.run_end import companions

    settings = place.resolved.settings

    def writer() -> Author:
        from holdfast.kernel.author import Author

        by, session = settings.actor or user(), settings.session or ""
        return Author(by, session, run, state.generation, "", state.version)

    return companions(run, state.task, events, writer)


def find_location(place: Place, given: Path | None = None, *, only_missing: bool = False) -> Location:
    """How the code of the store's runs is found from here; `given` and `only_missing` as for `Location`."""
    from holdfast.engine.runs.code_location import Location

    return Location(place.home, place.root.resolve(), given, only_missing=only_missing)


def open_files(
    place: Place, home: Path | None = None, *, on_progress: Callable[[int, int], None] | None = None
) -> Files:
    """The workspaces of the store; what is saved of files lies in `home`, if that is another directory."""
    from holdfast.engine.files.workspaces import Files

    largest = int(place.resolved.settings.largest_ignored_mb * 1024 * 1024)
    own = partial(is_own, place.home)
    return Files(home or place.home, place.workspace, largest, is_own=own, on_progress=on_progress)


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


def backup_directory(place: Place) -> Path:
    """Where backups go that nobody named a place for."""
    chosen = place.resolved.settings.backup_dir
    if chosen is None:
        return place.home / "backups"
    return project.expand(chosen, environ=os.environ, cwd=Path.cwd())


def back_up(
    place: Place,
    store: SqliteStore,
    to: str | os.PathLike[str] | None = None,
    *,
    force: bool = False,
    files: bool | None = None,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> Backup:
    """Make a backup at `to`, a directory or a file; without it, in the backup directory, from which those
    beyond `backup_keep` are removed. `files` says whether the saved files go with it; without it, the setting
    does."""
    from holdfast.store.sqlite import backup
    from holdfast.workspace.contents.transfer import exporting

    if files is None:
        files = place.resolved.settings.backup_files
    store.tail()  # of a store that is closed, or a forked child has, this says so
    directory = backup_directory(place)
    if to is None:
        with backup.explained(directory):
            directory.mkdir(mode=0o700, exist_ok=True)
    elif os.fspath(to).endswith(os.sep) and not Path(to).is_dir():
        raise NotFound(f"there is no directory {os.fspath(to)} for the backup; make it, or name another")
    with exporting(saved_files(place)) as export:
        made = backup.create(
            store.path,
            directory if to is None else Path(to),
            instant((clock or SystemClock()).now_us()),
            force=force,
            incarnation=store.incarnation,
            files=export if files else None,
            progress=progress or backup.silent,
        )
    keep = place.resolved.settings.backup_keep
    removed = backup.rotate(directory, keep, made.path) if to is None else []
    return msgspec.structs.replace(made, removed=tuple(removed))


def back_up_changes(place: Place, store: SqliteStore, clock: Clock | None = None) -> None:
    """Make a backup if there is something in the log that the newest one does not have."""
    from holdfast.store.sqlite import backup

    newest = backup.find_of(store.path, backup_directory(place))[:1]
    files = place.resolved.settings.backup_files
    if store.tail() and not any(backup.holds(path, store.path, files=files) for path in newest):
        back_up(place, store, clock=clock)


def mirror_directory(place: Place) -> Path | None:
    """Where the mirror is written; None if a setting turns it off, or the store has no project."""
    settings = place.resolved.settings
    if not settings.mirror:
        return None
    if settings.mirror_dir is not None:
        return project.expand(settings.mirror_dir, environ=os.environ, cwd=Path.cwd())
    return None if settings.home is not None else place.root / project.POINTER_DIRECTORY


def why_no_mirror(place: Place) -> str:
    """Why there is no mirror, and what to do for one."""
    if not place.resolved.settings.mirror:
        return "the setting `mirror` turns it off; set it to true to have one"
    return "a store with a home of its own has no project; name a directory for it with HOLDFAST_MIRROR_DIR"


def open_mirror(
    place: Place, store: SqliteStore, reader: Reader, clock: Clock | None = None
) -> Mirror | None:
    """The mirror of the store; None if there is to be none."""
    directory = mirror_directory(place)
    if directory is None:
        return None
    from holdfast.mirror.draining import Mirror

    return Mirror(
        store,
        reader,
        place.home,
        directory,
        clock or SystemClock(),
        named=place.resolved.settings.mirror_dir is not None,
        project_type=partial(_project_type, place),
        files_of=partial(_files_of, place, store),
    )


def _files_of(place: Place, store: SqliteStore, run_id: str) -> list[str]:
    from holdfast.mirror.changed_files import changed_files

    return changed_files(store, partial(open_files, place), run_id)


def drain_mirror(place: Place, store: SqliteStore, reader: Reader, clock: Clock | None = None) -> None:
    """Bring the mirror up to date. Whatever goes wrong is a warning: the mirror is never a reason for a
    command to fail."""
    from holdfast.mirror.reporting import drained

    drained(lambda: open_mirror(place, store, reader, clock))


def _project_type(place: Place) -> str:
    from holdfast.project_type import project_type

    return project_type(place.root)


def saved_files(place: Place) -> Path:
    """Where the files that runs have saved are."""
    return place.home / "workspace"


def restore_backup(
    place: Place, source: Path, at: datetime, *, refuse: Callable[[], None], progress: Progress
) -> RestoredBackup:
    """Make a backup that was inspected the store, with the files that it holds: they are read and compared
    first, and are there before the store is. The store is the user's own then, if it is new or was so before.
    Raises as `restore` does; then nothing has changed."""
    from holdfast.store.sqlite.attachment import read_attachment
    from holdfast.store.sqlite.backup import explained
    from holdfast.store.sqlite.restore import restore
    from holdfast.views.restored_backup import RestoredBackup
    from holdfast.workspace.contents.transfer import note_without_files

    refuse()
    is_users = not may_have_store(place.home) or is_own(place.home)
    with explained(source):
        attached = read_attachment(source)
    damaged: list[str] = []
    if attached is None:
        has_files = _still_has_files(place, source)
        done = restore(source, place.home, at, refuse=refuse, progress=progress)
    else:
        has_files = True
        files = _importing(place, source, attached, progress, damaged)
        done = restore(source, place.home, at, refuse=refuse, files=files, progress=progress)
    if is_users:
        _prove(place.home)
    name = source.parent.name if source.name == project.DATABASE else source.name
    note_without_files(saved_files(place), "" if has_files else name)
    return RestoredBackup(source, place.home, done.events, done.kept, has_files, tuple(damaged))


def repair_store(
    place: Place, backup: Path | None, at: int, *, dry_run: bool, progress: Progress
) -> RepairReport:
    """Examine the store of a place and mend it. A database that was missing is not taken for the user's own:
    the copies that it was made from may have come with the directory."""
    from holdfast.operations.repairing.copies import Sources
    from holdfast.operations.repairing.mending import repair

    is_new = not may_have_store(place.home)
    mirror = mirror_directory(place)
    sources = Sources(place.home, backup_directory(place), backup, mirror, _mirrored(mirror))
    report = repair(sources, at, dry_run=dry_run, progress=progress)
    if is_new and report.kept is not None and not is_own(place.home):
        import msgspec

        trusts = Way("trust", "", {"directory": str(place.home)}, "allows the code and checks that it names")
        report = msgspec.structs.replace(report, ways=(*report.ways, trusts))
    return report


def _mirrored(mirror: Path | None) -> str:
    """The incarnation of the store that a mirror says it is of; empty if it does not say."""
    import base64
    import binascii

    from holdfast.mirror import card
    from holdfast.mirror.mirror_directory import MirrorDirectory

    if mirror is None or not mirror.is_dir():
        return ""
    try:
        with MirrorDirectory.opened(mirror, "") as top:
            found = card.read(top)
        return "" if found is None else base64.urlsafe_b64decode(found.cursor).decode().partition(".")[0]
    except (OSError, binascii.Error, UnicodeDecodeError):
        return ""


@contextmanager
def _importing(
    place: Place, source: Path, attached: Attachment, progress: Progress, damaged: list[str]
) -> Iterator[Callable[[], None]]:
    """The files of a backup, read and compared; `damaged` gets the names of those that are not what they
    were. The function that is given adds them to the saved files."""
    from holdfast.store.sqlite.backup import refuse_without_room
    from holdfast.workspace.contents.transfer import importing

    refuse_without_room(place.home, attached.size + attached.offset)
    told = partial(progress, "copying files")
    with source.open("rb") as file:
        file.seek(attached.offset)
        with importing(file, saved_files(place), told, attached.size, attached.files) as files:
            damaged += files.damaged
            yield files.adopt


def _still_has_files(place: Place, source: Path) -> bool:
    """Whether all that the log of a backup without files names is among the saved files here."""
    from holdfast.operations.disk_usage import NAMING_FILES, has_files
    from holdfast.store.sqlite.kept_log import read_log

    return has_files(read_log(source, NAMING_FILES), saved_files(place))
