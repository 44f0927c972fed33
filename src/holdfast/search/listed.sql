-- The newest items.
SELECT i.id, i.family, i.key, i.version, i.kind, i.at, i.step, i.title, i.body, i.rest,
       coalesce((SELECT r.status FROM items AS r WHERE r.key = i.key AND r.family = 'runs'), i.status)
FROM items AS i
WHERE i.id <= :newest AND (fits)
ORDER BY i.id DESC
LIMIT :limit;
