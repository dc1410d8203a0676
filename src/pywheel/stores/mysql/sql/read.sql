-- name: look
SELECT {job}, j.body,
    coalesce(d.due, r.due, f.due), coalesce(d.claims, r.claims, f.claims), coalesce(d.forgiven, r.forgiven, f.forgiven),
    coalesce(d.lost, r.lost, f.lost), coalesce(d.passed, r.passed, f.passed), coalesce(d.error, r.error, f.error), l.priority,
    CASE WHEN d.id IS NOT NULL THEN 0 WHEN r.id IS NOT NULL THEN 1 ELSE 2 END,
    {run}, {finished}
FROM (%(found)s) w
STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = w.id
{places}
LEFT JOIN {p}lane l FORCE INDEX (PRIMARY) ON l.id = j.id

-- name: ids_given
SELECT id FROM {p}job WHERE id IN (%(ids)s)

-- name: ids_named
(SELECT job AS id FROM {p}live_key WHERE topic = %(topic)s AND hash = %(hash)s)
UNION (SELECT id FROM {p}name WHERE hash = %(hash)s AND topic = %(topic)s ORDER BY id DESC LIMIT 20)

-- name: ids_of_key
SELECT id FROM {p}name WHERE hash = %(hash)s AND (%(topic)s IS NULL OR topic = %(topic)s) AND id > %(after)s
ORDER BY id LIMIT %(limit)s

-- name: ids_all
SELECT id FROM {p}job WHERE id > %(after)s ORDER BY id LIMIT %(limit)s

-- name: ids_due
(SELECT id FROM {p}due FORCE INDEX (PRIMARY) WHERE topic = %(topic)s AND id > %(after)s ORDER BY id LIMIT %(limit)s)

-- name: ids_run
(SELECT id FROM {p}run FORCE INDEX (PRIMARY) WHERE topic = %(topic)s AND id > %(after)s ORDER BY id LIMIT %(limit)s)

-- name: ids_finished
(SELECT id FROM {p}finished FORCE INDEX (PRIMARY) WHERE topic = %(topic)s AND state = %(state)s AND id > %(after)s
ORDER BY id LIMIT %(limit)s)

-- name: ids_lost
(SELECT id FROM {p}run FORCE INDEX (PRIMARY) WHERE lease <= %(moment)s AND (%(topic)s IS NULL OR topic = %(topic)s)
AND id > %(after)s ORDER BY id LIMIT %(limit)s)

-- name: ids_running
(SELECT id FROM {p}run FORCE INDEX (PRIMARY) WHERE lease > %(moment)s AND (%(topic)s IS NULL OR topic = %(topic)s)
AND id > %(after)s ORDER BY id LIMIT %(limit)s)

-- In one statement, so of one moment: what is counted, and what is running.
-- name: counts
SELECT 0, id, 0, 0, 0, 0 FROM {p}topic
UNION ALL SELECT 1, topic, CAST(sum(live) AS SIGNED), CAST(sum(done) AS SIGNED), CAST(sum(dead) AS SIGNED),
    CAST(sum(cancelled) AS SIGNED) FROM {p}count GROUP BY topic
UNION ALL SELECT 2, topic, begun, lease <= %(moment)s AS over_, attempt >= max_attempts AS spent, count(*)
    FROM {p}run GROUP BY topic, begun, over_, spent

-- name: topics
SELECT name, paused, {lanes} FROM {p}topic

-- name: history
SELECT job, claim, attempt, started, ended, outcome, worker, error, NULL FROM {p}history
WHERE job IN (%(ids)s)
UNION ALL SELECT f.id, 0, 0, NULL, 0, 0, NULL, NULL, f.result
FROM {p}job j STRAIGHT_JOIN {p}finished f FORCE INDEX (PRIMARY) ON f.topic = j.topic AND f.state = 0 AND f.id = j.id
WHERE j.id IN (%(ids)s) AND f.result IS NOT NULL ORDER BY 1, 2

-- name: states
SELECT j.id, CASE WHEN d.id IS NOT NULL THEN 0 WHEN r.id IS NOT NULL THEN 1 ELSE 2 END,
    r.attempt, r.begun, r.lease, r.max_attempts, f.state
FROM {p}job j
{places}
WHERE j.id IN (%(ids)s)

-- Two ranges, as MySQL reads (due, id) > (a, b) from the first due on, however many are due then.
-- name: window
(SELECT due, id FROM {p}due FORCE INDEX (due)
WHERE topic = %(topic)s AND due = %(due)s AND id > %(id)s AND due <= %(until)s AND {mine} AND {open} AND {plain} ORDER BY due, id LIMIT %(limit)s)
UNION ALL
(SELECT due, id FROM {p}due FORCE INDEX (due)
WHERE topic = %(topic)s AND due > %(due)s AND due <= %(until)s AND {mine} AND {open} AND {plain} ORDER BY due, id LIMIT %(limit)s)

-- name: window_of_lane
(SELECT l.due, l.id FROM {p}lane l FORCE INDEX (due) STRAIGHT_JOIN {p}due d FORCE INDEX (PRIMARY)
    ON d.topic = l.topic AND d.id = l.id AND d.due = l.due
WHERE l.topic = %(topic)s AND l.priority = %(priority)s AND l.due = %(due)s AND l.id > %(id)s AND l.due <= %(until)s
    AND (%(shards)s >> (l.id & 31)) & 1 = 1 AND {open} ORDER BY l.due, l.id LIMIT %(limit)s)
UNION ALL
(SELECT l.due, l.id FROM {p}lane l FORCE INDEX (due) STRAIGHT_JOIN {p}due d FORCE INDEX (PRIMARY)
    ON d.topic = l.topic AND d.id = l.id AND d.due = l.due
WHERE l.topic = %(topic)s AND l.priority = %(priority)s AND l.due > %(due)s AND l.due <= %(until)s
    AND (%(shards)s >> (l.id & 31)) & 1 = 1 AND {open} ORDER BY l.due, l.id LIMIT %(limit)s)

-- name: first_due
SELECT coalesce(min(IF({mine}, due, NULL)), IF(count(*) = 256, max(due), NULL)) FROM (
    SELECT due, id FROM {p}due FORCE INDEX (due) WHERE topic = %(topic)s AND due > %(until)s ORDER BY due, id LIMIT 256
) d

-- name: lost
SELECT id, topic, claims, attempt, begun, lease, max_attempts, backoff, due FROM {p}run
WHERE lease <= %(moment)s AND topic IN (%(topics)s)

-- name: next_lease
SELECT min(lease) FROM {p}run

-- name: due_now
SELECT d.due, d.topic, d.id, coalesce(l.priority, 0) FROM {p}job j FORCE INDEX (PRIMARY)
STRAIGHT_JOIN {p}due d FORCE INDEX (PRIMARY) ON d.topic = j.topic AND d.id = j.id
LEFT JOIN {p}lane l FORCE INDEX (PRIMARY) ON l.id = j.id WHERE j.id IN (%(ids)s)

-- name: note
SELECT value, until FROM {p}note WHERE name = %(name)s

-- name: notes
SELECT name, value FROM {p}note FORCE INDEX (PRIMARY)
WHERE name > %(after)s AND name >= %(prefix)s AND name < %(end)s AND (until IS NULL OR until > %(moment)s)
ORDER BY name LIMIT %(limit)s
