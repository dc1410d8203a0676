-- Readings for people.

-- name: bodies_of_page
SELECT id, length(body), IF(%(preview)s IS NULL, body, left(body, %(preview)s)) FROM {p}job WHERE id IN (%(ids)s)

-- name: forecast
SELECT count(*) FROM (
    SELECT 1 FROM {p}due FORCE INDEX (due) WHERE topic IN (%(topics)s) AND due >= %(first)s AND due < %(next)s LIMIT %(most)s
) found

-- Those with the most jobs first.
-- name: forecast_topics
SELECT t.id FROM {p}topic t LEFT JOIN (SELECT topic, sum(live) AS jobs FROM {p}count GROUP BY topic) c ON c.topic = t.id
ORDER BY c.jobs DESC

-- Topic by topic.
-- name: forecast_few
SELECT topic, due FROM {p}due FORCE INDEX (due) WHERE topic IN (%(topics)s) AND due >= %(first)s AND due < %(end)s
ORDER BY topic, due LIMIT %(most)s

-- name: oldest
SELECT topic, min(due) FROM {p}due GROUP BY topic

-- The index goes by when jobs ended, of all topics: of one, so many of the last %(rows)s as are of it.
-- name: recent
SELECT f.id, f.topic, j.name, f.state, f.due, f.started, f.ended, coalesce(f.attempt, 0), f.worker,
    CASE WHEN f.outcome = 2 AND f.silent IS NULL THEN f.error END
FROM (
    SELECT topic, state, id FROM (
        (SELECT topic, state, id, ended FROM {p}finished FORCE INDEX (ended) WHERE state = 0 AND ended >= %(since)s
        ORDER BY ended DESC LIMIT %(rows)s)
        UNION ALL (SELECT topic, state, id, ended FROM {p}finished FORCE INDEX (ended) WHERE state = 1 AND ended >= %(since)s
        ORDER BY ended DESC LIMIT %(rows)s)
        UNION ALL (SELECT topic, state, id, ended FROM {p}finished FORCE INDEX (ended) WHERE state = 2 AND ended >= %(since)s
        ORDER BY ended DESC LIMIT %(rows)s)
    ) e WHERE %(topic)s IS NULL OR topic = %(topic)s ORDER BY ended DESC, id DESC LIMIT %(limit)s
) w STRAIGHT_JOIN {p}finished f FORCE INDEX (PRIMARY) ON f.topic = w.topic AND f.state = w.state AND f.id = w.id
STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = f.id
