-- Notes, and the nonces of puts: values by name, some with an end. A value has its end before it, in 8 bytes. A set has the names with an
-- end, by that; another one has the names of all notes, in their order.
local NOTES = {values = ':e', ends = ':c:ends', names = ':c', forgotten = 10} -- NOTES_FORGOTTEN in jobs/commands.py
local NONCES = {values = ':w', ends = ':u', forgotten = 10, kept = 31 * 86400000} -- NONCES_FORGOTTEN, NONCES_KEPT there

-- Returns the value of a name, or nil.
local function kept(kind, name, packed)
    packed = packed or call('HGET', P .. kind.values, name)
    return packed and now < struct.unpack('>d', packed) and sub(packed, 9) or nil
end

local function forget(kind, names)
    each_part('HDEL', P .. kind.values, names)
    each_part('ZREM', P .. kind.ends, names)
    if kind.names then
        each_part('ZREM', P .. kind.names, names)
    end
end

-- Deletes up to `limit` values that are over.
local function forget_over(kind, limit)
    forget(kind, call('ZRANGE', P .. kind.ends, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit))
end

-- Stores a value under a name, until a time if it is given; then deletes some that are over.
local function keep_value(kind, name, value, over)
    call('HSET', P .. kind.values, name, struct.pack('>d', over or math.huge) .. value)
    if kind.names then
        call('ZADD', P .. kind.names, 0, name)
    end
    if over then
        call('ZADD', P .. kind.ends, over, name)
        forget_over(kind, kind.forgotten)
    else
        call('ZREM', P .. kind.ends, name)
    end
end

-- Returns the outcome of the put that had a nonce, or nil. A nonce is known until it is deleted.
local function put_with(nonce)
    local known = nonce and call('HGET', P .. NONCES.values, nonce)
    return known and cmsgpack.unpack(sub(known, 9)) or nil
end

local function keep_nonce(nonce, ids)
    if nonce then
        keep_value(NONCES, nonce, cmsgpack.pack(ids), now + NONCES.kept)
    end
end

-- Outcome: a list with the value before, if any: '' is a value as well.
function commands.keep(asked)
    local value, before = take(), kept(NOTES, asked.name)
    if not (before and asked.absent) then
        if asked.value then
            keep_value(NOTES, asked.name, value, asked.ttl and now + asked.ttl)
        else
            forget(NOTES, {asked.name})
        end
    end
    return before and {before} or {}
end

-- Returns the note with a name, in a list; or, for up to `limit` notes by name from the least one on, which has a [ or ( before it: the
-- number of notes looked at, the last of them, and names and values.
function api.notes(asked)
    if asked.name then
        return {kept(NOTES, asked.name)}
    end
    local names = call('ZRANGE', P .. NOTES.names, asked.least, '(' .. asked.prefix .. '\255', 'BYLEX', 'LIMIT', 0, asked.limit)
    local found = {}
    for place, packed in ipairs(#names > 0 and call('HMGET', P .. NOTES.values, unpack(names)) or {}) do
        local value = packed and kept(NOTES, names[place], packed)
        if value then
            found[#found + 1], found[#found + 2] = names[place], value
        end
    end
    return #names, names[#names] or '', found
end

-- Returns the ids of the put that had a nonce; if the nonce is not known, stores these ids for it, if any are given. Or forgets the nonce.
function api.nonce(asked)
    if asked.forget then
        return forget(NONCES, {asked.nonce})
    end
    local known = put_with(asked.nonce)
    if not known and asked.kept then
        keep_nonce(asked.nonce, asked.kept)
    end
    return known
end
