-- What a handler returned, with the attempt that made the job done.
-- least: 1

ALTER TABLE {p}finished ADD COLUMN result mediumblob;
