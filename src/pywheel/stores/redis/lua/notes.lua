-- Notes. In :e, by name, lies until when one is kept (8 bytes, infinity without an end) and its value; in :c all names, in order; in
-- :g the names of those with an end, by it.
local notes = {FORGOTTEN = 10} -- jobs/commands.py

-- Returns the value of a note, or nil or false.
function notes.value(packed)
    return packed and now < struct.unpack('>d', packed) and sub(packed, 9)
end

function notes.set(name, value, over)
    call('HSET', P .. ':e', name, struct.pack('>d', over or math.huge) .. value)
    call('ZADD', P .. ':c', 0, name)
    if over then
        call('ZADD', P .. ':g', over, name)
    else
        call('ZREM', P .. ':g', name)
    end
end

function notes.forget(limit)
    local over = call('ZRANGE', P .. ':g', '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)
    each_part('ZREM', P .. ':g', over)
    each_part('ZREM', P .. ':c', over)
    each_part('HDEL', P .. ':e', over)
end

-- ARGV: now, the least name, with a [ or ( before it, the name before which they end, with a (, and how many to look at; or one name
-- alone. Returns how many were looked at, the last of them, and names and values.
function api.note()
    if not ARGV[3] then
        local value = notes.value(call('HGET', P .. ':e', ARGV[2]))
        return {micros, value and {value} or {}}
    end
    local names = call('ZRANGE', P .. ':c', ARGV[2], ARGV[3], 'BYLEX', 'LIMIT', 0, tonumber(ARGV[4]))
    local reply = {}
    for place, packed in ipairs(#names > 0 and call('HMGET', P .. ':e', unpack(names)) or {}) do
        local value = notes.value(packed)
        if value then
            reply[#reply + 1], reply[#reply + 2] = names[place], value
        end
    end
    return {micros, #names, names[#names] or '', reply}
end

-- Nonces, and what the puts that had them came to: in :w, and by when they came in :u.
local nonces = {KEPT = 31 * 86400000, FORGOTTEN = 10} -- jobs/commands.py

function nonces.get(nonce)
    local known = nonce ~= '' and call('HGET', P .. ':w', nonce)
    return known and cmsgpack.unpack(known)
end

-- Forgets up to so many that are old enough.
function nonces.forget(limit)
    local old = call('ZRANGE', P .. ':u', '-inf', now - nonces.KEPT, 'BYSCORE', 'LIMIT', 0, limit)
    each_part('ZREM', P .. ':u', old)
    each_part('HDEL', P .. ':w', old)
end

function nonces.set(nonce, ids)
    if nonce ~= '' then
        call('HSET', P .. ':w', nonce, cmsgpack.pack(ids))
        call('ZADD', P .. ':u', now, nonce)
        nonces.forget(nonces.FORGOTTEN)
    end
end

-- The ids of the put that had a nonce. ARGV: now, nonce, and if it is to be noted where it is not known, '+' and its ids.
function api.nonce()
    local known = nonces.get(ARGV[2])
    if not known and ARGV[3] then
        local ids = {}
        for place = 4, #ARGV do
            ids[place - 3] = tonumber(ARGV[place]) or ARGV[place]
        end
        nonces.set(ARGV[2], ids)
    end
    return {micros, known}
end
