-- Child runs that their parents wait for: a parent whose child has ended is found without a look at the others.
CREATE INDEX steps_of_children ON step_rows (child) WHERE kind = 'child' AND status = 'running';
