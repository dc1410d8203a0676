-- Which jobs come first among those that are due.
-- least: 1

-- The priorities that jobs of a topic ever had, but for 0.
CREATE TABLE {p}priority (
    topic int NOT NULL,
    priority smallint NOT NULL,
    PRIMARY KEY (topic, priority)
);

-- The jobs that have one. Whoever does not know this table leaves in it what is not so any more: a row counts only if the
-- job waits, and is due then.
CREATE TABLE {p}lane (
    id bigint PRIMARY KEY,
    topic int NOT NULL,
    priority smallint NOT NULL,
    due bigint                                -- NULL: it does not wait
);
CREATE INDEX {p}lane_due ON {p}lane (topic, priority, due, id) WHERE due IS NOT NULL;
ALTER TABLE {p}lane SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
