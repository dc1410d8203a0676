-- Notes as they are kept. In :e, by name, lies until when one is kept (8 bytes, infinity without an end) and its value; in :c all
-- names, in order; in :g the names of those with an end, by it.
local NOTES, NAMES, ENDS = P .. ':e', P .. ':c', P .. ':g'
local NOTES_FORGOTTEN = 10 -- jobs/commands.py

local function set_note(name, value, ends)
    call('HSET', NOTES, name, struct.pack('>d', ends or math.huge) .. value)
    call('ZADD', NAMES, 0, name)
    if ends then
        call('ZADD', ENDS, ends, name)
    else
        call('ZREM', ENDS, name)
    end
end

local function remove_note(name)
    call('HDEL', NOTES, name)
    call('ZREM', NAMES, name)
    call('ZREM', ENDS, name)
end

local function forget_notes(limit)
    local over = call('ZRANGE', ENDS, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)
    each_part('ZREM', ENDS, over)
    each_part('ZREM', NAMES, over)
    each_part('HDEL', NOTES, over)
end
