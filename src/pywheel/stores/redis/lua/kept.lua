-- Notes as they are kept. In :e, by name, lies until when one is kept (8 bytes, infinity without an end) and its value; in :c all
-- names, in order; in :g the names of those with an end, by it. A script has room for 200 local names: so these are one table's.
local notes = {FORGOTTEN = 10} -- jobs/commands.py
do
    local all, names, ends = P .. ':e', P .. ':c', P .. ':g'

    -- Returns the value of a note, or nil or false.
    function notes.get(name)
        local packed = call('HGET', all, name)
        return packed and now < struct.unpack('>d', packed) and sub(packed, 9)
    end

    function notes.set(name, value, over)
        call('HSET', all, name, struct.pack('>d', over or math.huge) .. value)
        call('ZADD', names, 0, name)
        if over then
            call('ZADD', ends, over, name)
        else
            call('ZREM', ends, name)
        end
    end

    function notes.remove(name)
        call('HDEL', all, name)
        call('ZREM', names, name)
        call('ZREM', ends, name)
    end

    function notes.forget(limit)
        local over = call('ZRANGE', ends, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)
        each_part('ZREM', ends, over)
        each_part('ZREM', names, over)
        each_part('HDEL', all, over)
    end
end
