-- Jobs with a priority, which stand in a set of their own too: :w:<priority>:<topic>, while they wait. Their priorities are in
-- :p:<topic>. In :p stands for a topic which priorities there ever were (jobs/limits.py), and whether what runs is counted;
-- for most there is nothing, and so nothing more is done.
local LIMITED = 1048576 -- 2^20
local KNOWN_FROM = 2 -- the version of stores that has lanes and limits
local marks = {}

local function mark_of(topic)
    local mark = marks[topic]
    if not mark then
        mark = tonumber(call('HGET', P .. ':p', topic) or 0)
        marks[topic] = mark
    end
    return mark
end

-- Whoever does not know these sets would read such jobs wrongly, and have them claimed twice: from now on who opens the store
-- must know its version.
local function refuse_older()
    local version, least = string.match(call('GET', P .. ':store') or '', '^pywheel (%d+) ?(%d*)$')
    if version and least ~= '' and tonumber(least) < KNOWN_FROM then
        call('SET', P .. ':store', 'pywheel ' .. version .. (tonumber(version) > KNOWN_FROM and ' ' .. KNOWN_FROM or ''))
    end
end

local function add_mark(topic, bits)
    local before = mark_of(topic)
    marks[topic] = bit.bor(before, bits)
    if marks[topic] ~= before then
        call('HSET', P .. ':p', topic, marks[topic])
        refuse_older()
    end
end

local function lanes_of(topic)
    return mark_of(topic) % LIMITED
end

local function priorities_of(topic)
    return P .. ':p:' .. topic
end

local function lane(topic, priority)
    return P .. ':w:' .. priority .. ':' .. topic
end

-- Returns the lane of a job, or nil if it has none.
local function lane_of(topic, b)
    local priority = lanes_of(topic) > 0 and call('HGET', priorities_of(topic), b)
    return priority and lane(topic, priority) or nil
end

-- Makes a job wait, now.
local function put_delayed(topic, b, due)
    call('ZADD', delayed_of(topic), due, b)
    local key = lane_of(topic, b)
    if key then
        call('ZADD', key, due, b)
    end
end

-- Returns the priorities of many jobs, 0 for those without one.
local function priorities(topic, ids)
    local found = {}
    for first = 1, #ids, SOME do
        local some = {unpack(ids, first, math.min(first + SOME - 1, #ids))}
        for _, priority in ipairs(call('HMGET', priorities_of(topic), unpack(some))) do
            found[#found + 1] = tonumber(priority or 0)
        end
    end
    return found
end

-- Returns up to `most` jobs that are due, in the order in which they are claimed, and when they are.
local function due_in_order(topic, most)
    local ids, dues, lanes = {}, {}, lanes_of(topic)
    local function take(key, plain)
        local from, some = 0, most - #ids
        while #ids < most do
            local part = call('ZRANGE', key, '-inf', now, 'BYSCORE', 'LIMIT', from, some, 'WITHSCORES')
            local found = {}
            for place = 1, #part, 2 do
                found[#found + 1] = part[place]
            end
            local other = plain and lanes > 0 and priorities(topic, found)
            for place, b in ipairs(found) do
                if not (other and other[place] ~= 0) and #ids < most then
                    ids[#ids + 1], dues[#dues + 1] = b, tonumber(part[2 * place])
                end
            end
            if #found < some then
                return
            end
            from = from + some
            some = math.min(2 * some, SOME)
        end
    end
    if lanes == 0 then
        take(delayed_of(topic))
        return ids, dues
    end
    for priority = 9, -9, -1 do
        if priority == 0 then
            take(delayed_of(topic), true)
        elseif bit.band(lanes, bit.lshift(1, priority + 9)) ~= 0 then
            take(lane(topic, priority))
        end
    end
    return ids, dues
end
