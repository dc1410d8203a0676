-- Which jobs come first among those that are due.
-- least: 5

-- NULL is 0. It stands behind the body: of those without one no page more is read.
ALTER TABLE job ADD COLUMN priority INTEGER;
CREATE INDEX job_lane ON job (topic, priority, due) WHERE state IS NULL AND priority IS NOT NULL;

-- The priorities that jobs of a topic ever had: bit p + 9 stands for p, none for 0.
ALTER TABLE topic ADD COLUMN lanes INTEGER NOT NULL DEFAULT 0;
