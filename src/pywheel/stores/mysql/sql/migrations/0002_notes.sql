-- Small values by name, some until a time.
-- least: 1

CREATE TABLE IF NOT EXISTS {p}note (
    name varbinary(800) NOT NULL PRIMARY KEY, -- UTF-8: so they are ordered by their bytes, whatever is in them
    until bigint,                             -- over from then on; NULL: never
    value mediumblob NOT NULL,
    KEY until (until)
) {options};
