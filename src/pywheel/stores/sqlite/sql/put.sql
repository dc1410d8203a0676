-- name: topic_id
SELECT id FROM topic WHERE name = ?

-- name: lanes_add
UPDATE topic SET lanes = lanes | :lanes WHERE id = :topic AND lanes & :lanes <> :lanes

-- name: topic_add
INSERT INTO topic (name) VALUES (?) RETURNING id

-- name: put
INSERT INTO job (topic, due, ahead, ttr, max_attempts, key, headers, body, priority) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: put_plain
INSERT INTO job (topic, due, ahead, body) VALUES (?, ?, ?, ?)

-- name: import
INSERT INTO job (topic, due, ahead, state, claims, forgiven, lost, passed, ttr, max_attempts, key, headers, body, priority)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: import_attempt
INSERT INTO history (job, claim, attempt, started, ended, outcome, worker, error, topic) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: key_holders
SELECT n.column1, j.id, j.due, r.claim, r.lease
FROM (VALUES (?, ?, ?)) n CROSS JOIN job j INDEXED BY job_live_key ON j.topic = n.column2 AND j.key = n.column3
    LEFT JOIN run r ON r.job = j.id
WHERE j.key IS NOT NULL AND j.state IS NULL AND j.passed IS NULL

-- name: key_holder
SELECT j.id FROM job j INDEXED BY job_live_key
WHERE j.topic = ? AND j.key = ? AND j.key IS NOT NULL AND j.state IS NULL AND j.passed IS NULL

-- One of the last that had a key, if it ended after a time.
-- name: ended_lately
SELECT h.job, h.ended FROM (
    SELECT id, claims FROM job INDEXED BY job_old_key
    WHERE topic = :topic AND key = :key AND key IS NOT NULL AND (state IS NOT NULL OR passed IS NOT NULL) AND state IS NOT NULL
    ORDER BY id DESC LIMIT 20
) j CROSS JOIN history h ON h.job = j.id AND h.claim = j.claims WHERE h.ended > :since LIMIT 1

-- name: pass_key
UPDATE job SET passed = 1 WHERE id = ?

-- name: replace
UPDATE job SET due = :due, ahead = ahead + :due - due, ttr = :ttr, max_attempts = :max_attempts, headers = :headers, body = :body,
    priority = :priority
WHERE id = :id

-- name: nonce_ids
SELECT ids FROM nonce WHERE nonce = ?

-- name: nonce_add
INSERT INTO nonce (nonce, at, ids) VALUES (?, ?, ?)

-- name: nonces_forget
DELETE FROM nonce WHERE id IN (SELECT id FROM nonce ORDER BY id LIMIT ?) AND at <= ?

-- name: count_tail
SELECT topic, count(*) FROM job WHERE id > (SELECT job FROM counted) AND id < ? AND topic <> 0 GROUP BY topic

-- name: count
UPDATE topic SET live = live + ?, done = done + ?, cancelled = cancelled + ?, dead = dead + ? WHERE id = ?

-- name: counted
UPDATE counted SET job = (SELECT max(id) FROM job) WHERE job <> (SELECT max(id) FROM job)
