-- ARGV: now, an id in 6 bytes. Returns the rows of its history, then those of its state: what its last claim came to.
local b, rows = ARGV[2], {}
local state = state_of(b)
if state then
    for _, packed in ipairs(call('LRANGE', history_of(b), 0, -1)) do
        rows[#rows + 1] = cmsgpack.unpack(packed)
    end
    if state[STATE] == RUNNING then
        local over = now >= state[LEASE]
        rows[#rows + 1] = {state[CLAIMS], state[ATTEMPT], state[STARTED], over and state[LEASE], over and WAS_LOST or 0,
            state[WORKER], false}
    elseif state[ATTEMPT] then
        rows[#rows + 1] = {state[CLAIM], state[ATTEMPT], state[STARTED], state[ENDED], state[OUTCOME], state[WORKER],
            state[WHY]}
    end
end
return {micros, rows}
