-- Where jobs stand. What waits is in :d:<lane>:<topic> by due time: a lane is a priority, with an s behind it for suspects, whose handler
-- ran as their last lease was lost. So no claim looks at other priorities, nor at more suspects than it may take. :p has the lanes of
-- each topic but 0, and a k if what runs is kept by keys. What runs is in :l:<topic> by the end of its lease, and in :l stands for each topic a time before which none of its
-- leases is over; finished jobs are in :f:<state><topic> by when they ended.
local SUSPECT = 's'
local lanes, added, removed, bounds
forgets[#forgets + 1] = function()
    lanes, added, removed, bounds = {}, {}, {}, {}
end

-- Returns the lanes of a topic, those of the highest priority first: {name, priority, key, whether of suspects}.
local function lanes_of(topic)
    local found = lanes[topic]
    if found then
        return found
    end
    local known = call('HGET', P .. ':p', topic)
    found = {known = known or ''}
    local there = {['0'] = true}
    for name in string.gmatch(found.known, '%S+') do
        there[name] = true
    end
    found.by_keys = there.k
    for priority = known and 9 or 0, known and -9 or 0, -1 do
        for _, kind in ipairs({'', SUSPECT}) do
            local name = priority .. kind
            if there[name] then
                found[#found + 1] = {name, priority, P .. ':d:' .. name .. ':' .. topic, kind == SUSPECT}
                found[name] = found[#found][3]
            end
        end
    end
    lanes[topic] = found
    return found
end

local function lane_name(priority, lost)
    return lost == LOST_BEGUN and priority .. SUSPECT or tostring(priority)
end

-- Returns the key of a lane, which is there from now on.
local function lane(topic, priority, lost)
    local name = lane_name(priority, lost)
    if name == '0' then
        return P .. ':d:0:' .. topic
    end
    local there = lanes_of(topic)
    if not there[name] then
        call('HSET', P .. ':p', topic, there.known .. ' ' .. name)
        lanes[topic] = nil
    end
    return there[name] or lanes_of(topic)[name]
end

local function lane_of(state)
    return lane(state[TOPIC], state[PRIORITY], state[LOST])
end

-- Returns when a job is due that waits, and its lane.
local function due_of(topic, b)
    for _, one in ipairs(lanes_of(topic)) do
        local due = call('ZSCORE', one[3], b)
        if due then
            return tonumber(due), one[3]
        end
    end
end

-- Returns when the first job of a topic is due, of those due after a time.
local function first_due(topic, after)
    local first = nil
    for _, one in ipairs(lanes_of(topic)) do
        local due = tonumber(call('ZRANGE', one[3], after, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2])
        first = due and min(due, first or due) or first
    end
    return first
end

local function leases_of(topic)
    return P .. ':l:' .. topic
end

local function finished_of(state, topic)
    return P .. ':f:' .. state .. topic
end

local function results_of(b)
    return chunk(':r:', b)
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

-- What runs and has a key, by it, of topics that ever had a limit for each group of keys: so that counts no others.
local function groups_of(topic)
    return P .. ':g:' .. topic
end

-- Changes of sorted sets are kept until `flush`, and then made by few calls.
local function add(key, score, b)
    local list = added[key]
    if not list then
        list = {}
        added[key] = list
    end
    local size = #list
    list[size + 1], list[size + 2] = score, b
end

local function remove(key, b)
    local list = removed[key]
    if not list then
        list = {}
        removed[key] = list
    end
    list[#list + 1] = b
end

local function flush()
    for key, list in pairs(removed) do
        each_part('ZREM', key, list)
    end
    for key, list in pairs(added) do
        each_part('ZADD', key, list)
    end
    for topic, lease in pairs(bounds) do
        call('ZADD', P .. ':l', 'LT', lease, topic)
    end
    added, removed, bounds = {}, {}, {}
end

local function lease_until(b, state)
    local topic, lease = state[TOPIC], state[LEASE]
    add(leases_of(topic), lease, b)
    bounds[topic] = min(lease, bounds[topic] or lease)
end

-- Returns when the first lease may be over: what stands for a topic is looked at once it is the first.
local function first_lease()
    for _ = 1, 100 do
        local first = call('ZRANGE', P .. ':l', 0, 0, 'WITHSCORES')
        if not first[1] then
            return false
        end
        local lease = call('ZRANGE', leases_of(first[1]), 0, 0, 'WITHSCORES')[2]
        if lease and tonumber(lease) <= tonumber(first[2]) then
            return tonumber(lease)
        elseif lease then
            call('ZADD', P .. ':l', lease, first[1])
        else
            call('ZREM', P .. ':l', first[1])
        end
    end
    return tonumber(call('ZRANGE', P .. ':l', 0, 0, 'WITHSCORES')[2])
end
