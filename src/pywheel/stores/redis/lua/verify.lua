-- Checking jobs and their places: jobs and their states are the truth.
local NOWHERE, TWICE, NO_JOB, INDEXES, KEYS_OF_NONE, KEYLESS, HISTORY, IDS_GIVEN, TOPICS, NOTES_LISTED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local NOT_THERE = {}
local wrongs, mends
local check = {} -- by kind of key

-- Notes a fault; returns whether it is to be mended.
local function wrong(fault, b)
    wrongs[#wrongs + 1] = fault
    wrongs[#wrongs + 1] = fault ~= NOTES_LISTED and number(b) or b
    return mends
end

-- Returns a job's state; nil if there is no job.
local function read(b)
    return call('HEXISTS', chunk(':j:', b), b) == 1 and state_or_new(b, now) or nil
end

-- Returns the right places of a job, by key: {member, score or nil for any, the fault if it is not there}.
local function places_of(b, state)
    local topic, key, found = state[TEXT].topic, state[TEXT].key, {}
    if state[STATE] == DELAYED then
        found[P .. ':d:' .. lane_name(state[PRIORITY], state[LOST]) .. ':' .. topic] = {b, nil, NOWHERE}
    elseif state[STATE] == RUNNING then
        found[keys_of(topic).leases] = {b, state[LEASE], INDEXES}
        if key then
            found[keys_of(topic).groups] = {with_key(key, b), 0, INDEXES}
        end
    else
        found[keys_of(topic)[state[STATE]]] = {b, state[ENDED], INDEXES}
    end
    if key and call('HGET', keys_of(topic).holders, key) ~= b then
        found[keys_of(topic).former] = {with_key(key, b), 0, state[STATE] > RUNNING and INDEXES or KEYLESS}
    end
    return found
end

-- Checks a member of a set of places.
for _, kind in ipairs({'d', 'l', 'f', 'g', 'o'}) do
    check[kind] = function(name, member)
        local place, b = P .. ':' .. kind .. ':' .. name, sub(member, -6)
        local state = call('ZSCORE', place, member) and (read(b) or NOT_THERE)
        local there = state and state ~= NOT_THERE and places_of(b, state)[place]
        if state and not (there and there[1] == member) and wrong(state ~= NOT_THERE and TWICE or NO_JOB, b) then
            call('ZREM', place, member)
        end
    end
end

-- Checks a key and its holder.
function check.k(name, key)
    local b = call('HGET', keys_of(name).holders, key)
    local state = b and read(b)
    local fits = state and state[TEXT].topic == name and state[TEXT].key == key and state[STATE] <= RUNNING
    if b and not fits and wrong(KEYS_OF_NONE, b) then
        call('HDEL', keys_of(name).holders, key)
    end
end

-- Checks a note, wherever it stands.
function check.e(_, note)
    local packed = call('HGET', P .. NOTES.values, note)
    local over = packed and struct.unpack('>d', packed) or math.huge
    local listed, ends = call('ZSCORE', P .. NOTES.names, note), tonumber(call('ZSCORE', P .. NOTES.ends, note)) or math.huge
    if (not packed ~= not listed or ends ~= over) and wrong(NOTES_LISTED, note) then
        call('ZREM', P .. NOTES.names, note)
        call('ZREM', P .. NOTES.ends, note)
        if packed then
            keep_value(NOTES, note, sub(packed, 9), over < math.huge and over or nil)
        end
    end
end

-- Drops a value that belongs to no job.
local function check_stray(b, there, known, ...)
    if there == 1 and not known and wrong(HISTORY, b) then
        call(...)
    end
end

function check.s(_, b)
    local key = chunk(':s:', b)
    check_stray(b, call('HEXISTS', key, b), call('HEXISTS', chunk(':j:', b), b) == 1, 'HDEL', key, b)
end

-- Checks a result: the state of its job must know it.
function check.r(_, b)
    local state, key = state_of(b), chunk(':r:', b)
    check_stray(b, call('HEXISTS', key, b), state and state[RESULT] == 1, 'HDEL', key, b)
end

-- Checks a history, by the number of its job.
function check.h(_, id)
    local b = bid(tonumber(id))
    check_stray(b, call('EXISTS', history_of(b)), call('HEXISTS', chunk(':s:', b), b) == 1, 'DEL', history_of(b))
end

-- Adds a job to a place where it is missing.
local function check_place(b, state, place, member, score, fault)
    local there, topic = tonumber(call('ZSCORE', place, member)), state[TEXT].topic
    local known = state[STATE] ~= DELAYED or topic_named(topic).by_name[lane_name(state[PRIORITY], state[LOST])]
    if there and (not score or there == score) and (fault ~= NOWHERE or known) or not wrong(fault, b) then
        return
    elseif fault == NOWHERE then
        call('ZADD', lane(topic, state[PRIORITY], state[LOST]), 'NX', state[DUE], b)
    elseif fault == KEYLESS and not call('HGET', keys_of(topic).holders, state[TEXT].key) then
        call('HSET', keys_of(topic).holders, state[TEXT].key, b)
    else
        call('ZADD', place, score, member)
    end
end

-- Checks a job.
function check.j(name, b)
    local state = read(b)
    if not state then
        return
    end
    local topic = state[TEXT].topic
    if b == ARGV[at] and not call('ZSCORE', K.chunks, name) and wrong(INDEXES, b) then
        call('ZADD', K.chunks, floor(number(b) / 256), name)
    end
    if number(b) > tonumber(call('GET', K.last_id) or 0) and wrong(IDS_GIVEN, b) then
        call('SET', K.last_id, digits(number(b)))
    end
    if not topic_named(topic).value and wrong(TOPICS, b) then
        lane(topic, 0)
    end
    for place, there in pairs(places_of(b, state)) do
        check_place(b, state, place, unpack(there, 1, 3))
    end
    local ends = ends_of(max(state[STATE], DONE))
    if not call('ZSCORE', ends, topic) and wrong(INDEXES, b) then
        call('ZADD', ends, '-inf', topic) -- a purge corrects it
    end
    local first = state[STATE] == RUNNING and tonumber(call('ZSCORE', K.leases, topic) or math.huge)
    if first and first > state[LEASE] and wrong(INDEXES, b) then
        call('ZADD', K.leases, 'LT', state[LEASE], topic)
    end
end

-- Checks members of a key of some kind, and mends the faults with `mend`. Returns numbers of faults, and ids, or names of notes:
-- stores/redis/verify.py names them.
function api.verify(asked)
    local name = take()
    wrongs, mends = {}, asked.mend
    for place = at, #ARGV do
        check[asked.kind](name, ARGV[place])
    end
    return wrongs
end
api.mend = api.verify
