-- Budgets. The tables are made from the log by whoever migrates, in the same transaction.
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
