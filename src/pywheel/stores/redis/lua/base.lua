-- The beginning of every call. KEYS[1] is the prefix of all keys, which lie in one slot; a call finds in the store which keys it touches.
-- ARGV[1] is the time in ms, or '' for the server's. Behind it stand the arguments of a function as JSON, or those of a step.
-- A function has 60 upvalues at most, a file of Lua 200 local names.
-- An id is 6 bytes, the highest first, so that jobs of one millisecond sort by id.
local sub, byte, format, floor, min, max, band = string.sub, string.byte, string.format, math.floor, math.min, math.max, bit.band
local call = redis.call
local P, K, ARGV, at, now, micros -- K has the keys that there are once; `at` is the place of the next argument
local states, changed, texts, topics, names -- data that one call has read
local added, removed, hashed, freed, bounds, furthest, audiences, hints -- data that it is to write
local steps, commands, api = {}, {}, {} -- functions by name: steps, their commands, and the other calls of clients
local SOME = 2000 -- arguments of one command; from 8 001 on `unpack` fails
local LAST_ID = 281474976710655
local PIECE = 250 -- leases that one call ends: commands.py

local function begin_call()
    states, changed, texts, topics, names, audiences, hints = {}, {}, {}, {}, {}, {}, {}
    added, removed, hashed, freed, bounds = {}, {}, {}, {}, {}
end
begin_call()

-- Returns the next argument.
local function take()
    at = at + 1
    return ARGV[at - 1]
end

local function name_keys(prefix)
    P = prefix
    K = {format = P .. ':store', run = P .. ':run', last_id = P .. ':n', chunks = P .. ':x', topics = P .. ':t', pauses = P .. ':y',
        leases = P .. ':l', workers = P .. ':m', beats = P .. ':b', version = P .. ':v', horizons = P .. ':h', furthest = P .. ':hmax',
        bell = P .. ':bell'}
end

local function run(name, keys, args)
    if keys[1] ~= P then
        name_keys(keys[1])
    end
    ARGV, at, furthest = args, 2, nil
    local clock = call('TIME')
    micros = clock[1] * 1000000 + clock[2]
    now = tonumber(args[1]) or floor(micros / 1000)
    if steps[name] then
        return steps[name]()
    end
    begin_call()
    return {micros, api[name](args[2] and cjson.decode(take()))}
end

local function bid(id)
    return struct.pack('>I6', id)
end

local function number(b)
    return (struct.unpack('>I6', b))
end

-- Returns a whole number as text, with all its digits: the server takes ten times as long for that. Often a score equals the one before.
local last_number, last_text
local function digits(value)
    if value ~= last_number then
        last_number, last_text = value, format(value > -9e18 and value < 9e18 and '%d' or '%.0f', value)
    end
    return last_text
end

-- Returns the same as an open end.
local function beyond(score)
    return '(' .. digits(score)
end

-- Returns the ids in a text.
local function ids_of(packed)
    local ids = {}
    for first = 1, #packed, 6 do
        ids[#ids + 1] = sub(packed, first, first + 5)
    end
    return ids
end

-- 256 jobs lie in one hash, so that none grows without bound and a scan by id can visit all: ':j:' has the jobs as they were put,
-- ':s:' their states, ':r:' their results.
local function chunk(kind, b)
    return P .. kind .. sub(b, 1, 5)
end

-- Calls a command with many arguments, in parts.
local function each_part(command, key, list)
    for first = 1, #list, SOME do
        call(command, key, unpack(list, first, min(first + SOME - 1, #list)))
    end
end

-- Returns the list of a key in a table, a new one if there is none.
local function list_of(lists, key)
    local list = lists[key]
    if not list then
        list = {}
        lists[key] = list
    end
    return list
end

-- Returns a command's answers for many members, in parts: scores of a set, or values of a hash, false for missing members.
local function of_each(command, key, members)
    local found = {}
    for first = 1, #members, SOME do
        for place, one in ipairs(call(command, key, unpack(members, first, min(first + SOME - 1, #members)))) do
            found[first + place - 1] = one
        end
    end
    return found
end

-- Returns the values of many ids in the hashes of a kind, by id; false for ids without one. A function `read` converts the values.
local function values(kind, ids, found, read)
    local parts = {}
    found = found or {}
    for _, b in ipairs(ids) do
        local part = list_of(parts, sub(b, 1, 5))
        part[#part + 1] = b
    end
    for key, part in pairs(parts) do
        for place, value in ipairs(of_each('HMGET', P .. kind .. key, part)) do -- an id may come thousands of times
            found[part[place]] = value and read and read(value) or value
        end
    end
    return found
end

-- Returns the number of a set's members before a score and an id, or with `too` up to it. Ids are compared as numbers: the server would
-- compare texts by its locale.
local function rank_of(key, score, id, too)
    local low = call('ZCOUNT', key, '-inf', '(' .. score)
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
