-- Storing new jobs. A job is created (6 bytes), then what its client packed; when it is due says its place alone.
local BIAS = 70368744177664 -- 2^46: `created` may lie before 1970
local BUMP = 16777216 -- 2^24: so many ids are left out after a restart that may have lost some

local function created()
    return struct.pack('>I6', now + BIAS)
end

local function due_at(when)
    if byte(when) == 100 then -- d: a delay
        return now + sub(when, 2)
    end
    return tonumber(when)
end

-- A hash of jobs is noted in :x when its first job comes: the first of 256, or the first after a bump. The one before it may be empty.
local function note_chunk(id, b)
    if id % 256 == 0 or id % BUMP == 1 then
        local place = floor(id / 256)
        call('ZADD', P .. ':x', place, sub(b, 1, 5))
        local last = bid(max(place - 1, 0) * 256)
        if place > 0 and call('EXISTS', chunk(':j:', last)) == 0 then
            call('ZREM', P .. ':x', sub(last, 1, 5))
        end
    end
end

-- Stores jobs without keys: ARGV[at] is their number, then for each topic and priority: its name, the priority, how many, and when and
-- what for each. Returns the first id; the others follow it.
function commands.put(at)
    local count, start_with, far, char = tonumber(ARGV[at]), created(), furthest_horizon(), string.char
    local first = call('INCRBY', P .. ':n', count) - count + 1
    local id, place, jobs, key, size = first, at + 1, {}, nil, 0
    while count > 0 do
        local topic, some = ARGV[place], tonumber(ARGV[place + 2])
        local dues, to = {}, lane(topic, tonumber(ARGV[place + 1]))
        place = place + 3
        for number = 1, 2 * some, 2 do
            local low = id % 256
            if low == 0 or not key then
                if key then
                    call('HSET', P .. ':j:' .. key, unpack(jobs))
                    jobs, size = {}, 0
                end
                local b = bid(id)
                key = sub(b, 1, 5)
                note_chunk(id, b)
            end
            local b, due = key .. char(low), due_at(ARGV[place])
            jobs[size + 1], jobs[size + 2] = b, start_with .. ARGV[place + 1]
            dues[number], dues[number + 1] = due, b
            if due <= far then
                tell(topic, b, due)
            end
            size, place, id = size + 2, place + 2, id + 1
        end
        call('HSETNX', P .. ':t', topic, '')
        each_part('ZADD', to, dues)
        count = count - some
    end
    call('HSET', P .. ':j:' .. key, unpack(jobs))
    return first, place
end

-- The commonest step of all, in short: one job without priority, due beyond what anybody wants to be told. Nil if it is none.
function api.put_alone()
    local asked, due, key = P .. ':q:' .. ARGV[2], due_at(ARGV[9])
    local known = call('MGET', asked, P .. ':hmax')
    local latest = known[1] and tonumber(string.match(known[1], '^%d+')) or 0
    if ARGV[7] ~= '0' or latest >= tonumber(ARGV[3]) or (known[2] and due <= tonumber(known[2])) then
        return nil
    end
    local id = call('INCR', P .. ':n')
    local b = bid(id)
    note_chunk(id, b)
    call('HSET', P .. ':j:' .. sub(b, 1, 5), b, created() .. ARGV[10])
    call('HSETNX', P .. ':t', ARGV[6], '')
    call('ZADD', P .. ':d:0:' .. ARGV[6], due, b)
    call('SET', asked, ARGV[3] .. ' ' .. cmsgpack.pack({id}), 'PX', KEPT)
    return {micros, latest, '', {id}}
end

-- Stores one job; returns its id.
local function store(topic, job)
    local id = call('INCR', P .. ':n')
    local b = bid(id)
    note_chunk(id, b)
    call('HSET', chunk(':j:', b), b, job)
    call('HSETNX', P .. ':t', topic, '')
    return id, b
end

local function wait_until(b, topic, due, priority, lost)
    call('ZADD', lane(topic, priority, lost), due, b)
    tell(topic, b, due)
end

-- ---- jobs with keys, or with a nonce --------------------------------------------------------------------------------

local EXISTS, KEY_TAKEN_TWICE, ENDED_LATELY = -1, -2, -3

-- Returns the live job that has a key.
local function holder_of(topic, key)
    local b = call('HGET', holders_of(topic), key)
    if b and settle_lost(b, state_of(b)) then
        flush()
        b = call('HGET', holders_of(topic), key)
    end
    return b or nil
end

-- Whether a job lets another one have its key: r to replace or n, then the receipt of its parent, if any, in 10 bytes.
local function yields(holder, how)
    local state = state_of(holder)
    if not state or state[STATE] ~= RUNNING then
        return sub(how, 1, 1) == 'r'
    end
    return #how == 11 and sub(how, 2, 7) == holder and struct.unpack('>I4', how, 8) == state[CLAIMS]
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
end

-- Returns the refusal of a job with a key, or nil: what is wrong, the job that has the key, and how long ago that ended. `seen` has the
-- keys of the jobs before it.
local function refusal(seen, topic, key, how, dedupe)
    local name = #topic .. ':' .. topic .. key
    if seen[name] then
        return sub(how, 1, 1) ~= 'r' and {KEY_TAKEN_TWICE, 0} or nil
    end
    seen[name] = true
    local holder = holder_of(topic, key)
    if holder and not yields(holder, how) then
        return {EXISTS, number(holder)}
    end
    local last, ended = nil, nil
    if dedupe and not holder then
        last, ended = ended_lately(topic, key, now - dedupe)
    end
    return last and {ENDED_LATELY, number(last), now - ended} or nil
end

-- ARGV[at]: the nonce or '', its mark or '', how many; then for each: topic, when, what, its key with a k before it or '', how, for how
-- long a key stays taken whose job has ended, or '', and the priority. All are stored, or none.
function commands.put_keyed(at)
    local nonce, mark, count = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
    local first, after, seen, ids = at + 3, at + 3 + 7 * count, {}, {}
    local known = nonces.get(nonce)
    if known then
        return known, after
    end
    for place = 0, count - 1 do
        local one = first + 7 * place
        local refused = ARGV[one + 3] ~= ''
            and refusal(seen, ARGV[one], sub(ARGV[one + 3], 2), ARGV[one + 4], tonumber(ARGV[one + 5]))
        if refused then
            table.insert(refused, 3, place)
            return refused, after
        end
    end
    for one = first, after - 1, 7 do
        local topic, due, job, key = ARGV[one], due_at(ARGV[one + 1]), ARGV[one + 2], sub(ARGV[one + 3], 2)
        local priority = tonumber(ARGV[one + 6])
        local holder = ARGV[one + 3] ~= '' and call('HGET', holders_of(topic), key)
        local state = holder and state_of(holder)
        if holder and not (state and state[STATE] == RUNNING) then -- it is replaced
            local was, from = due_of(topic, holder)
            call('ZREM', from, holder)
            call('HSET', chunk(':j:', holder), holder, sub(call('HGET', chunk(':j:', holder), holder), 1, 6) .. job)
            if state then
                state[PRIORITY] = priority
                keep(holder, state)
            end
            call('ZADD', lane(topic, priority, state and state[LOST]), due, holder)
            tell(topic, holder, due, min(due, was))
            ids[#ids + 1] = number(holder)
        else
            if holder then
                call('ZADD', former_of(topic, key), number(holder), holder) -- it hands its key on
            end
            local id, b = store(topic, created() .. job)
            wait_until(b, topic, due, priority)
            if ARGV[one + 3] ~= '' then
                call('HSET', holders_of(topic), key, b)
            end
            ids[#ids + 1] = id
        end
    end
    local kept = {}
    for place, id in ipairs(ids) do
        kept[place] = id
    end
    kept[#ids + 1] = mark ~= '' and mark or nil
    nonces.set(nonce, kept)
    return ids, after
end

-- ---- jobs as another store has them ---------------------------------------------------------------------------------

-- Returns what cjson has read, with false for null.
local function value(read)
    return read ~= cjson.null and read
end

-- Keeps what was tried: the last row with the state, as claims leave it.
local function keep_past(b, topic, key, due, priority, past)
    local to, claims, forgiven, lost, err, rows = unpack(past)
    local state = state_of_new(topic, key, due, priority)
    for place, row in ipairs(rows) do
        for field = 1, 7 do
            row[field] = value(row[field])
        end
        if place < #rows then
            call('RPUSH', history_of(b), cmsgpack.pack(row))
        else
            state[CLAIM], state[ATTEMPT], state[STARTED], state[ENDED], state[OUTCOME], state[WORKER], state[WHY] = unpack(row)
        end
    end
    state[STATE], state[CLAIMS], state[FORGIVEN], state[LOST], state[ERROR] = to, claims, forgiven, lost, value(err)
    keep(b, state)
    return state
end

-- ARGV[at]: the nonce or '', how many; for each: topic, when it is due, what lies in the store, its key with a k before it or '', l if it
-- is the live job with its key, its past as JSON or '', and the result of its last attempt with an r before it or ''.
commands['import'] = function(at)
    local nonce, count = ARGV[at], tonumber(ARGV[at + 1])
    local first, after, seen, ids = at + 2, at + 2 + 7 * count, {}, {}
    local known = nonces.get(nonce)
    if known then
        return known, after
    end
    for place = 0, count - 1 do
        local one = first + 7 * place
        local refused = ARGV[one + 3] ~= '' and ARGV[one + 4] == 'l' and refusal(seen, ARGV[one], sub(ARGV[one + 3], 2), 'n')
        if refused then
            table.insert(refused, 3, place)
            return refused, after
        end
    end
    for one = first, after - 1, 7 do
        local topic, due, job, result = ARGV[one], tonumber(ARGV[one + 1]), ARGV[one + 2], ARGV[one + 6]
        local id, b = store(topic, job)
        local key, _, _, _, priority = read_job(job)
        lane(topic, priority) -- whatever its state, the topic has this priority
        local state = ARGV[one + 5] ~= '' and keep_past(b, topic, key, due, priority, cjson.decode(ARGV[one + 5]))
        if state and result ~= '' then
            state[RESULT] = true
            call('HSET', results_of(b), b, sub(result, 2))
        end
        if key and ARGV[one + 4] == 'l' then
            call('HSET', holders_of(topic), key, b)
        elseif key then
            call('ZADD', former_of(topic, key), id, b)
        end
        if state and state[STATE] >= DONE then
            add(finished_of(state[STATE], topic), state[ENDED], b)
        else
            wait_until(b, topic, due, priority, state and state[LOST])
        end
        ids[#ids + 1] = id
    end
    nonces.set(nonce, ids)
    return ids, after
end

-- Opening a store. ARGV: now, the version that this client knows, the least that goes with it, whether it may be made, the run id of the
-- server. The format says version and least: an older store becomes one of this version, a newer one stays what it is. After a restart, or
-- on another server, some of what was promised last may be gone: ids and claims that were given out then are not given out again. Returns
-- '' if there is no store, or else its format.
function api.open()
    local format, mine, run_id = call('GET', P .. ':store'), ARGV[2], ARGV[5]
    mine = 'pywheel ' .. mine .. (ARGV[3] ~= mine and ' ' .. ARGV[3] or '')
    if not format then
        if ARGV[4] ~= '1' then
            return {micros, ''}
        end
        format = mine
        call('SET', P .. ':store', format)
        call('ZADD', P .. ':x', 0, sub(bid(0), 1, 5))
        call('HSET', P .. ':run', 'id', run_id, 'base', 0)
    end
    local version, least = string.match(format, '^pywheel (%d+) ?(%d*)$')
    if version and tonumber(version) < tonumber(ARGV[2]) then
        format = mine
        call('SET', P .. ':store', format)
    elseif not version or tonumber(least ~= '' and least or version) > tonumber(ARGV[2]) then
        return {micros, format}
    end
    if call('HGET', P .. ':run', 'id') ~= run_id then
        local last = tonumber(call('GET', P .. ':n') or 0)
        call('SET', P .. ':n', string.format('%.0f', (floor(last / BUMP) + 1) * BUMP))
        call('HSET', P .. ':run', 'id', run_id)
        call('HINCRBY', P .. ':run', 'base', 1000)
    end
    return {micros, format}
end
