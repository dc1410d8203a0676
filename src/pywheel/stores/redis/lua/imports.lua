-- Jobs as another store has them. ARGV[at]: the nonce with an n before it or '', how many; for each: topic, when it is due,
-- what lies in the store, its key with a k before it or '', l if it is the live job with its key, its past as JSON, and the
-- result of its last attempt with an r before it or ''.
local function refused_import(at, count)
    local seen = {}
    for place = 1, count do
        local topic, key = ARGV[at], ARGV[at + 3]
        if key ~= '' and ARGV[at + 4] == 'l' then
            local name = #topic .. ':' .. topic .. key
            local holder = not seen[name] and holder_of(topic, sub(key, 2))
            if seen[name] or holder then
                return {seen[name] and KEY_TAKEN_TWICE or EXISTS, holder and number(holder) or 0, place - 1}
            end
            seen[name] = true
        end
        at = at + 7
    end
    return nil
end

-- Returns what cjson has read, with false for null.
local function value(read)
    return read ~= cjson.null and read
end

-- Keeps what was tried: the last row with the state, as claims leave it.
local function keep_past(b, topic, key, due, past)
    local to, claims, forgiven, lost, err, rows = unpack(past)
    local last = rows[#rows]
    local state = {to, topic, key or false, due, claims, forgiven, lost, value(err)}
    for _, row in ipairs(rows) do
        for field = 1, 7 do
            row[field] = value(row[field])
        end
        if row ~= last then
            call('RPUSH', history_of(b), cmsgpack.pack(row))
        end
    end
    if last then
        state[CLAIM], state[ATTEMPT], state[STARTED], state[ENDED], state[OUTCOME], state[WORKER], state[WHY] = unpack(last)
    end
    keep(b, state)
    return state
end

local function import(topic, due, job, key, holds, past, result)
    local id = call('INCR', P .. ':n')
    local b = bid(id)
    note_chunk(id, b)
    call('HSET', of_job(b), b, job)
    set_priority(topic, b, job)
    call('HSETNX', P .. ':t', topic, '')
    local state = past and keep_past(b, topic, key, due, past)
    if state and result ~= '' then
        state[RESULT] = true
        call('HSET', results_of(b), b, sub(result, 2))
    end
    if key and holds then
        call('HSET', holders_of(topic), key, b)
    elseif key then
        call('ZADD', former_of(topic, key), id, b)
    end
    if state and state[STATE] >= DONE then
        add(finished_of(state[STATE], topic), state[ENDED], b)
    else
        put_delayed(topic, b, due)
        tell(topic, b, due)
    end
    return id
end

commands['import'] = function(at)
    local nonce, count = sub(ARGV[at], 2), tonumber(ARGV[at + 1])
    at = at + 2
    local known = nonce ~= '' and call('HGET', NONCES, nonce)
    if known then
        return cmsgpack.unpack(known), at + 7 * count
    end
    local refused = refused_import(at, count)
    if refused then
        return refused, at + 7 * count
    end
    local ids = {}
    for place = 1, count do
        local key, past = ARGV[at + 3], ARGV[at + 5]
        ids[place] = import(ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], key ~= '' and sub(key, 2) or nil,
            ARGV[at + 4] == 'l', past ~= '' and cjson.decode(past), ARGV[at + 6])
        at = at + 7
    end
    note_nonce(nonce, ids)
    return ids, at
end
