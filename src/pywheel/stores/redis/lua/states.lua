-- Jobs, and what becomes of those that were claimed: as jobs/lifecycle.py has it. A job that was put and nothing else has no state.
local DELAYED, RUNNING, DONE, DEAD, CANCELLED = 0, 1, 2, 3, 4
local STATE, TOPIC, KEY, DUE, CLAIMS, FORGIVEN, LOST, ERROR = 1, 2, 3, 4, 5, 6, 7, 8
local ATTEMPT, BEGUN, LEASE, MOST, BACKOFF, STARTED, WORKER = 9, 10, 11, 12, 13, 14, 15 -- while it is running
local OUTCOME, ENDED, WHY, CLAIM = 10, 11, 12, 13 -- of the last attempt, while it is not
local RESULT, PRIORITY = 16, 17 -- whether there is a result, while it is done
local NEVER_LOST, LOST_HELD, LOST_BEGUN = 0, 1, 2
local WAS_DONE, WAS_FAILED, WAS_LOST, WAS_RELEASED, WAS_CANCELLED = 1, 2, 3, 4, 5

-- A state as it lies in the store: what has a size of its own comes first, then the texts. cmsgpack takes three times as long.
local FORMAT = '>BBBBBI4I4I4dddddI4I4I4I4I4'
local HAS_KEY, HAS_ERROR, HAS_ATTEMPT, HAS_WHY, HAS_STARTED, HAS_WORKER, HAS_RESULT = 1, 2, 4, 8, 16, 32, 64

local function pack_state(state)
    local topic, key, why, err, worker = state[TOPIC], state[KEY], state[WHY], state[ERROR], state[WORKER]
    local most, has = 0, (key and HAS_KEY or 0) + (err and HAS_ERROR or 0) + (state[ATTEMPT] and HAS_ATTEMPT or 0)
        + (state[STARTED] and HAS_STARTED or 0) + (worker and HAS_WORKER or 0) + (state[RESULT] and HAS_RESULT or 0)
    if state[STATE] == RUNNING then
        most, why = state[MOST], false
    end
    has = has + (why and HAS_WHY or 0)
    key, err, why, worker = key or '', err or '', why or '', worker or ''
    return struct.pack(FORMAT, state[STATE], state[LOST], state[PRIORITY] + 128, state[OUTCOME] or 0, has, state[CLAIMS],
        state[FORGIVEN], state[ATTEMPT] or 0, state[DUE], state[ENDED] or 0, most, state[CLAIM] or 0, state[STARTED] or 0,
        #topic, #key, #err, #why, #worker) .. topic .. key .. err .. why .. worker
end

local function unpack_state(packed)
    local state, lost, priority, outcome, has, claims, forgiven, attempt, due, ended, most, claim, started,
        topic, key, err, why, worker, at = struct.unpack(FORMAT, packed)
    local topic_end = at + topic
    local key_end = topic_end + key
    local err_end = key_end + err
    local why_end = err_end + why
    why = band(has, HAS_WHY) ~= 0 and sub(packed, err_end, why_end - 1)
    return {
        state, sub(packed, at, topic_end - 1), band(has, HAS_KEY) ~= 0 and sub(packed, topic_end, key_end - 1),
        due, claims, forgiven, lost, band(has, HAS_ERROR) ~= 0 and sub(packed, key_end, err_end - 1),
        band(has, HAS_ATTEMPT) ~= 0 and attempt or nil, outcome, ended, state == RUNNING and most or why, claim,
        band(has, HAS_STARTED) ~= 0 and started, band(has, HAS_WORKER) ~= 0 and sub(packed, why_end), band(has, HAS_RESULT) ~= 0,
        priority - 128,
    }
end

-- States are read once, changed here, and written at the end.
local states, changed
forgets[#forgets + 1] = function()
    states, changed = {}, {}
end

local function states_of(ids)
    local missing = {}
    for _, b in ipairs(ids) do
        if states[b] == nil then
            missing[#missing + 1] = b
        end
    end
    if #missing > 0 then
        for place, packed in ipairs(values(':s:', missing)) do
            states[missing[place]] = packed and unpack_state(packed)
        end
    end
end

local function state_of(b)
    if states[b] == nil then
        states_of({b})
    end
    return states[b]
end

local function keep(b, state)
    states[b], changed[b] = state, true
end

local function keep_all()
    local parts = {}
    for b in pairs(changed) do
        local key = chunk(':s:', b)
        local part = parts[key]
        if not part then
            part = {}
            parts[key] = part
        end
        part[#part + 1] = b
        part[#part + 1] = pack_state(states[b])
    end
    for key, part in pairs(parts) do
        call('HSET', key, unpack(part))
    end
end

-- Returns what becomes of a claim whose lease is over: state, due or nil, whether an attempt was spent, LOST_...
local function when_lost(state)
    if state[BEGUN] == 0 then
        return DELAYED, nil, false, LOST_HELD
    end
    if state[ATTEMPT] >= state[MOST] then
        return DEAD, nil, true, LOST_BEGUN
    end
    return DELAYED, state[LEASE] + state[BACKOFF], true, LOST_BEGUN
end

-- Returns the state that readers see.
local function seen(state)
    if not state then
        return DELAYED
    end
    return state[STATE] == RUNNING and now >= state[LEASE] and (when_lost(state)) or state[STATE]
end

-- Returns what a job itself says: key or false, ttr or nil, max_attempts or nil, the size of its body, and its priority.
local function read_job(job)
    local has, size, at = struct.unpack('>BI3', job, 7)
    at = at + size
    if has == 0 then
        return false, nil, nil, #job - at + 1, 0
    end
    local key, ttr, most, priority = false, nil, nil, 128
    if band(has, 2) ~= 0 then
        ttr, at = struct.unpack('>i8', job, at)
    end
    if band(has, 4) ~= 0 then
        most, at = struct.unpack('>i8', job, at)
    end
    if band(has, 16) ~= 0 then
        priority, at = struct.unpack('>B', job, at)
    end
    if band(has, 1) ~= 0 then
        size, at = struct.unpack('>I3', job, at)
        key = sub(job, at, at + size - 1)
        at = at + size
    end
    if band(has, 8) ~= 0 then
        size, at = struct.unpack('>I4', job, at)
        at = at + size
    end
    return key, ttr, most, #job - at + 1, priority - 128
end

local function topic_of(job)
    local size, at = struct.unpack('>I3', job, 8)
    return sub(job, at, at + size - 1)
end

local function state_of_new(topic, key, due, priority)
    local state = {DELAYED, topic, key, due, 0, 0, NEVER_LOST, false}
    state[PRIORITY] = priority
    return state
end
