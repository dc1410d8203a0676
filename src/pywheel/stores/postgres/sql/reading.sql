-- Readings for people.

-- name: page_bodies
SELECT id, length(body), CASE WHEN %(preview)s::bigint IS NULL THEN body ELSE substring(body FROM 1 FOR %(preview)s::int) END
FROM {p}job WHERE id = ANY(%(ids)s::bigint[])

-- How many jobs of the topics are due between each two edges, up to %(most)s each.
-- name: forecast
SELECT (
    SELECT count(*)::int FROM (
        SELECT FROM unnest(%(topics)s::int[]) t (id) CROSS JOIN LATERAL (
            SELECT FROM {p}due WHERE topic = t.id AND due >= s.first AND due < s.next LIMIT %(most)s
        ) d LIMIT %(most)s
    ) found
) FROM unnest(%(firsts)s::bigint[], %(nexts)s::bigint[]) WITH ORDINALITY AS s (first, next, place) ORDER BY s.place

-- The first due times of every topic, and how many there are between each two edges: the first number is that before the
-- first edge, which is 0. Topics that may have more are named instead.
-- name: forecast_topics
WITH share AS MATERIALIZED (SELECT greatest(%(rows)s / greatest(count(*), 1), 1) AS jobs FROM {p}topic),
soon AS MATERIALIZED (
    SELECT t.id AS topic, d.due FROM {p}topic t CROSS JOIN LATERAL (
        SELECT due FROM {p}due WHERE topic = t.id AND due >= %(first)s AND due < %(end)s ORDER BY due LIMIT (SELECT jobs FROM share)
    ) d
), size AS MATERIALIZED (SELECT topic, count(*) >= (SELECT jobs FROM share) AS more FROM soon GROUP BY topic)
SELECT 0, width_bucket(s.due, %(edges)s::bigint[]), count(*)::int FROM soon s JOIN size z ON z.topic = s.topic AND NOT z.more
GROUP BY 2
UNION ALL SELECT 1, topic, 0 FROM size WHERE more

-- name: oldest
SELECT t.name, d.due FROM {p}topic t CROSS JOIN LATERAL (SELECT due FROM {p}due WHERE topic = t.id ORDER BY due, id LIMIT 1) d

-- The index goes by when jobs ended, of all topics: of one, so many of the last %(rows)s as are of it.
-- name: recent
SELECT f.id, f.topic, j.key, f.state, f.due, f.started, f.ended, coalesce(f.attempt, 0), f.worker,
    CASE WHEN f.outcome = 2 THEN f.error END
FROM (
    SELECT * FROM (
        (SELECT * FROM {p}finished WHERE state = 0 AND ended >= %(since)s ORDER BY ended DESC LIMIT %(rows)s)
        UNION ALL (SELECT * FROM {p}finished WHERE state = 1 AND ended >= %(since)s ORDER BY ended DESC LIMIT %(rows)s)
        UNION ALL (SELECT * FROM {p}finished WHERE state = 2 AND ended >= %(since)s ORDER BY ended DESC LIMIT %(rows)s)
    ) e WHERE %(topic)s::int IS NULL OR topic = %(topic)s ORDER BY ended DESC, id DESC LIMIT %(limit)s
) f JOIN {p}job j ON j.id = f.id
