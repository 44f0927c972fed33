-- What a run was when it left a generation: what comes back when that is restored.
CREATE TABLE generations (
    run            INTEGER NOT NULL,
    generation     INTEGER NOT NULL,
    status         TEXT    NOT NULL,
    reason         TEXT    NOT NULL,
    cause          TEXT    NOT NULL,
    attention_step TEXT    NOT NULL,
    PRIMARY KEY (run, generation)
) STRICT, WITHOUT ROWID;

-- What was done to runs from outside, and can be taken back.
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
