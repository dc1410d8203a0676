-- name: worker_add
INSERT INTO {p}worker (name, beat, stopped, pid, began)
SELECT %(name)s, {now}, coalesce((SELECT max(stirred) FROM {p}topic), 0), pid, floor(extract(epoch FROM backend_start) * 1000)
FROM (SELECT pg_backend_pid() AS me) b LEFT JOIN pg_stat_activity a ON a.pid = b.me AND %(listens)s
RETURNING stopped

-- name: worker_remove
WITH h AS (DELETE FROM {p}hint WHERE worker = %(name)s) DELETE FROM {p}worker WHERE name = %(name)s

-- All that a worker asks once a second: who is there, when the next lease ends, and when the first job of these topics is due.
-- name: beat
WITH mine AS (UPDATE {p}worker SET beat = {now}, behind = %(behind)s WHERE name = %(name)s RETURNING name)
SELECT w.name, w.topics, w.beat, w.horizon, CASE w.name WHEN %(name)s THEN %(behind)s ELSE w.behind END, w.stopped,
    w.pid IS NOT NULL AND NOT EXISTS (  -- when a session of another role began may be hidden
        SELECT 1 FROM pg_stat_activity a
        WHERE a.pid = w.pid AND coalesce(floor(extract(epoch FROM a.backend_start) * 1000) = w.began, true)
    ),
    {now}, (SELECT count(*) FROM mine), (SELECT min(lease) FROM {p}run),
    (
        SELECT min(d.due) FROM unnest(%(topics)s::text[]) AS n (name) JOIN {p}topic t ON t.name = n.name AND NOT t.paused
        CROSS JOIN LATERAL (SELECT due FROM {p}due WHERE topic = t.id ORDER BY due, id LIMIT 1) d
    )
FROM {p}worker w ORDER BY w.name

-- name: publish
UPDATE {p}worker SET horizon = %(horizon)s WHERE name = %(name)s

-- name: quiet
UPDATE {p}worker SET stopped = %(stirred)s WHERE name = %(name)s

-- name: stirred
SELECT coalesce(max(stirred), 0) FROM {p}topic

-- name: roster
SELECT w.name, w.topics, w.beat, w.horizon, w.behind, w.stopped,
    w.pid IS NOT NULL AND NOT EXISTS (  -- when a session of another role began may be hidden
        SELECT 1 FROM pg_stat_activity a
        WHERE a.pid = w.pid AND coalesce(floor(extract(epoch FROM a.backend_start) * 1000) = w.began, true)
    )
FROM {p}worker w ORDER BY w.name

-- name: near
SELECT w.name, w.topics, w.beat, w.horizon, w.behind, w.stopped, NULL FROM {p}worker w
WHERE EXISTS (SELECT 1 FROM {p}worker f WHERE f.topics IS NOT NULL AND f.horizon >= %(due)s) ORDER BY w.name

-- name: pause_of
SELECT paused, stirred FROM {p}topic WHERE name = %(topic)s

-- name: forget_workers
WITH gone AS (DELETE FROM {p}worker WHERE abs({now} - beat) > %(age)s RETURNING name)
DELETE FROM {p}hint WHERE worker IN (SELECT name FROM gone)

-- Those whose session is not their own look for rows. Its commit need not wait for the disk: it holds up other notifications.
-- name: notify
WITH n AS MATERIALIZED (
    SELECT *, set_config('synchronous_commit', 'off', true) FROM unnest(%(workers)s::text[], %(channels)s::text[], %(payloads)s::text[]) AS n (worker, channel, payload)
),
h AS (
    INSERT INTO {p}hint (worker, payload)
    SELECT n.worker, n.payload FROM n JOIN {p}worker w ON w.name = n.worker WHERE w.pid IS NULL
)
SELECT pg_notify(n.channel, n.payload) FROM n JOIN {p}worker w ON w.name = n.worker WHERE w.pid IS NOT NULL

-- name: take_hints
DELETE FROM {p}hint WHERE worker = %(name)s RETURNING payload

-- name: database
SELECT current_database()

-- name: now
SELECT {now}

-- A server that was started anew may have given the number to another transaction.
-- name: status
SELECT CASE WHEN pg_postmaster_start_time()::text = %(born)s THEN pg_xact_status(%(id)s::xid8) ELSE 'restarted' END
