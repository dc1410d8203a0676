-- name: open_topic
SELECT id FROM topic WHERE name = ? AND NOT paused

-- name: due_of_topic
SELECT j.id, j.body, j.due, j.due - j.ahead, j.key, j.ttr, j.max_attempts, j.headers, j.claims, j.forgiven,
    CASE WHEN j.claims IS NOT NULL THEN
        (SELECT h.error FROM history h WHERE h.job = j.id AND h.error IS NOT NULL ORDER BY h.claim DESC LIMIT 1)
    END
FROM job j INDEXED BY job_due
WHERE j.topic = ? AND j.state IS NULL AND j.due <= ?
    AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
ORDER BY j.due, j.id
LIMIT ?

-- name: due_among
SELECT j.id, j.body, j.due, j.due - j.ahead, j.key, j.ttr, j.max_attempts, j.headers, j.claims, j.forgiven,
    CASE WHEN j.claims IS NOT NULL THEN
        (SELECT h.error FROM history h WHERE h.job = j.id AND h.error IS NOT NULL ORDER BY h.claim DESC LIMIT 1)
    END
FROM json_each(?) e CROSS JOIN job j ON j.id = e.value
WHERE j.topic = ? AND j.state IS NULL AND j.due <= ?
    AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)

-- name: start
INSERT INTO run (job, claim, attempt, started, lease, max_attempts, backoff, worker)
SELECT j.id, coalesce(j.claims, 0) + 1, coalesce(j.claims, 0) + 1 - coalesce(j.forgiven, 0), :now,
    :now + coalesce(nullif(j.ttr, 0), :ttr), coalesce(nullif(j.max_attempts, 0), :max_attempts),
    CASE WHEN j.claims IS NULL THEN :first
        ELSE coalesce(:backoff ->> (coalesce(j.claims, 0) - coalesce(j.forgiven, 0)), :last) END,
    :worker
FROM json_each(:ids) e CROSS JOIN job j ON j.id = e.value

-- name: worker_id
SELECT id FROM worker WHERE name = ?

-- name: worker_add
INSERT INTO worker (name) VALUES (?) RETURNING id
