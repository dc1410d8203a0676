-- Ids of a page's jobs behind %(id)s (and %(due)s), upwards; of each there is one that goes down, as its name says then.
-- What they are by now is looked at one by one. A range of an index is read where its topic stands in the statement: not
-- where that is a column of another table.

-- Whether the due time and error of jobs are as asked for; of running ones that is seen later.
-- name: fits
SELECT w.id, coalesce(d.due, r.due, f.due), r.id IS NOT NULL OR coalesce(
    (%(error)s IS NULL OR instr(coalesce(d.error, f.error), %(error)s) > 0)
    AND (%(due_from)s IS NULL OR coalesce(d.due, f.due) >= %(due_from)s)
    AND (%(due_until)s IS NULL OR coalesce(d.due, f.due) <= %(due_until)s), FALSE)
FROM (%(found)s) w
STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = w.id
{places}

-- The same of lists of finished jobs, where it is known where they stand: a third of the looks.
-- name: fits_finished
SELECT w.id, coalesce(r.due, f.due), r.id IS NOT NULL OR coalesce(
    (%(error)s IS NULL OR instr(f.error, %(error)s) > 0)
    AND (%(due_from)s IS NULL OR f.due >= %(due_from)s)
    AND (%(due_until)s IS NULL OR f.due <= %(due_until)s), FALSE)
FROM (%(found)s) w
STRAIGHT_JOIN {p}job j FORCE INDEX (PRIMARY) ON j.id = w.id
LEFT JOIN {p}run r FORCE INDEX (PRIMARY) ON r.id = j.id
LEFT JOIN {p}finished f FORCE INDEX (PRIMARY) ON f.topic = j.topic AND f.state = %(state)s AND f.id = j.id

-- name: page_all
SELECT id FROM {p}job FORCE INDEX (PRIMARY) WHERE id {>} %(id)s ORDER BY id {asc} LIMIT %(limit)s

-- name: page_key
(SELECT id FROM {p}name FORCE INDEX (PRIMARY) WHERE hash = %(hash)s AND topic = %(topic)s AND id {>} %(id)s
ORDER BY id {asc} LIMIT %(limit)s)

-- name: page_key_anywhere
(SELECT id FROM {p}name FORCE INDEX (PRIMARY) WHERE hash = %(hash)s AND id {>} %(id)s ORDER BY id {asc} LIMIT %(limit)s)

-- name: page_key_topics
SELECT DISTINCT topic FROM {p}name FORCE INDEX (PRIMARY) WHERE hash = %(hash)s

-- name: page_delayed
(SELECT id FROM {p}due FORCE INDEX (PRIMARY) WHERE topic = %(topic)s AND id {>} %(id)s ORDER BY id {asc} LIMIT %(limit)s)

-- name: page_finished
(SELECT id FROM {p}finished FORCE INDEX (PRIMARY) WHERE topic = %(topic)s AND state = %(state)s AND id {>} %(id)s
ORDER BY id {asc} LIMIT %(limit)s)

-- name: page_run
(SELECT id FROM {p}run FORCE INDEX (PRIMARY) WHERE (%(topic)s IS NULL OR topic = %(topic)s) AND id {>} %(id)s
ORDER BY id {asc} LIMIT %(limit)s)

-- name: page_running
(SELECT id FROM {p}run FORCE INDEX (PRIMARY) WHERE lease > %(moment)s AND (%(topic)s IS NULL OR topic = %(topic)s)
AND id {>} %(id)s ORDER BY id {asc} LIMIT %(limit)s)

-- name: page_lost
(SELECT id FROM {p}run FORCE INDEX (PRIMARY) WHERE lease <= %(moment)s AND (%(topic)s IS NULL OR topic = %(topic)s)
AND id {>} %(id)s ORDER BY id {asc} LIMIT %(limit)s)

-- name: page_due
(SELECT due, id FROM (
    (SELECT due, id FROM {p}due FORCE INDEX (due) WHERE topic = %(topic)s AND due = %(due)s AND id {>} %(id)s AND due {<=} %(until)s
    ORDER BY id {asc} LIMIT %(limit)s)
    UNION ALL
    (SELECT due, id FROM {p}due FORCE INDEX (due) WHERE topic = %(topic)s AND due {>} %(due)s AND due {<=} %(until)s
    ORDER BY due {asc}, id {asc} LIMIT %(limit)s)
) d ORDER BY due {asc}, id {asc} LIMIT %(limit)s)

-- Of each topic the first due time, or the last.
-- name: page_due_firsts
SELECT topic, {min}(due) FROM {p}due WHERE due >= %(first)s AND due <= %(last)s GROUP BY topic

-- Of the next %(rows)s jobs of all topics those in a state, for stores of many topics; then the last of those jobs.
-- name: page_walk_delayed
SELECT j.id FROM (SELECT id, topic FROM {p}job FORCE INDEX (PRIMARY) WHERE id {>} %(id)s ORDER BY id {asc} LIMIT %(rows)s) j
STRAIGHT_JOIN {p}due d FORCE INDEX (PRIMARY) ON d.topic = j.topic AND d.id = j.id ORDER BY j.id {asc} LIMIT %(limit)s

-- name: page_walk_finished
SELECT j.id FROM (SELECT id, topic FROM {p}job FORCE INDEX (PRIMARY) WHERE id {>} %(id)s ORDER BY id {asc} LIMIT %(rows)s) j
STRAIGHT_JOIN {p}finished f FORCE INDEX (PRIMARY) ON f.topic = j.topic AND f.state = %(state)s AND f.id = j.id
ORDER BY j.id {asc} LIMIT %(limit)s

-- name: page_walked
SELECT id FROM {p}job FORCE INDEX (PRIMARY) WHERE id {>} %(id)s ORDER BY id {asc} LIMIT 1 OFFSET %(before)s
