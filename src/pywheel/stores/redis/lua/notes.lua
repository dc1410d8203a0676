-- Keeping notes. In :e, by name, lies until when one is kept (8 bytes, infinity without an end) and its value; in :c all names, in
-- order; in :g the names of those with an end, by it.

local function forget_notes(limit)
    local over = call('ZRANGE', P .. ':g', '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)
    each_part('ZREM', P .. ':g', over)
    each_part('ZREM', P .. ':c', over)
    each_part('HDEL', P .. ':e', over)
end

-- ARGV[at]: name, '1' if there must be none, ttl or '', and the value with a v before it, or '' to delete. Returns a list of
-- what was there before: '' is a value too.
function commands.keep(at)
    local name, ttl, value = ARGV[at], tonumber(ARGV[at + 2]), ARGV[at + 3]
    local notes, names, ends = P .. ':e', P .. ':c', P .. ':g'
    local before = call('HGET', notes, name)
    before = before and now < struct.unpack('>d', before) and sub(before, 9)
    if not (before and ARGV[at + 1] == '1') then
        if value ~= '' then
            call('HSET', notes, name, struct.pack('>d', ttl and now + ttl or math.huge) .. sub(value, 2))
            call('ZADD', names, 0, name)
        else
            call('HDEL', notes, name)
            call('ZREM', names, name)
        end
        if value ~= '' and ttl then
            call('ZADD', ends, now + ttl, name)
        else
            call('ZREM', ends, name)
        end
    end
    if ttl then
        forget_notes(10) -- NOTES_FORGOTTEN, jobs/commands.py
    end
    return before and {before} or {}, at + 4
end
