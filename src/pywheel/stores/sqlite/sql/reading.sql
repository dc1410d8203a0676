-- Readings for people.

-- From when on no job is due that runs: from there on one need not look whether a job runs.
-- name: forecast_idle
SELECT coalesce(max(j.due) + 1, :first) FROM run r CROSS JOIN job j ON j.id = r.job WHERE :topic IS NULL OR r.topic = :topic

-- How many jobs of the topics are due between each two edges, up to :most each.
-- name: forecast
SELECT json_group_array((
    SELECT count(*) FROM (
        SELECT 1 FROM topic t CROSS JOIN job j INDEXED BY job_due ON j.topic = t.id
        WHERE t.id IN (SELECT value FROM json_each(:topics)) AND j.state IS NULL AND j.due >= e.value ->> 0 AND j.due < e.value ->> 1
            AND (j.due >= :idle OR NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id))
        LIMIT :most
    )
)) FROM json_each(:spans) e

-- name: forecast_topics
SELECT json_group_array(id) FROM (SELECT id FROM topic ORDER BY live DESC)

-- Of each topic when its jobs are due; NULL where these are :share or more.
-- name: forecast_few
SELECT json_group_array(json_array(t.value, json((
    SELECT CASE WHEN count(*) < :share THEN json_group_array(due) END FROM (
        SELECT j.due FROM job j INDEXED BY job_due
        WHERE j.topic = t.value AND j.state IS NULL AND j.due >= :first AND j.due < :end
            AND (j.due >= :idle OR NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id))
        ORDER BY j.due LIMIT :share
    )
)))) FROM json_each(:topics) t

-- The last rows of finished jobs have their topic, but for those of dead ones that died before there was `recent`.
-- name: recent_of_topic
SELECT json_group_array(job) FROM (
    SELECT o.value ->> 1 AS job FROM json_each('[0, 1, 2, 3]') k CROSS JOIN json_each((
        SELECT json_group_array(json_array(ended, job)) FROM (
            SELECT h.ended, h.job FROM history h INDEXED BY history_ended
            WHERE h.topic = :topic AND h.outcome = k.value AND h.ended >= :since
            ORDER BY h.ended DESC, h.job DESC LIMIT :limit
        )
    )) o
    ORDER BY o.value ->> 0 DESC, o.value ->> 1 DESC LIMIT :limit
)

-- Of all topics only those are read on whose last job ended after the first that is wanted.
-- name: recent_anywhere
WITH last AS MATERIALIZED (
    SELECT t.id AS topic, k.value AS outcome, (
        SELECT h.ended FROM history h INDEXED BY history_ended WHERE h.topic = t.id AND h.outcome = k.value AND h.ended >= :since
        ORDER BY h.ended DESC LIMIT 1
    ) AS ended
    FROM topic t CROSS JOIN json_each('[0, 1, 2, 3]') k ORDER BY 3 DESC LIMIT :limit
), first AS MATERIALIZED (
    SELECT CASE WHEN count(ended) < :limit THEN :since ELSE min(ended) END AS ended FROM last
)
SELECT json_group_array(job) FROM (
    SELECT o.value ->> 1 AS job FROM last l CROSS JOIN json_each((
        SELECT json_group_array(json_array(ended, job)) FROM (
            SELECT h.ended, h.job FROM history h INDEXED BY history_ended
            WHERE h.topic = l.topic AND h.outcome = l.outcome AND h.ended >= (SELECT ended FROM first)
            ORDER BY h.ended DESC, h.job DESC LIMIT :limit
        )
    )) o
    WHERE l.ended IS NOT NULL
    ORDER BY o.value ->> 0 DESC, o.value ->> 1 DESC LIMIT :limit
)

-- name: recent
SELECT j.id, t.name, j.key, j.state, j.due, h.started, h.ended, h.attempt, w.name, CASE h.outcome WHEN 2 THEN h.error END
FROM json_each(?) e CROSS JOIN job j ON j.id = e.value CROSS JOIN topic t ON t.id = j.topic
    CROSS JOIN history h ON h.job = j.id AND h.claim = j.claims LEFT JOIN worker w ON w.id = h.worker
WHERE j.state IS NOT NULL
