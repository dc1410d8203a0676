-- Changing jobs by hand.

local function is_live(b)
    return seen(state_of(b)) <= RUNNING
end

-- Returns the live job with a key, or else the latest finished one.
local function find_by_key(topic, key)
    local holder, from = call('HGET', holders_of(topic), key), 0
    if holder and is_live(holder) then
        return holder
    end
    while true do
        local former = call('ZRANGE', former_of(topic, key), from, from + 9, 'REV')
        for _, b in ipairs(former) do
            if holder and holder > b then
                return holder
            elseif not is_live(b) then
                return b
            end
        end
        if #former < 10 then
            return holder or nil
        end
        from = from + 10
    end
end

-- Finds a job by a reference: 'i' and its id, or 'k', the size of the topic in 3 bytes, topic and key.
local function find(ref)
    if byte(ref) == 105 then
        local b = sub(ref, 2)
        return call('HEXISTS', chunk(':j:', b), b) == 1 and b or nil
    end
    local size = struct.unpack('>I3', ref, 2)
    return find_by_key(sub(ref, 5, 4 + size), sub(ref, 5 + size))
end

-- Returns a job with a lease that is over settled: its id, its state, one that is not kept if it has none, and whether it has one.
local function settled(ref)
    local b = find(ref)
    if not b then
        return nil
    end
    local state = state_of(b)
    if settle_lost(b, state) then
        flush()
    end
    if state then
        return b, state, true
    end
    local job = call('HGET', chunk(':j:', b), b)
    local key, _, _, _, priority = read_job(job)
    return b, state_of_new(topic_of(job), key, 0, priority), false
end

-- Returns the same of a job that is delayed, when it is due, and its lane. `expected` is '' or its due time and claims.
local function waiting(ref, expected)
    local b, state = settled(ref)
    if not b or state[STATE] ~= DELAYED then
        return nil
    end
    local due, from = due_of(state[TOPIC], b)
    local at, claims = string.match(expected, '^(%-?%d+) (%-?%d+)$')
    if at and (due ~= tonumber(at) or state[CLAIMS] ~= tonumber(claims)) then
        return nil
    end
    return b, state, due, from
end

function commands.cancel(at)
    local b, state, due, from = waiting(ARGV[at], ARGV[at + 1])
    if b then
        make_history(b, state)
        new_claim(state, tonumber(call('HGET', P .. ':run', 'base') or 0))
        state[DUE], state[FORGIVEN] = due, state[FORGIVEN] + 1
        state[ATTEMPT], state[OUTCOME], state[ENDED], state[WHY] = 0, WAS_CANCELLED, now, false
        state[CLAIM], state[STARTED], state[WORKER] = state[CLAIMS], false, false
        remove(from, b)
        finish(b, state, CANCELLED, now)
        keep(b, state)
        flush()
    end
    return b and 1 or 0, at + 2
end

function commands.reschedule(at)
    local b, state, was, from = waiting(ARGV[at], ARGV[at + 1])
    if b then
        local due = due_at(ARGV[at + 2])
        call('ZADD', from, due, b)
        tell(state[TOPIC], b, due, min(due, was))
    end
    return b and 1 or 0, at + 3
end

local function forget_result(b, state)
    if state[RESULT] then
        call('HDEL', results_of(b), b)
        state[RESULT] = false
    end
end

function commands.retry(at)
    local b, state = settled(ARGV[at])
    if not b or state[STATE] < DONE then
        return 0, at + 2
    end
    local topic, key = state[TOPIC], state[KEY]
    local holder = key and holder_of(topic, key)
    if holder then
        return {EXISTS, number(holder)}, at + 2
    elseif key then
        call('HSET', holders_of(topic), key, b)
        call('ZREM', former_of(topic, key), b)
    end
    call('ZREM', finished_of(state[STATE], topic), b)
    state[STATE], state[FORGIVEN], state[LOST] = DELAYED, state[CLAIMS], NEVER_LOST
    forget_result(b, state)
    keep(b, state)
    wait_until(b, topic, due_at(ARGV[at + 1]), state[PRIORITY])
    return 1, at + 2
end

-- Forgets a job that is not running, and that was taken from its place.
local function forget(b, state)
    local topic, key = state[TOPIC], state[KEY]
    if key and call('HGET', holders_of(topic), key) == b then
        call('HDEL', holders_of(topic), key)
    elseif key then
        call('ZREM', former_of(topic, key), b)
    end
    call('HDEL', chunk(':s:', b), b)
    call('DEL', history_of(b))
    forget_result(b, state)
    states[b], changed[b] = false, nil
    local jobs = chunk(':j:', b)
    call('HDEL', jobs, b)
    if call('EXISTS', jobs) == 0 and sub(bid(tonumber(call('GET', P .. ':n'))), 1, 5) ~= sub(b, 1, 5) then
        call('ZREM', P .. ':x', sub(b, 1, 5)) -- else more jobs may come into that one
    end
end

function commands.delete(at)
    local b, state = settled(ARGV[at])
    if not b or state[STATE] == RUNNING then
        return 0, at + 1
    end
    local _, from = due_of(state[TOPIC], b)
    call('ZREM', state[STATE] >= DONE and finished_of(state[STATE], state[TOPIC]) or from, b)
    forget(b, state)
    return 1, at + 1
end

-- ARGV[at]: id, the claim whose result it is, or '' for the body; what there is, and what comes instead.
function commands.rewrite(at)
    local b, claim, old, new = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3]
    local key, start_with, has = chunk(claim and ':r:' or ':j:', b), '', nil
    local there, state = call('HGET', key, b), state_of(b)
    if there and claim then
        has = state and state[STATE] == DONE and state[RESULT] and state[CLAIM] == claim and there
    elseif there then
        local _, _, _, size = read_job(there)
        start_with, has = sub(there, 1, #there - size), sub(there, #there - size + 1)
    end
    if has == old then
        call('HSET', key, b, start_with .. new)
    end
    return has == old and 1 or 0, at + 4
end

function commands.pause(at)
    local topic, paused = ARGV[at], ARGV[at + 1] == '1'
    local before = call('HGET', P .. ':t', topic) or ''
    local changes = (before ~= '') ~= paused
    if changes then
        local stirred = call('INCR', P .. ':y')
        call('HSET', P .. ':t', topic, paused and stirred or '')
        call('PUBLISH', P .. ':bell', 'pause')
    else
        call('HSETNX', P .. ':t', topic, '')
    end
    return changes and 1 or 0, at + 2
end

-- ARGV[at]: state, age, limit, and the topic with a t before it, or ''. Of leases that are over it ends some first.
function commands.purge(at)
    local of, until_, left = tonumber(ARGV[at]), now - tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
    local topics, gone = ARGV[at + 3] == '' and call('HKEYS', P .. ':t') or {sub(ARGV[at + 3], 2)}, 0
    if left > 0 then
        nonces.forget(left)
        notes.forget(left)
    end
    if of == DEAD then
        settle_all_over(PIECE, {})
    end
    for _, topic in ipairs(of >= DONE and topics or {}) do
        local key = finished_of(of, topic)
        local ids = left > 0 and call('ZRANGE', key, '-inf', until_, 'BYSCORE', 'LIMIT', 0, left) or {}
        states_of(ids)
        for _, b in ipairs(ids) do
            forget(b, states[b])
        end
        each_part('ZREM', key, ids)
        gone, left = gone + #ids, left - #ids
    end
    return gone, at + 4
end

-- ARGV[at]: name, '1' if there must be none, ttl or '', and the value with a v before it, or '' to delete. Returns a list of what was
-- there before: '' is a value too.
function commands.keep(at)
    local name, ttl, value = ARGV[at], tonumber(ARGV[at + 2]), ARGV[at + 3]
    local before = notes.value(call('HGET', P .. ':e', name))
    if not (before and ARGV[at + 1] == '1') then
        if value ~= '' then
            notes.set(name, sub(value, 2), ttl and now + ttl)
        else
            call('HDEL', P .. ':e', name)
            call('ZREM', P .. ':c', name)
            call('ZREM', P .. ':g', name)
        end
    end
    if ttl then
        notes.forget(notes.FORGOTTEN)
    end
    return before and {before} or {}, at + 4
end

-- ARGV[at]: the worker, and its topics as JSON.
function commands.announce(at)
    local worker, topics = ARGV[at], ARGV[at + 1]
    unhear(worker)
    if topics == '[]' then
        gone(worker)
    else
        call('HSET', P .. ':m', worker, topics)
        call('HSET', P .. ':b', worker, string.format('%.0f 0 -1', now))
        others_look()
    end
    return 0, at + 2
end

-- ---- steps ----------------------------------------------------------------------------------------------------------

-- ARGV: now, the client, the number of its request, then commands in order: the name of each kind, and its arguments. A request that comes
-- twice, because a connection broke, happens once: what the first one came to is kept for a while, of claims without the bodies. The third
-- part of the answer says when the first lease is over, -1 if there is none, '' if no lease can have changed.
function api.apply()
    local asked, request = P .. ':q:' .. ARGV[2], tonumber(ARGV[3])
    local before, horizon = unpack(call('MGET', asked, P .. ':hmax'))
    furthest = tonumber(horizon or -1e300)
    local latest = before and tonumber(string.match(before, '^%d+')) or 0
    if latest > request then
        return redis.error_reply('STALE this request was given up')
    end
    if latest == request then
        local outcomes = cmsgpack.unpack(sub(before, string.find(before, ' ', 1, true) + 1))
        for place, outcome in ipairs(outcomes) do
            local kind, receipts = type(outcome) == 'table' and outcome[1], type(outcome) == 'table' and outcome[#outcome]
            if (kind == 'claim' or kind == 'reserve') and type(receipts) == 'table' then -- a note may hold these words
                outcomes[place] = claimed_again(receipts, kind == 'claim' and outcome[2] or {})
            end
        end
        return {micros, latest, first_lease() or -1, outcomes}
    end
    local outcomes, kept, at, leases = {}, {}, 4, false
    while at <= #ARGV do
        leases = leases or ARGV[at] ~= 'put'
        local outcome, next_at, instead = commands[ARGV[at]](at + 1)
        outcomes[#outcomes + 1] = outcome
        kept[#kept + 1] = instead or outcome
        flush()
        at = next_at
    end
    keep_all()
    tell_all()
    call('SET', asked, ARGV[3] .. ' ' .. cmsgpack.pack(kept), 'PX', KEPT)
    return {micros, latest, leases and (first_lease() or -1) or '', outcomes}
end
api.settle = api.apply
