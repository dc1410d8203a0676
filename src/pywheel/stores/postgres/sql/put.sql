-- name: ids
SELECT nextval('{p}id') FROM generate_series(1, %(count)s)

-- A put says, as the last thing it does, how far some worker looks, and which jobs were stored: NULL is all.
-- name: put_one
WITH j AS (
    INSERT INTO {p}job (id, topic, created, ttr, max_attempts, headers, body)
    VALUES (%(id)s, %(topic)s, {now}, %(ttr)s, %(limit)s, %(headers)s, %(body)s)
),
c AS (INSERT INTO {p}count (topic, live) VALUES (%(topic)s, 1))
INSERT INTO {p}due (id, topic, due) VALUES (%(id)s, %(topic)s, coalesce({now} + %(delay)s::bigint, %(due)s))
RETURNING (SELECT max(horizon) FROM {p}worker WHERE topics IS NOT NULL), NULL

-- name: put_one_keyed
WITH k AS (
    INSERT INTO {p}live_key (topic, key, job) VALUES (%(topic)s, %(key)s, %(id)s) ON CONFLICT DO NOTHING RETURNING job
),
j AS (
    INSERT INTO {p}job (id, topic, created, key, ttr, max_attempts, headers, body)
    SELECT job, %(topic)s, {now}, %(key)s, %(ttr)s, %(limit)s, %(headers)s, %(body)s FROM k
),
c AS (INSERT INTO {p}count (topic, live) SELECT %(topic)s, 1 FROM k),
d AS (INSERT INTO {p}due (id, topic, due) SELECT job, %(topic)s, coalesce({now} + %(delay)s::bigint, %(due)s) FROM k)
SELECT (SELECT max(horizon) FROM {p}worker WHERE topics IS NOT NULL), ARRAY(SELECT job FROM k)

-- name: put_many
WITH t AS (SELECT {now} AS now),
n AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::bigint[], %(topics)s::int[], %(dues)s::bigint[], %(delays)s::bigint[], %(ttrs)s::bigint[],
        %(limits)s::bigint[], %(headers)s::text[], %(bodies)b::bytea[])
    AS n (id, topic, due, delay, ttr, max_attempts, headers, body)
),
j AS (
    INSERT INTO {p}job (id, topic, created, ttr, max_attempts, headers, body)
    SELECT id, topic, now, ttr, max_attempts, headers, body FROM n CROSS JOIN t
),
d AS (INSERT INTO {p}due (id, topic, due) SELECT id, topic, coalesce(now + delay, due) FROM n CROSS JOIN t),
c AS (INSERT INTO {p}count (topic, live) SELECT topic, count(*) FROM n GROUP BY topic)
SELECT max(horizon), NULL FROM {p}worker WHERE topics IS NOT NULL

-- In the order of their keys: two that take the same ones do not wait for each other.
-- name: put_many_keyed
WITH t AS (SELECT {now} AS now),
n AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::bigint[], %(topics)s::int[], %(dues)s::bigint[], %(delays)s::bigint[], %(ttrs)s::bigint[],
        %(limits)s::bigint[], %(headers)s::text[], %(bodies)b::bytea[], %(keys)s::text[])
    AS n (id, topic, due, delay, ttr, max_attempts, headers, body, key)
),
k AS (
    INSERT INTO {p}live_key (topic, key, job)
    SELECT topic, key, id FROM n WHERE key IS NOT NULL ORDER BY topic, key COLLATE "C", id
    ON CONFLICT DO NOTHING RETURNING job
),
g AS MATERIALIZED (SELECT * FROM n WHERE key IS NULL OR id IN (SELECT job FROM k)),
j AS (
    INSERT INTO {p}job (id, topic, created, key, ttr, max_attempts, headers, body)
    SELECT id, topic, now, key, ttr, max_attempts, headers, body FROM g CROSS JOIN t
),
d AS (INSERT INTO {p}due (id, topic, due) SELECT id, topic, coalesce(now + delay, due) FROM g CROSS JOIN t),
c AS (INSERT INTO {p}count (topic, live) SELECT topic, count(*) FROM g GROUP BY topic)
SELECT (SELECT max(horizon) FROM {p}worker WHERE topics IS NOT NULL), ARRAY(SELECT id FROM g)

-- name: present
SELECT id FROM {p}job WHERE id = ANY(%(ids)s::bigint[])
