-- name: get
SELECT j.id, t.name, j.body, j.due, j.due - j.ahead, j.state, j.key, j.ttr, j.max_attempts, j.headers, j.claims,
    j.forgiven, j.lost, r.claim, r.attempt, r.begun, r.lease, r.max_attempts, r.backoff,
    CASE WHEN j.claims IS NOT NULL THEN
        (SELECT h.error FROM history h WHERE h.job = j.id AND h.error IS NOT NULL ORDER BY h.claim DESC LIMIT 1)
    END
FROM json_each(?) e CROSS JOIN job j ON j.id = e.value CROSS JOIN topic t ON t.id = j.topic
    LEFT JOIN run r ON r.job = j.id

-- name: topic_counts
SELECT json_group_array(id), json_group_array(name), json_group_array(live), json_group_array(done), json_group_array(dead),
    json_group_array(cancelled)
FROM (SELECT * FROM topic ORDER BY name)

-- name: topics
SELECT id, name, paused FROM topic ORDER BY name

-- name: count_running
SELECT topic, begun, lease <= :now AS over, attempt >= max_attempts AS spent, count(*) FROM run GROUP BY 1, 2, 3, 4

-- name: history
SELECT h.claim, h.attempt, h.started, h.ended, h.outcome, w.name, h.error
FROM history h LEFT JOIN worker w ON w.id = h.worker WHERE h.job = ? ORDER BY h.claim

-- name: running_attempt
SELECT r.claim, r.attempt, r.started, r.lease, w.name FROM run r LEFT JOIN worker w ON w.id = r.worker WHERE r.job = ?

-- Both as one row: between two rows of a result, busy handlers would take the interpreter for milliseconds. A span:
-- topic, shards, due and id after which, due until which. Without an ORDER BY the rows come as the loops find them, and
-- the limit ends these; in two parts, as a search by (due, id) at once would pass over all that are due with the first.
-- name: windows
SELECT json_group_array(due), json_group_array(id), json_group_array(span) FROM (
    SELECT j.due, j.id, s.key AS span
    FROM json_each(:spans) s CROSS JOIN json_each('[0, 1]') part
        CROSS JOIN topic t ON t.id = s.value ->> 0
        CROSS JOIN job j INDEXED BY job_due ON j.topic = t.id
            AND j.due >= (s.value ->> 2) + part.value
            AND j.due <= CASE WHEN part.value THEN s.value ->> 4 ELSE min(s.value ->> 2, s.value ->> 4) END
            AND j.id > CASE WHEN part.value THEN 0 ELSE s.value ->> 3 END
    WHERE NOT t.paused AND j.state IS NULL AND ((s.value ->> 1) >> (j.id & 31)) & 1
        AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
    LIMIT :limit
)

-- name: first_dues
SELECT
    (SELECT json_group_array((
        SELECT j.due FROM job j INDEXED BY job_due
        WHERE j.topic = e.value AND j.state IS NULL AND j.due > :after
            AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
        ORDER BY j.due LIMIT 1
    )) FROM json_each(:topics) e),
    (SELECT json_group_array(json_array(r.topic, r.claim, r.attempt, r.begun, r.lease, r.max_attempts, r.backoff, j.due))
        FROM run r CROSS JOIN job j ON j.id = r.job WHERE r.lease <= :now)

-- name: first_lease
SELECT min(lease) FROM run

-- name: id_of_holder
SELECT id FROM job INDEXED BY job_live_key
WHERE topic = ? AND key = ? AND key IS NOT NULL AND state IS NULL AND passed IS NULL
