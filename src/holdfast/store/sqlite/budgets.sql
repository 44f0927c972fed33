-- How the log becomes the tables of budgets. Temporary, so that the triggers are always those of the code that
-- writes. A change of this file rebuilds these tables, and no others (`projections.py`). `exact_sum` is there, too.

CREATE TEMP VIEW projected_budgets AS
SELECT 0 AS stream, 0 AS version, '' AS type, 0 AS time, '' AS payload;

CREATE TEMP TRIGGER append_for_budgets INSTEAD OF INSERT ON appended
WHEN NEW.type = 'BudgetSet' OR NEW.type = 'BudgetReserved' OR NEW.type = 'BudgetSettled'
    OR NEW.type = 'BudgetReleased' OR NEW.type = 'StreamArchived' BEGIN
    INSERT INTO projected_budgets VALUES (NEW.stream, NEW.version, NEW.type, NEW.time, NEW.payload);
END;

CREATE TEMP TRIGGER project_budget_set INSTEAD OF INSERT ON projected_budgets WHEN NEW.type = 'BudgetSet' BEGIN
    INSERT OR IGNORE INTO main.budgets VALUES (NEW.stream, 0, '{}', '', '', '0', 0, '0', 0, 0, NEW.time, NEW.time);
    UPDATE main.budgets SET
        is_set = 1, limits = NEW.payload -> '$.limits', parent = coalesce(NEW.payload ->> '$.parent', ''),
        person = coalesce(NEW.payload ->> '$.by', ''), updated_at = NEW.time
    WHERE stream = NEW.stream;
END;

-- One with the id of an open reservation takes its place.
CREATE TEMP TRIGGER project_budget_reserved INSTEAD OF INSERT ON projected_budgets
WHEN NEW.type = 'BudgetReserved' BEGIN
    INSERT OR IGNORE INTO main.budgets VALUES (NEW.stream, 0, '{}', '', '', '0', 0, '0', 0, 0, NEW.time, NEW.time);
    UPDATE main.budgets SET updated_at = NEW.time WHERE stream = NEW.stream;
    DELETE FROM main.reservations WHERE stream = NEW.stream AND id = NEW.payload ->> '$.id';
    INSERT INTO main.reservations VALUES (
        NEW.stream, NEW.payload ->> '$.id', NEW.payload ->> '$.run', NEW.payload ->> '$.step',
        NEW.payload ->> '$.attempt', NEW.payload -> '$.amounts', coalesce(NEW.payload ->> '$.generation', 0),
        coalesce(NEW.payload ->> '$.owner', ''), coalesce(NEW.payload ->> '$.epoch', 0), NEW.time
    );
END;

-- One whose reservation is not open counts for nothing.
CREATE TEMP TRIGGER project_budget_settled INSTEAD OF INSERT ON projected_budgets
WHEN NEW.type = 'BudgetSettled' BEGIN
    INSERT OR IGNORE INTO main.budgets VALUES (NEW.stream, 0, '{}', '', '', '0', 0, '0', 0, 0, NEW.time, NEW.time);
    UPDATE main.budgets SET updated_at = NEW.time WHERE stream = NEW.stream;
    UPDATE main.budgets SET
        spent_usd = exact_sum(spent_usd, coalesce(NEW.payload ->> '$.amounts.usd', '0')),
        spent_tokens = spent_tokens + coalesce(NEW.payload ->> '$.amounts.tokens', 0),
        spent_seconds = exact_sum(spent_seconds, coalesce(NEW.payload ->> '$.amounts.seconds', '0')),
        spent_steps = spent_steps + coalesce(NEW.payload ->> '$.amounts.steps', 0),
        unknown = unknown + coalesce(NEW.payload ->> '$.unknown', 0)
    WHERE stream = NEW.stream
      AND EXISTS (SELECT 1 FROM main.reservations WHERE stream = NEW.stream AND id = NEW.payload ->> '$.id');
    INSERT OR IGNORE INTO main.run_spending
    SELECT stream, run, '0', 0, '0', 0, 0 FROM main.reservations
    WHERE stream = NEW.stream AND id = NEW.payload ->> '$.id';
    UPDATE main.run_spending SET
        usd = exact_sum(usd, coalesce(NEW.payload ->> '$.amounts.usd', '0')),
        tokens = tokens + coalesce(NEW.payload ->> '$.amounts.tokens', 0),
        seconds = exact_sum(seconds, coalesce(NEW.payload ->> '$.amounts.seconds', '0')),
        steps = steps + coalesce(NEW.payload ->> '$.amounts.steps', 0),
        unknown = unknown + coalesce(NEW.payload ->> '$.unknown', 0)
    WHERE stream = NEW.stream
      AND run = (SELECT run FROM main.reservations WHERE stream = NEW.stream AND id = NEW.payload ->> '$.id');
    DELETE FROM main.reservations WHERE stream = NEW.stream AND id = NEW.payload ->> '$.id';
END;

CREATE TEMP TRIGGER project_budget_released INSTEAD OF INSERT ON projected_budgets
WHEN NEW.type = 'BudgetReleased' BEGIN
    INSERT OR IGNORE INTO main.budgets VALUES (NEW.stream, 0, '{}', '', '', '0', 0, '0', 0, 0, NEW.time, NEW.time);
    UPDATE main.budgets SET updated_at = NEW.time WHERE stream = NEW.stream;
    DELETE FROM main.reservations WHERE stream = NEW.stream AND id = NEW.payload ->> '$.id';
END;

CREATE TEMP TRIGGER archive_budget INSTEAD OF INSERT ON projected_budgets WHEN NEW.type = 'StreamArchived' BEGIN
    DELETE FROM main.budgets
    WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
    DELETE FROM main.reservations
    WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
    DELETE FROM main.run_spending
    WHERE stream = (SELECT id FROM main.streams WHERE name = NEW.payload ->> '$.stream');
END;
