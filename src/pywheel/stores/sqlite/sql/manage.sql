-- name: old_of_key
SELECT j.id FROM job j INDEXED BY job_old_key
WHERE j.topic = :topic AND j.key = :key AND j.key IS NOT NULL AND (j.state IS NOT NULL OR j.passed IS NOT NULL)
    AND (j.state IS NOT NULL OR EXISTS (SELECT 1 FROM run r WHERE r.job = j.id AND r.lease <= :now))
ORDER BY j.id DESC LIMIT 20

-- name: job_state
SELECT j.state, j.due, coalesce(j.claims, 0), j.topic, j.key, EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
FROM job j WHERE j.id = ? AND j.topic <> 0

-- name: cancel
UPDATE job SET state = 1, claims = coalesce(claims, 0) + 1, forgiven = coalesce(forgiven, 0) + 1 WHERE id = ?

-- name: record_cancelled
INSERT INTO history (job, claim, attempt, ended, outcome, topic) VALUES (?, ?, 0, ?, 1, ?)

-- name: cancellable
SELECT j.id, j.topic, EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
FROM json_each(?) e CROSS JOIN job j ON j.id = e.value
WHERE j.state IS NULL AND j.topic <> 0

-- name: cancel_all
UPDATE job SET state = 1, claims = coalesce(claims, 0) + 1, forgiven = coalesce(forgiven, 0) + 1
WHERE id IN (SELECT value FROM json_each(?))

-- name: record_all_cancelled
INSERT INTO history (job, claim, attempt, ended, outcome, topic)
SELECT j.id, j.claims, 0, ?, 1, j.topic FROM json_each(?) e CROSS JOIN job j ON j.id = e.value

-- name: reschedule
UPDATE job SET due = :due, ahead = ahead + :due - due WHERE id = :id

-- name: retry
UPDATE job SET state = NULL, due = :due, ahead = ahead + :due - due, forgiven = claims, lost = NULL, passed = NULL
WHERE id = :id

-- name: rewrite
UPDATE job SET body = ? WHERE id = ? AND body = ? AND topic <> 0

-- name: rewrite_result
UPDATE history SET result = ? WHERE job = ? AND claim = ? AND result = ?

-- name: keep_history
UPDATE history SET topic = NULL, result = NULL WHERE job = ? AND topic IS NOT NULL

-- name: pause
UPDATE topic SET paused = :paused WHERE id = :topic AND paused <> :paused

-- name: purgeable
SELECT json_group_array(job), json_group_array(topic) FROM (
    SELECT h.job, h.topic
    FROM topic t CROSS JOIN history h INDEXED BY history_ended ON h.topic = t.id
        CROSS JOIN job j ON j.id = h.job
    WHERE (:topic IS NULL OR t.id = :topic) AND h.topic IS NOT NULL AND h.outcome = :state AND h.ended <= :until
        AND j.state = :state
    LIMIT :limit
)

-- name: purgeable_dead
SELECT json_group_array(job), json_group_array(topic) FROM (
    SELECT j.id AS job, j.topic
    FROM topic t CROSS JOIN job j INDEXED BY job_finished ON j.topic = t.id
    WHERE (:topic IS NULL OR t.id = :topic) AND j.state = :state AND likely(j.state >= 1)
        AND (SELECT h.ended FROM history h WHERE h.job = j.id ORDER BY h.claim DESC LIMIT 1) <= :until
    LIMIT :limit
)

-- name: forget
DELETE FROM job WHERE id IN (SELECT value FROM json_each(?)) AND id <> (SELECT max(id) FROM job)

-- name: forget_history
DELETE FROM history WHERE job IN (SELECT value FROM json_each(?))

-- name: make_ghost
UPDATE job SET topic = 0, state = 3, key = NULL, headers = NULL, body = x'' WHERE id IN (SELECT value FROM json_each(?))

-- name: drop_ghosts
DELETE FROM job WHERE topic = 0 AND state = 3 AND state >= 1 AND id <> (SELECT max(id) FROM job)
