-- Reading. Arguments of functions come by name, and so do answers to queries: stores/redis/queries.py.
local READ = 16000000 -- bytes of jobs that are looked at for an answer
local WORK = 1000 -- of one call: 4 for a job that is looked at, 1 for one whose state rules it out

-- ---- jobs -------------------------------------------------------------------------------------------------------------

-- Returns a job's state as readers see it: a lease that is over counts as ended.
local function view(b, job)
    local state, shown = state_of(b) or state_of_job(job, 0), {}
    local attempts, due, spent, lost = state[CLAIMS] - state[FORGIVEN], state[DUE], true, state[LOST]
    shown[STATE], shown[CLAIMS], shown[TEXT], shown[LEASE] = state[STATE], state[CLAIMS], state[TEXT], false
    if state[STATE] == DELAYED then
        due = due_of(state[TEXT].topic, b) or due
    elseif state[STATE] == RUNNING and now < state[LEASE] then
        shown[LEASE] = state[LEASE]
    elseif state[STATE] == RUNNING then
        shown[STATE], due, spent, lost = when_lost(state)
    end
    shown[DUE], shown[ATTEMPT], shown[LOST] = due or state[DUE], attempts - (spent and 0 or 1), lost
    return shown
end

function api.job(asked)
    local b, reply = find(asked.ref), {}
    local job = b and call('HGET', chunk(':j:', b), b)
    if job then
        deliver(reply, b, view(b, job), job)
    end
    return reply
end

-- Returns the states that readers see, -1 without a job.
function api.states()
    local ids = ids_of(take())
    states_of(ids)
    for place, b in ipairs(ids) do
        local there = states[b] or call('HEXISTS', chunk(':j:', b), b) == 1
        ids[place] = there and seen(states[b]) or -1
    end
    return ids
end

-- Returns for each job the rows of its history, then that of its state: how its last claim ended.
function api.histories()
    local found, ids = {}, ids_of(take())
    states_of(ids)
    for place, b in ipairs(ids) do
        local state, rows = states[b], {}
        for number, row in ipairs(state and call('LRANGE', history_of(b), 0, -1) or {}) do
            rows[number] = cmsgpack.unpack(row)
        end
        if state and state[STATE] == RUNNING then
            local over = now >= state[LEASE]
            rows[#rows + 1] = row_of(state, state[CLAIMS], over and state[LEASE], over and WAS_LOST or 0, false)
        elseif state and state[ATTEMPT] ~= NO_ATTEMPT then
            local row = row_of(state, state[CLAIM], state[ENDED], state[OUTCOME], state[TEXT].why)
            row[8] = state[RESULT] == 1 and call('HGET', chunk(':r:', b), b)
            rows[#rows + 1] = row
        end
        found[place] = rows
    end
    return found
end

-- ---- topics -----------------------------------------------------------------------------------------------------------

-- Returns for some topics the numbers of delayed, running, done, dead and cancelled jobs, and of leases that are over.
function api.counts(asked)
    local found = {}
    for place, topic in ipairs(asked.topics) do
        local keys, delayed = keys_of(topic), 0
        for _, one in ipairs(topic_named(topic)) do
            delayed = delayed + call('ZCARD', one[2])
        end
        local row = {delayed, call('ZCOUNT', keys.leases, beyond(now), '+inf')}
        for state = DONE, CANCELLED do
            row[1 + state] = call('ZCARD', keys[state])
        end
        row[6] = call('ZCARD', keys.leases) - row[2]
        found[place] = row
    end
    return found
end

-- Returns the number of dead jobs that some lapsed leases leave.
function api.lapsed(asked)
    local ids, dead = call('ZRANGE', keys_of(asked.topic).leases, asked.first, asked.last), 0
    states_of(ids)
    for _, b in ipairs(ids) do
        dead = dead + (seen(states[b]) == DEAD and 1 or 0)
    end
    return dead
end

-- Returns for each span the number of waiting jobs of some topics.
function api.forecast(asked)
    local found = {}
    for place, span in ipairs(asked.spans) do
        found[place] = 0
        for _, topic in ipairs(asked.topics) do
            for _, one in ipairs(topic_named(topic)) do
                found[place] = found[place] + call('ZCOUNT', one[2], digits(span[1]), beyond(span[2]))
            end
        end
    end
    return found
end

-- Returns the jobs of some topics that ended last: id, topic, key, state, due time, start and end of the last attempt, its number, its
-- worker, and why it failed.
function api.ended(asked)
    local sources, ids, found = {}, {}, {}
    for _, name in ipairs(asked.topics) do
        for state = asked.state or DONE, asked.state or CANCELLED do
            local key = keys_of(name)[state]
            local later = asked.by and call('ZCOUNT', key, beyond(asked.by), '+inf') or 0
            sources[#sources + 1] = {key = key, from = later}
        end
    end
    for place, entry in ipairs(asked.limit > 0 and merged(sources, asked.limit, asked.since, true) or {}) do
        ids[place] = entry[ID]
    end
    states_of(ids)
    for place, b in ipairs(ids) do
        local state = states[b]
        local text, started = state[TEXT], row_of(state)[3]
        found[place] = {b, text.topic, text.key, state[STATE], state[DUE], started, state[ENDED], max(state[ATTEMPT], 0), text.worker,
            state[OUTCOME] == WAS_FAILED and text.why}
    end
    return found
end

-- ---- for workers ------------------------------------------------------------------------------------------------------

-- Returns the earliest time at which a lease may be over.
function api.lease()
    return first_lease()
end

-- Returns receipts of a worker's running jobs, looking at some hundreds of running jobs: the number of topics looked through, the cursor
-- within the next one, ids, and claims.
function api.claims(asked)
    local cursor, done, looked, reply = asked.cursor, 0, 0, {}
    while looked < 200 and asked.topics[1 + done] do
        local part, ids = call('ZSCAN', keys_of(asked.topics[1 + done]).leases, cursor, 'COUNT', 200), {}
        for place = 1, #part[2], 2 do
            ids[#ids + 1] = part[2][place]
        end
        states_of(ids)
        for _, b in ipairs(ids) do
            local state = states[b]
            if state and state[STATE] == RUNNING and state[TEXT].worker == asked.worker then
                reply[#reply + 1], reply[#reply + 2] = b, state[CLAIMS]
            end
        end
        cursor, looked = part[1], looked + #ids + 1
        done = done + (cursor == '0' and 1 or 0)
    end
    return done, cursor, reply
end

-- ---- a page of a list -------------------------------------------------------------------------------------------------

local page -- the present one: the arguments, and its progress

local function is_full()
    return page.limit == 0 or page.bytes > page.most or page.read > READ or page.work >= WORK
end

local function in_order(ids)
    table.sort(ids, page.down and function(a, b)
        return a > b
    end or nil)
    return ids
end

-- Appends the ids that come behind the place looked at last.
local function collect(ids, found)
    for _, b in ipairs(found) do
        if page.down and b < page.after or not page.down and b > page.after then
            ids[#ids + 1] = b
        end
    end
end

-- Whether a job with this state, or none, may match.
local function may_fit(state)
    return (not page.state or seen(state) == page.state) and (not (page.topic and state) or state[TEXT].topic == page.topic)
        and (not page.error or string.find(state and state[TEXT].error or '', page.error, 1, true))
end

-- Looks at some jobs, in order; returns whether all were looked at. The page notes its progress.
local function look_at(ids)
    local first, some = 1, 4
    while first <= #ids do
        local part, wanted = {unpack(ids, first, min(first + some - 1, #ids))}, {}
        states_of(part)
        for _, b in ipairs(part) do
            wanted[#wanted + 1] = may_fit(states[b]) and b or nil
        end
        local jobs = values(':j:', wanted)
        for place, b in ipairs(part) do
            local job = jobs[b]
            page.work, page.after = page.work + (job and 4 or 1), b
            if job then
                local _, size, topic = read_job(job)
                page.read = page.read + #job
                local state = (not page.topic or topic == page.topic) and view(b, job)
                local due = state and state[DUE]
                if state and due >= (page.due_from or due) and due <= (page.due_until or due) then
                    job = page.preview and page.preview < size and sub(job, 1, #job - size + page.preview) or job
                    deliver(page.found, b, state, job)
                    page.sizes[#page.sizes + 1] = size
                    page.bytes, page.limit = page.bytes + #job, page.limit - 1
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

-- Returns some members of a set from a place on, in the direction of the page.
local function members_from(key, first, by, least, most, limit)
    if page.down then
        return call('ZRANGE', key, first, least, by, 'REV', 'LIMIT', 0, limit)
    end
    return call('ZRANGE', key, first, most, by, 'LIMIT', 0, limit)
end

-- Returns the first ids with the key in some topics, and whether there may be more.
local function with_page_key()
    local ids, first, more = {}, '(' .. with_key(page.key, page.after), false
    for _, name in ipairs(page.topics) do
        local former = members_from(keys_of(name).former, first, 'BYLEX', '[' .. page.key .. '\0', '(' .. page.key .. '\1', page.limit)
        more = more or #former == page.limit
        for place, member in ipairs(former) do
            former[place] = sub(member, -6)
        end
        former[#former + 1] = call('HGET', keys_of(name).holders, page.key) or nil
        collect(ids, former)
    end
    return ids, more
end

-- Returns the ids of all jobs of some topics that may match, and perhaps of some others; nil if these are too many.
local function few()
    local found, ids, size, state = {}, {}, 0, page.state
    for _, name in ipairs(page.topics) do
        for _, one in ipairs((not state or state == DELAYED) and topic_named(name) or {}) do
            found[#found + 1] = one[2]
        end
        for one = DONE, CANCELLED do
            found[#found + 1] = (not state or state == one) and keys_of(name)[one] or nil
        end
        found[#found + 1] = (not state or state <= RUNNING or state == DEAD) and keys_of(name).leases or nil
    end
    for _, key in ipairs(found) do
        size = size + call('ZCARD', key)
    end
    for _, key in ipairs(size > 0 and size <= page.limit and found or {}) do
        collect(ids, call('ZRANGE', key, 0, -1))
    end
    return size <= page.limit and ids or nil, false
end

-- Returns the first waiting jobs of some topics by due time: ids, whether there may be more, and the due times.
local function by_due()
    local sources, ids, dues = {}, {}, {}
    for _, name in ipairs(page.topics) do
        for _, one in ipairs(topic_named(name)) do
            local rank = rank_of(one[2], page.due, number(page.after), not page.down)
            sources[#sources + 1] = {key = one[2], from = page.down and call('ZCARD', one[2]) - rank or rank}
        end
    end
    for place, job in ipairs(merged(sources, page.limit, page.stop, page.down)) do
        ids[place], dues[place] = job[ID], digits(job[SCORE])
    end
    return ids, #ids == page.limit, dues
end

-- Returns the ids of jobs of some topics that may match, from a place on: up to `limit` by due time; by key some more; others all. Answers
-- with the ids, false if there are too many, whether there may be more, and the due times.
function api.ids(asked)
    page = asked
    page.after = bid(asked.after)
    local ids, more, dues = (page.due and by_due or page.key and with_page_key or few)()
    return ids and table.concat(ids) or false, more and 1 or 0, dues or {}
end

-- Scans the hashes of jobs; returns whether it came to the end.
local function walk()
    while true do
        local chunks = members_from(K.chunks, floor(number(page.after) / 256), 'BYSCORE', '-inf', '+inf', 8)
        for _, key in ipairs(chunks) do
            local ids = {}
            collect(ids, call('HKEYS', P .. ':j:' .. key))
            page.work = page.work + 1
            if not look_at(in_order(ids)) then
                return false
            end
            page.after = key .. (page.down and '\0' or '\255')
            if is_full() then
                return false
            end
        end
        if #chunks < 8 then
            return true
        end
    end
end

-- Looks at some jobs whose ids are given, or at all; returns whether there may be more, the last id looked at, the jobs, and the sizes of
-- their bodies.
function api.page(asked)
    local ids = take()
    page = asked
    page.after, page.found, page.sizes, page.work, page.bytes, page.read = bid(asked.after), {}, {}, 0, 0, 0
    local all = ids and look_at(ids_of(ids)) or not ids and walk()
    return all and 0 or 1, page.after, page.found, page.sizes
end
