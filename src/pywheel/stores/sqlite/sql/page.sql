-- Ids of a page's jobs behind :id (and :due), upwards; of each there is one that goes down, as its name says then. What
-- the jobs are by now is looked at one by one: a lease that is over may rule some out. As one row each.

-- Of the next :rows jobs those of a topic and state, if they are given; -1 is live.
-- name: page_walk
SELECT json_group_array(id) FROM (
    SELECT id FROM (
        SELECT j.id, j.topic, j.state FROM job j NOT INDEXED WHERE j.id {>} :id ORDER BY j.id {asc} LIMIT :rows
    )
    WHERE topic <> 0 AND (:topic IS NULL OR topic = :topic) AND (:state IS NULL OR coalesce(state, -1) = :state)
    LIMIT :limit
)

-- The last of the next :rows jobs.
-- name: page_walked
SELECT j.id FROM job j NOT INDEXED WHERE j.id {>} :id ORDER BY j.id {asc} LIMIT 1 OFFSET :rows - 1

-- How many there are: live, done, cancelled, dead. Those that were put last are not counted yet.
-- name: page_sizes
SELECT json_array(coalesce(sum(live), 0), coalesce(sum(done), 0), coalesce(sum(cancelled), 0), coalesce(sum(dead), 0))
FROM topic WHERE :topic IS NULL OR id = :topic

-- All live jobs are read: for topics that have few.
-- name: page_few_live
SELECT json_group_array(id) FROM (
    SELECT j.id FROM topic t CROSS JOIN job j INDEXED BY job_due ON j.topic = t.id
    WHERE (:topic IS NULL OR t.id = :topic) AND j.state IS NULL AND j.id {>} :id
    ORDER BY j.id {asc} LIMIT :limit
)

-- name: page_few_done
SELECT json_group_array(job) FROM (
    SELECT h.job FROM topic t CROSS JOIN history h INDEXED BY history_ended ON h.topic = t.id
    WHERE (:topic IS NULL OR t.id = :topic) AND h.topic IS NOT NULL AND h.outcome = 0 AND h.job {>} :id
    ORDER BY h.job {asc} LIMIT :limit
)

-- name: page_running
SELECT json_group_array(job) FROM (
    SELECT r.job FROM run r
    WHERE r.job {>} :id AND (:topic IS NULL OR r.topic = :topic)
        AND CASE WHEN :over THEN r.lease <= :now ELSE r.lease > :now END
    ORDER BY r.job {asc} LIMIT :limit
)

-- name: page_finished
SELECT json_group_array(id) FROM (
    SELECT j.id FROM job j INDEXED BY job_finished
    WHERE j.topic = :topic AND j.state = :state AND j.state >= 1 AND j.id {>} :id
    ORDER BY j.id {asc} LIMIT :limit
)

-- Of each topic that has some, the first.
-- name: page_finished_firsts
SELECT json_group_array(json_array(first, topic)) FROM (
    SELECT t.id AS topic, (
        SELECT j.id FROM job j INDEXED BY job_finished
        WHERE j.topic = t.id AND j.state = :state AND j.state >= 1 AND j.id {>} :id
        ORDER BY j.id {asc} LIMIT 1
    ) AS first
    FROM topic t
    WHERE CASE :state WHEN 1 THEN t.cancelled ELSE t.dead END > 0 AND first IS NOT NULL
    ORDER BY first {asc} LIMIT :limit
)

-- name: page_keyed
SELECT json_group_array(id) FROM (
    SELECT * FROM (
        SELECT j.id FROM job j INDEXED BY job_live_key
        WHERE j.topic = :topic AND j.key = :key AND j.key IS NOT NULL AND j.state IS NULL AND j.passed IS NULL AND j.id {>} :id
    )
    UNION ALL
    SELECT * FROM (
        SELECT j.id FROM job j INDEXED BY job_old_key
        WHERE j.topic = :topic AND j.key = :key AND j.key IS NOT NULL AND (j.state IS NOT NULL OR j.passed IS NOT NULL)
            AND j.id {>} :id
        ORDER BY j.id {asc} LIMIT :limit
    )
    ORDER BY 1 {asc} LIMIT :limit
)

-- name: page_keyed_topics
SELECT json_group_array(t.id) FROM topic t
WHERE EXISTS (
    SELECT 1 FROM job j INDEXED BY job_live_key
    WHERE j.topic = t.id AND j.key = :key AND j.key IS NOT NULL AND j.state IS NULL AND j.passed IS NULL
) OR EXISTS (
    SELECT 1 FROM job j INDEXED BY job_old_key
    WHERE j.topic = t.id AND j.key = :key AND j.key IS NOT NULL AND (j.state IS NOT NULL OR j.passed IS NOT NULL)
)

-- In two parts, as in `windows`.
-- name: page_due
SELECT json_group_array(json_array(due, id)) FROM (
    SELECT * FROM (
        SELECT j.due, j.id FROM job j INDEXED BY job_due
        WHERE j.topic = :topic AND j.state IS NULL AND j.due = :due AND +j.due {<=} :until AND j.id {>} :id
            AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
        ORDER BY j.id {asc} LIMIT :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT j.due, j.id FROM job j INDEXED BY job_due
        WHERE j.topic = :topic AND j.state IS NULL AND j.due {>} :due AND j.due {<=} :until
            AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
        ORDER BY j.due {asc}, j.id {asc} LIMIT :limit
    )
    LIMIT :limit
)

-- name: page_due_firsts
SELECT json_group_array(json_array(due, id, topic)) FROM (
    SELECT j.due, j.id, j.topic FROM topic t CROSS JOIN job j ON j.id = coalesce(
        (SELECT f.id FROM job f INDEXED BY job_due
            WHERE f.topic = t.id AND f.state IS NULL AND f.due = :due AND +f.due {<=} :until AND f.id {>} :id
                AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = f.id)
            ORDER BY f.id {asc} LIMIT 1),
        (SELECT f.id FROM job f INDEXED BY job_due
            WHERE f.topic = t.id AND f.state IS NULL AND f.due {>} :due AND f.due {<=} :until
                AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = f.id)
            ORDER BY f.due {asc}, f.id {asc} LIMIT 1)
    )
    ORDER BY j.due {asc}, j.id {asc} LIMIT :limit
)

-- Only the beginning of a body that is not large; the caller reads that of a large one.
-- name: page_bodies
SELECT j.id, length(j.body),
    CASE WHEN :preview IS NULL THEN j.body WHEN length(j.body) <= :large THEN substr(j.body, 1, :preview) END
FROM json_each(:ids) e CROSS JOIN job j ON j.id = e.value
