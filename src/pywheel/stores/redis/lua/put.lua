-- Storing new jobs. A job is created (6 bytes), then what its client packed; when it is due lies in its topic's set alone.
local CREATED = struct.pack('>I6', now + BIAS)
local BUMP = 16777216 -- 2^24: so many ids are left out after a restart that may have lost some

local function due_at(when)
    if byte(when) == 100 then -- d: a delay
        return now + tonumber(sub(when, 2))
    end
    return tonumber(when)
end

-- A chunk is noted when its first job comes: the first of 256, or the first after a bump.
local function note_chunk(id, b)
    if id % 256 == 0 or id % BUMP == 1 then
        local chunk = (id - id % 256) / 256
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
    local count = tonumber(ARGV[at])
    local first = call('INCRBY', P .. ':n', count) - count + 1
    local id, place = first, at + 1
    local jobs, chunk = {}, nil
    while count > 0 do
        local topic, some = ARGV[place], tonumber(ARGV[place + 1])
        local dues = {}
        place = place + 2
        for _ = 1, some do
            local b, due = bid(id), due_at(ARGV[place])
            if sub(b, 1, 5) ~= chunk then
                if chunk then
                    call('HSET', P .. ':j:' .. chunk, unpack(jobs))
                    jobs = {}
                end
                chunk = sub(b, 1, 5)
            end
            note_chunk(id, b)
            jobs[#jobs + 1] = b
            jobs[#jobs + 1] = CREATED .. ARGV[place + 1]
            dues[#dues + 1] = due
            dues[#dues + 1] = b
            tell(topic, b, due)
            place = place + 2
            id = id + 1
        end
        call('HSETNX', P .. ':t', topic, '')
        each_part('ZADD', delayed_of(topic), dues)
        count = count - some
    end
    if chunk then
        call('HSET', P .. ':j:' .. chunk, unpack(jobs))
    end
    return first, place
end
