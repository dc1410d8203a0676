-- What may be wrong: `find_` gives the ids of all that are, `mend_` makes them right, in this order. No index is trusted.

-- name: find_nowhere
SELECT id FROM job NOT INDEXED WHERE state IS NOT NULL AND state NOT IN (0, 1, 2) AND NOT (state = 3 AND topic = 0)

-- name: mend_nowhere
UPDATE job AS j SET
    state = NULL, ahead = ahead + :now - due, due = :now,
    passed = CASE WHEN EXISTS (
        SELECT 1 FROM job h WHERE h.topic = j.topic AND h.key = j.key AND h.state IS NULL AND h.passed IS NULL
    ) THEN 1 ELSE passed END
WHERE id IN (SELECT value FROM json_each(:ids))

-- name: find_twice
SELECT r.job AS id FROM run r CROSS JOIN job j ON j.id = r.job WHERE j.topic = r.topic AND j.state IS NOT NULL

-- name: find_no_job
SELECT r.job AS id FROM run r WHERE NOT EXISTS (SELECT 1 FROM job j WHERE j.id = r.job AND j.topic = r.topic)

-- name: mend_run
DELETE FROM run WHERE job IN (SELECT value FROM json_each(:ids))

-- name: find_topics
SELECT j.id FROM job j NOT INDEXED WHERE j.topic <> 0 AND NOT EXISTS (SELECT 1 FROM topic t WHERE t.id = j.topic)

-- name: find_claims
SELECT j.id FROM (SELECT job, max(claim) AS claim FROM history GROUP BY job) h CROSS JOIN job j ON j.id = h.job
WHERE h.claim > coalesce(j.claims, 0)

-- name: mend_claims
UPDATE job SET forgiven = coalesce(forgiven, 0) + h.claim - coalesce(claims, 0), claims = h.claim
FROM (SELECT job, max(claim) AS claim FROM history GROUP BY job) h
WHERE h.job = job.id AND job.id IN (SELECT value FROM json_each(:ids))

-- name: find_leases
SELECT j.id FROM run r CROSS JOIN job j ON j.id = r.job
WHERE r.claim <> coalesce(j.claims, 0) + 1 OR r.attempt <> r.claim - coalesce(j.forgiven, 0)

-- A receipt that was given out is not given out again.
-- name: mend_leases
UPDATE job SET claims = max(coalesce(claims, 0), r.claim), forgiven = max(coalesce(claims, 0), r.claim) + 1 - r.attempt
FROM run r WHERE r.job = job.id AND job.id IN (SELECT value FROM json_each(:ids))

-- name: mend_receipts
UPDATE run SET claim = j.claims + 1
FROM job j WHERE j.id = run.job AND run.job IN (SELECT value FROM json_each(:ids))

-- name: find_history
SELECT DISTINCT h.job AS id FROM history h WHERE NOT EXISTS (SELECT 1 FROM job j WHERE j.id = h.job AND j.topic <> 0)

-- name: mend_history
DELETE FROM history WHERE job IN (SELECT value FROM json_each(:ids))

-- The last row of a done or cancelled job has its topic, and that of a dead one may have: long ago it had none. No other
-- row has one.
-- name: find_ends
SELECT j.id FROM job j NOT INDEXED WHERE j.state IN (0, 1) AND j.topic <> 0 AND NOT EXISTS (
    SELECT 1 FROM history h WHERE h.job = j.id AND h.claim = j.claims AND h.outcome = j.state AND h.topic = j.topic
)
UNION
SELECT j.id FROM history h NOT INDEXED CROSS JOIN job j ON j.id = h.job
WHERE h.topic IS NOT NULL AND NOT (
    h.claim = j.claims AND h.topic = j.topic AND j.state IS NOT NULL
    AND CASE j.state WHEN 2 THEN h.outcome IN (2, 3) ELSE h.outcome = j.state END
)

-- name: mend_ends
UPDATE history SET topic = j.topic, outcome = j.state
FROM job j WHERE j.id = history.job AND j.claims = history.claim AND j.state IN (0, 1)
    AND history.job IN (SELECT value FROM json_each(:ids))

-- name: mend_other_ends
UPDATE history SET topic = NULL WHERE topic IS NOT NULL AND job IN (SELECT value FROM json_each(:ids)) AND NOT EXISTS (
    SELECT 1 FROM job j WHERE j.id = history.job AND j.claims = history.claim AND j.state IN (0, 1)
)

-- name: mend_missing_ends
INSERT INTO history (job, claim, attempt, ended, outcome, topic)
SELECT j.id, coalesce(j.claims, 0), coalesce(j.claims, 0) - coalesce(j.forgiven, 0), :now, j.state, j.topic
FROM json_each(:ids) e CROSS JOIN job j ON j.id = e.value
WHERE j.state IN (0, 1) AND NOT EXISTS (SELECT 1 FROM history h WHERE h.job = j.id AND h.claim = coalesce(j.claims, 0))

-- Those behind `counted` are live, and counted when somebody asks.
-- name: find_counts
SELECT t.name AS id FROM topic t LEFT JOIN (
    SELECT topic, sum(state IS NULL AND id <= (SELECT job FROM counted)) AS live, sum(state IS 0) AS done,
        sum(state IS 1) AS cancelled, sum(state IS 2) AS dead, sum(state IS NOT NULL AND id > (SELECT job FROM counted)) AS odd
    FROM job NOT INDEXED GROUP BY topic
) j ON j.topic = t.id
WHERE (t.live, t.done, t.cancelled, t.dead, 0)
    <> (coalesce(j.live, 0), coalesce(j.done, 0), coalesce(j.cancelled, 0), coalesce(j.dead, 0), coalesce(j.odd, 0))

-- name: mend_counts
UPDATE topic SET live = coalesce(c.live, 0), done = coalesce(c.done, 0), cancelled = coalesce(c.cancelled, 0),
    dead = coalesce(c.dead, 0)
FROM (
    SELECT t.id, sum(j.id IS NOT NULL AND j.state IS NULL) AS live, sum(j.state IS 0) AS done, sum(j.state IS 1) AS cancelled,
        sum(j.state IS 2) AS dead
    FROM topic t LEFT JOIN job j ON j.topic = t.id GROUP BY t.id
) c WHERE c.id = topic.id

-- name: mend_counted
UPDATE counted SET job = (SELECT coalesce(max(id), 0) FROM job)
