-- Storing new jobs. A job in the store is its time of creation (6 bytes), then the client's packed part; only its lane has its due time.
local BIAS = 70368744177664 -- 2^46: `created` may lie before 1970
local BUMP = 16777216 -- 2^24: the ids skipped after a restart that may have lost some
local EXISTS, KEY_TAKEN_TWICE, ENDED_LATELY = -1, -2, -3

local function created(when)
    return struct.pack('>I6', when + BIAS)
end

-- Returns a job's due time, and its text unless it is a delay.
local function due_at(when)
    if byte(when) == 100 then -- d: a delay
        return now + sub(when, 2)
    end
    return tonumber(when), when
end

-- Notes a hash of jobs in :x when its first job comes: the first of 256, or the first after a bump. The hash before it may be empty.
local function note_chunk(id, b)
    if id % 256 == 0 or id % BUMP == 1 then
        local place = floor(id / 256)
        call('ZADD', K.chunks, place, sub(b, 1, 5))
        local last = bid(max(place - 1, 0) * 256)
        if place > 0 and not hashed[chunk(':j:', last)] and call('EXISTS', chunk(':j:', last)) == 0 then
            call('ZREM', K.chunks, sub(last, 1, 5))
        end
    end
end

local function new_id()
    local id = call('INCR', K.last_id)
    local b = bid(id)
    note_chunk(id, b)
    return id, b
end

-- Stores `count` jobs without keys. Arguments: for each topic and options its name, the priority, the number of jobs, their common
-- beginning, and their due times: 1 and the time, or 0 and a delay; then the bodies. Outcome: the first id; the others follow it.
function commands.put(count)
    local far, char, unpack_struct = furthest_horizon(), string.char, struct.unpack
    local first = call('INCRBY', K.last_id, count) - count + 1
    local id, key, jobs = first, nil, nil
    while count > 0 do
        local topic, priority, some, start_with = take(), tonumber(take()), tonumber(take()), created(now) .. take()
        local whens = take()
        local dues = list_of(added, lane(topic, priority))
        for turn = 1, some do
            local low = id % 256
            if low == 0 or not key then
                local b = bid(id)
                key = sub(b, 1, 5)
                note_chunk(id, b)
                jobs = list_of(hashed, P .. ':j:' .. key)
            end
            local b, is_time, due = key .. char(low), unpack_struct('>Bd', whens, turn * 9 - 8)
            due = is_time == 1 and due or now + due
            local size, place = #jobs, #dues
            jobs[size + 1], jobs[size + 2] = b, start_with .. ARGV[at]
            dues[place + 1], dues[place + 2] = digits(due), b
            if due <= far then
                tell(topic, b, due, priority)
            end
            at, id = at + 1, id + 1
        end
        count = count - some
    end
    return first
end

local function wait_until(b, topic, due, priority, lost)
    add(lane(topic, priority, lost), due, b)
    tell(topic, b, due, priority)
end

-- ---- jobs with keys, a nonce or a past ------------------------------------------------------------------------------

-- Returns the live jobs that hold the keys of some jobs, by topic and key.
local function holders_of(jobs)
    local found, wanted = {}, {}
    for _, job in ipairs(jobs) do
        if job.key and not job.how.passed then
            local keys = list_of(wanted, job.topic)
            keys[#keys + 1] = job.key
        end
    end
    for topic, keys in pairs(wanted) do
        local there, held = {}, {}
        for place, b in ipairs(of_each('HMGET', keys_of(topic).holders, keys)) do
            held[#held + 1] = b or nil
            there[keys[place]] = b or nil
        end
        states_of(held)
        for key, b in pairs(there) do
            if settle_lost(b, states[b]) and states[b][STATE] == DEAD then
                there[key] = nil
            end
        end
        found[topic] = there
    end
    flush()
    return found
end

-- Whether a holder gives up its key: to a job that replaces it, or to its successor.
local function yields(holder, how)
    local state, parent = state_of(holder), how.parent
    if not state or state[STATE] ~= RUNNING then
        return how.replace
    end
    return parent and bid(parent[1]) == holder and parent[2] == state[CLAIMS]
end

-- Returns one of the last jobs that had a key, and when it ended, if that was after a time.
local function ended_lately(topic, key, since)
    local last = former_jobs(topic, key, 20)
    states_of(last)
    for _, b in ipairs(last) do
        settle_lost(b, states[b]) -- it may have handed the key on
    end
    flush()
    for _, b in ipairs(last) do
        local state = states[b]
        if state and state[STATE] >= DONE and state[ENDED] > since then
            return b, state[ENDED]
        end
    end
end

-- Returns why jobs cannot have their keys, or nil: the fault, the job that has the key, the place of the refused one, and how long ago the
-- other ended.
local function refusal(jobs, held)
    local seen = {}
    for place, job in ipairs(jobs) do
        local key, how = job.key, job.how
        if key and not how.passed then
            local before = list_of(seen, job.topic)
            local holder = not before[key] and held[job.topic][key]
            if before[key] and not how.replace then
                return {KEY_TAKEN_TWICE, 0, place - 1}
            elseif holder and not yields(holder, how) then
                return {EXISTS, number(holder), place - 1}
            elseif how.dedupe and not holder and not before[key] then
                local last, ended = ended_lately(job.topic, key, now - how.dedupe)
                if last then
                    return {ENDED_LATELY, number(last), place - 1, now - ended}
                end
            end
            before[key] = true
        end
    end
end

-- Gives a new job its past from another store, with the last row of its history in its state, as claims leave it.
local function enter_past(b, job, past, result)
    local state, rows, started, worker, why = state_of_new(job.options, job.due), past.rows, false, false, false
    for place = 1, #rows - 1 do
        call('RPUSH', history_of(b), cmsgpack.pack(rows[place]))
    end
    if #rows > 0 then
        state[CLAIM], state[ATTEMPT], started, state[ENDED], state[OUTCOME], worker, why = unpack(rows[#rows])
    end
    state[STARTED], state[TEXT] = started or NO_TIME, new_texts(job.topic, job.key, past.error, why, worker)
    state[STATE], state[CLAIMS], state[FORGIVEN], state[LOST] = past.state, past.claims, past.forgiven, past.lost
    if result ~= '' then
        state[RESULT] = 1
        set(chunk(':r:', b), b, sub(result, 2))
    end
    keep(b, state)
    return state
end

-- Replaces a waiting job. That counts as a claim given back, unless the job is of the same put.
local function replace(holder, state, job, touched)
    flush()
    local _, from = due_of(job.topic, holder)
    local jobs = chunk(':j:', holder)
    call('ZREM', from, holder)
    call('HSET', jobs, holder, sub(call('HGET', jobs, holder), 1, 6) .. sub(job.job, 7))
    if not touched[holder] then
        state = state or state_or_new(holder, 0)
        new_claim(state, receipts_base())
        state[FORGIVEN] = state[FORGIVEN] + 1
    end
    if state then
        state[PRIORITY] = job.priority
        keep(holder, state)
    end
    touched[holder] = true
    wait_until(holder, job.topic, job.due, job.priority, state and state[LOST])
    return number(holder)
end

local function enter(job, held, touched)
    local topic, key, how = job.topic, job.key, job.how
    local keys = key and not how.passed and held[topic]
    local holder = keys and keys[key]
    local state = holder and state_of(holder)
    if holder and not (state and state[STATE] == RUNNING) then
        return replace(holder, state, job, touched)
    elseif holder then
        add(keys_of(topic).former, 0, with_key(key, holder)) -- it hands its key on
    end
    local id, b = new_id()
    touched[b] = true
    set(chunk(':j:', b), b, job.job)
    local past = how.past and enter_past(b, job, how.past, job.result)
    if keys then
        set(keys_of(topic).holders, key, b)
        keys[key] = b
    elseif key then
        add(keys_of(topic).former, 0, with_key(key, b))
    end
    if past and past[STATE] >= DONE then
        lane(topic, job.priority) -- whatever its state, the topic has this priority
        add(keys_of(topic)[past[STATE]], past[ENDED], b)
        note_first(ends_of(past[STATE]), topic, min(past[ENDED], now))
    else
        wait_until(b, topic, job.due, job.priority, past and past[LOST])
    end
    return id
end

-- Stores jobs, all or none. `asked` has the nonce, the fingerprint, and the number of jobs. Arguments: for each job its due time, its
-- packed part, its options of the put as JSON or '', and its result. Outcome: the ids, or a refusal, whose first number is below 0.
function commands.put_keyed(asked)
    local jobs, ids, noted = {}, {}, {}
    for place = 1, asked.jobs do
        local when, what, how, result = take(), take(), take(), take()
        how = how ~= '' and cjson.decode(how) or PLAIN
        local job = created(how.created or now) .. what
        local options, _, topic = read_job(job)
        jobs[place] = {topic = topic, key = options.key, priority = options.priority or 0, options = options, due = (due_at(when)),
            job = job, how = how, result = result}
    end
    local known = put_with(asked.nonce)
    local held = known or holders_of(jobs)
    local outcome = known or refusal(jobs, held)
    if outcome then
        return outcome
    end
    local touched = {}
    for place, job in ipairs(jobs) do
        ids[place] = enter(job, held, touched)
        noted[place] = ids[place]
    end
    noted[#noted + 1] = asked.fingerprint
    keep_nonce(asked.nonce, noted)
    return ids
end
