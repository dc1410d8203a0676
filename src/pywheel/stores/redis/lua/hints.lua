-- The workers, and the hints for them. Workers are in :m with their topics, their beats in :b (time, `behind`, and the pause that they have
-- obeyed), their horizons in :h, and in :a:<topic> the slices of its time that they own, with their horizons. Messages for one worker are
-- published on its bell, messages for all on the common bell: m, a worker came or went; p, a topic was paused or resumed; h, hints.
local SLICE, SLICES = 50, 32 -- jobs/job.py

local function bell_of(worker)
    return P .. ':bell:' .. worker
end

-- Returns the workers that handle a topic: {worker, mask of the slices, horizon}.
local function audience(topic)
    local there = audiences[topic]
    if not there then
        there = {}
        local found = call('HGETALL', P .. ':a:' .. topic)
        for place = 1, #found, 2 do
            local mask, horizon = string.match(found[place + 1], '^(%S+) (%S+)$')
            there[#there + 1] = {worker = found[place], mask = tonumber(mask), horizon = tonumber(horizon)}
        end
        audiences[topic] = there
    end
    return there
end

-- Returns the furthest horizon of all workers.
local function furthest_horizon()
    furthest = furthest or tonumber(call('GET', K.furthest) or -1e300)
    return furthest
end

-- Notes a job's due time for the owner of its slice. Without a priority the owner is only woken.
local function tell(topic, b, due, priority)
    if due > furthest_horizon() then
        return
    end
    local slice = bit.lshift(1, floor(due / SLICE) % SLICES)
    for _, one in ipairs(audience(topic)) do
        if due <= one.horizon and band(one.mask, slice) ~= 0 then
            if not one.hints then
                one.hints = {'h', struct.pack('>I4', #topic), topic}
                hints[#hints + 1] = one
            end
            one.hints[#one.hints + 1] = priority and b .. struct.pack('>db', due, priority) or nil
        end
    end
end

local function publish_hints()
    for _, one in ipairs(hints) do
        call('PUBLISH', bell_of(one.worker), table.concat(one.hints))
    end
end
