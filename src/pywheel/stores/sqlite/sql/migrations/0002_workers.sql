-- Who looks after which shard, and hints for workers that wait.

CREATE TABLE shard (
    id INTEGER PRIMARY KEY,
    worker TEXT,
    epoch INTEGER NOT NULL DEFAULT 0, -- grows with every change of hands
    until INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE member (
    worker TEXT PRIMARY KEY,
    until INTEGER NOT NULL            -- wants shards until then
) WITHOUT ROWID;

-- Job 0 stands for: some topic was paused or resumed.
CREATE TABLE hint (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    job INTEGER NOT NULL
);
