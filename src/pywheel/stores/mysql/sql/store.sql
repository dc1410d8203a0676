-- name: take_ids
UPDATE {p}number SET value = last_insert_id(value + %(count)s) WHERE name = 'id'

-- name: request
INSERT INTO {p}request (client, number, at) VALUES (%(client)s, %(number)s, {now})

-- Waits for a transaction that is under way; one that has not happened never will, and the second row says so.
-- name: bar_request
INSERT INTO {p}request (client, number, at) VALUES (%(client)s, %(number)s, {now}), (%(client)s, -%(number)s, {now})

-- name: barred
SELECT 1 FROM {p}request WHERE client = %(client)s AND number = -%(number)s

-- name: forget_requests
DELETE FROM {p}request WHERE client = %(client)s AND number < %(number)s

-- name: forget_old_requests
DELETE FROM {p}request WHERE at < {now} - %(age)s LIMIT 10000

-- name: put_due
INSERT INTO {p}due (topic, id, due) VALUES %(rows)s

-- name: put_count
INSERT INTO {p}count (topic, live) VALUES %(rows)s

-- name: delete_due
DELETE d FROM {ids} STRAIGHT_JOIN {p}due d FORCE INDEX (PRIMARY) ON d.topic = %(topic)s AND d.id = w.id

-- name: delete_run
DELETE r FROM {ids} STRAIGHT_JOIN {p}run r FORCE INDEX (PRIMARY) ON r.id = w.id

-- name: delete_finished
DELETE f FROM {ids}
STRAIGHT_JOIN {p}finished f FORCE INDEX (PRIMARY) ON f.topic = %(topic)s AND f.state = %(state)s AND f.id = w.id

-- name: insert_due
INSERT INTO {p}due (topic, id, due, claims, forgiven, lost, passed, error) VALUES %(rows)s

-- name: insert_run
INSERT INTO {p}run (topic, id, due, claims, forgiven, lost, passed, error, attempt, begun, started, lease, max_attempts, backoff,
    worker) VALUES %(rows)s

-- name: insert_finished
INSERT INTO {p}finished (topic, id, due, claims, forgiven, lost, passed, error, attempt, started, worker, state, outcome, ended,
    silent) VALUES %(rows)s

-- There is such a row, and it is locked. MySQL calls values() deprecated, and MariaDB has nothing else.
-- name: update_due
INSERT INTO {p}due (topic, id, due, claims, forgiven, lost, passed, error) VALUES %(rows)s
ON DUPLICATE KEY UPDATE due = values(due), claims = values(claims), forgiven = values(forgiven), lost = values(lost),
    passed = values(passed), error = values(error)

-- name: update_run
INSERT INTO {p}run (topic, id, due, claims, forgiven, lost, passed, error, attempt, begun, started, lease, max_attempts, backoff,
    worker) VALUES %(rows)s
ON DUPLICATE KEY UPDATE due = values(due), claims = values(claims), forgiven = values(forgiven), lost = values(lost),
    passed = values(passed), error = values(error), attempt = values(attempt), begun = values(begun), started = values(started),
    lease = values(lease), max_attempts = values(max_attempts), backoff = values(backoff), worker = values(worker)

-- name: insert_job
INSERT INTO {p}job (id, topic, created, hash, name, ttr, max_attempts, headers, body) VALUES %(rows)s

-- name: insert_name
INSERT INTO {p}name (hash, topic, id) VALUES %(rows)s

-- name: replace_job
UPDATE {p}job SET ttr = %(ttr)s, max_attempts = %(max_attempts)s, headers = %(headers)s, body = %(body)s WHERE id = %(id)s

-- name: delete_name
DELETE n FROM {ids} STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = w.id
STRAIGHT_JOIN {p}name n FORCE INDEX (PRIMARY) ON n.hash = j.hash AND n.topic = j.topic AND n.id = j.id

-- name: delete_job
DELETE j FROM {ids} STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = w.id

-- name: delete_history
DELETE h FROM {ids} STRAIGHT_JOIN {p}history h FORCE INDEX (PRIMARY) ON h.job = w.id

-- name: insert_history
INSERT INTO {p}history (job, claim, attempt, started, ended, outcome, worker, error) VALUES %(rows)s

-- name: delete_key
DELETE k FROM {hashes} STRAIGHT_JOIN {p}live_key k FORCE INDEX (PRIMARY) ON k.topic = %(topic)s AND k.hash = w.hash

-- After the key was taken: it is taken a second time, which is a conflict, if one that had it ended since a moment.
-- name: insert_deduped
INSERT INTO {p}live_key (topic, hash, job)
SELECT %(topic)s, %(hash)s, %(job)s FROM (
    SELECT id FROM {p}name WHERE hash = %(hash)s AND topic = %(topic)s ORDER BY id DESC LIMIT 21
) n STRAIGHT_JOIN (SELECT 0 AS state UNION ALL SELECT 1 UNION ALL SELECT 2) s
STRAIGHT_JOIN {p}finished f FORCE INDEX (PRIMARY) ON f.topic = %(topic)s AND f.state = s.state AND f.id = n.id
WHERE f.ended > %(since)s LIMIT 1

-- name: insert_key
INSERT INTO {p}live_key (topic, hash, job) VALUES %(rows)s

-- name: insert_count
INSERT INTO {p}count (topic, live, done, dead, cancelled) VALUES %(rows)s

-- name: stir
UPDATE {p}number SET value = last_insert_id(value + 1) WHERE name = 'stir'

-- name: pause
UPDATE {p}topic SET paused = %(paused)s, stirred = last_insert_id() WHERE id = %(topic)s

-- name: insert_priority
INSERT IGNORE INTO {p}priority (topic, priority) VALUES %(rows)s

-- name: set_lane
INSERT INTO {p}lane (id, topic, priority, due) VALUES %(rows)s
ON DUPLICATE KEY UPDATE priority = values(priority), due = values(due)

-- name: delete_lane
DELETE l FROM {ids} STRAIGHT_JOIN {p}lane l FORCE INDEX (PRIMARY) ON l.id = w.id

-- name: announce
INSERT INTO {p}worker (hash, name, topics, beat) VALUES (%(hash)s, %(name)s, %(topics)s, {now})
ON DUPLICATE KEY UPDATE topics = values(topics)

-- Some of what is in the counts, to be put there in fewer rows; what others count now stays.
-- name: fold
SELECT seq, topic, live, done, dead, cancelled FROM {p}count ORDER BY seq LIMIT 2000 FOR UPDATE SKIP LOCKED

-- name: delete_count
DELETE c FROM {ids} STRAIGHT_JOIN {p}count c FORCE INDEX (PRIMARY) ON c.seq = w.id

-- name: insert_nonce
INSERT INTO {p}nonce (hash, nonce, at, ids) VALUES %(rows)s

-- name: old_nonces
SELECT hash FROM {p}nonce WHERE at <= {now} - %(kept)s ORDER BY at LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: forget_nonces
DELETE FROM {p}nonce WHERE hash IN (%(hashes)s)

-- name: insert_note
INSERT INTO {p}note (name, value, until) VALUES %(rows)s

-- name: update_note
INSERT INTO {p}note (name, value, until) VALUES %(rows)s
ON DUPLICATE KEY UPDATE value = values(value), until = values(until)

-- name: delete_notes
DELETE FROM {p}note WHERE name IN (%(names)s)

-- name: old_notes
SELECT name FROM {p}note WHERE until <= {now} ORDER BY until LIMIT %(limit)s FOR UPDATE SKIP LOCKED
