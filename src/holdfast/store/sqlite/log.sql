-- How events are written to the log. Temporary, so that the triggers are always those of the code that writes.
--
-- An INSERT into `appended` is one event written to the log and seen by the projections: each group of them
-- (`runs.sql`, see `projections.py`) has a trigger of its own on this view, whose condition compares: for each event
-- SQLite would make an index of a longer list behind IN. The last event of a submission
-- carries `base` (the version before it) and `epoch`: the head is compared and swapped there, and a stale one
-- aborts the whole statement. `fence` is the epoch from there on, if it changes. A StreamCreated carries in
-- `begins` the id of the stream that begins.

CREATE TEMP VIEW appended AS
SELECT 0 AS stream, 0 AS version, '' AS type, 0 AS time, '' AS payload, x'' AS hash, 0 AS synced,
       0 AS base, 0 AS epoch, 0 AS fence, 0 AS begins;

CREATE TEMP TRIGGER append_event INSTEAD OF INSERT ON appended
WHEN NEW.type <> 'StreamArchived' AND NEW.type <> 'StreamDeleted' AND NEW.type <> 'StreamRestored' BEGIN
    INSERT INTO main.events (stream, version, type, time, payload, hash, synced)
    VALUES (NEW.stream, NEW.version, NEW.type, NEW.time, NEW.payload, NEW.hash, NEW.synced);
END;

-- Each group of projections sees this event too, and removes the rows of the stream.
-- The record first: the newest row of the log is never deleted, so that no position is used again.
CREATE TEMP TRIGGER archive_stream INSTEAD OF INSERT ON appended WHEN NEW.type = 'StreamArchived' BEGIN
    INSERT INTO main.events (stream, version, type, time, payload, hash, synced)
    VALUES (NEW.stream, NEW.version, NEW.type, NEW.time, NEW.payload, NEW.hash, NEW.synced);
    DELETE FROM main.events WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
    DELETE FROM main.deleted_events
    WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
    UPDATE main.streams SET kind = 'archived' WHERE name = NEW.payload ->> '$.stream';
END;

CREATE TEMP TRIGGER append_head INSTEAD OF INSERT ON appended WHEN NEW.base IS NOT NULL BEGIN
    INSERT INTO heads VALUES (NEW.stream, NEW.version, NEW.hash, NEW.time, NEW.base, NEW.epoch, NEW.fence);
END;

CREATE TEMP TRIGGER append_stream INSTEAD OF INSERT ON appended WHEN NEW.begins IS NOT NULL BEGIN
    INSERT INTO begun VALUES (NEW.begins, NEW.payload);
END;

-- An INSERT into `heads` moves the head of a stream.
CREATE TEMP VIEW heads AS
SELECT 0 AS stream, 0 AS version, x'' AS hash, 0 AS time, 0 AS base, 0 AS epoch, 0 AS fence;

CREATE TEMP TRIGGER swap_head INSTEAD OF INSERT ON heads BEGIN
    UPDATE main.streams SET
        version = NEW.version, hash = NEW.hash, time = NEW.time, epoch = coalesce(NEW.fence, epoch)
    WHERE id = NEW.stream AND version = NEW.base AND epoch = NEW.epoch;
    SELECT RAISE(ABORT, 'stale head') WHERE changes() <> 1;
END;

-- An INSERT into `begun` begins a stream; the payload is that of its StreamCreated.
CREATE TEMP VIEW begun AS SELECT 0 AS stream, '' AS payload;

CREATE TEMP TRIGGER begin_stream INSTEAD OF INSERT ON begun BEGIN
    INSERT INTO main.streams (id, name, kind, version, hash, epoch, time, number)
    VALUES (
        NEW.stream, NEW.payload ->> '$.stream', NEW.payload ->> '$.kind', 0, zeroblob(32), 0, 0,
        iif(NEW.payload ->> '$.stream' NOT GLOB '@*' OR NEW.payload ->> '$.stream' GLOB '@task/*',
            1 + coalesce((SELECT max(number) FROM main.streams WHERE number > 0), 0), 0)
    );
END;

-- The beginning and the end of a run (`projections.run_life`): one trigger, and the few of `runs.sql` that look at
-- these events. SQLite compiles a statement with every trigger that it may fire, and there is a statement for each
-- number of rows: for `appended` that takes 1.8 ms, for this view 0.3.
CREATE TEMP VIEW lived AS SELECT * FROM appended;

CREATE TEMP TRIGGER live_event INSTEAD OF INSERT ON lived BEGIN
    INSERT INTO begun SELECT NEW.begins, NEW.payload WHERE NEW.begins IS NOT NULL;
    INSERT INTO main.events (stream, version, type, time, payload, hash, synced)
    VALUES (NEW.stream, NEW.version, NEW.type, NEW.time, NEW.payload, NEW.hash, NEW.synced);
    INSERT INTO heads SELECT NEW.stream, NEW.version, NEW.hash, NEW.time, NEW.base, NEW.epoch, NEW.fence
    WHERE NEW.base IS NOT NULL;
    INSERT INTO projected_run_life VALUES (NEW.stream, NEW.version, NEW.type, NEW.time, NEW.payload);
END;

-- The hot path: an event that no projection of any group looks at, such as `StepRan`. One trigger instead of
-- twenty.
CREATE TEMP VIEW logged AS
SELECT 0 AS stream, 0 AS version, '' AS type, 0 AS time, '' AS payload, x'' AS hash, 0 AS synced, 0 AS epoch;

CREATE TEMP TRIGGER log_event INSTEAD OF INSERT ON logged BEGIN
    UPDATE main.streams SET version = NEW.version, hash = NEW.hash, time = NEW.time
    WHERE id = NEW.stream AND version = NEW.version - 1 AND epoch = NEW.epoch;
    SELECT RAISE(ABORT, 'stale head') WHERE changes() <> 1;
    INSERT INTO main.events (stream, version, type, time, payload, hash, synced)
    VALUES (NEW.stream, NEW.version, NEW.type, NEW.time, NEW.payload, NEW.hash, NEW.synced);
END;
