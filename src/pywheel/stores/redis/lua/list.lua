-- Jobs by id. ARGV: now, the id after which, in 6 bytes, how many, and what is asked for: topic with a t before it or '',
-- the state or '', key with a k before it or ''. Returns whether there may be more, the id up to which was looked, and jobs.
local after, limit = ARGV[2], tonumber(ARGV[3])
local topic = ARGV[4] ~= '' and sub(ARGV[4], 2) or nil
local state = tonumber(ARGV[5])
local key = ARGV[6] ~= '' and sub(ARGV[6], 2) or nil
local topics = topic and {topic} or call('HKEYS', P .. ':t')
local BYTES = 4000000 -- of bodies in one answer
local LOOKED = 2000 -- jobs looked at in one answer
local SHORT = 200 -- an index up to this size is read at once

local function collect(ids, found)
    for _, b in ipairs(found) do
        if b > after then
            ids[#ids + 1] = b
        end
    end
end

-- Returns the ids behind `after` of all jobs with the key.
local function with_key()
    local ids = {}
    for _, name in ipairs(topics) do
        collect(ids, call('ZRANGE', former_of(name, key), 0, -1))
        local holder = call('HGET', holders_of(name), key)
        collect(ids, holder and {holder} or {})
    end
    return ids
end

-- Whether it costs less to read the sets than to walk through all jobs until enough were found; and the sets.
local function in_sets()
    if not topic and not state then
        return nil
    end
    local found, size = sets(topics, state), 0
    for _, set in ipairs(found) do
        size = size + call('ZCARD', set)
    end
    local all = call('ZCARD', P .. ':x') * 256
    return (size <= SHORT or size * size <= limit * all) and found or nil
end

local reply, looked, bytes = {}, 0, 0

-- Looks at some jobs, in order; returns the last one looked at, or nil if it was enough.
local function look_at(ids)
    states_of(ids)
    for first = 1, #ids, 16 do
        local some = {unpack(ids, first, math.min(first + 15, #ids))}
        for place, job in ipairs(values(':j:', some)) do
            local b = some[place]
            looked = looked + 1
            after = b
            if job and (not topic or sub(job, 11, 10 + #topic) == topic and topic_of(job) == topic)
                and (not state or seen(states[b]) == state) then
                put_job(reply, b, job, states[b])
                bytes = bytes + #job
                limit = limit - 1
            end
            if limit == 0 or bytes > BYTES or looked > LOOKED then
                return false
            end
        end
    end
    return true
end

-- Walks through the hashes of jobs.
local function walk()
    while true do
        local chunks = call('ZRANGE', P .. ':x', math.floor(number(after) / 256), '+inf', 'BYSCORE', 'LIMIT', 0, 16)
        for _, chunk in ipairs(chunks) do
            local ids = {}
            collect(ids, call('HKEYS', P .. ':j:' .. chunk))
            table.sort(ids)
            if not look_at(ids) then
                return 1
            end
            after = math.max(number(after), number(chunk .. '\255'))
            after = bid(after)
            looked = looked + 1
        end
        if #chunks < 16 then
            return 0
        end
    end
end

local more
if limit <= 0 then
    more = 0
elseif key then
    local ids = with_key()
    table.sort(ids)
    more = look_at(ids) and 0 or 1
else
    local found = in_sets()
    if found then
        local ids = {}
        for _, set in ipairs(found) do
            collect(ids, call('ZRANGE', set, 0, -1))
        end
        table.sort(ids)
        more = look_at(ids) and 0 or 1
    else
        more = walk()
    end
end
return {micros, more, after, reply}
