-- Which tasks a run has written to, and whether it has linked any: what a rewind of the run restores is found without a look at all tasks.
-- A change of this file rebuilds this table, and no other (`projections.py`).

CREATE TEMP VIEW projected_authored AS
SELECT 0 AS stream, 0 AS version, '' AS type, 0 AS time, '' AS payload;

CREATE TEMP TRIGGER append_for_authored INSTEAD OF INSERT ON appended
WHEN NEW.type = 'TaskCreated' OR NEW.type = 'TaskEdited' OR NEW.type = 'TaskClaimed'
    OR NEW.type = 'ClaimRenewed' OR NEW.type = 'ClaimReleased' OR NEW.type = 'TaskCompleted'
    OR NEW.type = 'TaskFailed' OR NEW.type = 'TaskBlocked' OR NEW.type = 'TaskReopened'
    OR NEW.type = 'TaskNoted' OR NEW.type = 'TaskArchived' OR NEW.type = 'LinkAdded' OR NEW.type = 'LinkRemoved'
    OR NEW.type = 'StreamArchived' BEGIN
    INSERT INTO projected_authored VALUES (NEW.stream, NEW.version, NEW.type, NEW.time, NEW.payload);
END;

CREATE TEMP TRIGGER project_authored INSTEAD OF INSERT ON projected_authored
WHEN NEW.type IN ('TaskCreated', 'TaskEdited', 'TaskClaimed', 'ClaimRenewed', 'ClaimReleased', 'TaskCompleted',
                  'TaskFailed', 'TaskBlocked', 'TaskReopened', 'TaskNoted', 'TaskArchived', 'LinkAdded', 'LinkRemoved')
     AND NEW.payload ->> '$.author.run' <> '' BEGIN
    INSERT OR REPLACE INTO main.authored VALUES (NEW.payload ->> '$.author.run', NEW.stream, NEW.version);
END;

CREATE TEMP TRIGGER archive_authored INSTEAD OF INSERT ON projected_authored WHEN NEW.type = 'StreamArchived' BEGIN
    DELETE FROM main.authored
    WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
END;
