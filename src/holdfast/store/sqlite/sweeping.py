"""Large values that no event names any more: found while others continue writing, removed a few at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import apsw

from holdfast.errors import StoreCorrupt
from holdfast.store.sqlite import sql
from holdfast.store.sqlite.connection import connect, translate

AT_ONCE: Final = 100
"""How many are removed in a transaction: a commit of another process waits no longer than for these."""


def find(path: Path) -> tuple[int, list[str]]:
    """The last position of the log, and the hashes that no event up to there names. The whole log is read,
    in a snapshot of its own."""
    db = connect(path)
    try:
        db.execute("BEGIN")
        behind: int = db.execute(sql.query("last_position")).get
        stored = {hash for (hash,) in db.execute(sql.query("blobs"))}
        return behind, sorted(stored - _named(db, 0)) if stored else []
    except apsw.Error as error:
        raise translate(error, path) from None
    finally:
        db.close()


def drop(db: apsw.Connection, hashes: Sequence[str], behind: int) -> int:
    """Remove those of these that no event behind that position names either; how many they were. The caller
    holds the transaction."""
    unnamed = set(hashes) - _named(db, behind)
    db.executemany(sql.query("drop_blob"), [(hash,) for hash in sorted(unnamed)])
    return len(unnamed)


def _named(db: apsw.Connection, behind: int) -> set[str]:
    named = set()
    for stream, version, hash in db.execute(sql.query("blobs_named"), (behind,)):
        if hash is None:
            raise StoreCorrupt(f"version {version} of {stream} cannot be read, so no large value is removed")
        named.add(hash)
    return named
