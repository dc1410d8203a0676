-- Reading. What a function is asked for comes by name, and so do its answers to queries: stores/redis/queries.py.
local BYTES = 4000000 -- of an answer; four times as many are looked at
local JOBS = 1000 -- that are looked at for a page
local STATES_READ = 2000
local IDS = 4000 -- that are looked at, where a job itself need not be
local FEW = 3000 -- an index up to this size is read at once

-- ---- jobs -------------------------------------------------------------------------------------------------------------

-- Appends a job as readers see it: with a lease that is over taken as expired.
local function show(reply, b, job)
    local state, shown = state_of(b) or state_of_job(job, 0), {}
    local attempts, due, spent, lost = state[CLAIMS] - state[FORGIVEN], state[DUE], true, state[LOST]
    shown[STATE], shown[CLAIMS], shown[ERROR], shown[LEASE] = state[STATE], state[CLAIMS], state[ERROR], false
    if state[STATE] == DELAYED then
        due = due_of(state[TOPIC], b) or due
    elseif state[STATE] == RUNNING and now < state[LEASE] then
        shown[LEASE] = state[LEASE]
    elseif state[STATE] == RUNNING then
        shown[STATE], due, spent, lost = when_lost(state)
    end
    shown[DUE], shown[ATTEMPT], shown[LOST] = due or state[DUE], attempts - (spent and 0 or 1), lost
    deliver(reply, b, shown, job)
    return reply
end

function api.job(asked)
    local b = find(asked.ref)
    return b and show({}, b, call('HGET', chunk(':j:', b), b)) or {}
end

-- Returns packed ids, those that no job can have as 0.
local function packed(ids)
    local found = {}
    for place, id in ipairs(ids) do
        found[place] = bid(id > 0 and id <= LAST_ID and id or 0)
    end
    return found
end

-- Returns the states that readers see, -1 without a job.
function api.states(asked)
    local ids = packed(asked.ids)
    states_of(ids)
    for place, b in ipairs(ids) do
        local there = states[b] or call('HEXISTS', chunk(':j:', b), b) == 1
        ids[place] = there and seen(states[b]) or -1
    end
    return ids
end

-- Returns for each job the rows of its history, then that of its state: what its last claim came to.
function api.histories(asked)
    local found = {}
    for place, b in ipairs(packed(asked.ids)) do
        local state, rows = state_of(b), {}
        for number, row in ipairs(state and call('LRANGE', history_of(b), 0, -1) or {}) do
            rows[number] = cmsgpack.unpack(row)
        end
        if state and state[STATE] == RUNNING then
            local over = now >= state[LEASE]
            rows[#rows + 1] = {state[CLAIMS], state[ATTEMPT], state[STARTED], over and state[LEASE], over and WAS_LOST or 0,
                state[WORKER], false}
        elseif state and state[ATTEMPT] then
            rows[#rows + 1] = {state[CLAIM], state[ATTEMPT], state[STARTED], state[ENDED], state[OUTCOME], state[WORKER],
                state[WHY], state[RESULT] and call('HGET', results_of(b), b)}
        end
        found[place] = rows
    end
    return found
end

-- ---- topics -----------------------------------------------------------------------------------------------------------

local function all_topics()
    return call('HKEYS', P .. ':t')
end

-- Returns the topics, and behind each the number of its pause, if any, and its lanes but 0.
function api.topics()
    return call('HGETALL', P .. ':t')
end

-- Returns for each topic: its name, how many are delayed, running, done, dead, cancelled, and of how many the lease is over.
function api.counts()
    local found = {}
    for place, topic in ipairs(all_topics()) do
        local leases, delayed = leases_of(topic), 0
        for _, one in ipairs(topic_named(topic)) do
            delayed = delayed + call('ZCARD', one[2])
        end
        local row = {topic, delayed, call('ZCOUNT', leases, beyond(now), '+inf')}
        for state = DONE, CANCELLED do
            row[2 + state] = call('ZCARD', finished_of(state, topic))
        end
        row[7] = call('ZCARD', leases) - row[3]
        found[place] = row
    end
    return found
end

-- Returns how many of some leases that are over leave a dead job.
function api.lapsed(asked)
    local ids, dead = call('ZRANGE', leases_of(asked.topic), asked.first, asked.last), 0
    states_of(ids)
    for _, b in ipairs(ids) do
        dead = dead + (seen(states[b]) == DEAD and 1 or 0)
    end
    return dead
end

-- Returns how many jobs wait. `sizes`: of each topic how many. `spans`: of all topics together in each span. `few`: of each topic the due
-- times within a span, or their number where there are as many as `share`.
function api.forecast(asked)
    local found = {}
    local function counted(topic, from, to)
        local jobs = 0
        for _, one in ipairs(topic_named(topic)) do
            jobs = jobs + call('ZCOUNT', one[2], from, to)
        end
        return jobs
    end
    for place, topic in ipairs(asked.topics) do
        if asked.spans then
            for span, edges in ipairs(asked.spans) do
                found[span] = (found[span] or 0) + counted(topic, edges[1], beyond(edges[2]))
            end
        else
            local from, to = asked.span and asked.span[1] or '-inf', asked.span and beyond(asked.span[2]) or '+inf'
            found[place] = counted(topic, from, to)
            if asked.span and found[place] < asked.share then -- counting them is cheaper than reading them
                found[place] = {}
                for _, one in ipairs(topic_named(topic)) do
                    local part = call('ZRANGE', one[2], from, to, 'BYSCORE', 'WITHSCORES')
                    for number = 2, #part, 2 do
                        table.insert(found[place], part[number])
                    end
                end
            end
        end
    end
    return found
end

-- ---- for workers ------------------------------------------------------------------------------------------------------

-- Returns when the first lease may be over.
function api.lease()
    return first_lease()
end

-- Returns receipts of what runs for a worker, looking at some hundreds of running jobs: how many topics were looked through, the cursor
-- within the next one, ids, and claims.
function api.claims(asked)
    local cursor, done, looked, reply = asked.cursor, 0, 0, {}
    while looked < 200 and asked.topics[1 + done] do
        local part, ids = call('ZSCAN', leases_of(asked.topics[1 + done]), cursor, 'COUNT', 200), {}
        for place = 1, #part[2], 2 do
            ids[#ids + 1] = part[2][place]
        end
        states_of(ids)
        for _, b in ipairs(ids) do
            local state = states[b]
            if state and state[STATE] == RUNNING and state[WORKER] == asked.worker then
                reply[#reply + 1], reply[#reply + 2] = b, state[CLAIMS]
            end
        end
        cursor, looked = part[1], looked + #ids + 1
        done = done + (cursor == '0' and 1 or 0)
    end
    return done, cursor, reply
end

-- ---- the first of several sets ----------------------------------------------------------------------------------------

-- Returns up to `limit` members of sets in one order, by score, then by id: {score, id}. A source is {key, the rank from which it is
-- read}, ranks from the end if it goes down. No further than `stop`. Only those sets are read on whose first member comes before the
-- last that is wanted.
local function merged(sources, limit, down, stop)
    local sign = down and -1 or 1
    local function before(a, b)
        return a[1] * sign < b[1] * sign or (a[1] == b[1] and (down and a[2] > b[2] or not down and a[2] < b[2]))
    end
    local function read(source, some, into)
        local from = source[2]
        local part = down and call('ZRANGE', source[1], from, from + some - 1, 'REV', 'WITHSCORES')
            or call('ZRANGE', source[1], from, from + some - 1, 'WITHSCORES')
        for place = 1, #part, 2 do
            local score = tonumber(part[place + 1])
            if score * sign > stop * sign then
                return false
            end
            into[#into + 1] = {score, part[place], source}
        end
        source[2] = from + some
        return #part == 2 * some
    end

    local firsts, numbers, found = {}, {}, {}
    for _, source in ipairs(sources) do
        read(source, 1, firsts)
    end
    for place, first in ipairs(firsts) do -- numbers alone sort in a tenth of the time that entries take
        numbers[place] = first[1] * sign
    end
    table.sort(numbers)
    local bound = numbers[limit] or stop * sign
    for _, first in ipairs(firsts) do
        if first[1] * sign <= bound then
            local count, some, more = 1, #firsts == 1 and limit or 8, true
            found[#found + 1] = first
            while more and count < limit and found[#found][1] * sign <= bound do
                more = read(first[3], some, found)
                count, some = count + some, 4 * some
            end
        end
    end
    table.sort(found, before)
    for place = #found, limit + 1, -1 do
        found[place] = nil
    end
    return found
end

-- Returns of the jobs that ended last: id, topic, key, state, due time, when the last attempt started and ended, its number, worker, and
-- why it failed.
function api.ended(asked)
    local sources, ids, rows = {}, {}, {}
    for _, name in ipairs(asked.topic and {asked.topic} or all_topics()) do
        for state = DONE, CANCELLED do
            sources[#sources + 1] = {finished_of(state, name), 0}
        end
    end
    for place, entry in ipairs(asked.limit > 0 and merged(sources, asked.limit, true, asked.since) or {}) do
        ids[place] = entry[2]
    end
    states_of(ids)
    for place, b in ipairs(ids) do
        local state = states[b]
        rows[place] = {b, state[TOPIC], state[KEY], state[STATE], state[DUE], state[STARTED], state[ENDED], state[ATTEMPT] or 0,
            state[WORKER], state[OUTCOME] == WAS_FAILED and state[WHY]}
    end
    return rows
end

-- ---- a page of a list -------------------------------------------------------------------------------------------------

local page -- the present one: what is asked for, and how far it came

local function is_full()
    return page.limit == 0 or page.bytes > BYTES or page.read > 4 * BYTES or page.jobs >= JOBS
end

local function in_order(ids)
    table.sort(ids, page.down and function(a, b)
        return a > b
    end or nil)
    return ids
end

-- Appends those of some ids that come behind the place up to which was looked.
local function collect(ids, found)
    for _, b in ipairs(found) do
        if page.down and b < page.after or not page.down and b > page.after then
            ids[#ids + 1] = b
        end
    end
end

local function fits(b, topic)
    local state = states[b]
    if (page.topic and topic ~= page.topic) or (page.state and seen(state) ~= page.state)
        or (page.error and not string.find(state and state[ERROR] or '', page.error, 1, true)) then
        return false
    elseif not (page.due_from or page.due_until) then
        return true
    end
    local when = state and state[DUE]
    if state and state[STATE] == RUNNING and seen(state) == DELAYED then
        local _, again = when_lost(state)
        when = again or when
    elseif not state or state[STATE] == DELAYED then
        when = due_of(topic, b)
    end
    return when >= (page.due_from or when) and when <= (page.due_until or when)
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
            if job then
                local _, size, topic = read_job(job)
                page.read = page.read + #job
                if fits(b, topic) then
                    local shown = page.preview and page.preview < size and sub(job, 1, #job - size + page.preview) or job
                    show(page.found, b, shown)
                    page.sizes[#page.sizes + 1] = size
                    page.bytes, page.limit = page.bytes + #shown, page.limit - 1
                end
            end
            if is_full() then
                return first + place - 1 == #ids
            end
        end
        first, some = first + some, min(4 * some, page.read < 100000 and 64 or 4)
    end
    return true
end

-- Returns some members of a set behind a score, in the direction of the page.
local function members_behind(key, score, limit)
    if page.down then
        return call('ZRANGE', key, score, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, limit)
    end
    return call('ZRANGE', key, score, '+inf', 'BYSCORE', 'LIMIT', 0, limit)
end

-- Returns the next ids of all jobs with the key.
local function with_key()
    local ids = {}
    for _, name in ipairs(page.topics) do
        collect(ids, members_behind(former_of(name, page.key), beyond(number(page.after)), JOBS))
        collect(ids, {call('HGET', holders_of(name), page.key) or nil})
    end
    return in_order(ids)
end

-- Returns the sets that together hold the jobs that are asked for, and perhaps some others; and how many these are.
local function sets()
    local found, size, state = {}, 0, page.state
    for _, name in ipairs(page.topics) do
        for _, one in ipairs((not state or state == DELAYED) and topic_named(name) or {}) do
            found[#found + 1] = one[2]
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

-- Walks through the hashes of jobs; returns whether it came to the end.
local function walk(found)
    local looked = 0
    while true do
        local chunks = members_behind(P .. ':x', floor(number(page.after) / 256), 8)
        for _, key in ipairs(chunks) do
            local ids = {}
            collect(ids, call('HKEYS', P .. ':j:' .. key))
            looked = looked + #ids + 1
            if not look_at(in_order(found and among(ids, found) or ids)) or page.limit == 0 then
                return false
            end
            page.after = key .. (page.down and '\0' or '\255')
            if looked > (page.topic and IDS or STATES_READ) or is_full() then
                return false
            end
        end
        if #chunks < 8 then
            return true
        end
    end
end

local function by_due()
    local sources, ids, dues, wanted = {}, {}, {}, min(page.limit, JOBS)
    for _, name in ipairs(page.topics) do
        for _, one in ipairs(topic_named(name)) do
            local rank = rank_of(one[2], page.due, page.after, not page.down)
            sources[#sources + 1] = {one[2], page.down and call('ZCARD', one[2]) - rank or rank}
        end
    end
    local found = merged(sources, wanted + 1, page.down, page.stop)
    for place = 1, min(#found, wanted) do
        ids[place], dues[place] = found[place][2], sent(found[place][1])
    end
    return look_at(ids, dues) and #found <= wanted
end

-- Returns whether there may be more jobs, the due time and the id up to which was looked, the jobs, and the
-- sizes of their bodies.
function api.page(asked)
    local all, found, size
    page = asked
    page.after, page.found, page.sizes, page.jobs, page.bytes, page.read = bid(asked.after), {}, {}, 0, 0, 0
    page.topics = page.topic and {page.topic} or all_topics()
    if page.due then
        all = by_due()
    elseif page.key then
        all = look_at(with_key())
    elseif not page.topic and not page.state then
        all = walk()
    else
        found, size = sets()
        local ids = {}
        for _, key in ipairs(size <= FEW and found or {}) do
            collect(ids, call('ZRANGE', key, 0, -1))
        end
        if size > FEW then
            all = walk(found)
        else
            all = look_at(in_order(ids))
        end
    end
    return all and 0 or 1, page.due or 0, page.after, page.found, page.sizes
end
