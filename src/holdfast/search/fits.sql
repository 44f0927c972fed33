-- Whether the item `i` fits the filters. An event has the status of its run.
i.family IN (SELECT value FROM json_each(:families))
AND (:kinds IS NULL OR i.kind IN (SELECT value FROM json_each(:kinds)))
AND (:since IS NULL OR i.at >= :since)
AND (:hidden OR NOT i.hidden)
AND (:statuses IS NULL
     OR coalesce((SELECT r.status FROM items AS r WHERE r.key = i.key AND r.family = 'runs'), i.status)
        IN (SELECT value FROM json_each(:statuses))
     OR i.family IN ('runs', 'events') AND i.key IN (SELECT value FROM json_each(:interrupted)))
AND (:unwanted IS NULL OR i.id NOT IN (SELECT rowid FROM words WHERE words MATCH :unwanted))
