-- name: roster
SELECT json_group_array(json_array(worker, json(topics))) FROM member

-- name: topic_name
SELECT name FROM topic WHERE id = ?

-- name: hint_one
INSERT INTO hint (slot, job) VALUES (?, ?)

-- name: hint_many
INSERT INTO hint (slot, job) SELECT value ->> 0, value ->> 1 FROM json_each(?)

-- name: hint_last
SELECT last_insert_rowid()

-- name: hints_trim
DELETE FROM hint WHERE seq <= ?

-- name: hints_end
SELECT coalesce(max(seq), 0) FROM hint

-- Whether hints that came after one are for a slot, or for all.
-- name: hints_since
SELECT coalesce(max(seq), 0), coalesce(max(slot IN (:slot, -1)), 0) FROM hint WHERE seq > :after

-- name: hints_for
SELECT (SELECT min(seq) FROM hint), (SELECT max(seq) FROM hint),
    (SELECT count(*) FROM hint WHERE seq > :after AND slot = -1),
    (SELECT json_group_array(json_array(j.next, j.id, t.name, j.priority))
        FROM (SELECT job FROM hint WHERE seq > :after AND slot = :slot GROUP BY job ORDER BY min(seq)) h
            CROSS JOIN job j ON j.id = h.job CROSS JOIN topic t ON t.id = j.topic
        WHERE j.state = 0)

-- name: lease_first
SELECT min(next) FROM job WHERE state = 1

-- name: pause_of
SELECT t.paused, (SELECT max(seq) FROM hint WHERE slot = -1 AND job IN (0, t.id)), (SELECT min(seq) FROM hint)
FROM topic t WHERE t.name = ?
