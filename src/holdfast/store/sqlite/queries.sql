-- name: head
SELECT id, version, hash, epoch FROM streams WHERE name = ?;

-- name: last_stream
SELECT coalesce(max(id), 0) FROM streams;

-- name: begin_log
INSERT INTO streams (id, name, kind, version, hash, epoch, time) VALUES (1, ?, 'store', 0, zeroblob(32), 0, 0);

-- name: put_blob
INSERT OR IGNORE INTO blobs (hash, data) VALUES (?, ?);

-- name: blob
SELECT data FROM blobs WHERE hash = ?;

-- name: load
SELECT e.version, e.type, e.time, e.payload, e.hash FROM events AS e
WHERE e.stream = (SELECT id FROM streams WHERE name = ?1) AND e.version > ?2
ORDER BY e.version;

-- name: load_by_id
SELECT version, type, time, payload FROM events WHERE stream = ? AND version > ? ORDER BY version;

-- name: hash_at
SELECT e.hash FROM events AS e
WHERE e.stream = (SELECT id FROM streams WHERE name = ?1) AND e.version = ?2;

-- name: entries
SELECT e.position, ?1, e.version, e.type, e.time, e.payload, e.hash FROM events AS e
WHERE e.stream = (SELECT id FROM streams WHERE name = ?1) AND e.version > ?2
ORDER BY e.version;

-- name: run
SELECT s.name, r.workflow, r.status, r.reason, r.cause, r.attention_step, r.owner, s.epoch, r.generation,
       r.parent, r.created_at, s.time, s.version
FROM runs AS r JOIN streams AS s ON s.id = r.stream
WHERE s.name = ?;

-- name: runs
SELECT s.name, r.workflow, r.status, r.reason, r.cause, r.attention_step, r.owner, s.epoch, r.generation,
       r.parent, r.created_at, s.time, s.version
FROM runs AS r JOIN streams AS s ON s.id = r.stream
WHERE (?1 IS NULL OR r.status IN (SELECT value FROM json_each(?1))) AND (?2 IS NULL OR r.parent = ?2)
ORDER BY r.stream DESC
LIMIT ?3;

-- name: run_ids
SELECT s.name FROM streams AS s
WHERE s.kind = 'run' AND s.name >= ?1 AND s.name < ?1 || char(1114111)
ORDER BY s.name
LIMIT ?2;

-- name: steps
SELECT t.key, t.generation, t.name, t.kind, t.effect, t.status, t.attempt, t.started_at, t.ended_at, t.due_at,
       t.child, t.version
FROM steps AS t JOIN runs AS r ON r.stream = t.run AND r.generation = t.generation
WHERE t.run = (SELECT id FROM streams WHERE name = ?)
ORDER BY t.version;

-- name: put_owner
INSERT OR REPLACE INTO owners (id, host, boot, pid, started_at) VALUES (?, ?, ?, ?, ?);

-- name: owner
SELECT id, host, boot, pid, started_at FROM owners WHERE id = ?;

-- name: owners
SELECT id, host, boot, pid, started_at FROM owners ORDER BY started_at, id;

-- name: idle_owners
SELECT id, host, boot, pid, started_at FROM owners
WHERE id NOT IN (SELECT owner FROM runs WHERE owner <> '')
ORDER BY started_at, id
LIMIT ?;

-- name: drop_owner
DELETE FROM owners WHERE id = ?;

-- name: incarnation
SELECT value FROM meta WHERE key = 'incarnation';

-- name: set_incarnation
INSERT OR IGNORE INTO meta (key, value) VALUES ('incarnation', ?);

-- name: touch
-- Another value each time: SQLite does not write what is there already.
INSERT OR REPLACE INTO meta (key, value) VALUES ('touched', hex(randomblob(8)));

-- name: last_synced
SELECT position FROM events WHERE synced = 1 ORDER BY position DESC LIMIT 1;

-- name: hash_at_position
SELECT hash FROM events WHERE position = ?;

-- name: feed
SELECT e.position, s.name, e.version, e.type, e.time, e.payload, e.hash
FROM events AS e JOIN streams AS s ON s.id = e.stream
WHERE e.position > ?1 AND e.position <= ?2
ORDER BY e.position
LIMIT ?3;

-- name: replay_projections
INSERT INTO projected SELECT stream, version, type, time, payload FROM events ORDER BY position;

-- name: copy_rewound_steps
-- A rewind takes over the steps that ran, and finds them in the log.
INSERT INTO main.events SELECT * FROM live.events AS e
WHERE e.type = 'StepRan' AND e.stream IN (SELECT stream FROM live.events WHERE type = 'Rewound');

-- name: all_streams
SELECT id, name, kind, version, hash FROM streams ORDER BY id;

-- name: all_events
SELECT stream, version, type, time, payload, hash FROM events ORDER BY stream, version;
