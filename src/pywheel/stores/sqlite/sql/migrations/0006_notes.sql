-- Small values by name, some until a time.
-- least: 5

CREATE TABLE note (
    id INTEGER PRIMARY KEY,
    name BLOB NOT NULL UNIQUE, -- UTF-8: so they are ordered by their bytes, whatever is in them
    until INTEGER,             -- over from then on; NULL: never
    value BLOB NOT NULL
);
CREATE INDEX note_until ON note (until) WHERE until IS NOT NULL;
