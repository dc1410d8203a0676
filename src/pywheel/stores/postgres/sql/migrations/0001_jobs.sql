-- Jobs and where they stand. Times are ms since 1970 by the server's clock. In due, run and finished NULL is 0.
--
-- A row of `job` is written once. Its state is the table in which it stands, and a change of state is a DELETE there and
-- an INSERT elsewhere: narrow rows, so that what is left behind for autovacuum is small.

CREATE TABLE {p}topic (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    paused boolean NOT NULL DEFAULT false,
    stirred bigint NOT NULL DEFAULT 0         -- the number of the last pause or resumption, of all topics'
);

CREATE TABLE {p}job (
    id bigint PRIMARY KEY,
    created bigint NOT NULL,
    ttr bigint,
    max_attempts bigint,
    topic int NOT NULL,
    key text COLLATE "C",
    headers text,                             -- JSON
    body bytea NOT NULL
);
CREATE INDEX {p}job_key ON {p}job (key, topic, id) WHERE key IS NOT NULL;

CREATE TABLE {p}due (
    id bigint NOT NULL,
    due bigint NOT NULL,
    topic int NOT NULL,
    claims int,                               -- so far
    forgiven int,                             -- claims that do not count as attempts
    lost smallint,                            -- the last claim was lost: 1 held, 2 begun
    passed boolean,                           -- it gave its key to a successor
    error text,                               -- the last of its attempts'
    PRIMARY KEY (topic, id)
);
CREATE INDEX {p}due_due ON {p}due (topic, due, id);

CREATE TABLE {p}run (
    id bigint PRIMARY KEY,
    due bigint NOT NULL,
    started bigint NOT NULL,
    lease bigint NOT NULL,                    -- until when
    max_attempts bigint NOT NULL,
    backoff bigint NOT NULL,                  -- how long after the lease's end it is due again, if nobody settles it
    topic int NOT NULL,
    claims int NOT NULL,                      -- this one included; with the id, the receipt
    attempt int NOT NULL,                     -- the number it has, or will have when it begins
    forgiven int,
    lost smallint,
    begun boolean NOT NULL,                   -- false: held
    passed boolean,
    error text,
    worker text NOT NULL
);
CREATE INDEX {p}run_lease ON {p}run (lease);

CREATE TABLE {p}finished (
    id bigint NOT NULL,
    due bigint NOT NULL,
    ended bigint NOT NULL,
    started bigint,
    topic int NOT NULL,
    claims int,
    forgiven int,
    attempt int,
    state smallint NOT NULL,                  -- 0 done, 1 cancelled, 2 dead
    outcome smallint NOT NULL,                -- of the attempt that finished it: 0 done, 1 cancelled, 2 failed, 3 lost, 4 released
    lost smallint,
    passed boolean,
    error text,
    worker text,
    PRIMARY KEY (topic, state, id)
);
CREATE INDEX {p}finished_ended ON {p}finished (state, ended);

-- The attempts before the one that is running, or has finished the job.
CREATE TABLE {p}history (
    job bigint NOT NULL,
    claim int NOT NULL,
    attempt int NOT NULL,
    started bigint,
    ended bigint NOT NULL,
    outcome smallint NOT NULL,
    worker text,
    error text,
    PRIMARY KEY (job, claim)
);

-- Who has a key, among the live jobs of a topic.
CREATE TABLE {p}live_key (
    topic int NOT NULL,
    key text COLLATE "C" NOT NULL,
    job bigint NOT NULL,
    PRIMARY KEY (topic, key)
);

-- By how many the jobs of a topic have become more: a row for each change, summed up now and then.
CREATE TABLE {p}count (
    topic int NOT NULL,
    live bigint NOT NULL,
    done bigint NOT NULL DEFAULT 0,
    dead bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0
);

CREATE TABLE {p}worker (
    name text COLLATE "C" PRIMARY KEY,
    topics text,                              -- JSON: names; NULL: none announced
    beat bigint NOT NULL,
    horizon bigint NOT NULL DEFAULT -1,
    behind bigint NOT NULL DEFAULT 0,
    stopped bigint NOT NULL DEFAULT 0,        -- nothing starts there of what was paused up to this number
    pid int,                                  -- the session that listens, to see at once that its process has ended
    began bigint
) WITH (fillfactor = 50);

CREATE SEQUENCE {p}id;
CREATE SEQUENCE {p}stir;
CREATE TABLE {p}schema (version int NOT NULL);
INSERT INTO {p}schema VALUES (1);

-- Rows come and go: what they leave behind is small, and is to be cleared away early.
ALTER TABLE {p}due SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {p}run SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {p}count SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {p}live_key SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
ALTER TABLE {p}worker SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100);

CREATE TABLE {p}nonce (
    nonce text COLLATE "C" PRIMARY KEY,
    at bigint NOT NULL,
    ids text NOT NULL                         -- JSON
);
CREATE INDEX {p}nonce_at ON {p}nonce (at);

-- For workers behind a pooler, who cannot listen. A crash of the server may take them: then these workers read all anew.
CREATE UNLOGGED TABLE {p}hint (
    worker text COLLATE "C" NOT NULL,
    payload text NOT NULL
);
CREATE INDEX {p}hint_worker ON {p}hint (worker);
ALTER TABLE {p}hint SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
