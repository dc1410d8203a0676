-- Readings for people.

-- name: page_bodies
SELECT id, length(body), CASE WHEN %(preview)s::bigint IS NULL THEN body ELSE substring(body FROM 1 FOR %(preview)s::int) END
FROM {p}job WHERE id = ANY(%(ids)s::bigint[])

-- How many jobs of the topics are due between each two edges, up to %(most)s each.
-- name: forecast
SELECT (
    SELECT count(*)::int FROM (
        SELECT FROM unnest(%(topics)s::int[]) t (id) CROSS JOIN LATERAL (
            SELECT FROM {p}due WHERE topic = t.id AND due >= s.first AND due < s.stop LIMIT %(most)s
        ) d LIMIT %(most)s
    ) found
) FROM unnest(%(firsts)s::bigint[], %(ends)s::bigint[]) WITH ORDINALITY AS s (first, stop, place) ORDER BY s.place

-- Those with the most jobs first.
-- name: forecast_topics
SELECT id FROM (SELECT topic AS id, live FROM {p}count UNION ALL SELECT id, 0 FROM {p}topic) c GROUP BY id ORDER BY sum(live) DESC

-- Of each topic when its jobs are due; NULL where these are %(share)s or more.
-- name: forecast_few
SELECT t.id, (
    SELECT CASE WHEN count(*) < %(share)s THEN coalesce(array_agg(due), '{}') END FROM (
        SELECT due FROM {p}due WHERE topic = t.id AND due >= %(first)s AND due < %(end)s ORDER BY due LIMIT %(share)s
    ) d
)
FROM unnest(%(topics)s::int[]) t (id)

-- name: oldest
SELECT t.name, d.due FROM {p}topic t CROSS JOIN LATERAL (SELECT due FROM {p}due WHERE topic = t.id ORDER BY due, id LIMIT 1) d

-- The index goes by when jobs ended, of all topics: of one, so many of the last %(rows)s as are of it.
-- name: recent
SELECT f.id, f.topic, j.key, f.state, f.due, f.started, f.ended, coalesce(f.attempt, 0), f.worker,
    CASE WHEN f.outcome = 2 AND f.silent IS NULL THEN f.error END
FROM (
    SELECT topic, state, id FROM (
        (SELECT topic, state, id, ended FROM {p}finished WHERE state = 0 AND ended >= %(since)s ORDER BY ended DESC LIMIT %(rows)s)
        UNION ALL (SELECT topic, state, id, ended FROM {p}finished WHERE state = 1 AND ended >= %(since)s ORDER BY ended DESC LIMIT %(rows)s)
        UNION ALL (SELECT topic, state, id, ended FROM {p}finished WHERE state = 2 AND ended >= %(since)s ORDER BY ended DESC LIMIT %(rows)s)
    ) e WHERE %(topic)s::int IS NULL OR topic = %(topic)s ORDER BY ended DESC, id DESC LIMIT %(limit)s
) w JOIN {p}finished f ON f.topic = w.topic AND f.state = w.state AND f.id = w.id JOIN {p}job j ON j.id = f.id
