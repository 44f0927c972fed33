-- The stage that a run is in, and those that it has entered in each generation. The tables are made again from
-- the log by whoever migrates, in the same transaction.
DELETE FROM meta WHERE key = 'projections';
DROP VIEW open_runs;
DROP TABLE runs;

CREATE TABLE runs (
    stream         INTEGER PRIMARY KEY,
    workflow       TEXT    NOT NULL,
    status         TEXT    NOT NULL,
    reason         TEXT    NOT NULL,
    cause          TEXT    NOT NULL,
    attention_step TEXT    NOT NULL,
    owner          TEXT    NOT NULL,
    generation     INTEGER NOT NULL,
    sleepers       INTEGER NOT NULL,
    parent         TEXT    NOT NULL,
    created_at     INTEGER NOT NULL,
    ended_at       INTEGER NOT NULL,
    stage          TEXT    NOT NULL
) STRICT;

CREATE INDEX runs_open ON runs (stream, status, owner, parent) WHERE status NOT IN ('completed', 'cancelled');
CREATE VIEW open_runs AS
SELECT stream, workflow, status, reason, cause, attention_step, owner, generation, sleepers, parent, created_at
FROM runs INDEXED BY runs_open
WHERE status NOT IN ('completed', 'cancelled');
CREATE INDEX runs_by_parent ON runs (parent) WHERE parent <> '';
CREATE INDEX runs_ready ON runs (stream) WHERE owner = '' AND status IN ('pending', 'running');

CREATE TABLE stages (
    run        INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    PRIMARY KEY (run, generation, version)
) STRICT, WITHOUT ROWID;
