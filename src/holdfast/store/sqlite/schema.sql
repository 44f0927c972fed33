-- The log: append-only, one row per event, chained by hash within its stream.
-- `position` is never reused although it is no AUTOINCREMENT (which would dirty one more page in
-- every commit): the newest row of the log is never deleted.
-- `synced` is 1 when the commit that wrote the row waited for the disk: the feed shows nothing
-- beyond the last such row.
CREATE TABLE events (
    position INTEGER PRIMARY KEY,
    stream   INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    type     TEXT    NOT NULL,
    time     INTEGER NOT NULL,
    payload  TEXT    NOT NULL,
    hash     BLOB    NOT NULL,
    synced   INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX events_by_stream ON events (stream, version);

-- The evidence of all runs is listed without a look at the rest of the log.
CREATE INDEX events_of_evidence ON events (stream, version) WHERE type IN ('EvidenceWritten', 'EvidenceVerified');

-- The decisions among the notes of tasks, the newest first, and which runs wrote some, without a look at any task.
CREATE INDEX events_of_decisions ON events (time, position, payload ->> '$.author.run')
WHERE type = 'TaskNoted' AND payload ->> '$.kind' = 'decision';

-- Events of deleted streams, each with the place that it had in the log: no reader looks here. They go back, or
-- are removed for good.
CREATE TABLE deleted_events (
    position INTEGER PRIMARY KEY,
    stream   INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    type     TEXT    NOT NULL,
    time     INTEGER NOT NULL,
    payload  TEXT    NOT NULL,
    hash     BLOB    NOT NULL,
    synced   INTEGER NOT NULL
) STRICT;

CREATE INDEX deleted_by_stream ON deleted_events (stream, version);

-- A head per stream: compared and swapped in the transaction that appends. Of a stream that was archived
-- (its kind says so) only this row is left, so that neither its name nor its id is used again. The kind of a
-- deleted stream is 'deleted'; the record of its deletion has the one that it was.
CREATE TABLE streams (
    id      INTEGER PRIMARY KEY,
    name    TEXT    NOT NULL UNIQUE,
    kind    TEXT    NOT NULL,
    version INTEGER NOT NULL,
    hash    BLOB    NOT NULL,
    epoch   INTEGER NOT NULL,
    time    INTEGER NOT NULL
, number INTEGER NOT NULL DEFAULT 0) STRICT;

-- The short numbers of runs and tasks: 1, 2, 3, ... in the order of their creation, also of those that are gone.
CREATE UNIQUE INDEX streams_by_number ON streams (number) WHERE number > 0;

-- Values too large for a row of the log, by their SHA-256.
CREATE TABLE blobs (
    hash TEXT PRIMARY KEY,
    data BLOB NOT NULL
) STRICT;

-- Projections: written only by the triggers of a group (runs.sql), and rebuilt from the log.
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

-- Runs that have not ended for good: what can be resumed is found without a look at all the others. A run
-- that completes leaves the index, so it stays small.
CREATE INDEX runs_open ON runs (stream, status, owner, parent) WHERE status NOT IN ('completed', 'cancelled');

CREATE VIEW open_runs AS
SELECT stream, workflow, status, reason, cause, attention_step, owner, generation, sleepers, parent, created_at
FROM runs INDEXED BY runs_open
WHERE status NOT IN ('completed', 'cancelled');

-- Child runs by their parent.
CREATE INDEX runs_by_parent ON runs (parent) WHERE parent <> '';

-- Runs without an owner that wait for nothing. A worker finds them here without reading all waiting runs.
CREATE INDEX runs_ready ON runs (stream) WHERE owner = '' AND status IN ('pending', 'running');

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

-- When sleeps and gates are over.
CREATE INDEX steps_due ON step_rows (due_at) WHERE status IN ('sleeping', 'waiting') AND due_at > 0;

-- Child runs that their parents wait for.
CREATE INDEX steps_of_children ON step_rows (child) WHERE kind = 'child' AND status = 'running';

-- The step that a child run is.
CREATE INDEX steps_by_child ON step_rows (child) WHERE child <> '';

-- All steps of all generations.
CREATE VIEW steps AS
SELECT run, generation, key, name, kind, effect, status, attempt, started_at, ended_at, due_at, child, version
FROM step_rows
UNION ALL
SELECT stream, coalesce(payload ->> '$.generation', 0), payload ->> '$.key', payload ->> '$.name', 'step',
       'idempotent', 'completed', 1, payload ->> '$.started_at', time, 0, '', version
FROM events WHERE type = 'StepRan';

-- What a run was when it left a generation: what comes back when that is restored.
CREATE TABLE generations (
    run            INTEGER NOT NULL,
    generation     INTEGER NOT NULL,
    status         TEXT    NOT NULL,
    reason         TEXT    NOT NULL,
    cause          TEXT    NOT NULL,
    attention_step TEXT    NOT NULL,
    ended_at       INTEGER NOT NULL,
    PRIMARY KEY (run, generation)
) STRICT, WITHOUT ROWID;

-- The stages that a run has entered in each generation. Those that a rewind keeps are copied.
CREATE TABLE stages (
    run        INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    PRIMARY KEY (run, generation, version)
) STRICT, WITHOUT ROWID;

-- Operations: changes from outside that can be undone.
CREATE TABLE operations (
    stream            INTEGER PRIMARY KEY,
    kind              TEXT    NOT NULL,
    run               TEXT    NOT NULL,
    person            TEXT    NOT NULL,
    target            TEXT    NOT NULL,
    undoes            TEXT    NOT NULL,
    left_generation   INTEGER NOT NULL,
    opened_generation INTEGER NOT NULL,
    status            TEXT    NOT NULL,
    begun_at          INTEGER NOT NULL
) STRICT;

-- Tasks, links and sessions (tracker.sql). Lists, objects, evidence and the claim are JSON.
CREATE TABLE tasks (
    stream     INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    body       TEXT    NOT NULL,
    status     TEXT    NOT NULL,
    priority   INTEGER NOT NULL,
    labels     TEXT    NOT NULL,
    assignee   TEXT    NOT NULL,
    due        INTEGER NOT NULL,
    checks     TEXT    NOT NULL,
    meta       TEXT    NOT NULL,
    blocked    TEXT    NOT NULL,
    summary    TEXT    NOT NULL,
    evidence   TEXT    NOT NULL,
    error      TEXT    NOT NULL,
    unchecked  TEXT    NOT NULL,
    archived   INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    claim      TEXT    NOT NULL,
    number     INTEGER NOT NULL,
    session    TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- Claimed tasks: few, and some of them with a claim that is dead.
CREATE INDEX tasks_claimed ON tasks (stream) WHERE status = 'in_progress';

-- The tasks of a session by status, the last ones first: `current.json` shows few of what may be many.
CREATE INDEX tasks_by_session ON tasks (session, status, ended_at);

-- Whether a task can be worked on. Apart from the task, whose row is wide: a task that is completed changes the
-- count of every task that needs it.
CREATE TABLE task_readiness (
    stream        INTEGER PRIMARY KEY,
    priority      INTEGER NOT NULL,
    open          INTEGER NOT NULL,
    open_blockers INTEGER NOT NULL
) STRICT;

CREATE INDEX tasks_ready ON task_readiness (priority, stream) WHERE open = 1 AND open_blockers = 0;

-- `task` needs `on_task`, or is a part of it, as `kind` says. Ids are those of streams.
CREATE TABLE links (
    kind    TEXT    NOT NULL,
    on_task INTEGER NOT NULL,
    task    INTEGER NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (kind, on_task, task)
) STRICT, WITHOUT ROWID;

CREATE INDEX links_by_task ON links (task, kind, on_task);

CREATE TABLE sessions (
    stream     INTEGER PRIMARY KEY,
    actor      TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    summary    TEXT    NOT NULL
) STRICT;

-- Decisions, patterns and facts, each with what became of it (memory.sql).
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

-- The tasks that a run has written to, and the version of its last event there (authored.sql).
CREATE TABLE authored (
    run     TEXT    NOT NULL,
    stream  INTEGER NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (run, stream)
) STRICT, WITHOUT ROWID;

CREATE INDEX authored_by_stream ON authored (stream);

-- Budgets with their limits and what is spent of them; sums of money and seconds are exact text (budgets.sql).
CREATE TABLE budgets (
    stream        INTEGER PRIMARY KEY,
    is_set        INTEGER NOT NULL,
    limits        TEXT    NOT NULL,
    parent        TEXT    NOT NULL,
    person        TEXT    NOT NULL,
    spent_usd     TEXT    NOT NULL,
    spent_tokens  INTEGER NOT NULL,
    spent_seconds TEXT    NOT NULL,
    spent_steps   INTEGER NOT NULL,
    unknown       INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL
) STRICT;

-- The open reservations of each budget.
CREATE TABLE reservations (
    stream     INTEGER NOT NULL,
    id         TEXT    NOT NULL,
    run        TEXT    NOT NULL,
    step       TEXT    NOT NULL,
    attempt    INTEGER NOT NULL,
    amounts    TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    owner      TEXT    NOT NULL,
    epoch      INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (stream, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX reservations_by_run ON reservations (run);

-- What each run has spent in each budget.
CREATE TABLE run_spending (
    stream  INTEGER NOT NULL,
    run     TEXT    NOT NULL,
    usd     TEXT    NOT NULL,
    tokens  INTEGER NOT NULL,
    seconds TEXT    NOT NULL,
    steps   INTEGER NOT NULL,
    unknown INTEGER NOT NULL,
    PRIMARY KEY (stream, run)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_spending_by_run ON run_spending (run);

-- How the work ended for which a router or a chooser of skills had chosen a candidate (learning.sql). In the order in which
-- it is read: the last outcomes of one candidate, in time that does not grow with the table. `usd` is in billionths of a
-- dollar, -1 if it is not known.
CREATE TABLE outcomes (
    family    TEXT    NOT NULL,
    kind      TEXT    NOT NULL,
    candidate TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    stream    INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    ok        INTEGER NOT NULL,
    usd       INTEGER NOT NULL,
    error     TEXT    NOT NULL,
    PRIMARY KEY (family, kind, candidate, at, stream, version)
) STRICT, WITHOUT ROWID;

CREATE INDEX outcomes_by_stream ON outcomes (stream);

-- Not of the log: who is alive now, and what this store is.
CREATE TABLE owners (
    id         TEXT PRIMARY KEY,
    host       TEXT    NOT NULL,
    boot       TEXT    NOT NULL,
    pid        INTEGER NOT NULL,
    started_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
