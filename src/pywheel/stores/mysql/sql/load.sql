-- name: now
SELECT {now}

-- name: topics_of
SELECT id, name, paused, {lanes} FROM {p}topic WHERE hash IN (%(names)s)

-- In one order, as topics that are paused are written too.
-- name: topics_to_pause
SELECT id, name, paused, {lanes} FROM {p}topic WHERE hash IN (%(names)s) ORDER BY id FOR UPDATE

-- name: all_topics
SELECT id, name FROM {p}topic

-- name: holders
SELECT job FROM {p}live_key FORCE INDEX (PRIMARY) WHERE topic = %(topic)s AND hash IN (%(hashes)s)

-- name: named
SELECT id FROM {p}name WHERE hash = %(hash)s AND topic = %(topic)s ORDER BY id DESC LIMIT 20

-- A job's row is its lock. Those of one transaction are taken in the order of ids by everybody, one by one: of a long list a
-- server may think that it is quicker to read the whole table, and then waits for each row that somebody has locked.
-- name: lock_jobs
SELECT count(j.id) FROM {ids} STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = w.id FOR UPDATE

-- name: lock_due
SELECT {job}, IF(%(bodies)s AND length(j.body) <= 65536, j.body, NULL), {past.d}, l.priority
FROM {ids} STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = w.id
STRAIGHT_JOIN {p}due d FORCE INDEX (PRIMARY) ON d.topic = j.topic AND d.id = j.id
LEFT JOIN {p}lane l FORCE INDEX (PRIMARY) ON l.id = j.id FOR UPDATE

-- name: lock_run
SELECT {job}, IF(%(bodies)s AND length(j.body) <= 65536, j.body, NULL), {past.r}, l.priority, {run}
FROM {ids} STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = w.id
STRAIGHT_JOIN {p}run r FORCE INDEX (PRIMARY) ON r.id = j.id
LEFT JOIN {p}lane l FORCE INDEX (PRIMARY) ON l.id = j.id WHERE {lost} FOR UPDATE

-- name: lock_finished
SELECT {job}, NULL, {past.f}, l.priority, {finished}
FROM {ids} STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = w.id
STRAIGHT_JOIN (SELECT 0 AS state UNION ALL SELECT 1 UNION ALL SELECT 2) s
STRAIGHT_JOIN {p}finished f FORCE INDEX (PRIMARY) ON f.topic = j.topic AND f.state = s.state AND f.id = j.id
LEFT JOIN {p}lane l FORCE INDEX (PRIMARY) ON l.id = j.id FOR UPDATE

-- name: lock_due_of_topic
SELECT {job}, IF(length(j.body) <= 65536, j.body, NULL), {past.d}, l.priority
FROM {p}due d FORCE INDEX (due) STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = d.id
LEFT JOIN {p}lane l FORCE INDEX (PRIMARY) ON l.id = j.id
WHERE d.topic = %(topic)s AND d.due <= {now} AND {lane} ORDER BY d.due, d.id LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: lock_due_of_lane
SELECT {job}, IF(length(j.body) <= 65536, j.body, NULL), {past.d}, l.priority
FROM {p}lane l FORCE INDEX (due) STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = l.id
STRAIGHT_JOIN {p}due d FORCE INDEX (PRIMARY) ON d.topic = l.topic AND d.id = l.id AND d.due = l.due
WHERE l.topic = %(topic)s AND l.priority = %(priority)s AND l.due <= {now} ORDER BY l.due, l.id LIMIT %(limit)s
FOR UPDATE SKIP LOCKED

-- name: running_of
SELECT r.topic, r.id, j.name FROM {p}run r STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = r.id
WHERE r.topic IN (%(topics)s) AND r.lease > {now}

-- name: lock_lost
SELECT {job}, IF(j.topic IN (%(topics)s) AND length(j.body) <= 65536, j.body, NULL), {past.r}, l.priority, {run}
FROM {p}run r FORCE INDEX (lease) STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = r.id
LEFT JOIN {p}lane l FORCE INDEX (PRIMARY) ON l.id = j.id
WHERE r.lease <= {now} ORDER BY r.lease LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: next_leases
SELECT id, lease FROM {p}run WHERE lease > {now} ORDER BY lease LIMIT %(limit)s

-- name: lock_old
SELECT {job}, NULL, {past.f}, l.priority, {finished}
FROM {p}finished f FORCE INDEX (ended) STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = f.id
LEFT JOIN {p}lane l FORCE INDEX (PRIMARY) ON l.id = j.id
WHERE f.state = %(state)s AND f.ended <= {now} - %(age)s AND (%(topic)s IS NULL OR f.topic = %(topic)s)
ORDER BY f.ended LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: bodies
SELECT id, body FROM {p}job WHERE id IN (%(ids)s)

-- name: results
SELECT f.id, f.result FROM {p}job j STRAIGHT_JOIN {p}finished f FORCE INDEX (PRIMARY)
ON f.topic = j.topic AND f.state = 0 AND f.id = j.id WHERE j.id IN (%(ids)s) AND f.result IS NOT NULL

-- name: topic_add
INSERT INTO {p}topic (hash, name) VALUES %(rows)s ON DUPLICATE KEY UPDATE id = id

-- name: nonces
SELECT nonce, at, ids FROM {p}nonce WHERE hash IN (%(nonces)s)

-- name: lock_notes
SELECT name, value, until FROM {p}note FORCE INDEX (PRIMARY) WHERE name IN (%(names)s) ORDER BY name FOR UPDATE

-- Nothing is locked by these: under a limit they say whether there is anything to be locked.
-- name: see_notes
SELECT name, value, until FROM {p}note FORCE INDEX (PRIMARY) WHERE name IN (%(names)s)

-- name: lapsed
SELECT r.id FROM {ids} STRAIGHT_JOIN {p}run r FORCE INDEX (PRIMARY) ON r.id = w.id WHERE r.lease <= {now}

-- name: waiting
SELECT d.id, d.topic, d.due, j.name, d.lost, length(j.body), l.priority
FROM {ids} STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = w.id
STRAIGHT_JOIN {p}due d FORCE INDEX (PRIMARY) ON d.topic = j.topic AND d.id = j.id
LEFT JOIN {p}lane l FORCE INDEX (PRIMARY) ON l.id = j.id
