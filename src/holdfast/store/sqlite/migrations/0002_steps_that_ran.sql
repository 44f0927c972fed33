-- Steps, but for those that are one `StepRan` in the log: a row here would be one more page in every commit.
CREATE TABLE step_rows (
    run        INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    key        TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    effect     TEXT    NOT NULL,
    status     TEXT    NOT NULL,
    attempt    INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    due_at     INTEGER NOT NULL,
    child      TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    PRIMARY KEY (run, generation, key)
) STRICT, WITHOUT ROWID;

INSERT INTO step_rows SELECT * FROM steps;

DROP TABLE steps;

-- All steps of all generations.
CREATE VIEW steps AS
SELECT run, generation, key, name, kind, effect, status, attempt, started_at, ended_at, due_at, child, version
FROM step_rows
UNION ALL
SELECT stream, coalesce(payload ->> '$.generation', 0), payload ->> '$.key', payload ->> '$.name', 'step',
       'idempotent', 'completed', 1, payload ->> '$.started_at', time, 0, '', version
FROM events WHERE type = 'StepRan';
