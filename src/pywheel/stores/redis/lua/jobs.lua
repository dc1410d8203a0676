-- Jobs, and how claims of them end: the same rules as in jobs/lifecycle.py. A job that was put and not touched since has no state.
local DELAYED, RUNNING, DONE, DEAD, CANCELLED = 0, 1, 2, 3, 4
local STATE, LOST, PRIORITY, RESULT, CLAIMS, FORGIVEN, ATTEMPT, DUE, STARTED = 1, 2, 3, 4, 5, 6, 7, 8, 9
local BEGUN, LEASE, MOST_ATTEMPTS, BACKOFF = 10, 11, 12, 13 -- while it is running
local OUTCOME, ENDED, CLAIM = 10, 11, 13 -- of the last attempt, while it is not
local TEXT = 14 -- topic, key, last error, reason of the last failure, and worker: one table for all jobs with the same
local CHANGED = 15 -- whether it is to be written
local NO_ATTEMPT, NO_TIME = -1, -1e300
local NEVER_LOST, LOST_HELD, LOST_BEGUN = 0, 1, 2
local WAS_DONE, WAS_FAILED, WAS_LOST, WAS_RELEASED, WAS_CANCELLED = 1, 2, 3, 4, 5

-- ---- jobs as put ------------------------------------------------------------------------------------------------------

local PLAIN = {}

-- Returns a job's options that are not None, by name, the size of its body, and its topic. In the store a job is its time of creation
-- (6 bytes), its topic and its options as JSON, each behind its size (3 bytes), and the body.
local function read_job(job)
    local topic, options, at = struct.unpack('>I3c0I3c0', job, 7)
    return options == '' and PLAIN or cjson.decode(options), #job - at + 1, topic
end

-- ---- states -----------------------------------------------------------------------------------------------------------

-- A state as it lies in the store: numbers, then texts, which many jobs share. cmsgpack takes three times as long for the numbers.
local new_texts, pack_state, unpack_state
do -- so that these names do not count among the 200
    local NUMBERS, SIZE = '>BBbBI4I4i4ddBddd', 57

    local function noted(packed, topic, key, err, why, worker)
        texts[packed] = {packed = packed, topic = topic, key = key, error = err, why = why, worker = worker}
        return texts[packed]
    end

    function new_texts(topic, key, err, why, worker)
        key, err, why, worker = key or false, err or false, why or false, worker or false
        local packed = cmsgpack.pack({topic, key, err, why, worker})
        return texts[packed] or noted(packed, topic, key, err, why, worker)
    end

    function pack_state(state)
        return struct.pack(NUMBERS, unpack(state, 1, 13)) .. state[TEXT].packed
    end

    function unpack_state(packed)
        local state, tail = {struct.unpack(NUMBERS, packed)}, sub(packed, SIZE + 1)
        state[TEXT] = texts[tail] or noted(tail, unpack(cmsgpack.unpack(tail)))
        return state
    end
end

local function state_of_new(options, due, text)
    return {DELAYED, NEVER_LOST, options.priority or 0, 0, 0, 0, NO_ATTEMPT, due, NO_TIME, 0, 0, 0, 0, text}
end

local function state_of_job(job, due)
    local options, _, topic = read_job(job)
    return state_of_new(options, due, new_texts(topic, options.key))
end

-- Reads the states of jobs that are not read yet. Changes are made in `states`, and written at the end.
local function states_of(ids)
    local missing = {}
    for place = 1, #ids do
        if states[ids[place]] == nil then
            missing[#missing + 1] = ids[place]
        end
    end
    values(':s:', missing, states, unpack_state)
end

local function state_of(b)
    if states[b] == nil then
        states_of({b})
    end
    return states[b]
end

-- Returns a job's state, a new one that is not kept if it has none; nil if there is no job.
local function state_or_new(b, due)
    local job = not state_of(b) and call('HGET', chunk(':j:', b), b)
    return states[b] or job and state_of_job(job, due) or nil
end

local function keep(b, state)
    states[b] = state
    if not state[CHANGED] then
        state[CHANGED], changed[#changed + 1] = true, b
    end
end

-- Returns how a claim ends whose lease is over: state, due or nil, whether an attempt was spent, LOST_...
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

-- Returns a row of the history, as clients read it.
local function row_of(state, claim, ended, outcome, why)
    local started = state[STARTED] ~= NO_TIME and state[STARTED]
    return {claim, state[ATTEMPT], started, ended, outcome, state[TEXT].worker, why}
end
