-- The decisions among the notes of tasks, the newest first, and which runs wrote some, without a look at any task.
CREATE INDEX events_of_decisions ON events (time, position, payload ->> '$.author.run')
WHERE type = 'TaskNoted' AND payload ->> '$.kind' = 'decision';
