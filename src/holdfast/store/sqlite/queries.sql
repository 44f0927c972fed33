-- name: head
SELECT id, version, hash, epoch FROM streams WHERE name = ? AND kind <> 'archived';

-- name: head_is
SELECT 1 FROM streams WHERE name = ? AND version = ? AND hash = ? AND kind <> 'archived';

-- name: archived_in
-- The file, by the record in the store's own stream, whose id is 1.
SELECT coalesce(e.payload ->> '$.file', '') FROM streams AS s
     JOIN events AS e ON e.stream = 1 AND e.type = 'StreamArchived' AND e.payload ->> '$.stream' = s.name
WHERE s.name = ? AND s.kind = 'archived';

-- name: begin_log
INSERT INTO streams (id, name, kind, version, hash, epoch, time) VALUES (1, ?, 'store', 0, zeroblob(32), 0, 0);

-- name: put_blob
INSERT OR IGNORE INTO blobs (hash, data) VALUES (?, ?);

-- name: blob
SELECT data FROM blobs WHERE hash = ?;

-- name: blobs
SELECT hash FROM blobs;

-- name: blobs_named
-- By events of whatever type, behind a position; few name one. Of an event that is damaged, NULL.
SELECT s.name, e.version, CASE WHEN json_valid(e.payload) THEN e.payload ->> '$.blob' END
FROM events AS e JOIN streams AS s ON s.id = e.stream
WHERE e.position > ?1 AND instr(e.payload, '"blob"')
  AND CASE WHEN json_valid(e.payload) THEN e.payload ->> '$.blob' <> '' ELSE TRUE END;

-- name: drop_blob
DELETE FROM blobs WHERE hash = ?;

-- name: last_position
SELECT coalesce(max(position), 0) FROM events;

-- name: load
-- With the head's version, in one snapshot: a row without an event says that there is none behind ?2.
SELECT e.version, e.type, e.time, e.payload, e.hash, s.version
FROM streams AS s LEFT JOIN events AS e ON e.stream = s.id AND e.version > ?2
WHERE s.name = ?1 AND s.kind <> 'archived'
ORDER BY e.version;

-- name: load_by_id
SELECT version, type, time, payload FROM events
WHERE stream = ?1 AND version > ?2 AND (?3 = '' OR instr(?3, ' ' || type || ' '))
ORDER BY version;

-- name: hash_at
SELECT e.hash FROM events AS e
WHERE e.stream = (SELECT id FROM streams WHERE name = ?1) AND e.version = ?2;

-- name: entries
SELECT e.position, ?1, e.version, e.type, e.time, e.payload, e.hash FROM events AS e
WHERE e.stream = (SELECT id FROM streams WHERE name = ?1) AND e.version > ?2 AND (?3 = '' OR e.type = ?3)
ORDER BY e.version;

-- name: run
SELECT s.name, r.workflow, r.status, r.reason, r.cause, r.attention_step, r.owner, s.epoch, r.generation,
       r.parent, r.created_at, s.time, s.version, r.ended_at, r.stage
FROM runs AS r JOIN streams AS s ON s.id = r.stream
WHERE s.name = ?;

-- name: creations
-- A run's first event.
SELECT s.name, e.payload
FROM json_each(?1) AS wanted JOIN streams AS s ON s.name = wanted.value AND s.kind = 'run'
     JOIN events AS e ON e.stream = s.id AND e.version = 1
ORDER BY s.id;

-- name: is_stray
-- Of the run `r` of the query around it: whether it, or one of those above it, is a child that no step of its
-- parent's live generation is.
r.parent <> '' AND EXISTS (
    WITH RECURSIVE up (stream, parent) AS (
        SELECT r.stream, r.parent
        UNION ALL
        SELECT p.stream, p.parent
        FROM up JOIN streams AS s ON s.name = up.parent JOIN runs AS p ON p.stream = s.id
    )
    SELECT 1 FROM up
    WHERE up.parent <> '' AND NOT EXISTS (
        SELECT 1 FROM step_rows AS t INDEXED BY steps_by_child
             JOIN runs AS p ON p.stream = t.run AND p.generation = t.generation
        WHERE t.child <> '' AND t.child = (SELECT name FROM streams WHERE id = up.stream)
          AND t.run = (SELECT id FROM streams WHERE name = up.parent)
    )
);

-- name: strays
SELECT s.name
FROM json_each(?1) AS wanted JOIN streams AS s ON s.name = wanted.value JOIN runs AS r ON r.stream = s.id
WHERE (is_stray)
ORDER BY s.id;

-- name: ready_runs
SELECT s.name, r.parent FROM (
    SELECT stream FROM runs INDEXED BY runs_ready WHERE owner = '' AND status IN ('pending', 'running')
    UNION
    SELECT r.stream FROM step_rows AS t INDEXED BY steps_due JOIN runs AS r ON r.stream = t.run
    WHERE t.status IN ('sleeping', 'waiting') AND t.due_at > 0 AND t.due_at <= ?1
      AND r.generation = t.generation AND r.owner = '' AND r.status IN ('sleeping', 'waiting')
    UNION
    SELECT r.stream FROM step_rows AS t INDEXED BY steps_of_children JOIN runs AS r ON r.stream = t.run
    JOIN streams AS s ON s.name = t.child JOIN runs AS c ON c.stream = s.id
    WHERE t.kind = 'child' AND t.status = 'running' AND c.status IN ('completed', 'failed', 'cancelled')
      AND r.generation = t.generation AND r.owner = '' AND r.status IN ('sleeping', 'waiting')
) AS found JOIN streams AS s ON s.id = found.stream JOIN runs AS r ON r.stream = found.stream
WHERE NOT (is_stray)
ORDER BY s.id;

-- name: next_due
SELECT t.due_at FROM step_rows AS t INDEXED BY steps_due JOIN runs AS r ON r.stream = t.run
WHERE t.status IN ('sleeping', 'waiting') AND t.due_at > 0 AND t.due_at > ?1
  AND r.generation = t.generation AND r.owner = '' AND r.status IN ('sleeping', 'waiting') AND NOT (is_stray)
ORDER BY t.due_at
LIMIT 1;

-- name: find_runs
-- `chosen` is `runs`, or fewer where these have all that is wanted: `open_runs`, the children of a run.
SELECT s.name, r.workflow, r.status, r.reason, r.cause, r.attention_step, r.owner, s.epoch, r.generation,
       r.parent, r.created_at, s.time, s.version, r.ended_at, r.stage
FROM (
    SELECT r.stream FROM chosen AS r
    WHERE (?1 IS NULL OR r.status IN (SELECT value FROM json_each(?1))
           OR (r.status IN (SELECT value FROM json_each(?2)) AND r.owner NOT IN (SELECT value FROM json_each(?3))
               AND (?4 OR r.status NOT IN ('sleeping', 'pending') OR r.owner <> '')))
      AND (?5 IS NULL OR r.workflow GLOB ?5) AND (?6 IS NULL OR r.parent = ?6)
      AND (?7 IS NULL OR (SELECT time FROM streams WHERE id = r.stream) >= ?7)
      AND (?8 IS NULL OR r.created_at < ?8)
    ORDER BY r.stream DESC
    LIMIT ?9
) AS found JOIN runs AS r ON r.stream = found.stream JOIN streams AS s ON s.id = found.stream
ORDER BY r.stream DESC;

-- name: count_runs
SELECT count(*) FROM chosen AS r
WHERE (?1 IS NULL OR r.status IN (SELECT value FROM json_each(?1))
       OR (r.status IN (SELECT value FROM json_each(?2)) AND r.owner NOT IN (SELECT value FROM json_each(?3))
               AND (?4 OR r.status NOT IN ('sleeping', 'pending') OR r.owner <> '')))
  AND (?5 IS NULL OR r.workflow GLOB ?5) AND (?6 IS NULL OR r.parent = ?6)
  AND (?7 IS NULL OR (SELECT time FROM streams WHERE id = r.stream) >= ?7)
  AND (?8 IS NULL OR r.created_at < ?8);

-- name: owners_named
SELECT DISTINCT owner FROM chosen
WHERE status IN (SELECT value FROM json_each(?1)) AND owner <> '' ORDER BY owner;

-- name: outcomes
SELECT r.workflow, r.status, count(*), json_group_array(r.ended_at - r.created_at) FILTER (WHERE r.status = 'completed')
FROM runs AS r JOIN streams AS s ON s.id = r.stream
WHERE s.time >= ?1
GROUP BY r.workflow, r.status;

-- name: step_totals
-- Steps that have a row. Of a rewound run, those of its live generation.
SELECT coalesce(sum(attempt), 0), coalesce(sum(attempt > 1), 0),
       coalesce(sum(status = 'running'), 0), coalesce(sum(status = 'retrying'), 0),
       coalesce(sum(status = 'sleeping'), 0), coalesce(sum(status = 'completed'), 0),
       coalesce(sum(status = 'failed'), 0), coalesce(sum(status = 'in_doubt'), 0),
       coalesce(sum(status = 'reopened'), 0), coalesce(sum(status = 'waiting'), 0),
       coalesce(sum(status = 'abandoned'), 0)
FROM step_rows AS t
WHERE (t.run NOT IN (SELECT run FROM generations)
       OR t.generation = (SELECT generation FROM runs WHERE stream = t.run))
  AND (?1 = 0 OR t.run IN (SELECT id FROM streams WHERE time >= ?1));

-- name: steps_that_ran
-- And what steps have used, in every generation: one pass through the log for both.
SELECT count(*) FILTER (WHERE e.type = 'StepRan'), json_group_array(e.payload) FILTER (WHERE e.type = 'StepMeasured')
FROM events AS e
WHERE e.type IN ('StepRan', 'StepMeasured')
  AND (e.type = 'StepMeasured' OR e.stream NOT IN (SELECT run FROM generations)
       OR coalesce(e.payload ->> '$.generation', 0) = (SELECT generation FROM runs WHERE stream = e.stream))
  AND (?1 = 0 OR e.stream IN (SELECT id FROM streams WHERE time >= ?1));

-- name: failing_steps
-- An attempt is lost that failed, or was cut off so that another one followed.
SELECT r.workflow, t.name, count(*), sum(t.lost), sum(t.status = 'failed')
FROM (SELECT run, generation, name, status, attempt - (status NOT IN ('failed', 'retrying', 'reopened')) AS lost
      FROM step_rows) AS t
JOIN runs AS r ON r.stream = t.run AND r.generation = t.generation
WHERE t.lost > 0 AND (?1 = 0 OR t.run IN (SELECT id FROM streams WHERE time >= ?1))
GROUP BY r.workflow, t.name
ORDER BY sum(t.lost) DESC, r.workflow, t.name
LIMIT ?2;

-- name: count_events
SELECT coalesce(sum(version), 0) FROM streams WHERE kind <> 'archived';

-- name: extent
SELECT (SELECT count(*) FROM streams WHERE kind <> 'archived'), (SELECT count(*) FROM events);

-- name: run_ids
SELECT s.name FROM streams AS s
WHERE s.kind = 'run' AND s.name >= ?1 AND s.name < ?1 || char(1114111)
  AND (?3 IS NULL OR ?3 = (SELECT parent FROM runs WHERE stream = s.id))
ORDER BY s.name
LIMIT ?2;

-- name: steps
SELECT t.key, t.generation, t.name, t.kind, t.effect, t.status, t.attempt, t.started_at, t.ended_at, t.due_at,
       t.child, t.version
FROM steps AS t JOIN runs AS r ON r.stream = t.run AND r.generation = t.generation
WHERE t.run = (SELECT id FROM streams WHERE name = ?)
ORDER BY t.version;

-- name: open_gates
SELECT s.name, t.kind, t.name
FROM json_each(?1) AS wanted JOIN streams AS s ON s.name = wanted.value JOIN runs AS r ON r.stream = s.id
     JOIN step_rows AS t ON t.run = s.id AND t.generation = r.generation
WHERE t.status = 'waiting'
ORDER BY s.id, t.version;

-- name: operations
SELECT substr(s.name, ?5 + 1), o.kind, o.run, o.person, o.target, o.undoes, o.left_generation,
       o.opened_generation, o.status, o.begun_at
FROM operations AS o JOIN streams AS s ON s.id = o.stream
WHERE substr(s.name, 1, length(?1)) = ?1 AND (?2 IS NULL OR o.run = ?2) AND (?3 IS NULL OR o.person = ?3)
ORDER BY o.stream DESC
LIMIT ?4;

-- name: put_owner
INSERT OR REPLACE INTO owners (id, host, boot, pid, started_at) VALUES (?, ?, ?, ?, ?);

-- name: owner
SELECT id, host, boot, pid, started_at FROM owners WHERE id = ?;

-- name: owners
SELECT id, host, boot, pid, started_at FROM owners ORDER BY started_at, id;

-- name: idle_owners
SELECT id, host, boot, pid, started_at FROM owners
WHERE id NOT IN (SELECT owner FROM open_runs WHERE owner <> '')
ORDER BY started_at, id
LIMIT ?;

-- name: drop_owner
DELETE FROM owners WHERE id = ?;

-- name: incarnation
SELECT value FROM meta WHERE key = 'incarnation';

-- name: set_incarnation
INSERT OR IGNORE INTO meta (key, value) VALUES ('incarnation', ?);

-- name: token
SELECT value FROM meta WHERE key = 'token';

-- name: set_token
INSERT OR IGNORE INTO meta (key, value) VALUES ('token', ?);

-- name: remove_token
DELETE FROM meta WHERE key = 'token';

-- name: projections
SELECT value FROM meta WHERE key = 'projections';

-- name: set_projections
INSERT OR REPLACE INTO meta (key, value) VALUES ('projections', ?);

-- name: touch
-- Another value each time: SQLite does not write what is there already.
INSERT OR REPLACE INTO meta (key, value) VALUES ('touched', hex(randomblob(8)));

-- name: pulse
PRAGMA data_version;

-- name: last_synced
SELECT position, hash FROM events WHERE synced = 1 ORDER BY position DESC LIMIT 1;

-- name: hash_at_position
SELECT hash FROM events WHERE position = ?;

-- name: archived_head
SELECT hash FROM streams WHERE kind = 'archived' AND hex(substr(hash, 1, 6)) = ?;

-- name: events_of
SELECT s.name, e.type, e.payload FROM events AS e JOIN streams AS s ON s.id = e.stream
WHERE instr(?, ' ' || e.type || ' ') ORDER BY e.position;

-- name: feed
SELECT e.position, s.name, e.version, e.type, e.time, e.payload, e.hash
FROM events AS e JOIN streams AS s ON s.id = e.stream
WHERE e.position > ?1 AND e.position <= ?2 AND (?4 = '' OR instr(?4, ' ' || e.type || ' '))
ORDER BY e.position
LIMIT ?3;

-- name: replay_projections
INSERT INTO projected SELECT stream, version, type, time, payload FROM events ORDER BY position;

-- name: copy_rewound_steps
-- A rewind takes over the steps that ran, and finds them in the log.
INSERT INTO main.events SELECT * FROM live.events AS e
WHERE e.type = 'StepRan' AND e.stream IN (SELECT stream FROM live.events WHERE type = 'Rewound');

-- name: count_positions
SELECT count(*), coalesce((SELECT sum(version) FROM streams WHERE kind = 'archived'), 0),
       coalesce(min(position), 1), coalesce(max(position), 0)
FROM events;

-- name: out_of_order
SELECT s.name, later.version FROM events AS later
JOIN events AS earlier ON earlier.stream = later.stream AND earlier.version = later.version - 1
JOIN streams AS s ON s.id = later.stream
WHERE later.position <= earlier.position;

-- name: odd_synced
SELECT s.name, e.version FROM events AS e JOIN streams AS s ON s.id = e.stream WHERE e.synced NOT IN (0, 1);

-- name: all_streams
SELECT id, name, kind, version, hash, epoch, time FROM streams ORDER BY id;

-- name: all_events
SELECT stream, version, type, time, payload, hash FROM events ORDER BY stream, version;
