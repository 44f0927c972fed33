"""Which directories and stores the user trusts (decision 0012).

Settings files and stores may come from somewhere else: a cloned repository, an archive, another user of the
machine. A settings file that moves the store, and a store that names code and directories, are used only if
they are the user's own:

- a store in the data home is;
- so is one that this user's holdfast made elsewhere: it holds a *proof*, an HMAC of its path and of the token
  in its database, by a key that lies in the data home;
- all else needs a *record* in the data home, which `holdfast trust` writes. It is bound to the directory and
  to the content that was there: other settings, or another database, need trust again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Set
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec

from holdfast import typed_values
from holdfast.durable_file import create_file, replace_file, sync_directory

PROOF: Final = "made-by"
"""The file in a store's directory by which its maker knows it again."""
_RECORDS: Final = "trust"
_KEY: Final = "key"
_KEY_BYTES: Final = 32
_VERSION: Final = 2

Kind = Literal["project", "store"]


class Trusted(msgspec.Struct, frozen=True):
    """A project or a store that the user trusts, with what was in it then."""

    directory: str
    kind: Kind
    content: str
    at: str
    store: str = ""
    """Of a project: the store that was trusted with it."""


# Whose file it is


def fault(status: os.stat_result, users: Set[int]) -> str:
    """Why a file or directory cannot be relied on: a user who is none of `users` can change it; else empty.

    A group that only one of them is in is as good as none: where every user has a group of his own, files
    are made writable for it.
    """
    if status.st_uid not in users:
        return f"belongs to another user ({_user(status.st_uid)})"
    if status.st_mode & stat.S_IWOTH:
        return "can be written by every user"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid, users):
        return f"can be written by the group {_group(status.st_gid)}"
    return ""


def store_fault(home: Path, database: str, users: Set[int]) -> str:
    """The same for a store's directory and its database; empty for one that is not there yet."""
    try:
        if not stat.S_ISDIR(home.stat().st_mode):
            return ""
        for path in (home, home / database):
            found = fault(path.stat(), users)
            if found:
                return f"{path} {found}"
    except OSError:
        pass  # opening it raises the error
    return ""


def companion_fault(database: Path) -> str:
    """The fault of a file that SQLite would use together with the database; empty if there is none.

    SQLite makes these files with the mode of the database, 0600 for one of holdfast. A checkout or an archive
    makes them with another one.
    """
    for suffix in ("-wal", "-shm", "-journal"):
        path = database.with_name(database.name + suffix)
        try:
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                return f"{path} is no regular file"
            mode = stat.S_IMODE(status.st_mode)
            if not database.is_symlink() and mode != stat.S_IMODE(database.stat().st_mode):
                return f"{path} has another mode than {database.name}, so SQLite did not make it"
        except OSError:
            continue  # SQLite cannot use it either
    return ""


def way_out(home: Path) -> str:
    """Why what is written to a store could land elsewhere: a symbolic link in its directory, or a directory
    that cannot be listed and may hold one; empty if nothing of that is there. Copies of workspaces may hold
    any links: nothing of holdfast is written there."""
    unlisted: list[OSError] = []
    for parent, directories, files in os.walk(home, onerror=unlisted.append):
        for name in (*directories, *files):
            path = Path(parent, name)
            if path.is_symlink():
                return f"{path} in it is a symbolic link that leads out of it; remove the link"
        if Path(parent) == home and "copies" in directories:
            directories.remove("copies")
    for error in unlisted:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):  # gone meanwhile, or not there yet
            return f"{error.filename} in it cannot be looked through ({error.strerror}); change its mode"
    return ""


def _is_private_group(gid: int, users: Set[int]) -> bool:
    return any(_is_only_member(uid, gid) for uid in users)


def _is_only_member(uid: int, gid: int) -> bool:
    import grp
    import pwd

    if uid == 0:
        return gid == 0 and os.geteuid() == 0
    try:
        user = pwd.getpwuid(uid)
    except KeyError:  # a bare number, as containers have: its own group has the same one
        if gid != uid or any(one.pw_gid == gid for one in pwd.getpwall()):
            return False
        return not _members(gid)
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return False
    return gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _members(gid: int) -> list[str]:
    import grp

    try:
        return grp.getgrgid(gid).gr_mem
    except KeyError:
        return []


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


# What the user has allowed


def is_trusted(data_home: Path, kind: Kind, directory: Path, content: str) -> bool:
    """Whether the user trusted this directory with this content."""
    found = _read(_record(data_home, kind, directory))
    return found is not None and found.kind == kind and found.content == content


def trust(data_home: Path, kind: Kind, directory: Path, content: str, store: Path | None = None) -> Trusted:
    """Record durably that the user trusts it, instead of what was recorded for the directory."""
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    named = "" if store is None else os.fspath(store.resolve())
    made = Trusted(os.fspath(directory.resolve()), kind, content, at, named)
    path = _record(data_home, kind, directory)
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_directory(data_home)
    replace_file(path, msgspec.json.encode({"version": _VERSION, **msgspec.to_builtins(made)}))
    return made


def untrust(data_home: Path, directory: Path) -> list[str]:
    """Remove the records of the directory, and of the store that was trusted with it; the directories whose
    records are gone. The directory itself need not be there any more."""
    removed: list[str] = []
    for kind in get_args(Kind):
        path = _record(data_home, kind, directory)
        found = _read(path)
        try:
            path.unlink()
        except FileNotFoundError:
            continue
        removed.append(os.fspath(directory.resolve()))
        if found is not None and found.store:
            removed += untrust(data_home, Path(found.store))
    if removed:
        sync_directory(data_home / _RECORDS)
    return list(dict.fromkeys(removed))


def listed(data_home: Path) -> list[Trusted]:
    """All records, by directory."""
    directory = data_home / _RECORDS
    paths = directory.glob("*.json") if directory.is_dir() else ()
    found = [one for one in map(_read, paths) if one is not None]
    return sorted(found, key=lambda one: (one.directory, one.kind))


def project_content(root: Path, digest: str) -> str:
    """The content that trust in a project is bound to: the directory itself, so that a clone in the place
    of another one is another project, and the digest of its settings files."""
    try:
        return f"{root.stat().st_ino}:{digest}"
    except OSError:
        return f"0:{digest}"


def store_content(token: str) -> str:
    """The content that trust in a store is bound to: its database, by the token in it."""
    from hashlib import sha256

    return sha256(token.encode()).hexdigest()


def _record(data_home: Path, kind: Kind, directory: Path) -> Path:
    from hashlib import sha256

    name = sha256(os.fsencode(directory.resolve())).hexdigest()[:32]
    return data_home / _RECORDS / f"{name}-{kind}.json"


def _read(path: Path) -> Trusted | None:
    try:
        return typed_values.decode(path.read_bytes(), Trusted)
    except (OSError, msgspec.DecodeError):
        return None


# What the user has made


def may_be_known(data_home: Path, home: Path) -> bool:
    """Whether there is a proof or a record for the store at all: else its token need not be read."""
    return os.path.lexists(home / PROOF) or _record(data_home, "store", home).exists()


def prove(data_home: Path, home: Path, token: str) -> None:
    """Leave the proof that this user made the store. Where it cannot be written the store is used all the
    same, as one from elsewhere."""
    try:
        key = _key(data_home, create=True)
        if key is not None:
            replace_file(home / PROOF, _proof(key, home, token).encode() + b"\n")
    except OSError:
        pass


def is_proven(data_home: Path, home: Path, token: str) -> bool:
    """Whether this user made the store that has this token, at this place."""
    from hmac import compare_digest

    try:
        key = _key(data_home, create=False)
        given = (home / PROOF).read_bytes().strip()
    except OSError:
        return False
    return key is not None and compare_digest(given, _proof(key, home, token).encode())


def _proof(key: bytes, home: Path, token: str) -> str:
    import hmac

    said = b"\0".join((b"holdfast store 2", os.fsencode(home.resolve()), token.encode()))
    return hmac.new(key, said, "sha256").hexdigest()


def _key(data_home: Path, *, create: bool) -> bytes | None:
    path = data_home / _KEY
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        if not create:
            return None
        data_home.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_file(path, os.urandom(_KEY_BYTES))
        key = path.read_bytes()
    return key if len(key) == _KEY_BYTES else None
