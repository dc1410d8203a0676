-- How claims end. Commands are by name: each takes the place of its arguments, and returns its outcome and the place of the next.
local commands = {}

-- Moves the row of the last attempt into the history, to make place for the next one.
local function make_history(b, state)
    if state[ATTEMPT] then
        call('RPUSH', history_of(b), cmsgpack.pack({state[CLAIM], state[ATTEMPT], state[STARTED], state[ENDED],
            state[OUTCOME], state[WORKER], state[WHY]}))
    end
end

local function finish(b, state, to, ended)
    local topic, key = state[TOPIC], state[KEY]
    state[STATE] = to
    add(finished_of(to, topic), ended, b)
    if key and call('HGET', holders_of(topic), key) == b then
        call('HDEL', holders_of(topic), key)
        call('ZADD', former_of(topic, key), number(b), b)
    end
end

-- Ends a claim: `to`, when it is due again or nil for as before, whether an attempt was spent, and what it came to.
local function end_claim(b, state, to, due, spent, lost, outcome, why, ended)
    state[OUTCOME], state[ENDED], state[WHY], state[CLAIM], state[LOST] = outcome, ended, why or false, state[CLAIMS], lost
    state[FORGIVEN] = state[FORGIVEN] + (spent and 0 or 1)
    state[ERROR] = why or state[ERROR]
    remove(leases_of(state[TOPIC]), b)
    if state[KEY] and lanes_of(state[TOPIC]).by_keys then
        remove(groups_of(state[TOPIC]), state[KEY] .. '\0' .. b)
    end
    if to == DELAYED then
        state[STATE], state[DUE] = DELAYED, due or state[DUE]
        add(lane_of(state), state[DUE], b)
        tell(state[TOPIC], b, state[DUE])
    else
        finish(b, state, to, ended)
    end
    keep(b, state)
end

-- Ends a claim if its lease is over; returns whether it was. `flush` is to follow. Of a job that is dead by that word is left, and who
-- is to take it is woken: stores/deaths.py.
local function settle_lost(b, state)
    if not state or state[STATE] ~= RUNNING or now < state[LEASE] then
        return false
    end
    local to, due, spent, lost = when_lost(state)
    end_claim(b, state, to, due, spent, lost, WAS_LOST, nil, state[LEASE])
    if to == DEAD then
        notes.set(string.format('dead:%.0f:%.0f', number(b), state[CLAIMS]), state[TOPIC], now + 86400000)
        notes.forget(notes.FORGOTTEN)
        tell(state[TOPIC], b, state[LEASE])
    end
    return true
end

-- Ends up to so many claims of a topic whose leases are over; appends those that are dead by it. Returns how many it ended.
local function settle_over(topic, limit, dead)
    local over = call('ZRANGE', leases_of(topic), '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)
    states_of(over)
    for _, b in ipairs(over) do
        local state = state_of(b)
        if settle_lost(b, state) and state[STATE] == DEAD then
            dead[#dead + 1] = b
        end
    end
    flush()
    return #over
end

-- Does the same for all topics, that of the earliest lease first.
local function settle_all_over(limit, dead)
    local ended = 0
    while ended < limit do
        local lease = first_lease()
        if not lease or lease > now then
            break
        end
        ended = ended + settle_over(call('ZRANGE', P .. ':l', 0, 0)[1], limit - ended, dead)
    end
    return ended
end

function commands.expire(at)
    local limit, dead, first = tonumber(ARGV[at]), {}, nil
    local ended = limit > 0 and settle_all_over(limit, dead) or 0
    if limit > 0 and ended < limit then
        first = first_lease()
    end
    local topics = first and {} or call('ZRANGE', P .. ':l', 0, SOME, 'WITHSCORES')
    for place = 1, #topics, 2 do
        if first and tonumber(topics[place + 1]) >= first then
            break
        end
        local lease = call('ZRANGE', leases_of(topics[place]), beyond(now), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
        first = lease and min(tonumber(lease), first or math.huge) or first
    end
    return {ended, first or '', dead}, at + 1
end

-- What follows takes from ARGV[at] how many, and their receipts: 6 bytes of id and 4 of claim each. `each` ends or changes the claim at a
-- place that is held; the outcome of the others is `void`.
local function with_receipts(at, each, void)
    local count, packed = tonumber(ARGV[at]), ARGV[at + 1]
    local ids, claims, outcomes = {}, {}, {}
    for place = 1, count do
        ids[place], claims[place] = struct.unpack('>c6I4', packed, place * 10 - 9)
    end
    states_of(ids)
    for place, b in ipairs(ids) do
        local state = states[b]
        local held = state and state[STATE] == RUNNING and state[CLAIMS] == claims[place] and now < state[LEASE]
        outcomes[place] = held and (each(b, state, place) or 1) or void
    end
    return outcomes, at + 2
end

function commands.ack(at)
    return with_receipts(at, function(b, state)
        end_claim(b, state, DONE, nil, true, NEVER_LOST, WAS_DONE, nil, now)
    end, 0)
end

-- Then for each its result with an r before it, or ''.
function commands.ack_kept(at)
    local outcomes, from = with_receipts(at, function(b, state, place)
        local result = ARGV[at + 1 + place]
        if result ~= '' then
            state[RESULT] = true
            call('HSET', results_of(b), b, sub(result, 2))
        end
        end_claim(b, state, DONE, nil, true, NEVER_LOST, WAS_DONE, nil, now)
    end, 0)
    return outcomes, from + #outcomes
end

function commands.release(at)
    return with_receipts(at, function(b, state)
        end_claim(b, state, DELAYED, nil, false, NEVER_LOST, WAS_RELEASED, nil, now)
    end, 0)
end

-- Then for each: its delay, or '', and its error with an e before it, or ''. The outcome is the new state, or -1.
function commands.nack(at)
    local outcomes, from = with_receipts(at, function(b, state, place)
        local delay, why = tonumber(ARGV[at + 2 * place]), ARGV[at + 2 * place + 1]
        local dead = not delay or state[ATTEMPT] >= state[MOST]
        end_claim(b, state, dead and DEAD or DELAYED, delay and now + delay, true, NEVER_LOST, WAS_FAILED,
            why ~= '' and sub(why, 2) or nil, now)
        return state[STATE]
    end, -1)
    return outcomes, from + 2 * #outcomes
end

-- Then for each how long the lease shall last.
local function lease(at, begin_it)
    local outcomes, from = with_receipts(at, function(b, state, place)
        state[LEASE] = now + tonumber(ARGV[at + 1 + place])
        state[BEGUN] = begin_it and 1 or state[BEGUN]
        lease_until(b, state)
        keep(b, state)
    end, 0)
    return outcomes, from + #outcomes
end

function commands.touch(at)
    return lease(at, false)
end

function commands.begin(at)
    return lease(at, true)
end
