-- name: find_no_job
SELECT d.id FROM {p}due d WHERE NOT EXISTS (SELECT 1 FROM {p}job j WHERE j.id = d.id AND j.topic = d.topic)
UNION ALL SELECT r.id FROM {p}run r WHERE NOT EXISTS (SELECT 1 FROM {p}job j WHERE j.id = r.id AND j.topic = r.topic)
UNION ALL SELECT f.id FROM {p}finished f WHERE NOT EXISTS (SELECT 1 FROM {p}job j WHERE j.id = f.id AND j.topic = f.topic)

-- name: mend_no_job_due
DELETE d FROM {p}due d LEFT JOIN {p}job j ON j.id = d.id AND j.topic = d.topic WHERE j.id IS NULL

-- name: mend_no_job_run
DELETE r FROM {p}run r LEFT JOIN {p}job j ON j.id = r.id AND j.topic = r.topic WHERE j.id IS NULL

-- name: mend_no_job_finished
DELETE f FROM {p}finished f LEFT JOIN {p}job j ON j.id = f.id AND j.topic = f.topic WHERE j.id IS NULL

-- name: find_twice
SELECT p.id FROM (
    SELECT id, topic FROM {p}due UNION ALL SELECT id, topic FROM {p}run UNION ALL SELECT id, topic FROM {p}finished
) p
GROUP BY p.id, p.topic HAVING count(*) > 1

-- name: mend_twice_due
DELETE d FROM {p}due d LEFT JOIN {p}run r ON r.id = d.id
LEFT JOIN {p}finished f ON f.topic = d.topic AND f.state IN (0, 1, 2) AND f.id = d.id
WHERE r.id IS NOT NULL OR f.id IS NOT NULL

-- name: mend_twice_run
DELETE r FROM {p}run r JOIN {p}finished f ON f.topic = r.topic AND f.state IN (0, 1, 2) AND f.id = r.id

-- name: mend_twice_finished
DELETE f FROM {p}finished f JOIN {p}finished o ON o.topic = f.topic AND o.id = f.id AND o.state < f.state

-- name: find_nowhere
SELECT j.id FROM {p}job j
LEFT JOIN {p}due d ON d.topic = j.topic AND d.id = j.id
LEFT JOIN {p}run r ON r.topic = j.topic AND r.id = j.id
LEFT JOIN {p}finished f ON f.topic = j.topic AND f.state IN (0, 1, 2) AND f.id = j.id
WHERE d.id IS NULL AND r.id IS NULL AND f.id IS NULL

-- name: mend_nowhere
INSERT INTO {p}due (topic, id, due, claims, forgiven)
SELECT j.topic, j.id, {now}, h.claim, h.claim FROM {p}job j
LEFT JOIN (SELECT job, max(claim) AS claim FROM {p}history GROUP BY job) h ON h.job = j.id
LEFT JOIN {p}due d ON d.topic = j.topic AND d.id = j.id
LEFT JOIN {p}run r ON r.topic = j.topic AND r.id = j.id
LEFT JOIN {p}finished f ON f.topic = j.topic AND f.state IN (0, 1, 2) AND f.id = j.id
WHERE d.id IS NULL AND r.id IS NULL AND f.id IS NULL

-- name: find_topics
SELECT j.id FROM {p}job j WHERE NOT EXISTS (SELECT 1 FROM {p}topic t WHERE t.id = j.topic)

-- name: find_leases
SELECT id FROM {p}run WHERE attempt <> claims - coalesce(forgiven, 0)

-- name: mend_leases
UPDATE {p}run SET forgiven = claims + 1 - attempt, claims = claims + 1 WHERE attempt <> claims - coalesce(forgiven, 0)

-- What a running or finished job has tried last stands with it, not in its history.
-- name: find_claims
SELECT d.id FROM {p}due d JOIN (SELECT job, max(claim) AS claim FROM {p}history GROUP BY job) h ON h.job = d.id
WHERE h.claim > coalesce(d.claims, 0)
UNION ALL
SELECT r.id FROM {p}run r JOIN (SELECT job, max(claim) AS claim FROM {p}history GROUP BY job) h ON h.job = r.id
WHERE h.claim >= r.claims
UNION ALL
SELECT f.id FROM {p}finished f JOIN (SELECT job, max(claim) AS claim FROM {p}history GROUP BY job) h ON h.job = f.id
WHERE h.claim >= coalesce(f.claims, 0)

-- name: mend_claims_due
UPDATE {p}due d JOIN (SELECT job, max(claim) AS claim FROM {p}history GROUP BY job) h ON h.job = d.id
SET d.forgiven = coalesce(d.forgiven, 0) + h.claim - coalesce(d.claims, 0), d.claims = h.claim
WHERE h.claim > coalesce(d.claims, 0)

-- name: mend_claims_run
UPDATE {p}run r JOIN (SELECT job, max(claim) AS claim FROM {p}history GROUP BY job) h ON h.job = r.id
SET r.forgiven = coalesce(r.forgiven, 0) + h.claim + 1 - r.claims, r.claims = h.claim + 1
WHERE h.claim >= r.claims

-- name: mend_claims_finished
UPDATE {p}finished f JOIN (SELECT job, max(claim) AS claim FROM {p}history GROUP BY job) h ON h.job = f.id
SET f.forgiven = coalesce(f.forgiven, 0) + h.claim + 1 - coalesce(f.claims, 0), f.claims = h.claim + 1
WHERE h.claim >= coalesce(f.claims, 0)

-- name: find_keys
SELECT k.job AS id FROM {p}live_key k
LEFT JOIN {p}job j ON j.id = k.job AND j.topic = k.topic AND j.hash = k.hash
LEFT JOIN {p}due d ON d.topic = k.topic AND d.id = k.job AND coalesce(d.passed, 0) = 0
LEFT JOIN {p}run r ON r.topic = k.topic AND r.id = k.job AND coalesce(r.passed, 0) = 0
WHERE j.id IS NULL OR (d.id IS NULL AND r.id IS NULL)

-- name: mend_keys
DELETE k FROM {p}live_key k
LEFT JOIN {p}job j ON j.id = k.job AND j.topic = k.topic AND j.hash = k.hash
LEFT JOIN {p}due d ON d.topic = k.topic AND d.id = k.job AND coalesce(d.passed, 0) = 0
LEFT JOIN {p}run r ON r.topic = k.topic AND r.id = k.job AND coalesce(r.passed, 0) = 0
WHERE j.id IS NULL OR (d.id IS NULL AND r.id IS NULL)

-- name: find_keyless
SELECT j.id FROM {p}job j
LEFT JOIN {p}due d ON d.topic = j.topic AND d.id = j.id AND coalesce(d.passed, 0) = 0
LEFT JOIN {p}run r ON r.topic = j.topic AND r.id = j.id AND coalesce(r.passed, 0) = 0
LEFT JOIN {p}live_key k ON k.topic = j.topic AND k.hash = j.hash AND k.job = j.id
WHERE j.hash IS NOT NULL AND (d.id IS NOT NULL OR r.id IS NOT NULL) AND k.job IS NULL

-- name: mend_keyless
INSERT IGNORE INTO {p}live_key (topic, hash, job)
SELECT j.topic, j.hash, max(j.id) FROM {p}job j
LEFT JOIN {p}due d ON d.topic = j.topic AND d.id = j.id AND coalesce(d.passed, 0) = 0
LEFT JOIN {p}run r ON r.topic = j.topic AND r.id = j.id AND coalesce(r.passed, 0) = 0
WHERE j.hash IS NOT NULL AND (d.id IS NOT NULL OR r.id IS NOT NULL) GROUP BY j.topic, j.hash

-- name: mend_passed_due
UPDATE {p}due d JOIN {p}job j ON j.topic = d.topic AND j.id = d.id
LEFT JOIN {p}live_key k ON k.topic = j.topic AND k.hash = j.hash AND k.job = j.id
SET d.passed = 1 WHERE j.hash IS NOT NULL AND coalesce(d.passed, 0) = 0 AND k.job IS NULL

-- name: mend_passed_run
UPDATE {p}run r JOIN {p}job j ON j.topic = r.topic AND j.id = r.id
LEFT JOIN {p}live_key k ON k.topic = j.topic AND k.hash = j.hash AND k.job = j.id
SET r.passed = 1 WHERE j.hash IS NOT NULL AND coalesce(r.passed, 0) = 0 AND k.job IS NULL

-- name: find_names
SELECT j.id FROM {p}job j WHERE j.hash IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM {p}name n WHERE n.hash = j.hash AND n.topic = j.topic AND n.id = j.id)
UNION ALL
SELECT n.id FROM {p}name n WHERE NOT EXISTS (
    SELECT 1 FROM {p}job j WHERE j.id = n.id AND j.hash = n.hash AND j.topic = n.topic
)

-- name: mend_names_gone
DELETE n FROM {p}name n LEFT JOIN {p}job j ON j.id = n.id AND j.hash = n.hash AND j.topic = n.topic WHERE j.id IS NULL

-- name: mend_names
INSERT IGNORE INTO {p}name (hash, topic, id) SELECT hash, topic, id FROM {p}job WHERE hash IS NOT NULL

-- name: find_history
SELECT DISTINCT h.job AS id FROM {p}history h WHERE NOT EXISTS (SELECT 1 FROM {p}job j WHERE j.id = h.job)

-- name: mend_history
DELETE h FROM {p}history h LEFT JOIN {p}job j ON j.id = h.job WHERE j.id IS NULL

-- name: find_counts
SELECT t.name AS id FROM {p}topic t
LEFT JOIN (
    SELECT topic, sum(live) AS live, sum(done) AS done, sum(dead) AS dead, sum(cancelled) AS cancelled FROM {p}count GROUP BY topic
) c ON c.topic = t.id
LEFT JOIN ({recount}) r ON r.topic = t.id
WHERE coalesce(c.live, 0) <> coalesce(r.live, 0) OR coalesce(c.done, 0) <> coalesce(r.done, 0)
    OR coalesce(c.dead, 0) <> coalesce(r.dead, 0) OR coalesce(c.cancelled, 0) <> coalesce(r.cancelled, 0)

-- name: mend_counts_gone
DELETE FROM {p}count

-- name: mend_counts
INSERT INTO {p}count (topic, live, done, dead, cancelled) {recount}

-- name: find_lanes
SELECT l.id FROM {p}lane l LEFT JOIN {p}due d ON d.topic = l.topic AND d.id = l.id LEFT JOIN {p}job j ON j.id = l.id
WHERE NOT (l.due <=> d.due) OR j.id IS NULL

-- name: mend_lanes_gone
DELETE l FROM {p}lane l LEFT JOIN {p}job j ON j.id = l.id WHERE j.id IS NULL

-- name: mend_lanes
UPDATE {p}lane l LEFT JOIN {p}due d ON d.topic = l.topic AND d.id = l.id SET l.due = d.due WHERE NOT (l.due <=> d.due)

-- name: find_ids
SELECT j.id FROM {p}job j WHERE j.id > (SELECT value FROM {p}number WHERE name = 'id')

-- name: mend_ids
UPDATE {p}number SET value = greatest(value, coalesce((SELECT max(id) FROM {p}job), 0)) WHERE name = 'id'
