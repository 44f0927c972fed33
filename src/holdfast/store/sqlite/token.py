"""The token of a store: a random value in its database, known only to readers of that database.

The user's proof and the user's trust are bound to it (decision 0012): another database in the same place has
another token, or none. A backup holds none.
"""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from holdfast.errors import StoreError
from holdfast.store.sqlite import sql
from holdfast.store.sqlite.connection import connect, translate


def read_token(path: Path) -> str:
    """The token of the database; empty if it has none, is a symbolic link, or cannot be read."""
    if path.is_symlink():  # SQLite would make files beside what it leads to
        return ""
    try:
        db = connect(path)
        try:
            value = db.execute(sql.query("token")).get
        finally:
            db.close()
    except (StoreError, apsw.Error):
        return ""
    return value if isinstance(value, str) else ""


def set_token(path: Path, *, renew: bool = False) -> str:
    """Give the database a token, durably; one that it has stays, unless it is to be renewed."""
    db = connect(path)
    try:
        with db:
            if renew:
                db.execute(sql.query("remove_token"))
            db.execute(sql.query("set_token"), (os.urandom(16).hex(),))
            value: str = db.execute(sql.query("token")).get
        return value
    except apsw.Error as error:
        raise translate(error, path) from None
    finally:
        db.close()
