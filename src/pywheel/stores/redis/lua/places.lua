-- Where jobs stand. What waits is in :d:<lane>:<topic> by due time: a lane is a priority, with an s behind it for suspects, whose handler
-- ran as their last lease was lost. So no claim looks at other priorities, nor at more suspects than it may take. :t has for each topic the
-- number of the pause that it is in, if any, and behind a space each its lanes but 0. What runs is in :l:<topic> by the end of its lease,
-- and what of it has a key in :g:<topic> by that; in :l stands for each topic a time before which none of its leases is over. Finished jobs
-- are in :f:<state><topic> by when they ended.
local SUSPECT = 's'

-- Returns what is known of a topic: {value = ..., pause = ..., lanes}, those of the highest priority first: {priority, key, suspects}.
local function topic_named(topic)
    local found = topics[topic]
    if found then
        return found
    end
    local value = call('HGET', P .. ':t', topic)
    found = {value = value, pause = value and tonumber(string.match(value, '^%d+')) or nil, by_name = {}}
    local there = {['0'] = true}
    for name in string.gmatch(value or '', ' (%S+)') do
        there[name] = true
    end
    local others = value and string.find(value, ' ', 1, true)
    for priority = others and 9 or 0, others and -9 or 0, -1 do
        for _, kind in ipairs({'', SUSPECT}) do
            local name = priority .. kind
            if there[name] then
                local key = P .. ':d:' .. name .. ':' .. topic
                found[#found + 1] = {priority, key, kind == SUSPECT}
                found.by_name[name] = key
            end
        end
    end
    topics[topic] = found
    return found
end

-- Whether jobs of a topic may be claimed: it is known, and not paused.
local function is_open(topic)
    local found = topic_named(topic)
    return found.value and not found.pause
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
    local there = topic_named(topic)
    if not there.by_name[name] then
        call('HSET', P .. ':t', topic, (there.value or '') .. ' ' .. name)
        topics[topic] = nil
    end
    return topic_named(topic).by_name[name]
end

local function lane_of(state)
    return lane(state[TOPIC], state[PRIORITY], state[LOST])
end

-- Returns when a job is due that waits, and its lane.
local function due_of(topic, b)
    for _, one in ipairs(topic_named(topic)) do
        local due = call('ZSCORE', one[2], b)
        if due then
            return tonumber(due), one[2]
        end
    end
end

-- Returns when the first job of a topic is due, of those due after a time.
local function first_due(topic, after)
    local first = nil
    for _, one in ipairs(topic_named(topic)) do
        local due = tonumber(call('ZRANGE', one[2], after, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2])
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

-- What runs and has a key, by it: so that a limit by key counts no others.
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
    list[size + 1], list[size + 2] = sent(score), b
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

-- ---- finding a job --------------------------------------------------------------------------------------------------------

local function is_live(b)
    return seen(state_of(b)) <= RUNNING
end

-- Returns the live job with a key, or else the latest finished one.
local function find_by_key(topic, key)
    local holder, from = call('HGET', holders_of(topic), key), 0
    if holder and is_live(holder) then
        return holder
    end
    while true do
        local former = call('ZRANGE', former_of(topic, key), from, from + 9, 'REV')
        for _, b in ipairs(former) do
            if holder and holder > b then
                return holder
            elseif not is_live(b) then
                return b
            end
        end
        if #former < 10 then
            return holder or nil
        end
        from = from + 10
    end
end

-- Finds a job by its id, or by {topic, key}.
local function find(ref)
    if type(ref) == 'table' then
        return find_by_key(ref[1], ref[2])
    end
    local b = ref > 0 and ref <= LAST_ID and bid(ref)
    return b and call('HEXISTS', chunk(':j:', b), b) == 1 and b or nil
end
