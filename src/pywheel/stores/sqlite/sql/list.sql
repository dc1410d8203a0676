-- The ids of jobs that may be meant by a filter, behind :after, by id, as one row. What they are by now is looked at
-- job by job: a lease that is over may rule some out.

-- name: ids_between
SELECT json_group_array(id) FROM (
    SELECT j.id FROM job j NOT INDEXED
    WHERE j.id > :after AND j.id <= :until AND j.topic <> 0
    ORDER BY j.id LIMIT :limit
)

-- name: ids_between_of_topic
SELECT json_group_array(id) FROM (
    SELECT j.id FROM job j NOT INDEXED
    WHERE j.id > :after AND j.id <= :until AND j.topic = :topic
    ORDER BY j.id LIMIT :limit
)

-- name: ids_between_live
SELECT json_group_array(id) FROM (
    SELECT j.id FROM job j NOT INDEXED
    WHERE j.id > :after AND j.id <= :until AND j.state IS NULL AND (:topic IS NULL OR j.topic = :topic)
        AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id AND r.lease > :now)
    ORDER BY j.id LIMIT :limit
)

-- name: ids_between_done
SELECT json_group_array(id) FROM (
    SELECT j.id FROM job j NOT INDEXED
    WHERE j.id > :after AND j.id <= :until AND j.state = 0 AND (:topic IS NULL OR j.topic = :topic)
    ORDER BY j.id LIMIT :limit
)

-- name: ids_live
SELECT json_group_array(id) FROM (
    SELECT j.id FROM job j INDEXED BY job_due
    WHERE j.state IS NULL AND j.id > :after AND j.id NOT IN (SELECT r.job FROM run r WHERE r.lease > :now)
    ORDER BY j.id LIMIT :limit
)

-- name: ids_live_of_topic
SELECT json_group_array(id) FROM (
    SELECT j.id FROM job j INDEXED BY job_due
    WHERE j.topic = :topic AND j.state IS NULL AND j.id > :after
        AND NOT EXISTS (SELECT 1 FROM run r WHERE r.job = j.id AND r.lease > :now)
    ORDER BY j.id LIMIT :limit
)

-- name: ids_done
SELECT json_group_array(job) FROM (
    SELECT h.job FROM topic t CROSS JOIN history h INDEXED BY history_ended ON h.topic = t.id
    WHERE (:topic IS NULL OR t.id = :topic) AND h.topic IS NOT NULL AND h.outcome = 0 AND h.job > :after
    ORDER BY h.job LIMIT :limit
)

-- name: ids_finished
SELECT json_group_array(id) FROM (
    SELECT j.id FROM job j INDEXED BY job_finished
    WHERE j.topic = :topic AND j.state = :state AND likely(j.state >= 1) AND j.id > :after
    ORDER BY j.id LIMIT :limit
)

-- name: firsts_finished
SELECT json_group_array(json_array(first, topic)) FROM (
    SELECT t.id AS topic, (
        SELECT min(j.id) FROM job j INDEXED BY job_finished
        WHERE j.topic = t.id AND j.state = :state AND likely(j.state >= 1) AND j.id > :after
    ) AS first
    FROM topic t
    WHERE CASE :state WHEN 1 THEN t.cancelled ELSE t.dead END > 0 AND first IS NOT NULL
    ORDER BY first LIMIT :limit
)

-- name: ids_running
SELECT json_group_array(job) FROM (
    SELECT r.job FROM run r
    WHERE r.job > :after AND (:topic IS NULL OR r.topic = :topic)
        AND CASE WHEN :over THEN r.lease <= :now ELSE r.lease > :now END
    ORDER BY r.job LIMIT :limit
)

-- name: ids_of_key
SELECT json_group_array(id) FROM (
    SELECT j.id FROM topic t CROSS JOIN job j INDEXED BY job_live_key ON j.topic = t.id
    WHERE (:topic IS NULL OR t.id = :topic) AND j.key = :key AND j.key IS NOT NULL AND j.state IS NULL
        AND j.passed IS NULL AND j.id > :after
    UNION ALL
    SELECT j.id FROM topic t CROSS JOIN job j INDEXED BY job_old_key ON j.topic = t.id
    WHERE (:topic IS NULL OR t.id = :topic) AND j.key = :key AND j.key IS NOT NULL
        AND (j.state IS NOT NULL OR j.passed IS NOT NULL) AND j.id > :after
    ORDER BY 1 LIMIT :limit
)

-- name: sizes
SELECT (SELECT coalesce(max(id), 0) FROM job), total(live), total(done) FROM topic WHERE :topic IS NULL OR id = :topic
