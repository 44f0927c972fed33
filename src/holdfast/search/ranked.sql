-- The best of the newest items that have the words. The FTS5 table is read in the order of ids, the newest first,
-- and stops at :ranked; items that were shown do not count.
SELECT i.id, i.family, i.key, i.version, i.kind, i.at, i.step, i.title, i.body, i.rest,
       coalesce((SELECT r.status FROM items AS r WHERE r.key = i.key AND r.family = 'runs'), i.status)
FROM (
    SELECT i.id AS id, relevance(words, :weights) AS score
    FROM words CROSS JOIN items AS i ON i.id = words.rowid
    WHERE words MATCH :wanted AND words.rowid <= :newest
      AND words.rowid NOT IN (SELECT value FROM json_each(:shown)) AND (fits)
    ORDER BY words.rowid DESC
    LIMIT :ranked
) AS best JOIN items AS i ON i.id = best.id
ORDER BY best.score, best.id DESC
LIMIT :limit;
