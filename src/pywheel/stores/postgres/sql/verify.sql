-- name: lock_all
LOCK TABLE {p}topic, {p}job, {p}due, {p}run, {p}finished, {p}live_key, {p}history, {p}count, {p}lane IN SHARE ROW EXCLUSIVE MODE

-- name: find_no_job
SELECT d.id FROM {p}due d WHERE NOT EXISTS (SELECT FROM {p}job j WHERE j.id = d.id AND j.topic = d.topic)
UNION ALL SELECT r.id FROM {p}run r WHERE NOT EXISTS (SELECT FROM {p}job j WHERE j.id = r.id AND j.topic = r.topic)
UNION ALL SELECT f.id FROM {p}finished f WHERE NOT EXISTS (SELECT FROM {p}job j WHERE j.id = f.id AND j.topic = f.topic)

-- name: mend_no_job_due
DELETE FROM {p}due d WHERE NOT EXISTS (SELECT FROM {p}job j WHERE j.id = d.id AND j.topic = d.topic)

-- name: mend_no_job_run
DELETE FROM {p}run r WHERE NOT EXISTS (SELECT FROM {p}job j WHERE j.id = r.id AND j.topic = r.topic)

-- name: mend_no_job_finished
DELETE FROM {p}finished f WHERE NOT EXISTS (SELECT FROM {p}job j WHERE j.id = f.id AND j.topic = f.topic)

-- name: find_twice
SELECT p.id FROM (
    SELECT id, topic FROM {p}due UNION ALL SELECT id, topic FROM {p}run UNION ALL SELECT id, topic FROM {p}finished
) p
GROUP BY p.id, p.topic HAVING count(*) > 1

-- name: mend_twice_due
DELETE FROM {p}due d WHERE EXISTS (SELECT FROM {p}run r WHERE r.id = d.id)
    OR EXISTS (SELECT FROM {p}finished f WHERE f.topic = d.topic AND f.id = d.id)

-- name: mend_twice_run
DELETE FROM {p}run r WHERE EXISTS (SELECT FROM {p}finished f WHERE f.topic = r.topic AND f.id = r.id)

-- name: mend_twice_finished
DELETE FROM {p}finished f
WHERE EXISTS (SELECT FROM {p}finished o WHERE o.topic = f.topic AND o.id = f.id AND o.state < f.state)

-- name: find_nowhere
SELECT j.id FROM {p}job j
WHERE NOT EXISTS (SELECT FROM {p}due d WHERE d.topic = j.topic AND d.id = j.id)
    AND NOT EXISTS (SELECT FROM {p}run r WHERE r.topic = j.topic AND r.id = j.id)
    AND NOT EXISTS (SELECT FROM {p}finished f WHERE f.topic = j.topic AND f.id = j.id)

-- name: mend_nowhere
INSERT INTO {p}due (topic, id, due, claims, forgiven)
SELECT j.topic, j.id, {now}, h.claim, h.claim FROM {p}job j
LEFT JOIN (SELECT job, max(claim) AS claim FROM {p}history GROUP BY job) h ON h.job = j.id
WHERE NOT EXISTS (SELECT FROM {p}due d WHERE d.topic = j.topic AND d.id = j.id)
    AND NOT EXISTS (SELECT FROM {p}run r WHERE r.topic = j.topic AND r.id = j.id)
    AND NOT EXISTS (SELECT FROM {p}finished f WHERE f.topic = j.topic AND f.id = j.id)

-- name: find_topics
SELECT j.id FROM {p}job j WHERE NOT EXISTS (SELECT FROM {p}topic t WHERE t.id = j.topic)

-- name: find_leases
SELECT id FROM {p}run WHERE attempt <> claims - coalesce(forgiven, 0)

-- name: mend_leases
UPDATE {p}run SET claims = claims + 1, forgiven = claims + 1 - attempt WHERE attempt <> claims - coalesce(forgiven, 0)

-- What a running or finished job has tried last stands with it, not in its history.
-- name: find_claims
WITH h AS MATERIALIZED (SELECT job, max(claim) AS claim FROM {p}history GROUP BY job)
SELECT d.id FROM {p}due d JOIN h ON h.job = d.id WHERE h.claim > coalesce(d.claims, 0)
UNION ALL SELECT r.id FROM {p}run r JOIN h ON h.job = r.id WHERE h.claim >= r.claims
UNION ALL SELECT f.id FROM {p}finished f JOIN h ON h.job = f.id WHERE h.claim >= coalesce(f.claims, 0)

-- name: mend_claims_due
UPDATE {p}due d SET forgiven = coalesce(forgiven, 0) + h.claim - coalesce(claims, 0), claims = h.claim
FROM (SELECT job, max(claim) AS claim FROM {p}history GROUP BY job) h WHERE h.job = d.id AND h.claim > coalesce(d.claims, 0)

-- name: mend_claims_run
UPDATE {p}run r SET forgiven = coalesce(forgiven, 0) + h.claim + 1 - claims, claims = h.claim + 1
FROM (SELECT job, max(claim) AS claim FROM {p}history GROUP BY job) h WHERE h.job = r.id AND h.claim >= r.claims

-- name: mend_claims_finished
UPDATE {p}finished f SET forgiven = coalesce(forgiven, 0) + h.claim + 1 - coalesce(claims, 0), claims = h.claim + 1
FROM (SELECT job, max(claim) AS claim FROM {p}history GROUP BY job) h WHERE h.job = f.id AND h.claim >= coalesce(f.claims, 0)

-- name: find_lanes
SELECT l.id FROM {p}lane l LEFT JOIN {p}due d ON d.topic = l.topic AND d.id = l.id
WHERE l.due IS DISTINCT FROM d.due OR NOT EXISTS (SELECT FROM {p}job j WHERE j.id = l.id)

-- name: mend_lanes_gone
DELETE FROM {p}lane l WHERE NOT EXISTS (SELECT FROM {p}job j WHERE j.id = l.id)

-- name: mend_lanes
UPDATE {p}lane l SET due = (SELECT d.due FROM {p}due d WHERE d.topic = l.topic AND d.id = l.id)
WHERE l.due IS DISTINCT FROM (SELECT d.due FROM {p}due d WHERE d.topic = l.topic AND d.id = l.id)

-- name: find_keys
SELECT k.job AS id FROM {p}live_key k WHERE NOT EXISTS (
    SELECT FROM {p}job j JOIN (
        SELECT topic, id FROM {p}due WHERE passed IS NOT TRUE UNION ALL SELECT topic, id FROM {p}run WHERE passed IS NOT TRUE
    ) p ON p.topic = j.topic AND p.id = j.id
    WHERE j.id = k.job AND j.topic = k.topic AND j.key = k.key
)

-- name: mend_keys
DELETE FROM {p}live_key k WHERE NOT EXISTS (
    SELECT FROM {p}job j JOIN (
        SELECT topic, id FROM {p}due WHERE passed IS NOT TRUE UNION ALL SELECT topic, id FROM {p}run WHERE passed IS NOT TRUE
    ) p ON p.topic = j.topic AND p.id = j.id
    WHERE j.id = k.job AND j.topic = k.topic AND j.key = k.key
)

-- name: find_keyless
SELECT j.id FROM {p}job j JOIN (
    SELECT topic, id FROM {p}due WHERE passed IS NOT TRUE UNION ALL SELECT topic, id FROM {p}run WHERE passed IS NOT TRUE
) p ON p.topic = j.topic AND p.id = j.id
WHERE j.key IS NOT NULL
    AND NOT EXISTS (SELECT FROM {p}live_key k WHERE k.topic = j.topic AND k.key = j.key AND k.job = j.id)

-- name: mend_keyless
INSERT INTO {p}live_key (topic, key, job)
SELECT j.topic, j.key, max(j.id) FROM {p}job j JOIN (
    SELECT topic, id FROM {p}due WHERE passed IS NOT TRUE UNION ALL SELECT topic, id FROM {p}run WHERE passed IS NOT TRUE
) p ON p.topic = j.topic AND p.id = j.id
WHERE j.key IS NOT NULL GROUP BY j.topic, j.key
ON CONFLICT DO NOTHING

-- name: mend_passed_due
UPDATE {p}due d SET passed = true FROM {p}job j
WHERE j.topic = d.topic AND j.id = d.id AND j.key IS NOT NULL AND d.passed IS NOT TRUE
    AND NOT EXISTS (SELECT FROM {p}live_key k WHERE k.topic = j.topic AND k.key = j.key AND k.job = j.id)

-- name: mend_passed_run
UPDATE {p}run r SET passed = true FROM {p}job j
WHERE j.topic = r.topic AND j.id = r.id AND j.key IS NOT NULL AND r.passed IS NOT TRUE
    AND NOT EXISTS (SELECT FROM {p}live_key k WHERE k.topic = j.topic AND k.key = j.key AND k.job = j.id)

-- name: find_history
SELECT DISTINCT h.job AS id FROM {p}history h WHERE NOT EXISTS (SELECT FROM {p}job j WHERE j.id = h.job)

-- name: mend_history
DELETE FROM {p}history h WHERE NOT EXISTS (SELECT FROM {p}job j WHERE j.id = h.job)

-- name: recount
SELECT topic, count(*) FILTER (WHERE state IS NULL) AS live, count(*) FILTER (WHERE state = 0) AS done,
    count(*) FILTER (WHERE state = 2) AS dead, count(*) FILTER (WHERE state = 1) AS cancelled
FROM (
    SELECT topic, NULL::smallint AS state FROM {p}due UNION ALL SELECT topic, NULL FROM {p}run
    UNION ALL SELECT topic, state FROM {p}finished
) p
GROUP BY topic

-- name: find_counts
SELECT t.name AS id FROM {p}topic t
LEFT JOIN (
    SELECT topic, sum(live) AS live, sum(done) AS done, sum(dead) AS dead, sum(cancelled) AS cancelled FROM {p}count GROUP BY topic
) c ON c.topic = t.id
LEFT JOIN ({recount}) r ON r.topic = t.id
WHERE (coalesce(c.live, 0), coalesce(c.done, 0), coalesce(c.dead, 0), coalesce(c.cancelled, 0))
    <> (coalesce(r.live, 0), coalesce(r.done, 0), coalesce(r.dead, 0), coalesce(r.cancelled, 0))

-- name: mend_counts_gone
DELETE FROM {p}count

-- name: mend_counts
INSERT INTO {p}count (topic, live, done, dead, cancelled) {recount}

-- name: find_ids
SELECT j.id FROM {p}job j CROSS JOIN (SELECT last_value, is_called FROM {p}id) s
WHERE j.id > s.last_value OR (j.id = s.last_value AND NOT s.is_called)

-- name: mend_ids
SELECT setval('{p}id', max(id)) FROM {p}job HAVING max(id) >= (SELECT last_value FROM {p}id)
