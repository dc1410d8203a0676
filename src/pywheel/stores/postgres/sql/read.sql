-- name: look
SELECT j.id, j.topic, j.created, j.key, j.ttr, j.max_attempts, j.headers, length(j.body), j.body,
    coalesce(d.due, r.due, f.due), coalesce(d.claims, r.claims, f.claims), coalesce(d.forgiven, r.forgiven, f.forgiven),
    coalesce(d.lost, r.lost, f.lost), coalesce(d.passed, r.passed, f.passed), coalesce(d.error, r.error, f.error), l.priority,
    CASE WHEN d.id IS NOT NULL THEN 0 WHEN r.id IS NOT NULL THEN 1 ELSE 2 END,
    r.attempt, r.begun, r.started, r.lease, r.max_attempts, r.backoff, r.worker,
    f.attempt, f.started, f.worker, f.state, f.outcome, f.ended, f.silent
FROM ({ids}) w
JOIN {p}job j ON j.id = w.id
LEFT JOIN {p}due d ON d.topic = j.topic AND d.id = j.id
LEFT JOIN {p}run r ON r.id = j.id
LEFT JOIN {p}finished f ON f.topic = j.topic AND f.state IN (0, 1, 2) AND f.id = j.id
LEFT JOIN {p}lane l ON l.id = j.id
ORDER BY j.id

-- name: ids_given
SELECT id FROM unnest(%(ids)s::bigint[]) AS w (id)

-- name: ids_named
(SELECT job AS id FROM {p}live_key WHERE topic = %(topic)s AND key = %(key)s)
UNION (SELECT id FROM {p}job WHERE topic = %(topic)s AND key = %(key)s ORDER BY id DESC LIMIT 20)

-- name: ids_of_key
SELECT id FROM {p}job WHERE key = %(key)s AND (%(topic)s::int IS NULL OR topic = %(topic)s) AND id > %(after)s
ORDER BY id LIMIT %(limit)s

-- name: ids_all
SELECT id FROM {p}job WHERE id > %(after)s ORDER BY id LIMIT %(limit)s

-- name: ids_of_topic
SELECT id FROM (
    (SELECT id FROM {p}due WHERE topic = %(topic)s AND id > %(after)s ORDER BY id LIMIT %(limit)s)
    UNION ALL (SELECT id FROM {p}run WHERE topic = %(topic)s AND id > %(after)s ORDER BY id LIMIT %(limit)s)
    UNION ALL (SELECT id FROM {p}finished WHERE topic = %(topic)s AND state = 0 AND id > %(after)s ORDER BY id LIMIT %(limit)s)
    UNION ALL (SELECT id FROM {p}finished WHERE topic = %(topic)s AND state = 1 AND id > %(after)s ORDER BY id LIMIT %(limit)s)
    UNION ALL (SELECT id FROM {p}finished WHERE topic = %(topic)s AND state = 2 AND id > %(after)s ORDER BY id LIMIT %(limit)s)
) found ORDER BY id LIMIT %(limit)s

-- name: ids_delayed
SELECT id FROM (
    (SELECT d.id FROM {p}topic t CROSS JOIN LATERAL (
        SELECT id FROM {p}due WHERE topic = t.id AND id > %(after)s ORDER BY id LIMIT %(limit)s
    ) d WHERE %(topic)s::int IS NULL OR t.id = %(topic)s ORDER BY d.id LIMIT %(limit)s)
    UNION ALL (
        SELECT id FROM {p}run WHERE lease <= %(now)s AND (%(topic)s::int IS NULL OR topic = %(topic)s) AND id > %(after)s
        ORDER BY id LIMIT %(limit)s
    )
) found ORDER BY id LIMIT %(limit)s

-- name: ids_running
SELECT id FROM {p}run WHERE lease > %(now)s AND (%(topic)s::int IS NULL OR topic = %(topic)s) AND id > %(after)s
ORDER BY id LIMIT %(limit)s

-- Those too whose lease is over, and who have no attempt left.
-- name: ids_finished
SELECT id FROM (
    (SELECT f.id FROM {p}topic t CROSS JOIN LATERAL (
        SELECT id FROM {p}finished WHERE topic = t.id AND state = %(state)s AND id > %(after)s ORDER BY id LIMIT %(limit)s
    ) f WHERE %(topic)s::int IS NULL OR t.id = %(topic)s ORDER BY f.id LIMIT %(limit)s)
    UNION ALL (
        SELECT id FROM {p}run WHERE %(state)s = 2 AND lease <= %(now)s AND (%(topic)s::int IS NULL OR topic = %(topic)s)
            AND id > %(after)s
        ORDER BY id LIMIT %(limit)s
    )
) found ORDER BY id LIMIT %(limit)s

-- In one statement, so of one moment: what is counted, and what is running. One below the other and not joined: what has
-- no index would be looked through for each topic.
-- name: counts
SELECT max(name) AS name, sum(live)::bigint, sum(done)::bigint, sum(dead)::bigint, sum(cancelled)::bigint,
    array_agg(states) FILTER (WHERE states IS NOT NULL)
FROM (
    SELECT id AS topic, name, 0 AS live, 0 AS done, 0 AS dead, 0 AS cancelled, NULL::int[] AS states FROM {p}topic
    UNION ALL SELECT topic, NULL, live, done, dead, cancelled, NULL FROM {p}count
    UNION ALL SELECT topic, NULL, 0, 0, 0, 0, ARRAY[begun, over, spent, count(*)::int] FROM (
        SELECT topic, begun::int AS begun, (lease <= %(now)s)::int AS over, (attempt >= max_attempts)::int AS spent FROM {p}run
    ) r GROUP BY topic, begun, over, spent
) parts GROUP BY topic ORDER BY name

-- name: topics
SELECT name, paused, {lanes} FROM {p}topic ORDER BY name

-- name: history
SELECT job, claim, attempt, started, ended, outcome, worker, error, NULL::bytea FROM {p}history
WHERE job = ANY(%(ids)s::bigint[])
UNION ALL SELECT id, 0, 0, NULL, 0, 0, NULL, NULL, result FROM ({results}) r WHERE result IS NOT NULL ORDER BY 1, 2

-- Each finished job by all columns of its key, whatever the planner knows of the table.
-- name: states
SELECT j.id, CASE WHEN d.id IS NOT NULL THEN 0 WHEN r.id IS NOT NULL THEN 1 ELSE 2 END,
    r.attempt, r.begun, r.lease, r.max_attempts, coalesce(
        (SELECT f.state FROM {p}finished f WHERE f.topic = j.topic AND f.state = 0 AND f.id = j.id),
        (SELECT f.state FROM {p}finished f WHERE f.topic = j.topic AND f.state = 1 AND f.id = j.id),
        (SELECT f.state FROM {p}finished f WHERE f.topic = j.topic AND f.state = 2 AND f.id = j.id)
    )
FROM unnest(%(ids)s::bigint[]) AS w (id)
JOIN {p}job j ON j.id = w.id
LEFT JOIN {p}due d ON d.topic = j.topic AND d.id = j.id
LEFT JOIN {p}run r ON r.id = j.id

-- A span: topic, shards, due and id after which, due until which. In the order of the loops, so that the limit ends them.
-- name: windows
SELECT d.due, d.id, s.place
FROM unnest(%(topics)s::int[], %(shards)s::bigint[], %(dues)s::bigint[], %(ids)s::bigint[], %(untils)s::bigint[])
    WITH ORDINALITY AS s (topic, shards, due, id, until, place)
CROSS JOIN LATERAL (
    SELECT d.due, d.id FROM {p}due d
    WHERE d.topic = s.topic AND (d.due, d.id) > (s.due, s.id) AND d.due <= s.until AND (s.shards >> (d.id & 31)::int) & 1 = 1
        AND NOT (SELECT paused FROM {p}topic WHERE id = s.topic)
        AND ((SELECT NOT EXISTS (SELECT FROM {p}priority WHERE topic = s.topic))
            OR NOT EXISTS (SELECT FROM {p}lane l WHERE l.id = d.id AND l.due = d.due))
    ORDER BY d.due, d.id LIMIT %(limit)s
) d
LIMIT %(limit)s

-- name: windows_of_lane
SELECT d.due, d.id, s.place
FROM unnest(%(topics)s::int[], %(shards)s::bigint[], %(dues)s::bigint[], %(ids)s::bigint[], %(untils)s::bigint[],
    %(priorities)s::bigint[]) WITH ORDINALITY AS s (topic, shards, due, id, until, priority, place)
CROSS JOIN LATERAL (
    SELECT l.due, l.id FROM {p}lane l JOIN {p}due d ON d.topic = l.topic AND d.id = l.id AND d.due = l.due
    WHERE l.topic = s.topic AND l.priority = s.priority AND (l.due, l.id) > (s.due, s.id) AND l.due <= s.until
        AND (s.shards >> (l.id & 31)::int) & 1 = 1 AND NOT (SELECT paused FROM {p}topic WHERE id = s.topic)
    ORDER BY l.due, l.id LIMIT %(limit)s
) d
LIMIT %(limit)s

-- name: first_dues
SELECT s.place, (
    SELECT coalesce(min(d.due) FILTER (WHERE (s.shards >> (d.id & 31)::int) & 1 = 1), CASE WHEN count(*) = 256 THEN max(d.due) END)
    FROM (
        SELECT due, id FROM {p}due WHERE topic = s.topic AND due > s.until ORDER BY due, id LIMIT 256
    ) d
)
FROM unnest(%(topics)s::int[], %(shards)s::bigint[], %(untils)s::bigint[]) WITH ORDINALITY AS s (topic, shards, until, place)

-- name: lost
SELECT id, topic, claims, attempt, begun, lease, max_attempts, backoff, due FROM {p}run
WHERE lease <= %(now)s AND topic = ANY(%(topics)s::int[])

-- name: next_lease
SELECT min(lease) FROM {p}run

-- name: due_now
SELECT d.due, d.id, d.topic, coalesce(l.priority, 0) FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS w (id, place)
JOIN {p}job j ON j.id = w.id JOIN {p}due d ON d.topic = j.topic AND d.id = j.id LEFT JOIN {p}lane l ON l.id = d.id ORDER BY w.place

-- name: note
SELECT value, until FROM {p}note WHERE name = %(name)s

-- name: notes
SELECT name, value FROM {p}note
WHERE name > %(after)s AND name >= %(prefix)s AND name < %(end)s AND (until IS NULL OR until > %(now)s)
ORDER BY name LIMIT %(limit)s
