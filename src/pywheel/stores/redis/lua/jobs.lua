-- Jobs, and what becomes of those that were claimed: as jobs/lifecycle.py has it. A job that was put and nothing else has no state.
local DELAYED, RUNNING, DONE, DEAD, CANCELLED = 0, 1, 2, 3, 4
local STATE, TOPIC, KEY, DUE, CLAIMS, FORGIVEN, LOST, ERROR = 1, 2, 3, 4, 5, 6, 7, 8
local ATTEMPT, BEGUN, LEASE, MOST_ATTEMPTS, BACKOFF, STARTED, WORKER = 9, 10, 11, 12, 13, 14, 15 -- while it is running
local OUTCOME, ENDED, WHY, CLAIM = 10, 11, 12, 13 -- of the last attempt, while it is not
local RESULT, PRIORITY = 16, 17 -- whether there is a result, while it is done
local NEVER_LOST, LOST_HELD, LOST_BEGUN = 0, 1, 2
local WAS_DONE, WAS_FAILED, WAS_LOST, WAS_RELEASED, WAS_CANCELLED = 1, 2, 3, 4, 5

-- ---- what was put -----------------------------------------------------------------------------------------------------

local PLAIN = {}

-- Returns what a job has beside its body: the options that are not None, by name, the size of the body, and the topic. In the store it is
-- when it was created (6 bytes), its topic and its options as JSON, each with its size (3 bytes) before it, and the body.
local function read_job(job)
    local topic, options, at = struct.unpack('>I3c0I3c0', job, 7)
    return options == '' and PLAIN or cjson.decode(options), #job - at + 1, topic
end

-- ---- what became of it ------------------------------------------------------------------------------------------------

-- A state as it lies in the store. cmsgpack takes three times as long.
local pack_state, unpack_state
do -- so that its names do not count among the 200
    local FORMAT = '>BBBBBI4I4I4dddddI3c0I3c0I3c0I3c0I3c0'
    local HAS_KEY, HAS_ERROR, HAS_ATTEMPT, HAS_WHY, HAS_STARTED, HAS_WORKER, HAS_RESULT = 1, 2, 4, 8, 16, 32, 64

    function pack_state(state)
        local topic, key, why, err, worker = state[TOPIC], state[KEY], state[WHY], state[ERROR], state[WORKER]
        local most, has = 0, (key and HAS_KEY or 0) + (err and HAS_ERROR or 0) + (state[ATTEMPT] and HAS_ATTEMPT or 0)
            + (state[STARTED] and HAS_STARTED or 0) + (worker and HAS_WORKER or 0) + (state[RESULT] and HAS_RESULT or 0)
        if state[STATE] == RUNNING then
            most, why = state[MOST_ATTEMPTS], false
        end
        has = has + (why and HAS_WHY or 0)
        key, err, why, worker = key or '', err or '', why or '', worker or ''
        return struct.pack(FORMAT, state[STATE], state[LOST], state[PRIORITY] + 128, state[OUTCOME] or 0, has, state[CLAIMS],
            state[FORGIVEN], state[ATTEMPT] or 0, state[DUE], state[ENDED] or 0, most, state[CLAIM] or 0, state[STARTED] or 0,
            #topic, topic, #key, key, #err, err, #why, why, #worker, worker)
    end

    function unpack_state(packed)
        local state, lost, priority, outcome, has, claims, forgiven, attempt, due, ended, most, claim, started, topic, key, err, why, worker =
            struct.unpack(FORMAT, packed)
        why = band(has, HAS_WHY) ~= 0 and why
        return {
            state, topic, band(has, HAS_KEY) ~= 0 and key, due, claims, forgiven, lost, band(has, HAS_ERROR) ~= 0 and err,
            band(has, HAS_ATTEMPT) ~= 0 and attempt or nil, outcome, ended, state == RUNNING and most or why, claim,
            band(has, HAS_STARTED) ~= 0 and started, band(has, HAS_WORKER) ~= 0 and worker, band(has, HAS_RESULT) ~= 0,
            priority - 128,
        }
    end
end

local function state_of_new(topic, options, due)
    local state = {DELAYED, topic, options.key or false, due, 0, 0, NEVER_LOST, false}
    state[PRIORITY] = options.priority or 0
    return state
end

local function state_of_job(job, due)
    local options, _, topic = read_job(job)
    return state_of_new(topic, options, due)
end

-- Reads the states of jobs that were not read yet. They are changed in `states`, and written at the end.
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

-- Returns a job's state, one that is not kept if it has none; nil if there is no job.
local function state_or_new(b, due)
    local job = not state_of(b) and call('HGET', chunk(':j:', b), b)
    return states[b] or job and state_of_job(job, due) or nil
end

local function keep(b, state)
    states[b], changed[b] = state, true
end

local function write_states()
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
    if state[ATTEMPT] >= state[MOST_ATTEMPTS] then
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
