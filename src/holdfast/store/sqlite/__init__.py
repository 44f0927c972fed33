"""The embedded store: SQLite through apsw, in WAL mode."""
