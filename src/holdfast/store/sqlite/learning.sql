-- How reported outcomes become the table that routers and choosers of skills learn from.
-- A change of this file rebuilds this table, and no other (`projections.py`).

CREATE TEMP VIEW projected_learning AS
SELECT 0 AS stream, 0 AS version, '' AS type, 0 AS time, '' AS payload;

CREATE TEMP TRIGGER append_for_learning INSTEAD OF INSERT ON appended
WHEN NEW.type = 'OutcomeReported' OR NEW.type = 'RunForked' OR NEW.type = 'StreamArchived' BEGIN
    INSERT INTO projected_learning VALUES (NEW.stream, NEW.version, NEW.type, NEW.time, NEW.payload);
END;

CREATE TEMP TRIGGER project_outcome_reported INSTEAD OF INSERT ON projected_learning
WHEN NEW.type = 'OutcomeReported' BEGIN
    INSERT OR IGNORE INTO main.outcomes
    SELECT NEW.payload ->> '$.family', NEW.payload ->> '$.kind', chosen.value, NEW.time, NEW.stream, NEW.version,
           NEW.payload ->> '$.ok',
           coalesce(CAST(round((NEW.payload ->> '$.usd') * 1e9) AS INTEGER), -1),
           coalesce(NEW.payload ->> '$.error', '')
    FROM json_each(NEW.payload, '$.chosen') AS chosen;
END;

-- All before it is a copy of another run's past: that work was done once.
CREATE TEMP TRIGGER project_fork_of_outcomes INSTEAD OF INSERT ON projected_learning WHEN NEW.type = 'RunForked' BEGIN
    DELETE FROM main.outcomes WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER archive_outcomes INSTEAD OF INSERT ON projected_learning WHEN NEW.type = 'StreamArchived' BEGIN
    DELETE FROM main.outcomes
    WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
END;
