-- name: worker_add
INSERT INTO {p}member (name, beat, stopped, pid, began)
SELECT %(name)s, {now}, coalesce((SELECT max(stirred) FROM {p}topic), 0), pid, floor(extract(epoch FROM backend_start) * 1000)
FROM (SELECT pg_backend_pid() AS me) b LEFT JOIN pg_stat_activity a ON a.pid = b.me AND %(listens)s
RETURNING stopped

-- name: worker_remove
WITH h AS (DELETE FROM {p}hint WHERE worker = %(name)s) DELETE FROM {p}member WHERE name = %(name)s

-- All that a worker asks once a second: who is there, when the next lease ends, and when the first job of these topics is due.
-- name: beat
WITH mine AS (UPDATE {p}member SET beat = {now}, behind = %(behind)s WHERE name = %(name)s RETURNING name)
SELECT w.name, w.topics, w.beat, w.horizon, CASE w.name WHEN %(name)s THEN %(behind)s ELSE w.behind END, w.stopped,
    w.pid IS NOT NULL AND NOT EXISTS (  -- when a session of another role began may be hidden
        SELECT 1 FROM pg_stat_activity a
        WHERE a.pid = w.pid AND coalesce(floor(extract(epoch FROM a.backend_start) * 1000) = w.began, true)
    ),
    {now}, (SELECT count(*) FROM mine), (SELECT min(next) FROM {p}job WHERE state = 1),
    (
        SELECT min(j.next) FROM unnest(%(topics)s::text[]) AS n (name) JOIN {p}topic t ON t.name = n.name AND t.paused = 0
        CROSS JOIN LATERAL (
            SELECT (SELECT j.next FROM {p}job j WHERE j.state = 0 AND j.topic = t.id AND j.priority = r.priority ORDER BY j.next LIMIT 1) AS next
            FROM generate_series(-9, 9) AS r (priority) WHERE r.priority = 0 OR t.lanes >> (9 + r.priority) & 1 = 1
        ) j
    )
FROM {p}member w ORDER BY w.name

-- name: publish
UPDATE {p}member SET horizon = %(horizon)s WHERE name = %(name)s

-- name: quiet
UPDATE {p}member SET stopped = %(stirred)s WHERE name = %(name)s

-- name: stirred
SELECT coalesce(max(stirred), 0) FROM {p}topic

-- name: roster
SELECT w.name, w.topics, w.beat, w.horizon, w.behind, w.stopped,
    w.pid IS NOT NULL AND NOT EXISTS (  -- when a session of another role began may be hidden
        SELECT 1 FROM pg_stat_activity a
        WHERE a.pid = w.pid AND coalesce(floor(extract(epoch FROM a.backend_start) * 1000) = w.began, true)
    )
FROM {p}member w ORDER BY w.name

-- name: near
SELECT w.name, w.topics, w.beat, w.horizon, w.behind, w.stopped, NULL FROM {p}member w
WHERE EXISTS (SELECT 1 FROM {p}member f WHERE f.topics IS NOT NULL AND f.horizon >= %(due)s) ORDER BY w.name

-- name: pause_of
SELECT paused, stirred FROM {p}topic WHERE name = %(topic)s

-- name: forget_workers
WITH gone AS (DELETE FROM {p}member WHERE abs({now} - beat) > %(age)s RETURNING name)
DELETE FROM {p}hint WHERE worker IN (SELECT name FROM gone)

-- Those whose session is not their own look for rows. Its commit need not wait for the disk: it holds up other notifications.
-- name: notify
WITH n AS MATERIALIZED (
    SELECT *, set_config('synchronous_commit', 'off', true) FROM unnest(%(workers)s::text[], %(channels)s::text[], %(payloads)s::text[]) AS n (worker, channel, payload)
),
h AS (
    INSERT INTO {p}hint (worker, payload)
    SELECT n.worker, n.payload FROM n JOIN {p}member w ON w.name = n.worker WHERE w.pid IS NULL
)
SELECT pg_notify(n.channel, n.payload) FROM n JOIN {p}member w ON w.name = n.worker WHERE w.pid IS NOT NULL

-- name: take_hints
DELETE FROM {p}hint WHERE worker = %(name)s RETURNING payload

-- name: database
SELECT current_database()

-- name: now
SELECT {now}

-- A server that was started anew may have given the number to another transaction.
-- name: status
SELECT CASE WHEN pg_postmaster_start_time()::text = %(born)s THEN pg_xact_status(%(id)s::xid8) ELSE 'restarted' END

-- name: present
SELECT id FROM {p}job WHERE id = ANY(%(ids)s::bigint[]) UNION ALL SELECT id FROM {p}finished WHERE id = ANY(%(ids)s::bigint[])

-- name: ids
SELECT nextval('{p}id') FROM generate_series(1, %(count)s)

-- Some of what is in the counts, in fewer rows; what others count now stays.
-- name: fold
WITH part AS (
    DELETE FROM {p}tally WHERE ctid = ANY(ARRAY(SELECT ctid FROM {p}tally LIMIT 2000 FOR UPDATE SKIP LOCKED))
    RETURNING topic, live, done, cancelled, dead
)
INSERT INTO {p}tally (topic, live, done, cancelled, dead)
SELECT topic, sum(live), sum(done), sum(cancelled), sum(dead) FROM part GROUP BY topic

-- name: next_lease
SELECT min(next) FROM {p}job WHERE state = 1

-- name: due_now
SELECT j.next, j.id, t.name, j.priority FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS w (id, place)
JOIN {p}job j ON j.id = w.id JOIN {p}topic t ON t.id = j.topic WHERE j.state = 0 ORDER BY w.place
