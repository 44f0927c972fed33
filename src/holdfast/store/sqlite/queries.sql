-- name: head
SELECT id, version, hash, epoch FROM streams WHERE name = ? AND kind NOT IN ('archived', 'deleted');

-- name: head_is
SELECT 1 FROM streams WHERE name = ? AND version = ? AND hash = ? AND kind NOT IN ('archived', 'deleted');

-- name: archived_in
-- The file, by the record in the store's own stream, whose id is 1.
SELECT coalesce(e.payload ->> '$.file', '') FROM streams AS s
     JOIN events AS e ON e.stream = 1 AND e.type = 'StreamArchived' AND e.payload ->> '$.stream' = s.name
WHERE s.name = ? AND s.kind = 'archived';

-- name: any_head
SELECT kind, version, hash FROM streams WHERE name = ?;

-- name: deleted_by
-- The last record of its deletion, in the store's own stream, whose id is 1; whether that is final; its kind.
SELECT coalesce(e.payload ->> '$.operation', ''), s.kind = 'archived', e.payload ->> '$.kind' FROM streams AS s
     JOIN events AS e ON e.stream = 1 AND e.type = 'StreamDeleted' AND e.payload ->> '$.stream' = s.name
WHERE s.name = ? AND s.kind IN ('archived', 'deleted')
ORDER BY e.version DESC LIMIT 1;

-- name: deletions
-- Of a stream that was deleted, restored and deleted again, the last record.
SELECT coalesce(e.payload ->> '$.operation', ''), e.time, s.name
FROM events AS e JOIN streams AS s ON s.name = e.payload ->> '$.stream'
WHERE e.stream = 1 AND e.type = 'StreamDeleted' AND s.kind = 'deleted' AND NOT EXISTS (
    SELECT 1 FROM events AS later
    WHERE later.stream = 1 AND later.version > e.version AND later.type = 'StreamDeleted'
      AND later.payload ->> '$.stream' = s.name
)
ORDER BY e.version;

-- name: begin_log
INSERT INTO streams (id, name, kind, version, hash, epoch, time) VALUES (1, ?, 'store', 0, zeroblob(32), 0, 0);

-- name: put_blob
INSERT OR IGNORE INTO blobs (hash, data) VALUES (?, ?);

-- name: blob
SELECT data FROM blobs WHERE hash = ?;

-- name: blobs
SELECT hash FROM blobs;

-- name: blobs_named
-- By events of whatever type, behind a position; few name one. Of an event that is damaged, NULL. A deletion
-- that is not final keeps what it names.
SELECT s.name, e.version, CASE WHEN json_valid(e.payload) THEN e.payload ->> '$.blob' END
FROM (SELECT position, stream, version, payload FROM events
      UNION ALL SELECT position, stream, version, payload FROM deleted_events) AS e JOIN streams AS s ON s.id = e.stream
WHERE e.position > ?1 AND instr(e.payload, '"blob"')
  AND CASE WHEN json_valid(e.payload) THEN e.payload ->> '$.blob' <> '' ELSE TRUE END;

-- name: values_lost
-- Those that a repair could not find again, by its record in the store's own stream.
SELECT v.value
FROM events AS e, json_each(CASE WHEN json_valid(e.payload) THEN e.payload ELSE '{}' END, '$.values') AS v
WHERE e.stream = 1 AND e.type = 'StoreRepaired';

-- name: drop_blob
DELETE FROM blobs WHERE hash = ?;

-- name: last_position
SELECT coalesce(max(position), 0) FROM events;

-- name: load
-- With the head's version, in one snapshot: a row without an event says that there is none behind ?2.
SELECT e.version, e.type, e.time, e.payload, e.hash, s.version
FROM streams AS s LEFT JOIN events AS e ON e.stream = s.id AND e.version > ?2
WHERE s.name = ?1 AND s.kind NOT IN ('archived', 'deleted')
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
       r.parent, r.created_at, s.time, s.version, r.ended_at, r.stage,
       s.number
FROM runs AS r JOIN streams AS s ON s.id = r.stream
WHERE s.name = ?;

-- name: numbered
SELECT name FROM streams WHERE number = ?1 AND number > 0;

-- name: all_numbers
SELECT name, number FROM streams ORDER BY id;

-- name: renumber
UPDATE streams SET number = counted.number
FROM (SELECT id, row_number() OVER (ORDER BY id) AS number FROM streams
      WHERE name NOT GLOB '@*' OR name GLOB '@task/*') AS counted
WHERE streams.id = counted.id AND streams.number <> counted.number;

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
       r.parent, r.created_at, s.time, s.version, r.ended_at, r.stage,
       s.number
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

-- name: run_totals
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
SELECT coalesce(sum(version), 0) FROM streams WHERE kind NOT IN ('archived', 'deleted');

-- name: extent
SELECT (SELECT count(*) FROM streams WHERE kind NOT IN ('archived', 'deleted')), (SELECT count(*) FROM events);

-- name: last_event
SELECT max(position) FROM (SELECT max(position) AS position FROM events
                           UNION ALL SELECT max(position) FROM deleted_events);

-- name: named_heads
SELECT name, kind, version, hash FROM streams WHERE name GLOB '@*' AND name NOT GLOB '@op/*';

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

-- name: memories
-- The newest first, before a version. `chosen` is `memories`, or those whose ids begin with ?1 (always
-- bound). A memory is superseded by the first one that names it and counts, or that is superseded itself.
WITH RECURSIVE gone (id) AS (
    SELECT supersedes FROM memories WHERE supersedes <> '' AND NOT withdrawn
    UNION
    SELECT m.supersedes FROM gone JOIN memories AS m ON m.id = gone.id WHERE m.supersedes <> ''
)
SELECT m.id, m.kind, m.text, m.scope, m.source, m.cites, m.supersedes, m.author, m.version, m.at, m.withdrawn,
       m.reason, m.operation, m.changed_at,
       coalesce((SELECT s.id FROM memories AS s
                 WHERE s.supersedes = m.id AND s.supersedes <> ''
                   AND (NOT s.withdrawn OR s.id IN (SELECT id FROM gone))
                 ORDER BY s.version LIMIT 1), '') AS superseded_by
FROM chosen AS m
WHERE ?1 = ?1 AND (?2 IS NULL OR m.run = ?2) AND (?3 IS NULL OR m.kind = ?3)
  AND (?4 IS NULL OR m.scope = ?4) AND (?5 OR (NOT m.withdrawn AND superseded_by = ''))
  AND (?6 = 0 OR m.version < ?6)
ORDER BY m.version DESC
LIMIT ?7;

-- name: authored_by
SELECT DISTINCT s.name FROM json_each(?1) AS wanted JOIN authored AS a ON a.run = wanted.value
     JOIN streams AS s ON s.id = a.stream
ORDER BY s.id;

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
SELECT hash FROM events WHERE position = ?1 UNION ALL SELECT hash FROM deleted_events WHERE position = ?1;

-- name: archived_head
SELECT hash FROM streams WHERE kind IN ('archived', 'deleted') AND hex(substr(hash, 1, 6)) = ?;

-- name: events_of
SELECT s.name, e.type, e.payload FROM events AS e JOIN streams AS s ON s.id = e.stream
WHERE instr(?, ' ' || e.type || ' ') ORDER BY e.position;

-- name: events_of_all
-- Also those of streams whose deletion is not final.
SELECT s.name, e.type, e.payload
FROM (SELECT position, stream, type, payload FROM events
      UNION ALL SELECT position, stream, type, payload FROM deleted_events) AS e
     JOIN streams AS s ON s.id = e.stream
WHERE instr(?, ' ' || e.type || ' ') ORDER BY e.position;

-- name: evidence
-- By an index that has no other events.
SELECT s.name, r.generation, e.type, e.payload, e.version, e.time
FROM events AS e INDEXED BY events_of_evidence
     CROSS JOIN streams AS s ON s.id = e.stream CROSS JOIN runs AS r ON r.stream = e.stream
WHERE e.type IN ('EvidenceWritten', 'EvidenceVerified')
ORDER BY e.stream, e.version;

-- name: evidence_of
SELECT ?1, r.generation, e.type, e.payload, e.version, e.time
FROM events AS e INDEXED BY events_of_evidence CROSS JOIN runs AS r ON r.stream = e.stream
WHERE e.type IN ('EvidenceWritten', 'EvidenceVerified') AND e.stream = (SELECT id FROM streams WHERE name = ?1)
ORDER BY e.version;

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
FROM (SELECT position FROM events UNION ALL SELECT position FROM deleted_events);

-- name: out_of_order
SELECT s.name, later.version FROM events AS later
JOIN events AS earlier ON earlier.stream = later.stream AND earlier.version = later.version - 1
JOIN streams AS s ON s.id = later.stream
WHERE later.position <= earlier.position
UNION ALL
SELECT s.name, later.version FROM deleted_events AS later
JOIN deleted_events AS earlier ON earlier.stream = later.stream AND earlier.version = later.version - 1
JOIN streams AS s ON s.id = later.stream
WHERE later.position <= earlier.position
UNION ALL
SELECT s.name, aside.version FROM deleted_events AS aside
JOIN events AS there ON there.position = aside.position
JOIN streams AS s ON s.id = aside.stream;

-- name: odd_synced
SELECT s.name, e.version FROM (
    SELECT stream, version, synced FROM events UNION ALL SELECT stream, version, synced FROM deleted_events
) AS e JOIN streams AS s ON s.id = e.stream WHERE e.synced NOT IN (0, 1);

-- name: all_streams
SELECT id, name, kind, version, hash, epoch, time FROM streams ORDER BY id;

-- name: all_events
-- With whether the event is set aside, because its stream is deleted.
SELECT stream, version, type, time, payload, hash, 0 FROM events
UNION ALL SELECT stream, version, type, time, payload, hash, 1 FROM deleted_events
ORDER BY stream, version;

-- name: schema_columns
-- Every column of every table, view and index that is not SQLite's own.
SELECT m.type || ' ' || hex(m.name), c.cid, hex(c.name), c.type, c."notnull", c.pk, c.hidden
FROM main.sqlite_schema AS m, pragma_table_xinfo(m.name, 'main') AS c
WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite_%'
UNION ALL
SELECT m.type || ' ' || hex(m.name), c.seqno, hex(coalesce(c.name, '')), hex(m.tbl_name), c."desc", c.key, ''
FROM main.sqlite_schema AS m, pragma_index_xinfo(m.name, 'main') AS c
WHERE m.type = 'index' AND m.name NOT LIKE 'sqlite_%'
ORDER BY 1, 2;

-- name: salvage_found
INSERT OR IGNORE INTO found (
    copy, stream, version, type, time, payload, hash, synced, position, rank, digest, behind, line
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: salvage_name
INSERT OR IGNORE INTO names (copy, stream, name) VALUES (?, ?, ?);

-- name: salvage_entry
INSERT OR IGNORE INTO entries (copy, page, stream, name) VALUES (?, ?, ?, ?);

-- name: salvaged_named_first_events
-- What may be the first event of a stream, with what an index has as the name of a stream of that number.
SELECT f.copy, f.stream, f.type, f.time, f.payload, f.hash, e.name
FROM found AS f JOIN entries AS e ON e.copy = f.copy AND e.stream = f.stream WHERE f.version = 1;

-- name: salvaged_pages_of_names
-- The pages that are of the index of names, the likeliest first: no name is there twice, some entries agree
-- with the rows of streams, the records of their creation and their first events, and fewer contradict them.
WITH compared AS (
    SELECT e.copy, e.page, e.name,
           EXISTS (SELECT 1 FROM names AS n WHERE n.name = e.name AND n.copy = e.copy AND n.stream = e.stream)
               AS agrees,
           EXISTS (SELECT 1 FROM names AS n WHERE n.name = e.name AND n.copy = e.copy AND n.stream > 0)
           OR EXISTS (SELECT 1 FROM names AS n WHERE n.stream = e.stream AND n.copy = e.copy) AS is_known
    FROM entries AS e
)
SELECT copy, page FROM compared GROUP BY copy, page
HAVING count(DISTINCT name) = count(*) AND sum(agrees) > 0 AND 2 * sum(agrees) >= sum(is_known)
ORDER BY sum(agrees) DESC, copy, page;

-- name: salvage_names_of_page
-- An entry counts unless what is known already contradicts it.
INSERT OR IGNORE INTO names (copy, stream, name)
SELECT e.copy, e.stream, e.name FROM entries AS e WHERE e.copy = ?1 AND e.page = ?2
    AND NOT EXISTS (SELECT 1 FROM names AS n WHERE n.name = e.name AND n.copy = e.copy AND n.stream > 0)
    AND NOT EXISTS (SELECT 1 FROM names AS n WHERE n.stream = e.stream AND n.copy = e.copy);

-- name: salvaged_contested_names
-- What may be the first event of a stream, with its name in that copy, if the stream has another name there, or
-- the name another stream.
SELECT f.copy, f.stream, f.type, f.time, f.payload, f.hash, n.name
FROM names AS n JOIN found AS f ON f.copy = n.copy AND f.stream = n.stream AND f.version = 1
WHERE EXISTS (SELECT 1 FROM names AS o WHERE o.copy = n.copy AND o.stream = n.stream AND o.name <> n.name)
   OR EXISTS (SELECT 1 FROM names AS o WHERE o.copy = n.copy AND o.name = n.name AND o.stream <> n.stream);

-- name: salvage_only_name
-- In a copy, this stream has this name, and no other stream has it.
DELETE FROM names WHERE copy = ?1 AND (stream = ?2 OR name = ?3) AND (stream, name) <> (?2, ?3);

-- name: salvage_no_disproven_head
DELETE FROM heads
WHERE NOT EXISTS (SELECT 1 FROM names AS n WHERE (n.name, n.copy, n.stream) = (heads.name, heads.copy, heads.stream))
  AND NOT EXISTS (
    SELECT 1 FROM names AS n JOIN found AS f ON f.copy = n.copy AND f.stream = n.stream
        AND f.version = heads.version AND f.hash = heads.hash
    WHERE n.name = heads.name
);

-- name: salvage_head
INSERT INTO heads (copy, stream, name, kind, version, hash, rank, reach) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET reach = max(reach, excluded.reach);

-- name: salvage_place
INSERT OR IGNORE INTO places (copy, stream, version, position, page) VALUES (?, ?, ?, ?, ?);

-- name: salvage_no_other_index
-- Of pages of which no entry, or hardly one, is that of an event that was found.
DELETE FROM places WHERE (copy, page) NOT IN (
    SELECT p.copy, p.page FROM places AS p
    LEFT JOIN found AS f ON f.copy = p.copy AND f.stream = p.stream AND f.version = p.version
                        AND f.position = p.position
    GROUP BY p.copy, p.page HAVING count(f.id) * 4 >= count(*)
);

-- name: salvaged_misplaced
-- The events that the index has at another position than the table.
SELECT f.id, f.copy, f.position, p.position FROM places AS p
JOIN found AS f ON f.copy = p.copy AND f.stream = p.stream AND f.version = p.version
WHERE f.position <> p.position AND NOT EXISTS (
    SELECT 1 FROM places AS same WHERE same.copy = f.copy AND same.stream = f.stream
        AND same.version = f.version AND same.position = f.position
) GROUP BY f.id;

-- name: salvaged_end
-- The last position on which the table and the index of a copy agree.
SELECT coalesce(max(f.position), 0) FROM found AS f JOIN places AS p ON p.copy = f.copy AND p.stream = f.stream
    AND p.version = f.version AND p.position = f.position
WHERE f.copy = ?;

-- name: salvaged_last_position
SELECT coalesce(max(f.position), 0) FROM found AS f JOIN copies AS c ON c.id = f.copy AND c.trust < 2
JOIN places AS p ON p.copy = f.copy AND p.stream = f.stream AND p.version = f.version AND p.position = f.position;

-- name: salvage_position
UPDATE found SET position = ? WHERE id = ?;

-- name: salvaged_obstacle
-- An event because of which this one cannot be at a position: it is there itself, or it is the event before this
-- one in its stream and behind the position, or the one after it and before the position.
SELECT 1 FROM found AS f JOIN found AS other ON other.copy = f.copy AND other.position = ?2
WHERE f.id = ?1 AND (other.stream, other.version) <> (f.stream, f.version)
UNION ALL
SELECT 1 FROM found AS f JOIN found AS other ON other.copy = f.copy AND other.stream = f.stream
    AND other.version IN (f.version - 1, f.version + 1) AND other.position > 0
WHERE f.id = ?1 AND (other.version < f.version) <> (other.position < ?2)
LIMIT 1;

-- name: salvaged_disorder
SELECT coalesce((
    SELECT other.time FROM found AS other WHERE other.copy = f.copy AND other.position BETWEEN 1 AND ?2 - 1
    ORDER BY other.position DESC LIMIT 1
) > f.time, 0) + coalesce((
    SELECT other.time FROM found AS other WHERE other.copy = f.copy AND other.position > ?2
    ORDER BY other.position LIMIT 1
) < f.time, 0)
FROM found AS f WHERE f.id = ?1;

-- name: salvage_names_alike
-- To streams that have no name in their copy, the names that other copies have for their numbers.
INSERT OR IGNORE INTO names (copy, stream, name)
SELECT f.copy, f.stream, n.name FROM (SELECT DISTINCT copy, stream FROM found WHERE stream > 0) AS f
JOIN names AS n ON n.stream = f.stream AND n.copy <> f.copy
WHERE NOT EXISTS (SELECT 1 FROM names AS own WHERE own.stream = f.stream AND own.copy = f.copy);

-- name: salvaged_names_in
SELECT name FROM names WHERE copy = ? AND stream = ?;

-- name: salvaged_names
SELECT DISTINCT name FROM names ORDER BY name;

-- name: salvaged_events
-- What is found of a stream, by version; in each version the copy that is trusted most first.
SELECT f.id, c.id, c.trust, f.version, f.type, f.time, f.payload, f.hash, f.position, f.rank
FROM names AS n JOIN copies AS c ON c.id = n.copy JOIN found AS f ON f.copy = n.copy AND f.stream = n.stream
WHERE n.name = ?1 AND f.version > ?2
ORDER BY f.version, c.trust, f.rank, c.id;

-- name: salvaged_event
SELECT type, time, payload, hash, synced, position, copy FROM found WHERE id = ?;

-- name: salvaged_hash
SELECT 1 FROM names AS n JOIN copies AS c ON c.id = n.copy AND c.trust = 0
     JOIN found AS f ON f.copy = n.copy AND f.stream = n.stream
WHERE n.name = ? AND f.version = ? AND f.hash = ?;

-- name: salvaged_position
SELECT f.position FROM names AS n JOIN copies AS c ON c.id = n.copy AND c.trust < 3
     JOIN found AS f ON f.copy = n.copy AND f.stream = n.stream AND f.position > 0
WHERE n.name = ? AND f.version = ? AND f.hash = ? ORDER BY c.trust, f.rank LIMIT 1;

-- name: salvaged_journal_place
SELECT behind, line FROM found WHERE id = ?;

-- name: salvaged_heads
SELECT h.kind, h.version, h.hash, c.trust, h.rank, h.reach FROM heads AS h JOIN copies AS c ON c.id = h.copy
WHERE h.name = ? ORDER BY c.trust, h.rank, h.version DESC;

-- name: salvaged_places
SELECT DISTINCT p.version FROM names AS n JOIN copies AS c ON c.id = n.copy AND c.trust < 2
     JOIN places AS p ON p.copy = n.copy AND p.stream = n.stream
WHERE n.name = ?1 AND p.version > ?2 ORDER BY p.version;

-- name: salvaged_numbers
SELECT n.stream FROM names AS n JOIN copies AS c ON c.id = n.copy
WHERE n.name = ? AND n.stream > 0 ORDER BY c.trust, c.id, n.stream;

-- name: salvaged_number_of
SELECT stream FROM found WHERE id = ?;

-- name: salvaged_trust
-- How much the copy is trusted that is trusted most of those which have the stream.
SELECT min(c.trust) FROM names AS n JOIN copies AS c ON c.id = n.copy WHERE n.name = ?;

-- name: salvaged_names_of
-- The names that copies of this log have for the stream of this number, the most trusted first.
SELECT n.name FROM names AS n JOIN copies AS c ON c.id = n.copy AND c.trust < 2
     LEFT JOIN heads AS h ON h.copy = n.copy AND h.stream = n.stream AND h.name = n.name
WHERE n.stream = ? ORDER BY c.trust, h.kind IS NULL, n.name;

-- name: salvaged_head_names
SELECT h.name FROM heads AS h JOIN copies AS c ON c.id = h.copy AND c.trust < 2
JOIN names AS n ON n.name = h.name AND n.copy = h.copy AND n.stream = h.stream
WHERE h.stream = ?;

-- name: salvaged_first_events
-- Of every stream in every copy, what may be its first event.
SELECT f.copy, f.stream, f.type, f.time, f.payload, f.hash FROM found AS f WHERE f.version = 1;

-- name: salvaged_repairs
SELECT f.payload FROM found AS f JOIN copies AS c ON c.id = f.copy AND c.trust < 3
WHERE f.stream = 1 AND f.type = 'StoreRepaired';

-- name: salvaged_names_at
SELECT h.name FROM heads AS h JOIN copies AS c ON c.id = h.copy AND c.trust < 3
WHERE h.version = ? AND lower(hex(h.hash)) = ?;

-- name: salvaged_archived
SELECT h.name, h.version, h.hash FROM heads AS h JOIN copies AS c ON c.id = h.copy AND c.trust = 0
WHERE h.kind = 'archived' AND h.rank IN (0, 2) ORDER BY h.name;

-- name: salvaged_deleted
SELECT DISTINCT h.name FROM heads AS h JOIN copies AS c ON c.id = h.copy AND c.trust = 0
WHERE h.kind = 'deleted' AND h.rank IN (0, 2) ORDER BY h.name;

-- name: salvaged_archivings
SELECT payload FROM found WHERE stream = 1 AND type = 'StreamArchived' ORDER BY id;

-- name: salvaged_blob
SELECT 1 FROM blobs WHERE hash = ?;

-- name: salvaged_labels
SELECT id, label FROM copies;

-- name: take_blobs
INSERT INTO main.blobs (hash, data) SELECT hash, data FROM salvaged.blobs
WHERE hash IN (SELECT value FROM json_each(?));

-- name: put_event
INSERT INTO events (position, stream, version, type, time, payload, hash, synced) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: put_deleted_event
INSERT INTO deleted_events (position, stream, version, type, time, payload, hash, synced)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: put_stream
INSERT INTO streams (id, name, kind, version, hash, epoch, time) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: outcomes
-- The last ones of a candidate, the newest first.
SELECT at, ok, usd, error FROM outcomes WHERE family = ?1 AND kind = ?2 AND candidate = ?3
ORDER BY at DESC, stream DESC, version DESC
LIMIT ?4;

-- name: outcome_sums
SELECT kind, candidate, sum(ok), sum(NOT ok), sum(error <> ''), sum(iif(usd < 0, 0, usd)), sum(usd >= 0), max(at)
FROM outcomes WHERE family = ?1 AND (?2 IS NULL OR kind = ?2)
GROUP BY kind, candidate
ORDER BY kind, candidate;
