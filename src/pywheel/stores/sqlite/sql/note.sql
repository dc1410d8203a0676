-- name: note
SELECT value, until FROM note WHERE name = ?

-- name: notes
SELECT name, value FROM note
WHERE name > :after AND name >= :prefix AND name < :end AND (until IS NULL OR until > :now) ORDER BY name LIMIT :limit

-- name: note_set
INSERT INTO note (name, until, value) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET until = excluded.until, value = excluded.value

-- name: leave_word
INSERT OR REPLACE INTO note (name, until, value) SELECT ?, ?, CAST(name AS BLOB) FROM topic WHERE id = ?

-- name: note_remove
DELETE FROM note WHERE name = ?

-- name: notes_forget
DELETE FROM note WHERE id IN (SELECT id FROM note WHERE until <= ? ORDER BY until LIMIT ?)
