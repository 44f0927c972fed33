-- Decisions, patterns and facts. The table is made from the log by whoever migrates, in the same transaction.
CREATE TABLE memories (
    id         TEXT PRIMARY KEY,
    stream     INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    text       TEXT    NOT NULL,
    scope      TEXT    NOT NULL,
    source     TEXT    NOT NULL,
    cites      TEXT    NOT NULL,
    supersedes TEXT    NOT NULL,
    author     TEXT    NOT NULL,
    run        TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    withdrawn  INTEGER NOT NULL,
    reason     TEXT    NOT NULL,
    operation  TEXT    NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX memories_by_version ON memories (version);
CREATE INDEX memories_by_run ON memories (run) WHERE run <> '';
CREATE INDEX memories_that_supersede ON memories (supersedes) WHERE supersedes <> '';
