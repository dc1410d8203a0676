-- What workers do most, each a statement. What these leave alone the general logic decides, in the same transaction.

-- name: ack
WITH t AS MATERIALIZED (SELECT {now} AS now),
g AS (
    DELETE FROM {p}run r USING unnest(%(ids)s::bigint[], %(claims)s::bigint[]) AS w (id, claims)
    WHERE r.id = w.id AND r.claims = w.claims AND r.lease > (SELECT now FROM t)
    RETURNING r.*
),
f AS (
    INSERT INTO {p}finished (topic, id, due, claims, forgiven, passed, error, attempt, started, worker, state, outcome, ended)
    SELECT topic, id, due, claims, forgiven, passed, error, nullif(attempt, 0), started, worker, 0, 0, (SELECT now FROM t) FROM g
),
k AS (
    DELETE FROM {p}live_key k USING g JOIN {p}job j ON j.id = g.id WHERE k.topic = j.topic AND k.key = j.key AND k.job = j.id
),
c AS (INSERT INTO {p}count (topic, live, done) SELECT topic, -count(*), count(*) FROM g GROUP BY topic)
SELECT array_agg(id) FROM g

-- The same with results.
-- name: ack_kept
WITH t AS MATERIALIZED (SELECT {now} AS now),
g AS (
    DELETE FROM {p}run r USING unnest(%(ids)s::bigint[], %(claims)s::bigint[], %(results)b::bytea[]) AS w (id, claims, result)
    WHERE r.id = w.id AND r.claims = w.claims AND r.lease > (SELECT now FROM t)
    RETURNING r.*, w.result
),
f AS (
    INSERT INTO {p}finished (topic, id, due, claims, forgiven, passed, error, attempt, started, worker, state, outcome, ended,
        result)
    SELECT topic, id, due, claims, forgiven, passed, error, nullif(attempt, 0), started, worker, 0, 0, (SELECT now FROM t), result FROM g
),
k AS (
    DELETE FROM {p}live_key k USING g JOIN {p}job j ON j.id = g.id WHERE k.topic = j.topic AND k.key = j.key AND k.job = j.id
),
c AS (INSERT INTO {p}count (topic, live, done) SELECT topic, -count(*), count(*) FROM g GROUP BY topic)
SELECT array_agg(id) FROM g

-- name: begin_held
UPDATE {p}run r SET begun = true, lease = {now} + w.ttr
FROM unnest(%(ids)s::bigint[], %(claims)s::bigint[], %(ttrs)s::bigint[]) AS w (id, claims, ttr)
WHERE r.id = w.id AND r.claims = w.claims AND r.lease > {now} RETURNING r.id

-- name: touch
UPDATE {p}run r SET lease = {now} + w.ttr
FROM unnest(%(ids)s::bigint[], %(claims)s::bigint[], %(ttrs)s::bigint[]) AS w (id, claims, ttr)
WHERE r.id = w.id AND r.claims = w.claims AND r.lease > {now} RETURNING r.id

-- All that are due, if it is clear that all of them are to be claimed: none was lost, none comes before another for its priority,
-- and their bodies are not too much.
-- They are locked one by one, in the order of the ids: else a plan that was made early may read all that is due of the topic.
-- The job is read after that, by OFFSET 0. One with an xmax may have been changed between the snapshot and the lock: the general
-- logic reads it again.
-- name: claim
WITH t AS MATERIALIZED (SELECT {now} AS now),
d AS MATERIALIZED (
    SELECT d.id, d.due, d.claims, d.forgiven, d.lost, d.passed, d.error, j.created, j.key, j.ttr, j.max_attempts, j.headers,
        j.body, coalesce(d.claims, 0) + 1 - coalesce(d.forgiven, 0) AS attempt
    FROM unnest(%(ids)s::bigint[]) AS w (id) CROSS JOIN LATERAL (
        SELECT * FROM {p}due WHERE topic = %(topic)s AND id = w.id FOR UPDATE SKIP LOCKED
    ) d CROSS JOIN LATERAL (SELECT * FROM {p}job WHERE id = d.id AND xmax = 0 OFFSET 0) j
    WHERE NOT (SELECT paused FROM {p}topic WHERE id = %(topic)s)
        AND NOT EXISTS (SELECT FROM {p}priority WHERE topic = %(topic)s)
),
plain AS MATERIALIZED (
    SELECT count(lost) = 0 AND sum(length(body)) <= %(bytes)s AND (
        (SELECT count(*) FROM d) = %(count)s OR NOT EXISTS (
            SELECT FROM unnest(%(ids)s::bigint[]) AS w (id) JOIN {p}run r ON r.id = w.id AND r.lease <= (SELECT now FROM t)
        )
    ) AS plain
    FROM d WHERE due <= (SELECT now FROM t)
),
o AS MATERIALIZED (
    SELECT *, (SELECT now FROM t) + CASE WHEN row_number() OVER (ORDER BY due, id) <= %(begin)s
        THEN coalesce(ttr, %(ttr)s) + %(slack)s ELSE %(hold)s END AS lease
    FROM d WHERE due <= (SELECT now FROM t) AND (SELECT plain FROM plain) ORDER BY due, id
),
r AS (
    INSERT INTO {p}run (topic, id, due, claims, forgiven, passed, error, attempt, begun, started, lease, max_attempts, backoff,
        worker)
    SELECT %(topic)s, id, due, coalesce(claims, 0) + 1, forgiven, passed, error, attempt,
        row_number() OVER (ORDER BY due, id) <= %(begin)s, (SELECT now FROM t), lease, coalesce(max_attempts, %(limit)s),
        coalesce(greatest(round((%(backoff)s::bigint[])[least(greatest(attempt, 1), cardinality(%(backoff)s::bigint[]))]
            * (1 + %(jitter)s::float8 * (2 * random() - 1))), 0), 0)::bigint,
        %(worker)s
    FROM o
),
x AS (DELETE FROM {p}due d USING o WHERE d.topic = %(topic)s AND d.id = o.id)
SELECT id, body, due, created, key, ttr, max_attempts, headers, coalesce(claims, 0) + 1, attempt, lease, error FROM o
