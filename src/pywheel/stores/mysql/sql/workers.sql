-- name: worker_add
INSERT INTO {p}worker (hash, name, beat, stopped, server)
SELECT %(hash)s, %(name)s, {now}, (SELECT coalesce(max(stirred), 0) FROM {p}topic), {server}
ON DUPLICATE KEY UPDATE beat = values(beat), horizon = -1, behind = 0, stopped = values(stopped), server = values(server)

-- name: worker_remove
DELETE FROM {p}worker WHERE hash = %(hash)s

-- name: beat
UPDATE {p}worker SET beat = {now}, behind = %(behind)s WHERE hash = %(hash)s

-- name: publish
UPDATE {p}worker SET horizon = %(horizon)s WHERE hash = %(hash)s

-- name: quiet
UPDATE {p}worker SET stopped = %(stirred)s WHERE hash = %(hash)s

-- name: stopped
SELECT stopped FROM {p}worker WHERE hash = %(hash)s

-- name: stirred
SELECT coalesce(max(stirred), 0) FROM {p}topic

-- name: roster
SELECT {seen} FROM {p}worker w

-- All that a worker asks about once a second: who is there; the time, when the next lease ends, when the first job of these
-- topics is due, and whether there are hints for it.
-- name: watch
SELECT {seen}, n.* FROM (
    SELECT {now} AS moment, (SELECT min(lease) FROM {p}run) AS lease, (
        SELECT min((SELECT d.due FROM {p}due d FORCE INDEX (due) WHERE d.topic = t.id ORDER BY d.due LIMIT 1))
        FROM {p}topic t WHERE t.hash IN (%(topics)s) AND NOT t.paused
    ) AS first, EXISTS (SELECT 1 FROM {p}hint WHERE worker = %(hash)s AND ring NOT IN (%(seen)s)) AS hinted
) n STRAIGHT_JOIN {p}worker w

-- name: near
SELECT name, topics, beat, horizon, behind, stopped, NULL FROM {p}worker
WHERE EXISTS (SELECT 1 FROM {p}worker f WHERE f.topics IS NOT NULL AND f.horizon >= %(due)s)

-- name: pause_of
SELECT paused, stirred FROM {p}topic WHERE hash = %(hash)s

-- name: forget_workers
DELETE FROM {p}worker WHERE abs({now} - beat) > %(age)s

-- name: forget_hints
DELETE FROM {p}hint WHERE worker NOT IN (SELECT hash FROM {p}worker)

-- name: listen
SELECT get_lock(concat(%(lock)s, hex(%(hash)s)), 0)

-- name: hint
INSERT INTO {p}hint (worker, ring, job) VALUES %(rows)s

-- name: hints
SELECT h.ring, h.job, d.due, d.topic, coalesce(l.priority, 0) FROM {p}hint h LEFT JOIN {p}job j ON j.id = h.job
LEFT JOIN {p}due d FORCE INDEX (PRIMARY) ON d.topic = j.topic AND d.id = j.id
LEFT JOIN {p}lane l FORCE INDEX (PRIMARY) ON l.id = j.id
WHERE h.worker = %(hash)s AND h.ring NOT IN (%(seen)s)

-- name: forget_hint
DELETE h FROM {p}hint h FORCE INDEX (PRIMARY) WHERE h.worker = %(hash)s AND h.ring IN (%(seen)s)

-- A wait that ends by KILL QUERY. Whoever kills has committed hints before: so it finds this statement waiting, or else it
-- begins later, and finds the hints.
-- name: sleep
SELECT sleep(%(seconds)s) FROM DUAL WHERE NOT EXISTS (
    SELECT 1 FROM {p}hint WHERE worker = %(hash)s AND ring NOT IN (%(seen)s)
)

-- name: sleepers
SELECT id, info FROM information_schema.processlist WHERE info LIKE 'SELECT sleep(%%' AND info LIKE '%%{p}hint%%'
