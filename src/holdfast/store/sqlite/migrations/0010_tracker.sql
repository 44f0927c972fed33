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

CREATE INDEX tasks_claimed ON tasks (stream) WHERE status = 'in_progress';

CREATE TABLE task_readiness (
    stream        INTEGER PRIMARY KEY,
    priority      INTEGER NOT NULL,
    open          INTEGER NOT NULL,
    open_blockers INTEGER NOT NULL
) STRICT;

CREATE INDEX tasks_ready ON task_readiness (priority, stream) WHERE open = 1 AND open_blockers = 0;

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
