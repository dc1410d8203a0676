-- A page of jobs. ARGV: now, how many, 1 for downwards, the place behind which: due time, or '' for a list by id, and id in 6
-- bytes; the last due time; what is asked for: topic with a t before it or '', state or '', key with a k before it or '',
-- part of the error with an e before it or '', due from when or '', until when or ''; how many bytes of a body, or ''. Returns
-- whether there may be more, the place up to which was looked, and of each job: id, its beginning, due time, state, body's size.
local limit, down, due, after = tonumber(ARGV[2]), ARGV[3] == '1', ARGV[4], ARGV[5]
local topic = ARGV[7] ~= '' and sub(ARGV[7], 2) or nil
local state = tonumber(ARGV[8])
local key = ARGV[9] ~= '' and sub(ARGV[9], 2) or nil
local why = ARGV[10] ~= '' and sub(ARGV[10], 2) or nil
local due_from, due_until = tonumber(ARGV[11]), tonumber(ARGV[12])
local preview = tonumber(ARGV[13])
local topics = topic and {topic} or call('HKEYS', P .. ':t')
local BYTES = 4000000 -- of an answer; four times as many are looked at
local JOBS = 1000 -- that are looked at
local IDS = 6000 -- that are looked at, where a job itself need not be
local STATES_READ = 2000
local FEW = 3000 -- an index up to this size is read at once

local function behind(b)
    if down then
        return b < after
    end
    return b > after
end

local function in_order(ids)
    if down then
        table.sort(ids, function(a, b)
            return a > b
        end)
    else
        table.sort(ids)
    end
    return ids
end

local function collect(ids, found)
    for _, b in ipairs(found) do
        if behind(b) then
            ids[#ids + 1] = b
        end
    end
end

local reply, jobs, bytes, read = {}, 0, 0, 0

local function put_part(b, job)
    local _, _, _, size = read_job(job)
    local shown = preview and preview < size and sub(job, 1, #job - size + preview) or job
    put_job(reply, b, shown, states[b])
    reply[#reply + 1] = size
    bytes = bytes + #shown
    limit = limit - 1
end

local function in_range(b, job)
    if not due_from and not due_until then
        return true
    end
    local state, when = states[b], nil
    if not state or state[STATE] == DELAYED then
        when = tonumber(call('ZSCORE', delayed_of(topic_of(job)), b))
    elseif state[STATE] == RUNNING and now >= state[LEASE] then
        local _, again = when_lost(state)
        when = again or state[DUE]
    else
        when = state[DUE]
    end
    return (not due_from or when >= due_from) and (not due_until or when <= due_until)
end

local function fits(b, job)
    local held = states[b]
    return (not topic or sub(job, 11, 10 + #topic) == topic and topic_of(job) == topic)
        and (not state or seen(held) == state)
        and (not why or string.find(held and held[ERROR] or '', why, 1, true))
        and in_range(b, job)
end

-- Looks at some jobs, in order; returns whether that was not enough, or all. `due` and `after` say how far it came.
local function look_at(ids, dues)
    states_of(ids)
    local first, some = 1, 4
    while first <= #ids do
        local part = {unpack(ids, first, math.min(first + some - 1, #ids))}
        for place, job in ipairs(values(':j:', part)) do
            local b = part[place]
            jobs, after = jobs + 1, b
            due = dues and dues[first + place - 1] or due
            if job then
                read = read + #job
                if fits(b, job) then
                    put_part(b, job)
                end
            end
            if limit == 0 or bytes > BYTES or read > 4 * BYTES or jobs >= JOBS then
                return first + place - 1 == #ids
            end
        end
        first, some = first + some, math.min(4 * some, read < 100000 and 64 or 4)
    end
    return true
end

-- Returns the next ids of all jobs with the key.
local function with_key()
    local ids = {}
    for _, name in ipairs(topics) do
        local former, edge = former_of(name, key), '(' .. string.format('%.0f', number(after))
        if down then
            collect(ids, call('ZRANGE', former, edge, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, JOBS))
        else
            collect(ids, call('ZRANGE', former, edge, '+inf', 'BYSCORE', 'LIMIT', 0, JOBS))
        end
        local holder = call('HGET', holders_of(name), key)
        collect(ids, holder and {holder} or {})
    end
    return in_order(ids)
end

-- Returns all ids of the sets, if these are small.
local function in_few(found)
    local size, ids = 0, {}
    for _, set in ipairs(found) do
        size = size + call('ZCARD', set)
    end
    if size > FEW then
        return nil
    end
    for _, set in ipairs(found) do
        collect(ids, call('ZRANGE', set, 0, -1))
    end
    return in_order(ids)
end

-- Returns those ids that are in one of a topic's sets.
local function among(ids, found)
    local there = {}
    for _, set in ipairs(found) do
        for place, score in ipairs(scores(set, ids)) do
            there[place] = there[place] or score
        end
    end
    local kept = {}
    for place, b in ipairs(ids) do
        if there[place] then
            kept[#kept + 1] = b
        end
    end
    return kept
end

-- Returns those ids whose jobs are in the state.
local function in_state(ids)
    local kept = {}
    states_of(ids)
    for _, b in ipairs(ids) do
        if seen(states[b]) == state then
            kept[#kept + 1] = b
        end
    end
    return kept
end

-- Walks through the hashes of jobs; returns whether there may be more.
local function walk(found)
    local looked = 0
    while true do
        local edge, chunks = math.floor(number(after) / 256), nil
        if down then
            chunks = call('ZRANGE', P .. ':x', edge, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 8)
        else
            chunks = call('ZRANGE', P .. ':x', edge, '+inf', 'BYSCORE', 'LIMIT', 0, 8)
        end
        for _, chunk in ipairs(chunks) do
            local ids = {}
            collect(ids, call('HKEYS', P .. ':j:' .. chunk))
            looked = looked + #ids + 1
            if topic then
                ids = among(ids, found)
            elseif state then
                ids = in_state(ids)
            end
            if not look_at(in_order(ids)) or limit == 0 then
                return 1
            end
            after = chunk .. (down and '\0' or '\255')
            if looked > (topic and IDS or STATES_READ) or jobs >= JOBS or bytes > BYTES or read > 4 * BYTES then
                return 1
            end
        end
        if #chunks < 8 then
            return 0
        end
    end
end

local function by_due()
    local sources = {}
    for _, name in ipairs(topics) do
        local set = delayed_of(name)
        local rank = rank_of(set, due, after, not down)
        sources[#sources + 1] = {set, down and call('ZCARD', set) - rank or rank}
    end
    local ids, dues, wanted = {}, {}, math.min(limit, JOBS)
    local found = merged(sources, wanted + 1, down, tonumber(ARGV[6]))
    for place = 1, math.min(#found, wanted) do
        ids[place], dues[place] = found[place][2], string.format('%.17g', found[place][1])
    end
    return (not look_at(ids, dues) or #found > wanted) and 1 or 0
end

local more
if due ~= '' then
    more = by_due()
elseif key then
    more = look_at(with_key()) and 0 or 1
elseif not topic and not state then
    more = walk()
else
    local found = sets(topics, state)
    local few = in_few(found)
    if few then
        more = look_at(few) and 0 or 1
    else
        more = walk(found)
    end
end
return {micros, more, due, after, reply}
