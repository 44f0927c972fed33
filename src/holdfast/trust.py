"""Which directories and stores the user trusts (decision 0012).

Settings files and stores may come from somewhere else: a cloned repository, an archive, another user of the
machine. A settings file that moves the store, and a store that names code and directories, are used only if
they are the user's own:

- a store in the data home is;
- so is one that this user's holdfast made elsewhere: it holds a *proof*, an HMAC of its path by a key that
  lies in the data home;
- all else needs a *record* in the data home, which `holdfast trust` writes. It is bound to the directory and
  to the content that was there: other settings, or another database, need trust again.
"""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

PROOF: Final = "made-by"
"""The file in a store's directory by which its maker knows it again."""
_RECORDS: Final = "trust"
_KEY: Final = "key"
_KEY_BYTES: Final = 32


class Trusted(msgspec.Struct, frozen=True):
    """A directory that the user trusts, with what was in it then."""

    directory: str
    content: str
    at: str


# Whose file it is


def fault(status: os.stat_result) -> str:
    """Why a file or directory cannot be relied on: who else can change it; empty if nobody can.

    Root can change everything anyway. A group that only this user is in is as good as none: where every
    user has a group of his own, files are made writable for it.
    """
    if status.st_uid not in (os.geteuid(), 0):
        return f"belongs to another user ({_user(status.st_uid)})"
    if status.st_mode & stat.S_IWOTH:
        return "can be written by every user"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid):
        return f"can be written by the group {_group(status.st_gid)}"
    return ""


def store_fault(home: Path, database: str) -> str:
    """The same for a store's directory and its database; empty for one that is not there yet."""
    try:
        if not stat.S_ISDIR(home.stat().st_mode):
            return ""
        for path in (home, home / database):
            found = fault(path.stat())
            if found:
                return f"{path} {found}"
    except OSError:
        pass  # opening it says so
    return ""


def way_out(home: Path) -> str:
    """A symbolic link in a store's directory, by which what is written to the store would land elsewhere;
    empty if there is none. Copies of workspaces may hold any links: nothing of holdfast is written there."""
    for parent, directories, files in os.walk(home):
        for name in (*directories, *files):
            if Path(parent, name).is_symlink():
                return os.path.join(parent, name)  # noqa: PTH118
        if Path(parent) == home and "copies" in directories:
            directories.remove("copies")
    return ""


def _is_private_group(gid: int) -> bool:
    import grp
    import pwd

    if os.geteuid() == 0 and gid == 0:
        return True
    try:
        user = pwd.getpwuid(os.geteuid())
        group = grp.getgrgid(gid)
    except KeyError:
        return False
    return gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


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


# What the user has said


def is_trusted(data_home: Path, directory: Path, content: str) -> bool:
    """Whether the user trusted this directory with this content."""
    found = _read(_record(data_home, directory))
    return found is not None and found.content == _bound(directory, content)


def trust(data_home: Path, directory: Path, content: str) -> Trusted:
    """Record that the user trusts it, durably; a second time for the same content changes nothing."""
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    made = Trusted(os.fspath(directory.resolve()), _bound(directory, content), at)
    path = _record(data_home, directory)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _put(path, msgspec.json.encode({"version": 1, **msgspec.to_builtins(made)}))
    return made


def untrust(data_home: Path, directory: Path) -> bool:
    """Remove the record; False if there was none."""
    try:
        _record(data_home, directory).unlink()
    except FileNotFoundError:
        return False
    return True


def listed(data_home: Path) -> list[Trusted]:
    """All records, by directory."""
    directory = data_home / _RECORDS
    paths = directory.glob("*.json") if directory.is_dir() else ()
    found = [one for one in map(_read, paths) if one is not None]
    return sorted(found, key=lambda one: one.directory)


def database_content(home: Path, database: str) -> str:
    """What the trust in a store is bound to: the file itself, not a copy in its place."""
    try:
        return f"store:{(home / database).stat().st_ino}"
    except OSError:
        return "store:"


def _bound(directory: Path, content: str) -> str:
    """The content with the directory itself: a clone in the place of another one is another directory."""
    try:
        return f"{directory.stat().st_ino}:{content}"
    except OSError:
        return f"0:{content}"


def _record(data_home: Path, directory: Path) -> Path:
    from hashlib import sha256

    name = sha256(os.fsencode(directory.resolve())).hexdigest()[:32]
    return data_home / _RECORDS / f"{name}.json"


def _read(path: Path) -> Trusted | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Trusted)
    except (OSError, msgspec.DecodeError):
        return None


# What the user has made


def prove(data_home: Path, home: Path) -> None:
    """Leave the proof that this user made the store. Where it cannot be written the store is used all the
    same, as one from elsewhere."""
    try:
        key = _key(data_home, create=True)
        if key is not None:
            _put(home / PROOF, _proof(key, home).encode() + b"\n")
    except OSError:
        pass


def is_proven(data_home: Path, home: Path) -> bool:
    """Whether this user made the store, at this place."""
    from hmac import compare_digest

    try:
        key = _key(data_home, create=False)
        given = (home / PROOF).read_bytes().strip()
    except OSError:
        return False
    return key is not None and compare_digest(given, _proof(key, home).encode())


def _proof(key: bytes, home: Path) -> str:
    import hmac

    return hmac.new(key, b"holdfast store\0" + os.fsencode(home.resolve()), "sha256").hexdigest()


def _key(data_home: Path, *, create: bool) -> bytes | None:
    path = data_home / _KEY
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        if not create:
            return None
        data_home.mkdir(mode=0o700, parents=True, exist_ok=True)
        _put(path, os.urandom(_KEY_BYTES), replace=False)
        key = path.read_bytes()
    return key if len(key) == _KEY_BYTES else None


def _put(path: Path, data: bytes, *, replace: bool = True) -> None:
    """Write a whole file, mode 0600; without `replace` the one that came first stays."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:  # noqa: PTH123
            file.write(data)
            file.flush()
            os.fsync(fd)
        if replace:
            temporary.replace(path)
        else:
            try:
                os.link(temporary, path)
            except FileExistsError:
                pass
    finally:
        temporary.unlink(missing_ok=True)
