-- What workers do most. Ids are in order, so are the locks; two steps that meet in another order are told so (1213).

-- name: lock_held
SELECT r.id, r.claims, r.topic, j.hash IS NOT NULL FROM {ids} STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = w.id
STRAIGHT_JOIN {p}run r FORCE INDEX (PRIMARY) ON r.id = j.id WHERE r.lease > {now} FOR UPDATE

-- Most jobs have nothing but a body: what some have comes as one value, as each takes time to read.
-- name: lock_claimed
SELECT d.id, d.due, j.created, IF(length(j.body) <= 65536, j.body, NULL),
    IF(coalesce(j.name, j.ttr, j.max_attempts, j.headers, d.claims, d.lost, d.error) IS NULL, NULL,
        JSON_ARRAY(j.name, j.ttr, j.max_attempts, j.headers, d.claims, d.forgiven, d.lost, d.error))
FROM {ids} STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = w.id
STRAIGHT_JOIN {p}due d FORCE INDEX (PRIMARY) ON d.topic = %(topic)s AND d.id = j.id FOR UPDATE SKIP LOCKED

-- name: finish
INSERT INTO {p}finished (topic, id, due, claims, forgiven, passed, error, attempt, started, worker, state, outcome, ended)
SELECT r.topic, r.id, r.due, r.claims, r.forgiven, r.passed, r.error, nullif(r.attempt, 0), r.started, r.worker, 0, 0, {now}
FROM {ids} STRAIGHT_JOIN {p}run r FORCE INDEX (PRIMARY) ON r.id = w.id

-- name: keep_result
UPDATE {p}finished SET result = %(result)s WHERE topic = %(topic)s AND state = 0 AND id = %(id)s

-- name: free_keys
DELETE k FROM {ids} STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = w.id
STRAIGHT_JOIN {p}live_key k FORCE INDEX (PRIMARY) ON k.topic = j.topic AND k.hash = j.hash WHERE k.job = j.id

-- name: renew
UPDATE {ids} STRAIGHT_JOIN {p}run r FORCE INDEX (PRIMARY) ON r.id = w.id
SET r.begun = r.begun OR %(begin)s, r.lease = {now} + %(ttr)s

-- name: start
INSERT INTO {p}run (topic, id, due, claims, forgiven, lost, passed, error, attempt, begun, started, lease, max_attempts, backoff,
    worker)
SELECT d.topic, d.id, d.due, ifnull(d.claims, 0) + 1, d.forgiven, d.lost, d.passed, d.error,
    ifnull(d.claims, 0) + 1 - ifnull(d.forgiven, 0), %(begun)s, {now},
    {now} + IF(%(begun)s, ifnull(j.ttr, %(ttr)s) + %(slack)s, %(hold)s), ifnull(j.max_attempts, %(limit)s), %(backoff)s, %(worker)s
FROM {ids} STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = w.id
STRAIGHT_JOIN {p}due d FORCE INDEX (PRIMARY) ON d.topic = %(topic)s AND d.id = j.id
