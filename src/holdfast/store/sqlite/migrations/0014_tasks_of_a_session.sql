-- The tasks of a session by status, the last ones first: `current.json` shows few of what may be many.
CREATE INDEX tasks_by_session ON tasks (session, status, ended_at);
