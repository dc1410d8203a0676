-- Which jobs failed for good without a word.
-- least: 1

ALTER TABLE {p}finished ADD COLUMN silent boolean; -- its last attempt gave no error: that in `error` is of one before
