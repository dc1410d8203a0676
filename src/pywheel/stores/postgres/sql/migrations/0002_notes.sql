-- Small values by name, some until a time.
-- least: 1

CREATE TABLE {p}note (
    name bytea PRIMARY KEY,                   -- UTF-8: so they are ordered by their bytes, whatever is in them
    until bigint,                             -- over from then on; NULL: never
    value bytea NOT NULL
);
CREATE INDEX {p}note_until ON {p}note (until) WHERE until IS NOT NULL;
