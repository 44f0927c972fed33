"""What a connection says of itself, so that a setting that another release changes is told as it is there.

Imported by the workers, which run in the environments of the peers: the standard library only.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

JOURNALS = {"delete": "rollback journal", "wal": "WAL"}
SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")


def setting(pragma: Callable[[str], str | int]) -> str:
    """Version, journal and `synchronous` of the connection that answers `pragma(name)`."""
    journal, synchronous = str(pragma("journal_mode")), int(pragma("synchronous"))
    return (
        f"SQLite {sqlite3.sqlite_version}, {JOURNALS.get(journal, journal)}, "
        f"synchronous={SYNCHRONOUS[synchronous]}"
    )
