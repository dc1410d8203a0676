-- What a handler returned, with the attempt that made the job done.
-- least: 1
--
-- MySQL has no ADD COLUMN IF NOT EXISTS: an upgrade that begins anew asks first.

SET @pywheel = IF(
    EXISTS (
        SELECT 1 FROM information_schema.columns
        WHERE table_schema = database() AND table_name = '{p}finished' AND column_name = 'result'
    ),
    'DO 0', 'ALTER TABLE {p}finished ADD COLUMN result mediumblob'
);
PREPARE pywheel FROM @pywheel;
EXECUTE pywheel;
DEALLOCATE PREPARE pywheel;
