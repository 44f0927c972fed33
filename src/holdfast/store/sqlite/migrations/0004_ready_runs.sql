-- Runs that nobody owns and nothing holds up, and the moments at which sleeps and gates are over: whoever
-- continues runs finds these without a look at those that wait.
CREATE INDEX runs_ready ON runs (stream) WHERE owner = '' AND status IN ('pending', 'running');

CREATE INDEX steps_due ON step_rows (due_at) WHERE status IN ('sleeping', 'waiting') AND due_at > 0;
