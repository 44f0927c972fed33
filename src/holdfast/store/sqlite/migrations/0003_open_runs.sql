-- Runs that have not ended for good: what can be resumed is found without a look at all the others. A run
-- that completes leaves the index, so it stays small.
CREATE INDEX runs_open ON runs (stream, status, owner, parent) WHERE status NOT IN ('completed', 'cancelled');

CREATE VIEW open_runs AS
SELECT stream, workflow, status, reason, cause, attention_step, owner, generation, sleepers, parent, created_at
FROM runs INDEXED BY runs_open
WHERE status NOT IN ('completed', 'cancelled');
