-- name: get
SELECT j.id, t.name, j.body, j.due, j.due - j.ahead, j.state, j.key, j.ttr, j.max_attempts, j.headers, j.claims,
    j.forgiven, j.lost, r.claim, r.attempt, r.begun, r.lease, r.max_attempts, r.backoff,
    CASE WHEN j.claims IS NOT NULL THEN
        (SELECT h.error FROM history h WHERE h.job = j.id AND h.error IS NOT NULL ORDER BY h.claim DESC LIMIT 1)
    END AS error, j.priority
FROM json_each(?) e CROSS JOIN job j ON j.id = e.value CROSS JOIN topic t ON t.id = j.topic
    LEFT JOIN run r ON r.job = j.id

-- name: topic_counts
SELECT json_group_array(id), json_group_array(name), json_group_array(live), json_group_array(done), json_group_array(dead),
    json_group_array(cancelled)
FROM (SELECT * FROM topic ORDER BY name)

-- name: topics
SELECT id, name, paused, lanes FROM topic ORDER BY name

-- name: count_running
SELECT topic, 1, 0, 0, count(*) FROM run WHERE lease > :now GROUP BY topic
UNION ALL
SELECT topic, begun, 1, attempt >= max_attempts AS spent, count(*) FROM run WHERE lease <= :now GROUP BY topic, begun, spent

-- name: history
SELECT h.claim, h.attempt, h.started, h.ended, h.outcome, w.name, h.error, h.result
FROM history h LEFT JOIN worker w ON w.id = h.worker WHERE h.job = ? ORDER BY h.claim

-- name: running_attempt
SELECT r.claim, r.attempt, r.started, r.lease, w.name FROM run r LEFT JOIN worker w ON w.id = r.worker WHERE r.job = ?

-- name: states
SELECT json_group_array(json_array(j.id, j.state, r.claim, r.attempt, r.begun, r.lease, r.max_attempts))
FROM json_each(?) e CROSS JOIN job j ON j.id = e.value AND j.topic <> 0 LEFT JOIN run r ON r.job = j.id

-- As one row: between two rows of a result, busy handlers would take the interpreter for milliseconds. A span: topic,
-- shards, due and id after which, due until which, place. Without an ORDER BY the rows come as the loops find them, and
-- the limit ends these. In two parts, as one search for what comes after (due, id) would pass over all that are due with it.
-- name: windows
SELECT * FROM (
    SELECT json_group_array(due), json_group_array(id), json_group_array(span) FROM (
        SELECT j.due, j.id, s.value ->> 5 AS span
        FROM json_each(:within) s CROSS JOIN topic t ON t.id = s.value ->> 0
            CROSS JOIN job j INDEXED BY {index} AND j.due = s.value ->> 2 AND j.id > s.value ->> 3
        WHERE NOT t.paused AND j.state IS NULL AND {lane} AND +j.due <= s.value ->> 4 AND ((s.value ->> 1) >> (j.id & 31)) & 1
            AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
        LIMIT :limit
    )
), (
    SELECT json_group_array(due), json_group_array(id), json_group_array(span) FROM (
        SELECT j.due, j.id, s.value ->> 5 AS span
        FROM json_each(:spans) s CROSS JOIN topic t ON t.id = s.value ->> 0
            CROSS JOIN job j INDEXED BY {index} AND j.due > s.value ->> 2 AND j.due <= s.value ->> 4
        WHERE NOT t.paused AND j.state IS NULL AND {lane} AND ((s.value ->> 1) >> (j.id & 31)) & 1
            AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
        LIMIT :limit
    )
)

-- A span: topic, shards, due after which. Behind :most jobs of other shards it is the due time of the next job,
-- whosesoever that is. The innermost SELECT is read only as far as the first that fits.
-- name: first_dues
SELECT
    (SELECT json_group_array((
        SELECT coalesce(
            (SELECT due FROM (
                SELECT j.due, j.id FROM job j INDEXED BY job_due
                WHERE j.topic = s.value ->> 0 AND j.state IS NULL AND j.due > s.value ->> 2
                    AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
                ORDER BY j.due LIMIT :most
            ) WHERE ((s.value ->> 1) >> (id & 31)) & 1 LIMIT 1),
            (SELECT j.due FROM job j INDEXED BY job_due
                WHERE j.topic = s.value ->> 0 AND j.state IS NULL AND j.due > s.value ->> 2
                    AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
                ORDER BY j.due LIMIT 1 OFFSET :most)
        )
    )) FROM json_each(:spans) s),
    (SELECT json_group_array(json_array(
            r.job, r.topic, r.claim, r.attempt, r.begun, r.lease, r.max_attempts, r.backoff, j.due
        )) FROM run r CROSS JOIN job j ON j.id = r.job WHERE r.lease <= :now)

-- name: id_of_holder
SELECT id FROM job INDEXED BY job_live_key
WHERE topic = ? AND key = ? AND key IS NOT NULL AND state IS NULL AND passed IS NULL

-- name: present
SELECT j.id FROM json_each(?) e CROSS JOIN job j ON j.id = e.value
