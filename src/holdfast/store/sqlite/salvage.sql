-- Everything that the copies of a log still hold, true or not: a scratch database of `repair`, never a store.
-- `trust` of a copy: 0 the store's own files, 1 other copies of the same log, 2 those from before a
-- repair, 3 copies of an earlier life of it.

CREATE TABLE copies (
    id    INTEGER PRIMARY KEY,
    label TEXT    NOT NULL,
    trust INTEGER NOT NULL
) STRICT;

CREATE TABLE found (
    id       INTEGER PRIMARY KEY,
    copy     INTEGER NOT NULL,
    stream   INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    type     TEXT    NOT NULL,
    time     INTEGER NOT NULL,
    payload  TEXT    NOT NULL,
    hash     BLOB    NOT NULL,
    synced   INTEGER NOT NULL,
    position INTEGER NOT NULL,
    rank     INTEGER NOT NULL,
    digest   BLOB    NOT NULL,
    -- Of an event of a journal: the last known position before it there, and the number of its line.
    behind   INTEGER NOT NULL DEFAULT 0,
    line     INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE UNIQUE INDEX found_once ON found (copy, stream, version, digest);

CREATE INDEX found_by_position ON found (copy, position);

CREATE TABLE names (
    copy   INTEGER NOT NULL,
    stream INTEGER NOT NULL,
    name   TEXT    NOT NULL,
    PRIMARY KEY (name, copy, stream)
) STRICT, WITHOUT ROWID;

CREATE INDEX names_by_stream ON names (stream, copy);

-- Entries (text, rowid) of index pages. Only one of these indexes has the names of the streams.
CREATE TABLE entries (
    copy   INTEGER NOT NULL,
    page   INTEGER NOT NULL,
    stream INTEGER NOT NULL,
    name   TEXT    NOT NULL,
    PRIMARY KEY (copy, page, name, stream)
) STRICT, WITHOUT ROWID;

CREATE INDEX entries_by_stream ON entries (copy, stream);

CREATE TABLE heads (
    copy    INTEGER NOT NULL,
    stream  INTEGER NOT NULL,
    name    TEXT    NOT NULL,
    kind    TEXT    NOT NULL,
    version INTEGER NOT NULL,
    hash    BLOB    NOT NULL,
    rank    INTEGER NOT NULL,
    -- 2 if a cell pointer leads to the row, 1 if the pointers of its page are damaged, 0 if it is left over.
    reach   INTEGER NOT NULL,
    PRIMARY KEY (name, copy, stream, version, hash, kind)
) STRICT, WITHOUT ROWID;

CREATE INDEX heads_by_stream ON heads (stream);

CREATE TABLE places (
    copy     INTEGER NOT NULL,
    stream   INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    position INTEGER NOT NULL,
    page     INTEGER NOT NULL,
    PRIMARY KEY (copy, stream, version, page)
) STRICT, WITHOUT ROWID;

CREATE INDEX places_by_page ON places (copy, page);

CREATE TABLE blobs (
    hash TEXT PRIMARY KEY,
    data BLOB NOT NULL
) STRICT;
