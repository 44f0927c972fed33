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
