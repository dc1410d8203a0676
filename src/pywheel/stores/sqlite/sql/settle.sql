-- name: runs_among
SELECT r.job, r.claim, r.attempt, r.started, r.lease, r.max_attempts, r.backoff, r.worker
FROM json_each(?) e CROSS JOIN run r ON r.job = e.value

-- name: run_of
SELECT r.job, r.claim, r.attempt, r.started, r.lease, r.max_attempts, r.backoff, r.worker
FROM run r WHERE r.job = ?

-- name: runs_over
SELECT r.job, r.claim, r.attempt, r.started, r.lease, r.max_attempts, r.backoff, r.worker
FROM run r WHERE r.lease <= ? LIMIT ?

-- name: next_lease
SELECT min(lease) FROM run WHERE lease > ?

-- name: end_run
DELETE FROM run WHERE job = ?

-- name: record
INSERT INTO history (job, claim, attempt, started, ended, outcome, worker, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: record_done
INSERT INTO history (job, claim, attempt, started, ended, outcome, worker)
SELECT r.job, r.claim, r.attempt, r.started, ?, 0, r.worker FROM json_each(?) e CROSS JOIN run r ON r.job = e.value

-- name: finish_done
UPDATE job SET state = 0, claims = r.claim FROM json_each(?) e CROSS JOIN run r ON r.job = e.value WHERE job.id = r.job

-- name: end_runs
DELETE FROM run WHERE job IN (SELECT value FROM json_each(?))

-- name: held_among
SELECT json_group_array(r.job), json_group_array(r.claim)
FROM json_each(?) e CROSS JOIN run r ON r.job = e.value WHERE r.lease > ?

-- name: finish
UPDATE job SET state = ?, claims = ? WHERE id = ?

-- name: again
UPDATE job SET due = :due, ahead = ahead + :due - due, claims = :claims WHERE id = :id

-- name: give_back
UPDATE job SET claims = ?, forgiven = coalesce(forgiven, 0) + 1 WHERE id = ?

-- name: due_of
SELECT due FROM job WHERE id = ?

-- name: topic_of
SELECT t.name FROM job j JOIN topic t ON t.id = j.topic WHERE j.id = ?

-- name: touch
UPDATE run SET lease = ? WHERE job = ?
