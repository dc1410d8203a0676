-- ARGV: now, ids in 6 bytes each. Returns for each the rows of its history, then that of its state: what its last claim came to.
local function history(b)
    local state, rows = state_of(b), {}
    if not state then
        return rows
    end
    for place, packed in ipairs(call('LRANGE', history_of(b), 0, -1)) do
        rows[place] = cmsgpack.unpack(packed)
    end
    if state[STATE] == RUNNING then
        local over = now >= state[LEASE]
        rows[#rows + 1] = {state[CLAIMS], state[ATTEMPT], state[STARTED], over and state[LEASE], over and WAS_LOST or 0,
            state[WORKER], false}
    elseif state[ATTEMPT] then
        rows[#rows + 1] = {state[CLAIM], state[ATTEMPT], state[STARTED], state[ENDED], state[OUTCOME], state[WORKER],
            state[WHY], state[RESULT] and call('HGET', results_of(b), b)}
    end
    return rows
end

local found = {}
for place = 2, #ARGV do
    found[place - 1] = history(ARGV[place])
end
return {micros, found}
