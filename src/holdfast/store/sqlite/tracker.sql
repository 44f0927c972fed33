-- How the log becomes the tables of tasks, links and sessions. Temporary, so that the triggers are always those of
-- the code that writes. A change of this file rebuilds these tables, and no others (`projections.py`).
--
-- An INSERT into `projected_tracker` is one event seen by these projections.

CREATE TEMP VIEW projected_tracker AS
SELECT 0 AS stream, 0 AS version, '' AS type, 0 AS time, '' AS payload;

CREATE TEMP TRIGGER append_for_tracker INSTEAD OF INSERT ON appended
WHEN NEW.type = 'TaskCreated' OR NEW.type = 'TaskEdited' OR NEW.type = 'TaskClaimed'
    OR NEW.type = 'ClaimRenewed' OR NEW.type = 'ClaimReleased' OR NEW.type = 'TaskCompleted'
    OR NEW.type = 'TaskFailed' OR NEW.type = 'TaskBlocked' OR NEW.type = 'TaskReopened'
    OR NEW.type = 'TaskArchived' OR NEW.type = 'TaskReverted' OR NEW.type = 'LinkAdded'
    OR NEW.type = 'LinkRemoved' OR NEW.type = 'SessionStarted' OR NEW.type = 'SessionEnded'
    OR NEW.type = 'StreamArchived' BEGIN
    INSERT INTO projected_tracker VALUES (NEW.stream, NEW.version, NEW.type, NEW.time, NEW.payload);
END;

-- A task that is gone: its links first, so that what needed it no longer counts it.
CREATE TEMP TRIGGER project_tracked_archived INSTEAD OF INSERT ON projected_tracker
WHEN NEW.type = 'StreamArchived' AND NEW.payload ->> '$.stream' GLOB '@task/*' BEGIN
    DELETE FROM main.links
    WHERE task = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
    DELETE FROM main.links
    WHERE kind IN ('blocks', 'parent', 'discovered-from', 'related')
      AND on_task = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
    DELETE FROM main.tasks WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
    DELETE FROM main.task_readiness
    WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
END;

CREATE TEMP TRIGGER project_session_archived INSTEAD OF INSERT ON projected_tracker
WHEN NEW.type = 'StreamArchived' AND NEW.payload ->> '$.stream' GLOB '@session/*' BEGIN
    DELETE FROM main.sessions
    WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
END;

-- Readiness follows from the row. Only an event that settles a task, or opens it again, touches others.

CREATE TEMP TRIGGER task_changed AFTER UPDATE OF status, blocked, archived, priority ON main.tasks BEGIN
    UPDATE main.task_readiness SET
        priority = NEW.priority,
        open = (NEW.status = 'pending' AND NEW.blocked = '' AND NOT NEW.archived)
    WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER task_settled AFTER UPDATE OF status, archived ON main.tasks
WHEN (OLD.status = 'completed' OR OLD.archived) <> (NEW.status = 'completed' OR NEW.archived) BEGIN
    UPDATE main.task_readiness SET
        open_blockers = open_blockers + iif(NEW.status = 'completed' OR NEW.archived, -1, 1)
    WHERE stream IN (SELECT task FROM main.links WHERE kind = 'blocks' AND on_task = NEW.stream);
END;

CREATE TEMP TRIGGER link_made AFTER INSERT ON main.links WHEN NEW.kind = 'blocks' BEGIN
    UPDATE main.task_readiness SET open_blockers = open_blockers + 1
    WHERE stream = NEW.task AND EXISTS (
        SELECT 1 FROM main.tasks WHERE stream = NEW.on_task AND status <> 'completed' AND NOT archived
    );
END;

CREATE TEMP TRIGGER link_gone AFTER DELETE ON main.links WHEN OLD.kind = 'blocks' BEGIN
    UPDATE main.task_readiness SET open_blockers = open_blockers - 1
    WHERE stream = OLD.task AND EXISTS (
        SELECT 1 FROM main.tasks WHERE stream = OLD.on_task AND status <> 'completed' AND NOT archived
    );
END;

-- Tasks

CREATE TEMP TRIGGER project_task_created INSTEAD OF INSERT ON projected_tracker WHEN NEW.type = 'TaskCreated' BEGIN
    INSERT INTO main.tasks VALUES (
        NEW.stream, NEW.payload ->> '$.name', coalesce(NEW.payload ->> '$.body', ''), 'pending',
        coalesce(NEW.payload ->> '$.priority', 2), coalesce(NEW.payload -> '$.labels', '[]'),
        coalesce(NEW.payload ->> '$.assignee', ''), coalesce(NEW.payload ->> '$.due', 0),
        coalesce(NEW.payload -> '$.checks', '[]'), coalesce(NEW.payload -> '$.meta', '{}'),
        '', '', 'null', '', '', 0, 0, 0, 'null', 0, coalesce(NEW.payload ->> '$.author.session', ''), NEW.time
    );
    INSERT INTO main.task_readiness VALUES (NEW.stream, coalesce(NEW.payload ->> '$.priority', 2), 1, 0);
END;

CREATE TEMP TRIGGER project_task_edited INSTEAD OF INSERT ON projected_tracker WHEN NEW.type = 'TaskEdited' BEGIN
    UPDATE main.tasks SET
        name = coalesce(NEW.payload ->> '$.changes.name', name),
        body = coalesce(NEW.payload ->> '$.changes.body', body),
        priority = coalesce(NEW.payload ->> '$.changes.priority', priority),
        labels = coalesce(NEW.payload -> '$.changes.labels', labels),
        assignee = coalesce(NEW.payload ->> '$.changes.assignee', assignee),
        due = coalesce(NEW.payload ->> '$.changes.due', due),
        checks = coalesce(NEW.payload -> '$.changes.checks', checks),
        meta = coalesce(NEW.payload -> '$.changes.meta', meta)
    WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_task_claimed INSTEAD OF INSERT ON projected_tracker WHEN NEW.type = 'TaskClaimed' BEGIN
    UPDATE main.tasks SET
        status = 'in_progress',
        number = max(number, NEW.payload ->> '$.number'),
        session = iif(coalesce(NEW.payload ->> '$.session', '') = '', session, NEW.payload ->> '$.session'),
        started_at = iif(started_at = 0, NEW.time, started_at),
        claim = json_object(
            'number', NEW.payload ->> '$.number', 'actor', coalesce(NEW.payload ->> '$.actor', ''),
            'session', coalesce(NEW.payload ->> '$.session', ''), 'run', coalesce(NEW.payload ->> '$.run', ''),
            'until', coalesce(NEW.payload ->> '$.until', 0), 'holder', json(NEW.payload -> '$.holder'),
            'at', NEW.time
        )
    WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_claim_renewed INSTEAD OF INSERT ON projected_tracker WHEN NEW.type = 'ClaimRenewed' BEGIN
    UPDATE main.tasks SET claim = json_set(claim, '$.until', NEW.payload ->> '$.until')
    WHERE stream = NEW.stream AND claim <> 'null';
END;

CREATE TEMP TRIGGER project_claim_released INSTEAD OF INSERT ON projected_tracker WHEN NEW.type = 'ClaimReleased' BEGIN
    UPDATE main.tasks SET status = 'pending', claim = 'null' WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_task_completed INSTEAD OF INSERT ON projected_tracker WHEN NEW.type = 'TaskCompleted' BEGIN
    UPDATE main.tasks SET
        status = 'completed', summary = coalesce(NEW.payload ->> '$.summary', ''),
        evidence = coalesce(NEW.payload -> '$.evidence', 'null'),
        unchecked = coalesce(NEW.payload ->> '$.unchecked', ''), error = '', ended_at = NEW.time,
        started_at = iif(started_at = 0, NEW.time, started_at), claim = 'null'
    WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_task_failed INSTEAD OF INSERT ON projected_tracker WHEN NEW.type = 'TaskFailed' BEGIN
    UPDATE main.tasks SET
        status = 'failed', error = coalesce(NEW.payload ->> '$.why', ''), ended_at = NEW.time,
        started_at = iif(started_at = 0, NEW.time, started_at), claim = 'null'
    WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_task_blocked INSTEAD OF INSERT ON projected_tracker WHEN NEW.type = 'TaskBlocked' BEGIN
    UPDATE main.tasks SET blocked = coalesce(NEW.payload ->> '$.reason', '') WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_task_reopened INSTEAD OF INSERT ON projected_tracker WHEN NEW.type = 'TaskReopened' BEGIN
    UPDATE main.tasks SET
        status = 'pending', summary = '', evidence = 'null', unchecked = '', error = '', archived = 0,
        started_at = 0, ended_at = 0, claim = 'null'
    WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_task_archived INSTEAD OF INSERT ON projected_tracker WHEN NEW.type = 'TaskArchived' BEGIN
    UPDATE main.tasks SET archived = 1 WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_task_reverted INSTEAD OF INSERT ON projected_tracker WHEN NEW.type = 'TaskReverted' BEGIN
    UPDATE main.tasks SET
        name = NEW.payload ->> '$.fields.name',
        body = NEW.payload ->> '$.fields.body',
        status = NEW.payload ->> '$.fields.status',
        priority = NEW.payload ->> '$.fields.priority',
        labels = NEW.payload -> '$.fields.labels',
        assignee = NEW.payload ->> '$.fields.assignee',
        due = NEW.payload ->> '$.fields.due',
        checks = NEW.payload -> '$.fields.checks',
        meta = NEW.payload -> '$.fields.meta',
        blocked = NEW.payload ->> '$.fields.blocked',
        summary = NEW.payload ->> '$.fields.summary',
        evidence = NEW.payload -> '$.fields.evidence',
        error = NEW.payload ->> '$.fields.error',
        unchecked = NEW.payload ->> '$.fields.unchecked',
        archived = NEW.payload ->> '$.fields.archived',
        started_at = NEW.payload ->> '$.fields.started_at',
        ended_at = NEW.payload ->> '$.fields.ended_at',
        claim = NEW.payload -> '$.fields.claim'
    WHERE stream = NEW.stream;
END;

-- Links: only between tasks that are there. What an archived task left in the log makes none.

CREATE TEMP TRIGGER project_link_added INSTEAD OF INSERT ON projected_tracker WHEN NEW.type = 'LinkAdded' BEGIN
    INSERT OR IGNORE INTO main.links
    SELECT coalesce(NEW.payload ->> '$.kind', 'blocks'), o.id, t.id, NEW.version
    FROM main.streams AS t JOIN main.streams AS o
    WHERE t.name = '@task/' || (NEW.payload ->> '$.task') AND o.name = '@task/' || (NEW.payload ->> '$.on')
      AND EXISTS (SELECT 1 FROM main.tasks WHERE stream = t.id)
      AND EXISTS (SELECT 1 FROM main.tasks WHERE stream = o.id);
END;

CREATE TEMP TRIGGER project_link_removed INSTEAD OF INSERT ON projected_tracker WHEN NEW.type = 'LinkRemoved' BEGIN
    DELETE FROM main.links
    WHERE kind = coalesce(NEW.payload ->> '$.kind', 'blocks')
      AND on_task = (SELECT id FROM main.streams WHERE name = '@task/' || (NEW.payload ->> '$.on'))
      AND task = (SELECT id FROM main.streams WHERE name = '@task/' || (NEW.payload ->> '$.task'));
END;

-- A task that was deleted is there again: what the log has of its links.
CREATE TEMP TRIGGER project_task_back INSTEAD OF INSERT ON projected_tracker
WHEN NEW.type = 'StreamProjected' AND NEW.payload ->> '$.stream' GLOB '@task/*' BEGIN
    INSERT INTO projected_tracker
    SELECT stream, version, type, time, payload FROM main.events
    WHERE stream = (SELECT id FROM main.streams WHERE name = '@links')
      AND substr(NEW.payload ->> '$.stream', 7) IN (payload ->> '$.task', payload ->> '$.on')
    ORDER BY version;
END;

-- Sessions

CREATE TEMP TRIGGER project_session_started INSTEAD OF INSERT ON projected_tracker
WHEN NEW.type = 'SessionStarted' BEGIN
    INSERT INTO main.sessions VALUES (NEW.stream, NEW.payload ->> '$.actor', NEW.time, 0, '');
END;

CREATE TEMP TRIGGER project_session_ended INSTEAD OF INSERT ON projected_tracker WHEN NEW.type = 'SessionEnded' BEGIN
    UPDATE main.sessions SET ended_at = NEW.time, summary = coalesce(NEW.payload ->> '$.summary', '')
    WHERE stream = NEW.stream;
END;
