-- Ids of a page's jobs behind %(id)s (and %(due)s), upwards; of each there is one that goes down, as its name says then.
-- What they are by now is looked at one by one: a lease that is over may rule some out.

-- Whether the due time and error of jobs are as asked for; of running ones that is seen later.
-- name: fits
SELECT w.id, coalesce(d.due, r.due, f.due), r.id IS NOT NULL OR coalesce(
    (%(error)s::text IS NULL OR position(%(error)s::text IN coalesce(d.error, f.error)) > 0)
    AND (%(due_from)s::bigint IS NULL OR coalesce(d.due, f.due) >= %(due_from)s)
    AND (%(due_until)s::bigint IS NULL OR coalesce(d.due, f.due) <= %(due_until)s), false)
FROM ({ids}) w
JOIN {p}job j ON j.id = w.id
LEFT JOIN {p}due d ON d.topic = j.topic AND d.id = j.id
LEFT JOIN {p}run r ON r.id = j.id
LEFT JOIN {p}finished f ON f.topic = j.topic AND f.state IN (0, 1, 2) AND f.id = j.id

-- The same of lists of finished jobs, where it is known where they stand: a third of the looks.
-- name: fits_finished
SELECT w.id, coalesce(r.due, f.due), r.id IS NOT NULL OR coalesce(
    (%(error)s::text IS NULL OR position(%(error)s::text IN f.error) > 0)
    AND (%(due_from)s::bigint IS NULL OR f.due >= %(due_from)s)
    AND (%(due_until)s::bigint IS NULL OR f.due <= %(due_until)s), false)
FROM ({ids}) w
JOIN {p}job j ON j.id = w.id
LEFT JOIN {p}run r ON r.id = j.id
LEFT JOIN {p}finished f ON f.topic = j.topic AND f.state = %(state)s AND f.id = j.id

-- name: page_given
SELECT id FROM unnest(%(ids)s::bigint[]) AS w (id)

-- name: page_all
SELECT id FROM {p}job WHERE id {>} %(id)s ORDER BY id {asc} LIMIT %(limit)s

-- name: page_of_topic
SELECT id FROM (
    (SELECT id FROM {p}due WHERE topic = %(topic)s AND id {>} %(id)s ORDER BY id {asc} LIMIT %(limit)s)
    UNION ALL (SELECT id FROM {p}run WHERE topic = %(topic)s AND id {>} %(id)s ORDER BY id {asc} LIMIT %(limit)s)
    UNION ALL (SELECT id FROM {p}finished WHERE topic = %(topic)s AND state = 0 AND id {>} %(id)s ORDER BY id {asc} LIMIT %(limit)s)
    UNION ALL (SELECT id FROM {p}finished WHERE topic = %(topic)s AND state = 1 AND id {>} %(id)s ORDER BY id {asc} LIMIT %(limit)s)
    UNION ALL (SELECT id FROM {p}finished WHERE topic = %(topic)s AND state = 2 AND id {>} %(id)s ORDER BY id {asc} LIMIT %(limit)s)
) found ORDER BY id {asc} LIMIT %(limit)s

-- name: page_of_key
SELECT id FROM {p}job WHERE key = %(key)s AND topic = %(topic)s AND id {>} %(id)s ORDER BY id {asc} LIMIT %(limit)s

-- name: page_of_key_anywhere
SELECT j.id FROM {p}topic t CROSS JOIN LATERAL (
    SELECT id FROM {p}job WHERE key = %(key)s AND topic = t.id AND id {>} %(id)s ORDER BY id {asc} LIMIT %(limit)s
) j ORDER BY j.id {asc} LIMIT %(limit)s

-- name: page_delayed
SELECT id FROM (
    (SELECT id FROM {p}due WHERE topic = %(topic)s AND id {>} %(id)s ORDER BY id {asc} LIMIT %(limit)s)
    UNION ALL (
        SELECT id FROM {p}run WHERE lease <= %(now)s AND topic = %(topic)s AND id {>} %(id)s ORDER BY id {asc} LIMIT %(limit)s
    )
) found ORDER BY id {asc} LIMIT %(limit)s

-- Of many topics only those are read on whose first job comes before the last that is wanted.
-- name: page_delayed_anywhere
WITH first AS MATERIALIZED (
    SELECT t.id AS topic, d.id FROM {p}topic t CROSS JOIN LATERAL (
        SELECT id FROM {p}due WHERE topic = t.id AND id {>} %(id)s ORDER BY id {asc} LIMIT 1
    ) d ORDER BY d.id {asc} LIMIT %(limit)s
), last AS MATERIALIZED (
    SELECT coalesce((SELECT id FROM first ORDER BY id {asc} OFFSET %(limit)s - 1 LIMIT 1), {end}) AS id
)
SELECT id FROM (
    (SELECT d.id FROM first f CROSS JOIN LATERAL (
        SELECT id FROM {p}due WHERE topic = f.topic AND id {>} %(id)s AND id {<=} (SELECT id FROM last) ORDER BY id {asc} LIMIT %(limit)s
    ) d ORDER BY d.id {asc} LIMIT %(limit)s)
    UNION ALL (SELECT id FROM {p}run WHERE lease <= %(now)s AND id {>} %(id)s ORDER BY id {asc} LIMIT %(limit)s)
) found ORDER BY id {asc} LIMIT %(limit)s

-- name: page_running
SELECT id FROM {p}run WHERE lease > %(now)s AND (%(topic)s::int IS NULL OR topic = %(topic)s) AND id {>} %(id)s
ORDER BY id {asc} LIMIT %(limit)s

-- Those too whose lease is over, and who have no attempt left.
-- name: page_finished
SELECT id FROM (
    (SELECT id FROM {p}finished WHERE topic = %(topic)s AND state = %(state)s AND id {>} %(id)s ORDER BY id {asc} LIMIT %(limit)s)
    UNION ALL (
        SELECT id FROM {p}run WHERE %(state)s = 2 AND lease <= %(now)s AND topic = %(topic)s AND id {>} %(id)s
        ORDER BY id {asc} LIMIT %(limit)s
    )
) found ORDER BY id {asc} LIMIT %(limit)s

-- name: page_finished_anywhere
WITH first AS MATERIALIZED (
    SELECT t.id AS topic, d.id FROM {p}topic t CROSS JOIN LATERAL (
        SELECT id FROM {p}finished WHERE topic = t.id AND state = %(state)s AND id {>} %(id)s ORDER BY id {asc} LIMIT 1
    ) d ORDER BY d.id {asc} LIMIT %(limit)s
), last AS MATERIALIZED (
    SELECT coalesce((SELECT id FROM first ORDER BY id {asc} OFFSET %(limit)s - 1 LIMIT 1), {end}) AS id
)
SELECT id FROM (
    (SELECT d.id FROM first f CROSS JOIN LATERAL (
        SELECT id FROM {p}finished WHERE topic = f.topic AND state = %(state)s AND id {>} %(id)s AND id {<=} (SELECT id FROM last)
        ORDER BY id {asc} LIMIT %(limit)s
    ) d ORDER BY d.id {asc} LIMIT %(limit)s)
    UNION ALL (
        SELECT id FROM {p}run WHERE %(state)s = 2 AND lease <= %(now)s AND id {>} %(id)s ORDER BY id {asc} LIMIT %(limit)s
    )
) found ORDER BY id {asc} LIMIT %(limit)s

-- name: page_due
SELECT id FROM {p}due WHERE topic = %(topic)s AND (due, id) {>} (%(due)s, %(id)s) AND due {<=} %(until)s
ORDER BY due {asc}, id {asc} LIMIT %(limit)s

-- name: page_due_anywhere
WITH first AS MATERIALIZED (
    SELECT t.id AS topic, d.due, d.id FROM {p}topic t CROSS JOIN LATERAL (
        SELECT due, id FROM {p}due WHERE topic = t.id AND (due, id) {>} (%(due)s, %(id)s) AND due {<=} %(until)s
        ORDER BY due {asc}, id {asc} LIMIT 1
    ) d ORDER BY d.due {asc}, d.id {asc} LIMIT %(limit)s
), last AS MATERIALIZED (
    SELECT coalesce((SELECT due FROM first ORDER BY due {asc}, id {asc} OFFSET %(limit)s - 1 LIMIT 1), %(until)s) AS due
)
SELECT d.id FROM first f CROSS JOIN LATERAL (
    SELECT due, id FROM {p}due WHERE topic = f.topic AND (due, id) {>} (%(due)s, %(id)s) AND due {<=} (SELECT due FROM last)
    ORDER BY due {asc}, id {asc} LIMIT %(limit)s
) d ORDER BY d.due {asc}, d.id {asc} LIMIT %(limit)s
