-- Who works here, and hints for those whose windows reach that far.

DROP TABLE IF EXISTS shard;
DROP TABLE IF EXISTS member;
DROP TABLE IF EXISTS hint;

CREATE TABLE member (
    worker TEXT PRIMARY KEY,
    topics TEXT NOT NULL              -- JSON: names
) WITHOUT ROWID;

-- The latest is never deleted, so that a number is never given again.
-- Slot -1 is every worker: the topic `job` was paused or resumed, or some topic if that is 0.
CREATE TABLE hint (
    seq INTEGER PRIMARY KEY,
    slot INTEGER NOT NULL,            -- whose: its place in the workers' page
    job INTEGER NOT NULL
);
