-- Events of deleted streams, until they go back or are removed for good.
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

-- Short numbers of runs and tasks.
ALTER TABLE streams ADD COLUMN number INTEGER NOT NULL DEFAULT 0;

UPDATE streams SET number = counted.number
FROM (SELECT id, row_number() OVER (ORDER BY id) AS number FROM streams
      WHERE name NOT GLOB '@*' OR name GLOB '@task/*') AS counted
WHERE streams.id = counted.id;

CREATE UNIQUE INDEX streams_by_number ON streams (number) WHERE number > 0;
