-- name: runs_among
SELECT r.job, r.topic, r.claim, r.attempt, r.begun, r.lease, r.max_attempts, r.backoff, j.due
FROM json_each(?) e CROSS JOIN run r ON r.job = e.value CROSS JOIN job j ON j.id = r.job

-- name: run_of
SELECT r.job, r.topic, r.claim, r.attempt, r.begun, r.lease, r.max_attempts, r.backoff, j.due
FROM run r CROSS JOIN job j ON j.id = r.job WHERE r.job = ?

-- name: runs_over
SELECT r.job, r.topic, r.claim, r.attempt, r.begun, r.lease, r.max_attempts, r.backoff, j.due
FROM run r CROSS JOIN job j ON j.id = r.job WHERE r.lease <= ? ORDER BY r.lease LIMIT ?

-- name: next_lease
SELECT min(lease) FROM run WHERE lease > ?

-- name: held_among
SELECT json_group_array(r.job), json_group_array(r.claim), json_group_array(r.topic)
FROM json_each(?) e CROSS JOIN run r ON r.job = e.value WHERE r.lease > ?

-- name: record_done
INSERT INTO history (job, claim, attempt, started, ended, outcome, worker, topic)
SELECT r.job, r.claim, r.attempt, r.started, ?, 0, r.worker, r.topic FROM json_each(?) e CROSS JOIN run r ON r.job = e.value

-- name: keep_result
UPDATE history SET result = ? WHERE job = ? AND claim = ?

-- name: finish_done
UPDATE job SET state = 0, claims = r.claim, lost = NULL
FROM json_each(?) e CROSS JOIN run r ON r.job = e.value WHERE job.id = r.job

-- name: end_runs
DELETE FROM run WHERE job IN (SELECT value FROM json_each(?))

-- The rows of these: job, ended, outcome, error, state, due, unspent, lost.
-- name: record_ended
INSERT INTO history (job, claim, attempt, started, ended, outcome, worker, error, topic)
SELECT r.job, r.claim, r.attempt, r.started, e.value ->> 1, e.value ->> 2, r.worker, e.value ->> 3,
    CASE WHEN e.value ->> 4 IS NOT NULL THEN r.topic END
FROM json_each(?) e CROSS JOIN run r ON r.job = e.value ->> 0

-- name: end_claims
UPDATE job SET
    state = e.value ->> 4,
    due = coalesce(e.value ->> 5, due),
    ahead = ahead + coalesce(e.value ->> 5, due) - due,
    claims = r.claim,
    forgiven = CASE WHEN e.value ->> 6 THEN coalesce(forgiven, 0) + 1 ELSE forgiven END,
    lost = e.value ->> 7
FROM json_each(?) e CROSS JOIN run r ON r.job = e.value ->> 0 WHERE job.id = r.job

-- name: end_runs_of
DELETE FROM run WHERE job IN (SELECT value ->> 0 FROM json_each(?))

-- name: lease
UPDATE run SET lease = e.value ->> 1 FROM json_each(?) e WHERE run.job = e.value ->> 0

-- name: begin
UPDATE run SET lease = e.value ->> 1, begun = 1 FROM json_each(?) e WHERE run.job = e.value ->> 0

-- name: lease_one
UPDATE run SET lease = ? WHERE job = ?

-- name: begin_one
UPDATE run SET lease = ?, begun = 1 WHERE job = ?
