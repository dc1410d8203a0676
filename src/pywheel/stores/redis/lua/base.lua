-- What every script begins with: KEYS[1] is the prefix of all keys, ARGV[1] the time in ms, or '' for the server's.
-- An id is 6 bytes, big end first: so ids sort as numbers among jobs that are due in the same millisecond.
local P, call, sub, byte = KEYS[1], redis.call, string.sub, string.byte
local clock = call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = tonumber(ARGV[1]) or math.floor(micros / 1000)
local BIAS = 70368744177664 -- 2^46: `created` may lie before 1970
local SOME = 2000 -- arguments of one call; from 8 001 on `unpack` fails

local function bid(id)
    return struct.pack('>I6', id)
end

local function number(b)
    return (struct.unpack('>I6', b))
end

-- 256 jobs lie in one hash, so that none grows without bound and all can be walked through by id.
local function of_job(b)
    return P .. ':j:' .. sub(b, 1, 5)
end

local function of_state(b)
    return P .. ':s:' .. sub(b, 1, 5)
end

local delayed = {}
local function delayed_of(topic)
    local key = delayed[topic]
    if not key then
        key = P .. ':d:' .. topic
        delayed[topic] = key
    end
    return key
end

-- Calls a command with many arguments, in parts.
local function each_part(command, key, list)
    for first = 1, #list, SOME do
        call(command, key, unpack(list, first, math.min(first + SOME - 1, #list)))
    end
end

-- Returns the scores of many members, false for those that are none.
local function scores(key, members)
    if #members <= SOME then
        return #members > 0 and call('ZMSCORE', key, unpack(members)) or {}
    end
    local found = {}
    for first = 1, #members, SOME do
        for _, score in ipairs(call('ZMSCORE', key, unpack(members, first, math.min(first + SOME - 1, #members)))) do
            found[#found + 1] = score
        end
    end
    return found
end

-- Returns the values of many ids in the hashes of a kind, ':j:' or ':s:', false for those without.
local function values(kind, ids)
    local found, parts = {}, {}
    for place = 1, #ids do
        local chunk = sub(ids[place], 1, 5)
        local part = parts[chunk]
        if not part then
            part = {{}, {}}
            parts[chunk] = part
        end
        local size = #part[1] + 1
        part[1][size], part[2][size] = ids[place], place
    end
    for chunk, part in pairs(parts) do
        local got, places = call('HMGET', P .. kind .. chunk, unpack(part[1])), part[2]
        for number = 1, #places do
            found[places[number]] = got[number]
        end
    end
    return found
end

local function first_lease()
    local first = call('ZRANGE', P .. ':l', 0, 0, 'WITHSCORES')
    return first[2] and tonumber(first[2]) or false
end
