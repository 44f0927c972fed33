-- The tasks that a run has written to, and the version of its last event there (authored.sql).
CREATE TABLE authored (
    run     TEXT    NOT NULL,
    stream  INTEGER NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (run, stream)
) STRICT, WITHOUT ROWID;

CREATE INDEX authored_by_stream ON authored (stream);
