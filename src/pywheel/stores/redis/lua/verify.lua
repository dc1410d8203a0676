-- Checking jobs and the places where they stand: job hashes and states are the truth. ARGV: now, '1' to mend, the kind of key, its name,
-- and what of it is looked at. Returns numbers of faults, and ids, or names of notes: stores/redis/verify.py names them.
local NOWHERE, TWICE, NO_JOB, INDEXES, KEYS_OF_NONE, KEYLESS, HISTORY, IDS_GIVEN, TOPICS, NOTES_LISTED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local wrongs
local look = {}

-- Notes a fault; returns whether it is to be mended.
local function wrong(fault, b)
    wrongs[#wrongs + 1] = fault
    wrongs[#wrongs + 1] = #b == 6 and fault ~= NOTES_LISTED and number(b) or b
    return ARGV[2] == '1'
end

-- Returns a job's state, one that is not kept if it has none, and whether it has one; nil if there is no job.
local function read(b)
    local job = call('HGET', chunk(':j:', b), b)
    if not job then
        return nil
    end
    local key, _, _, _, priority = read_job(job)
    return state_of(b) or state_of_new(topic_of(job), key, now, priority), state_of(b) and true
end

-- Looks at the members of a set of places: `fits` says of a job whether it should be there.
local function places(set, fits, id_of)
    for at = 5, #ARGV do
        local b = id_of and id_of(ARGV[at]) or ARGV[at]
        if call('ZSCORE', set, ARGV[at]) then
            local state = read(b)
            if (not state or not fits(state, b, ARGV[at])) and wrong(state and TWICE or NO_JOB, b) then
                call('ZREM', set, ARGV[at])
            end
        end
    end
end

-- The place of a job that is not delayed, and its time there.
local function place_of(state)
    if state[STATE] == RUNNING then
        return leases_of(state[TOPIC]), state[LEASE]
    end
    return finished_of(state[STATE], state[TOPIC]), state[ENDED]
end

function look.d(name)
    places(P .. ':d:' .. name, function(state)
        return state[STATE] == DELAYED and name == lane_name(state[PRIORITY], state[LOST]) .. ':' .. state[TOPIC]
    end)
end

function look.l(name)
    places(leases_of(name), function(state)
        return state[STATE] == RUNNING and state[TOPIC] == name
    end)
end

function look.f(name)
    places(P .. ':f:' .. name, function(state)
        return state[STATE] >= DONE and place_of(state) == P .. ':f:' .. name
    end)
end

-- What runs and has a key.
function look.g(name)
    places(groups_of(name), function(state, b, member)
        return lanes_of(name).by_keys and state[STATE] == RUNNING and state[TOPIC] == name and state[KEY] and member == state[KEY] .. '\0' .. b
    end, function(member)
        return sub(member, -6)
    end)
end

-- Those that had a key.
function look.o(name)
    places(P .. ':o:' .. name, function(state, b)
        return state[KEY] and former_of(state[TOPIC], state[KEY]) == P .. ':o:' .. name
            and call('HGET', holders_of(state[TOPIC]), state[KEY]) ~= b
    end)
end

-- Those that have a key, by keys.
function look.k(name)
    for at = 5, #ARGV do
        local b = call('HGET', holders_of(name), ARGV[at])
        local state = b and read(b)
        if b and not (state and state[TOPIC] == name and state[KEY] == ARGV[at] and state[STATE] <= RUNNING)
            and wrong(KEYS_OF_NONE, b) then
            call('HDEL', holders_of(name), ARGV[at])
        end
    end
end

-- Notes by name, wherever they stand.
function look.e()
    for at = 5, #ARGV do
        local note, packed = ARGV[at], call('HGET', P .. ':e', ARGV[at])
        local over = packed and struct.unpack('>d', packed) or math.huge
        local listed, ends = call('ZSCORE', P .. ':c', note), tonumber(call('ZSCORE', P .. ':g', note)) or math.huge
        if (not packed ~= not listed or ends ~= over) and wrong(NOTES_LISTED, note) then
            call(packed and 'ZADD' or 'ZREM', P .. ':c', unpack(packed and {0, note} or {note}))
            call(over < math.huge and 'ZADD' or 'ZREM', P .. ':g', unpack(over < math.huge and {over, note} or {note}))
        end
    end
end

-- States without a job.
function look.s()
    for at = 5, #ARGV do
        local b = ARGV[at]
        if call('HEXISTS', chunk(':s:', b), b) == 1 and call('HEXISTS', chunk(':j:', b), b) == 0 and wrong(HISTORY, b) then
            call('HDEL', chunk(':s:', b), b)
        end
    end
end

-- Results of jobs whose states know of none.
function look.r()
    for at = 5, #ARGV do
        local b, state = ARGV[at], state_of(ARGV[at])
        if call('HEXISTS', results_of(b), b) == 1 and not (state and state[RESULT]) and wrong(HISTORY, b) then
            call('HDEL', results_of(b), b)
        end
    end
end

-- Histories, by the numbers of their jobs.
function look.h()
    for at = 5, #ARGV do
        local b = bid(tonumber(ARGV[at]))
        if call('EXISTS', history_of(b)) == 1 and call('HEXISTS', chunk(':s:', b), b) == 0 and wrong(HISTORY, b) then
            call('DEL', history_of(b))
        end
    end
end

local function look_at_key(b, state)
    local topic, key = state[TOPIC], state[KEY]
    local holder, former = call('HGET', holders_of(topic), key), call('ZSCORE', former_of(topic, key), b)
    local missing = not former and (state[STATE] > RUNNING and INDEXES or holder ~= b and KEYLESS)
    if missing and wrong(missing, b) then
        if missing == INDEXES or holder then
            call('ZADD', former_of(topic, key), number(b), b)
        else
            call('HSET', holders_of(topic), key, b)
        end
    end
end

local function look_at_place(b, state)
    local topic = state[TOPIC]
    if state[STATE] == DELAYED then
        local known = lanes_of(topic)[lane_name(state[PRIORITY], state[LOST])]
        if not (known and call('ZSCORE', known, b)) and wrong(NOWHERE, b) then
            call('ZADD', lane_of(state), state[DUE], b)
        end
        return
    end
    local set, at = place_of(state)
    local running, by_keys = state[STATE] == RUNNING, state[KEY] and lanes_of(topic).by_keys
    local there = tonumber(call('ZSCORE', set, b)) == at
    there = there and not (running and tonumber(call('ZSCORE', P .. ':l', topic) or math.huge) > at)
        and not (running and by_keys and not call('ZSCORE', groups_of(topic), state[KEY] .. '\0' .. b))
    if not there and wrong(INDEXES, b) then
        call('ZADD', set, at, b)
        if running then
            call('ZADD', P .. ':l', 'LT', at, topic)
        end
        if running and by_keys then
            call('ZADD', groups_of(topic), 0, state[KEY] .. '\0' .. b)
        end
    end
end

-- A hash of jobs.
function look.j(name)
    local ids = call('HKEYS', P .. ':j:' .. name)
    if #ids > 0 and not call('ZSCORE', P .. ':x', name) and wrong(INDEXES, ids[1]) then
        call('ZADD', P .. ':x', floor(number(name .. '\0') / 256), name)
    end
    states_of(ids)
    for _, b in ipairs(ids) do
        local state = read(b)
        if number(b) > tonumber(call('GET', P .. ':n') or 0) and wrong(IDS_GIVEN, b) then
            call('SET', P .. ':n', string.format('%.0f', number(b)))
        end
        if call('HEXISTS', P .. ':t', state[TOPIC]) == 0 and wrong(TOPICS, b) then
            call('HSET', P .. ':t', state[TOPIC], '')
        end
        look_at_place(b, state)
        if state[KEY] then
            look_at_key(b, state)
        end
    end
end

function api.verify()
    wrongs = {}
    look[ARGV[3]](ARGV[4])
    return {micros, wrongs}
end
api.mend = api.verify
