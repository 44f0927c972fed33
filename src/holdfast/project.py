"""Which project a directory belongs to, and where that project's store is.

Two small files point at each other. The *pointer*, `.holdfast/project.json` in the project root, holds
the id. The *record*, `project.json` in the store's directory, holds the root. So either may be lost:

- pointer lost (`git clean -fdx`): the record with that root gives the id back;
- directory moved: the recorded root is gone, the id stays, the record follows, also when a command only
  reads: a copy that is made later finds the moved directory there;
- directory copied: the recorded root lives and holds the same id, or the recorded directory is still there or
  was renamed beside it, so the copy gets an id of its own;
- project directory read-only: there is no pointer, the record alone serves.

The pointer is made before the store's directory, by a link that only one process can make; the
second one reads what the first one wrote. All else changes under one lock in the data directory.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from holdfast.directory_identity import DirectoryIdentity
from holdfast.durable_file import create_file, replace_file, sync_directory
from holdfast.errors import (
    BadWorkspace,
    NotFound,
    NotTrusted,
    SettingsError,
    StoreError,
    store_error_for,
)
from holdfast.file_lock import held
from holdfast.ways import Way, quoted

POINTER_DIRECTORY = ".holdfast"
DATABASE = "holdfast.db"
"""The file in a store's directory by which it is known to be one."""
CARD_FILE = "project.json"
FIRST = (
    f"{quoted(Way('run'))} or {quoted(Way('task create'))} makes one, {quoted(Way('plan new'))} drafts a "
    f"plan, and {quoted(Way('demo'))} shows how it works"
)
"""The advice where there is no project yet."""
_ATTEMPTS = 100
State = Literal["good", "absent", "unreadable", "corrupt"]


class Project(msgspec.Struct, frozen=True):
    """A project: the tree that is worked on, and the directory of its store, outside that tree."""

    root: Path
    id: str
    name: str
    home: Path


class _Card(msgspec.Struct, frozen=True):
    """The contents of a project.json, the pointer or the record."""

    id: str
    name: str
    root: str
    inode: tuple[object, object]
    born: object = 0


class _Found(msgspec.Struct, frozen=True):
    """The known facts about a root, before anything is written."""

    project: Project | None
    pointer: State
    pointer_holds: bool  # the pointer gives the right id and root
    record_holds: bool


def data_home(environ: Mapping[str, str]) -> Path:
    """The directory of all projects' stores: `$XDG_DATA_HOME/holdfast`, else `~/.local/share/holdfast`.

    A relative XDG_DATA_HOME is ignored, as the XDG specification asks.
    """
    given = environ.get("XDG_DATA_HOME", "")
    base = Path(given) if given.startswith("/") else _user_home(environ) / ".local" / "share"
    return base / "holdfast"


def explicit_home(path: str | os.PathLike[str], *, environ: Mapping[str, str], cwd: Path) -> Path:
    """The store's directory that a person named outright, made with mode 0700 if it is not there.

    A directory that exists keeps its mode. Raises SettingsError for what cannot be a directory.
    """
    home = expand(path, environ=environ, cwd=cwd)
    with explained(home):
        if home.exists() and not home.is_dir():
            raise SettingsError(f"the home {home} is not a directory; name another")
        _make_private(home)
    return home


def expand(path: str | os.PathLike[str], *, environ: Mapping[str, str], cwd: Path) -> Path:
    """An absolute path: `~` is the home directory, a relative path counts from `cwd`."""
    text = os.fspath(path)
    if not text or "\0" in text:
        raise SettingsError(f"{text!r} is not a path")
    if text == "~" or text.startswith("~/"):
        return _user_home(environ) / text[2:]
    if text.startswith("~"):
        raise SettingsError(f"{text!r}: only the own home directory is known as ~; write the whole path")
    return cwd / text


def find_root(cwd: Path, *, environ: Mapping[str, str]) -> Path:
    """The root of the project that `cwd` is in: the nearest directory upwards with `.git`, else the
    nearest with `.holdfast/`, else `cwd` itself.

    The search for `.holdfast/` ends below the home directory and `/`: otherwise one command given
    there would make everything beneath it a single project.
    """
    cwd = cwd.resolve()
    upwards = (cwd, *cwd.parents)
    for directory in upwards:
        if os.path.lexists(directory / ".git"):
            return directory
    shared = {Path("/"), _user_home(environ).resolve()}
    for directory in upwards:
        if directory in shared:
            break
        pointing = directory / POINTER_DIRECTORY
        if _is_directory(pointing) and not pointing.is_symlink():
            return directory
    return cwd


def open_project(
    root: Path,
    data_home: Path,
    *,
    mint: Callable[[], str],
    create: bool = True,
    advice: Callable[[], str] = lambda: f"; {FIRST}",
) -> Project:
    """The project at `root`; on first use it is made.

    Safe in any number of processes at once: all get the same id. With `create=False` nothing is written,
    except in the store the new place of a project that was moved, and a root without a project raises
    NotFound, which ends with the text of `advice`. `mint` gives fresh ids of letters and digits. Raises
    StoreReadOnly or StoreFull when the data directory cannot be written.
    """
    root = root.resolve()
    refuse_link(root)
    with explained(data_home):
        found = _look(root, data_home)
        if found.project is None and not create:
            raise NotFound(f"there is no project in {root} yet{advice()}")
        if found.project is not None:
            if not create:
                _follow(found, root, data_home)
                return found.project
            if found.pointer_holds and found.record_holds:
                return found.project
            # Without the lock, so that a known project opens where the data directory is read-only.
            if found.record_holds and found.pointer == "absent" and _point(found.project, "absent"):
                return found.project
        with _locked(data_home):
            for _ in range(_ATTEMPTS):
                project = _settle(_look(root, data_home), root, data_home, mint)
                if project is not None:
                    return project
    raise StoreError(f"{_pointer(root)} keeps changing; see what else writes to it, then try again")


def _follow(found: _Found, root: Path, data_home: Path) -> None:
    """Record in the store where its project is now, if that was moved: a command that only reads writes
    nothing in the project. Does nothing where the record cannot be written, or is another user's."""
    project = found.project
    if project is None or found.record_holds:
        return
    record = project.home / CARD_FILE
    if not (project.home / DATABASE).exists() or not _is_ours(project.home) or not _is_ours(record):
        return
    try:
        with _locked(data_home):
            again = _look(root, data_home)
            if again.project == project and not again.record_holds:
                _record_root(project)
    except OSError:
        return


def restore_pointer(root: Path, home: Path) -> None:
    """Write the pointer and the ignore file of the project at `root` again if they are lost (`git clean
    -fdx`). Does nothing if the record in `home` names another root, or the directory cannot be written."""
    path = _pointer(root)
    if os.path.lexists(path) or path.parent.is_symlink():
        return
    _, record = _read(home / CARD_FILE)
    if record is not None and _same_place(record.root, root):
        _point(Project(root, record.id, record.name, home), "absent")


def owns(root: Path, home: Path) -> bool:
    """Whether the store in `home` is that of the project at `root`: the root's pointer has its id."""
    _, pointer = _read(_pointer(root))
    return pointer is not None and _record(home, pointer.id) is not None


def points_here(root: Path) -> bool:
    """Whether the pointer in `root` is the user's own file and names this very directory: it did not come
    with a copy of the directory."""
    _, pointer = _read(_pointer(root))
    return pointer is not None and _is_ours(_pointer(root)) and _same_place(pointer.root, root)


def refuse_link(root: Path) -> None:
    """Raise NotTrusted for a `.holdfast` that is a symbolic link: what is written there would land elsewhere,
    and what is read there is another project's."""
    directory = root / POINTER_DIRECTORY
    if directory.is_symlink():
        raise NotTrusted(
            f"{directory} is a symbolic link, which holdfast never makes; remove it with "
            f"`rm {shlex.quote(str(directory))}`, or name a store with --home"
        )


def _look(root: Path, data_home: Path) -> _Found:
    state, pointer = _read(_pointer(root))
    if pointer is not None and not _is_ours(_pointer(root)):
        # Of another user, who must not choose which of our stores is used here: the record alone serves.
        state, pointer = "unreadable", None
    if pointer is not None:
        home = _home_of(pointer, data_home)
        record = _record(home, pointer.id)
        recorded = record or pointer
        if _belongs(root, recorded):
            here = _same_place(recorded.root, root)
            project = Project(root, recorded.id, recorded.name, home)
            holds = here and (pointer.root == recorded.root or _same_place(pointer.root, root))
            return _Found(project, state, pointer_holds=holds, record_holds=here and record is not None)
    known = _by_root(root, data_home)
    return _Found(known, state, pointer_holds=False, record_holds=known is not None)


def _is_ours(path: Path) -> bool:
    try:
        return path.stat().st_uid in (os.geteuid(), 0)
    except OSError:
        return False


def _record(home: Path, id: str) -> _Card | None:
    _, card = _read(home / CARD_FILE)
    return card if card is not None and card.id == id else None


def _belongs(root: Path, recorded: _Card) -> bool:
    """Whether `root`, whose pointer holds the recorded id, is the project itself and not a copy of it."""
    if _same_place(recorded.root, root):
        return True
    was = Path(recorded.root)
    state, other = _read(_pointer(was))
    # A pointer there that cannot be read may hold the id: then the store is not taken from that root.
    if state != "absent" and (other is None or other.id == recorded.id):
        return False
    return _is_recorded(root, recorded) or not any(
        _is_recorded(path, recorded)
        for path in (was, *_with_inode(was.parent, recorded), *_with_inode(root.parent, recorded))
    )


def _is_recorded(path: Path, recorded: _Card) -> bool:
    """Whether `path` is the very directory that was recorded, wherever that was. Not known without its time
    of birth: an inode is used again."""
    here = DirectoryIdentity.find(path)
    return (
        here is not None
        and here.born != 0
        and (here.inode, here.born)
        == (
            recorded.inode[1],
            recorded.born,
        )
    )


def _with_inode(parent: Path, recorded: _Card) -> list[Path]:
    """The entries of a directory that may be the recorded one after `mv`."""
    try:
        with os.scandir(parent) as entries:
            return [Path(entry.path) for entry in entries if entry.inode() == recorded.inode[1]]
    except OSError:
        return []


def _by_root(root: Path, data_home: Path) -> Project | None:
    """The project that was last at `root`, by the records of all stores."""
    found = []
    for home in _homes(data_home):
        # The id in the name: a backup of a store's directory beside it has the same record.
        card = _record(home, home.name.rpartition("-")[2])
        if card is not None and card.root == str(root):
            newest = (home / CARD_FILE).stat().st_mtime_ns
            here = DirectoryIdentity.find(root)
            is_same = here is not None and card.inode == (here.device, here.inode)
            found.append((is_same, newest, Project(root, card.id, card.name, home)))
    return max(found, key=lambda ranked: ranked[:2])[2] if found else None


def _homes(data_home: Path) -> list[Path]:
    try:
        return sorted(path for path in data_home.iterdir() if "-" in path.name and path.is_dir())
    except FileNotFoundError:
        return []


def _home_of(card: _Card, data_home: Path) -> Path:
    home = data_home / f"{card.name}-{card.id}"
    if _is_directory(home):
        return home
    # The pointer's name was edited by hand: the id decides.
    return next((other for other in _homes(data_home) if other.name.endswith(f"-{card.id}")), home)


def _read(path: Path) -> tuple[State, _Card | None]:
    try:
        data = _parsed(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return "absent", None
    except OSError:
        return "unreadable", None
    except (ValueError, RecursionError):
        return "corrupt", None
    match data:
        case {"id": str(id), "name": str(name), "root": str(root)}:
            # Both become a file name: a path in a cloned repository's pointer must not lead elsewhere.
            sound = _is_id(id) and name == _file_name(name)
            if sound and root.startswith("/") and "\0" not in root:
                inode = (data.get("device"), data.get("inode"))
                return "good", _Card(id, name, root, inode, data.get("born"))
    return "corrupt", None


def _parsed(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        import json  # takes 3 ms to load, and also reads the path of a directory that is not UTF-8

        return json.loads(text)


def _settle(found: _Found, root: Path, data_home: Path, mint: Callable[[], str]) -> Project | None:
    """Write what is missing, under the lock; None when another process was first with the pointer."""
    project = found.project or _new(root, data_home, mint)
    if not found.pointer_holds and not _point(project, found.pointer):
        return None
    if not found.record_holds:
        _make_private(project.home)
        if _record(project.home, project.id) is None:
            _set_aside(project.home / CARD_FILE)
        _record_root(project)
    return project


def _record_root(project: Project) -> None:
    here = DirectoryIdentity.find(project.root)
    which = {} if here is None else here._asdict()
    replace_file(project.home / CARD_FILE, _card(project, **which))


def _new(root: Path, data_home: Path, mint: Callable[[], str]) -> Project:
    taken = {home.name.rpartition("-")[2] for home in _homes(data_home)}
    for _ in range(_ATTEMPTS):
        id = mint()
        if id not in taken and _is_id(id):
            name = _file_name(root.name)
            return Project(root, id, name, data_home / f"{name}-{id}")
    raise StoreError(f"no free id was found in {data_home} after {_ATTEMPTS} tries")


def _point(project: Project, state: State) -> bool:
    """Write the pointer; False when another process wrote one meanwhile.

    A project directory that cannot be written has no pointer, and the record alone serves.
    """
    path = _pointer(project.root)
    if state == "unreadable":
        return True
    try:
        if state == "corrupt":
            _set_aside(path)
        path.parent.mkdir(exist_ok=True)
        # First, so that git never sees the pointer.
        create_file(path.with_name(".gitignore"), b"*\n", mode=0o644)
        if state != "good":
            return create_file(path, _card(project), mode=0o644)
        replace_file(path, _card(project), mode=0o644)
        return True
    except OSError:
        return True


def _card(project: Project, **more: int) -> bytes:
    import json

    card = {"id": project.id, "name": project.name, "root": str(project.root), **more}
    return json.dumps(card, indent=2).encode() + b"\n"


def _set_aside(path: Path) -> None:
    """Keep what is at `path`, if anything, under another name."""
    if not os.path.lexists(path):
        return
    aside, number = path.with_name(f"{path.name}.corrupt"), 0
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.name}.corrupt.{number}")
    path.rename(aside)


def _pointer(root: Path) -> Path:
    return root / POINTER_DIRECTORY / CARD_FILE


def _is_id(text: str) -> bool:
    return text.isascii() and text.isalnum() and len(text) <= 64


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:40].strip("-.") or "project"


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _same_place(recorded: str, root: Path) -> bool:
    """Whether both are one directory, also by another mount or spelling."""
    if recorded == str(root):
        return True
    here = DirectoryIdentity.find(root)
    return here is not None and here == DirectoryIdentity.find(Path(recorded))


def _user_home(environ: Mapping[str, str]) -> Path:
    """The home directory: `$HOME`, else what the system has on record for this user, else `/`."""
    given = environ.get("HOME", "")
    if given.startswith("/"):
        return Path(given)
    import pwd

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # a container that runs under a bare number
        return Path("/")


def _make_private(directory: Path) -> None:
    """Make the directory with mode 0700, whatever the umask; one that exists keeps its mode."""
    if _is_directory(directory):
        return
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.mkdir(exist_ok=True)  # another process may have made it just now, for the same purpose
    directory.chmod(0o700)
    sync_directory(directory.parent)


@contextmanager
def _locked(data_home: Path) -> Iterator[None]:
    _make_private(data_home)
    with held(data_home / ".lock"):
        yield


@contextmanager
def explained(directory: Path) -> Iterator[None]:
    """Turn an OSError about `directory` into the StoreError that says what to do."""
    try:
        yield
    except OSError as exc:
        raise store_error_for(exc)(
            f"the directory {directory} cannot be written ({exc.strerror}: {exc.filename}); "
            "put that right, or name another store with --home or HOLDFAST_HOME"
        ) from exc


LARGEST_IGNORED = 10 * 1024 * 1024
"""Files that git ignores are part of a snapshot up to this size, unless a setting says otherwise."""


def checked_workspace(root: Path, store: Path) -> Path:
    """The root without symlinks. Raises BadWorkspace for one that no tool should restore files into."""
    try:
        real = root.resolve(strict=True)
    except OSError as exc:
        raise BadWorkspace(f"the workspace {root} is not there ({exc.strerror})") from exc
    if not real.is_dir():
        raise BadWorkspace(f"the workspace {root} is not a directory")
    if real in (Path(real.anchor), Path.home().resolve()):
        raise BadWorkspace(f"{real} is too much for a workspace; name a directory of a project")
    inside = store.resolve()
    if inside == real or inside in real.parents:
        raise BadWorkspace(f"the workspace {real} lies in the store's directory {inside}; choose another")
    return real
