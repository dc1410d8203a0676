-- name: begin
SELECT {now}, pg_current_xact_id()::text, pg_postmaster_start_time()::text

-- name: topics_of
SELECT id, name, paused, {lanes} FROM {p}topic WHERE name = ANY(%(names)s)

-- In one order, as topics that are paused are written too.
-- name: topics_to_pause
SELECT id, name, paused, {lanes} FROM {p}topic WHERE name = ANY(%(names)s) ORDER BY id FOR UPDATE

-- name: all_topics
SELECT id, name FROM {p}topic

-- name: holders
SELECT n.place, k.job FROM unnest(%(topics)s::int[], %(keys)s::text[]) WITH ORDINALITY AS n (topic, key, place)
JOIN {p}live_key k ON k.topic = n.topic AND k.key = n.key

-- name: named
SELECT k.job FROM unnest(%(topics)s::int[], %(keys)s::text[]) AS n (topic, key) CROSS JOIN LATERAL (
    SELECT j.id AS job FROM {p}job j WHERE j.key = n.key AND j.topic = n.topic ORDER BY j.id DESC LIMIT 20
) k

-- Locks are taken table by table, by id, in the same order by everybody. Of what may be claimed the job is read after its row was
-- locked, by OFFSET 0. One with an xmax may have been changed between the snapshot and the lock, and is read again: `_current`.
-- name: lock_due
SELECT j.id, j.topic, j.created, j.key, j.ttr, j.max_attempts, j.headers, length(j.body),
    CASE WHEN d.body AND length(j.body) <= 65536 THEN j.body END,
    d.due, d.claims, d.forgiven, d.lost, d.passed, d.error, l.priority, j.xmax <> 0
FROM (
    SELECT d.*, w.body FROM unnest(%(ids)s::bigint[], %(bodies)s::boolean[]) AS w (id, body)
    JOIN {p}job j ON j.id = w.id JOIN {p}due d ON d.topic = j.topic AND d.id = j.id ORDER BY d.topic, d.id FOR UPDATE OF d
) d CROSS JOIN LATERAL (SELECT *, xmax FROM {p}job WHERE id = d.id OFFSET 0) j LEFT JOIN {p}lane l ON l.id = j.id

-- name: lock_run
SELECT j.id, j.topic, j.created, j.key, j.ttr, j.max_attempts, j.headers, length(j.body),
    CASE WHEN r.body AND length(j.body) <= 65536 THEN j.body END,
    r.due, r.claims, r.forgiven, r.lost, r.passed, r.error, l.priority,
    r.attempt, r.begun, r.started, r.lease, r.max_attempts, r.backoff, r.worker, j.xmax <> 0
FROM (
    SELECT r.*, w.body FROM unnest(%(ids)s::bigint[], %(bodies)s::boolean[]) AS w (id, body) JOIN {p}run r ON r.id = w.id
    WHERE {lost} ORDER BY r.id FOR UPDATE OF r
) r CROSS JOIN LATERAL (SELECT *, xmax FROM {p}job WHERE id = r.id OFFSET 0) j LEFT JOIN {p}lane l ON l.id = j.id

-- name: lock_finished
SELECT j.id, j.topic, j.created, j.key, j.ttr, j.max_attempts, j.headers, length(j.body), NULL::bytea,
    f.due, f.claims, f.forgiven, f.lost, f.passed, f.error, l.priority,
    f.attempt, f.started, f.worker, f.state, f.outcome, f.ended, f.silent
FROM unnest(%(ids)s::bigint[]) AS w (id)
JOIN {p}job j ON j.id = w.id JOIN {p}finished f ON f.topic = j.topic AND f.state IN (0, 1, 2) AND f.id = j.id
LEFT JOIN {p}lane l ON l.id = j.id
ORDER BY f.topic, f.state, f.id FOR UPDATE OF f

-- name: lock_due_of_topic
SELECT j.id, j.topic, j.created, j.key, j.ttr, j.max_attempts, j.headers, length(j.body),
    CASE WHEN length(j.body) <= 65536 THEN j.body END,
    d.due, d.claims, d.forgiven, d.lost, d.passed, d.error, l.priority, j.xmax <> 0
FROM (
    SELECT * FROM {p}due d WHERE topic = %(topic)s AND due <= {now} AND {lane}
    ORDER BY due, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
) d CROSS JOIN LATERAL (SELECT *, xmax FROM {p}job WHERE id = d.id OFFSET 0) j LEFT JOIN {p}lane l ON l.id = j.id

-- name: lock_due_of_lane
SELECT j.id, j.topic, j.created, j.key, j.ttr, j.max_attempts, j.headers, length(j.body),
    CASE WHEN length(j.body) <= 65536 THEN j.body END,
    d.due, d.claims, d.forgiven, d.lost, d.passed, d.error, l.priority, j.xmax <> 0
FROM (
    SELECT d.* FROM {p}lane l JOIN {p}due d ON d.topic = l.topic AND d.id = l.id AND d.due = l.due
    WHERE l.topic = %(topic)s AND l.priority = %(priority)s AND l.due <= {now}
    ORDER BY l.due, l.id LIMIT %(limit)s FOR UPDATE OF d SKIP LOCKED
) d CROSS JOIN LATERAL (SELECT *, xmax FROM {p}job WHERE id = d.id OFFSET 0) j LEFT JOIN {p}lane l ON l.id = j.id

-- name: running_of
SELECT r.topic, r.id, j.key FROM {p}run r JOIN {p}job j ON j.id = r.id
WHERE r.topic = ANY(%(topics)s::int[]) AND r.lease > {now}

-- name: lock_lost
SELECT j.id, j.topic, j.created, j.key, j.ttr, j.max_attempts, j.headers, length(j.body),
    CASE WHEN j.topic = ANY(%(topics)s::int[]) AND length(j.body) <= 65536 THEN j.body END,
    r.due, r.claims, r.forgiven, r.lost, r.passed, r.error, l.priority,
    r.attempt, r.begun, r.started, r.lease, r.max_attempts, r.backoff, r.worker, j.xmax <> 0
FROM (
    SELECT * FROM {p}run WHERE lease <= {now} ORDER BY lease LIMIT %(limit)s FOR UPDATE SKIP LOCKED
) r CROSS JOIN LATERAL (SELECT *, xmax FROM {p}job WHERE id = r.id OFFSET 0) j LEFT JOIN {p}lane l ON l.id = j.id

-- name: next_leases
SELECT id, lease FROM {p}run WHERE lease > {now} ORDER BY lease LIMIT %(limit)s

-- name: lock_old
SELECT j.id, j.topic, j.created, j.key, j.ttr, j.max_attempts, j.headers, length(j.body), NULL::bytea,
    f.due, f.claims, f.forgiven, f.lost, f.passed, f.error, l.priority,
    f.attempt, f.started, f.worker, f.state, f.outcome, f.ended, f.silent
FROM {p}finished f JOIN {p}job j ON j.id = f.id LEFT JOIN {p}lane l ON l.id = j.id
WHERE f.state = %(state)s AND f.ended <= {now} - %(age)s AND (%(topic)s::int IS NULL OR f.topic = %(topic)s::int)
ORDER BY f.ended LIMIT %(limit)s FOR UPDATE OF f SKIP LOCKED

-- name: bodies
SELECT id, body FROM {p}job WHERE id = ANY(%(ids)s::bigint[])

-- name: results
SELECT j.id, (SELECT f.result FROM {p}finished f WHERE f.topic = j.topic AND f.state = 0 AND f.id = j.id) AS result
FROM unnest(%(ids)s::bigint[]) AS w (id) JOIN {p}job j ON j.id = w.id

-- name: topic_add
INSERT INTO {p}topic (name) SELECT name FROM unnest(%(names)s::text[]) AS n (name) ORDER BY name
ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id, name

-- name: nonces
SELECT nonce, at, ids FROM {p}nonce WHERE nonce = ANY(%(nonces)s)

-- name: lock_notes
SELECT name, value, until FROM {p}note WHERE name = ANY(%(names)s::bytea[]) ORDER BY name FOR UPDATE

-- Nothing is locked by these: under a limit they say whether there is anything to be locked.
-- name: see_notes
SELECT name, value, until FROM {p}note WHERE name = ANY(%(names)s::bytea[])

-- name: lapsed
SELECT id FROM {p}run WHERE id = ANY(%(ids)s::bigint[]) AND lease <= {now}

-- name: waiting
SELECT d.id, d.topic, d.due, j.key, d.lost, length(j.body), l.priority
FROM unnest(%(ids)s::bigint[]) AS w (id)
JOIN {p}job j ON j.id = w.id JOIN {p}due d ON d.topic = j.topic AND d.id = j.id LEFT JOIN {p}lane l ON l.id = j.id
