-- name: topic_state
SELECT id, paused, lanes FROM topic WHERE name = ?

-- name: due_of_topic
SELECT j.id, j.body, j.due, j.due - j.ahead, j.key, j.ttr, j.max_attempts, j.headers, j.claims, j.forgiven, j.lost,
    CASE WHEN j.claims IS NOT NULL THEN
        (SELECT h.error FROM history h WHERE h.job = j.id AND h.error IS NOT NULL ORDER BY h.claim DESC LIMIT 1)
    END,
    j.priority, NULL
FROM job j INDEXED BY job_due
WHERE j.topic = ? AND j.state IS NULL AND j.due <= ? {lane}
    AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
ORDER BY j.due, j.id
LIMIT ?

-- As one row: between two rows of a result, busy handlers would take the interpreter, in the turn to write. The bodies come
-- behind each other; those that are longer than :small are fetched once it is known which jobs are claimed: `body_of`.
-- name: due_among
SELECT json_group_array(json_array(id, due, created, size, body IS NOT NULL, lease, json(more))),
    CAST(group_concat(body, '') AS BLOB)
FROM (
    SELECT j.id, j.due, j.due - j.ahead AS created, length(j.body) AS size, r.lease,
        CASE WHEN j.due <= :now AND length(j.body) <= :small THEN j.body END AS body,
        CASE WHEN coalesce(j.key, j.ttr, j.max_attempts, j.headers, j.claims, j.forgiven, j.lost, j.priority) IS NOT NULL THEN
            json_array(j.key, j.ttr, j.max_attempts, j.headers, j.claims, j.forgiven, j.lost, CASE WHEN j.claims IS NOT NULL THEN
                (SELECT h.error FROM history h WHERE h.job = j.id AND h.error IS NOT NULL ORDER BY h.claim DESC LIMIT 1)
            END, j.priority)
        END AS more
    FROM json_each(:ids) e CROSS JOIN job j ON j.id = e.value LEFT JOIN run r ON r.job = j.id
    WHERE j.topic = :topic AND j.state IS NULL
)

-- name: body_of
SELECT body FROM job WHERE id = ?

-- The attempt, the lease and the backoff are those of `Terms` and `lifecycle.backoff`; a test compares them.
-- name: start
INSERT INTO run (job, topic, claim, attempt, begun, started, lease, max_attempts, backoff, worker)
SELECT j.id, j.topic, coalesce(j.claims, 0) + 1, coalesce(j.claims, 0) + 1 - coalesce(j.forgiven, 0), e.key < :begun, :now,
    :now + CASE WHEN e.key < :begun THEN coalesce(nullif(j.ttr, 0), :ttr) + :slack ELSE :hold END,
    coalesce(nullif(j.max_attempts, 0), :max_attempts),
    CASE WHEN :backoff = '[]' THEN 0 ELSE max(cast(round(
        CASE WHEN j.claims IS NULL THEN :first
            ELSE coalesce(:backoff ->> (coalesce(j.claims, 0) - coalesce(j.forgiven, 0)), :last) END
        * (1 + :jitter * random() / 9223372036854775808.0)
    ) AS INTEGER), 0) END,
    :worker
FROM json_each(:ids) e CROSS JOIN job j ON j.id = e.value

-- name: keys_running
SELECT j.key FROM run r CROSS JOIN job j ON j.id = r.job WHERE r.topic = ? AND r.lease > ?

-- name: worker_id
SELECT id FROM worker WHERE name = ?

-- name: worker_add
INSERT INTO worker (name) VALUES (?) RETURNING id
