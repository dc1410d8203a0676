-- name: ids
SELECT nextval('{p}id') FROM generate_series(1, %(count)s)

-- One plain job: what is put most often, so with the fewest steps.
-- name: put_one
WITH t AS (SELECT {now} AS now),
j AS (INSERT INTO {p}job (id, topic, created, body) SELECT %(id)s, %(topic)s, now, %(body)s FROM t),
c AS (INSERT INTO {p}count (topic, live) VALUES (%(topic)s, 1))
INSERT INTO {p}due (id, topic, due) SELECT %(id)s, %(topic)s, coalesce(now + %(delay)s::bigint, %(due)s::bigint) FROM t
RETURNING (SELECT now FROM t)

-- name: put_many
WITH t AS (SELECT {now} AS now),
n AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::bigint[], %(topics)s::int[], %(dues)s::bigint[], %(delays)s::bigint[], %(ttrs)s::bigint[],
        %(limits)s::bigint[], %(headers)s::text[], %(bodies)s::bytea[])
    AS n (id, topic, due, delay, ttr, max_attempts, headers, body)
),
j AS (
    INSERT INTO {p}job (id, topic, created, ttr, max_attempts, headers, body)
    SELECT id, topic, now, ttr, max_attempts, headers, body FROM n CROSS JOIN t
),
d AS (INSERT INTO {p}due (id, topic, due) SELECT id, topic, coalesce(now + delay, due) FROM n CROSS JOIN t),
c AS (INSERT INTO {p}count (topic, live) SELECT topic, count(*) FROM n GROUP BY topic)
SELECT now FROM t

-- name: present
SELECT count(*) FROM {p}job WHERE id = ANY(%(ids)s::bigint[])
