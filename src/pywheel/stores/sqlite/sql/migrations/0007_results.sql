-- What a handler returned, with the attempt that made the job done.
-- least: 5

ALTER TABLE history ADD COLUMN result BLOB;
