-- Readings for people.

-- How many jobs of the topics are due between each two edges, up to :most each.
-- name: forecast
SELECT json_group_array((
    SELECT count(*) FROM (
        SELECT 1 FROM json_each(:topics) t CROSS JOIN job j INDEXED BY job_due ON j.topic = t.value
        WHERE j.state IS NULL AND j.due >= e.value ->> 0 AND j.due < e.value ->> 1
            AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
        LIMIT :most
    )
)) FROM json_each(:spans) e

-- name: count_topics
SELECT count(*) FROM topic

-- The first due times of every topic from :first on, and before :end.
-- name: forecast_topics
SELECT json_group_array(json_array(t.id, json((
    SELECT json_group_array(due) FROM (
        SELECT j.due FROM job j INDEXED BY job_due
        WHERE j.topic = t.id AND j.state IS NULL AND j.due >= :first AND j.due < :end
            AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
        ORDER BY j.due LIMIT :share
    )
)))) FROM topic t

-- The last rows of finished jobs have their topic, but for those of dead ones that died before there was `recent`.
-- name: recent_firsts
SELECT json_group_array(json_array(ended, job, topic, outcome)) FROM (
    SELECT h.ended, h.job, h.topic, h.outcome
    FROM topic t CROSS JOIN json_each('[0, 1, 2, 3]') o CROSS JOIN history h ON (h.job, h.claim) = (
        SELECT f.job, f.claim FROM history f INDEXED BY history_ended
        WHERE f.topic = t.id AND f.outcome = o.value AND f.ended >= :since
        ORDER BY f.ended DESC, f.job DESC LIMIT 1
    )
    WHERE :topic IS NULL OR t.id = :topic
    ORDER BY 1 DESC, 2 DESC LIMIT :limit
)

-- Behind (:ended, :job), in two parts, as in `windows`.
-- name: recent_behind
SELECT json_group_array(json_array(ended, job)) FROM (
    SELECT * FROM (
        SELECT h.ended, h.job FROM history h INDEXED BY history_ended
        WHERE h.topic = :topic AND h.outcome = :outcome AND h.ended = :ended AND h.job < :job
        ORDER BY h.job DESC LIMIT :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT h.ended, h.job FROM history h INDEXED BY history_ended
        WHERE h.topic = :topic AND h.outcome = :outcome AND h.ended < :ended AND h.ended >= :since
        ORDER BY h.ended DESC, h.job DESC LIMIT :limit
    )
    LIMIT :limit
)

-- name: recent
SELECT j.id, t.name, j.key, j.state, j.due, h.started, h.ended, h.attempt, w.name, CASE h.outcome WHEN 2 THEN h.error END
FROM json_each(?) e CROSS JOIN job j ON j.id = e.value CROSS JOIN topic t ON t.id = j.topic
    CROSS JOIN history h ON h.job = j.id AND h.claim = j.claims LEFT JOIN worker w ON w.id = h.worker
WHERE j.state IS NOT NULL
