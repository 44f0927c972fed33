-- name: budgets
-- Of this name, or all, by name; each with its open reservations as JSON.
SELECT substr(s.name, 9), s.version, b.is_set, b.limits, b.parent, b.person, b.spent_usd, b.spent_tokens,
       b.spent_seconds, b.spent_steps, b.unknown, b.created_at, b.updated_at,
       (SELECT json_group_array(json_object(
            'id', r.id, 'run', r.run, 'step', r.step, 'attempt', r.attempt, 'amounts', json(r.amounts),
            'generation', r.generation, 'owner', r.owner, 'epoch', r.epoch, 'at', r.at))
        FROM reservations AS r WHERE r.stream = b.stream)
FROM streams AS s JOIN budgets AS b ON b.stream = s.id
WHERE ?1 IS NULL OR s.name = '@budget/' || ?1
ORDER BY s.name;

-- name: budgets_holding
SELECT DISTINCT substr(s.name, 9) FROM reservations AS r JOIN streams AS s ON s.id = r.stream
WHERE r.run = ?1
ORDER BY 1;

-- name: run_spending
SELECT substr(s.name, 9), p.usd, p.tokens, p.seconds, p.steps, p.unknown
FROM run_spending AS p JOIN streams AS s ON s.id = p.stream
WHERE p.run = ?1
ORDER BY s.name;
