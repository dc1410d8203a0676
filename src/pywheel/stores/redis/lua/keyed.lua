-- Puts of jobs with keys, or with a nonce. ARGV[at]: the nonce with an n before it or '', its mark or '', how many; for each: topic, when, what, its key with a k before it or '', and how:
-- r to replace or n, then the receipt of its parent, if any, in 10 bytes; or R or N, and in 8 bytes before that for how long
-- a key stays taken whose job has ended. All are stored, or none.
local function yields(holder, how)
    local state = state_of(holder)
    if not state or state[STATE] ~= RUNNING then
        return sub(how, 1, 1) == 'r'
    end
    return #how == 11 and sub(how, 2, 7) == holder and struct.unpack('>I4', how, 8) == state[CLAIMS]
end

-- Returns how without that time, and the time or nil.
local function terms_of(how)
    local kind = sub(how, 1, 1)
    if kind == 'n' or kind == 'r' then
        return how, nil
    end
    return string.lower(kind) .. sub(how, 10), (struct.unpack('>d', how, 2))
end

-- Returns one of the last jobs that had a key, and when it ended, if that was after a time.
local function ended_lately(topic, key, since)
    local last = call('ZREVRANGE', former_of(topic, key), 0, 19)
    states_of(last)
    for _, b in ipairs(last) do
        local state = state_of(b)
        if state and state[STATE] >= DONE and state[ENDED] > since then
            return b, state[ENDED]
        end
    end
    return nil
end

-- Returns the refusal of a put, or nil: what is wrong, the job that has the key, and the place of the job put.
local function refusal(at, count)
    local seen = {}
    for place = 1, count do
        local topic, key = ARGV[at], ARGV[at + 3]
        if key ~= '' then
            local how, dedupe = terms_of(ARGV[at + 4])
            local name = #topic .. ':' .. topic .. key
            if seen[name] then
                if sub(how, 1, 1) ~= 'r' then
                    return {KEY_TAKEN_TWICE, 0, place - 1}
                end
            else
                seen[name] = true
                local holder = holder_of(topic, sub(key, 2))
                if holder and not yields(holder, how) then
                    return {EXISTS, number(holder), place - 1}
                end
                if dedupe and not holder then
                    local last, ended = ended_lately(topic, sub(key, 2), now - dedupe)
                    if last then
                        return {ENDED_LATELY, number(last), place - 1, now - ended}
                    end
                end
            end
        end
        at = at + 5
    end
    return nil
end

local function replace(b, topic, due, job)
    local before = lane_of(topic, b)
    if before then
        call('ZREM', before, b)
        call('HDEL', priorities_of(topic), b)
    end
    job = sub(call('HGET', of_job(b), b), 1, 6) .. job
    call('HSET', of_job(b), b, job)
    set_priority(topic, b, job)
    move(b, topic, due)
end

local function store(topic, due, job, key)
    local holder = key and call('HGET', holders_of(topic), key)
    if holder then
        local state = state_of(holder)
        if not state or state[STATE] ~= RUNNING then
            replace(holder, topic, due, job)
            return number(holder)
        end
        call('ZADD', former_of(topic, key), number(holder), holder) -- it hands its key on
    end
    local id = call('INCR', P .. ':n')
    local b = bid(id)
    note_chunk(id, b)
    call('HSET', of_job(b), b, CREATED .. job)
    set_priority(topic, b, CREATED .. job)
    call('HSETNX', P .. ':t', topic, '')
    put_delayed(topic, b, due)
    if key then
        call('HSET', holders_of(topic), key, b)
    end
    tell(topic, b, due)
    return id
end

-- Keeps what a put came to.
local function note_nonce(nonce, ids)
    if nonce ~= '' then
        call('HSET', NONCES, nonce, cmsgpack.pack(ids))
        call('ZADD', NONCES_BY_TIME, now, nonce)
        forget_nonces(NONCES_FORGOTTEN)
    end
end

function commands.put_keyed(at)
    local nonce, mark, count = sub(ARGV[at], 2), ARGV[at + 1], tonumber(ARGV[at + 2])
    at = at + 3
    local known = nonce ~= '' and call('HGET', NONCES, nonce)
    if known then
        return cmsgpack.unpack(known), at + 5 * count
    end
    local refused = refusal(at, count)
    if refused then
        return refused, at + 5 * count
    end
    local ids = {}
    for place = 1, count do
        local key = ARGV[at + 3] ~= '' and sub(ARGV[at + 3], 2) or nil
        ids[place] = store(ARGV[at], due_at(ARGV[at + 1]), ARGV[at + 2], key)
        at = at + 5
    end
    local kept = {}
    for place = 1, count do
        kept[place] = ids[place]
    end
    kept[count + 1] = mark ~= '' and mark or nil
    note_nonce(nonce, kept)
    return ids, at
end

function commands.put(at)
    return put_plain(at)
end
