-- name: get
SELECT j.id, t.name, j.body, j.due, j.due - j.ahead, j.state, j.key, j.ttr, j.max_attempts, j.headers, j.claims,
    j.forgiven, r.claim, r.attempt, r.lease, r.max_attempts, r.backoff,
    (SELECT h.error FROM history h WHERE h.job = j.id AND h.error IS NOT NULL ORDER BY h.claim DESC LIMIT 1)
FROM job j JOIN topic t ON t.id = j.topic LEFT JOIN run r ON r.job = j.id
WHERE j.id = ?

-- name: ids
SELECT id FROM job WHERE id > ? ORDER BY id LIMIT ?

-- name: ids_of_topic
SELECT id FROM job WHERE id > ? AND topic = ? ORDER BY id LIMIT ?

-- name: ids_live
SELECT id FROM job NOT INDEXED WHERE id > ? AND topic = ? AND state IS NULL ORDER BY id LIMIT ?

-- name: ids_finished
SELECT id FROM job INDEXED BY job_finished WHERE id > ? AND topic = ? AND state = ? ORDER BY id LIMIT ?

-- name: ids_running
SELECT j.id FROM run r CROSS JOIN job j ON j.id = r.job WHERE j.id > ? AND j.topic = ? ORDER BY j.id LIMIT ?

-- name: count_live
SELECT topic, count(*) FROM job INDEXED BY job_due WHERE state IS NULL GROUP BY topic

-- name: count_finished
SELECT topic, state, count(*) FROM job INDEXED BY job_finished WHERE state IS NOT NULL GROUP BY topic, state

-- name: count_running
SELECT j.topic, r.lease <= :now AS over, r.attempt >= r.max_attempts AS spent, count(*)
FROM run r CROSS JOIN job j ON j.id = r.job GROUP BY 1, 2, 3

-- name: topics
SELECT id, name, paused FROM topic ORDER BY name

-- name: history
SELECT h.claim, h.attempt, h.started, h.ended, h.outcome, w.name, h.error
FROM history h LEFT JOIN worker w ON w.id = h.worker WHERE h.job = ? ORDER BY h.claim

-- name: running_attempt
SELECT r.claim, r.attempt, r.started, NULL, NULL, w.name, NULL
FROM run r LEFT JOIN worker w ON w.id = r.worker WHERE r.job = ?

-- name: first_due
SELECT j.due FROM topic t CROSS JOIN job j INDEXED BY job_due ON j.topic = t.id
WHERE t.name = ? AND j.state IS NULL AND j.due > ? AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
ORDER BY j.due LIMIT 1

-- name: first_lease
SELECT min(lease + backoff) FROM run WHERE attempt < max_attempts

-- name: window
SELECT json_group_array(due), json_group_array(id) FROM (
    SELECT j.due, j.id FROM topic t CROSS JOIN job j INDEXED BY job_due ON j.topic = t.id
    WHERE t.name = :topic AND NOT t.paused AND j.state IS NULL
        AND j.due >= :after AND (j.due > :after OR j.id > :id) AND j.due <= :until
        AND (:shards >> (j.id % 16)) & 1
        AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
    ORDER BY j.due, j.id
    LIMIT :limit
)

-- name: hint_cursor
SELECT coalesce(max(seq), 0) FROM hint

-- name: hints
SELECT h.seq, h.job, j.due, t.name
FROM hint h LEFT JOIN job j ON j.id = h.job AND j.state IS NULL AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
    LEFT JOIN topic t ON t.id = j.topic
WHERE h.seq > ? ORDER BY h.seq
