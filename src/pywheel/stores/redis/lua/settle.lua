-- Claims, and how they end.

-- Returns the base above which receipts are given out: after a restart that lost some, earlier receipts are never given out again.
local function receipts_base()
    return tonumber(call('HGET', K.run, 'base') or 0)
end

local function new_claim(state, base)
    if state[CLAIMS] < base then
        state[FORGIVEN], state[CLAIMS] = state[FORGIVEN] + base - state[CLAIMS], base
    end
    state[CLAIMS] = state[CLAIMS] + 1
end

-- Appends a job as workers and readers get it: id, due time, state, claims, attempt, end of the lease, kind of loss, last error, and the
-- job as it was put.
local function deliver(reply, b, state, job)
    local size = #reply
    reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4] = b, state[DUE], state[STATE], state[CLAIMS]
    reply[size + 5], reply[size + 6], reply[size + 7] = state[ATTEMPT], state[LEASE], state[LOST]
    reply[size + 8], reply[size + 9] = state[TEXT].error, job
end

-- Returns the outcome of a claim that was sent again: the same claims, as far as they still hold.
local function claim_again(outcome)
    local taken = {}
    for place = 1, #outcome.claimed, 2 do
        local b, claims = outcome.claimed[place], outcome.claimed[place + 1]
        local state = state_of(b)
        if state and state[STATE] == RUNNING and state[CLAIMS] == claims then
            deliver(taken, b, state, call('HGET', chunk(':j:', b), b))
        end
    end
    outcome[6] = taken
    return outcome
end

-- Moves the row of the last attempt into the history, to make room for the next one.
local function make_history(b, state)
    if state[ATTEMPT] ~= NO_ATTEMPT then
        local row = row_of(state, state[CLAIM], state[ENDED], state[OUTCOME], state[TEXT].why)
        call('RPUSH', history_of(b), cmsgpack.pack(row))
    end
end

-- Ends a claim: the new state, the due time or nil for the old one, whether an attempt was spent, the kind of loss, and the outcome.
local function end_claim(b, state, to, due, spent, lost, outcome, why, ended)
    local text = state[TEXT]
    local topic, key = text.topic, text.key
    state[OUTCOME], state[ENDED], state[CLAIM], state[LOST] = outcome, ended, state[CLAIMS], lost
    state[FORGIVEN] = state[FORGIVEN] + (spent and 0 or 1)
    if why then
        state[TEXT] = new_texts(topic, key, why, why, text.worker)
    end
    remove(keys_of(topic).leases, b)
    if key then
        remove(keys_of(topic).groups, with_key(key, b))
    end
    if to == DELAYED then
        state[STATE], state[DUE] = DELAYED, due or state[DUE]
        add(lane(topic, state[PRIORITY], lost), state[DUE], b)
        tell(topic, b, state[DUE], state[PRIORITY])
    else
        state[STATE] = to
        add(keys_of(topic)[to], ended, b)
        if to ~= DONE then
            note_first(ends_of(to), topic, ended)
        end
        if key then
            local free = freed[topic] or {keys = {}, ids = {}}
            freed[topic], free.keys[#free.keys + 1], free.ids[#free.ids + 1] = free, key, b
        end
    end
    keep(b, state)
end

-- Ends a claim if its lease is over; returns whether it was. `flush` has to follow. A job that dies of it leaves a note for the workers of
-- its topic, and wakes them: stores/contract.py.
local function settle_lost(b, state)
    if not state or state[STATE] ~= RUNNING or now < state[LEASE] then
        return false
    end
    local over = state[LEASE]
    local to, due, spent, lost = when_lost(state)
    end_claim(b, state, to, due, spent, lost, WAS_LOST, nil, over)
    if to == DEAD then
        local topic = state[TEXT].topic
        keep_value(NOTES, 'dead:' .. digits(number(b)) .. ':' .. digits(state[CLAIMS]), topic, now + 86400000)
        tell(topic, b, over)
    end
    return true
end

-- Ends up to `limit` claims of a topic whose leases are over; appends the jobs that die of it. Returns the number of ended claims.
local function settle_over(topic, limit, dead)
    local over = call('ZRANGE', keys_of(topic).leases, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)
    states_of(over)
    for _, b in ipairs(over) do
        if settle_lost(b, states[b]) and states[b][STATE] == DEAD then
            dead[#dead + 1] = b
        end
    end
    flush()
    return #over
end

-- Does the same for all topics, the one with the earliest lease first.
local function settle_all_over(limit, dead)
    local ended, lease = 0, first_lease()
    while lease and lease <= now and ended < limit do
        ended = ended + settle_over(call('ZRANGE', K.leases, 0, 0)[1], limit - ended, dead)
        lease = first_lease()
    end
    return ended
end

function commands.expire(asked)
    local dead = {}
    local ended = settle_all_over(asked.limit, dead)
    local there, first = call('ZRANGE', K.leases, 0, 100, 'WITHSCORES'), call('ZRANGE', K.leases, 101, 101, 'WITHSCORES')[2]
    first = first and tonumber(first) -- of the topics that are not looked at
    for place = 1, #there, 2 do
        if first and tonumber(there[place + 1]) >= first then
            break
        end
        local lease = call('ZRANGE', keys_of(there[place]).leases, beyond(now), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
        first = lease and min(tonumber(lease), first or math.huge) or first
    end
    return {ended, first or '', dead}
end

-- Takes receipts, 6 bytes of id and 4 of claim each. `each` ends or changes the held claim at a place, and returns its outcome, or nil for
-- 1; the outcome of the other receipts is `void`.
local function with_receipts(each, void)
    local packed, ids, claims, outcomes = take(), {}, {}, {}
    for place = 1, #packed / 10 do
        ids[place], claims[place] = struct.unpack('>c6I4', packed, place * 10 - 9)
    end
    states_of(ids)
    for place = 1, #ids do
        local b = ids[place]
        local state = states[b]
        local held = state and state[STATE] == RUNNING and state[CLAIMS] == claims[place] and now < state[LEASE]
        outcomes[place] = held and (each(b, state, place) or 1) or void
    end
    return outcomes
end

-- Makes jobs done. Behind the receipts stand `results` results, each with an r before it, or ''.
function commands.ack(results)
    local receipts = at
    local outcomes = with_receipts(function(b, state, place)
        local result = results > 0 and ARGV[receipts + place] or ''
        if result ~= '' then
            state[RESULT] = 1
            set(chunk(':r:', b), b, sub(result, 2))
        end
        end_claim(b, state, DONE, nil, true, NEVER_LOST, WAS_DONE, nil, now)
    end, 0)
    at = at + results
    return outcomes
end

function commands.release()
    return with_receipts(function(b, state)
        end_claim(b, state, DELAYED, nil, false, NEVER_LOST, WAS_RELEASED, nil, now)
    end, 0)
end

-- Outcomes: the new states, or -1.
function commands.nack(ends)
    return with_receipts(function(b, state, place)
        local delay = ends[place].delay
        local dead = not delay or state[ATTEMPT] >= state[MOST_ATTEMPTS]
        end_claim(b, state, dead and DEAD or DELAYED, delay and now + delay, true, NEVER_LOST, WAS_FAILED, ends[place].error, now)
        return state[STATE]
    end, -1)
end

-- Returns the lease that a touch without a ttr gives: as long as the job's own ttr, or else a minute.
local function own_ttr(b)
    local ttr = read_job(call('HGET', chunk(':j:', b), b)).ttr
    return ttr and ttr ~= 0 and ttr or 60000
end

-- Give claims new leases. `begin` keeps a lease that is longer.
for name, begins in pairs({touch = 0, begin = 1}) do
    commands[name] = function(ttrs)
        return with_receipts(function(b, state, place)
            local ttr = ttrs[place] ~= cjson.null and ttrs[place] or own_ttr(b)
            state[LEASE] = max(now + ttr, begins * state[LEASE])
            state[BEGUN] = max(state[BEGUN], begins)
            lease_until(b, state)
            keep(b, state)
        end, 0)
    end
end
