-- name: delete_due
DELETE FROM {p}due d USING unnest(%(topics)s::int[], %(ids)s::bigint[]) AS w (topic, id) WHERE d.topic = w.topic AND d.id = w.id

-- name: delete_run
DELETE FROM {p}run r USING unnest(%(ids)s::bigint[]) AS w (id) WHERE r.id = w.id

-- name: delete_finished
DELETE FROM {p}finished f USING unnest(%(topics)s::int[], %(states)s::smallint[], %(ids)s::bigint[]) AS w (topic, state, id)
WHERE f.topic = w.topic AND f.state = w.state AND f.id = w.id

-- name: insert_due
INSERT INTO {p}due (topic, id, due, claims, forgiven, lost, passed, error)
SELECT * FROM unnest(%s::int[], %s::bigint[], %s::bigint[], %s::int[], %s::int[], %s::smallint[], %s::boolean[], %s::text[])

-- name: insert_run
INSERT INTO {p}run (topic, id, due, claims, forgiven, lost, passed, error, attempt, begun, started, lease, max_attempts, backoff,
    worker)
SELECT * FROM unnest(%s::int[], %s::bigint[], %s::bigint[], %s::int[], %s::int[], %s::smallint[], %s::boolean[], %s::text[],
    %s::int[], %s::boolean[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[])

-- name: insert_finished
INSERT INTO {p}finished (topic, id, due, claims, forgiven, lost, passed, error, attempt, started, worker, state, outcome, ended,
    silent)
SELECT * FROM unnest(%s::int[], %s::bigint[], %s::bigint[], %s::int[], %s::int[], %s::smallint[], %s::boolean[], %s::text[],
    %s::int[], %s::bigint[], %s::text[], %s::smallint[], %s::smallint[], %s::bigint[], %s::boolean[])

-- name: update_due
UPDATE {p}due d SET due = w.due, claims = w.claims, forgiven = w.forgiven, lost = w.lost, passed = w.passed, error = w.error
FROM unnest(%s::int[], %s::bigint[], %s::bigint[], %s::int[], %s::int[], %s::smallint[], %s::boolean[], %s::text[])
    AS w (topic, id, due, claims, forgiven, lost, passed, error)
WHERE d.topic = w.topic AND d.id = w.id

-- name: update_run
UPDATE {p}run r SET due = w.due, claims = w.claims, forgiven = w.forgiven, lost = w.lost, passed = w.passed, error = w.error,
    attempt = w.attempt, begun = w.begun, started = w.started, lease = w.lease, max_attempts = w.max_attempts,
    backoff = w.backoff, worker = w.worker
FROM unnest(%s::int[], %s::bigint[], %s::bigint[], %s::int[], %s::int[], %s::smallint[], %s::boolean[], %s::text[],
    %s::int[], %s::boolean[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[])
    AS w (topic, id, due, claims, forgiven, lost, passed, error, attempt, begun, started, lease, max_attempts, backoff, worker)
WHERE r.id = w.id

-- name: insert_job
INSERT INTO {p}job (id, topic, created, key, ttr, max_attempts, headers, body)
SELECT * FROM unnest(%s::bigint[], %s::int[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::text[], %s::bytea[])

-- name: replace_job
UPDATE {p}job j SET ttr = w.ttr, max_attempts = w.max_attempts, headers = w.headers, body = w.body
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::bytea[]) AS w (id, ttr, max_attempts, headers, body)
WHERE j.id = w.id

-- name: delete_job
DELETE FROM {p}job j USING unnest(%(ids)s::bigint[]) AS w (id) WHERE j.id = w.id

-- name: delete_history
DELETE FROM {p}history h USING unnest(%(ids)s::bigint[]) AS w (id) WHERE h.job = w.id

-- name: insert_history
INSERT INTO {p}history (job, claim, attempt, started, ended, outcome, worker, error)
SELECT * FROM unnest(%s::bigint[], %s::int[], %s::int[], %s::bigint[], %s::bigint[], %s::smallint[], %s::text[], %s::text[])

-- name: delete_key
DELETE FROM {p}live_key k USING unnest(%s::int[], %s::text[]) AS w (topic, key) WHERE k.topic = w.topic AND k.key = w.key

-- name: insert_result
UPDATE {p}finished f SET result = w.result FROM unnest(%s::int[], %s::bigint[], %s::bytea[]) AS w (topic, id, result)
WHERE f.topic = w.topic AND f.state = 0 AND f.id = w.id

-- After the key was taken: it is taken a second time, which is a conflict, if one that had it ended since a moment.
-- name: insert_deduped
INSERT INTO {p}live_key (topic, key, job)
SELECT w.topic, w.key, w.job FROM unnest(%s::int[], %s::text[], %s::bigint[], %s::bigint[]) AS w (topic, key, job, since)
WHERE EXISTS (
    SELECT FROM (SELECT id FROM {p}job WHERE key = w.key AND topic = w.topic ORDER BY id DESC LIMIT 21) j
    WHERE coalesce(
        (SELECT f.ended FROM {p}finished f WHERE f.topic = w.topic AND f.state = 0 AND f.id = j.id),
        (SELECT f.ended FROM {p}finished f WHERE f.topic = w.topic AND f.state = 1 AND f.id = j.id),
        (SELECT f.ended FROM {p}finished f WHERE f.topic = w.topic AND f.state = 2 AND f.id = j.id)
    ) > w.since
)

-- name: insert_key
INSERT INTO {p}live_key (topic, key, job) SELECT * FROM unnest(%s::int[], %s::text[], %s::bigint[])

-- name: insert_count
INSERT INTO {p}count (topic, live, done, dead, cancelled)
SELECT * FROM unnest(%s::int[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])

-- name: pause
UPDATE {p}topic t SET paused = w.paused, stirred = nextval('{p}stir')
FROM unnest(%s::int[], %s::boolean[]) AS w (id, paused) WHERE t.id = w.id

-- name: insert_priority
INSERT INTO {p}priority (topic, priority) SELECT * FROM unnest(%s::int[], %s::smallint[]) ON CONFLICT DO NOTHING

-- name: set_lane
INSERT INTO {p}lane (id, topic, priority, due) SELECT * FROM unnest(%s::bigint[], %s::int[], %s::smallint[], %s::bigint[])
ON CONFLICT (id) DO UPDATE SET priority = excluded.priority, due = excluded.due

-- name: delete_lane
DELETE FROM {p}lane WHERE id = ANY(%(ids)s::bigint[])

-- name: announce
INSERT INTO {p}worker (name, topics, beat) VALUES (%(worker)s, %(topics)s, {now})
ON CONFLICT (name) DO UPDATE SET topics = excluded.topics

-- Some of what is in the counts, in fewer rows; what others count now stays.
-- name: fold
WITH part AS (
    DELETE FROM {p}count WHERE ctid = ANY(ARRAY(SELECT ctid FROM {p}count LIMIT 2000 FOR UPDATE SKIP LOCKED))
    RETURNING topic, live, done, dead, cancelled
)
INSERT INTO {p}count (topic, live, done, dead, cancelled)
SELECT topic, sum(live), sum(done), sum(dead), sum(cancelled) FROM part GROUP BY topic

-- name: insert_nonce
INSERT INTO {p}nonce (nonce, at, ids) SELECT * FROM unnest(%s::text[], %s::bigint[], %s::text[])

-- name: forget_nonces
DELETE FROM {p}nonce WHERE nonce IN (
    SELECT nonce FROM {p}nonce WHERE at <= {now} - %(kept)s ORDER BY at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)

-- name: insert_note
INSERT INTO {p}note (name, value, until) SELECT * FROM unnest(%s::bytea[], %s::bytea[], %s::bigint[])

-- name: update_note
UPDATE {p}note n SET value = w.value, until = w.until
FROM unnest(%s::bytea[], %s::bytea[], %s::bigint[]) AS w (name, value, until) WHERE n.name = w.name

-- name: delete_notes
DELETE FROM {p}note WHERE name = ANY(%(names)s::bytea[])

-- name: forget_notes
DELETE FROM {p}note WHERE name IN (
    SELECT name FROM {p}note WHERE until <= {now} ORDER BY until LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
