-- What changes jobs that were claimed.
local commands = {} -- by name: each takes the place of its arguments, and returns its outcome and the place of the next

-- Changes of sorted sets are kept until `flush`, and then made by few calls.
local added, removed = {}, {}

local function add(key, score, b)
    local list = added[key]
    if not list then
        list = {}
        added[key] = list
    end
    local size = #list
    list[size + 1] = score
    list[size + 2] = b
end

local function remove(key, b)
    local list = removed[key]
    if not list then
        list = {}
        removed[key] = list
    end
    list[#list + 1] = b
end

local function flush()
    for key, list in pairs(removed) do
        each_part('ZREM', key, list)
    end
    for key, list in pairs(added) do
        each_part('ZADD', key, list)
    end
    added, removed = {}, {}
end

-- Makes a job wait, or no longer; `flush` is to follow.
local function wait_until(topic, b, due)
    add(delayed_of(topic), due, b)
    local key = lane_of(topic, b)
    if key then
        add(key, due, b)
    end
end

local function wait_no_more(topic, b)
    remove(delayed_of(topic), b)
    local key = lane_of(topic, b)
    if key then
        remove(key, b)
    end
end

local function keep(b, state)
    states[b] = state
    changed[b] = true
end

local function keep_all()
    local parts = {}
    for b in pairs(changed) do
        local chunk = sub(b, 1, 5)
        local part = parts[chunk]
        if not part then
            part = {}
            parts[chunk] = part
        end
        local size = #part
        part[size + 1], part[size + 2] = b, pack_state(states[b])
    end
    for chunk, part in pairs(parts) do
        call('HSET', P .. ':s:' .. chunk, unpack(part))
    end
    changed = {}
end

-- Moves the row of the last attempt into the history, to make place for the next one.
local function make_history(b, state)
    if state[ATTEMPT] then
        call('RPUSH', history_of(b), cmsgpack.pack({state[CLAIM], state[ATTEMPT], state[STARTED], state[ENDED],
            state[OUTCOME], state[WORKER], state[WHY]}))
    end
end

local function leave_key(b, topic, key)
    if key and call('HGET', holders_of(topic), key) == b then
        call('HDEL', holders_of(topic), key)
        call('ZADD', former_of(topic, key), number(b), b)
    end
end

local function finish(b, state, to, ended)
    state[STATE] = to
    add(finished_of(to, state[TOPIC]), ended, b)
    leave_key(b, state[TOPIC], state[KEY])
end

-- Ends a claim: `to`, when it is due again or nil for as before, whether an attempt was spent, and what it came to.
local function end_claim(b, state, to, due, spent, lost, outcome, why, ended)
    state[OUTCOME], state[ENDED], state[WHY], state[CLAIM] = outcome, ended, why or false, state[CLAIMS]
    state[LOST] = lost
    if not spent then
        state[FORGIVEN] = state[FORGIVEN] + 1
    end
    if why then
        state[ERROR] = why
    end
    remove(LEASES, b)
    if mark_of(state[TOPIC]) >= LIMITED then
        remove(P .. ':u:' .. state[TOPIC], b)
    end
    if to == DELAYED then
        state[STATE] = DELAYED
        state[DUE] = due or state[DUE]
        wait_until(state[TOPIC], b, state[DUE])
        tell(state[TOPIC], b, state[DUE])
    else
        finish(b, state, to, ended)
    end
    keep(b, state)
end

-- Leaves word that a job is dead as its lease was lost, and wakes who is to take it: stores/deaths.py.
local function leave_word(b, state)
    notes.set(string.format('dead:%.0f:%.0f', number(b), state[CLAIMS]), state[TOPIC], now + 86400000)
    notes.forget(notes.FORGOTTEN)
    tell(state[TOPIC], b, state[LEASE])
end

-- Ends a claim if its lease is over; returns whether it was. `flush` is to follow.
local function settle_lost(b, state)
    if not state or state[STATE] ~= RUNNING or now < state[LEASE] then
        return false
    end
    local to, due, spent, lost = when_lost(state)
    end_claim(b, state, to, due, spent, lost, WAS_LOST, nil, state[LEASE])
    if to == DEAD then
        leave_word(b, state)
    end
    return true
end

-- Returns how many it ended, and which of them are dead by it.
local function settle_over(limit)
    local over, dead = call('ZRANGE', LEASES, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit), {}
    states_of(over)
    for _, b in ipairs(over) do
        local state = state_of(b)
        if settle_lost(b, state) and state[STATE] == DEAD then
            dead[#dead + 1] = b
        end
    end
    flush()
    return #over, dead
end

local function settle_all_over()
    while settle_over(SOME) == SOME do
    end
end
