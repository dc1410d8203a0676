-- Storing new jobs. A job is created (6 bytes), then what its client packed; when it is due lies in its topic's set alone.
local CREATED = struct.pack('>I6', now + BIAS)
local BUMP = 16777216 -- 2^24: so many ids are left out after a restart that may have lost some

local function due_at(when)
    if byte(when) == 100 then -- d: a delay
        return now + tonumber(sub(when, 2))
    end
    return tonumber(when)
end

-- A chunk is noted when its first job comes: the first of 256, or the first after a bump. The one before it may be empty.
local function note_chunk(id, b)
    if id % 256 == 0 or id % BUMP == 1 then
        local chunk = math.floor(id / 256)
        call('ZADD', P .. ':x', chunk, sub(b, 1, 5))
        local last = bid(math.max(chunk - 1, 0) * 256)
        if chunk > 0 and call('EXISTS', of_job(last)) == 0 then
            call('ZREM', P .. ':x', sub(last, 1, 5))
        end
    end
end

-- Stores plain jobs: ARGV[at] is their number, then for each topic: its name, how many, and when and what for each.
-- Returns the first id; the others follow it. And where the next argument stands.
local function put_plain(at)
    local count, char = tonumber(ARGV[at]), string.char
    local first = call('INCRBY', P .. ':n', count) - count + 1
    local id, place = first, at + 1
    local jobs, chunk, size = {}, nil, 0
    while count > 0 do
        local topic, some = ARGV[place], tonumber(ARGV[place + 1])
        local dues, far = {}, furthest_horizon()
        place = place + 2
        for number = 1, 2 * some, 2 do
            local low = id % 256
            if low == 0 or not chunk then
                if chunk then
                    call('HSET', P .. ':j:' .. chunk, unpack(jobs))
                    jobs, size = {}, 0
                end
                chunk = sub(bid(id), 1, 5)
                note_chunk(id, bid(id))
            end
            local b, when = chunk .. char(low), ARGV[place]
            local due = byte(when) == 100 and now + sub(when, 2) or tonumber(when)
            jobs[size + 1], jobs[size + 2] = b, CREATED .. ARGV[place + 1]
            dues[number], dues[number + 1] = due, b
            if due <= far then
                tell(topic, b, due)
            end
            size, place, id = size + 2, place + 2, id + 1
        end
        call('HSETNX', P .. ':t', topic, '')
        each_part('ZADD', delayed_of(topic), dues)
        count = count - some
    end
    call('HSET', P .. ':j:' .. chunk, unpack(jobs))
    return first, place
end
