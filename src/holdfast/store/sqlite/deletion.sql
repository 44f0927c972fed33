-- How streams are deleted and restored. Temporary, so that the triggers are always those of the code that writes.
--
-- One trigger each, for the order of its statements: a stream is projected again when its events are back.
-- `projections.py` puts the statements for every group at `rows`. A rebuild does not look at these records: the
-- events of a deleted stream are not in the log, and those of a restored one are in their old places.
-- Each group removes the rows of a deleted stream as those of an archived one. `StreamProjected`, which is in no
-- log, tells it that a restored stream has its rows again: what events of other streams say of it follows.

CREATE TEMP TRIGGER delete_stream INSTEAD OF INSERT ON appended WHEN NEW.type = 'StreamDeleted' BEGIN
    INSERT INTO main.events (stream, version, type, time, payload, hash, synced)
    VALUES (NEW.stream, NEW.version, NEW.type, NEW.time, NEW.payload, NEW.hash, NEW.synced);
    INSERT INTO main.deleted_events
    SELECT position, stream, version, type, time, payload, hash, synced FROM main.events
    WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
    DELETE FROM main.events WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
    -- rows: removed
    -- The epoch, too: an owner that remembers the head must not append to it.
    UPDATE main.streams SET kind = 'deleted', epoch = -1 - epoch WHERE name = NEW.payload ->> '$.stream';
END;

CREATE TEMP TRIGGER restore_stream INSTEAD OF INSERT ON appended WHEN NEW.type = 'StreamRestored' BEGIN
    INSERT INTO main.events (stream, version, type, time, payload, hash, synced)
    VALUES (NEW.stream, NEW.version, NEW.type, NEW.time, NEW.payload, NEW.hash, NEW.synced);
    INSERT INTO main.events (position, stream, version, type, time, payload, hash, synced)
    SELECT position, stream, version, type, time, payload, hash, synced FROM main.deleted_events
    WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
    DELETE FROM main.deleted_events
    WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
    UPDATE main.streams SET kind = NEW.payload ->> '$.kind', epoch = -1 - epoch WHERE name = NEW.payload ->> '$.stream';
    -- rows: projected
END;
