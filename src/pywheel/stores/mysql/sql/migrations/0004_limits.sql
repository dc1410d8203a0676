-- Which jobs come first among those that are due.
-- least: 1

-- The priorities that jobs of a topic ever had, but for 0.
CREATE TABLE IF NOT EXISTS {p}priority (
    topic int NOT NULL,
    priority smallint NOT NULL,
    PRIMARY KEY (topic, priority)
) {options};

-- The jobs that have one. Whoever does not know this table leaves in it what is not so any more: a row counts only if the
-- job waits, and is due then.
CREATE TABLE IF NOT EXISTS {p}lane (
    id bigint NOT NULL PRIMARY KEY,
    topic int NOT NULL,
    priority smallint NOT NULL,
    due bigint,                               -- NULL: it does not wait
    KEY due (topic, priority, due, id)
) {options};
