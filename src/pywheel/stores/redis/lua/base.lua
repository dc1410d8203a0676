-- What every call begins with. KEYS[1] is the prefix of all keys: they lie in one slot, and which of them a call is to touch it finds in
-- others. ARGV[1] is the time in ms, or '' for the server's. A function has 60 upvalues at most, a file of Lua 200 local names.
-- An id is 6 bytes, big end first: so ids sort as numbers among jobs that are due in the same millisecond.
local sub, byte, floor, min, max, band, bit_of = string.sub, string.byte, math.floor, math.min, math.max, bit.band, bit.lshift
local call = redis.call
local P, ARGV, now, micros
local api = {} -- by name: what the client calls; library.py lists it
local forgets = {} -- what makes the tables of the call before empty
local SOME = 2000 -- arguments of one call; from 8 001 on `unpack` fails
local KEPT = 600000 -- ms for which the answer to a request is kept
local PIECE = 250 -- leases that one call ends: pieces.py

function api.run(name, keys, args)
    P, ARGV = keys[1], args
    local clock = call('TIME')
    micros = clock[1] * 1000000 + clock[2]
    now = tonumber(args[1]) or floor(micros / 1000)
    local alone = name == 'apply' and ARGV[4] == 'put' and #ARGV == 10 and api.put_alone()
    if alone then
        return alone
    end
    for _, forget in ipairs(forgets) do
        forget()
    end
    return api[name]()
end

local function bid(id)
    return struct.pack('>I6', id)
end

local function number(b)
    return (struct.unpack('>I6', b))
end

-- Returns a score as an argument: exactly, and open.
local function beyond(score)
    return '(' .. string.format('%.17g', score)
end

-- Returns the ids in a text.
local function ids_of(packed)
    local ids = {}
    for first = 1, #packed, 6 do
        ids[#ids + 1] = sub(packed, first, first + 5)
    end
    return ids
end

-- 256 jobs lie in one hash, so that none grows without bound and all can be walked through by id: ':j:' as they were put, ':s:' their
-- states, ':r:' their results.
local function chunk(kind, b)
    return P .. kind .. sub(b, 1, 5)
end

-- Calls a command with many arguments, in parts.
local function each_part(command, key, list)
    for first = 1, #list, SOME do
        call(command, key, unpack(list, first, min(first + SOME - 1, #list)))
    end
end

-- Returns the scores of many members, false for those that are none.
local function scores(key, members)
    local found = {}
    for first = 1, #members, SOME do
        local part = call('ZMSCORE', key, unpack(members, first, min(first + SOME - 1, #members)))
        if #members <= SOME then
            return part
        end
        for place, score in ipairs(part) do
            found[first + place - 1] = score
        end
    end
    return found
end

-- Returns the values of many ids in the hashes of a kind, false for those without.
local function values(kind, ids)
    local found, parts = {}, {}
    for place, b in ipairs(ids) do
        local key = sub(b, 1, 5)
        local part = parts[key]
        if not part then
            part = {{}, {}}
            parts[key] = part
        end
        local size = #part[1] + 1
        part[1][size], part[2][size] = b, place
    end
    for key, part in pairs(parts) do
        for place, value in ipairs(call('HMGET', P .. kind .. key, unpack(part[1]))) do
            found[part[2][place]] = value
        end
    end
    return found
end

-- Returns how many members of a set lie before a place, or with `too` up to it: of those with the same score the ids decide. Ids are
-- compared as numbers: text is compared by the server's locale.
local function rank_of(key, score, b, too)
    local low, id = call('ZCOUNT', key, '-inf', '(' .. score), number(b)
    local high = low + call('ZCOUNT', key, score, score)
    while low < high do
        local middle = floor((low + high) / 2)
        local there = number(call('ZRANGE', key, middle, middle)[1])
        if there < id or (too and there == id) then
            low = middle + 1
        else
            high = middle
        end
    end
    return low
end
