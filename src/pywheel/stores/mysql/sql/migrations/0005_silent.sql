-- Which jobs failed for good without a word: `error` is of an attempt before the last then.
-- least: 1
--
-- MySQL has no ADD COLUMN IF NOT EXISTS: an upgrade that begins anew asks first.

SET @pywheel = IF(
    EXISTS (
        SELECT 1 FROM information_schema.columns
        WHERE table_schema = database() AND table_name = '{p}finished' AND column_name = 'silent'
    ),
    'DO 0', 'ALTER TABLE {p}finished ADD COLUMN silent boolean'
);
PREPARE pywheel FROM @pywheel;
EXECUTE pywheel;
DEALLOCATE PREPARE pywheel;
