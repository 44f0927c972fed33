-- How the log becomes the table of memories. Temporary, so that the triggers are always those of the code that
-- writes. A change of this file rebuilds this table, and no other (`projections.py`).

CREATE TEMP VIEW projected_memory AS
SELECT 0 AS stream, 0 AS version, '' AS type, 0 AS time, '' AS payload;

CREATE TEMP TRIGGER append_for_memory INSTEAD OF INSERT ON appended
WHEN NEW.type = 'Remembered' OR NEW.type = 'MemoryWithdrawn' OR NEW.type = 'MemoryRestored'
    OR NEW.type = 'StreamArchived' BEGIN
    INSERT INTO projected_memory VALUES (NEW.stream, NEW.version, NEW.type, NEW.time, NEW.payload);
END;

CREATE TEMP TRIGGER project_remembered INSTEAD OF INSERT ON projected_memory WHEN NEW.type = 'Remembered' BEGIN
    INSERT OR IGNORE INTO main.memories VALUES (
        NEW.payload ->> '$.id', NEW.stream, NEW.version, NEW.payload ->> '$.kind', NEW.payload ->> '$.text',
        coalesce(NEW.payload ->> '$.scope', 'project'), coalesce(NEW.payload ->> '$.source', ''),
        coalesce(NEW.payload -> '$.cites', '[]'), coalesce(NEW.payload ->> '$.supersedes', ''),
        coalesce(NEW.payload -> '$.author', '{}'), coalesce(NEW.payload ->> '$.author.run', ''),
        NEW.time, 0, '', '', 0
    );
END;

CREATE TEMP TRIGGER project_memory_withdrawn INSTEAD OF INSERT ON projected_memory
WHEN NEW.type = 'MemoryWithdrawn' BEGIN
    UPDATE main.memories SET
        withdrawn = 1, reason = coalesce(NEW.payload ->> '$.reason', ''),
        operation = coalesce(NEW.payload ->> '$.operation', ''), changed_at = NEW.time
    WHERE id = NEW.payload ->> '$.id';
END;

CREATE TEMP TRIGGER project_memory_restored INSTEAD OF INSERT ON projected_memory
WHEN NEW.type = 'MemoryRestored' BEGIN
    UPDATE main.memories SET
        withdrawn = 0, reason = '', operation = coalesce(NEW.payload ->> '$.operation', ''), changed_at = NEW.time
    WHERE id = NEW.payload ->> '$.id';
END;

CREATE TEMP TRIGGER archive_memory INSTEAD OF INSERT ON projected_memory WHEN NEW.type = 'StreamArchived' BEGIN
    DELETE FROM main.memories
    WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
END;
