CREATE INDEX steps_by_child ON step_rows (child) WHERE child <> '';

CREATE INDEX runs_by_parent ON runs (parent) WHERE parent <> '';
