-- Checking jobs and the places where they stand: job hashes and states are the truth. ARGV: now, '1' to mend, the kind of
-- key, its name, and what of it is looked at. Returns numbers of faults, and ids, or names of notes: stores/redis/verify.py names them.
local NOWHERE, TWICE, NO_JOB, INDEXES, KEYS_OF_NONE, KEYLESS, HISTORY, IDS, TOPICS, NOTES_LISTED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local mend, kind, name = ARGV[2] == '1', ARGV[3], ARGV[4]
local found = {}

-- Notes a fault; returns whether it is to be mended.
local function wrong(fault, b)
    found[#found + 1] = fault
    found[#found + 1] = number(b)
    return mend
end

-- Returns topic, key, where the job is, and its priority; nil if there is none.
local function read(b)
    local job = call('HGET', of_job(b), b)
    if not job then
        return nil
    end
    local state, key, _, _, _, priority = state_of(b), read_job(job)
    return topic_of(job), key or nil, state and state[STATE] or DELAYED, priority
end

-- Looks at the members of a sorted set of places: `fits` says of a job whether it should be there.
local function places(set, fits)
    for at = 5, #ARGV do
        local b = ARGV[at]
        if call('ZSCORE', set, b) then
            local topic, key, to, priority = read(b)
            if (not topic or not fits(topic, key, to, b, priority)) and wrong(topic and TWICE or NO_JOB, b) then
                call('ZREM', set, b)
            end
        end
    end
end

local look = {}

function look.d()
    places(delayed_of(name), function(topic, _, to)
        return topic == name and to == DELAYED
    end)
end

function look.l()
    places(LEASES, function(_, _, to)
        return to == RUNNING
    end)
end

-- Lanes: jobs with a priority, once more.
function look.w()
    local level, of = string.match(name, '^(%-?%d+):(.*)$')
    places(P .. ':w:' .. name, function(topic, _, to, _, priority)
        return topic == of and to == DELAYED and priority == tonumber(level)
    end)
end

-- What runs of a topic with limits, once more.
function look.u()
    places(running_of(name), function(topic, _, to)
        return topic == name and to == RUNNING
    end)
end

-- The priorities of a topic's jobs.
function look.p()
    for at = 5, #ARGV do
        local b = ARGV[at]
        local kept, topic, _, _, priority = call('HGET', priorities_of(name), b), read(b)
        if kept and (topic ~= name or priority == 0) and wrong(topic and TWICE or NO_JOB, b) then
            call('HDEL', priorities_of(name), b)
        end
    end
end

function look.f()
    local state, of = tonumber(sub(name, 1, 1)), sub(name, 2)
    places(finished_of(state, of), function(topic, _, to)
        return topic == of and to == state
    end)
end

-- Those that had a key.
function look.o()
    places(P .. ':o:' .. name, function(topic, key, _, b)
        return key and former_of(topic, key) == P .. ':o:' .. name and call('HGET', holders_of(topic), key) ~= b
    end)
end

-- Those that have a key, by keys.
function look.k()
    local holders = holders_of(name)
    for at = 5, #ARGV do
        local b = call('HGET', holders, ARGV[at])
        if b then
            local topic, key, to = read(b)
            if not (topic == name and key == ARGV[at] and to <= RUNNING) and wrong(KEYS_OF_NONE, b) then
                call('HDEL', holders, ARGV[at])
            end
        end
    end
end

-- Notes by name, wherever they stand.
function look.e()
    local notes, names, ends = P .. ':e', P .. ':c', P .. ':g'
    for at = 5, #ARGV do
        local note, packed = ARGV[at], call('HGET', notes, ARGV[at])
        local over = packed and struct.unpack('>d', packed) or math.huge
        local listed, at_end = call('ZSCORE', names, note), tonumber(call('ZSCORE', ends, note)) or math.huge
        if not packed ~= not listed or at_end ~= over then
            found[#found + 1] = NOTES_LISTED
            found[#found + 1] = note
            if mend then
                call(packed and 'ZADD' or 'ZREM', names, unpack(packed and {0, note} or {note}))
                call(over < math.huge and 'ZADD' or 'ZREM', ends, unpack(over < math.huge and {over, note} or {note}))
            end
        end
    end
end

function look.s()
    for at = 5, #ARGV do
        local b = ARGV[at]
        if call('HEXISTS', of_state(b), b) == 1 and call('HEXISTS', of_job(b), b) == 0 and wrong(HISTORY, b) then
            call('HDEL', of_state(b), b)
        end
    end
end

-- Results of jobs whose states know of none.
function look.r()
    for at = 5, #ARGV do
        local b = ARGV[at]
        local state = state_of(b)
        local kept = call('HEXISTS', results_of(b), b) == 1
        if kept and not (state and state[RESULT]) and wrong(HISTORY, b) then
            call('HDEL', results_of(b), b)
        end
    end
end

-- Histories, by the numbers of their jobs.
function look.h()
    for at = 5, #ARGV do
        local b = bid(tonumber(ARGV[at]))
        if call('EXISTS', history_of(b)) == 1 and call('HEXISTS', of_state(b), b) == 0 and wrong(HISTORY, b) then
            call('DEL', history_of(b))
        end
    end
end

local function look_at_key(b, topic, key, to)
    local holder, former = call('HGET', holders_of(topic), key), call('ZSCORE', former_of(topic, key), b)
    if to > RUNNING then
        if not former and wrong(INDEXES, b) then
            call('ZADD', former_of(topic, key), number(b), b)
        end
    elseif holder ~= b and not former and wrong(KEYLESS, b) then
        if holder then
            call('ZADD', former_of(topic, key), number(b), b)
        else
            call('HSET', holders_of(topic), key, b)
        end
    end
end

-- Whether a lane has the job as the set of its topic has it, which says when it is due.
local function look_at_lane(b, topic, due, priority)
    local bits = bit.lshift(1, priority + 9)
    local known = bit.band(mark_of(topic), bits) ~= 0 and call('HGET', priorities_of(topic), b) == tostring(priority)
    if known and (not due or tonumber(call('ZSCORE', lane(topic, priority), b)) == due) then
        return
    end
    if wrong(INDEXES, b) then
        add_mark(topic, bits)
        call('HSET', priorities_of(topic), b, priority)
        if due then
            call('ZADD', lane(topic, priority), due, b)
        end
    end
end

local function look_at_place(b, topic, to, priority)
    local state = state_of(b)
    local set = to == DELAYED and delayed_of(topic) or to == RUNNING and LEASES or finished_of(to, topic)
    local score = call('ZSCORE', set, b)
    local due = state and state[DUE] or now -- a job that was never claimed says nowhere else when it is due
    if to == DELAYED then
        if not score and wrong(NOWHERE, b) then
            call('ZADD', set, due, b)
            score = due
        end
    end
    if priority ~= 0 then
        look_at_lane(b, topic, to == DELAYED and tonumber(score), priority)
    end
    if to == DELAYED then
        return
    end
    local at = to == RUNNING and state[LEASE] or state[ENDED]
    local counted = to ~= RUNNING or mark_of(topic) < LIMITED or tonumber(call('ZSCORE', running_of(topic), b)) == at
    if (not score or tonumber(score) ~= at or not counted) and wrong(INDEXES, b) then
        call('ZADD', set, at, b)
        if not counted then
            call('ZADD', running_of(topic), at, b)
        end
    end
end

-- A chunk of jobs.
function look.j()
    local jobs = call('HGETALL', P .. ':j:' .. name)
    local chunk = math.floor(number(name .. '\0') / 256)
    if #jobs > 0 and not call('ZSCORE', P .. ':x', name) and wrong(INDEXES, jobs[1]) then
        call('ZADD', P .. ':x', chunk, name)
    end
    for at = 1, #jobs, 2 do
        local b, topic, key, _, _, _, priority = jobs[at], topic_of(jobs[at + 1]), read_job(jobs[at + 1])
        local state = state_of(b)
        local to = state and state[STATE] or DELAYED
        if number(b) > tonumber(call('GET', P .. ':n') or 0) and wrong(IDS, b) then
            call('SET', P .. ':n', string.format('%.0f', number(b)))
        end
        if call('HEXISTS', P .. ':t', topic) == 0 and wrong(TOPICS, b) then
            call('HSET', P .. ':t', topic, '')
        end
        look_at_place(b, topic, to, priority)
        if key then
            look_at_key(b, topic, key, to)
        end
    end
end

look[kind]()
return {micros, found}
