-- name: id_of_key
SELECT id FROM job
WHERE topic = (SELECT id FROM topic WHERE name = :topic) AND key = :key AND state IS NULL
UNION ALL
SELECT max(id) FROM job
WHERE topic = (SELECT id FROM topic WHERE name = :topic) AND key = :key AND state IS NOT NULL
LIMIT 1

-- name: state_of
SELECT j.state, j.due, coalesce(j.claims, 0), j.topic, j.key, EXISTS (SELECT 1 FROM run r WHERE r.job = j.id)
FROM job j WHERE j.id = ?

-- name: cancel
UPDATE job SET state = 1, claims = coalesce(claims, 0) + 1, forgiven = coalesce(forgiven, 0) + 1 WHERE id = ?

-- name: reschedule
UPDATE job SET due = :due, ahead = ahead + :due - due WHERE id = :id

-- name: retry
UPDATE job SET state = NULL, due = :due, ahead = ahead + :due - due, forgiven = claims WHERE id = :id

-- name: pause
UPDATE topic SET paused = :paused WHERE id = :topic AND paused <> :paused

-- name: purgeable
SELECT j.id FROM job j
WHERE j.topic = ? AND j.state = ?
    AND (SELECT h.ended FROM history h WHERE h.job = j.id ORDER BY h.claim DESC LIMIT 1) <= ?
LIMIT ?

-- name: purge
DELETE FROM job WHERE id = ?

-- name: purge_history
DELETE FROM history WHERE job = ?

-- name: join
INSERT INTO member (worker, until) VALUES (?, ?) ON CONFLICT (worker) DO UPDATE SET until = excluded.until

-- name: members
SELECT worker, until FROM member

-- name: member
SELECT until FROM member WHERE worker = ?

-- name: part
DELETE FROM member WHERE worker = ?

-- name: shards
SELECT id, worker, epoch, until FROM shard

-- name: my_shards
SELECT id, epoch FROM shard WHERE worker = ?

-- name: set_shard
INSERT INTO shard (id, worker, epoch, until) VALUES (?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET worker = excluded.worker, epoch = excluded.epoch, until = excluded.until

-- name: renew_shards
UPDATE shard SET until = ? WHERE worker = ?

-- name: leave_shards
UPDATE shard SET worker = NULL WHERE worker = ?
