-- name: worker_add
INSERT INTO {p}member (name, beat, stopped, server)
SELECT %(name)s, {now}, (SELECT coalesce(max(stirred), 0) FROM {p}topic), {server}
ON DUPLICATE KEY UPDATE beat = values(beat), horizon = -1, behind = 0, stopped = values(stopped), server = values(server)

-- name: worker_remove
DELETE FROM {p}member WHERE hash = %(hash)s

-- name: beat
UPDATE {p}member SET beat = {now}, behind = %(behind)s WHERE hash = %(hash)s

-- name: publish
UPDATE {p}member SET horizon = %(horizon)s WHERE hash = %(hash)s

-- name: quiet
UPDATE {p}member SET stopped = %(stirred)s WHERE hash = %(hash)s

-- name: stopped
SELECT stopped FROM {p}member WHERE hash = %(hash)s

-- name: stirred
SELECT coalesce(max(stirred), 0) FROM {p}topic

-- name: roster
SELECT {seen} FROM {p}member w

-- All that a worker asks about once a second: who is there; the time, when the next lease ends, when the first job of these
-- topics is due, and whether there are hints for it.
-- name: watch
SELECT {seen}, n.* FROM (
    SELECT {now} AS moment, (SELECT min(next) FROM {p}job WHERE state = 1) AS lease, (
        SELECT min((
            SELECT j.next FROM {p}job j FORCE INDEX (job_next)
            WHERE j.state = 0 AND j.topic = t.id AND j.priority = r.of ORDER BY j.next LIMIT 1
        ))
        FROM {p}topic t STRAIGHT_JOIN JSON_TABLE('{priorities}', '$[*]' COLUMNS (of smallint PATH '$')) r
        WHERE t.hash IN (%(topics)s) AND NOT t.paused AND (r.of = 0 OR (t.lanes >> (9 + r.of)) & 1 = 1)
    ) AS first, EXISTS (SELECT 1 FROM {p}hint WHERE worker = %(hash)s AND ring NOT IN (%(seen)s)) AS hinted
) n STRAIGHT_JOIN {p}member w

-- name: near
SELECT name, topics, beat, horizon, behind, stopped, NULL FROM {p}member
WHERE EXISTS (SELECT 1 FROM {p}member f WHERE f.topics IS NOT NULL AND f.horizon >= %(due)s)

-- name: horizon
SELECT max(horizon) FROM {p}member WHERE topics IS NOT NULL

-- name: pause_of
SELECT paused, stirred FROM {p}topic WHERE hash = %(hash)s

-- name: forget_workers
DELETE FROM {p}member WHERE abs({now} - beat) > %(age)s

-- name: forget_hints
DELETE FROM {p}hint WHERE worker NOT IN (SELECT hash FROM {p}member)

-- name: listen
SELECT get_lock(concat(%(lock)s, hex(%(hash)s)), 0)

-- name: hint
INSERT INTO {p}hint (worker, ring, job) VALUES %(rows)s

-- name: hints
SELECT h.ring, h.job, j.next, j.topic, j.priority FROM {p}hint h
LEFT JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = h.job AND j.state = 0
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

-- name: now
SELECT {now}

-- name: take_ids
UPDATE {p}number SET value = last_insert_id(value + %(count)s) WHERE name = 'id'

-- name: present
SELECT id FROM {p}job WHERE id IN (%(ids)s) UNION ALL SELECT id FROM {p}finished WHERE id IN (%(ids)s)

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

-- Some of what is in the counts, to be put there in fewer rows; what others count now stays.
-- name: fold
SELECT seq, topic, live, done, cancelled, dead FROM {p}tally ORDER BY seq LIMIT 2000 FOR UPDATE SKIP LOCKED

-- name: unfold
DELETE t FROM {p}tally t FORCE INDEX (PRIMARY) WHERE t.seq IN (%(seqs)s)

-- name: folded
INSERT INTO {p}tally (topic, live, done, cancelled, dead) VALUES %(rows)s

-- name: next_lease
SELECT min(next) FROM {p}job WHERE state = 1

-- name: due_now
SELECT j.next, j.topic, j.id, j.priority FROM {p}job j FORCE INDEX (PRIMARY) WHERE j.id IN (%(ids)s) AND j.state = 0
