-- Finding a job by a reference: 'i' and its id, or 'k', the size of the topic in 3 bytes, topic and key.
local EXISTS, KEY_TAKEN_TWICE, ENDED_LATELY = -1, -2, -3

local function is_live(b)
    local state = state_of(b)
    if not state then
        return true
    end
    if state[STATE] == RUNNING and now >= state[LEASE] then
        return when_lost(state) == DELAYED
    end
    return state[STATE] <= RUNNING
end

-- Returns the live job with a key, or else the latest finished one.
local function find_by_key(topic, key)
    local holder = call('HGET', holders_of(topic), key)
    if holder and is_live(holder) then
        return holder
    end
    local from = 0
    while true do
        local former = call('ZRANGE', former_of(topic, key), from, from + 9, 'REV')
        for _, b in ipairs(former) do
            if holder and holder > b then
                return holder
            end
            if not is_live(b) then
                return b
            end
        end
        if #former < 10 then
            return holder or nil
        end
        from = from + 10
    end
end

local function find(ref)
    if byte(ref) == 105 then
        local b = sub(ref, 2)
        return call('HEXISTS', of_job(b), b) == 1 and b or nil
    end
    local size = struct.unpack('>I3', ref, 2)
    return find_by_key(sub(ref, 5, 4 + size), sub(ref, 5 + size))
end
