-- name: topic_id
SELECT id FROM topic WHERE name = ?

-- name: topic_add
INSERT INTO topic (name) VALUES (?) RETURNING id

-- name: put
INSERT INTO job (topic, due, ahead, ttr, max_attempts, key, headers, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: put_plain
INSERT INTO job (topic, due, ahead, body) VALUES (?, ?, ?, ?)

-- name: key_holder
SELECT id FROM job WHERE topic = ? AND key = ? AND state IS NULL

-- name: replace
UPDATE job SET due = :due, ahead = ahead + :due - due, ttr = :ttr, max_attempts = :max_attempts, headers = :headers, body = :body
WHERE id = :id

-- name: hint
INSERT INTO hint (job) VALUES (?)

-- name: last_hint
SELECT last_insert_rowid()

-- name: trim_hints
DELETE FROM hint WHERE seq <= ?
