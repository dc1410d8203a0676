-- Hints: whom a change concerns. Each worker keeps in the store which slices of a topic's time it owns, and its horizon.
local SLICE, SLICES = 50, 32 -- jobs/job.py
local furthest, audiences, hints
forgets[#forgets + 1] = function()
    furthest, audiences, hints = nil, {}, {}
end
local HINTS_KEPT = 10000

local function audience(topic)
    local there = audiences[topic]
    if there then
        return there
    end
    there = {}
    local found, workers, masks = call('HGETALL', P .. ':a:' .. topic), {}, {}
    for place = 1, #found, 2 do
        workers[#workers + 1] = found[place]
        masks[#masks + 1] = tonumber(found[place + 1])
    end
    if #workers > 0 then
        for place, horizon in ipairs(call('HMGET', P .. ':h', unpack(workers))) do
            if horizon then
                there[#there + 1] = {workers[place], masks[place], tonumber(horizon)}
            end
        end
    end
    audiences[topic] = there
    return there
end

-- Returns the due time up to which anybody wants hints.
local function furthest_horizon()
    furthest = furthest or tonumber(call('GET', P .. ':hmax') or -1e300)
    return furthest
end

-- Notes that a job is due then, for the owner of that time; `was` is when it was due until now, if that is earlier.
local function tell(topic, b, due, was)
    was = was or due
    if was > furthest_horizon() then
        return
    end
    local slice = bit_of(1, floor(due / SLICE) % SLICES)
    for _, one in ipairs(audience(topic)) do
        if was <= one[3] and band(one[2], slice) ~= 0 then
            local list = hints[one[1]]
            if not list then
                list = {}
                hints[one[1]] = list
            end
            list[#list + 1] = b .. struct.pack('>d', was) .. topic
        end
    end
end

-- Writes what was noted, and rings those who have read all that they were told before.
local function tell_all()
    for worker, list in pairs(hints) do
        local key = P .. ':i:' .. worker
        local before = call('LLEN', key)
        if before + #list > HINTS_KEPT then
            call('DEL', key)
            call('RPUSH', key, '!') -- some are missing
        else
            each_part('RPUSH', key, list)
        end
        if before == 0 then
            call('PUBLISH', P .. ':bell:' .. worker, 'hint')
        end
    end
end
