-- What becomes of jobs that were claimed: as jobs/lifecycle.py has it. A job that was put and nothing else has no state.
local DELAYED, RUNNING, DONE, DEAD, CANCELLED = 0, 1, 2, 3, 4
local STATE, TOPIC, KEY, DUE, CLAIMS, FORGIVEN, LOST, ERROR = 1, 2, 3, 4, 5, 6, 7, 8
local ATTEMPT, BEGUN, LEASE, MOST, BACKOFF, STARTED, WORKER = 9, 10, 11, 12, 13, 14, 15 -- while it is running
local OUTCOME, ENDED, WHY, CLAIM = 10, 11, 12, 13 -- of the last attempt, while it is not
local NEVER_LOST, LOST_HELD, LOST_BEGUN = 0, 1, 2
local WAS_DONE, WAS_FAILED, WAS_LOST, WAS_RELEASED, WAS_CANCELLED = 1, 2, 3, 4, 5

local LEASES = P .. ':l'

-- States are read once, changed here, and written at the end.
local states, changed = {}, {}

local function state_of(b)
    local state = states[b]
    if state == nil then
        local packed = call('HGET', of_state(b), b)
        state = packed and cmsgpack.unpack(packed)
        states[b] = state
    end
    return state
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
            states[missing[place]] = packed and cmsgpack.unpack(packed)
        end
    end
end

local function history_of(b)
    return P .. ':h:' .. number(b)
end

local function holders_of(topic)
    return P .. ':k:' .. topic
end

-- The jobs that had a key: finished ones, and those that handed it to a successor.
local function former_of(topic, key)
    return P .. ':o:' .. #topic .. ':' .. topic .. key
end

local finished = {{}, {}, {}, {}}
local function finished_of(state, topic)
    local key = finished[state][topic]
    if not key then
        key = P .. ':f:' .. state .. topic
        finished[state][topic] = key
    end
    return key
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

-- Returns what a job itself says: key or false, ttr or nil, max_attempts or nil, and the size of its body.
local function read_job(job)
    local flags, size, at = struct.unpack('>BI3', job, 7)
    at = at + size
    if flags == 0 then
        return false, nil, nil, #job - at + 1
    end
    local key, ttr, most = false, nil, nil
    if bit.band(flags, 2) ~= 0 then
        ttr, at = struct.unpack('>i8', job, at)
    end
    if bit.band(flags, 4) ~= 0 then
        most, at = struct.unpack('>i8', job, at)
    end
    if bit.band(flags, 1) ~= 0 then
        size, at = struct.unpack('>I3', job, at)
        key = sub(job, at, at + size - 1)
        at = at + size
    end
    if bit.band(flags, 8) ~= 0 then
        size, at = struct.unpack('>I4', job, at)
        at = at + size
    end
    return key, ttr, most, #job - at + 1
end

local function topic_of(job)
    local size, at = struct.unpack('>I3', job, 8)
    return sub(job, at, at + size - 1)
end
