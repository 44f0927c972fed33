-- How the log becomes the tables of runs and operations. Temporary, so that the triggers are always those of the
-- code that writes. A change of this file rebuilds these tables, and no others (`projections.py`).
--
-- An INSERT into `projected_runs` is one event seen by these projections; a rebuild is
-- `INSERT INTO projected_runs SELECT ... FROM events ORDER BY position`.

CREATE TEMP VIEW projected_runs AS
SELECT 0 AS stream, 0 AS version, '' AS type, 0 AS time, '' AS payload;

-- Not for events that none of these projections looks at: twenty triggers would each find that out by itself.
CREATE TEMP TRIGGER append_for_runs INSTEAD OF INSERT ON appended
WHEN NEW.type <> 'StreamCreated' AND NEW.type <> 'StepRan' AND NEW.type <> 'ValueRecorded'
    AND NEW.type <> 'Emitted' AND NEW.type <> 'PatchSeen' AND NEW.type <> 'OutputCaptured' BEGIN
    INSERT INTO projected_runs VALUES (NEW.stream, NEW.version, NEW.type, NEW.time, NEW.payload);
END;

CREATE TEMP TRIGGER project_archived INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'StreamArchived' BEGIN
    DELETE FROM main.runs WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
    DELETE FROM main.step_rows WHERE run = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
    DELETE FROM main.generations
    WHERE run = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
    DELETE FROM main.stages WHERE run = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
    DELETE FROM main.operations
    WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
END;

-- An INSERT into `going` says that what holds a run up has changed: its gates, its sleeps, its owner.
CREATE TEMP VIEW going AS SELECT 0 AS stream;

CREATE TEMP TRIGGER go INSTEAD OF INSERT ON going BEGIN
    UPDATE main.runs SET status = CASE
        WHEN EXISTS (SELECT 1 FROM main.step_rows AS t
                     WHERE t.run = NEW.stream AND t.generation = runs.generation AND t.status = 'waiting')
            THEN 'waiting'
        WHEN sleepers > 0 THEN 'sleeping'
        WHEN owner <> '' THEN 'running'
        ELSE 'pending' END
    WHERE stream = NEW.stream AND status IN ('pending', 'running', 'waiting', 'sleeping');
END;

-- Runs: those events that every run has come here by way of `lived` (`log.sql`), too.

CREATE TEMP VIEW projected_run_life AS
SELECT 0 AS stream, 0 AS version, '' AS type, 0 AS time, '' AS payload;

CREATE TEMP TRIGGER project_run_life INSTEAD OF INSERT ON projected_runs
WHEN NEW.type = 'RunCreated' OR NEW.type = 'RunClaimed' OR NEW.type = 'RunReleased'
    OR NEW.type = 'RunCompleted' OR NEW.type = 'RunFailed' BEGIN
    INSERT INTO projected_run_life VALUES (NEW.stream, NEW.version, NEW.type, NEW.time, NEW.payload);
END;

CREATE TEMP TRIGGER project_run_created INSTEAD OF INSERT ON projected_run_life
WHEN NEW.type = 'RunCreated' BEGIN
    INSERT INTO main.runs VALUES (
        NEW.stream, NEW.payload ->> '$.code.name', 'pending', '', '', '', '', 0, 0,
        coalesce(NEW.payload ->> '$.parent', ''), NEW.time, 0, ''
    );
END;

CREATE TEMP TRIGGER project_run_claimed INSTEAD OF INSERT ON projected_run_life
WHEN NEW.type = 'RunClaimed' BEGIN
    UPDATE main.runs SET
        owner = NEW.payload ->> '$.owner', reason = '', cause = '', attention_step = '', status = 'running'
    WHERE stream = NEW.stream;
    INSERT INTO going VALUES (NEW.stream);
END;

CREATE TEMP TRIGGER project_run_paused INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'RunPaused' BEGIN
    UPDATE main.runs SET status = 'paused', owner = '', reason = coalesce(NEW.payload ->> '$.reason', '')
    WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_run_released INSTEAD OF INSERT ON projected_run_life
WHEN NEW.type = 'RunReleased' BEGIN
    UPDATE main.runs SET
        owner = '',
        status = CASE coalesce(NEW.payload ->> '$.waits', '')
            WHEN '' THEN status
            WHEN 'pending' THEN 'pending'
            ELSE iif(status IN ('pending', 'running'), NEW.payload ->> '$.waits', status) END
    WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_run_reopened INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'RunReopened' BEGIN
    UPDATE main.runs SET status = 'running', ended_at = 0 WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_run_needs_attention INSTEAD OF INSERT ON projected_runs
WHEN NEW.type = 'RunNeedsAttention' BEGIN
    UPDATE main.runs SET
        status = 'needs_attention', cause = NEW.payload ->> '$.cause',
        reason = NEW.payload ->> '$.reason', attention_step = coalesce(NEW.payload ->> '$.step', '')
    WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_run_completed INSTEAD OF INSERT ON projected_run_life
WHEN NEW.type = 'RunCompleted' BEGIN
    UPDATE main.runs SET status = 'completed', owner = '', ended_at = NEW.time WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_run_failed INSTEAD OF INSERT ON projected_run_life
WHEN NEW.type = 'RunFailed' BEGIN
    UPDATE main.runs SET status = 'failed', owner = '', ended_at = NEW.time WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_run_cancelled INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'RunCancelled' BEGIN
    UPDATE main.runs SET
        status = 'cancelled', owner = '', reason = coalesce(NEW.payload ->> '$.reason', ''), ended_at = NEW.time
    WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_run_forked INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'RunForked' BEGIN
    UPDATE main.runs SET status = 'paused', reason = 'forked from ' || (NEW.payload ->> '$.origin')
    WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_stage_entered INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'StageEntered' BEGIN
    INSERT INTO main.stages VALUES (
        NEW.stream, coalesce(NEW.payload ->> '$.generation', 0), NEW.version, NEW.payload ->> '$.name'
    );
    UPDATE main.runs SET stage = NEW.payload ->> '$.name' WHERE stream = NEW.stream;
END;

-- Generations: the one that is left is kept as it is, and a new one opened, or another one taken up.

CREATE TEMP TRIGGER project_rewound INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'Rewound' BEGIN
    INSERT OR REPLACE INTO main.generations
    SELECT stream, generation, status, reason, cause, attention_step, ended_at FROM main.runs WHERE stream = NEW.stream;
    INSERT INTO main.step_rows
    SELECT run, NEW.payload ->> '$.generation', key, name, kind, effect, status, attempt,
           started_at, ended_at, due_at, child, version
    FROM main.steps
    WHERE run = NEW.stream AND generation = NEW.payload ->> '$.parent'
      AND version <= NEW.payload ->> '$.version';
    INSERT INTO main.stages
    SELECT run, NEW.payload ->> '$.generation', version, name FROM main.stages
    WHERE run = NEW.stream AND generation = NEW.payload ->> '$.parent' AND version <= NEW.payload ->> '$.version';
    UPDATE main.runs SET
        generation = NEW.payload ->> '$.generation', status = 'paused', reason = 'rewound', owner = '',
        cause = '', attention_step = '', ended_at = 0,
        stage = coalesce((SELECT name FROM main.stages
                          WHERE run = NEW.stream AND generation = NEW.payload ->> '$.generation'
                          ORDER BY version DESC LIMIT 1), ''),
        sleepers = (SELECT count(*) FROM main.step_rows
                    WHERE run = NEW.stream AND generation = NEW.payload ->> '$.generation'
                      AND status = 'sleeping')
    WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_generation_restored INSTEAD OF INSERT ON projected_runs
WHEN NEW.type = 'GenerationRestored' BEGIN
    INSERT OR REPLACE INTO main.generations
    SELECT stream, generation, status, reason, cause, attention_step, ended_at FROM main.runs WHERE stream = NEW.stream;
    UPDATE main.runs SET
        generation = g.generation, status = g.status, reason = g.reason, cause = g.cause,
        attention_step = g.attention_step, owner = '', ended_at = g.ended_at,
        stage = coalesce((SELECT t.name FROM main.stages AS t
                          WHERE t.run = g.run AND t.generation = g.generation
                          ORDER BY t.version DESC LIMIT 1), ''),
        sleepers = (SELECT count(*) FROM main.step_rows AS t
                    WHERE t.run = g.run AND t.generation = g.generation AND t.status = 'sleeping')
    FROM main.generations AS g
    WHERE runs.stream = NEW.stream AND g.run = NEW.stream AND g.generation = NEW.payload ->> '$.generation';
END;

-- Operations

CREATE TEMP TRIGGER project_operation_begun INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'OperationBegun' BEGIN
    INSERT INTO main.operations VALUES (
        NEW.stream, NEW.payload ->> '$.kind', NEW.payload ->> '$.run', coalesce(NEW.payload ->> '$.by', ''),
        coalesce(NEW.payload ->> '$.to', ''), coalesce(NEW.payload ->> '$.undoes', ''), -1, -1, 'begun',
        NEW.time
    );
END;

CREATE TEMP TRIGGER project_state_applied INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'StateApplied' BEGIN
    UPDATE main.operations SET
        left_generation = NEW.payload ->> '$.left', opened_generation = NEW.payload ->> '$.opened'
    WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_operation_done INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'OperationDone' BEGIN
    UPDATE main.operations SET status = 'done' WHERE stream = NEW.stream;
END;

CREATE TEMP TRIGGER project_operation_dropped INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'OperationDropped' BEGIN
    UPDATE main.operations SET status = 'dropped' WHERE stream = NEW.stream;
END;

-- Steps

CREATE TEMP TRIGGER project_step_started INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'StepStarted' BEGIN
    INSERT INTO main.step_rows VALUES (
        NEW.stream, coalesce(NEW.payload ->> '$.generation', 0), NEW.payload ->> '$.key',
        NEW.payload ->> '$.name', coalesce(NEW.payload ->> '$.kind', 'step'),
        coalesce(NEW.payload ->> '$.effect', 'idempotent'), 'running',
        coalesce(NEW.payload ->> '$.attempt', 1), NEW.time, 0, 0,
        coalesce(NEW.payload ->> '$.child', ''), NEW.version
    )
    ON CONFLICT (run, generation, key) DO UPDATE SET
        status = 'running', attempt = excluded.attempt, started_at = excluded.started_at,
        ended_at = 0, due_at = 0, version = excluded.version;
END;

CREATE TEMP TRIGGER project_step_completed INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'StepCompleted' BEGIN
    UPDATE main.step_rows SET status = 'completed', ended_at = NEW.time, version = NEW.version
    WHERE run = NEW.stream AND generation = coalesce(NEW.payload ->> '$.generation', 0)
      AND key = NEW.payload ->> '$.key';
END;

CREATE TEMP TRIGGER project_step_attempt_failed INSTEAD OF INSERT ON projected_runs
WHEN NEW.type = 'StepAttemptFailed' BEGIN
    UPDATE main.step_rows SET
        status = 'retrying', ended_at = NEW.time, due_at = NEW.payload ->> '$.retry_at', version = NEW.version
    WHERE run = NEW.stream AND generation = coalesce(NEW.payload ->> '$.generation', 0)
      AND key = NEW.payload ->> '$.key';
END;

CREATE TEMP TRIGGER project_step_failed INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'StepFailed' BEGIN
    UPDATE main.step_rows SET status = 'failed', ended_at = NEW.time, version = NEW.version
    WHERE run = NEW.stream AND generation = coalesce(NEW.payload ->> '$.generation', 0)
      AND key = NEW.payload ->> '$.key';
END;

CREATE TEMP TRIGGER project_step_reopened INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'StepReopened' BEGIN
    UPDATE main.step_rows SET status = 'reopened', version = NEW.version
    WHERE run = NEW.stream AND generation = coalesce(NEW.payload ->> '$.generation', 0)
      AND key = NEW.payload ->> '$.key';
END;

CREATE TEMP TRIGGER project_step_in_doubt INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'StepInDoubt' BEGIN
    UPDATE main.step_rows SET status = 'in_doubt', version = NEW.version
    WHERE run = NEW.stream AND generation = coalesce(NEW.payload ->> '$.generation', 0)
      AND key = NEW.payload ->> '$.key';
END;

CREATE TEMP TRIGGER project_step_settled INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'StepSettled' BEGIN
    UPDATE main.step_rows SET
        status = CASE NEW.payload ->> '$.outcome'
            WHEN 'done' THEN 'completed' WHEN 'fail' THEN 'failed' ELSE 'reopened' END,
        ended_at = iif(NEW.payload ->> '$.outcome' = 'retry', ended_at, NEW.time),
        version = NEW.version
    WHERE run = NEW.stream AND generation = coalesce(NEW.payload ->> '$.generation', 0)
      AND key = NEW.payload ->> '$.key';
    UPDATE main.runs SET status = 'running', reason = '', cause = '', attention_step = ''
    WHERE stream = NEW.stream AND status = 'needs_attention' AND cause = 'in_doubt'
      AND NOT EXISTS (SELECT 1 FROM main.step_rows
                      WHERE run = NEW.stream AND generation = runs.generation AND status = 'in_doubt');
END;

CREATE TEMP TRIGGER project_sleep_started INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'SleepStarted' BEGIN
    INSERT INTO main.step_rows VALUES (
        NEW.stream, coalesce(NEW.payload ->> '$.generation', 0), NEW.payload ->> '$.key', 'sleep', 'sleep',
        'idempotent', 'sleeping', 1, NEW.time, 0, NEW.payload ->> '$.until', '', NEW.version
    );
    UPDATE main.runs SET status = 'running', sleepers = sleepers + 1 WHERE stream = NEW.stream;
    INSERT INTO going VALUES (NEW.stream);
END;

CREATE TEMP TRIGGER project_sleep_ended INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'SleepEnded' BEGIN
    UPDATE main.step_rows SET status = 'completed', ended_at = NEW.time, version = NEW.version
    WHERE run = NEW.stream AND generation = coalesce(NEW.payload ->> '$.generation', 0)
      AND key = NEW.payload ->> '$.key';
    UPDATE main.runs SET sleepers = sleepers - 1 WHERE stream = NEW.stream;
    INSERT INTO going VALUES (NEW.stream);
END;

CREATE TEMP TRIGGER project_gate_opened INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'GateOpened' BEGIN
    INSERT INTO main.step_rows VALUES (
        NEW.stream, coalesce(NEW.payload ->> '$.generation', 0), NEW.payload ->> '$.key',
        NEW.payload ->> '$.name', NEW.payload ->> '$.kind', 'idempotent', 'waiting', 1, NEW.time, 0,
        coalesce(NEW.payload ->> '$.until', 0), '', NEW.version
    );
    UPDATE main.runs SET status = 'running' WHERE stream = NEW.stream;
    INSERT INTO going VALUES (NEW.stream);
END;

CREATE TEMP TRIGGER project_gate_decided INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'GateDecided' BEGIN
    UPDATE main.step_rows SET status = 'completed', ended_at = NEW.time, due_at = 0, version = NEW.version
    WHERE run = NEW.stream AND generation = coalesce(NEW.payload ->> '$.generation', 0)
      AND key = NEW.payload ->> '$.key';
    INSERT INTO going VALUES (NEW.stream);
    -- No process owns it: it can be resumed, even if other branches of it wait.
    UPDATE main.runs SET status = 'pending'
    WHERE stream = NEW.stream AND owner = '' AND status IN ('pending', 'running', 'waiting', 'sleeping');
END;

CREATE TEMP TRIGGER project_wait_abandoned INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'WaitAbandoned' BEGIN
    UPDATE main.runs SET sleepers = sleepers - 1
    WHERE stream = NEW.stream AND EXISTS (
        SELECT 1 FROM main.step_rows
        WHERE run = NEW.stream AND generation = coalesce(NEW.payload ->> '$.generation', 0)
          AND key = NEW.payload ->> '$.key' AND status = 'sleeping'
    );
    UPDATE main.step_rows SET status = 'abandoned', ended_at = NEW.time, due_at = 0, version = NEW.version
    WHERE run = NEW.stream AND generation = coalesce(NEW.payload ->> '$.generation', 0)
      AND key = NEW.payload ->> '$.key';
    INSERT INTO going VALUES (NEW.stream);
END;

CREATE TEMP TRIGGER project_checkpoint INSTEAD OF INSERT ON projected_runs WHEN NEW.type = 'CheckpointTaken' BEGIN
    INSERT INTO main.step_rows VALUES (
        NEW.stream, coalesce(NEW.payload ->> '$.generation', 0), NEW.payload ->> '$.key',
        NEW.payload ->> '$.name', 'checkpoint', 'idempotent', 'completed', 1, NEW.time, NEW.time, 0, '',
        NEW.version
    );
END;
