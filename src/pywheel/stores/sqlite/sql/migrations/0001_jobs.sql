-- Jobs, the claims that are running, and what was tried.
-- Times are wall clock in ms. NULL is the common case everywhere: it takes no room. The body comes last, so that the
-- columns before it can be read without its overflow pages.

CREATE TABLE topic (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    paused INTEGER NOT NULL DEFAULT 0
);

-- AUTOINCREMENT: an id is never used again, not even that of the newest job once it was purged.
CREATE TABLE job (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    topic INTEGER NOT NULL,
    due INTEGER NOT NULL,
    ahead INTEGER NOT NULL,   -- due - ahead is when it was created; moves with due
    state INTEGER,            -- NULL live, 0 done, 1 cancelled, 2 dead. NULL, 0 and 1 take no byte: finishing rewrites in place
    claims INTEGER,           -- claims that ended; NULL is 0
    forgiven INTEGER,         -- claims that do not count as attempts; NULL is 0
    ttr INTEGER,
    max_attempts INTEGER,
    key TEXT,
    headers TEXT,             -- JSON
    body BLOB NOT NULL
);

CREATE INDEX job_due ON job (topic, due) WHERE state IS NULL;
CREATE INDEX job_finished ON job (topic, state) WHERE state IS NOT NULL;
CREATE UNIQUE INDEX job_live_key ON job (topic, key) WHERE key IS NOT NULL AND state IS NULL;
CREATE INDEX job_old_key ON job (topic, key) WHERE key IS NOT NULL AND state IS NOT NULL;

-- A live job with a row here is running. Claiming leaves the job's own row and its indexes alone.
CREATE TABLE run (
    job INTEGER PRIMARY KEY,
    claim INTEGER NOT NULL,   -- with the job's id, the receipt
    attempt INTEGER NOT NULL,
    started INTEGER NOT NULL,
    lease INTEGER NOT NULL,   -- until when
    max_attempts INTEGER NOT NULL,
    backoff INTEGER NOT NULL, -- how long after the lease's end the job is due again, if nobody settles it
    worker INTEGER NOT NULL
);

CREATE TABLE history (
    job INTEGER NOT NULL,
    claim INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    started INTEGER,
    ended INTEGER NOT NULL,
    outcome INTEGER NOT NULL, -- 0 done, 1 cancelled, 2 failed, 3 lost, 4 released
    worker INTEGER,
    error TEXT,
    PRIMARY KEY (job, claim)
) WITHOUT ROWID;

CREATE TABLE worker (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);
