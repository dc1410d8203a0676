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
    WHERE j.topic = :topic AND j.state = :state AND likely(j.state >= 1) AND j.id {>} :id
    ORDER BY j.id {asc} LIMIT :limit
)

-- Of all topics only those are read on whose first job comes before the last that is wanted.
-- name: page_finished_anywhere
WITH first AS MATERIALIZED (
    SELECT topic, job AS id FROM (
        SELECT t.id AS topic, (
            SELECT j.id FROM job j INDEXED BY job_finished
            WHERE j.topic = t.id AND j.state = :state AND likely(j.state >= 1) AND j.id {>} :id
            ORDER BY j.id {asc} LIMIT 1
        ) AS job
        FROM topic t WHERE CASE :state WHEN 1 THEN t.cancelled ELSE t.dead END > 0
    ) WHERE job IS NOT NULL ORDER BY job {asc} LIMIT :limit
), last AS MATERIALIZED (
    SELECT coalesce((SELECT id FROM first ORDER BY id {asc} LIMIT 1 OFFSET :limit - 1), {end}) AS id
)
SELECT json_group_array(id) FROM (
    SELECT o.value AS id FROM first f CROSS JOIN json_each((
        SELECT json_group_array(id) FROM (
            SELECT j.id FROM job j INDEXED BY job_finished
            WHERE j.topic = f.topic AND j.state = :state AND likely(j.state >= 1) AND j.id {>} :id
                AND j.id {<=} (SELECT id FROM last)
            ORDER BY j.id {asc} LIMIT :limit
        )
    )) o
    ORDER BY o.value {asc} LIMIT :limit
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

-- name: page_due_anywhere
WITH first AS MATERIALIZED (
    SELECT j.topic, j.due, j.id FROM topic t CROSS JOIN job j ON j.id = coalesce(
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
), last AS MATERIALIZED (
    SELECT coalesce((SELECT due FROM first ORDER BY due {asc}, id {asc} LIMIT 1 OFFSET :limit - 1), :until) AS due
)
SELECT json_group_array(json(place)) FROM (
    SELECT o.value AS place FROM first f CROSS JOIN json_each((
        SELECT json_group_array(json_array(due, id)) FROM (
            SELECT * FROM (
                SELECT j.due, j.id FROM job j INDEXED BY job_due
                WHERE j.topic = f.topic AND j.state IS NULL AND j.due = :due AND +j.due {<=} :until AND j.id {>} :id
                    AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
                ORDER BY j.id {asc} LIMIT :limit
            )
            UNION ALL
            SELECT * FROM (
                SELECT j.due, j.id FROM job j INDEXED BY job_due
                WHERE j.topic = f.topic AND j.state IS NULL AND j.due {>} :due AND j.due {<=} (SELECT due FROM last)
                    AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
                ORDER BY j.due {asc}, j.id {asc} LIMIT :limit
            )
            LIMIT :limit
        )
    )) o
    ORDER BY o.value ->> 0 {asc}, o.value ->> 1 {asc} LIMIT :limit
)

-- Without their bodies: those whose due time and error are as asked for. Of one with a claim the due time is seen later.
-- name: page_heads
SELECT * FROM ({get}) WHERE (:error IS NULL OR instr(error, :error) > 0)
    AND (claim IS NOT NULL OR ((:due_from IS NULL OR due >= :due_from) AND (:due_until IS NULL OR due <= :due_until)))

-- Only the beginning of a body that is not large; the caller reads that of a large one.
-- name: page_bodies
SELECT j.id, length(j.body),
    CASE WHEN :preview IS NULL THEN j.body WHEN length(j.body) <= :large THEN substr(j.body, 1, :preview) END
FROM json_each(:ids) e CROSS JOIN job j ON j.id = e.value
