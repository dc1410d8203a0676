-- Jobs as they are, for readers: what a state holds, and when it is due. A lease that is over is for the client to see.

local function put_job(reply, b, job, state)
    local size, topic = #reply, topic_of(job)
    local running, due = state and state[STATE] == RUNNING, state and state[DUE]
    if not state or state[STATE] == DELAYED then
        due = due_of(topic, b)
        due = due and string.format('%.17g', due)
    end
    reply[size + 1], reply[size + 2], reply[size + 3] = b, job, due or 0
    reply[size + 4] = state and {state[STATE], state[CLAIMS], state[FORGIVEN], state[LOST], state[ERROR],
        running and state[ATTEMPT], running and state[BEGUN], running and state[LEASE], running and state[MOST],
        running and state[BACKOFF]}
end

-- ARGV: now, a reference.
function api.get()
    local b, reply = find(ARGV[2]), {}
    if b then
        put_job(reply, b, call('HGET', chunk(':j:', b), b), state_of(b))
    end
    return {micros, reply}
end

-- ARGV: now, ids. Returns for each the state that readers see, -1 without a job.
function api.seen()
    local ids, found = ids_of(ARGV[2]), {}
    states_of(ids)
    for place, b in ipairs(ids) do
        local there = states[b] or call('HEXISTS', chunk(':j:', b), b) == 1
        found[place] = there and seen(states[b]) or -1
    end
    return {micros, found}
end

-- ARGV: now, ids. Returns for each the rows of its history, then that of its state: what its last claim came to.
function api.history()
    local found = {}
    for place, b in ipairs(ids_of(ARGV[2])) do
        local state, rows = state_of(b), {}
        for number, packed in ipairs(state and call('LRANGE', history_of(b), 0, -1) or {}) do
            rows[number] = cmsgpack.unpack(packed)
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
    return {micros, found}
end

-- Returns the topics, and of each the time when it was paused, or ''; and the lanes of those that have others than 0.
function api.topics()
    return {micros, call('HGETALL', P .. ':t'), call('HGETALL', P .. ':p')}
end

-- When the first lease may be over.
function api.lease()
    return {micros, first_lease()}
end

-- Returns for each topic: its name, how many are delayed, running, done, dead, cancelled, and of how many the lease is over.
function api.counts()
    local found = {}
    for place, topic in ipairs(call('HKEYS', P .. ':t')) do
        local leases, delayed = leases_of(topic), 0
        for _, one in ipairs(lanes_of(topic)) do
            delayed = delayed + call('ZCARD', one[3])
        end
        local row = {topic, delayed, call('ZCOUNT', leases, beyond(now), '+inf')}
        for state = DONE, CANCELLED do
            row[2 + state] = call('ZCARD', finished_of(state, topic))
        end
        row[7] = call('ZCARD', leases) - row[3]
        found[place] = row
    end
    return {micros, found}
end

-- Of some leases of a topic that are over, how many leave a dead job. ARGV: now, topic, and their first and last rank.
function api.lapsed()
    local ids, dead = call('ZRANGE', leases_of(ARGV[2]), ARGV[3], ARGV[4]), 0
    states_of(ids)
    for _, b in ipairs(ids) do
        dead = dead + (seen(states[b]) == DEAD and 1 or 0)
    end
    return {micros, dead}
end

-- Receipts of what runs for a worker, some hundreds of running jobs a call. ARGV: now, worker, cursor within the first topic, topics.
-- Returns how many topics were looked through, the cursor within the next one, ids, and claims.
function api.claimed_by()
    local cursor, done, looked, reply = ARGV[3], 0, 0, {}
    while looked < 200 and ARGV[4 + done] do
        local part, ids = call('ZSCAN', leases_of(ARGV[4 + done]), cursor, 'COUNT', 200), {}
        for place = 1, #part[2], 2 do
            ids[#ids + 1] = part[2][place]
        end
        states_of(ids)
        for _, b in ipairs(ids) do
            local state = states[b]
            if state and state[STATE] == RUNNING and state[WORKER] == ARGV[2] then
                reply[#reply + 1], reply[#reply + 2] = b, state[CLAIMS]
            end
        end
        cursor, looked = part[1], looked + #ids + 1
        done = done + (cursor == '0' and 1 or 0)
    end
    return {micros, done, cursor, reply}
end

-- How many jobs wait. ARGV: now, what is asked for, how many numbers, these, and topics.
-- sizes: of each topic how many. spans: two numbers each; how many of all topics in each. few: a first due time, an end, and a
-- number of jobs; of each topic the due times, or how many there are where these are as many.
function api.forecast()
    local asked, count, found = ARGV[2], tonumber(ARGV[3]), {}
    local function counted(topic, from, to)
        local jobs = 0
        for _, one in ipairs(lanes_of(topic)) do
            jobs = jobs + call('ZCOUNT', one[3], from, to)
        end
        return jobs
    end
    for at = 4 + count, #ARGV do
        local topic, place = ARGV[at], at - 3 - count
        if asked == 'sizes' then
            found[place] = counted(topic, '-inf', '+inf')
        elseif asked == 'spans' then
            for span = 1, count / 2 do
                found[span] = (found[span] or 0) + counted(topic, ARGV[2 + 2 * span], '(' .. ARGV[3 + 2 * span])
            end
        elseif counted(topic, ARGV[4], '(' .. ARGV[5]) >= tonumber(ARGV[6]) then -- counting them is cheaper than reading them
            found[place] = tonumber(ARGV[6])
        else
            local dues = {}
            for _, one in ipairs(lanes_of(topic)) do
                local part = call('ZRANGE', one[3], ARGV[4], '(' .. ARGV[5], 'BYSCORE', 'WITHSCORES')
                for number = 2, #part, 2 do
                    dues[#dues + 1] = part[number]
                end
            end
            found[place] = dues
        end
    end
    return {micros, found}
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

-- The jobs that ended last. ARGV: now, topic with a t before it or '', since when, how many. Returns of each: id, topic, key,
-- state, due time, when its last attempt started and ended, its number, worker, and why it failed.
function api.recent()
    local sources, limit, ids, reply = {}, tonumber(ARGV[4]), {}, {}
    for _, name in ipairs(ARGV[2] ~= '' and {sub(ARGV[2], 2)} or call('HKEYS', P .. ':t')) do
        for state = DONE, CANCELLED do
            sources[#sources + 1] = {finished_of(state, name), 0}
        end
    end
    for place, entry in ipairs(limit > 0 and merged(sources, limit, true, tonumber(ARGV[3])) or {}) do
        ids[place] = entry[2]
    end
    states_of(ids)
    for place, b in ipairs(ids) do
        local state = states[b]
        reply[place] = {b, state[TOPIC], state[KEY], state[STATE], state[DUE], state[STARTED], state[ENDED], state[ATTEMPT] or 0,
            state[WORKER], state[OUTCOME] == WAS_FAILED and state[WHY]}
    end
    return {micros, reply}
end
