-- Claims that are held until they begin, what the last claim came to, keys handed to a successor; counts that are kept.

-- What is counted by state, of the jobs with an id up to `counted.job`. Those behind it were put since, and are live.
ALTER TABLE topic ADD COLUMN live INTEGER NOT NULL DEFAULT 0;
ALTER TABLE topic ADD COLUMN done INTEGER NOT NULL DEFAULT 0;
ALTER TABLE topic ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE topic ADD COLUMN dead INTEGER NOT NULL DEFAULT 0;

CREATE TABLE counted (job INTEGER NOT NULL);

-- Without AUTOINCREMENT, whose sequence is one more page for each put. An id is never used again all the same: the row
-- with the highest id is never deleted. If its job is to go, it becomes a ghost, of topic 0 and state 3, and is deleted
-- once there is a higher one.
CREATE TABLE job_new (
    id INTEGER PRIMARY KEY,
    topic INTEGER NOT NULL,
    due INTEGER NOT NULL,
    ahead INTEGER NOT NULL,   -- due - ahead is when it was created; moves with due
    state INTEGER,            -- NULL live, 0 done, 1 cancelled, 2 dead. NULL, 0 and 1 take no byte: finishing rewrites in place
    claims INTEGER,           -- claims that ended; NULL is 0
    forgiven INTEGER,         -- claims that do not count as attempts; NULL is 0
    lost INTEGER,             -- the last claim was lost: 1 held, 2 begun; NULL is neither
    passed INTEGER,           -- 1: it gave its key to a successor
    ttr INTEGER,
    max_attempts INTEGER,
    key TEXT,
    headers TEXT,             -- JSON
    body BLOB NOT NULL
);
INSERT INTO job_new (id, topic, due, ahead, state, claims, forgiven, ttr, max_attempts, key, headers, body)
SELECT id, topic, due, ahead, state, claims, forgiven, ttr, max_attempts, key, headers, body FROM job ORDER BY id;
INSERT INTO job_new (id, topic, due, ahead, state, body)
SELECT seq, 0, 0, 0, 3, x'' FROM sqlite_sequence
WHERE name = 'job' AND seq > (SELECT coalesce(max(id), 0) FROM job);
DROP TABLE job;
ALTER TABLE job_new RENAME TO job;

CREATE INDEX job_due ON job (topic, due) WHERE state IS NULL;
-- Done jobs stand in the index of their history alone.
CREATE INDEX job_finished ON job (topic, state) WHERE state >= 1;
-- Who has the key, and who had it.
CREATE UNIQUE INDEX job_live_key ON job (topic, key) WHERE key IS NOT NULL AND state IS NULL AND passed IS NULL;
CREATE INDEX job_old_key ON job (topic, key) WHERE key IS NOT NULL AND (state IS NOT NULL OR passed IS NOT NULL);

INSERT INTO counted SELECT coalesce(max(id), 0) FROM job;
UPDATE topic SET live = c.live, done = c.done, cancelled = c.cancelled, dead = c.dead
FROM (
    SELECT topic AS id, count(*) FILTER (WHERE state IS NULL) AS live, count(*) FILTER (WHERE state = 0) AS done,
        count(*) FILTER (WHERE state = 1) AS cancelled, count(*) FILTER (WHERE state = 2) AS dead
    FROM job GROUP BY topic
) c WHERE c.id = topic.id;

-- The topic stands here too: whoever ends a claim has to tell its readers, and the counts go by topic.
-- No index by lease: to look through ten thousand running jobs takes a millisecond, and each claim would pay for it.
CREATE TABLE run_new (
    job INTEGER PRIMARY KEY,
    topic INTEGER NOT NULL,
    claim INTEGER NOT NULL,   -- with the job's id, the receipt
    attempt INTEGER NOT NULL, -- the number it has, or will have when it begins
    begun INTEGER NOT NULL,   -- 0: held
    started INTEGER NOT NULL,
    lease INTEGER NOT NULL,   -- until when
    max_attempts INTEGER NOT NULL,
    backoff INTEGER NOT NULL, -- how long after the lease's end the job is due again, if nobody settles it
    worker INTEGER NOT NULL
);
INSERT INTO run_new SELECT r.job, j.topic, r.claim, r.attempt, 1, r.started, r.lease, r.max_attempts, r.backoff, r.worker
FROM run r JOIN job j ON j.id = r.job;
DROP TABLE run;
ALTER TABLE run_new RENAME TO run;

-- The last row of a done or cancelled job has its topic, and stands in an index by when it ended, for purging.
ALTER TABLE history ADD COLUMN topic INTEGER;
UPDATE history SET topic = (SELECT j.topic FROM job j WHERE j.id = history.job AND j.state IN (0, 1))
WHERE outcome IN (0, 1) AND claim = (SELECT j.claims FROM job j WHERE j.id = history.job);
CREATE INDEX history_ended ON history (topic, outcome, ended) WHERE topic IS NOT NULL;

DROP TABLE shard;
