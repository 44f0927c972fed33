"""The embedded store: SQLite through apsw, in WAL mode."""

from holdfast.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
