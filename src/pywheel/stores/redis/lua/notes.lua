-- Keeping notes.
local NOTES_FORGOTTEN = 10 -- jobs/commands.py says why

local function forget_notes(limit)
    local over = call('ZRANGE', NOTES_OVER, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)
    for _, key in ipairs({NOTES_OVER, NOTE_NAMES}) do
        each_part('ZREM', key, over)
    end
    each_part('HDEL', NOTES, over)
end

-- ARGV[at]: name, '1' if there must be none, ttl or '', and the value with a v before it, or '' to delete. Returns a list of
-- what was there before: '' is a value too.
function commands.keep(at)
    local name, ttl, value = ARGV[at], tonumber(ARGV[at + 2]), ARGV[at + 3]
    local before = read_note(call('HGET', NOTES, name))
    if not (before and ARGV[at + 1] == '1') then
        if value ~= '' then
            call('HSET', NOTES, name, struct.pack('>d', ttl and now + ttl or math.huge) .. sub(value, 2))
            call('ZADD', NOTE_NAMES, 0, name)
        else
            call('HDEL', NOTES, name)
            call('ZREM', NOTE_NAMES, name)
        end
        if value ~= '' and ttl then
            call('ZADD', NOTES_OVER, now + ttl, name)
        else
            call('ZREM', NOTES_OVER, name)
        end
    end
    if ttl then
        forget_notes(NOTES_FORGOTTEN)
    end
    return before and {before} or {}, at + 4
end
