-- Ends and leases of claims. Each takes from ARGV[at] how many, and their receipts: 6 bytes of id and 4 of claim each.
local function receipts(at)
    local count, packed = tonumber(ARGV[at]), ARGV[at + 1]
    local ids, claims = {}, {}
    for number = 1, count do
        ids[number], claims[number] = struct.unpack('>c6I4', packed, number * 10 - 9)
    end
    states_of(ids)
    return ids, claims
end

local function held(b, claim)
    local state = states[b]
    if state and state[STATE] == RUNNING and state[CLAIMS] == claim and now < state[LEASE] then
        return state
    end
    return nil
end

function commands.ack(at)
    local ids, claims = receipts(at)
    local outcome = {}
    for place, b in ipairs(ids) do
        local state = held(b, claims[place])
        if state then
            end_claim(b, state, DONE, nil, true, NEVER_LOST, WAS_DONE, nil, now)
        end
        outcome[place] = state and 1 or 0
    end
    return outcome, at + 2
end

-- Then for each its result with an r before it, or ''.
function commands.ack_kept(at)
    local outcome = commands.ack(at)
    local ids = receipts(at)
    for place, b in ipairs(ids) do
        local result = ARGV[at + 1 + place]
        if outcome[place] == 1 and result ~= '' then
            states[b][RESULT] = true
            call('HSET', results_of(b), b, sub(result, 2))
        end
    end
    return outcome, at + 2 + #ids
end

function commands.release(at)
    local ids, claims = receipts(at)
    local outcome = {}
    for place, b in ipairs(ids) do
        local state = held(b, claims[place])
        if state then
            end_claim(b, state, DELAYED, nil, false, NEVER_LOST, WAS_RELEASED, nil, now)
        end
        outcome[place] = state and 1 or 0
    end
    return outcome, at + 2
end

-- Then for each: its delay, or '', and its error with an e before it, or ''. The outcome is the new state, or -1.
function commands.nack(at)
    local ids, claims = receipts(at)
    local outcome = {}
    at = at + 2
    for place, b in ipairs(ids) do
        local state, delay, why = held(b, claims[place]), tonumber(ARGV[at]), ARGV[at + 1]
        if state then
            local dead = not delay or state[ATTEMPT] >= state[MOST]
            why = why ~= '' and sub(why, 2) or nil
            end_claim(b, state, dead and DEAD or DELAYED, delay and now + delay, true, NEVER_LOST, WAS_FAILED, why, now)
        end
        outcome[place] = state and state[STATE] or -1
        at = at + 2
    end
    return outcome, at
end

-- Then for each how long the lease shall last.
local function lease(at, begin)
    local ids, claims = receipts(at)
    local outcome = {}
    at = at + 2
    for place, b in ipairs(ids) do
        local state = held(b, claims[place])
        if state then
            state[LEASE] = now + tonumber(ARGV[at])
            if begin then
                state[BEGUN] = 1
            end
            lease_until(b, state)
            keep(b, state)
        end
        outcome[place] = state and 1 or 0
        at = at + 1
    end
    return outcome, at
end

function commands.touch(at)
    return lease(at, false)
end

function commands.begin(at)
    return lease(at, true)
end

function commands.expire(at)
    local limit = tonumber(ARGV[at])
    local ended, dead = 0, {}
    if limit > 0 then
        ended, dead = settle_over(limit)
    end
    local first = call('ZRANGE', LEASES, '(' .. string.format('%.17g', now), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    return {ended, first[2] or '', dead}, at + 1
end
