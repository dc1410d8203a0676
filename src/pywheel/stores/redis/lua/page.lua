-- A page of jobs. ARGV: now, how many, 1 for downwards, the place behind which: due time, or '' for a list by id, and id; the last due
-- time; what is asked for: topic with a t before it or '', state or '', key with a k before it or '', part of the error with an e before
-- it or '', due from when or '', until when or ''; how many bytes of a body, or ''. Returns whether there may be more, the place up to
-- which was looked, and of each job: id, its beginning, due time, state, body's size.
local BYTES = 4000000 -- of an answer; four times as many are looked at
local JOBS = 1000 -- that are looked at
local STATES_READ = 2000
local IDS = 4000 -- that are looked at, where a job itself need not be
local FEW = 3000 -- an index up to this size is read at once

local page -- the present one
local function read_page()
    local function text(place)
        return ARGV[place] ~= '' and sub(ARGV[place], 2) or nil
    end
    page = {
        limit = tonumber(ARGV[2]), down = ARGV[3] == '1', due = ARGV[4], after = ARGV[5], stop = tonumber(ARGV[6]), topic = text(7),
        state = tonumber(ARGV[8]), key = text(9), why = text(10), due_from = tonumber(ARGV[11]), due_until = tonumber(ARGV[12]),
        preview = tonumber(ARGV[13]), reply = {}, jobs = 0, bytes = 0, read = 0,
    }
    page.topics = page.topic and {page.topic} or call('HKEYS', P .. ':t')
end

local function is_full()
    return page.limit == 0 or page.bytes > BYTES or page.read > 4 * BYTES or page.jobs >= JOBS
end

local function in_order(ids)
    table.sort(ids, page.down and function(a, b)
        return a > b
    end or nil)
    return ids
end

local function collect(ids, found)
    for _, b in ipairs(found) do
        if page.down and b < page.after or not page.down and b > page.after then
            ids[#ids + 1] = b
        end
    end
end

local function fits(b, job)
    local state = states[b]
    if (page.topic and topic_of(job) ~= page.topic) or (page.state and seen(state) ~= page.state)
        or (page.why and not string.find(state and state[ERROR] or '', page.why, 1, true)) then
        return false
    end
    if page.due_from or page.due_until then
        local when = state and state[DUE]
        if seen(state) == DELAYED and state and state[STATE] == RUNNING then
            local _, again = when_lost(state)
            when = again or when
        elseif not state or state[STATE] == DELAYED then
            when = due_of(topic_of(job), b)
        end
        return when >= (page.due_from or when) and when <= (page.due_until or when)
    end
    return true
end

-- Looks at some jobs, in order; returns whether that was not enough, or all. The page says how far it came.
local function look_at(ids, dues)
    local first, some = 1, 4
    states_of(ids)
    while first <= #ids do
        local part = {unpack(ids, first, min(first + some - 1, #ids))}
        for place, job in ipairs(values(':j:', part)) do
            local b = part[place]
            page.jobs, page.after, page.due = page.jobs + 1, b, dues and dues[first + place - 1] or page.due
            page.read = page.read + (job and #job or 0)
            if job and fits(b, job) then
                local _, _, _, size = read_job(job)
                local shown = page.preview and page.preview < size and sub(job, 1, #job - size + page.preview) or job
                put_job(page.reply, b, shown, states[b])
                page.reply[#page.reply + 1] = size
                page.bytes, page.limit = page.bytes + #shown, page.limit - 1
            end
            if is_full() then
                return first + place - 1 == #ids
            end
        end
        first, some = first + some, min(4 * some, page.read < 100000 and 64 or 4)
    end
    return true
end

-- Returns the next ids of all jobs with the key.
local function with_key()
    local ids, edge = {}, beyond(number(page.after))
    for _, name in ipairs(page.topics) do
        local former = former_of(name, page.key)
        if page.down then
            collect(ids, call('ZRANGE', former, edge, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, JOBS))
        else
            collect(ids, call('ZRANGE', former, edge, '+inf', 'BYSCORE', 'LIMIT', 0, JOBS))
        end
        collect(ids, {call('HGET', holders_of(name), page.key) or nil})
    end
    return in_order(ids)
end

-- Returns the sets that together hold the jobs that are asked for, and perhaps some others; and how many these are.
local function sets()
    local found, size, state = {}, 0, page.state
    for _, name in ipairs(page.topics) do
        for _, one in ipairs((not state or state == DELAYED) and lanes_of(name) or {}) do
            found[#found + 1] = one[3]
        end
        for one = DONE, CANCELLED do
            found[#found + 1] = (not state or state == one) and finished_of(one, name) or nil
        end
        found[#found + 1] = (not state or state <= RUNNING or state == DEAD) and leases_of(name) or nil
    end
    for _, key in ipairs(found) do
        size = size + call('ZCARD', key)
    end
    return found, size
end

-- Returns those ids that are in some sets, or whose jobs are in the state.
local function among(ids, found)
    local kept, there = {}, {}
    if page.topic then
        for _, key in ipairs(found) do
            for place, score in ipairs(scores(key, ids)) do
                there[place] = there[place] or score
            end
        end
    else
        states_of(ids)
    end
    for place, b in ipairs(ids) do
        if there[place] or (not page.topic and seen(states[b]) == page.state) then
            kept[#kept + 1] = b
        end
    end
    return kept
end

-- Walks through the hashes of jobs; returns whether there may be more.
local function walk(found)
    local looked = 0
    while true do
        local edge, chunks = floor(number(page.after) / 256), nil
        if page.down then
            chunks = call('ZRANGE', P .. ':x', edge, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 8)
        else
            chunks = call('ZRANGE', P .. ':x', edge, '+inf', 'BYSCORE', 'LIMIT', 0, 8)
        end
        for _, key in ipairs(chunks) do
            local ids = {}
            collect(ids, call('HKEYS', P .. ':j:' .. key))
            looked = looked + #ids + 1
            if not look_at(in_order(found and among(ids, found) or ids)) or page.limit == 0 then
                return 1
            end
            page.after = key .. (page.down and '\0' or '\255')
            if looked > (page.topic and IDS or STATES_READ) or is_full() then
                return 1
            end
        end
        if #chunks < 8 then
            return 0
        end
    end
end

local function by_due()
    local sources, ids, dues, wanted = {}, {}, {}, min(page.limit, JOBS)
    for _, name in ipairs(page.topics) do
        for _, one in ipairs(lanes_of(name)) do
            local rank = rank_of(one[3], page.due, page.after, not page.down)
            sources[#sources + 1] = {one[3], page.down and call('ZCARD', one[3]) - rank or rank}
        end
    end
    local found = merged(sources, wanted + 1, page.down, page.stop)
    for place = 1, min(#found, wanted) do
        ids[place], dues[place] = found[place][2], string.format('%.17g', found[place][1])
    end
    return (not look_at(ids, dues) or #found > wanted) and 1 or 0
end

function api.page()
    local more, found, size
    read_page()
    if page.due ~= '' then
        more = by_due()
    elseif page.key then
        more = look_at(with_key()) and 0 or 1
    elseif not page.topic and not page.state then
        more = walk()
    else
        found, size = sets()
        local ids = {}
        for _, key in ipairs(size <= FEW and found or {}) do
            collect(ids, call('ZRANGE', key, 0, -1))
        end
        more = size > FEW and walk(found) or (look_at(in_order(ids)) and 0 or 1)
    end
    return {micros, more, page.due, page.after, page.reply}
end
