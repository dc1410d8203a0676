-- Jobs as they are, for readers: what a state holds, and when it is due. A lease that is over is for the client to see.
local function put_job(reply, b, job, state)
    local size = #reply
    reply[size + 1], reply[size + 2] = b, job
    if not state then
        reply[size + 3], reply[size + 4] = call('ZSCORE', delayed_of(topic_of(job)), b), false
        return
    end
    local due = state[DUE]
    if state[STATE] == DELAYED then
        due = call('ZSCORE', delayed_of(state[TOPIC]), b)
    end
    local running = state[STATE] == RUNNING
    reply[size + 3] = due
    reply[size + 4] = {state[STATE], state[CLAIMS], state[FORGIVEN], state[LOST], state[ERROR],
        running and state[ATTEMPT], running and state[BEGUN], running and state[LEASE], running and state[MOST],
        running and state[BACKOFF]}
end

-- The state that readers see: 0 delayed, 1 running, ...
local function seen(state)
    if not state then
        return DELAYED
    end
    if state[STATE] == RUNNING and now >= state[LEASE] then
        return (when_lost(state))
    end
    return state[STATE]
end
