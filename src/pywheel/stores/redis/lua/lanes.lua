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

-- Plain jobs, those without a priority, have no set of their own: beside lanes they are what the lanes do not have. How many
-- stand before a place follows from its ranks in the lanes, so a backlog of other priorities is passed over by halves.
local plain = {FEW = 64, PAGE = 500, MOST = 20000, looked = 0} -- `looked` counts jobs that were looked at, and looks at ranks

-- Returns how many members of a set lie up to a place.
function plain.rank_after(key, due, b)
    local rank, looks = rank_of(key, due, b, true)
    plain.looked = plain.looked + looks
    return rank
end

-- Returns how many of the first `rank` delayed jobs of a topic are plain.
function plain.among(topic, rank)
    if rank == 0 then
        return 0
    end
    local lanes, last = lanes_of(topic), call('ZRANGE', delayed_of(topic), rank - 1, rank - 1, 'WITHSCORES')
    for priority = -9, 9 do
        if bit.band(lanes, bit.lshift(1, priority + 9)) ~= 0 then
            rank = rank - plain.rank_after(lane(topic, priority), last[2], last[1])
        end
    end
    return rank
end

-- Returns the rank of the next plain job, or a few less; `stop` if there is none before that.
function plain.skip(topic, rank, stop)
    local before, low, step = plain.among(topic, rank), rank, plain.FEW
    local high = math.min(low + step, stop)
    while plain.among(topic, high) == before do
        if high == stop then
            return stop
        end
        step = 8 * step
        low, high = high, math.min(high + step, stop)
    end
    while high - low > plain.FEW do
        local middle = math.floor((low + high) / 2)
        if plain.among(topic, middle) == before then
            low = middle
        else
            high = middle
        end
    end
    return low
end

-- Looks at up to `some` delayed jobs of a topic with lanes. Returns the plain ones, the rank from which to look on, and at how many.
-- Where none of a whole page is plain the next one is looked up, which costs as much as a page or two.
function plain.part(topic, rank, stop, some)
    local part, found = call('ZRANGE', delayed_of(topic), rank, math.min(rank + some, stop) - 1), {}
    for place, priority in ipairs(priorities(topic, part)) do
        if priority == 0 then
            found[#found + 1] = part[place]
        end
    end
    rank = rank + #part
    plain.looked = plain.looked + #part
    if #found == 0 and #part == plain.PAGE and rank < stop then
        return found, plain.skip(topic, rank, stop), plain.FEW
    end
    return found, rank, math.min(2 * some, plain.PAGE)
end

-- Returns up to `most` jobs that are due, in the order in which they are claimed, and when they are.
local function due_in_order(topic, most)
    local ids, dues, lanes = {}, {}, lanes_of(topic)
    local function take(key)
        local part = #ids < most and call('ZRANGE', key, '-inf', now, 'BYSCORE', 'LIMIT', 0, most - #ids, 'WITHSCORES') or {}
        for place = 1, #part, 2 do
            ids[#ids + 1], dues[#dues + 1] = part[place], tonumber(part[place + 1])
        end
    end
    local function take_plain()
        local key = delayed_of(topic)
        local rank, stop, some, found = 0, call('ZCOUNT', key, '-inf', now), plain.FEW, nil
        while #ids < most and rank < stop do
            if #ids > 0 and plain.looked > plain.MOST then -- these first; there are more
                most = #ids
                return
            end
            found, rank, some = plain.part(topic, rank, stop, some)
            for place, due in ipairs(scores(key, found)) do
                if #ids < most then
                    ids[#ids + 1], dues[#dues + 1] = found[place], tonumber(due)
                end
            end
        end
    end
    if lanes == 0 then
        take(delayed_of(topic))
        return ids, dues
    end
    for priority = 9, -9, -1 do
        if priority == 0 then
            take_plain()
        elseif bit.band(lanes, bit.lshift(1, priority + 9)) ~= 0 then
            take(lane(topic, priority))
        end
    end
    return ids, dues
end
