-- name: task
SELECT substr(s.name, 7), t.name, t.body, t.status, t.priority, t.labels, t.assignee, t.due, t.checks, t.meta, t.blocked,
       t.summary, t.evidence, t.error, t.unchecked, t.archived, t.started_at, t.ended_at, t.claim,
       t.number, t.session, q.open_blockers, t.created_at, s.time, s.version, s.number
FROM streams AS s JOIN tasks AS t ON t.stream = s.id JOIN task_readiness AS q ON q.stream = s.id
WHERE s.name = '@task/' || ?1;

-- name: tasks
SELECT substr(s.name, 7), t.name, t.body, t.status, t.priority, t.labels, t.assignee, t.due, t.checks, t.meta, t.blocked,
       t.summary, t.evidence, t.error, t.unchecked, t.archived, t.started_at, t.ended_at, t.claim,
       t.number, t.session, q.open_blockers, t.created_at, s.time, s.version, s.number
FROM tasks AS t JOIN streams AS s ON s.id = t.stream JOIN task_readiness AS q ON q.stream = t.stream
WHERE (?1 IS NULL OR t.status IN (SELECT value FROM json_each(?1)))
  AND (?2 IS NULL OR EXISTS (SELECT 1 FROM json_each(t.labels) WHERE value = ?2))
  AND (?3 IS NULL OR t.assignee = ?3) AND (?4 IS NULL OR t.session = ?4)
  AND t.archived <= ?5
  AND (NOT ?6 OR ((t.blocked <> '' OR q.open_blockers > 0) AND t.status IN ('pending', 'in_progress')))
ORDER BY t.priority, t.stream
LIMIT ?7;

-- name: named_tasks
-- `tasks` of the ids ?1: each is looked up, so that what it costs does not grow with the others.
SELECT substr(s.name, 7), t.name, t.body, t.status, t.priority, t.labels, t.assignee, t.due, t.checks, t.meta, t.blocked,
       t.summary, t.evidence, t.error, t.unchecked, t.archived, t.started_at, t.ended_at, t.claim,
       t.number, t.session, q.open_blockers, t.created_at, s.time, s.version, s.number
FROM (SELECT DISTINCT value FROM json_each(?1)) AS wanted CROSS JOIN streams AS s ON s.name = '@task/' || wanted.value
     JOIN tasks AS t ON t.stream = s.id JOIN task_readiness AS q ON q.stream = s.id
WHERE (?2 IS NULL OR t.status IN (SELECT value FROM json_each(?2)))
  AND (?3 IS NULL OR EXISTS (SELECT 1 FROM json_each(t.labels) WHERE value = ?3))
  AND (?4 IS NULL OR t.assignee = ?4) AND (?5 IS NULL OR t.session = ?5)
  AND t.archived <= ?6
  AND (NOT ?7 OR ((t.blocked <> '' OR q.open_blockers > 0) AND t.status IN ('pending', 'in_progress')))
ORDER BY t.priority, t.stream
LIMIT ?8;

-- name: session_tasks
SELECT substr(s.name, 7), t.name, t.body, t.status, t.priority, t.labels, t.assignee, t.due, t.checks, t.meta, t.blocked,
       t.summary, t.evidence, t.error, t.unchecked, t.archived, t.started_at, t.ended_at, t.claim,
       t.number, t.session, q.open_blockers, t.created_at, s.time, s.version, s.number
FROM tasks AS t INDEXED BY tasks_by_session
JOIN streams AS s ON s.id = t.stream JOIN task_readiness AS q ON q.stream = t.stream
WHERE t.session = ?1 AND t.status = ?2
ORDER BY t.ended_at DESC, t.stream DESC
LIMIT ?3;

-- name: count_session_tasks
SELECT count(*) FROM tasks INDEXED BY tasks_by_session WHERE session = ?1 AND status = ?2;

-- name: ready_tasks
SELECT substr(s.name, 7), t.name, t.body, t.status, t.priority, t.labels, t.assignee, t.due, t.checks, t.meta, t.blocked,
       t.summary, t.evidence, t.error, t.unchecked, t.archived, t.started_at, t.ended_at, t.claim,
       t.number, t.session, q.open_blockers, t.created_at, s.time, s.version, s.number
FROM (
    SELECT stream, priority, open_blockers FROM task_readiness INDEXED BY tasks_ready
    WHERE open = 1 AND open_blockers = 0
    ORDER BY priority, stream
    LIMIT ?1
) AS q JOIN tasks AS t ON t.stream = q.stream JOIN streams AS s ON s.id = q.stream
ORDER BY q.priority, q.stream;

-- name: chosen_ready_tasks
SELECT substr(s.name, 7), t.name, t.body, t.status, t.priority, t.labels, t.assignee, t.due, t.checks, t.meta, t.blocked,
       t.summary, t.evidence, t.error, t.unchecked, t.archived, t.started_at, t.ended_at, t.claim,
       t.number, t.session, q.open_blockers, t.created_at, s.time, s.version, s.number
FROM task_readiness AS q INDEXED BY tasks_ready
     CROSS JOIN tasks AS t ON t.stream = q.stream JOIN streams AS s ON s.id = q.stream
WHERE q.open = 1 AND q.open_blockers = 0
  AND (?2 IS NULL OR EXISTS (SELECT 1 FROM json_each(t.labels) WHERE value = ?2))
  AND (?3 IS NULL OR t.assignee IN (?3, ''))
ORDER BY q.priority, q.stream
LIMIT ?1;

-- name: count_ready_tasks
SELECT count(*) FROM task_readiness INDEXED BY tasks_ready WHERE open = 1 AND open_blockers = 0;

-- name: waiting_tasks
SELECT substr(s.name, 7), t.name, t.body, t.status, t.priority, t.labels, t.assignee, t.due, t.checks, t.meta, t.blocked,
       t.summary, t.evidence, t.error, t.unchecked, t.archived, t.started_at, t.ended_at, t.claim,
       t.number, t.session, q.open_blockers, t.created_at, s.time, s.version, s.number
FROM (
    SELECT r.stream, r.priority, r.open_blockers FROM task_readiness AS r JOIN tasks AS w ON w.stream = r.stream
    WHERE NOT w.archived
      AND (w.status = 'failed' OR (w.status = 'pending' AND (w.blocked <> '' OR r.open_blockers > 0)))
    ORDER BY r.priority, r.stream
    LIMIT ?1
) AS q JOIN tasks AS t ON t.stream = q.stream JOIN streams AS s ON s.id = q.stream
ORDER BY q.priority, q.stream;

-- name: count_waiting_tasks
SELECT count(*) FROM task_readiness AS r JOIN tasks AS w ON w.stream = r.stream
WHERE NOT w.archived
  AND (w.status = 'failed' OR (w.status = 'pending' AND (w.blocked <> '' OR r.open_blockers > 0)));

-- name: last_task_change
-- From the end of the log: what a person did last is near it.
SELECT e.position, s.name, e.version, e.type, e.time, e.payload, e.hash
FROM events AS e JOIN streams AS s ON s.id = e.stream
WHERE e.position > ?2 AND s.kind = 'task'
  AND coalesce(e.payload ->> '$.author.by', '') = ?1 AND coalesce(e.payload ->> '$.author.run', '') = ''
  AND coalesce(e.payload ->> '$.run', '') = ''  -- the claim of a run is the run's
ORDER BY e.position DESC
LIMIT 1;

-- name: claimed_tasks
SELECT substr(s.name, 7), t.name, t.body, t.status, t.priority, t.labels, t.assignee, t.due, t.checks, t.meta, t.blocked,
       t.summary, t.evidence, t.error, t.unchecked, t.archived, t.started_at, t.ended_at, t.claim,
       t.number, t.session, q.open_blockers, t.created_at, s.time, s.version, s.number
FROM tasks AS t INDEXED BY tasks_claimed
     JOIN streams AS s ON s.id = t.stream JOIN task_readiness AS q ON q.stream = t.stream
WHERE t.status = 'in_progress' AND NOT t.archived AND (NOT ?1 OR (t.blocked = '' AND q.open_blockers = 0))
ORDER BY t.priority, t.stream;

-- name: task_ids
SELECT substr(name, 7) FROM streams
WHERE kind = 'task' AND name >= '@task/' || ?1 AND name < '@task/' || ?1 || char(1114111)
ORDER BY name
LIMIT ?2;

-- name: links
-- CROSS JOIN: by each task that is named. The planner would read all links of a kind.
SELECT substr(t.name, 7), substr(o.name, 7), l.kind
FROM (
    SELECT l.* FROM json_each(?1) AS wanted CROSS JOIN streams AS s ON s.name = '@task/' || wanted.value
         CROSS JOIN links AS l INDEXED BY links_by_task ON l.task = s.id
    UNION
    SELECT l.* FROM json_each(?1) AS wanted CROSS JOIN streams AS s ON s.name = '@task/' || wanted.value
         CROSS JOIN json_each('["blocks","parent","discovered-from","related"]') AS kind
         CROSS JOIN links AS l ON l.kind = kind.value AND l.on_task = s.id
) AS l CROSS JOIN streams AS t ON t.id = l.task CROSS JOIN streams AS o ON o.id = l.on_task
ORDER BY l.version;

-- name: links_of
-- Those that lead from a task, with the version of the stream of links.
SELECT coalesce((SELECT version FROM streams WHERE name = '@links'), 0), l.kind, substr(o.name, 7)
FROM (SELECT 1) LEFT JOIN (
    links AS l INDEXED BY links_by_task JOIN streams AS o ON o.id = l.on_task
) ON l.task = (SELECT id FROM streams WHERE name = '@task/' || ?1)
ORDER BY l.version;

-- name: all_links
SELECT substr(t.name, 7), substr(o.name, 7), l.kind
FROM links AS l JOIN streams AS t ON t.id = l.task JOIN streams AS o ON o.id = l.on_task
ORDER BY l.version;

-- name: is_linked
SELECT coalesce((SELECT version FROM streams WHERE name = '@links'), 0), EXISTS (
    WITH RECURSIVE chain (task) AS (
        SELECT id FROM streams WHERE name = '@task/' || ?1 AND kind = 'task'
        UNION
        SELECT l.on_task FROM chain JOIN links AS l INDEXED BY links_by_task ON l.task = chain.task AND l.kind = ?3
    )
    SELECT 1 FROM chain WHERE task = (SELECT id FROM streams WHERE name = '@task/' || ?2)
);

-- name: decisions
-- By an index that has no other events.
SELECT substr(s.name, 7), t.name, s.number, e.payload ->> '$.text', coalesce(e.payload -> '$.author', '{}'),
       e.time, e.version
FROM events AS e INDEXED BY events_of_decisions
     CROSS JOIN streams AS s ON s.id = e.stream CROSS JOIN tasks AS t ON t.stream = e.stream
WHERE e.type = 'TaskNoted' AND e.payload ->> '$.kind' = 'decision'
  AND (?2 IS NULL OR e.payload ->> '$.author.run' IN (SELECT value FROM json_each(?2)))
ORDER BY e.time DESC, e.position DESC
LIMIT ?1;

-- name: count_decisions
SELECT count(*) FROM events AS e INDEXED BY events_of_decisions
WHERE e.type = 'TaskNoted' AND e.payload ->> '$.kind' = 'decision';

-- name: runs_that_left_decisions
SELECT s.name
FROM (
    SELECT DISTINCT e.payload ->> '$.author.run' AS run FROM events AS e INDEXED BY events_of_decisions
    WHERE e.type = 'TaskNoted' AND e.payload ->> '$.kind' = 'decision' AND e.payload ->> '$.author.run' <> ''
) AS wrote CROSS JOIN streams AS s ON s.name = wrote.run CROSS JOIN runs AS r ON r.stream = s.id
WHERE r.generation > 0 OR (is_stray)
ORDER BY s.id;

-- name: sessions
SELECT substr(s.name, 10), t.actor, t.started_at, t.ended_at, t.summary
FROM sessions AS t JOIN streams AS s ON s.id = t.stream
ORDER BY t.stream DESC
LIMIT ?1;

-- name: session_ids
SELECT substr(name, 10) FROM streams
WHERE kind = 'session' AND name >= '@session/' || ?1 AND name < '@session/' || ?1 || char(1114111)
ORDER BY name
LIMIT ?2;

-- name: copy_tracked_streams
-- A link is found by the names of its tasks.
INSERT INTO main.streams SELECT * FROM live.streams WHERE name GLOB '@task/*';
