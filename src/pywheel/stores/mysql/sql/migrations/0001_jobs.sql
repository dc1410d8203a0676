-- Jobs and where they stand. Times are ms since 1970 by the server's clock. In due, run and finished NULL is 0.
--
-- A row of `job` is written once, and is the job's lock. Its state is the table in which it stands. Names may be longer
-- than a key of an index: they are found by 16 bytes of a hash.
--
-- What is here is made once, statement by statement: MySQL commits each, so that an upgrade may begin anew.

CREATE TABLE IF NOT EXISTS {p}topic (
    id int NOT NULL AUTO_INCREMENT PRIMARY KEY,
    hash binary(16) NOT NULL UNIQUE,
    name mediumtext NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    stirred bigint NOT NULL DEFAULT 0         -- the number of the last pause or resumption, of all topics'
) {options};

CREATE TABLE IF NOT EXISTS {p}job (
    id bigint NOT NULL PRIMARY KEY,
    created bigint NOT NULL,
    ttr bigint,
    max_attempts bigint,
    topic int NOT NULL,
    hash binary(16),                          -- of the key
    name mediumtext,                          -- the key
    headers longtext,                         -- JSON
    body longblob NOT NULL
) {options};

CREATE TABLE IF NOT EXISTS {p}name (
    hash binary(16) NOT NULL,
    topic int NOT NULL,
    id bigint NOT NULL,
    PRIMARY KEY (hash, topic, id)
) {options};

CREATE TABLE IF NOT EXISTS {p}due (
    topic int NOT NULL,
    id bigint NOT NULL,
    due bigint NOT NULL,
    claims int,                               -- so far
    forgiven int,                             -- claims that do not count as attempts
    lost smallint,                            -- the last claim was lost: 1 held, 2 begun
    passed boolean,                           -- it gave its key to a successor
    error longtext,                           -- the last of its attempts'
    PRIMARY KEY (topic, id),
    KEY due (topic, due, id)
) {options};

CREATE TABLE IF NOT EXISTS {p}run (
    topic int NOT NULL,
    id bigint NOT NULL PRIMARY KEY,
    due bigint NOT NULL,
    claims int,                               -- this one included; with the id, the receipt
    forgiven int,
    lost smallint,
    passed boolean,
    error longtext,
    attempt int NOT NULL,                     -- the number it has, or will have when it begins
    begun boolean NOT NULL,                   -- false: held
    started bigint NOT NULL,
    lease bigint NOT NULL,                    -- until when
    max_attempts bigint NOT NULL,
    backoff bigint NOT NULL,                  -- how long after the lease's end it is due again, if nobody settles it
    worker mediumtext NOT NULL,
    KEY lease (lease)
) {options};

CREATE TABLE IF NOT EXISTS {p}finished (
    topic int NOT NULL,
    id bigint NOT NULL,
    due bigint NOT NULL,
    claims int,
    forgiven int,
    lost smallint,
    passed boolean,
    error longtext,
    attempt int,
    started bigint,
    worker mediumtext,
    state smallint NOT NULL,                  -- 0 done, 1 cancelled, 2 dead
    outcome smallint NOT NULL,                -- of the attempt that finished it: 0 done, 1 cancelled, 2 failed, 3 lost, 4 released
    ended bigint NOT NULL,
    PRIMARY KEY (topic, state, id),
    KEY ended (state, ended)
) {options};

-- The attempts before the one that is running, or has finished the job.
CREATE TABLE IF NOT EXISTS {p}history (
    job bigint NOT NULL,
    claim int NOT NULL,
    attempt int NOT NULL,
    started bigint,
    ended bigint NOT NULL,
    outcome smallint NOT NULL,
    worker mediumtext,
    error longtext,
    PRIMARY KEY (job, claim)
) {options};

-- Who has a key, among the live jobs of a topic.
CREATE TABLE IF NOT EXISTS {p}live_key (
    topic int NOT NULL,
    hash binary(16) NOT NULL,
    job bigint NOT NULL,
    PRIMARY KEY (topic, hash)
) {options};

-- By how many the jobs of a topic have become more: a row for each change, summed up now and then.
CREATE TABLE IF NOT EXISTS {p}count (
    seq bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    topic int NOT NULL,
    live bigint NOT NULL,
    done bigint NOT NULL DEFAULT 0,
    dead bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0
) {options};

CREATE TABLE IF NOT EXISTS {p}worker (
    hash binary(16) NOT NULL PRIMARY KEY,     -- of the name
    name mediumtext NOT NULL,
    topics longtext,                          -- JSON: names; NULL: none announced
    beat bigint NOT NULL,
    horizon bigint NOT NULL DEFAULT -1,
    behind bigint NOT NULL DEFAULT 0,
    stopped bigint NOT NULL DEFAULT 0,        -- nothing starts there of what was paused up to this number
    server varbinary(400)                     -- where its session holds the lock named after it
) {options};

-- What workers are told: a job; 0 to read all again; -1 to look who is there. Rings are told apart by their numbers.
CREATE TABLE IF NOT EXISTS {p}hint (
    worker binary(16) NOT NULL,
    ring bigint NOT NULL,
    job bigint NOT NULL,
    PRIMARY KEY (worker, ring, job)
) {options};

CREATE TABLE IF NOT EXISTS {p}nonce (
    hash binary(16) NOT NULL PRIMARY KEY,
    nonce mediumtext NOT NULL,
    at bigint NOT NULL,
    ids longtext NOT NULL,                    -- JSON
    KEY at (at)
) {options};

-- The transactions of each client of late: one whose connection broke in its commit is looked for here.
CREATE TABLE IF NOT EXISTS {p}request (
    client binary(16) NOT NULL,
    number bigint NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (client, number)
) {options};

CREATE TABLE IF NOT EXISTS {p}number (
    name varchar(8) CHARACTER SET ascii NOT NULL PRIMARY KEY,
    value bigint NOT NULL
) {options};

INSERT IGNORE INTO {p}number (name, value) VALUES ('id', 0), ('stir', 0);
